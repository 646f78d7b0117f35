//! Renders a request as it would be sent: its parts by tokens, and its body.

use maud::{Markup, html};

use super::{
    frame::{DashboardArea, Frame, agent_head, agent_tabs, page},
    text::{agent_path, grouped, percent, tokens, visible},
};
use crate::context::{ContextReply, RequestPart};
use recapd_core::formats::outgoing::RequestFormat;

/// Limits the characters of a body that are shown.
const BODY_CHARS_MAX: usize = 400_000;
const WIDTH: i64 = 1_000;

pub fn request_page(frame: &Frame, request: &ContextReply) -> String {
    let agent = &request.agent_id;
    let title = "The next request";
    let content = html! {
        (agent_head(agent, title, &html! {}))
        (agent_tabs(frame, agent, "Request"))
        nav.tabs.states aria-label="Format" {
            ul {
                @for format in RequestFormat::ALL {
                    li {
                        a href=(format!("{}/context?format={}", agent_path(agent), format.name())) aria-current=[(format == request.format).then_some("page")] { (format.name()) }
                    }
                }
            }
        }
        p.facts {
            (grouped(request.tokens)) " tokens" @if let Some(limit) = request.limit_tokens { " of " (grouped(limit)) }
            @if request.summary_version > 0 { ", with version " (request.summary_version) " of the summary" }
            ", and the window from #" (request.first_exchange.max(1)) " on. The client adds its tools and its system prompt."
        }
        @if request.over_budget { p.notice { "The request exceeds its limit, because the newest exchange alone is too big." } }
        div.wide { (parts(request)) }
        @for note in &request.notes { p.notice { (note) } }
        h2 { "Body" }
        (body(request))
    };
    page(frame, DashboardArea::Agents, &format!("Request of {agent}"), &content)
}

fn parts(request: &ContextReply) -> Markup {
    html! {
        table {
            thead { tr { th scope="col" { "Part" } th.num scope="col" { "Pieces" } th.num scope="col" { "Tokens" } th.num scope="col" { "Share" } th scope="col" { span.quiet-hear { "Share as a bar" } } } }
            tbody {
                @for part in &request.parts {
                    tr {
                        th scope="row" { (part.name) }
                        td.num data-name="Pieces" { (grouped(part.pieces)) }
                        td.num data-name="Tokens" { (grouped(part.tokens)) }
                        td.num data-name="Share" { (percent(part.tokens, request.tokens)) }
                        td.gauge { (bar(part, request.tokens)) }
                    }
                }
            }
        }
    }
}

fn bar(part: &RequestPart, total: i64) -> Markup {
    let width = part.tokens.saturating_mul(WIDTH) / total.max(1);
    html! {
        svg viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true" focusable="false" {
            rect.room x="0" y="0" width=(WIDTH) height="10" {}
            rect.fill x="0" y="0" width=(width) height="10" {}
        }
    }
}

fn body(request: &ContextReply) -> Markup {
    let text = format!("{:#}", request.body);
    let (visible_text, is_cut) = visible(&text, BODY_CHARS_MAX);
    html! {
        pre.body dir="auto" tabindex="0" { (visible_text) }
        @if is_cut { p.note { "Cut here: the body has " (tokens(recapd_core::domain::number::i64_or_max(text.len()))) " bytes" } }
    }
}
