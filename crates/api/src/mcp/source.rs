//! The seam for what answers: the parts of a daemon, a daemon elsewhere, or the database.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::recall::{ExpandQuery, ExpandReply, RecallReply};
use recapd_client::Summary;
use recapd_core::domain::{agent::AgentId, cursor, time::Timestamp};
use recapd_store::Sample;

/// What the server reads of agents.
#[async_trait]
pub trait Source: Send + Sync {
    /// Agents in order of their ids, after `after`, at most `limit`.
    async fn agents(&self, after: Option<&AgentId>, limit: i64) -> Result<AgentsPage, SourceError>;

    /// An agent's summary.
    async fn summary(&self, agent: &AgentId) -> Result<Summary, SourceError>;

    /// The tag of an agent's summary, which changes whenever its text does; `None` for an unknown agent. A source that
    /// can waits until the tag is no longer `known`, for half a minute at most; others answer at once.
    async fn tag(&self, agent: &AgentId, known: Option<&str>) -> Result<Option<String>, SourceError>;

    /// An agent's exchanges around the boundary, drawn as text.
    async fn history(&self, agent: &AgentId) -> Result<String, SourceError>;

    /// An agent's window: budget, boundary and the exchanges in it, as `GET /v1/agents/{id}/history?archived=0` has it.
    async fn window(&self, agent: &AgentId) -> Result<Value, SourceError>;

    /// Exchanges of an agent's archive that match `words`.
    async fn recall(&self, agent: &AgentId, words: &str, limit: i64) -> Result<RecallReply, SourceError>;

    /// One exchange as it was.
    async fn expand(
        &self,
        agent: &AgentId,
        exchange: i64,
        query: ExpandQuery,
    ) -> Result<ExpandReply, SourceError>;

    /// Figures about all agents.
    async fn sample(&self) -> Result<Sample, SourceError>;
}

/// Why a source has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// There is no such agent.
    #[error("agent `{0}` is unknown")]
    UnknownAgent(AgentId),
    /// There is no such exchange.
    #[error("agent `{agent}` has no exchange #{exchange}")]
    UnknownExchange {
        /// The agent, which exists.
        agent: AgentId,
        /// The number asked for.
        exchange: i64,
    },
    /// The request is invalid; the text says what is valid.
    #[error("{0}")]
    Refused(String),
    /// There is no answer now: ask again later.
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

/// An agent in figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentLine {
    pub agent_id: AgentId,
    /// Exchanges so far.
    pub exchanges: i64,
    /// Exchanges that wait to be summarised.
    pub pending_exchanges: i64,
    pub window_tokens: i64,
    /// The version of its summary; 0 before the first.
    pub version: i64,
    /// Its summary's tokens.
    pub summary_tokens: i64,
    /// The last exchange that is summarised.
    pub covers_through: i64,
    /// When something was last written of it.
    pub updated_at: Timestamp,
}
