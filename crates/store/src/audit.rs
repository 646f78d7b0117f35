//! The audit log in the database: who changed what over HTTP, which requests were refused, and who signed in.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::StoreResult;
use recapd_core::domain::{agent::AgentId, time::Timestamp};

/// The kind of an event. Each kind has its own limit, so that many events of one kind don't displace other kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuditKind {
    /// Messages were sent.
    Append,
    /// Any other change, successful or not.
    Change,
    /// Somebody wasn't let in, or lacked a permission.
    Refusal,
    /// Somebody signed in on the dashboard.
    SignIn,
}

impl AuditKind {
    pub const ALL: [Self; 4] = [Self::Append, Self::Change, Self::Refusal, Self::SignIn];

    /// Returns its name in the database and in answers.
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

/// One audited request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditEvent {
    /// When it was answered.
    pub at: Timestamp,
    pub kind: AuditKind,
    /// The token's name; none without a valid one.
    pub token: Option<String>,
    /// The client's address (its network for IPv6), or `unix` for the socket.
    pub peer: String,
    /// The HTTP method.
    pub method: String,
    /// The route, as a template: `/v1/agents/{id}/pause`.
    pub route: String,
    /// The agent that the path names.
    pub agent_id: Option<AgentId>,
    /// The request's id, as in the answer and in the log.
    pub request_id: String,
    /// The HTTP status of the answer.
    pub status: i64,
    /// `done`, or the code of the problem that was answered.
    pub outcome: String,
}

/// A stored event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditRow {
    /// Its number; later ones are larger.
    pub event: i64,
    #[serde(flatten)]
    pub what: AuditEvent,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditQuery {
    /// Only events about this agent.
    pub agent: Option<AgentId>,
    pub since: Option<Timestamp>,
    /// Only events before then.
    pub until: Option<Timestamp>,
    /// Only events before this one.
    pub before: Option<i64>,
    pub limit: i64,
}

/// The store of the audit. Each operation is one transaction.
#[async_trait]
pub trait AuditStore: Send + Sync {
    async fn record_audit(&self, events: Vec<AuditEvent>) -> StoreResult<()>;

    /// Deletes the oldest events of a kind if there are more than `keep`, at most `limit` of them. Returns how many it deleted.
    async fn prune_audit(&self, kind: AuditKind, keep: i64, limit: i64) -> StoreResult<u64>;

    /// Returns events, newest first.
    async fn audit(&self, query: AuditQuery) -> StoreResult<Vec<AuditRow>>;
}
