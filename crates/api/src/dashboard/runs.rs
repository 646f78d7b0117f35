//! Renders the list of runs, and single runs.

use maud::{Markup, html};

use super::{
    filter::{Filter, FilterError, RUN_STATES},
    frame::{DashboardArea, Frame, copy_button, figure, filters, live, next_page, page},
    text::{agent_path, count, dollars, duration, grouped, moment, tokens, value, visible},
};
use recapd_engine::call_log::LoggedCall;
use recapd_store::operate::{Run, RunOutcome, SEARCHED_MAX};

/// Limits the characters shown of a prompt or an answer.
const TEXT_CHARS_MAX: usize = 200_000;

pub struct RunList {
    /// Newest first.
    pub runs: Vec<Run>,
    pub filter: Result<Filter, FilterError>,
    /// The filter as the user typed it.
    pub query: String,
    /// The run after which the next page begins; `None` on the last page.
    pub next: Option<i64>,
}

pub fn runs_page(frame: &Frame, list: &RunList) -> String {
    let agent = list.filter.as_ref().ok().and_then(Filter::agent);
    let content = html! {
        header.head { div {
            @if let Some(agent) = agent { p.over { a href="/ui/agents" { "Agents" } " · " a href=(agent_path(agent)) { (agent) } } }
            h1 { "Runs" }
        } }
        (filters("/ui/runs", &list.query, &RUN_STATES))
        @match &list.filter {
            Err(error) => { p.refused role="alert" { (error) } },
            Ok(filter) => { (runs(frame, list, filter)) },
        }
    };
    page(frame, DashboardArea::Runs, "Runs", &content)
}

fn runs(frame: &Frame, list: &RunList, filter: &Filter) -> Markup {
    let next = list.next.map(|next| {
        let parameter = (!filter.is_empty()).then(|| format!("q={}&", value(filter.text())));
        format!("/ui/runs?{}cursor={next}", parameter.unwrap_or_default())
    });
    let more = if list.runs.is_empty() { "Continue searching" } else { "Older runs" };
    html! {
        (live(frame, "list", "wide", &html! {
            @if !list.runs.is_empty() { (table(frame, &list.runs)) }
            @else if list.next.is_some() { p.empty { "None of the " (grouped(SEARCHED_MAX)) " runs searched so far" } }
            @else { p.empty { "No stored run matches" } }
        }))
        (next_page(next, more))
    }
}

fn table(frame: &Frame, runs: &[Run]) -> Markup {
    html! {
        table {
            thead { tr {
                th scope="col" { "Run" } th scope="col" { "Agent" } th scope="col" { "Outcome" } th scope="col" { "Path" }
                th.num scope="col" { "Exchanges" } th.num scope="col" { "Items" } th.num scope="col" { "Document" }
                th.num scope="col" { "Cost" } th.num scope="col" { "Took" } th scope="col" { "When" }
            } }
            tbody {
                @for run in runs {
                    tr #(format!("r{}", run.run)) {
                        th scope="row" { a href=(format!("/ui/runs/{}", run.run)) { (run.run) } }
                        td data-name="Agent" { a href=(agent_path(&run.agent_id)) { (run.agent_id) } }
                        td data-name="Outcome" { (outcome(run.outcome)) @if let Some(class) = &run.error_class { span.note { (class) } } }
                        td data-name="Path" { (run.path.as_deref().unwrap_or("–")) }
                        td.num data-name="Exchanges" { (grouped(run.exchanges)) }
                        td.num data-name="Items" { "+" (grouped(run.items_added)) " −" (grouped(run.items_dropped)) }
                        td.num data-name="Document" { (run.document_tokens.map_or_else(|| "–".to_owned(), tokens)) }
                        td.num data-name="Cost" { (cost(run)) }
                        td.num data-name="Took" { (duration(run.duration_ms)) }
                        td data-name="When" { (moment(run.finished_at, frame.now)) }
                    }
                }
            }
        }
    }
}

fn outcome(outcome: RunOutcome) -> Markup {
    let (class, sign) = match outcome {
        RunOutcome::Completed => ("good", "✓"),
        RunOutcome::Failed => ("bad", "✕"),
        RunOutcome::Superseded => ("calm", "↷"),
        RunOutcome::Postponed => ("calm", "◷"),
    };
    html! { span.light.(class) { span.sign aria-hidden="true" { (sign) } " " (outcome.name()) } }
}

