//! Renders the queue: which summaries need an update, why they wait, and until when.

use maud::{Markup, html};

use super::{
    filter::{Filter, FilterError, QUEUE_STATES},
    frame::{DashboardArea, Frame, action, action_on, filters, live, next_page, page},
    text::{agent_path, count, grouped, moment, span, value},
};
use recapd_core::domain::{access::Scope, agent::AgentId, time::Timestamp};
use recapd_store::operate::{QueueRow, QueueState, QueueWait, SEARCHED_MAX};

pub struct QueueList {
    /// Ordered by agent.
    pub rows: Vec<QueueRow>,
    pub filter: Result<Filter, FilterError>,
    /// The filter as the user typed it.
    pub query: String,
    /// How many rows match the filter, counted up to [`RETRIED_MAX`]; `None` without a filter.
    pub matching: Option<usize>,
    /// The agent after which the next page begins; `None` on the last page.
    pub next: Option<AgentId>,
    pub paused_since: Option<Timestamp>,
    pub retried: Option<i64>,
}

/// One press of a button makes at most this many rows due.
pub const RETRIED_MAX: usize = 1_000;

pub fn queue_page(frame: &Frame, list: &QueueList) -> String {
    let content = html! {
        header.head {
            div { h1 { "Queue" } }
            (actions(frame, list))
        }
        @if let Some(since) = list.paused_since {
            p.notice role="status" { "All updates were paused " (moment(since, frame.now)) ". Windows stay in budget, and exchanges that leave them wait." }
        }
        @if let Some(retried) = list.retried { p.done role="status" { (count(retried, "update")) " made due" } }
        (filters("/ui/queue", &list.query, &QUEUE_STATES))
        @match &list.filter {
            Err(error) => { p.refused role="alert" { (error) } },
            Ok(filter) => { (rows(frame, list, filter)) },
        }
    };
    page(frame, DashboardArea::Queue, "Queue", &content)
}

fn rows(frame: &Frame, list: &QueueList, filter: &Filter) -> Markup {
    let next = list.next.as_ref().map(|next| {
        let parameter = (!filter.is_empty()).then(|| format!("q={}&", value(filter.text())));
        format!("/ui/queue?{}cursor={next}", parameter.unwrap_or_default())
    });
    let more = if list.rows.is_empty() { "Continue searching" } else { "Next page" };
    html! {
        (live(frame, "list", "wide", &html! {
            @if !list.rows.is_empty() { (table(frame, &list.rows)) }
            @else if list.next.is_some() { p.empty { "None so far: " (grouped(SEARCHED_MAX)) " rows were searched" } }
            @else if filter.is_empty() { p.empty { "Nothing to do: every summary is up to date" } }
            @else { p.empty { "Nothing matches" } }
        }))
        (next_page(next, more))
    }
}

fn actions(frame: &Frame, list: &QueueList) -> Markup {
    let viewer = &frame.viewer;
    html! {
        @if viewer.may(Scope::Admin) && viewer.sees_all {
            div.actions {
                (retry_matching(frame, list))
                @if list.paused_since.is_some() {
                    (action(viewer, "/ui/queue/resume", "Resume all", "Resumes all updates of all daemons on this database."))
                } @else {
                    (action(viewer, "/ui/queue/pause", "Pause all", "Stops all updates of all daemons on this database until they are resumed. Updates in progress are completed."))
                }
            }
        }
    }
}

/// Renders the action that makes all rows due that match the filter.
fn retry_matching(frame: &Frame, list: &QueueList) -> Markup {
    let counted_filter = list.matching.zip(list.filter.as_ref().ok());
    let Some((matching, filter)) = counted_filter.filter(|(matching, _)| *matching > 0) else {
        return html! {};
    };
    let is_all = matching < RETRIED_MAX;
    let row_count = grouped(matching);
    let name = if is_all { format!("Retry all {row_count}") } else { format!("Retry {row_count}") };
    let limit_note = if is_all { "" } else { " If more rows match, repeat this for them." };
    let effect = format!(
        "Makes the {row_count} rows due now that match {}, with a new series of attempts. Running rows stay unchanged.{limit_note}",
        filter.text()
    );
    html! { (action_on(&frame.viewer, "/ui/queue/retry", &name, &effect, Some(("q", filter.text())))) }
}

