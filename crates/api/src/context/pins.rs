//! What is pinned, for people: one function for the command line and for HTTP.

use serde::{Deserialize, Serialize};

use super::PINS_MAX;
use recapd_core::domain::{agent::AgentId, exchange::HEADLINE_CHARS_MAX, text::first_line};
use recapd_store::{AgentRow, Pin, Store, StoreResult};

/// A message that stays in view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ShownPin {
    /// Its number.
    pub seq: i64,
    /// Its exchange.
    pub exchange: i64,
    /// Its kind.
    pub kind: String,
    /// It was pinned by hand; else it is important to the running session.
    pub pinned: bool,
    /// Its exchange is in the window, so that it isn't copied.
    pub in_window: bool,
    /// Its tokens.
    pub tokens: i64,
    /// Its first line.
    pub title: String,
}

/// An agent's pins, in order of their messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = Pins)]
pub struct PinsReply {
    /// Whose.
    pub agent_id: AgentId,
    /// What stays in view.
    pub pins: Vec<ShownPin>,
    /// There are older ones.
    pub has_more: bool,
    /// The most tokens that copies may have.
    pub max_tokens: i64,
}

/// Reads what is pinned of the agent of `row`; `max_tokens` is what its copies may have.
///
/// # Errors
/// What the store fails with.
pub async fn pins(store: &dyn Store, row: &AgentRow, max_tokens: i64) -> StoreResult<PinsReply> {
    let found = store.pins(&row.agent, PINS_MAX).await?;
    let shown = |pin: &Pin| ShownPin {
        seq: pin.message.seq,
        exchange: pin.exchange,
        kind: pin.message.message.kind.name().to_owned(),
        pinned: pin.pinned,
        in_window: pin.exchange >= row.ledger.first_exchange,
        tokens: pin.message.tokens,
        title: first_line(&pin.message.message.text(), HEADLINE_CHARS_MAX),
    };
    Ok(PinsReply {
        agent_id: row.agent.clone(),
        pins: found.pins.iter().map(shown).collect(),
        has_more: found.oldest_unread.is_some(),
        max_tokens,
    })
}
