//! The state of an agent, and the events that lead from one state to another. Does no I/O.
//!
//! The id of an event encodes the state after it. So a client that reconnects with the last id learns what has changed
//! since, from any daemon and after any time, although no event is stored.

use std::str::FromStr;

use serde::Serialize;
use serde_json::{Value, json};

use recapd_core::domain::{agent::AgentId, fnv::fnv32};
use recapd_store::{
    AgentRow,
    operate::{QueueRow, QueueState},
};

#[derive(Clone, Debug, Serialize)]
pub(super) struct EventState {
    pub(super) agent_id: AgentId,
    pub(super) last_seq: i64,
    pub(super) last_exchange: i64,
    /// If the last exchange is a later leg: its first leg.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) continues: Option<i64>,
    pub(super) first_exchange: i64,
    pub(super) covers_through: i64,
    pub(super) pending_exchanges: i64,
    pub(super) version: i64,
    pub(super) summary_tokens: i64,
    pub(super) queue: Option<QueueRow>,
}

impl EventState {
    pub(super) fn new(row: AgentRow, queue: Option<QueueRow>) -> Self {
        let ledger = row.ledger;
        Self {
            agent_id: row.agent,
            last_seq: ledger.last_seq,
            last_exchange: ledger.last_exchange,
            continues: ledger.continues(),
            first_exchange: ledger.first_exchange,
            covers_through: ledger.summarized_through,
            pending_exchanges: row.pending_exchanges,
            version: row.version,
            summary_tokens: row.summary_tokens,
            queue,
        }
    }

    pub(super) fn position(&self) -> Position {
        Position {
            version: self.version,
            first_exchange: self.first_exchange,
            last_seq: self.last_seq,
            queue: self.queue.as_ref().map_or(0, queue_fingerprint),
            failure: self.queue.as_ref().map_or(0, failure_fingerprint),
        }
    }
}

/// Returns a fingerprint of a queue row. It leaves out the row's age, so that it doesn't change as time passes.
fn queue_fingerprint(row: &QueueRow) -> u32 {
    let QueueRow { state, waits_for, reason, priority, attempts, parked_at, paused_for, last_error, .. } =
        row;
    fingerprint(&format!(
        "{state:?} {waits_for:?} {reason} {priority} {attempts} {parked_at:?} {paused_for:?} {last_error:?}"
    ))
}

/// Returns a fingerprint of a failure; 0 if no attempt failed.
fn failure_fingerprint(row: &QueueRow) -> u32 {
    let failed = failed_attempts(row);
    match &row.last_error {
        Some(error) if failed > 0 => fingerprint(&format!("{failed} {error}")),
        _ => 0,
    }
}

fn failed_attempts(row: &QueueRow) -> i64 {
    row.attempts - i64::from(row.state == QueueState::Running)
}

/// Returns a hash that is the same on every machine, and never 0.
fn fingerprint(text: &str) -> u32 {
    fnv32(text.bytes()).max(1)
}

/// The part of a state that an event's id encodes, so that the client remembers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    version: i64,
    first_exchange: i64,
    last_seq: i64,
    /// The fingerprint of the queue row; 0 without a row.
    queue: u32,
    /// The fingerprint of the last failed attempt; 0 without one.
    failure: u32,
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { version, first_exchange, last_seq, queue, failure } = self;
        write!(f, "{version}.{first_exchange}.{last_seq}.{queue:x}.{failure:x}")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoPosition;

impl FromStr for Position {
    type Err = NoPosition;

    fn from_str(text: &str) -> Result<Self, NoPosition> {
        let mut parts = text.split('.');
        let mut part = || parts.next().ok_or(NoPosition);
        let number = |text: &str| text.parse::<i64>().map_err(|_| NoPosition);
        let hexadecimal = |text: &str| u32::from_str_radix(text, 16).map_err(|_| NoPosition);
        let position = Self {
            version: number(part()?)?,
            first_exchange: number(part()?)?,
            last_seq: number(part()?)?,
            queue: hexadecimal(part()?)?,
            failure: hexadecimal(part()?)?,
        };
        parts.next().map_or(Ok(position), |_| Err(NoPosition))
    }
}

