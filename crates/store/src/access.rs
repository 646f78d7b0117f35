//! Access tokens in the store.

use async_trait::async_trait;

use super::StoreResult;
use recapd_core::domain::{
    access::{AccessNames, Reach, Scope, TokenName},
    agent::AgentId,
    project::ProjectId,
    time::Timestamp,
};

/// Limits how many tokens are stored, because a daemon keeps a copy of all in memory.
pub const TOKENS_MAX: i64 = 1_000;

/// A stored token: its digest, not its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub name: TokenName,
    /// The token's SHA-256, in hexadecimal digits.
    pub digest: String,
    /// The actions that the token allows.
    pub scope: Scope,
    /// The agents and projects for which it allows them.
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
    /// Stores a token. Replaces a revoked token of the same name.
    async fn keep_token(&self, token: NewToken, now: Timestamp) -> StoreResult<TokenOutcome>;

    /// Returns all tokens by name, including revoked and expired ones.
    async fn tokens(&self) -> StoreResult<Vec<Token>>;

    /// Revokes a token. Returns false if no token has that name.
    async fn revoke_token(&self, name: &TokenName, now: Timestamp) -> StoreResult<bool>;

    /// Deletes all tokens, as if none had ever been made. Returns how many it deleted.
    async fn reset_tokens(&self) -> StoreResult<u64>;

    /// Records when a token was used. Keeps a later time that is recorded already.
    async fn note_token_use(&self, name: &TokenName, at: Timestamp) -> StoreResult<()>;

    /// Returns an agent's project; `None` if the agent has no project or doesn't exist.
    async fn project_of(&self, agent: &AgentId) -> StoreResult<Option<ProjectId>>;

    /// Returns the ids of the existing agents that `names` covers, in order, from the first after `after`.
    async fn named_agents(
        &self,
        names: &AccessNames,
        after: Option<&AgentId>,
        limit: i64,
    ) -> StoreResult<Vec<AgentId>>;
}
