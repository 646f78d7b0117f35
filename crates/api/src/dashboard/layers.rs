//! An agent's page: the window on top, the boundary, the pending exchanges below it, and the summary at the bottom.

use maud::{Markup, html};

use super::{
    document::{Level, document},
    frame::{DashboardArea, Frame, action, agent_tabs, copy_button, figure, next_page, page},
    text::{agent_path, count, exchange_path, grouped, line, moment, percent, tokens},
};
use recapd_core::domain::{
    access::Scope,
    exchange::{Exchange, ExchangeState},
    history::{fill_ratio, rule_label},
    ledger::Ledger,
    legs::{continues, title},
};
use recapd_store::{
    AgentRow, ExchangePlace, StoredExchange, SummaryRow,
    operate::{QueueRow, QueueState},
};

/// Steps of a layer's height, by its tokens. The largest exchange on the page has the last one.
const STEPS: i64 = 12;
const BAR_WIDTH: i64 = 1_000;
/// Exchanges wider than this have a gap next to them, in tenths of a unit.
const SEGMENT_GAP_FROM: i64 = 40;
const SEGMENT_GAP: i64 = 15;
/// Makes an exchange visible even if it has hardly any tokens.
const SEGMENT_WIDTH_MIN: i64 = 3;
/// A layer of at least this many steps has room for how the exchange ended.
const PEEK_FROM: i64 = 3;

pub struct Strata {
    pub row: AgentRow,
    /// The newest exchanges of the window, oldest first.
    pub window: Vec<StoredExchange>,
    /// The newest pending exchanges, oldest first.
    pub pending: Vec<StoredExchange>,
    /// The newest summarised exchanges, oldest first.
    pub covered: Vec<StoredExchange>,
    pub summary: Option<SummaryRow>,
    pub summary_tokens_max: i64,
    pub queued: Option<QueueRow>,
}

pub fn strata_page(frame: &Frame, strata: &Strata) -> String {
    let agent = &strata.row.agent;
    let ledger = &strata.row.ledger;
    let content = html! {
        header.head {
            div {
                p.over { a href="/ui/agents" { "Agents" } @if let Some(project) = &strata.row.project { " · project " (project) } }
                div.name { h1 { (agent) } (copy_button(agent.as_str(), "the agent's name")) }
            }
            (actions(frame, strata))
        }
        (agent_tabs(agent, "Strata"))
        (figures(frame, strata))
        section.stratum.window #window aria-labelledby="window-title" data-live {
            div.legend {
                h2 #window-title { "Window" }
                p { "What the model sees word for word, newest on top" }
            }
            (budget_bar(strata))
            (stack(frame, strata, &strata.window))
            (older(strata, ledger.first_exchange, &strata.window, "of the window"))
        }
        p.rule #rule data-live { span { "↑ " (rule_label(ledger.window_tokens(), strata.row.budget_tokens)) } }
        section.stratum.pending #pending aria-labelledby="pending-title" data-live {
            div.legend {
                h2 #pending-title { "Waiting for the next summary" }
                p { (waiting(strata)) }
            }
            @if !strata.pending.is_empty() { (stack(frame, strata, &strata.pending)) }
            (older(strata, ledger.summarized_through + 1, &strata.pending, "that wait"))
        }
        section.stratum.settled #settled aria-labelledby="settled-title" data-live {
            (settled(frame, strata))
        }
    };
    page(frame, DashboardArea::Agents, agent.as_str(), &content)
}

fn waiting(strata: &Strata) -> &'static str {
    if strata.row.pending_exchanges == 0 {
        "Nothing: the summary reaches up to the rule"
    } else {
        "Out of the window, not in the summary yet; readers see a line for each meanwhile"
    }
}

fn actions(frame: &Frame, strata: &Strata) -> Markup {
    let path = agent_path(&strata.row.agent);
    let viewer = &frame.viewer;
    let is_paused = strata
        .queued
        .as_ref()
        .is_some_and(|row| row.state == QueueState::Paused);
    html! {
        div.actions {
            @if viewer.may(Scope::Write) {
                (action(viewer, &format!("{path}/refresh"), "Update now", "Asks for an update of the summary at once, whatever it waits for."))
            }
            @if viewer.may(Scope::Admin) {
                @if is_paused {
                    (action(viewer, &format!("{path}/resume"), "Resume", "Goes on with this agent's updates."))
                } @else {
                    (action(viewer, &format!("{path}/pause"), "Pause", "Stops this agent's updates until they are resumed. Nothing is lost: its exchanges wait."))
                }
            }
        }
    }
}

