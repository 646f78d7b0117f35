//! Append: number the messages, place them in exchanges, move the boundary, wake the queue. One transaction; the
//! decisions are the ledger's.

mod write;

use std::collections::HashMap;

use sqlx::{Row as _, SqliteConnection};

use super::{
    super::{AppendOutcome, AppendRequest, Prepared, StoreError, StoreResult},
    agent, queue,
};
use crate::domain::{
    agent::AgentId,
    exchange::{Exchange, PREAMBLE},
    ledger::{Cut, Eviction, Ledger, Overflow},
    time::Timestamp,
    work::Reason,
};

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
        write::create(tx, &request).await?;
    }
    let mut ledger = found.map(|row| row.ledger).unwrap_or_default();
    let fresh = without_known(tx, &request).await?;
    let written = place_all(tx, &request, &fresh, &mut ledger).await?;
    write::write(tx, &request, &written, &ledger).await?;
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
