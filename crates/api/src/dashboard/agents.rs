//! Renders the list of agents.

use maud::{Markup, html};

use super::{
    frame::{DashboardArea, Frame, live, next_page, page},
    text::{agent_path, count, dollars, grouped, moment, percent, tokens},
};
use recapd_core::domain::{
    agent::AgentId,
    spend::{SpendLimits, SpendTotal},
};
use recapd_store::AgentRow;

pub struct AgentLine {
    pub row: AgentRow,
    pub spent: SpendTotal,
    /// The agent's spending limits for a day.
    pub limits: SpendLimits,
}

pub struct AgentList {
    /// Ordered by id.
    pub lines: Vec<AgentLine>,
    /// The id after which the page begins.
    pub after: Option<AgentId>,
    /// The id after which the next page begins; `None` on the last page.
    pub next: Option<AgentId>,
    pub summary_tokens_max: i64,
}

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
        (live(frame, "list", "wide", &html! { (table(frame, list)) }))
        (next_page(list.next.as_ref().map(|next| format!("/ui/agents?cursor={next}")), "Next page"))
    };
    page(frame, DashboardArea::Agents, "Agents", &content)
}

fn table(frame: &Frame, list: &AgentList) -> Markup {
    html! {
        @if list.lines.is_empty() {
            p.empty { "No agents yet. An agent's first message creates it: " code { "POST /v1/agents/{id}/messages" } }
        } @else {
            table {
                thead { tr {
                    th scope="col" { "Agent" } th scope="col" { "Window" } th scope="col" { "Summary" }
                    th.num scope="col" { "Waiting" } th.num scope="col" { "Newest" } th.num scope="col" { "Spent today" } th scope="col" { "Last written" }
                } }
                tbody { @for agent_line in &list.lines { (line(frame, list, agent_line)) } }
            }
        }
    }
}

fn line(frame: &Frame, list: &AgentList, agent_line: &AgentLine) -> Markup {
    let row = &agent_line.row;
    let ledger = &row.ledger;
    let pending = row.pending_exchanges;
    html! {
        tr #(format!("a-{}", row.agent)) {
            th scope="row" {
                a href=(agent_path(&row.agent)) { (row.agent) }
                @if let Some(project) = &row.project { span.note { (project) } }
            }
            td data-name="Window" { (gauge(ledger.window_tokens(), row.budget_tokens, "window")) }
            td data-name="Summary" {
                @if row.version == 0 { span.note { "none" } }
                @else { (gauge(row.summary_tokens, list.summary_tokens_max, "summary")) }
            }
            td.num data-name="Waiting" { @if pending > 0 { (grouped(pending)) span.note { @if let Some(since) = row.pending_since { (moment(since, frame.now)) } } } @else { "0" } }
            td.num data-name="Newest" { "#" (ledger.last_exchange) }
            td.num data-name="Spent today" { (spent(agent_line)) }
            td data-name="Last written" { (moment(row.updated_at, frame.now)) }
        }
    }
}

/// Shows what was spent in the unit that has a limit: dollars, otherwise tokens, otherwise calls. Without a limit, shows
/// dollars, or tokens if no call has a known price.
fn spent(agent_line: &AgentLine) -> Markup {
    let (spent, limits) = (agent_line.spent, agent_line.limits);
    let limited = [
        (limits.cost_microusd, spent.cost_microusd, dollars as fn(i64) -> String),
        (limits.tokens, spent.tokens, |number| format!("{} tokens", tokens(number))),
        (limits.calls, spent.calls, |number| count(number, "call")),
    ];
    let limited = limited.into_iter().find(|(limit, ..)| *limit > 0);
    html! {
        @match limited {
            Some((limit, spent, format)) => { (format(spent)) span.note { "of " (format(limit)) } },
            None if spent.calls == 0 => { "–" },
            None if spent.unpriced_calls == spent.calls => { (tokens(spent.tokens)) " tokens" },
            None => { (dollars(spent.cost_microusd)) },
        }
    }
}

/// Draws a small bar with the numbers beside it.
fn gauge(used: i64, limit: i64, class: &str) -> Markup {
    let thousandths = if limit > 0 { (used.saturating_mul(1_000) / limit).clamp(0, 1_000) } else { 0 };
    html! {
        div.gauge {
            @if limit > 0 {
                svg.(class) viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true" focusable="false" {
                    rect.room x="0" y="0" width="1000" height="10" {}
                    rect.fill x="0" y="0" width=(thousandths) height="10" {}
                }
            }
            span { (tokens(used)) @if limit > 0 { span.note { (percent(used, limit)) } } }
        }
    }
}
