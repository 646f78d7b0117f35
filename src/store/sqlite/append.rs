//! Append: number the messages, place them in exchanges, move the boundary, wake the queue. One transaction; the
//! decisions are the ledger's.

use std::collections::HashMap;

use sqlx::{QueryBuilder, Row as _, Sqlite, SqliteConnection};

use super::{
    super::{AgentRow, AppendOutcome, AppendRequest, Prepared, SessionEnded, StoreError, StoreResult},
    agent, queue,
};
use crate::domain::{
    agent::AgentId,
    exchange::{Exchange, PREAMBLE},
    ledger::{Cut, Eviction, Ledger, Overflow},
    time::Timestamp,
    work::Reason,
};

/// The most rows that one statement inserts: with twelve values each, well below SQLite's limit of 32,766.
const ROWS_MAX: usize = 64;

/// The rows that an append will write.
#[derive(Default)]
struct Written {
    messages: Vec<Placed>,
    /// Exchanges that will take no further message, and at last the newest one. Their running totals ascend.
    exchanges: Vec<Exchange>,
    sessions: Vec<NewSession>,
    evictions: Vec<Eviction>,
    preamble_changed: bool,
}

/// Where a message of the request goes.
struct Placed {
    seq: i64,
    exchange: i64,
    place: usize,
    keeps_id: bool,
}

struct NewSession {
    session: i64,
    first_exchange: i64,
    opened_at: Timestamp,
    previous_ended_at: Option<Timestamp>,
}

/// See [`super::super::Store::append`].
pub(super) async fn append(tx: &mut SqliteConnection, request: AppendRequest) -> StoreResult<AppendOutcome> {
    let found = agent::load(tx, &request.agent).await?;
    if found.is_none() {
        create(tx, &request).await?;
    }
    let mut ledger = found.map(|row| row.ledger).unwrap_or_default();
    let fresh = without_known(tx, &request).await?;
    let written = place_all(tx, &request, &fresh, &mut ledger).await?;
    insert_messages(tx, &request, &written).await?;
    write_exchanges(tx, &request.agent, &written, &ledger).await?;
    write_sessions(tx, &request.agent, &written.sessions).await?;
    write_evictions(tx, &request.agent, &written.evictions).await?;
    // What is known already changes nothing, not even the rules by which the agent is judged.
    if !fresh.is_empty() {
        update_agent(tx, &request, &ledger, &written).await?;
    }
    let enqueued = if written.evictions.is_empty() {
        None
    } else {
        Some(wake(tx, &request, &ledger).await?)
    };
    let accepted = i64::try_from(fresh.len()).unwrap_or(i64::MAX);
    Ok(AppendOutcome {
        accepted,
        duplicates: i64::try_from(request.messages.len()).unwrap_or(i64::MAX) - accepted,
        exchange: ledger.newest.as_ref().map_or(PREAMBLE, |newest| newest.exchange),
        first_exchange: ledger.first_exchange,
        summarized_through: ledger.summarized_through,
        window_tokens: ledger.window_tokens(),
        evictions: written.evictions,
        enqueued,
    })
}

async fn create(tx: &mut SqliteConnection, request: &AppendRequest) -> StoreResult<()> {
    sqlx::query(
        "-- sqlite/append.create\nINSERT INTO agents (agent_id, created_at, updated_at) VALUES (?1, ?2, ?2)",
    )
    .bind(request.agent.as_str())
    .bind(request.now.0)
    .execute(&mut *tx)
    .await?;
    sqlx::query(
        "-- sqlite/append.create_summary\nINSERT INTO summaries (agent_id, updated_at) VALUES (?1, ?2)",
    )
    .bind(request.agent.as_str())
    .bind(request.now.0)
    .execute(tx)
    .await?;
    Ok(())
}

/// The places of the messages to be stored, and whether each keeps its client id.
async fn without_known(
    tx: &mut SqliteConnection,
    request: &AppendRequest,
) -> StoreResult<Vec<(usize, bool)>> {
    let mut known = known_payloads(tx, request).await?;
    let mut fresh = Vec::with_capacity(request.messages.len());
    for (place, Prepared { message, .. }) in request.messages.iter().enumerate() {
        let Some(id) = &message.client_id else {
            fresh.push((place, true));
            continue;
        };
        match known.get(id) {
            None => {
                known.insert(id.clone(), message.payload.clone());
                fresh.push((place, true));
            }
            Some(payload) if *payload == message.payload => {}
            // Another message under the same id: a transcript may hold such, and nothing of it may be lost.
            Some(_) if request.replayed => fresh.push((place, false)),
            Some(_) => return Err(StoreError::ClientIdReused(id.clone())),
        }
    }
    Ok(fresh)
}

