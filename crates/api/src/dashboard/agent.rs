//! Renders an agent's page. The map of its history is on top. Three columns follow in the map's order: summary,
//! waiting, window.

use maud::{Markup, html};

use super::{
    document::{Placement, document},
    frame::{DashboardArea, Frame, action, agent_tabs, copy_button, live, next_page, page},
    health::{HealthStatus, banner, provider},
    map::{HistoryTokens, map, numbers},
    queue::wait,
    text::{agent_path, count, exchange_path, line, moment, percent, tokens},
};
use recapd_core::domain::{
    access::Scope,
    exchange::{Exchange, ExchangeState},
    ledger::CutPoint,
    legs::{continues, title},
};
use recapd_store::{
    AgentRow, ExchangePlace, StoredExchange, SummaryRow,
    operate::{QueueRow, QueueState},
};
use recapd_telemetry::metrics::Circuit;

pub struct AgentScreen {
    pub row: AgentRow,
    /// Points of the history for the map. They include the last summarised exchange and the first of the window.
    pub landmarks: Vec<CutPoint>,
    /// The newest exchanges of the window, oldest first.
    pub window: Vec<StoredExchange>,
    /// The newest pending exchanges, oldest first.
    pub pending: Vec<StoredExchange>,
    pub summary: Option<SummaryRow>,
    pub summary_tokens_max: i64,
    pub queued: Option<QueueRow>,
    /// One for each configured model.
    pub circuits: Vec<Circuit>,
}

pub fn agent_screen(frame: &Frame, screen: &AgentScreen) -> String {
    let row = &screen.row;
    let agent = &row.agent;
    let content = html! {
        header.head {
            div {
                p.over { a href="/ui/agents" { "Agents" } @if let Some(project) = &row.project { " · project " (project) } }
                div.name { h1 { (agent) } (copy_button(agent.as_str(), "the agent's name")) }
            }
            (agent_tabs(frame, agent, "Now"))
            (actions(frame, screen))
        }
        (live(frame, "status", "banners", &status(frame, screen)))
        (live(frame, "map", "history", &map(agent, row, &screen.landmarks)))
        div.columns {
            (live(frame, "summary", "column", &summary(screen)))
            (live(frame, "pending", "column", &pending(frame, screen)))
            (live(frame, "window", "column", &window(frame, screen)))
        }
    };
    page(frame, DashboardArea::Agents, agent.as_str(), &content)
}

fn actions(frame: &Frame, screen: &AgentScreen) -> Markup {
    let path = agent_path(&screen.row.agent);
    let viewer = &frame.viewer;
    let queued = screen.queued.as_ref();
    let is_paused = queued.is_some_and(|row| row.state == QueueState::Paused);
    html! {
        div.actions {
            @if viewer.may(Scope::Write) {
                (action(viewer, &format!("{path}/refresh"), "Update now", "Updates the summary now, even if the update waits for something."))
            }
            @if viewer.may(Scope::Admin) {
                @if is_paused {
                    (action(viewer, &format!("{path}/resume"), "Resume", "Resumes this agent's updates."))
                } @else {
                    (action(viewer, &format!("{path}/pause"), "Pause", "Stops this agent's updates until they are resumed. Nothing is lost: exchanges wait until then."))
                }
            }
        }
    }
}

/// Shows what is wrong. Quotes the provider's message if there is one.
fn status(frame: &Frame, screen: &AgentScreen) -> Markup {
    let (row, ledger) = (&screen.row, &screen.row.ledger);
    let provider = Some(provider(None, &screen.circuits, frame.now)).filter(HealthStatus::is_fault);
    let stuck =
        screen.queued.as_ref().filter(|row| row.last_error.is_some() || row.state == QueueState::Paused);
    let is_over = row.kept_budget().is_exceeded_by(ledger.window_tokens());
    html! {
        @if let Some(provider) = &provider { (banner(provider)) }
        @if let Some(queued) = stuck {
            div.banner.(if queued.state == QueueState::Parked { "bad" } else { "warn" }) role="status" {
                strong { "Update " (queued.state.name()) } " " (wait(queued, frame.now))
                @if let Some(error) = &queued.last_error { ": " bdi { (line(error)) } }
            }
        }
        @if is_over {
            div.banner.warn role="status" { strong { "Over budget" } " the newest part of the conversation alone is bigger than the window, and it always stays" }
        }
    }
}

/// Renders the head of a column: its name, the range of its exchanges, their size, and a note.
fn column_head(name: &str, class: &str, exchanges: Option<String>, size: &Markup, note: &Markup) -> Markup {
    html! {
        header.(class) {
            h2 { (name) @if let Some(exchanges) = exchanges { " " span.range { (exchanges) } } span.size { (size) } }
            p { (note) }
        }
    }
}

