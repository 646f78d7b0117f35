//! Converts rows to domain values, and database errors to [`StoreError`].

use crate::sql::Row;
use sqlx::{
    error::{DatabaseError, ErrorKind},
    postgres::PgDatabaseError,
};

use super::super::{AgentRow, StoreError, StoreResult, StoredMessage, seal::Chain};
use recapd_core::{
    domain::{
        agent::AgentId,
        exchange::{Exchange, ExchangeState, Headline},
        ledger::Ledger,
        message::{Format, Kind, Message},
        settings::AgentSettings,
        summary::item::{ExchangeRange, Importance, Item, Origin},
        time::Timestamp,
    },
    formats,
};

/// PostgreSQL's codes for a transaction that was undone in favour of another one: `serialization_failure`, `deadlock_detected`,
/// `lock_not_available`. The whole transaction can be retried.
const UNDONE: [&str; 3] = ["40001", "40P01", "55P03"];
/// PostgreSQL's classes of errors about values that it can never store. Class 22 is for values outside of their type, such as a
/// time before 4713 BC; class 54 for values that are too large, such as a key too long for an index.
const IMPOSSIBLE: [&str; 2] = ["22", "54"];

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        match error.as_database_error() {
            Some(refusal) if refusal.code().is_some_and(|code| UNDONE.contains(&code.as_ref())) => {
                Self::Contended(error.to_string())
            }
            // The schema will always refuse this value: it is a defect, and a retry is useless.
            Some(refusal) if refusal.kind() != ErrorKind::Other || is_impossible(refusal) => {
                Self::Refused(error.to_string())
            }
            _ => Self::Unavailable((&error).into()),
        }
    }
}