fn figures(frame: &Frame, strata: &Strata) -> Markup {
    let (row, now) = (&strata.row, frame.now);
    let ledger = &row.ledger;
    let window = html! { (tokens(ledger.window_tokens())) };
    let of_budget = html! {
        @if row.budget_tokens > 0 {
            "of " (tokens(row.budget_tokens)) " · " (percent(ledger.window_tokens(), row.budget_tokens))
        } @else { "no budget" }
    };
    let summary = html! { (tokens(row.summary_tokens)) };
    let of_ceiling = html! {
        "of " (tokens(strata.summary_tokens_max))
        @if row.version > 0 { " · version " (row.version) } @else { " · none yet" }
    };
    let since = html! { @if let Some(since) = row.pending_since { "oldest " (moment(since, now)) } @else { "all summarised" } };
    let told = html! { "#1 to #" (ledger.last_exchange) };
    let queue = html! { @match &strata.queued { Some(row) => (state_name(row.state)), None => "idle" } };
    let why = html! { @if let Some(row) = &strata.queued { (super::queue::wait(row, now)) } @else { "nothing to be done" } };
    html! {
        dl.figures #figures data-live {
            (figure("Window", &window, &of_budget))
            (figure("Waiting", &html! { (grouped(row.pending_exchanges)) }, &since))
            (figure("Summary", &summary, &of_ceiling))
            (figure("Exchanges", &html! { (grouped(ledger.last_exchange)) }, &told))
            (figure("Last written", &html! { (moment(row.updated_at, now)) }, &html! { (count(ledger.last_seq, "message")) }))
            (figure("Update", &queue, &why))
        }
    }
}

pub(super) fn state_name(state: QueueState) -> &'static str {
    match state {
        QueueState::Ready => "ready",
        QueueState::Running => "running",
        QueueState::Scheduled => "scheduled",
        QueueState::Paused => "paused",
        QueueState::Parked => "parked",
    }
}

/// Draws the window against its budget, exchange by exchange, oldest first.
fn budget_bar(strata: &Strata) -> Markup {
    let (used, budget) = (strata.row.ledger.window_tokens().max(0), strata.row.budget_tokens);
    let whole = used.max(budget).max(1);
    let scaled = |tokens: i64| tokens.saturating_mul(BAR_WIDTH * 10) / whole;
    let shown: i64 = strata.window.iter().map(|stored| stored.exchange.tokens).sum();
    // The preamble, and exchanges that aren't shown.
    let rest = scaled(used - shown).max(0);
    let mut at = rest;
    let segments = strata.window.iter().map(|stored| {
        let (begins, width) = (at, scaled(stored.exchange.tokens));
        at += width;
        let gap = if width > SEGMENT_GAP_FROM { SEGMENT_GAP } else { 0 };
        (
            stored.exchange.exchange,
            begins,
            (width - gap).max(SEGMENT_WIDTH_MIN),
        )
    });
    let fill = fill_ratio(used, budget).map_or_else(String::new, |ratio| {
        format!(", {:.0}% of its budget", ratio * 100.0)
    });
    let label = format!("The window holds {} tokens{fill}", tokens(used));
    html! {
        svg.bar-chart viewBox="0 0 1000 20" preserveAspectRatio="none" role="img" aria-label=(label) {
            title { (label) }
            rect.room x="0" y="0" width="1000" height="20" {}
            rect.rest x="0" y="0" width=(unit(rest)) height="20" {}
            @for (number, begins, width) in segments {
                rect.seg data-n=(number) x=(unit(begins)) y="0" width=(unit(width)) height="20" {}
            }
            @if budget > 0 && used > budget { rect.over x=(unit(scaled(budget))) y="0" width="3" height="20" {} }
        }
        p.scale aria-hidden="true" {
            span { "← oldest" }
            @if budget > used { span { "room for " (tokens(budget - used)) } }
            @else if budget > 0 { span { (tokens(used - budget)) " over its budget" } }
            @else { span { "no budget" } }
        }
    }
}

fn unit(tenths: i64) -> String {
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// Draws exchanges as layers, the newest on top; their heights show their tokens.
fn stack(frame: &Frame, strata: &Strata, exchanges: &[StoredExchange]) -> Markup {
    let biggest = strata
        .window
        .iter()
        .chain(&strata.pending)
        .map(|stored| stored.exchange.tokens);
    let biggest = biggest.max().unwrap_or(1).max(1);
    html! {
        @if exchanges.is_empty() { p.empty { "Empty" } }
        @else {
            ol.stack reversed {
                @for stored in exchanges.iter().rev() { (layer(frame, strata, stored, biggest)) }
            }
        }
    }
}

fn layer(frame: &Frame, strata: &Strata, stored: &StoredExchange, biggest: i64) -> Markup {
    let exchange = &stored.exchange;
    let number = exchange.exchange;
    let step = (exchange.tokens.saturating_mul(STEPS) / biggest).clamp(0, STEPS);
    let state = state(&strata.row, exchange);
    html! {
        li.layer.(format!("t{step}")).(state.class) #(format!("x{number}")) data-n=(number) {
            details data-load=(exchange_path(&strata.row.agent, number)) {
                summary {
                    span.no { "#" (number) }
                    span.title { bdi { (line(&title(exchange))) } }
                    (leg_mark(exchange))
                    @if !state.words.is_empty() { span.state { span.sign aria-hidden="true" { (state.sign) } " " (state.words) } }
                    span.meta { (tokens(exchange.tokens)) span.unit { " tokens" } " · " (moment(exchange.last_at, frame.now)) }
                    @if step >= PEEK_FROM && !exchange.headline.answer.is_empty() {
                        span.peek { bdi { (line(&exchange.headline.answer)) } }
                    }
                }
                div.inside { (inside(strata, exchange)) }
            }
        }
    }
}