fn cost(run: &Run) -> String {
    match run.cost_microusd {
        Some(cost) => dollars(cost),
        None if run.model_calls == 0 => "–".to_owned(),
        None => "unknown".to_owned(),
    }
}

/// Renders a run. `calls` are those of its model calls that the daemon still has in memory.
pub fn run_page(frame: &Frame, run: &Run, calls: &[LoggedCall]) -> String {
    let agent = &run.agent_id;
    let base = agent_path(agent);
    let model = [run.provider.as_deref(), run.model.as_deref()];
    let model: Vec<&str> = model.into_iter().flatten().collect();
    let content = html! {
        header.head { div {
            p.over { a href="/ui/runs" { "Runs" } " · " a href=(base) { (agent) } }
            h1 { "Run " (run.run) }
        } }
        p.lead { (outcome(run.outcome)) " in " (duration(run.duration_ms)) ", " (moment(run.finished_at, frame.now)) }
        dl.figures {
            (figure("Asked for by", &html! { (run.reason.replace('_', " ")) }, &html! { "attempt " (run.attempt) }))
            (figure("Exchanges", &html! { (grouped(run.exchanges)) }, &covers(run)))
            (figure("Path", &html! { (run.path.as_deref().unwrap_or("–")) }, &html! { @if run.truncated { "dropped decisions or constraints to fit the ceiling" } }))
            (figure("Items", &html! { "+" (grouped(run.items_added)) " −" (grouped(run.items_dropped)) }, &html! { "added, dropped or merged away" }))
            (figure("Document", &html! { (run.document_tokens.map_or_else(|| "–".to_owned(), tokens)) },
                &html! { @if let Some(version) = run.version { a href=(format!("{base}/versions/{version}")) { "version " (version) } } }))
            (figure("Request", &html! { (tokens(run.input_tokens)) }, &html! { "tokens read in " (count(run.model_calls, "call")) }))
            (figure("Answer", &html! { (tokens(run.output_tokens)) }, &html! { "tokens written" @if run.batched { ", by a batch" } }))
            (figure("Cost", &html! { (cost(run)) }, &html! { (model.join(" ")) }))
        }
        @if let Some(error) = &run.error {
            section { h2 { "Error" } p.note { (run.error_class.as_deref().unwrap_or("")) } (copy_button(error, "the error")) pre.error dir="auto" { (visible(error, TEXT_CHARS_MAX).0) } }
        }
        (texts(run, calls))
        @if let Some(version) = run.version.filter(|version| *version > 1) {
            p.more { a href=(format!("{base}/diff?from={}&to={version}", version - 1)) { "What it changed" } }
        }
    };
    page(frame, DashboardArea::Runs, &format!("Run {}", run.run), &content)
}

/// Shows the prompts and the answers.
fn texts(run: &Run, calls: &[LoggedCall]) -> Markup {
    let block = |name: &str, text: &str| {
        let (visible_text, is_cut) = visible(text, TEXT_CHARS_MAX);
        html! {
            h3 { (name) " " span.note { (grouped(text.chars().count())) " characters" } }
            pre.body dir="auto" tabindex="0" aria-label=(name) { (visible_text) @if is_cut { "\n…" } }
        }
    };
    html! {
        @for (index, call) in calls.iter().enumerate() {
            section aria-labelledby=(format!("call-{index}")) {
                h2 #(format!("call-{index}")) { "Call " (index + 1) " " span.note { (call.asked_at.format("%H:%M:%S UTC")) } }
                div.texts {
                    div { (block("Prompt", &call.prompt)) }
                    div { @match &call.answer { Ok(answer) => (block("Answer", answer)), Err(error) => (block("Error", error)) } }
                }
            }
        }
        @if calls.is_empty() && run.model_calls > 0 {
            p.note { "A daemon keeps the prompts and answers of its own calls in memory for an hour. These are older, or another daemon made the calls." }
        }
    }
}

fn covers(run: &Run) -> Markup {
    html! {
        @if let (Some(after), Some(through)) = (run.covers_after, run.covers_through) {
            @if through > after { "#" (after + 1) " to #" (through) } @else { "none newly covered" }
        }
    }
}
