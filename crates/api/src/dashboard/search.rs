//! Renders the search in an agent's archive.

use maud::{Markup, html};

use super::{
    archive::dot,
    frame::{DashboardArea, Frame, agent_head, agent_tabs, page},
    text::{agent_path, count, exchange_path, line, moment, tokens},
};
use crate::recall::{RecallMatch, RecallReply};
use recapd_core::domain::{agent::AgentId, legs::continues, number::i64_or_max};

pub struct Search {
    pub agent: AgentId,
    /// The query; empty before the first search.
    pub query: String,
    /// The matches, or what is wrong with the query; `None` before the first search.
    pub outcome: Option<Result<RecallReply, String>>,
}

pub fn search_page(frame: &Frame, search: &Search) -> String {
    let agent = &search.agent;
    let content = html! {
        (agent_head(agent, "Search", &html! {}))
        (agent_tabs(frame, agent, "Search"))
        form.search method="get" role="search" action=(format!("{}/search", agent_path(agent))) {
            label for="q" { "Words, or a \"phrase in quotation marks\"" }
            input #q name="q" type="search" value=(search.query) maxlength="400" spellcheck="false" required autofocus;
            button type="submit" { "Search" }
        }
        (answer(frame, search))
    };
    page(frame, DashboardArea::Agents, &format!("Search in {agent}"), &content)
}

fn answer(frame: &Frame, search: &Search) -> Markup {
    html! {
        @match &search.outcome {
            None => {},
            Some(Err(why)) => { p.refused role="alert" { (why) } },
            Some(Ok(reply)) => { (results(frame, &search.agent, reply)) },
        }
    }
}

fn results(frame: &Frame, agent: &AgentId, reply: &RecallReply) -> Markup {
    let match_count = i64_or_max(reply.found.len());
    html! {
        p.facts role="status" {
            @if match_count == 0 { "Nothing found" } @else { (count(match_count, "exchange")) ", best first" }
            @if reply.has_more { "; there are more" }
            @if reply.unsearched_messages > 0 { " · " (count(reply.unsearched_messages, "message")) " not searched yet" }
        }
        ol.found { @for found in &reply.found { (entry(frame, agent, found)) } }
    }
}

/// Shows the exchange's title. For a later leg without a title, shows which exchange it continues.
fn heading(found: &RecallMatch) -> Markup {
    let continued = found.continues.filter(|_| found.title.is_empty());
    html! {
        @match continued {
            Some(first) => { (continues(first)) },
            None => bdi { (line(&found.title)) },
        }
    }
}

fn entry(frame: &Frame, agent: &AgentId, found: &RecallMatch) -> Markup {
    let path = exchange_path(agent, found.exchange);
    html! {
        li {
            h2 { a href=(path) { "#" (found.exchange) " " (heading(found)) } }
            p.facts {
                span.dot.(dot(found.place)) aria-hidden="true" {} (found.place.words()) " · " (tokens(found.tokens)) " tokens · "
                (moment(found.ended_at, frame.now))
                @if !found.missing.is_empty() { " · without " (found.missing.join(", ")) }
            }
            ul {
                @for excerpt in &found.excerpts {
                    li { a href=(format!("{path}?after={}#m{}", excerpt.seq - 1, excerpt.seq)) { (line(&excerpt.kind.replace('_', " "))) } ": " bdi { (excerpt.text) } }
                }
            }
        }
    }
}