/// What is stored under the client ids of this request.
async fn known_payloads(
    tx: &mut SqliteConnection,
    request: &AppendRequest,
) -> StoreResult<HashMap<String, String>> {
    let ids: Vec<&str> = request
        .messages
        .iter()
        .filter_map(|prepared| prepared.message.client_id.as_deref())
        .collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let sql = "-- sqlite/append.known_payloads\nSELECT client_id, payload FROM message_log \
               WHERE agent_id = ?1 AND client_id IN (SELECT value FROM json_each(?2))";
    let found = sqlx::query(sql)
        .bind(request.agent.as_str())
        .bind(serde_json::json!(ids).to_string())
        .fetch_all(tx)
        .await?;
    Ok(found
        .iter()
        .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)))
        .collect::<Result<_, sqlx::Error>>()?)
}

async fn place_all(
    tx: &mut SqliteConnection,
    request: &AppendRequest,
    fresh: &[(usize, bool)],
    ledger: &mut Ledger,
) -> StoreResult<Written> {
    let mut written = Written::default();
    for &(place, keeps_id) in fresh {
        let Some(Prepared { entry, .. }) = request.messages.get(place) else {
            continue;
        };
        if ledger.last_seq == 0 {
            written.sessions.push(NewSession {
                session: ledger.session,
                first_exchange: ledger.last_exchange + 1,
                opened_at: entry.at,
                previous_ended_at: None,
            });
        }
        let appended = ledger.append(entry, request.rules.idle_gap_ms);
        written.messages.push(Placed {
            seq: appended.seq,
            exchange: appended.exchange,
            place,
            keeps_id,
        });
        written.preamble_changed |= appended.exchange == PREAMBLE;
        if appended.new_session {
            written.sessions.push(NewSession {
                session: ledger.session,
                first_exchange: appended.exchange,
                opened_at: entry.at,
                previous_ended_at: appended.left.as_ref().map(|left| left.last_at),
            });
        }
        written.exchanges.extend(appended.left);
        if let Some(overflow) = ledger.overflow(request.rules.budget) {
            let cut = find_cut(tx, &request.agent, overflow, &written.exchanges).await?;
            written.evictions.extend(ledger.evict_to(cut, entry.at));
        }
    }
    Ok(written)
}

/// The first exchange with enough tokens before it: one index look-up among the stored ones, whose totals are all
/// below those of this append.
async fn find_cut(
    tx: &mut SqliteConnection,
    agent: &AgentId,
    overflow: Overflow,
    unwritten: &[Exchange],
) -> StoreResult<Option<Cut>> {
    let sql = "-- sqlite/append.find_cut\nSELECT exchange, tokens_before FROM exchange_log \
               WHERE agent_id = ?1 AND tokens_before >= ?2 AND set_aside_at IS NULL AND role = 'exchange' \
               ORDER BY tokens_before, exchange LIMIT 1";
    let found = sqlx::query(sql)
        .bind(agent.as_str())
        .bind(overflow.tokens_before_min)
        .fetch_optional(tx)
        .await?;
    if let Some(row) = found {
        return Ok(Some(Cut {
            exchange: row.try_get(0)?,
            tokens_before: row.try_get(1)?,
        }));
    }
    let first = unwritten.partition_point(|exchange| exchange.tokens_before < overflow.tokens_before_min);
    Ok(unwritten.get(first).map(|exchange| Cut {
        exchange: exchange.exchange,
        tokens_before: exchange.tokens_before,
    }))
}

/// `rows` in runs of 64, 32 and so on: few statements to run, however many rows there are, and just seven different
/// ones to prepare.
fn runs<T>(mut rows: &[T]) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        let exponent = rows.len().min(ROWS_MAX).checked_ilog2()?;
        let (run, rest) = rows.split_at(1 << exponent);
        rows = rest;
        Some(run)
    })
}

async fn insert_messages(
    tx: &mut SqliteConnection,
    request: &AppendRequest,
    written: &Written,
) -> StoreResult<()> {
    for run in runs(&written.messages) {
        let placed = run
            .iter()
            .filter_map(|placed| Some((placed, request.messages.get(placed.place)?)));
        QueryBuilder::<Sqlite>::new(
            "-- sqlite/append.messages\nINSERT INTO message_log (agent_id, seq, exchange, kind, speaker, format, \
             payload, tokens, count_method, client_id, said_at, received_at) ",
        )
        .push_values(placed, |mut row, (placed, Prepared { message, entry })| {
            row.push_bind(request.agent.as_str())
                .push_bind(placed.seq)
                .push_bind(placed.exchange)
                .push_bind(message.kind.name())
                .push_bind(message.speaker.as_deref())
                .push_bind(message.format.name())
                .push_bind(message.payload.as_str())
                .push_bind(entry.tokens)
                .push_bind(request.count_method.as_str())
                .push_bind(message.client_id.as_deref().filter(|_| placed.keeps_id))
                .push_bind(entry.at.0)
                .push_bind(request.now.0);
        })
        .build()
        .execute(&mut *tx)
        .await?;
    }
    Ok(())
}