fn table(frame: &Frame, rows: &[QueueRow]) -> Markup {
    html! {
        table {
            thead { tr {
                th scope="col" { "Agent" } th scope="col" { "State" } th scope="col" { "Asked for by" } th scope="col" { "Age" }
                th.num scope="col" { "Attempts" } th scope="col" { "Last error" }
                @if frame.viewer.may(Scope::Write) { th scope="col" { "By hand" } }
            } }
            tbody { @for row in rows { (line(frame, row)) } }
        }
    }
}

fn line(frame: &Frame, row: &QueueRow) -> Markup {
    html! {
        tr #(format!("q-{}", row.agent_id)) {
            th scope="row" { a href=(agent_path(&row.agent_id)) { (row.agent_id) } }
            td data-name="State" { (state(row.state)) span.note { (wait(row, frame.now)) } }
            td data-name="Asked for by" { (row.reason.replace('_', " ")) }
            td data-name="Age" { (span(row.age_ms)) }
            td.num data-name="Attempts" { (grouped(row.attempts)) @if row.crashes > 0 { span.note { (grouped(row.crashes)) " vanished" } } }
            td.error data-name="Last error" { @if let Some(error) = &row.last_error { bdi { (error) } } @else { "–" } }
            @if frame.viewer.may(Scope::Write) { td data-name="By hand" { (row_actions(frame, row)) } }
        }
    }
}

/// Shows a state as a sign, a word and a colour.
fn state(state: QueueState) -> Markup {
    let (class, sign) = match state {
        QueueState::Ready => ("good", "●"),
        QueueState::Running => ("good", "▶"),
        QueueState::Scheduled => ("calm", "◷"),
        QueueState::Paused => ("warn", "‖"),
        QueueState::Parked => ("bad", "■"),
    };
    html! { span.light.(class) { span.sign aria-hidden="true" { (sign) } " " (state.name()) } }
}

/// Renders why a row waits, and when it is tried next.
pub(super) fn wait(row: &QueueRow, now: Timestamp) -> Markup {
    let why = match (row.state, row.waits_for) {
        (QueueState::Running, _) => "a worker has it; its lease ends",
        (QueueState::Parked, _) => "all attempts failed, or an operator parked it",
        (_, Some(QueueWait::Batching)) => "waits for more exchanges; begins",
        (_, Some(QueueWait::Provider)) => "waits for the provider; retried",
        (_, Some(QueueWait::Backoff)) => "failed; retried",
        (_, Some(QueueWait::Batch)) => "waits for a batch's answer; checked",
        (_, Some(QueueWait::Limit)) => "a spending limit is reached; continues",
        (_, Some(QueueWait::Operator)) => "paused by an operator",
        (_, None) => "may be taken by any worker",
    };
    html! {
        (why)
        @if let Some(limit) = &row.paused_for { " (" (limit.replace('_', " ")) ")" }
        @if let (Some(at), true) = (row.next_at, row.waits_for.is_some() || row.state == QueueState::Running) { " " (moment(at, now)) }
        @if let (Some(at), QueueState::Parked) = (row.parked_at, row.state) { ", " (moment(at, now)) }
    }
}

fn row_actions(frame: &Frame, row: &QueueRow) -> Markup {
    let (viewer, id) = (&frame.viewer, &row.agent_id);
    let can_run_now = matches!(row.state, QueueState::Scheduled | QueueState::Ready);
    html! {
        div.actions {
            @if viewer.may(Scope::Write) && can_run_now {
                (action(viewer, &format!("/ui/agents/{id}/refresh"), "Run now", "Runs the update now, even if it waits for something."))
            }
            @if viewer.may(Scope::Admin) {
                @if row.state == QueueState::Paused && row.waits_for == Some(QueueWait::Operator) {
                    (action(viewer, &format!("/ui/agents/{id}/resume"), "Resume", "Resumes this agent's updates."))
                } @else {
                    @if row.state != QueueState::Running {
                        (action(viewer, &format!("/ui/queue/{id}/retry"), "Retry", "Makes the update due now, with a new series of attempts."))
                    }
                    @if row.state != QueueState::Parked {
                        (action(viewer, &format!("/ui/queue/{id}/cancel"), "Park", "Stops the update and doesn't retry it. Its exchanges wait until the next eviction, or until somebody retries the update."))
                    }
                    (action(viewer, &format!("/ui/agents/{id}/pause"), "Pause", "Stops this agent's updates until they are resumed."))
                }
            }
        }
    }
}
