//! Reads the window message by message, for HTTP: what a model sees verbatim.

use serde::{Deserialize, Serialize};

use super::{ShownMessage, shown_message};
use recapd_core::domain::{
    agent::AgentId,
    exchange::{ExchangeState, PREAMBLE},
    legs::settle,
    time::Timestamp,
};
use recapd_store::{
    ExchangeQuery, Store, StoreResult,
    page::{PAGE_BYTES_MAX, PagedExchange, page},
};

/// Whole exchanges of the window, in order.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = Window)]
pub struct WindowReply {
    pub agent_id: AgentId,
    pub first_exchange: i64,
    /// The tokens of the whole window, including its preamble.
    pub tokens: i64,
    /// The most tokens of the window; 0 for no limit.
    pub budget_tokens: i64,
    /// The leading instructions, which never leave the window. Only the first page has them.
    pub preamble: Vec<ShownMessage>,
    /// If `preamble` holds only the first messages of the preamble: the number of the last one. The preamble is
    /// exchange 0, or after a clear the next exchange.
    pub preamble_next_after: Option<i64>,
    /// The newest exchanges before the cursor, in order. Each has all of its messages unless it is too big for any
    /// page. A page has at most 8 MB of payloads.
    pub exchanges: Vec<WindowExchange>,
    /// The next page holds exchanges before this one; `None` on the last page. Over HTTP, this becomes a cursor.
    #[serde(skip)]
    pub next_before: Option<i64>,
}

/// An exchange of the window.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WindowExchange {
    pub exchange: i64,
    /// If this is a later leg: the first leg of its exchange.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<i64>,
    /// `open` if more messages are expected in the exchange.
    pub state: ExchangeState,
    pub tokens: i64,
    /// When its first message was said.
    pub started_at: Timestamp,
    /// When its last message was said.
    pub ended_at: Timestamp,
    pub messages: Vec<ShownMessage>,
    /// If the exchange is too big for any page, `messages` holds only its first messages. This is the number of the
    /// last one. The rest is at `GET /v1/agents/{id}/exchanges/{n}?after=` with this number.
    pub next_after: Option<i64>,
}

/// Returns the newest `limit` exchanges of the agent's window that come before `before`; `None` if the agent doesn't
/// exist.
///
/// # Errors
/// The store's errors.
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
    let query = |from, through, limit| ExchangeQuery { from, through, limit, bytes_max: PAGE_BYTES_MAX };
    let through = before.map_or(i64::MAX, |before| before - 1);
    let mut found = page(store, agent, query(first_exchange, through, limit)).await?;
    let last = found.last().map(|paged| paged.stored.exchange.exchange);
    let rows = match last.filter(|_| before.is_some()) {
        Some(last) => store.legs(agent, last).await?,
        None => Vec::new(),
    };
    settle(found.iter_mut().map(|paged| &mut paged.stored.exchange), rows.last());
    let preamble = match before {
        None => page(store, agent, query(PREAMBLE, PREAMBLE, 1)).await?,
        Some(_) => Vec::new(),
    };
    let oldest = found.first().map(|paged| paged.stored.exchange.exchange);
    Ok(Some(WindowReply {
        agent_id: agent.clone(),
        first_exchange,
        tokens: row.ledger.window_tokens(),
        budget_tokens: row.budget_tokens,
        preamble: preamble.iter().flat_map(messages).collect(),
        preamble_next_after: preamble.iter().find_map(|paged| paged.next_after),
        next_before: oldest.filter(|oldest| *oldest > first_exchange),
        exchanges: found.iter().map(exchange).collect(),
    }))
}

fn exchange(paged: &PagedExchange) -> WindowExchange {
    let exchange = &paged.stored.exchange;
    WindowExchange {
        exchange: exchange.exchange,
        continues: exchange.headline.continues,
        state: exchange.state,
        tokens: exchange.tokens,
        started_at: exchange.opened_at,
        ended_at: exchange.last_at,
        messages: messages(paged).collect(),
        next_after: paged.next_after,
    }
}

fn messages(paged: &PagedExchange) -> impl Iterator<Item = ShownMessage> {
    paged.stored.messages.iter().map(shown_message)
}