async fn write_exchanges(
    tx: &mut SqliteConnection,
    agent: &AgentId,
    written: &Written,
    ledger: &Ledger,
) -> StoreResult<()> {
    let preamble = ledger.preamble.as_ref().filter(|_| written.preamble_changed);
    let newest = ledger.newest.as_ref().filter(|_| !written.messages.is_empty());
    let exchanges: Vec<&Exchange> = preamble
        .into_iter()
        .chain(&written.exchanges)
        .chain(newest)
        .collect();
    for run in runs(&exchanges) {
        upsert_exchanges(tx, agent, run).await?;
    }
    Ok(())
}

async fn upsert_exchanges(
    tx: &mut SqliteConnection,
    agent: &AgentId,
    exchanges: &[&Exchange],
) -> StoreResult<()> {
    QueryBuilder::<Sqlite>::new(
        "-- sqlite/append.exchanges\nINSERT INTO exchange_log (agent_id, exchange, role, session, source_agent_id, \
         first_seq, last_seq, tokens, tokens_before, state, opened_at, last_at, headline) ",
    )
    .push_values(exchanges, |mut row, exchange| {
        let is_preamble = exchange.exchange == PREAMBLE;
        row.push_bind(agent.as_str())
            .push_bind(exchange.exchange)
            .push_bind(if is_preamble { "preamble" } else { "exchange" })
            .push_bind(exchange.session)
            .push_bind(agent.as_str())
            .push_bind(exchange.first_seq)
            .push_bind(exchange.last_seq)
            .push_bind(exchange.tokens)
            .push_bind(exchange.tokens_before)
            .push_bind(exchange.state.name())
            .push_bind(exchange.opened_at.0)
            .push_bind(exchange.last_at.0)
            .push_bind(serde_json::json!(exchange.headline).to_string());
    })
    .push(
        " ON CONFLICT (agent_id, exchange) DO UPDATE SET last_seq = excluded.last_seq, tokens = excluded.tokens, \
         state = excluded.state, opened_at = excluded.opened_at, last_at = excluded.last_at, \
         headline = excluded.headline",
    )
    .build()
    .execute(tx)
    .await?;
    Ok(())
}

async fn write_sessions(
    tx: &mut SqliteConnection,
    agent: &AgentId,
    sessions: &[NewSession],
) -> StoreResult<()> {
    for new in sessions {
        if let Some(ended_at) = new.previous_ended_at {
            end_row(tx, agent, new.session - 1, ended_at, "idle").await?;
        }
        open_row(tx, agent, new.session, new.first_exchange, new.opened_at).await?;
    }
    Ok(())
}

async fn open_row(
    tx: &mut SqliteConnection,
    agent: &AgentId,
    session: i64,
    first_exchange: i64,
    opened_at: Timestamp,
) -> StoreResult<()> {
    let sql = "-- sqlite/append.open_session\nINSERT INTO sessions (agent_id, session, first_exchange, opened_at) \
               VALUES (?1, ?2, ?3, ?4)";
    sqlx::query(sql)
        .bind(agent.as_str())
        .bind(session)
        .bind(first_exchange)
        .bind(opened_at.0)
        .execute(tx)
        .await?;
    Ok(())
}

async fn end_row(
    tx: &mut SqliteConnection,
    agent: &AgentId,
    session: i64,
    ended_at: Timestamp,
    reason: &str,
) -> StoreResult<()> {
    let sql = "-- sqlite/append.end_session\nUPDATE sessions SET ended_at = ?3, end_reason = ?4 \
               WHERE agent_id = ?1 AND session = ?2 AND ended_at IS NULL";
    sqlx::query(sql)
        .bind(agent.as_str())
        .bind(session)
        .bind(ended_at.0)
        .bind(reason)
        .execute(tx)
        .await?;
    Ok(())
}

