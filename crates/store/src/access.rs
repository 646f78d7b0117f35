//! Access tokens as the store keeps them.

use async_trait::async_trait;

use super::StoreResult;
use recapd_core::domain::{
    access::{AccessNames, Reach, Scope, TokenName},
    agent::AgentId,
    project::ProjectId,
    time::Timestamp,
};

/// The most tokens that are kept, so that a copy of all of them fits into a daemon's memory.
pub const TOKENS_MAX: i64 = 1_000;

/// A token as it is kept: its digest and not its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub name: TokenName,
    /// Its SHA-256, in hexadecimal digits.
    pub digest: String,
    /// The actions it allows.
    pub scope: Scope,
    /// The agents and projects it allows them on.
    pub reach: Reach,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ceases to be valid.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
    /// When it was used last, to the hour.
    pub last_used_at: Option<Timestamp>,
}

/// A token to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewToken {
    pub name: TokenName,
    /// Its SHA-256, in hexadecimal digits.
    pub digest: String,
    /// The actions it allows.
    pub scope: Scope,
    /// The agents and projects it allows them on.
    pub reach: Reach,
    /// When it ceases to be valid.
    pub expires_at: Option<Timestamp>,
}

/// The result of storing a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenOutcome {
    /// The token is stored.
    Done,
    /// There is a token of that name that isn't revoked.
    NameTaken,
    /// There are [`TOKENS_MAX`] tokens already.
    TooMany,
}

/// The store of tokens. Each operation is one transaction.
#[async_trait]
pub trait AccessStore: Send + Sync {
    /// Stores a token, replacing a revoked one of its name.
    async fn keep_token(&self, token: NewToken, now: Timestamp) -> StoreResult<TokenOutcome>;

    /// All tokens, by name, revoked and expired ones too.
    async fn tokens(&self) -> StoreResult<Vec<Token>>;

    /// Revokes a token. False if there is none of that name.
    async fn revoke_token(&self, name: &TokenName, now: Timestamp) -> StoreResult<bool>;

    /// Deletes all tokens, as if none had ever been made. Returns how many.
    async fn reset_tokens(&self) -> StoreResult<u64>;

    /// Notes when a token was used; never earlier than what is noted.
    async fn note_token_use(&self, name: &TokenName, at: Timestamp) -> StoreResult<()>;

    /// The project that an agent belongs to; none if there is no such agent.
    async fn project_of(&self, agent: &AgentId) -> StoreResult<Option<ProjectId>>;

    /// Those of the agents `named` that exist, by id, after `after`.
    async fn named_agents(
        &self,
        named: &AccessNames,
        after: Option<&AgentId>,
        limit: i64,
    ) -> StoreResult<Vec<AgentId>>;
}
