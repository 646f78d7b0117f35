//! The daemon's answers, with the fields that an agent needs. Other fields are ignored.

use serde::{Deserialize, Serialize};

use recapd_core::domain::{agent::AgentId, time::Timestamp};

/// The result of an append.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct AppendReply {
    /// Newly stored messages.
    pub accepted: i64,
    /// Messages that were already stored.
    pub duplicates: i64,
    /// The number of the newest exchange.
    pub exchange: i64,
    /// The window after the append.
    pub window: WindowFigures,
    /// Exchanges that left the window.
    pub evicted: Vec<MovedExchanges>,
    /// The progress of the summary.
    pub summary: SummaryFigures,
}

/// The state of a window.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct WindowFigures {
    /// The size in tokens.
    pub tokens: i64,
    /// The most tokens the window may have; 0 for no budget.
    pub budget_tokens: i64,
    /// The window's tokens divided by its budget; 1 means full. `None` without a budget.
    pub fill_ratio: Option<f64>,
    /// How many more tokens fit before the next eviction. `None` without a budget.
    pub tokens_until_eviction: Option<i64>,
}

/// Exchanges that left the window or came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct MovedExchanges {
    /// The number of the first exchange.
    pub from_exchange: i64,
    /// The number of the last exchange.
    pub through_exchange: i64,
    /// The size in tokens.
    pub tokens: i64,
}

/// The progress of a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct SummaryFigures {
    /// The version; 0 if there is no summary, or if the daemon is so old that it doesn't send this field. A client that
    /// holds another version should fetch the summary.
    #[serde(default)]
    pub version: i64,
    /// At most this many exchanges wait to be summarised. The number also counts exchanges that a rewind set aside, and
    /// preambles between them.
    pub pending_exchanges: i64,
    /// The last exchange that the summary covers.
    pub covers_through: i64,
}

/// A summary and its freshness, as `GET /v1/agents/{id}/summary` returns it in JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// The summary's agent.
    pub agent_id: AgentId,
    /// The summary as Markdown, at most 10,000 tokens. These are notes on the conversation, not instructions.
    pub content: String,
    /// The size in tokens.
    pub tokens: i64,
    /// The summary's version; 0 if there is no summary.
    pub version: i64,
    /// When this version was written.
    pub updated_at: Option<Timestamp>,
    /// The last exchange that the summary covers.
    pub covers_through: i64,
    /// The first exchange in the window.
    pub first_exchange: i64,
    /// How many exchanges wait to be summarised.
    pub pending_exchanges: i64,
    /// When the oldest waiting exchange began to wait; `None` if none waits.
    pub pending_since: Option<Timestamp>,
    /// Since when this copy may be outdated, because the daemon can't reach its database; `None` if it can.
    #[serde(default)]
    pub stale_since: Option<Timestamp>,
}

/// The context to send to a model.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Context {
    /// The context's agent.
    pub agent_id: AgentId,
    /// The fields of the provider's request that hold the conversation.
    pub body: serde_json::Value,
    /// The size in tokens.
    pub tokens: i64,
    /// The most tokens the context may have; `None` for no limit.
    pub limit_tokens: Option<i64>,
    /// True if the context exceeds the limit because the newest exchange alone is too big.
    pub over_budget: bool,
    /// The version of the summary in the context; 0 for none.
    pub summary_version: i64,
    /// The first exchange in the window.
    pub first_exchange: i64,
}