async fn write_evictions(
    tx: &mut SqliteConnection,
    agent: &AgentId,
    evictions: &[Eviction],
) -> StoreResult<()> {
    let sql = "-- sqlite/append.eviction\nINSERT INTO evictions (agent_id, eviction, from_exchange, through_exchange, \
               tokens, evicted_at) SELECT agent_id, last_eviction + ?2, ?3, ?4, ?5, ?6 FROM agents WHERE agent_id = ?1";
    for (number, eviction) in (1_i64..).zip(evictions) {
        sqlx::query(sql)
            .bind(agent.as_str())
            .bind(number)
            .bind(eviction.from_exchange)
            .bind(eviction.through_exchange)
            .bind(eviction.tokens)
            .bind(eviction.at.0)
            .execute(&mut *tx)
            .await?;
    }
    Ok(())
}

async fn update_agent(
    tx: &mut SqliteConnection,
    request: &AppendRequest,
    ledger: &Ledger,
    written: &Written,
) -> StoreResult<()> {
    let latest = written
        .messages
        .iter()
        .filter_map(|placed| request.messages.get(placed.place));
    let as_of = if request.replayed {
        latest.map(|prepared| prepared.entry.at.0).max()
    } else {
        None
    };
    let pending_since = (!written.evictions.is_empty()).then_some(request.now.0);
    let sql = "-- sqlite/append.agent\nUPDATE agents SET updated_at = ?2, \
               as_of = CASE WHEN ?3 THEN max(coalesce(as_of, ?4), ?4) END, last_seq = ?5, last_exchange = ?6, \
               newest_exchange = ?7, session = ?8, first_exchange = ?9, tokens_before_window = ?10, \
               pending_since = coalesce(pending_since, ?11), last_eviction = last_eviction + ?12, \
               budget_tokens = ?13 WHERE agent_id = ?1";
    sqlx::query(sql)
        .bind(request.agent.as_str())
        .bind(request.now.0)
        .bind(as_of.is_some())
        .bind(as_of)
        .bind(ledger.last_seq)
        .bind(ledger.last_exchange)
        .bind(ledger.newest.as_ref().map(|newest| newest.exchange))
        .bind(ledger.session)
        .bind(ledger.first_exchange)
        .bind(ledger.tokens_before_window)
        .bind(pending_since)
        .bind(i64::try_from(written.evictions.len()).unwrap_or(i64::MAX))
        .bind(request.rules.budget.budget_tokens())
        .execute(tx)
        .await?;
    Ok(())
}

async fn wake(
    tx: &mut SqliteConnection,
    request: &AppendRequest,
    ledger: &Ledger,
) -> StoreResult<super::Enqueued> {
    let rules = &request.rules;
    let is_full = ledger.pending_numbers() >= rules.batch_exchanges;
    let wake = queue::Wake {
        reason: Reason::Eviction,
        delay_ms: if is_full {
            rules.debounce_ms
        } else {
            rules.max_wait_ms
        },
        revive_after_ms: rules.revive_after_ms,
        now: request.now,
    };
    queue::enqueue(tx, &request.agent, wake).await
}

/// See [`super::super::Store::end_session`].
pub(super) async fn end_session(
    tx: &mut SqliteConnection,
    agent: &AgentId,
    now: Timestamp,
) -> StoreResult<SessionEnded> {
    let row = agent::load(tx, agent)
        .await?
        .ok_or_else(|| StoreError::UnknownAgent(agent.clone()))?;
    let session = row.ledger.session;
    if !is_session_empty(tx, &row).await? {
        end_row(tx, agent, session, now, "end").await?;
        open_row(tx, agent, session + 1, row.ledger.last_exchange + 1, now).await?;
        let sql = "-- sqlite/append.next_session\nUPDATE agents SET session = ?2, updated_at = ?3 WHERE agent_id = ?1";
        sqlx::query(sql)
            .bind(agent.as_str())
            .bind(session + 1)
            .bind(now.0)
            .execute(&mut *tx)
            .await?;
    }
    let enqueued = if row.ledger.pending_numbers() > 0 {
        let wake = queue::Wake {
            reason: Reason::SessionEnd,
            delay_ms: 0,
            revive_after_ms: 0,
            now,
        };
        Some(queue::enqueue(tx, agent, wake).await?)
    } else {
        None
    };
    Ok(SessionEnded { session, enqueued })
}

/// Ending a session in which nothing was said yet would only leave an empty one behind.
async fn is_session_empty(tx: &mut SqliteConnection, row: &AgentRow) -> StoreResult<bool> {
    let sql = "-- sqlite/append.is_session_empty\nSELECT first_exchange > ?3 FROM sessions \
               WHERE agent_id = ?1 AND session = ?2";
    let found = sqlx::query(sql)
        .bind(row.agent.as_str())
        .bind(row.ledger.session)
        .bind(row.ledger.last_exchange)
        .fetch_optional(tx)
        .await?;
    Ok(found
        .map(|row| row.try_get::<bool, _>(0))
        .transpose()?
        .unwrap_or(false))
}
