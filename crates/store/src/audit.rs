//! The audit as the store keeps it: who changed what over HTTP, who was refused, who signed in.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::StoreResult;
use recapd_core::domain::{agent::AgentId, time::Timestamp};

/// The kind of an event. Each kind has a limit of its own, so that a flood of one doesn't push the others out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuditKind {
    /// Messages were sent.
    Append,
    /// Anything else was changed, or was to be.
    Change,
    /// Somebody wasn't let in, or wasn't allowed to.
    Refusal,
    /// Somebody signed in on the dashboard.
    SignIn,
}

impl AuditKind {
    pub const ALL: [Self; 4] = [Self::Append, Self::Change, Self::Refusal, Self::SignIn];

    /// Its name in the database and in answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Append => "append",
            Self::Change => "change",
            Self::Refusal => "refusal",
            Self::SignIn => "sign_in",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// One request that was audited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditEvent {
    /// When it was answered.
    pub at: Timestamp,
    /// What it was.
    pub kind: AuditKind,
    /// The token's name; none without a valid one.
    pub token: Option<String>,
    /// The client's address (of IPv6 the network), or `unix` for the socket.
    pub peer: String,
    /// The request's method.
    pub method: String,
    /// The route, as a template: `/v1/agents/{id}/pause`.
    pub route: String,
    /// The agent that the path names.
    pub agent_id: Option<AgentId>,
    /// The request's id. The answer and the log carry the same one.
    pub request_id: String,
    /// The answer's status.
    pub status: i64,
    /// `done`, or the code of the problem that was answered.
    pub outcome: String,
}

/// An event as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditRow {
    /// Its number; later ones are larger.
    pub event: i64,
    /// What happened.
    #[serde(flatten)]
    pub what: AuditEvent,
}

/// Which events to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditQuery {
    /// Only those of this agent.
    pub agent: Option<AgentId>,
    /// Only those from then on.
    pub since: Option<Timestamp>,
    /// Only those before this one.
    pub before: Option<i64>,
    /// At most so many.
    pub limit: i64,
}

/// The store of the audit. Each operation is one transaction.
#[async_trait]
pub trait AuditStore: Send + Sync {
    /// Stores events.
    async fn record_audit(&self, events: Vec<AuditEvent>) -> StoreResult<()>;

    /// Deletes at most `limit` of the oldest events of a kind of which there are more than `keep`. Returns how many.
    async fn prune_audit(&self, kind: AuditKind, keep: i64, limit: i64) -> StoreResult<u64>;

    /// Events, newest first.
    async fn audit(&self, query: AuditQuery) -> StoreResult<Vec<AuditRow>>;
}