/// Says which exchange a later leg belongs to.
fn leg_mark(exchange: &Exchange) -> Markup {
    html! { @if let Some(first) = exchange.headline.continues { span.meta.leg { (continues(first)) } } }
}

/// Shows an exchange's headline, and a link to its page.
fn inside(strata: &Strata, exchange: &Exchange) -> Markup {
    let headline = &exchange.headline;
    let path = exchange_path(&strata.row.agent, exchange.exchange);
    html! {
        @if !headline.tools.is_empty() {
            p.tools {
                "Tools: "
                @for (at, (name, calls)) in headline.tools.iter().enumerate() {
                    @if at > 0 { ", " }
                    code { (line(name)) } @if *calls > 1 { " ×" (calls) }
                }
            }
        }
        @if !headline.answer.is_empty() { p.answer { bdi { (line(&headline.answer)) } } }
        p.open { a href=(path) { "Read " (count(exchange.messages, "message")) " of #" (exchange.exchange) } }
    }
}

/// How a layer differs from others: by words, a sign and a colour.
struct LayerState {
    class: &'static str,
    sign: &'static str,
    words: &'static str,
}

fn state(row: &AgentRow, exchange: &Exchange) -> LayerState {
    let ledger = &row.ledger;
    let is_newest = exchange.exchange == ledger.last_exchange;
    let place = ExchangePlace::of(exchange.exchange, ledger);
    let (class, sign, words) = match (place, exchange.state) {
        (ExchangePlace::Window, _)
            if is_newest && row.kept_budget().is_exceeded_by(ledger.window_tokens()) =>
        {
            ("over", "▲", "over budget")
        }
        (ExchangePlace::Window, ExchangeState::Open) => ("open", "◐", "open"),
        (_, ExchangeState::Interrupted) => ("interrupted", "◇", "interrupted"),
        _ => ("calm", "", ""),
    };
    LayerState { class, sign, words }
}

/// Renders the link to older exchanges that aren't shown.
fn older(strata: &Strata, first: i64, shown: &[StoredExchange], which: &str) -> Markup {
    let oldest = shown.first().map(|stored| stored.exchange.exchange);
    let path = oldest.filter(|oldest| *oldest > first.max(1)).map(|oldest| {
        let agent = agent_path(&strata.row.agent);
        format!("{agent}/exchanges?before={oldest}")
    });
    next_page(path, &format!("Older exchanges {which}"))
}

fn settled(frame: &Frame, strata: &Strata) -> Markup {
    let row = &strata.row;
    let content = strata
        .summary
        .as_ref()
        .map_or("", |summary| summary.content.as_str());
    html! {
        div.legend {
            h2 #settled-title { "Summary" @if row.version > 0 { " " span.version { "version " (row.version) } } }
            p {
                @if row.version == 0 { "None yet: it begins when exchanges leave the window" }
                @else { (tokens(row.summary_tokens)) " tokens for #1 to #" (row.ledger.summarized_through) }
            }
        }
        div.columns {
            div.items { (document(&row.agent, content, Level::Section)) }
            @if !strata.covered.is_empty() { (covered(frame, strata)) }
        }
    }
}

/// Lists the exchanges that the summary covers.
fn covered(frame: &Frame, strata: &Strata) -> Markup {
    let ledger: &Ledger = &strata.row.ledger;
    html! {
        section.covered aria-labelledby="covered-title" {
            h3 #covered-title { "Summarised exchanges" }
            ol.lines reversed {
                @for stored in strata.covered.iter().rev() {
                    @let exchange = &stored.exchange;
                    li data-n=(exchange.exchange) {
                        a href=(exchange_path(&strata.row.agent, exchange.exchange)) {
                            span.no { "#" (exchange.exchange) }
                            span.title { bdi { (line(&title(exchange))) } }
                        }
                        span.meta { @if let Some(first) = exchange.headline.continues { (continues(first)) " · " } (tokens(exchange.tokens)) " · " (moment(exchange.last_at, frame.now)) }
                    }
                }
            }
            (older(strata, ledger.summarized_through.min(1), &strata.covered, "that are summarised"))
        }
    }
}
