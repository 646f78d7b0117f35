//! Access tokens in the store.

use async_trait::async_trait;

use super::StoreResult;
use recapd_core::domain::{
    access::{AccessNames, Reach, Scope, TokenName},
    agent::AgentId,
    project::ProjectId,
    time::Timestamp,
};

/// The most tokens that are kept, so that a daemon's memory holds a copy of all.
pub const TOKENS_MAX: i64 = 1_000;

/// A stored token: its digest, not its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub name: TokenName,
    /// Its SHA-256, in hexadecimal digits.
    pub digest: String,
    /// The actions it allows.
    pub scope: Scope,
    /// The agents and projects it allows them on.
    pub reach: Reach,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
    /// When it was last used, to the hour.
    pub last_used_at: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewToken {
    pub name: TokenName,
    pub digest: String,
    pub scope: Scope,
    pub reach: Reach,
    pub expires_at: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenOutcome {
    Done,
    /// A token of that name exists and isn't revoked.
    NameTaken,
    /// There are [`TOKENS_MAX`] tokens already.
    TooMany,
}

/// The store of tokens. Each operation is one transaction.
#[async_trait]
pub trait AccessStore: Send + Sync {
    /// Stores a token, and replaces a revoked one of its name.
    async fn keep_token(&self, token: NewToken, now: Timestamp) -> StoreResult<TokenOutcome>;

    /// Returns all tokens by name, including revoked and expired ones.
    async fn tokens(&self) -> StoreResult<Vec<Token>>;

    /// Revokes a token. Returns false if there is none of that name.
    async fn revoke_token(&self, name: &TokenName, now: Timestamp) -> StoreResult<bool>;

    /// Deletes all tokens, as if none had ever been made. Returns how many.
    async fn reset_tokens(&self) -> StoreResult<u64>;

    /// Records when a token was used, unless a later use is recorded.
    async fn note_token_use(&self, name: &TokenName, at: Timestamp) -> StoreResult<()>;

    /// Returns the project that an agent belongs to; `None` also for an unknown agent.
    async fn project_of(&self, agent: &AgentId) -> StoreResult<Option<ProjectId>>;

    /// Returns those of the agents `named` that exist, after `after`, by id.
    async fn named_agents(
        &self,
        named: &AccessNames,
        after: Option<&AgentId>,
        limit: i64,
    ) -> StoreResult<Vec<AgentId>>;
}