pub(super) type NamedEvent = (&'static str, Value);

/// Returns the first event about an agent.
pub(super) fn first_event(state: &EventState) -> NamedEvent {
    ("agent.changed", json!(state))
}

/// Returns the events that lead from `before` to `after`; none if both are equal.
pub(super) fn events_between(before: &Position, after: &EventState) -> Vec<NamedEvent> {
    let (now, agent_id) = (after.position(), &after.agent_id);
    let mut events = Vec::new();
    if now.last_seq != before.last_seq {
        let mut data =
            json!({ "agent_id": agent_id, "last_seq": after.last_seq, "last_exchange": after.last_exchange });
        if let Some(first) = after.continues {
            data["continues"] = first.into();
        }
        events.push(("turn.appended", data));
    }
    if now.first_exchange > before.first_exchange {
        let data = json!({
            "agent_id": agent_id, "from_exchange": before.first_exchange, "through_exchange": after.first_exchange - 1,
            "first_exchange": after.first_exchange, "pending_exchanges": after.pending_exchanges,
        });
        events.push(("window.evicted", data));
    }
    if now.first_exchange < before.first_exchange {
        let data = json!({
            "agent_id": agent_id, "first_exchange": after.first_exchange, "pending_exchanges": after.pending_exchanges,
        });
        events.push(("window.returned", data));
    }
    if now.version != before.version {
        let data = json!({
            "agent_id": agent_id, "version": after.version, "tokens": after.summary_tokens,
            "covers_through": after.covers_through, "pending_exchanges": after.pending_exchanges,
        });
        events.push(("summary.updated", data));
    }
    if let Some(row) = after.queue.as_ref().filter(|_| ![0, before.failure].contains(&now.failure)) {
        let data = json!({
            "agent_id": agent_id, "attempt": failed_attempts(row), "error": row.last_error, "state": row.state,
            "next_at": row.next_at,
        });
        events.push(("update.failed", data));
    }
    if now.queue != before.queue {
        events.push(("queue.changed", json!({ "agent_id": agent_id, "row": after.queue })));
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;
    use recapd_core::domain::time::Timestamp;

    fn state() -> EventState {
        EventState {
            agent_id: "coder".parse().unwrap(),
            last_seq: 80,
            last_exchange: 40,
            continues: None,
            first_exchange: 31,
            covers_through: 28,
            pending_exchanges: 2,
            version: 7,
            summary_tokens: 900,
            queue: None,
        }
    }

    fn row(state: QueueState, attempts: i64, last_error: Option<&str>) -> QueueRow {
        QueueRow {
            agent_id: "coder".parse().unwrap(),
            state,
            waits_for: None,
            next_at: None,
            reason: "eviction".to_owned(),
            priority: 5,
            queued_at: Timestamp(0),
            age_ms: 0,
            attempts,
            crashes: 0,
            owner: None,
            leased_at: None,
            parked_at: None,
            paused_for: None,
            last_error: last_error.map(str::to_owned),
        }
    }

    fn names(before: &EventState, after: &EventState) -> Vec<&'static str> {
        // Like a client that reconnects with the id.
        let position: Position = before.position().to_string().parse().unwrap();
        assert_eq!(position, before.position());
        events_between(&position, after).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn differences_become_events() {
        let before = state();
        assert_eq!(names(&before, &before), [""; 0]);
        let appended = EventState { last_seq: 82, ..state() };
        assert_eq!(names(&before, &appended), ["turn.appended"]);
        let evicted = EventState { first_exchange: 35, ..appended };
        assert_eq!(names(&before, &evicted), ["turn.appended", "window.evicted"]);
        assert_eq!(names(&evicted, &before), ["turn.appended", "window.returned"]);
        let updated = EventState { version: 8, ..state() };
        assert_eq!(names(&before, &updated), ["summary.updated"]);
    }

    #[test]
    fn a_failure_is_reported_once_and_the_age_of_a_row_never() {
        let queued = |row| EventState { queue: Some(row), ..state() };
        let running = queued(row(QueueState::Running, 1, None));
        assert_eq!(names(&state(), &running), ["queue.changed"]);
        let failed = queued(row(QueueState::Scheduled, 1, Some("network: away")));
        assert_eq!(names(&running, &failed), ["update.failed", "queue.changed"]);
        let again = queued(row(QueueState::Running, 2, Some("network: away")));
        assert_eq!(names(&failed, &again), ["queue.changed"]);
        let failed_again = queued(row(QueueState::Scheduled, 2, Some("network: away")));
        assert_eq!(names(&again, &failed_again), ["update.failed", "queue.changed"]);
        let older =
            queued(QueueRow { age_ms: 5_000, ..row(QueueState::Scheduled, 2, Some("network: away")) });
        assert_eq!(names(&failed_again, &older), [""; 0]);
        assert_eq!(names(&older, &state()), ["queue.changed"]);
    }

    #[test]
    fn other_texts_are_not_positions() {
        for text in ["", "1", "1.2.3.4", "1.2.3.4.5.6", "a.2.3.4.5", "1.2.3.g.5", "1.2.3.100000000.5"] {
            assert_eq!(text.parse::<Position>(), Err(NoPosition), "{text}");
        }
    }
}
