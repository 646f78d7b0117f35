//! Reads exchanges in pages, which limit the memory used, however long an exchange is.
//!
//! Invariant: a page exceeds its limit of payload bytes by at most one message. What doesn't fit comes before the page's first
//! exchange or after its last message.

use super::{ExchangeQuery, MessageRange, MessageScope, Store, StoreResult, StoredExchange};
use recapd_core::domain::{agent::AgentId, number::usize_or_max};

/// Limits the payload bytes of a page and of one part of an exchange. Processing them takes several times as much memory, and
/// several readers may do so at once.
pub const PAGE_BYTES_MAX: i64 = 8_000_000;
/// Limits the messages of one part of an exchange.
pub const PART_MESSAGES_MAX: i64 = 1_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PagedExchange {
    /// The exchange with its messages.
    pub stored: StoredExchange,
    /// Set if only the first messages are here, because the exchange is too big for any page. [`Store::expand`] continues after
    /// this message.
    pub next_after: Option<i64>,
}

/// Returns the newest exchanges of `query` that fit on a page, complete and in order. If the newest exchange alone is too big,
/// returns only that one, with its first messages. To get older exchanges, query again with `through` before the first one.
///
/// # Errors
/// The store's.
pub async fn page(
    store: &dyn Store,
    agent: &AgentId,
    query: ExchangeQuery,
) -> StoreResult<Vec<PagedExchange>> {
    let mut exchanges = store.exchanges(agent, query).await?;
    if let Some(newest) = exchanges.pop_if(|newest| newest.unread_bytes.is_some()) {
        return Ok(vec![begun(store, agent, newest).await?]);
    }
    let read = exchanges.into_iter().filter(|stored| stored.unread_bytes.is_none());
    let complete = read.map(|stored| PagedExchange { stored, next_after: None });
    Ok(complete.collect())
}

/// Reads the first messages of an exchange that didn't fit on a page, as many as a page holds.
///
/// # Errors
/// The store's.
pub async fn begun(store: &dyn Store, agent: &AgentId, unread: StoredExchange) -> StoreResult<PagedExchange> {
    let first = part(0);
    let expanded = store.expand(agent, unread.exchange.exchange, first).await?;
    // The agent may have been deleted in the meantime.
    let (has_more, messages) =
        expanded.map(|expanded| (expanded.has_more, expanded.messages)).unwrap_or_default();
    let last = messages.last().filter(|_| has_more);
    Ok(PagedExchange {
        next_after: last.map(|last| last.seq),
        stored: StoredExchange { messages, unread_bytes: None, request: None, ..unread },
    })
}

/// Returns the range of the next part of an exchange, after message `after_seq`.
pub fn part(after_seq: i64) -> MessageRange {
    MessageRange {
        after_seq,
        messages_max: PART_MESSAGES_MAX,
        bytes_max: usize_or_max(PAGE_BYTES_MAX),
        is_current: true,
        scope: MessageScope::All,
    }
}
