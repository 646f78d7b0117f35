//! Pages of exchanges: as many as may be held at once, however long agents talk in one of them.
//!
//! Invariant: a page has at most so many bytes of payloads, but for one message. What it has no room for stands before its
//! first exchange, or behind its last message.

use super::{ExchangeQuery, MessageRange, Store, StoreResult, StoredExchange};
use recapd_core::domain::{agent::AgentId, number::usize_or_max};

/// The most bytes of payloads on a page, and of an exchange that is read in parts. What is made of them takes some times as
/// much, and several readers may ask at once.
pub const PAGE_BYTES_MAX: i64 = 8_000_000;
/// The most messages of an exchange that is read in parts.
pub const PART_MESSAGES_MAX: i64 = 1_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PagedExchange {
    /// The exchange, with its messages.
    pub stored: StoredExchange,
    /// Set if these are only the first of them, since the exchange is too big for any page: [`Store::expand`] reads on behind
    /// this one.
    pub next_after: Option<i64>,
}

/// The newest exchanges of `query` that fit a page, in order, each whole. One that is too big by itself comes alone, with its
/// first messages. Older ones are asked for by the number of the first.
///
/// # Errors
/// What the store fails with.
pub async fn page(
    store: &dyn Store,
    agent: &AgentId,
    query: ExchangeQuery,
) -> StoreResult<Vec<PagedExchange>> {
    let mut found = store.exchanges(agent, query).await?;
    if let Some(newest) = found.pop_if(|newest| newest.unread_bytes.is_some()) {
        return Ok(vec![begun(store, agent, newest).await?]);
    }
    let read = found.into_iter().filter(|stored| stored.unread_bytes.is_none());
    let whole = read.map(|stored| PagedExchange {
        stored,
        next_after: None,
    });
    Ok(whole.collect())
}

/// An exchange that was left unread, with its first messages, as many as a page holds.
///
/// # Errors
/// What the store fails with.
pub async fn begun(store: &dyn Store, agent: &AgentId, unread: StoredExchange) -> StoreResult<PagedExchange> {
    let first = part(0);
    let expanded = store.expand(agent, unread.exchange.exchange, first).await?;
    // Its agent may have been deleted meanwhile.
    let (has_more, messages) = expanded
        .map(|expanded| (expanded.has_more, expanded.messages))
        .unwrap_or_default();
    let last = messages.last().filter(|_| has_more);
    Ok(PagedExchange {
        next_after: last.map(|last| last.seq),
        stored: StoredExchange {
            messages,
            unread_bytes: None,
            request: None,
            ..unread
        },
    })
}

/// The next part of an exchange that is read in parts.
pub fn part(after_seq: i64) -> MessageRange {
    MessageRange {
        after_seq,
        messages_max: PART_MESSAGES_MAX,
        bytes_max: usize_or_max(PAGE_BYTES_MAX),
        is_current: true,
    }
}
