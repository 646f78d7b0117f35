//! Renders one exchange: its messages and tool calls, verbatim.

use maud::{Markup, html};

use super::{
    frame::{DashboardArea, Frame, agent_head, agent_tabs, next_page, page},
    text::{agent_path, count, exchange_path, line, moment, tokens, visible},
};
use recapd_core::domain::{
    agent::AgentId,
    exchange::PREAMBLE,
    legs::{Legs, title},
    message::{Kind, Part as Piece},
    number::i64_or_max,
};
use recapd_store::{ExpandedExchange, StoredMessage};

/// Limits the characters shown of one piece of a message. A link leads to the rest.
pub const MESSAGE_CHARS_MAX: usize = 4_000;
/// Limits the characters shown of all pieces on a page. Links lead to further pieces.
const PAGE_CHARS_MAX: usize = 200_000;

pub struct ExchangePage {
    pub agent: AgentId,
    /// The exchange, with some of its messages.
    pub expanded: ExpandedExchange,
    /// The legs of the exchange, if it has several.
    pub legs: Option<Legs>,
}

pub fn exchange_page(frame: &Frame, view: &ExchangePage) -> String {
    let (agent, placed) = (&view.agent, &view.expanded.placed);
    let exchange = &placed.exchange;
    let number = exchange.exchange;
    let path = exchange_path(agent, number);
    let last = view.expanded.messages.last().filter(|_| view.expanded.has_more);
    let content = html! {
        (agent_head(agent, &format!("Exchange #{number}"), &html! {}))
        (agent_tabs(frame, agent, "Exchanges"))
        p.lead { bdi { (line(&title(exchange))) } }
        (legs(view))
        p.facts {
            (placed.place.words())
            @if let Some(version) = placed.summary_version {
                " since version " a href=(format!("{}/versions/{version}", agent_path(agent))) { (version) }
            }
            " · " (tokens(exchange.tokens)) " tokens · " (count(exchange.messages, "message"))
            " · " (moment(exchange.last_at, frame.now))
            @if placed.source != *agent { " · said by " a href=(agent_path(&placed.source)) { (placed.source) } }
        }
        div.messages #messages { (messages(&path, &view.expanded.messages)) }
        (next_page(last.map(|last| format!("{path}?after={}", last.seq)), "More messages"))
        (neighbours(agent, number))
    };
    page(frame, DashboardArea::Agents, &format!("#{number} of {agent}"), &content)
}

/// Shows which exchange a leg continues. Links to the other legs.
fn legs(view: &ExchangePage) -> Markup {
    let headline = &view.expanded.placed.exchange.headline;
    let leg = |number: i64| html! { a href=(exchange_path(&view.agent, number)) { "#" (number) } };
    html! {
        @if let Some(legs) = &view.legs {
            p.facts #legs {
                @if let Some(first) = headline.continues { "Continues " (leg(first)) " · " }
                (legs.run().numbers()) @if let Some(words) = legs.run().description() { ", " (words) }
                @if let Some(previous) = legs.previous { " · previous leg " (leg(previous)) }
                @if let Some(next) = legs.next { " · next leg " (leg(next)) }
            }
        } @else if let Some(first) = headline.continues {
            p.facts #legs { "Continues " (leg(first)) }
        }
    }
}

fn neighbours(agent: &AgentId, number: i64) -> Markup {
    html! {
        nav.neighbours aria-label="Exchanges" {
            @if number > PREAMBLE + 1 { a rel="prev" href=(exchange_path(agent, number - 1)) { "← #" (number - 1) } }
            @if number > PREAMBLE { a rel="next" href=(exchange_path(agent, number + 1)) { "#" (number + 1) " →" } }
        }
    }
}

fn messages(path: &str, messages: &[StoredMessage]) -> Markup {
    let mut room = PAGE_CHARS_MAX;
    html! { @for stored in messages { (message(path, stored, &mut room)) } }
}

fn message(path: &str, stored: &StoredMessage, room: &mut usize) -> Markup {
    let message = &stored.message;
    let kind = message.kind.name();
    let class = match message.kind {
        Kind::System => "system",
        Kind::User => "user",
        Kind::Assistant => "assistant",
        Kind::ToolCall => "call",
        Kind::ToolResult => "result",
        Kind::Metadata(_) => "metadata",
    };
    let raw_path = format!("{path}/raw?after={}", stored.seq - 1);
    html! {
        article.message.(class) #(format!("m{}", stored.seq)) {
            header {
                h2 { (kind_words(kind)) @if let Some(speaker) = &message.speaker { " · " bdi { (line(speaker)) } } }
                span.meta {
                    (tokens(stored.tokens)) " tokens · " (stored.said_at.format("%Y-%m-%d %H:%M:%S UTC")) " · "
                    a href=(raw_path) { "raw" span.quiet-hear { " text of message " (stored.seq) } }
                }
            }
            @if message.is_forgotten() { p.empty { "Forgotten" } }
            @for part in &message.parts { (piece(&raw_path, part, room)) }
        }
    }
}

/// Turns `tool_call` into `tool call`.
fn kind_words(kind: &str) -> String {
    line(&kind.replace('_', " "))
}

fn piece(raw_path: &str, part: &Piece, room: &mut usize) -> Markup {
    match part {
        Piece::Text(text) => html! { (text_block(raw_path, text, room)) },
        Piece::ToolCall { name, arguments, .. } => html! {
            p.tool { span.sign aria-hidden="true" { "▸" } " " code { (line(name)) } }
            (text_block(raw_path, arguments, room))
        },
        Piece::ToolResult { name, text, .. } => html! {
            p.tool {
                span.sign aria-hidden="true" { "◂" } " "
                @if let Some(name) = name { code { (line(name)) } } @else { "result" }
                @if part.is_failed() { " " strong.failed { "failed" } }
            }
            (text_block(raw_path, text, room))
        },
        Piece::Thinking(thought) => html! {
            details.thinking { summary { "Thinking" } (text_block(raw_path, &thought.text, room)) }
        },
        Piece::Attachment { media, .. } => html! { p.tool { "Attachment: " code { (line(media)) } } },
        Piece::Opaque { kind, .. } => html! { p.tool { "Block: " code { (line(kind)) } } },
    }
}

fn text_block(raw_path: &str, text: &str, room: &mut usize) -> Markup {
    let (visible_text, is_cut) = visible(text, MESSAGE_CHARS_MAX.min(*room));
    *room = room.saturating_sub(visible_text.chars().count());
    html! {
        @if !visible_text.is_empty() { pre dir="auto" { (visible_text) } }
        @if is_cut {
            p.more { a href=(raw_path) { "Shortened: read all " (tokens(i64_or_max(text.len()))) " bytes as raw text" } }
        }
    }
}