fn summary(screen: &AgentScreen) -> Markup {
    let (row, ledger) = (&screen.row, &screen.row.ledger);
    let source = HistoryTokens::of(row, &screen.landmarks).covered;
    let through = Some(ledger.summarized_through).filter(|_| row.version > 0);
    let size =
        html! { @if row.version > 0 { (tokens(row.summary_tokens)) " tokens, made from " (tokens(source)) } };
    let note = html! {
        @if row.version > 0 {
            "version " (row.version) ", " (percent(row.summary_tokens, screen.summary_tokens_max)) " of " (tokens(screen.summary_tokens_max))
        } @else if row.pending_exchanges > 0 {
            "None yet: the first update will summarise " (count(row.pending_exchanges, "exchange"))
        } @else { "None yet: the first update comes when exchanges leave the window" }
    };
    let content = screen.summary.as_ref().map_or("", |summary| summary.content.as_str());
    html! {
        (column_head("Summary", "covered", through.map(|through| numbers(1, through)), &size, &note))
        div.scroll { @if row.version > 0 { (document(&row.agent, content, Placement::Section)) } }
    }
}

fn pending(frame: &Frame, screen: &AgentScreen) -> Markup {
    let (row, ledger) = (&screen.row, &screen.row.ledger);
    let (from, through) = (ledger.summarized_through + 1, ledger.first_exchange - 1);
    let waiting = row.pending_exchanges;
    let size =
        html! { @if waiting > 0 { (tokens(HistoryTokens::of(row, &screen.landmarks).pending)) " tokens" } };
    let note = html! {
        @if waiting == 0 { "Nothing: the summary reaches up to the window" } @else {
            (count(waiting, "exchange"))
            @if let Some(since) = row.pending_since { ", the oldest " (moment(since, frame.now)) }
            @if let Some(queued) = &screen.queued { "; update: " (wait(queued, frame.now)) }
        }
    };
    let pending = &screen.pending;
    html! {
        (column_head("Waiting", "pending", (waiting > 0).then(|| numbers(from, through)), &size, &note))
        div.scroll { (list(frame, screen, pending)) (older_link(screen, from, pending)) }
    }
}

fn window(frame: &Frame, screen: &AgentScreen) -> Markup {
    let (row, ledger) = (&screen.row, &screen.row.ledger);
    let (used, budget) = (ledger.window_tokens(), row.budget_tokens);
    let first = ledger.first_exchange.max(1);
    let range = (ledger.last_exchange >= first).then(|| numbers(first, ledger.last_exchange));
    let size = html! { (tokens(used)) @if budget > 0 { " of " (tokens(budget)) } " tokens" };
    let note = html! {
        @if budget > used { "What the model sees; room for " (tokens(budget - used)) " more" } @else { "What the model sees word for word" }
        "; last changed " (moment(row.updated_at, frame.now))
    };
    html! {
        (column_head("Window", "window", range, &size, &note))
        div.scroll { (list(frame, screen, &screen.window)) (older_link(screen, first, &screen.window)) }
    }
}

/// Renders a list of exchanges, the newest on top.
fn list(frame: &Frame, screen: &AgentScreen, exchanges: &[StoredExchange]) -> Markup {
    html! {
        @if !exchanges.is_empty() {
            ol.rows reversed { @for stored in exchanges.iter().rev() { (entry(frame, screen, &stored.exchange)) } }
        }
    }
}

fn entry(frame: &Frame, screen: &AgentScreen, exchange: &Exchange) -> Markup {
    let number = exchange.exchange;
    let ledger = &screen.row.ledger;
    let state = match exchange.state {
        ExchangeState::Open if ExchangePlace::of(number, ledger) == ExchangePlace::Window => "open",
        ExchangeState::Interrupted => "interrupted",
        _ => "",
    };
    html! {
        li #(format!("x{number}")) data-n=(number) {
            details data-load=(exchange_path(&screen.row.agent, number)) {
                summary {
                    span.no { "#" (number) }
                    span.title { bdi { (line(&title(exchange))) } }
                    span.meta {
                        @if let Some(first) = exchange.headline.continues { (continues(first)) " · " }
                        @if !state.is_empty() { (state) " · " }
                        (tokens(exchange.tokens)) " · " (moment(exchange.last_at, frame.now))
                    }
                }
                div.inside { (entry_details(screen, exchange)) }
            }
        }
    }
}

/// Renders what an opened entry shows: the exchange's tools and answer, and a link to its page.
fn entry_details(screen: &AgentScreen, exchange: &Exchange) -> Markup {
    let headline = &exchange.headline;
    html! {
        @if !headline.tools.is_empty() {
            p {
                "Tools: "
                @for (index, (name, calls)) in headline.tools.iter().enumerate() {
                    @if index > 0 { ", " }
                    code { (line(name)) } @if *calls > 1 { " ×" (calls) }
                }
            }
        }
        @if !headline.answer.is_empty() { p { bdi { (line(&headline.answer)) } } }
        p { a href=(exchange_path(&screen.row.agent, exchange.exchange)) { "Read " (count(exchange.messages, "message")) " of #" (exchange.exchange) } }
    }
}

/// Renders a link to older exchanges if the column has older ones than `exchanges`. `first` is the column's first exchange.
fn older_link(screen: &AgentScreen, first: i64, exchanges: &[StoredExchange]) -> Markup {
    let oldest = exchanges.first().map(|stored| stored.exchange.exchange);
    let path = oldest.filter(|oldest| *oldest > first.max(1)).map(|oldest| {
        let agent = agent_path(&screen.row.agent);
        format!("{agent}/exchanges?before={oldest}")
    });
    next_page(path, "Older exchanges")
}
