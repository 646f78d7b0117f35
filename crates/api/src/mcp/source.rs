//! The interface between the server and its sources: the parts of a daemon, another daemon, or the database.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::recall::{ExpandQuery, ExpandReply, RecallReply};
use recapd_client::Summary;
use recapd_core::domain::{agent::AgentId, cursor, note::Note, time::Timestamp};
use recapd_engine::ingest::{NoteRequest, WrittenNotesReply};
use recapd_store::Sample;

/// A source of everything that the server reads about agents.
#[async_trait]
pub trait Source: Send + Sync {
    /// Returns the agents after `after`, ordered by id, at most `limit`.
    async fn agents(&self, after: Option<&AgentId>, limit: i64) -> Result<AgentsPage, SourceError>;

    async fn summary(&self, agent: &AgentId) -> Result<Summary, SourceError>;

    /// Returns the tag of an agent's summary, which changes whenever the text changes; `None` for an unknown agent. A
    /// source that can wait returns only once the tag is no longer `known`, after at most half a minute. Other sources
    /// return at once.
    async fn tag(&self, agent: &AgentId, known_tag: Option<&str>) -> Result<Option<String>, SourceError>;

    /// Draws an agent's exchanges before and after the boundary as text.
    async fn history(&self, agent: &AgentId) -> Result<String, SourceError>;

    /// Returns an agent's window: budget, boundary and exchanges, like
    /// `GET /v1/agents/{id}/history?archived=0`; with `all`, also the exchanges before it.
    async fn window(&self, agent: &AgentId, all: bool) -> Result<Value, SourceError>;

    /// Searches an agent's archive. `parameters` are those of [`crate::recall::ArchiveQuestion`].
    async fn recall(&self, agent: &AgentId, parameters: &[(&str, &str)]) -> Result<RecallReply, SourceError>;

    async fn expand(
        &self,
        agent: &AgentId,
        exchange: i64,
        query: ExpandQuery,
    ) -> Result<ExpandReply, SourceError>;

    /// Returns an agent's notes with their texts, ordered by name.
    async fn notes(&self, agent: &AgentId) -> Result<Vec<Note>, SourceError>;

    /// Writes notes: all of them, or none if one fails.
    async fn write_notes(
        &self,
        agent: &AgentId,
        requests: &[NoteRequest],
    ) -> Result<WrittenNotesReply, SourceError>;

    /// Writes a document with which another agent can continue. The document has at most 20,000 tokens unless
    /// `max_tokens` says otherwise.
    async fn handoff(&self, agent: &AgentId, max_tokens: Option<i64>) -> Result<String, SourceError>;

    async fn sample(&self) -> Result<Sample, SourceError>;
}

/// Does what a source in this process can't do itself, because it only reads the store.
#[async_trait]
pub trait Desk: Send + Sync {
    /// See [`Source::write_notes`].
    async fn write_notes(
        &self,
        agent: &AgentId,
        requests: &[NoteRequest],
    ) -> Result<WrittenNotesReply, SourceError>;

    /// See [`Source::handoff`].
    async fn handoff(&self, agent: &AgentId, max_tokens: Option<i64>) -> Result<String, SourceError>;
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    #[error("agent `{0}` is unknown")]
    UnknownAgent(AgentId),
    #[error("agent `{agent}` has no exchange #{exchange}")]
    UnknownExchange { agent: AgentId, exchange: i64 },
    /// The note has changed since it was read.
    #[error("{0}")]
    NoteChanged(String),
    /// The request is invalid. The text says what is valid.
    #[error("{0}")]
    Refused(String),
    /// There is no answer now. A later request may succeed.
    #[error("{0}")]
    Unavailable(String),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentsPage {
    pub agents: Vec<AgentLine>,
    /// The last agent, if there is a next page.
    #[serde(deserialize_with = "cursor::last_entry")]
    pub next_cursor: Option<AgentId>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentLine {
    pub agent_id: AgentId,
    pub project_id: Option<String>,
    pub exchanges: i64,
    pub pending_exchanges: i64,
    pub window_tokens: i64,
    /// The newest version of the agent's summary; 0 if there is none.
    pub version: i64,
    pub summary_tokens: i64,
    /// The last exchange that is summarised.
    pub covers_through: i64,
    /// When the agent was last written to.
    pub updated_at: Timestamp,
}
