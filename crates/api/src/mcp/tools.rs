//! Calls the tools.

use rmcp::model::{CallToolResult, ContentBlock, JsonObject};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    STATUS_AGENTS, SUMMARY_TOKENS, TEXT_CHARS_MAX,
    arguments::{Arguments, Wrong},
    expand::{ExpandView, numbers},
    source::{Source, SourceError},
};
use crate::recall::{self, ExpandQuery, MESSAGES_SHOWN};
use recapd_client::Summary;
use recapd_core::{
    domain::{
        agent::AgentId,
        number::count,
        own_output::FOUND_HINT,
        summary::{pending::with_pending, render::in_place_of_nothing},
    },
    tokenizer,
};
use recapd_platform::threads;
use recapd_store::MessageScope;

/// The least and the most tokens of a summary that can be requested.
pub(super) const SUMMARY_TOKENS_MIN: i64 = 100;
pub(super) const SUMMARY_TOKENS_MAX: i64 = 25_000;
/// How many exchanges a search returns by default, and at most.
pub(super) const FOUND: i64 = 10;
pub(super) const FOUND_MAX: i64 = 20;
const EXPANDED_MAX: usize = 100;

#[derive(Debug)]
pub(super) enum ToolRefusal {
    UnknownTool,
    /// An error for the model, which may try again.
    Told(String),
}

impl From<Wrong> for ToolRefusal {
    fn from(Wrong(text): Wrong) -> Self {
        Self::Told(text)
    }
}

impl From<SourceError> for ToolRefusal {
    fn from(error: SourceError) -> Self {
        Self::Told(match &error {
            SourceError::UnknownAgent(_) => {
                format!("`agent`: {error}; call status without an agent to see which there are")
            }
            SourceError::UnknownExchange { .. } => {
                format!(
                    "`exchanges`: {error}; a summary names them behind a #, and recall finds them by words"
                )
            }
            SourceError::Refused(_) | SourceError::Unavailable(_) => error.to_string(),
        })
    }
}

pub(super) fn prompt_arguments(given: Option<JsonObject>) -> Result<AgentId, String> {
    let arguments = Arguments::read(given, &["agent"]);
    let agent = arguments.and_then(|arguments| arguments.agent());
    agent.map_err(|Wrong(text)| text)
}

pub(super) async fn call(
    source: &dyn Source,
    name: &str,
    given: Option<JsonObject>,
) -> Result<CallToolResult, ToolRefusal> {
    match name {
        "summary_get" => summary(source, Arguments::read(given, &["agent", "max_tokens"])?).await,
        "recall" => search(source, Arguments::read(given, &["agent", "query", "limit"])?).await,
        "expand" => expand(source, Arguments::read(given, &["agent", "exchanges", "after"])?).await,
        "status" => match Arguments::read(given, &["agent"])?.agent_if_any()? {
            Some(agent) => status_of(source, &agent).await,
            None => status(source).await,
        },
        _ => Err(ToolRefusal::UnknownTool),
    }
}

/// Makes an answer of text for the model and data for the host.
fn answer(text: impl Into<String>, data: Value) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    result.structured_content = Some(data);
    result
}

