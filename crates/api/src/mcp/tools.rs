//! Calls the tools. Answers hold only text. If an answer also held structured data, hosts would show the model the data
//! instead of the text, without its hints.

use rmcp::model::{CallToolResult, ContentBlock, JsonObject};
use serde_json::Value;

use super::{
    STATUS_AGENTS, SUMMARY_TOKENS,
    arguments::{ArgumentError, Arguments},
    default_agent::AgentHints,
    expand::{self, ExpandRequest},
    source::{Source, SourceError},
    tool_set::CODEX_TOOLS,
    uri::{self, ResourceKind},
};
use crate::recall::{self, FOUND_SHOWN};
use recapd_client::Summary;
use recapd_core::{
    domain::{
        agent::AgentId,
        number::{count, i64_or_max},
        summary::{empty::WindowFill, pending::with_pending},
    },
    tokenizer,
};
use recapd_platform::threads;

/// The smallest summary that can be requested.
pub(super) const SUMMARY_TOKENS_MIN: i64 = 100;
/// The largest summary that can be requested.
pub(super) const SUMMARY_TOKENS_MAX: i64 = 25_000;
/// A search returns at most this many exchanges.
pub(super) const FOUND_MAX: i64 = 20;
/// One call can ask for at most this many exchanges.
const EXPANDED_MAX: usize = 100;
/// The smallest handoff that can be requested.
pub(super) const HANDOFF_TOKENS_MIN: i64 = 1_000;
/// A token of a handoff is counted as this many bytes of the answer.
const BYTES_PER_TOKEN: i64 = 4;

#[derive(Debug)]
pub(super) enum ToolRefusal {
    UnknownTool,
    /// An error for the model. The model may try again.
    ForModel(String),
    /// The notes have changed since they were read.
    Changed,
}

impl From<ArgumentError> for ToolRefusal {
    fn from(ArgumentError(text): ArgumentError) -> Self {
        Self::ForModel(text)
    }
}

impl ToolRefusal {
    /// Returns the text for the model; `None` if there is no such tool.
    pub(super) fn into_text(self) -> Option<String> {
        match self {
            Self::UnknownTool => None,
            Self::ForModel(text) => Some(text),
            Self::Changed => {
                Some("others write these notes at the same time: read them again, then write".to_owned())
            }
        }
    }
}

impl From<SourceError> for ToolRefusal {
    fn from(error: SourceError) -> Self {
        Self::ForModel(match &error {
            SourceError::UnknownAgent(_) => {
                format!("`agent`: {error}; call status without an agent to see which there are")
            }
            SourceError::UnknownExchange { .. } => {
                format!(
                    "`exchanges`: {error}; a summary names them behind a #, and recall finds them by words"
                )
            }
            SourceError::NoteChanged(_) | SourceError::Refused(_) | SourceError::Unavailable(_) => {
                error.to_string()
            }
        })
    }
}

/// The arguments of `recall` that are passed on as parameters of the same name.
const RECALL_FILTERS: [&str; 5] = ["role", "tool", "since", "until", "order"];

/// True for a tool that Codex' models know. A dot or an underscore follows the namespace in its name.
fn is_codex_tool(name: &str) -> bool {
    let name = name.replacen('.', "_", 1);
    CODEX_TOOLS.contains(&name.as_str())
}

/// What a call has in addition to its arguments.
pub(super) struct ToolCall<'a> {
    pub(super) source: &'a dyn Source,
    pub(super) hints: AgentHints,
    /// The longest answer, in bytes, that the host shows to its model without cutting it.
    pub(super) bytes_max: usize,
}