fn is_impossible(refusal: &(dyn DatabaseError + 'static)) -> bool {
    let refusal = refusal.try_downcast_ref::<PgDatabaseError>();
    refusal.is_some_and(|refusal| IMPOSSIBLE.iter().any(|class| refusal.code().starts_with(class)))
}

/// The columns of an exchange, with a prefix for the table's alias.
macro_rules! exchange_columns {
    ($alias:literal) => {
        concat!(
            $alias,
            ".exchange, ",
            $alias,
            ".session, ",
            $alias,
            ".first_seq, ",
            $alias,
            ".last_seq, ",
            $alias,
            ".tokens, ",
            $alias,
            ".tokens_before, ",
            $alias,
            ".state, ",
            $alias,
            ".opened_at, ",
            $alias,
            ".last_at, ",
            $alias,
            ".headline, ",
            $alias,
            ".set_aside_at, ",
            $alias,
            ".messages"
        )
    };
}
pub(super) use exchange_columns;

/// SQL for the latest time at which exchange `e` left the window; NULL if it never did. Evictions are grouped by the number of
/// digits of their length. In each group, the index `evictions_reach` is searched only as far back as such an eviction can reach.
macro_rules! evicted_at {
    () => {
        "(SELECT max((SELECT max(v.evicted_at) FROM evictions v WHERE v.agent_id = e.agent_id \
         AND length(CAST(v.through_exchange - v.from_exchange AS text)) = d.column1 \
         AND v.from_exchange BETWEEN e.exchange - d.column2 AND e.exchange AND v.through_exchange >= e.exchange)) \
         FROM (VALUES (1, 9), (2, 99), (3, 999), (4, 9999), (5, 99999), (6, 999999), (7, 9999999), (8, 99999999)) AS d)"
    };
}
pub(super) use evicted_at;

/// Reads the columns of `exchange_columns!`, which begin at column `first`.
pub(super) fn exchange(row: &Row, first: usize) -> StoreResult<Exchange> {
    let number: i64 = row.try_get(first)?;
    let state: String = row.try_get(first + 6)?;
    let headline: String = row.try_get(first + 9)?;
    let wrong =
        |column, value: &str| inconsistent("exchange_log", format!("exchange {number}"), column, value);
    Ok(Exchange {
        exchange: number,
        session: row.try_get(first + 1)?,
        first_seq: row.try_get(first + 2)?,
        last_seq: row.try_get(first + 3)?,
        messages: row.try_get(first + 11)?,
        tokens: row.try_get(first + 4)?,
        tokens_before: row.try_get(first + 5)?,
        state: ExchangeState::from_name(&state).ok_or_else(|| wrong("state", &state))?,
        opened_at: row.try_get(first + 7)?,
        last_at: row.try_get(first + 8)?,
        headline: self::headline(number, &headline)?,
        set_aside_at: time(row, first + 10)?,
    })
}

pub(super) fn headline(exchange: i64, stored: &str) -> StoreResult<Headline> {
    serde_json::from_str(stored)
        .map_err(|_| inconsistent("exchange_log", format!("exchange {exchange}"), "headline", stored))
}

pub(super) fn inconsistent(
    table: &'static str,
    row: impl Into<String>,
    column: &'static str,
    value: impl Into<String>,
) -> StoreError {
    StoreError::Inconsistent { table, row: row.into(), column, value: value.into() }
}

pub(super) fn time(row: &Row, column: usize) -> StoreResult<Option<Timestamp>> {
    Ok(row.try_get(column)?)
}

pub(super) fn settings(row: &Row, column: usize, name: &str) -> StoreResult<AgentSettings> {
    let text: String = row.try_get(column)?;
    serde_json::from_str(&text).map_err(|_| inconsistent("agents", name, "settings", text))
}

pub(super) fn agent_id(row: &Row, column: usize) -> StoreResult<AgentId> {
    let name: String = row.try_get(column)?;
    name.parse().map_err(|_| inconsistent("agents", name.clone(), "agent_id", name))
}

/// Reads an agent's id from a row that belongs to agent `of`.
pub(super) fn agent_id_of(row: &Row, column: usize, of: &str) -> StoreResult<AgentId> {
    let name: String = row.try_get(column)?;
    name.parse().map_err(|_| inconsistent("agents", of, "agent_id", name))
}

/// The number of columns of `exchange_columns!`.
pub(super) const EXCHANGE_COLUMNS: usize = 12;

/// The number of columns before the exchanges in an agent's row.
const AGENT_COLUMNS: usize = 20;

/// Reads an agent's row: its own columns, then the newest exchange's, then the preamble's.
pub(super) fn agent(row: &Row) -> StoreResult<AgentRow> {
    let agent = agent_id(row, 0)?;
    let joined = |first: usize| -> StoreResult<Option<Exchange>> {
        let present = row.try_get::<Option<i64>>(first)?.is_some();
        present.then(|| exchange(row, first)).transpose()
    };
    Ok(AgentRow {
        project: row.try_get(1)?,
        pending_since: time(row, 2)?,
        as_of: time(row, 3)?,
        created_at: row.try_get(4)?,
        updated_at: row.try_get(5)?,
        budget_tokens: row.try_get(14)?,
        settings: settings(row, 15, agent.as_str())?,
        max_messages: row.try_get(16)?,
        pending_exchanges: row.try_get(17)?,
        chain: Chain { link: row.try_get(18)?, through: row.try_get(19)? },
        version: row.try_get(6)?,
        summary_tokens: row.try_get(7)?,
        ledger: Ledger {
            last_seq: row.try_get(8)?,
            last_exchange: row.try_get(9)?,
            session: row.try_get(10)?,
            first_exchange: row.try_get(11)?,
            tokens_before_window: row.try_get(12)?,
            summarized_through: row.try_get(13)?,
            newest: joined(AGENT_COLUMNS)?,
            preamble: joined(AGENT_COLUMNS + EXCHANGE_COLUMNS)?,
        },
        agent,
    })
}

/// Reads `seq, format, payload, tokens, said_at, kind`, and parses the payload. Shows a message that today's parser refuses
/// without content, rather than hiding it.
pub(super) fn message(row: &Row) -> StoreResult<StoredMessage> {
    let seq: i64 = row.try_get(0)?;
    let format: String = row.try_get(1)?;
    let payload: String = row.try_get(2)?;
    let kind: String = row.try_get(5)?;
    let format = Format::from_name(&format)
        .ok_or_else(|| inconsistent("message_log", format!("seq {seq}"), "format", format))?;
    let message = formats::parse(format, &payload).unwrap_or_else(|_| Message {
        format,
        payload,
        ..Message::new(Kind::from_name(&kind), Vec::new())
    });
    Ok(StoredMessage { seq, message, tokens: row.try_get(3)?, said_at: row.try_get(4)? })
}

/// Reads `item, importance, origin, provisional, started_at, ended_at, source_tokens, text, brief, gist, ranges, pinned`, where `ranges`
/// is a JSON array of pairs.
pub(super) fn item(row: &Row) -> StoreResult<Item> {
    let number: i64 = row.try_get(0)?;
    let importance: String = row.try_get(1)?;
    let origin: String = row.try_get(2)?;
    let ranges: String = row.try_get(10)?;
    let wrong = |column, value: &str| inconsistent("summary_items", format!("item {number}"), column, value);
    let mut pairs: Vec<(i64, i64)> = serde_json::from_str(&ranges).map_err(|_| wrong("ranges", &ranges))?;
    pairs.sort_unstable();
    Ok(Item {
        item: number,
        ranges: pairs.into_iter().map(|(first, last)| ExchangeRange { first, last }).collect(),
        started_at: row.try_get(4)?,
        ended_at: row.try_get(5)?,
        source_tokens: row.try_get(6)?,
        importance: Importance::from_name(&importance).ok_or_else(|| wrong("importance", &importance))?,
        text: row.try_get(7)?,
        brief: row.try_get(8)?,
        gist: row.try_get(9)?,
        origin: Origin::from_name(&origin).ok_or_else(|| wrong("origin", &origin))?,
        provisional: row.try_get(3)?,
        pinned: row.try_get(11)?,
    })
}
