//! Reads pinned and important messages, for the command line and for HTTP.

use serde::{Deserialize, Serialize};

use super::PINS_MAX;
use recapd_core::domain::{agent::AgentId, exchange::HEADLINE_CHARS_MAX, text::first_line};
use recapd_store::{AgentRow, Pin, Store, StoreResult};

/// A message that stays in view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ShownPin {
    pub seq: i64,
    pub exchange: i64,
    pub kind: String,
    /// True if the message was pinned; false if it is important to the running session.
    pub pinned: bool,
    /// True if the message's exchange is in the window, so that no copy is needed.
    pub in_window: bool,
    pub tokens: i64,
    /// The message's first line.
    pub title: String,
}

/// An agent's pins, in order of their messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = Pins)]
pub struct PinsReply {
    pub agent_id: AgentId,
    pub pins: Vec<ShownPin>,
    /// True if there are older pins.
    pub has_more: bool,
    /// The most tokens of all copies together.
    pub max_tokens: i64,
}

/// Reads the pins of the agent of `row`. `max_tokens` is the limit of all their copies together.
///
/// # Errors
/// The store's errors.
pub async fn pins(store: &dyn Store, row: &AgentRow, max_tokens: i64) -> StoreResult<PinsReply> {
    let found = store.pins(&row.agent, PINS_MAX).await?;
    let shown_pin = |pin: &Pin| ShownPin {
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
        pins: found.pins.iter().map(shown_pin).collect(),
        has_more: found.oldest_unread.is_some(),
        max_tokens,
    })
}