impl ToolCall<'_> {
    pub(super) async fn answer(
        &self,
        name: &str,
        arguments: Option<JsonObject>,
    ) -> Result<CallToolResult, ToolRefusal> {
        let text = match name {
            "summary_get" => self.summary(&Arguments::read(arguments, &["agent", "max_tokens"])?).await,
            "recall" => {
                let names = [&["agent", "query", "limit", "session"][..], &RECALL_FILTERS].concat();
                self.search(&Arguments::read(arguments, &names)?).await
            }
            "expand" => self.expand(&Arguments::read(arguments, &["agent", "exchanges", "after"])?).await,
            "status" => match Arguments::read(arguments, &["agent"])?.agent_if_any()? {
                Some(agent) => self.status_of(&agent).await,
                None => self.status().await,
            },
            "handoff" => self.handoff(&Arguments::read(arguments, &["agent", "max_tokens"])?).await,
            "memory" => self.memory(arguments).await,
            name if is_codex_tool(name) => self.codex(&name.replacen('.', "_", 1), arguments).await,
            "notes_list" | "notes_read" | "notes_search" | "notes_write" | "notes_append"
            | "notes_delete" => self.notes_tool(name, arguments).await,
            _ => Err(ToolRefusal::UnknownTool),
        };
        Ok(CallToolResult::success(vec![ContentBlock::text(text?)]))
    }

    /// Returns the agent that a prompt is about.
    pub(super) async fn prompt_agent(&self, arguments: Option<JsonObject>) -> Result<AgentId, ToolRefusal> {
        self.agent(&Arguments::read(arguments, &["agent"])?).await
    }

    pub(super) async fn agent(&self, arguments: &Arguments) -> Result<AgentId, ToolRefusal> {
        match arguments.agent_if_any()? {
            Some(agent) => Ok(agent),
            None => Ok(self.hints.resolve(self.source).await?),
        }
    }

    async fn summary(&self, arguments: &Arguments) -> Result<String, ToolRefusal> {
        let agent = self.agent(arguments).await?;
        let range = SUMMARY_TOKENS_MIN..=SUMMARY_TOKENS_MAX;
        let requested_tokens = arguments.integer("max_tokens", range)?.unwrap_or(SUMMARY_TOKENS);
        let summary = self.source.summary(&agent).await?;
        let max_tokens = requested_tokens.min(fitting_tokens(&summary, self.bytes_max));
        let is_shortened = summary.tokens > max_tokens;
        let excerpt = if is_shortened { shorten(summary, max_tokens).await? } else { summary };
        let mut text = match excerpt.content.trim_end() {
            "" if is_shortened => "(no room: ask with a larger max_tokens)".to_owned(),
            "" => self.hint(&agent).await?,
            content => content.to_owned(),
        };
        if let Some(since) = excerpt.stale_since {
            let since = since.to_string();
            text.extend(["\n\n(the database is away: this is the copy of ", &since, ")"]);
        }
        if is_shortened {
            let uri = uri::of(agent.as_str(), ResourceKind::Summary);
            text.extend(["\n\n(shortened: a larger max_tokens shows more; the whole is ", &uri, ")"]);
        }
        if arguments.agent_if_any()?.is_none() {
            text.extend(["\n\n(agent ", agent.as_str(), ")"]);
        }
        Ok(text)
    }

    /// Returns the reason why the agent has no summary.
    async fn hint(&self, agent: &AgentId) -> Result<String, ToolRefusal> {
        let view = self.source.window(agent, false).await?;
        let fill = WindowFill {
            tokens: view["window"]["tokens"].as_i64().unwrap_or_default(),
            budget_tokens: view["budget_tokens"].as_i64().unwrap_or_default(),
        };
        Ok(format!("({})", fill.hint()))
    }

    async fn search(&self, arguments: &Arguments) -> Result<String, ToolRefusal> {
        let cure = "give the words to look for, and phrases in quotation marks";
        let words =
            arguments.text("query")?.ok_or_else(|| ArgumentError::new("query", "is missing", cure))?;
        let limit = arguments.integer("limit", 1..=FOUND_MAX)?.unwrap_or(FOUND_SHOWN).to_string();
        let session = arguments.integer("session", 1..=i64::MAX)?.map(|session| session.to_string());
        let mut parameters = vec![("q", words), ("limit", limit.as_str())];
        parameters.extend(session.as_deref().map(|session| ("session", session)));
        for name in RECALL_FILTERS {
            parameters.extend(arguments.text(name)?.map(|text| (name, text)));
        }
        let agent = self.agent(arguments).await?;
        let found = self.source.recall(&agent, &parameters).await;
        let mut reply = found.map_err(|error| match error {
            // The argument `query` is the parameter `q`.
            SourceError::Refused(text) => ToolRefusal::ForModel(text.replace("`q`", "`query`")),
            error => error.into(),
        })?;
        let mut text = recall::found_text(&reply);
        while text.len() > self.bytes_max && reply.found.pop().is_some() {
            reply.has_more = true;
            text = recall::found_text(&reply);
        }
        Ok(text)
    }

    async fn expand(&self, arguments: &Arguments) -> Result<String, ToolRefusal> {
        let exchanges = arguments.exchanges("exchanges", EXPANDED_MAX)?;
        let from = arguments.position("after")?;
        let agent = self.agent(arguments).await?;
        let request = ExpandRequest { agent: &agent, exchanges: &exchanges, from };
        Ok(expand::answer(self.source, &request, self.bytes_max).await?)
    }

    async fn handoff(&self, arguments: &Arguments) -> Result<String, ToolRefusal> {
        let range = HANDOFF_TOKENS_MIN..=i64_or_max(self.bytes_max) / BYTES_PER_TOKEN;
        let max_tokens = arguments.integer("max_tokens", range)?;
        let agent = self.agent(arguments).await?;
        let handoff_tokens = max_tokens.unwrap_or(i64_or_max(self.bytes_max) / BYTES_PER_TOKEN);
        Ok(self.source.handoff(&agent, Some(handoff_tokens)).await?)
    }

    async fn status_of(&self, agent: &AgentId) -> Result<String, ToolRefusal> {
        let document = self.source.summary(agent).await?;
        let view = self.source.window(agent, false).await?;
        let (tokens, budget) = (&view["window"]["tokens"], &view["budget_tokens"]);
        let running = running(&view);
        let running = running.map_or_else(String::new, |number| format!("\nrunning: exchange #{number}"));
        Ok(format!(
            "agent: {agent}\nwindow: {tokens} of {budget} tokens, {} from #{} on\nsummary: {}\npending: {}{}{running}",
            count(view["window_total"].as_i64().unwrap_or_default(), "exchange"),
            document.first_exchange,
            document.updated_at.map_or_else(
                || "none yet".to_owned(),
                |at| format!(
                    "version {} of {at}, {} tokens, covers through #{}",
                    document.version, document.tokens, document.covers_through
                )
            ),
            count(document.pending_exchanges, "exchange"),
            document.pending_since.map_or_else(String::new, |since| format!(" since {since}")),
        ))
    }

    /// Describes the default agent, and lists the agents that there are.
    async fn status(&self) -> Result<String, ToolRefusal> {
        let page = self.source.agents(None, STATUS_AGENTS).await?;
        let mut lines = Vec::new();
        if let Ok(agent) = self.hints.resolve(self.source).await {
            lines.extend([self.status_of(&agent).await?, "\nall agents:".to_owned()]);
        }
        lines.extend(page.agents.iter().map(|agent| {
            format!(
                "{}: {}, window of {} tokens, summary version {}, {} pending",
                agent.agent_id,
                count(agent.exchanges, "exchange"),
                agent.window_tokens,
                agent.version,
                agent.pending_exchanges
            )
        }));
        if page.agents.is_empty() {
            lines.push("(no agents yet: one is made by its first message)".to_owned());
        }
        if page.next_cursor.is_some() {
            lines.push("(there are more agents than these)".to_owned());
        }
        // A token for some agents gets no figures about all agents.
        match self.source.sample().await {
            Ok(sample) => lines.push(format!(
                "queue: {} ready, {} running, {} parked; last 24 hours: {} updates, {} failed attempts",
                sample.ready, sample.running, sample.parked, sample.completed, sample.failed
            )),
            Err(SourceError::Refused(_)) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(lines.join("\n"))
    }
}

