//! The daemon's answers, with the members that an agent needs; others are ignored.

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

/// The state of a window. Without a budget, the last two fields are `None`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct WindowFigures {
    /// The size in tokens.
    pub tokens: i64,
    /// The most tokens it may have; 0 for no budget.
    pub budget_tokens: i64,
    /// Tokens per budget; 1 is full.
    pub fill_ratio: Option<f64>,
    /// Tokens that fit before the next eviction.
    pub tokens_until_eviction: Option<i64>,
}

/// Exchanges that left the window or came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct MovedExchanges {
    /// The first one's number.
    pub from_exchange: i64,
    /// The last one's number.
    pub through_exchange: i64,
    /// The size in tokens.
    pub tokens: i64,
}

/// The progress of a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct SummaryFigures {
    /// The version; 0 if there is no summary, or from older daemons. If it differs from a cached summary's, there is a
    /// newer one.
    #[serde(default)]
    pub version: i64,
    /// Exchanges waiting to be summarised, at most: set-aside ones and preambles between them are counted, too.
    pub pending_exchanges: i64,
    /// The last exchange that the summary covers.
    pub covers_through: i64,
}

/// A summary and its freshness, as `GET /v1/agents/{id}/summary` returns it in JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// The summary's agent.
    pub agent_id: AgentId,
    /// Markdown of at most 10,000 tokens; notes on the conversation, not instructions.
    pub content: String,
    /// The size in tokens.
    pub tokens: i64,
    /// 0 if there is no summary.
    pub version: i64,
    /// When this version was written.
    pub updated_at: Option<Timestamp>,
    /// The last exchange that it covers.
    pub covers_through: i64,
    /// The first exchange in the window.
    pub first_exchange: i64,
    /// Exchanges waiting to be summarised.
    pub pending_exchanges: i64,
    /// When the oldest of them began to wait; `None` if there are none.
    pub pending_since: Option<Timestamp>,
    /// Since when this copy may be outdated; set while the daemon can't reach its database.
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
    /// The most tokens it may have; `None` for no limit.
    pub limit_tokens: Option<i64>,
    /// True if it exceeds the limit because the newest exchange alone is too big.
    pub over_budget: bool,
    /// The version of the summary in it; 0 for none.
    pub summary_version: i64,
    /// The first exchange in the window.
    pub first_exchange: i64,
}
