//! What the store keeps of tokens.

use async_trait::async_trait;

use super::StoreResult;
use crate::domain::{
    access::{Named, Reach, Scope, TokenName},
    agent::AgentId,
    project::ProjectId,
    time::Timestamp,
};

/// The most tokens that are kept, so that a copy of all of them fits into a daemon's memory.
pub const TOKENS_MAX: i64 = 1_000;

/// A token, as it is kept: not itself, but its digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Its name.
    pub name: TokenName,
    /// Its SHA-256, in hexadecimal digits.
    pub digest: String,
    /// What it may do.
    pub scope: Scope,
    /// With what.
    pub reach: Reach,
    /// When it was made.
    pub created_at: Timestamp,
    /// From when on it opens nothing any more.
    pub expires_at: Option<Timestamp>,
    /// When it was taken back.
    pub revoked_at: Option<Timestamp>,
    /// When it was used last, to the hour.
    pub last_used_at: Option<Timestamp>,
}

/// A token to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewToken {
    /// Its name.
    pub name: TokenName,
    /// Its SHA-256, in hexadecimal digits.
    pub digest: String,
    /// What it may do.
    pub scope: Scope,
    /// With what.
    pub reach: Reach,
    /// From when on it opens nothing any more.
    pub expires_at: Option<Timestamp>,
}

/// What came of keeping a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It is kept.
    Done,
    /// There is one of that name that wasn't revoked.
    NameTaken,
    /// There are [`TOKENS_MAX`] already.
    TooMany,
}

/// Tokens. Each operation is one transaction.
#[async_trait]
pub trait AccessStore: Send + Sync {
    /// Keeps a token, in the place of a revoked one of its name.
    async fn keep_token(&self, token: NewToken, now: Timestamp) -> StoreResult<Kept>;

    /// All tokens, by name, revoked and expired ones too.
    async fn tokens(&self) -> StoreResult<Vec<Token>>;

    /// Takes a token back. False if there is none of that name.
    async fn revoke_token(&self, name: &TokenName, now: Timestamp) -> StoreResult<bool>;

    /// Forgets all tokens, as if none had ever been made. Returns how many.
    async fn reset_tokens(&self) -> StoreResult<u64>;

    /// Notes when a token was used; never earlier than what is noted.
    async fn note_token_use(&self, name: &TokenName, at: Timestamp) -> StoreResult<()>;

    /// The project that an agent belongs to; none if there is no such agent.
    async fn project_of(&self, agent: &AgentId) -> StoreResult<Option<ProjectId>>;

    /// The agents that there are of those `named`, by id, after `after`.
    async fn named_agents(
        &self,
        named: &Named,
        after: Option<&AgentId>,
        limit: i64,
    ) -> StoreResult<Vec<AgentId>>;
}
