//! The window, message by message: what a model sees verbatim, for HTTP.

use serde::{Deserialize, Serialize};

use super::{ShownMessage, shown_message};
use crate::{
    domain::{agent::AgentId, exchange::ExchangeState, time::Timestamp},
    store::{ExchangeQuery, Store, StoreResult, StoredExchange},
};

/// The number under which the running session's preamble is read.
const PREAMBLE: i64 = 0;

/// Whole exchanges of the window, in order.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = Window)]
pub struct WindowReply {
    /// Whose.
    pub agent_id: AgentId,
    /// The first exchange of the window.
    pub first_exchange: i64,
    /// Tokens of the whole window, preamble included.
    pub tokens: i64,
    /// Its ceiling; 0 is none.
    pub budget_tokens: i64,
    /// The leading instructions, which never leave; only on the first page.
    pub preamble: Vec<ShownMessage>,
    /// The newest exchanges before the cursor, in order, each with all its messages.
    pub exchanges: Vec<WindowExchange>,
    /// Older ones stand before this exchange; none on the last page. Over HTTP a cursor says so.
    #[serde(skip)]
    pub next_before: Option<i64>,
}

/// An exchange of the window.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WindowExchange {
    /// Its number.
    pub exchange: i64,
    /// Whether more is expected in it.
    pub state: ExchangeState,
    /// Its tokens.
    pub tokens: i64,
    /// When it began.
    pub started_at: Timestamp,
    /// When the last thing in it was said.
    pub ended_at: Timestamp,
    /// Its messages, verbatim.
    pub messages: Vec<ShownMessage>,
}

/// The newest `limit` exchanges of the window of `agent`, of those before `before`; none if there is no such agent.
///
/// # Errors
/// What the store fails with.
pub async fn window(
    store: &dyn Store,
    agent: &AgentId,
    before: Option<i64>,
    limit: i64,
) -> StoreResult<Option<WindowReply>> {
    let Some(row) = store.agent(agent).await? else {
        return Ok(None);
    };
    let first_exchange = row.ledger.first_exchange.max(1);
    let query = |from, through, limit| ExchangeQuery {
        from,
        through,
        limit,
        messages: true,
    };
    let through = before.map_or(i64::MAX, |before| before - 1);
    let found = store
        .exchanges(agent, query(first_exchange, through, limit))
        .await?;
    let preamble = match before {
        None => store.exchanges(agent, query(PREAMBLE, PREAMBLE, 1)).await?,
        Some(_) => Vec::new(),
    };
    let oldest = found.first().map(|stored| stored.exchange.exchange);
    Ok(Some(WindowReply {
        agent_id: agent.clone(),
        first_exchange,
        tokens: row.ledger.window_tokens(),
        budget_tokens: row.budget_tokens,
        preamble: preamble
            .iter()
            .flat_map(|stored| &stored.messages)
            .map(shown_message)
            .collect(),
        next_before: oldest.filter(|oldest| *oldest > first_exchange),
        exchanges: found.iter().map(exchange).collect(),
    }))
}

fn exchange(stored: &StoredExchange) -> WindowExchange {
    let exchange = &stored.exchange;
    WindowExchange {
        exchange: exchange.exchange,
        state: exchange.state,
        tokens: exchange.tokens,
        started_at: exchange.opened_at,
        ended_at: exchange.last_at,
        messages: stored.messages.iter().map(shown_message).collect(),
    }
}
