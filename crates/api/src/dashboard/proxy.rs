//! Renders what the proxy did for an agent.

use maud::{Markup, html};

use super::{
    frame::{DashboardArea, Frame, agent_head, agent_tabs, figure, live, page},
    text::{duration, grouped, moment, tokens},
};
use recapd_core::domain::{agent::AgentId, proxy_traffic::ProxyTraffic, time::Timestamp};
use recapd_store::operate::ProxyTotals;

pub fn proxy_page(frame: &Frame, agent: &AgentId, totals: &ProxyTotals) -> String {
    let content = html! {
        (agent_head(agent, "Proxy", &html! {}))
        (agent_tabs(frame, agent, "Proxy"))
        @if let (Some(first), Some(last)) = (totals.first_at, totals.last_at) {
            (live(frame, "traffic", "", &html! { (times(frame, first, last)) (figures(&totals.traffic)) }))
        } @else { p.empty { "None of this agent's requests went through the proxy" } }
    };
    page(frame, DashboardArea::Agents, &format!("Proxy of {agent}"), &content)
}

fn times(frame: &Frame, first: Timestamp, last: Timestamp) -> Markup {
    html! { p.facts { "Reported first " (moment(first, frame.now)) ", last " (moment(last, frame.now)) } }
}

fn figures(traffic: &ProxyTraffic) -> Markup {
    let number = |count: i64| html! { (grouped(count)) };
    let answering = (traffic.compactions_answered > 0)
        .then(|| duration(traffic.answering_ms / traffic.compactions_answered));
    let answering_note =
        html! { @if let Some(average) = answering { "from the summary, in " (average) " each" } };
    html! {
        dl.figures {
            (figure("Requests", &number(traffic.requests), &html! { "to the provider" }))
            (figure("Up", &html! { (tokens(traffic.request_bytes)) }, &html! { "bytes, as the client wrote them" }))
            (figure("Down", &html! { (tokens(traffic.answer_bytes)) }, &html! { "bytes of answers" }))
            (figure("Compactions answered", &number(traffic.compactions_answered), &answering_note))
            (figure("Compactions forwarded", &number(traffic.compactions_forwarded), &html! { "to the provider" }))
            (figure("Window steps", &number(traffic.window_steps), &html! { "changes of what requests begin with" }))
            (figure("Saved input", &html! { (tokens(traffic.saved_input_tokens)) }, &html! { "tokens that weren't sent, estimated" }))
            (figure("Failed open", &number(traffic.failed_open), &html! { "forwarded as they were, after a failure" }))
            (figure("Unstored", &number(traffic.unstored), &html! { "copies; the next request carries the conversation again" }))
        }
    }
}
