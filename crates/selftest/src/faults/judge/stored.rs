//! Reads the database by SQL.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::{look::Refusal, place::Place};

#[derive(Clone, Debug, Default)]
pub(super) struct Message {
    pub(super) seq: i64,
    pub(super) exchange: i64,
    pub(super) kind: String,
    pub(super) client_id: Option<String>,
    pub(super) payload: String,
    pub(super) is_forgotten: bool,
}

/// An exchange, or a leg of one.
#[derive(Clone, Debug, Default)]
pub(super) struct Exchange {
    pub(super) number: i64,
    pub(super) is_preamble: bool,
    /// The agent that owns its messages.
    pub(super) source: String,
    pub(super) first_seq: i64,
    pub(super) last_seq: i64,
    pub(super) tokens: i64,
    pub(super) tokens_before: i64,
    pub(super) is_set_aside: bool,
}

pub(super) type Reach = (i64, i64);

#[derive(Clone, Debug, Default)]
pub(super) struct AgentRecord {
    pub(super) first_exchange: i64,
    pub(super) summarized_through: i64,
    pub(super) is_pending: bool,
    pub(super) tokens_before_window: i64,
    pub(super) last_seq: i64,
    /// The agent's own messages have higher numbers.
    pub(super) fork_seq: i64,
    pub(super) messages: Vec<Message>,
    pub(super) exchanges: Vec<Exchange>,
    /// The ranges of items that weren't replaced or withdrawn.
    pub(super) covered: Vec<Reach>,
    pub(super) evicted: Vec<Reach>,
    pub(super) versions: Vec<i64>,
    /// The version of the document; `None` without one.
    pub(super) version: Option<i64>,
    /// Messages that wait in the inbox, or were refused there.
    pub(super) left_in_inbox: u64,
}

pub(super) fn read(place: &Place) -> Result<BTreeMap<String, AgentRecord>, Refusal> {
    let mut all: BTreeMap<String, AgentRecord> = BTreeMap::new();
    for row in place.rows(
        "agent_id, first_exchange, summarized_through, CASE WHEN pending_since IS NULL THEN 0 ELSE 1 END, \
         tokens_before_window, last_seq, fork_seq",
        "agents WHERE deleted_at IS NULL ORDER BY agent_id",
    )? {
        let stored = AgentRecord {
            first_exchange: int(&row, 1),
            summarized_through: int(&row, 2),
            is_pending: int(&row, 3) == 1,
            tokens_before_window: int(&row, 4),
            last_seq: int(&row, 5),
            fork_seq: int(&row, 6),
            ..AgentRecord::default()
        };
        all.insert(text(&row, 0), stored);
    }
    let mut each = |columns: &str, from: &str, keep: fn(&mut AgentRecord, &[Value])| -> Result<(), Refusal> {
        for row in place.rows(&format!("agent_id, {columns}"), from)? {
            keep(all.entry(text(&row, 0)).or_default(), &row);
        }
        Ok(())
    };
    each(
        "seq, exchange, kind, client_id, payload, CASE WHEN forgotten_at IS NULL THEN 0 ELSE 1 END",
        "message_log ORDER BY agent_id, seq",
        |stored, row| stored.messages.push(message(row)),
    )?;
    each(
        "exchange, role, source_agent_id, first_seq, last_seq, tokens, tokens_before, \
         CASE WHEN set_aside_at IS NULL THEN 0 ELSE 1 END",
        "exchange_log ORDER BY agent_id, exchange",
        |stored, row| stored.exchanges.push(exchange(row)),
    )?;
    each(
        "first_exchange, last_exchange",
        "summary_item_ranges r WHERE EXISTS (SELECT 1 FROM summary_items i WHERE i.agent_id = r.agent_id \
         AND i.item = r.item AND i.removed_version IS NULL AND NOT EXISTS (SELECT 1 FROM withdrawals w \
         WHERE w.agent_id = i.agent_id AND i.item BETWEEN w.first_item AND w.last_item)) ORDER BY agent_id, first_exchange",
        |stored, row| stored.covered.push((int(row, 1), int(row, 2))),
    )?;
    each("from_exchange, through_exchange", "evictions ORDER BY agent_id, eviction", |stored, row| {
        stored.evicted.push((int(row, 1), int(row, 2)));
    })?;
    each("version", "summary_versions ORDER BY agent_id, version", |stored, row| {
        stored.versions.push(int(row, 1));
    })?;
    each("version", "summaries", |stored, row| {
        stored.version = Some(int(row, 1));
    })?;
    each("id", "message_inbox", |stored, _| stored.left_in_inbox += 1)?;
    Ok(all)
}

fn message(row: &[Value]) -> Message {
    Message {
        seq: int(row, 1),
        exchange: int(row, 2),
        kind: text(row, 3),
        client_id: row.get(4).and_then(Value::as_str).map(str::to_owned),
        payload: text(row, 5),
        is_forgotten: int(row, 6) == 1,
    }
}

fn exchange(row: &[Value]) -> Exchange {
    Exchange {
        number: int(row, 1),
        is_preamble: text(row, 2) == "preamble",
        source: text(row, 3),
        first_seq: int(row, 4),
        last_seq: int(row, 5),
        tokens: int(row, 6),
        tokens_before: int(row, 7),
        is_set_aside: int(row, 8) == 1,
    }
}

fn int(row: &[Value], column: usize) -> i64 {
    row.get(column).and_then(Value::as_i64).unwrap_or_default()
}

fn text(row: &[Value], column: usize) -> String {
    row.get(column).and_then(Value::as_str).unwrap_or_default().to_owned()
}