fn data(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

async fn summary(source: &dyn Source, arguments: Arguments) -> Result<CallToolResult, ToolRefusal> {
    let agent = arguments.agent()?;
    let range = SUMMARY_TOKENS_MIN..=SUMMARY_TOKENS_MAX;
    let max_tokens = arguments.integer("max_tokens", range)?.unwrap_or(SUMMARY_TOKENS);
    let whole = source.summary(&agent).await?;
    let is_shortened = whole.tokens > max_tokens;
    let shown = if is_shortened {
        shortened(whole, max_tokens).await?
    } else {
        whole
    };
    let mut text = match shown.content.trim_end() {
        "" if is_shortened => "(no room: ask with a larger max_tokens)".to_owned(),
        "" => in_place_of_nothing(shown.covers_through > 0 || shown.pending_exchanges > 0).to_owned(),
        content => content.to_owned(),
    };
    if let Some(since) = shown.stale_since {
        let since = since.to_string();
        text.extend(["\n\n(the database is away: this is the copy of ", &since, ")"]);
    }
    if is_shortened {
        text.push_str("\n\n(shortened: ask with a larger max_tokens for the rest)");
    }
    let mut data = data(&shown);
    data["shortened"] = is_shortened.into();
    Ok(answer(text, data))
}

/// Shortens a summary to the tokens that may be shown. Runs on another thread, since counting takes some milliseconds.
async fn shortened(whole: Summary, tokens_max: i64) -> Result<Summary, ToolRefusal> {
    let cut = threads::computed("cutting an excerpt", move || {
        let counter = tokenizer::ceiling_counter();
        let (content, tokens) = with_pending(&whole.content, &[], tokens_max, counter.as_ref());
        Summary {
            content,
            tokens,
            ..whole
        }
    });
    cut.await.map_err(|panicked| {
        tracing::error!(error = %panicked, "mcp.panicked");
        ToolRefusal::Told(panicked.to_string())
    })
}

async fn search(source: &dyn Source, arguments: Arguments) -> Result<CallToolResult, ToolRefusal> {
    let agent = arguments.agent()?;
    let cure = "give the words to look for, and phrases in quotation marks";
    let words = arguments
        .text("query")?
        .ok_or_else(|| Wrong::new("query", "is missing", cure))?;
    let limit = arguments.integer("limit", 1..=FOUND_MAX)?.unwrap_or(FOUND);
    let found = source.recall(&agent, words, limit).await;
    let mut reply = found.map_err(|error| match error {
        SourceError::Refused(text) => ToolRefusal::Told(format!("`query`: {text}")),
        error => error.into(),
    })?;
    while data(&reply).to_string().chars().count() > TEXT_CHARS_MAX && reply.found.pop().is_some() {
        reply.has_more = true;
    }
    let mut text = recall::found_list(&reply);
    if !reply.found.is_empty() {
        text.extend(["\n", FOUND_HINT]);
    }
    if reply.has_more {
        text.push_str("\n(more was found: give more words, or a larger limit)");
    }
    Ok(answer(text, data(&reply)))
}

async fn expand(source: &dyn Source, arguments: Arguments) -> Result<CallToolResult, ToolRefusal> {
    let agent = arguments.agent()?;
    let wanted = arguments.exchanges("exchanges", EXPANDED_MAX)?;
    let after_seq = arguments.integer("after", 0..=i64::MAX)?.unwrap_or(0);
    let query = ExpandQuery {
        after_seq,
        limit: MESSAGES_SHOWN,
        format: None,
        scope: MessageScope::Conversation,
    };
    let mut shown = ExpandView::new(agent.clone(), TEXT_CHARS_MAX);
    for &exchange in &wanted {
        if !shown.has_room() {
            shown.left_out.push(exchange);
            continue;
        }
        match source.expand(&agent, exchange, query).await {
            Ok(reply) => shown.add(reply),
            Err(SourceError::UnknownExchange { .. }) => shown.unknown.push(exchange),
            Err(error) => return Err(error.into()),
        }
    }
    if shown.exchanges.is_empty() {
        return Err(ToolRefusal::Told(format!(
            "`exchanges`: agent `{agent}` has no {}; a summary names them behind a #, and recall finds them by words",
            numbers(&wanted)
        )));
    }
    Ok(answer(shown.text(), data(&shown)))
}

async fn status_of(source: &dyn Source, agent: &AgentId) -> Result<CallToolResult, ToolRefusal> {
    let document = source.summary(agent).await?;
    let view = source.window(agent).await?;
    let (tokens, budget) = (&view["window"]["tokens"], &view["budget_tokens"]);
    let updated_at = document.updated_at;
    let running = running(&view);
    let told = running.map_or_else(String::new, |number| format!("\nrunning: exchange #{number}"));
    let text = format!(
        "window: {tokens} of {budget} tokens, {} from #{} on\nsummary: {}\npending: {}{}{told}",
        count(view["window_total"].as_i64().unwrap_or_default(), "exchange"),
        document.first_exchange,
        updated_at.map_or_else(
            || "none yet".to_owned(),
            |at| format!(
                "version {} of {at}, {} tokens, covers through #{}",
                document.version, document.tokens, document.covers_through
            )
        ),
        count(document.pending_exchanges, "exchange"),
        document
            .pending_since
            .map_or_else(String::new, |since| format!(" since {since}")),
    );
    let data = json!({
        "agent_id": agent,
        "summary": {
            "version": document.version,
            "tokens": document.tokens,
            "updated_at": updated_at,
            "covers_through": document.covers_through,
            "stale_since": document.stale_since,
        },
        "window": {
            "tokens": tokens,
            "budget_tokens": budget,
            "exchanges": view["window_total"],
            "first_exchange": document.first_exchange,
        },
        "running_exchange": running,
        "archived_exchanges": view["archived_total"],
        "pending_exchanges": document.pending_exchanges,
        "pending_since": document.pending_since,
    });
    Ok(answer(text, data))
}

/// Returns the first leg of the exchange in which more is expected.
fn running(view: &Value) -> Option<i64> {
    let newest = view["exchanges"].as_array()?.last()?;
    let number = newest["continues"].as_i64().or(newest["n"].as_i64());
    number.filter(|_| newest["state"] == "open")
}

async fn status(source: &dyn Source) -> Result<CallToolResult, ToolRefusal> {
    let page = source.agents(None, STATUS_AGENTS).await?;
    // A token for some agents gets no figures about all.
    let sample = match source.sample().await {
        Ok(sample) => Some(sample),
        Err(SourceError::Refused(_)) => None,
        Err(error) => return Err(error.into()),
    };
    let mut lines: Vec<String> = page
        .agents
        .iter()
        .map(|agent| {
            format!(
                "{}: {}, window of {} tokens, summary version {}, {} pending",
                agent.agent_id,
                count(agent.exchanges, "exchange"),
                agent.window_tokens,
                agent.version,
                agent.pending_exchanges
            )
        })
        .collect();
    if lines.is_empty() {
        lines.push("(no agents yet: one is made by its first message)".to_owned());
    }
    if page.next_cursor.is_some() {
        lines.push("(there are more agents than these)".to_owned());
    }
    let mut data = json!({ "agents": page.agents, "has_more_agents": page.next_cursor.is_some() });
    if let (Some(sample), Some(data)) = (sample, data.as_object_mut()) {
        lines.push(format!(
            "queue: {} ready, {} running, {} parked; last 24 hours: {} updates, {} failed attempts",
            sample.ready, sample.running, sample.parked, sample.completed, sample.failed
        ));
        let queue = json!({
            "ready": sample.ready,
            "scheduled": sample.scheduled,
            "running": sample.running,
            "parked": sample.parked,
        });
        let updates = json!({ "hours": 24, "completed": sample.completed, "failed": sample.failed });
        data.insert("queue".to_owned(), queue);
        data.insert("updates".to_owned(), updates);
        data.insert("pending_since".to_owned(), json!(sample.oldest_pending_at));
    }
    Ok(answer(lines.join("\n"), data))
}
