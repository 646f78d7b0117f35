//! The seam between the server and what answers: the parts of a daemon, another daemon, or the database.

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
    /// Lists at most `limit` agents, ordered by id, after `after`.
    async fn agents(&self, after: Option<&AgentId>, limit: i64) -> Result<AgentsPage, SourceError>;

    async fn summary(&self, agent: &AgentId) -> Result<Summary, SourceError>;

    /// Returns the tag of an agent's summary, which changes whenever its text does; `None` for an unknown agent. A source
    /// that can waits until the tag is no longer `known`, for at most half a minute; others answer at once.
    async fn tag(&self, agent: &AgentId, known: Option<&str>) -> Result<Option<String>, SourceError>;

    /// Draws an agent's exchanges around the boundary as text.
    async fn history(&self, agent: &AgentId) -> Result<String, SourceError>;

    /// Returns an agent's window: budget, boundary and exchanges, like
    /// `GET /v1/agents/{id}/history?archived=0`; with `all`, also the exchanges before it.
    async fn window(&self, agent: &AgentId, all: bool) -> Result<Value, SourceError>;

    /// Searches an agent's archive for exchanges that match `words`.
    /// `parameters` are those of [`crate::recall::ArchiveQuestion`].
    async fn recall(&self, agent: &AgentId, parameters: &[(&str, &str)]) -> Result<RecallReply, SourceError>;

    async fn expand(
        &self,
        agent: &AgentId,
        exchange: i64,
        query: ExpandQuery,
    ) -> Result<ExpandReply, SourceError>;

    /// Returns an agent's notes, in order of their names, with their texts.
    async fn notes(&self, agent: &AgentId) -> Result<Vec<Note>, SourceError>;

    /// Writes notes, all or none.
    async fn write_notes(
        &self,
        agent: &AgentId,
        requests: &[NoteRequest],
    ) -> Result<WrittenNotesReply, SourceError>;

    /// Writes the document to go on with elsewhere, of 20,000 tokens unless `max_tokens` says otherwise.
    async fn handoff(&self, agent: &AgentId, max_tokens: Option<i64>) -> Result<String, SourceError>;

    async fn sample(&self) -> Result<Sample, SourceError>;
}

/// What a source in this process leaves to others, since it only reads the store.
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
    /// A note was written since it was read.
    #[error("{0}")]
    NoteChanged(String),
    /// The request is invalid; the text says what is valid.
    #[error("{0}")]
    Refused(String),
    /// There is no answer now; a later request may get one.
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
    /// 0 before the first version of its summary.
    pub version: i64,
    pub summary_tokens: i64,
    /// The last exchange that is summarised.
    pub covers_through: i64,
    /// When anything of it was last written.
    pub updated_at: Timestamp,
}
