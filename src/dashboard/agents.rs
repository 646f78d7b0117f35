//! The agents, page by page.

use maud::{Markup, html};

use super::{
    frame::{Frame, Part, next_page, page},
    text::{agent_path, moment, number, percent, tokens},
};
use crate::{domain::agent::AgentId, store::AgentRow};

/// A page of agents.
pub struct AgentList {
    /// By id.
    pub rows: Vec<AgentRow>,
    /// The page begins behind this id, or what was asked for.
    pub after: Option<AgentId>,
    /// Where the next page begins.
    pub next: Option<AgentId>,
    /// The ceiling of a summary.
    pub summary_tokens_max: i64,
}

/// The page.
pub fn agents_page(frame: &Frame, list: &AgentList) -> String {
    let content = html! {
        header.head {
            div { h1 { "Agents" } }
            form.find method="get" action="/ui/agents/find" role="search" {
                label for="find" { "Go to agent" }
                input #find name="agent" type="search" autocomplete="off" spellcheck="false" maxlength="128" required;
                button type="submit" { "Go" }
            }
        }
        div.wide #list data-live { (table(frame, list)) }
        (next_page(list.next.as_ref().map(|next| format!("/ui/agents?cursor={next}")), "Next page"))
    };
    page(frame, Part::Agents, "Agents", &content)
}

fn table(frame: &Frame, list: &AgentList) -> Markup {
    html! {
        @if list.rows.is_empty() {
            p.empty { "No agents yet. An agent is made by its first message: " code { "POST /v1/agents/{id}/messages" } }
        } @else {
            table {
                thead { tr {
                    th scope="col" { "Agent" } th scope="col" { "Window" } th scope="col" { "Summary" }
                    th.num scope="col" { "Waiting" } th.num scope="col" { "Exchanges" } th scope="col" { "Last said" }
                } }
                tbody { @for row in &list.rows { (line(frame, list, row)) } }
            }
        }
    }
}

fn line(frame: &Frame, list: &AgentList, row: &AgentRow) -> Markup {
    let ledger = &row.ledger;
    let pending = ledger.pending_numbers();
    html! {
        tr #(format!("a-{}", row.agent)) {
            th scope="row" {
                a href=(agent_path(&row.agent)) { (row.agent) }
                @if let Some(project) = &row.project { span.note { (project) } }
            }
            td { (gauge(ledger.window_tokens(), row.budget_tokens, "window")) }
            td {
                @if row.version == 0 { span.note { "none" } }
                @else { (gauge(row.summary_tokens, list.summary_tokens_max, "summary")) }
            }
            td.num { @if pending > 0 { (number(pending)) span.note { @if let Some(since) = row.pending_since { (moment(since, frame.now)) } } } @else { "0" } }
            td.num { (number(ledger.last_exchange)) }
            td { (moment(row.updated_at, frame.now)) }
        }
    }
}

/// A small bar with what it says beside it.
fn gauge(used: i64, whole: i64, class: &str) -> Markup {
    let tenths = if whole > 0 {
        (used.saturating_mul(1_000) / whole).clamp(0, 1_000)
    } else {
        0
    };
    html! {
        div.gauge {
            @if whole > 0 {
                svg.(class) viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true" focusable="false" {
                    rect.room x="0" y="0" width="1000" height="10" {}
                    rect.fill x="0" y="0" width=(tenths) height="10" {}
                }
            }
            span { (tokens(used)) @if whole > 0 { span.note { (percent(used, whole)) } } }
        }
    }
}