/// Returns how many tokens of a summary fit into `bytes_max` bytes, at the summary's own number of bytes per token.
fn fitting_tokens(summary: &Summary, bytes_max: usize) -> i64 {
    match summary.content.len() {
        0 => summary.tokens,
        bytes if bytes <= bytes_max => summary.tokens,
        bytes => summary.tokens.saturating_mul(i64_or_max(bytes_max)) / i64_or_max(bytes),
    }
}

/// Shortens a summary to `tokens_max` tokens. Runs in another thread, because counting takes some milliseconds.
async fn shorten(summary: Summary, tokens_max: i64) -> Result<Summary, ToolRefusal> {
    let cut = threads::computed("cutting an excerpt", move || {
        let counter = tokenizer::ceiling_counter();
        let (content, tokens) = with_pending(&summary.content, &[], tokens_max, counter.as_ref());
        Summary { content, tokens, ..summary }
    });
    cut.await.map_err(|panicked| {
        tracing::error!(error = %panicked, "mcp.panicked");
        ToolRefusal::ForModel(panicked.to_string())
    })
}

/// Returns the open exchange: the number of its first leg.
fn running(view: &Value) -> Option<i64> {
    let newest = view["exchanges"].as_array()?.last()?;
    let number = newest["continues"].as_i64().or(newest["n"].as_i64());
    number.filter(|_| newest["state"] == "open")
}
