//! What the daemon answers, as far as an agent needs it. Members that aren't here are left out.

use serde::{Deserialize, Serialize};

use recapd_core::domain::{agent::AgentId, time::Timestamp};

/// What an append did.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct AppendReply {
    /// Messages that were stored.
    pub accepted: i64,
    /// Messages that were stored before.
    pub duplicates: i64,
    /// The newest exchange.
    pub exchange: i64,
    /// The window after it.
    pub window: WindowFigures,
    /// What left the window.
    pub evicted: Vec<MovedExchanges>,
    /// How far the summary is.
    pub summary: SummaryFigures,
}

/// A window. Without a budget, 0, there is no ratio and nothing until an eviction.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct WindowFigures {
    /// Its size in tokens.
    pub tokens: i64,
    /// The most tokens that it may have.
    pub budget_tokens: i64,
    /// How full it is; 1 is full.
    pub fill_ratio: Option<f64>,
    /// Tokens that it still takes.
    pub tokens_until_eviction: Option<i64>,
}

/// Exchanges that left the window or came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct MovedExchanges {
    /// The first one.
    pub from_exchange: i64,
    /// The last one.
    pub through_exchange: i64,
    /// Their size in tokens.
    pub tokens: i64,
}

/// How far a summary is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct SummaryFigures {
    /// Its version; 0 for none, and from a daemon that doesn't tell. Another one than that of a summary at hand says that
    /// there is a newer one.
    #[serde(default)]
    pub version: i64,
    /// How many exchanges wait to be summarised, at most: set-aside ones and preambles between them count, too.
    pub pending_exchanges: i64,
    /// The last exchange that it covers.
    pub covers_through: i64,
}

/// A summary, and how fresh it is: what `GET /v1/agents/{id}/summary` answers as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// The agent whose summary it is.
    pub agent_id: AgentId,
    /// Markdown, of at most 10,000 tokens; notes on what was said, no instructions.
    pub content: String,
    /// Its size in tokens.
    pub tokens: i64,
    /// Its version; 0 for none.
    pub version: i64,
    /// When that version was written.
    pub updated_at: Option<Timestamp>,
    /// The last exchange that it covers.
    pub covers_through: i64,
    /// The first exchange of the window.
    pub first_exchange: i64,
    /// Exchanges that wait to be summarised.
    pub pending_exchanges: i64,
    /// Since when they do; none if none does.
    pub pending_since: Option<Timestamp>,
    /// While the daemon's database is away: since when this copy may be behind.
    #[serde(default)]
    pub stale_since: Option<Timestamp>,
}

/// What to send to a model.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Context {
    /// The agent whose context it is.
    pub agent_id: AgentId,
    /// The fields of the provider's request that hold the conversation.
    pub body: serde_json::Value,
    /// Its size in tokens.
    pub tokens: i64,
    /// What it may cost, if there is a limit.
    pub limit_tokens: Option<i64>,
    /// It costs more, since the newest exchange is too big by itself.
    pub over_budget: bool,
    /// The version of the summary in it; 0 for none.
    pub summary_version: i64,
    /// The first exchange of the window.
    pub first_exchange: i64,
}
