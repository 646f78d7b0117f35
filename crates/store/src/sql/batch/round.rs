//! The life of a batch: it is gathered, polled and closed.

mod close;
mod gather;
mod outdated;

use super::numbers;
use crate::{
    StoreResult,
    batch::{BatchFigures, BatchLine, BatchMove, OpenBatch},
    sql::{Connection, Row, query, row, sql, statement::SqlDialect},
};
use recapd_core::domain::{
    batch::{BatchIdentity, BatchState, LOOK_MS},
    time::Timestamp,
};

pub(crate) use close::account_unused;
pub(super) use close::close;
pub(super) use gather::gather;
pub(super) use outdated::clear_outdated;

/// Sets every next poll that is later than [`LOOK_MS`] from now to that time. Only a clock that ran ahead sets a later one.
pub(crate) async fn limit_next_polls(tx: &mut Connection, now: Timestamp) -> StoreResult<u64> {
    let sql = sql!(
        "-- sql/round.look_in_time\nUPDATE provider_batches SET next_at = $1 WHERE state <> 'closed' AND next_at > $1"
    );
    Ok(query(sql).bind(now.plus_ms(LOOK_MS)).execute(tx).await?)
}

pub(super) async fn is_any_due(connection: &mut Connection, now: Timestamp) -> StoreResult<bool> {
    let sql = sql!(
        "-- sql/round.is_any_due\nSELECT 1 FROM provider_batches WHERE state <> 'closed' AND next_at <= $1 LIMIT 1"
    );
    let found = query(sql).bind(now).fetch_optional(connection).await?;
    Ok(found.is_some())
}

pub(super) async fn take_due(
    tx: &mut Connection,
    now: Timestamp,
    next_at: Timestamp,
    limit: i64,
) -> StoreResult<Vec<OpenBatch>> {
    let sql = sql!(
        "-- sql/round.due\nUPDATE provider_batches SET next_at = $2, looks = looks + 1 WHERE batch IN \
               (SELECT batch FROM provider_batches WHERE state <> 'closed' AND next_at <= $1 ORDER BY next_at LIMIT $3) \
               RETURNING batch, name, requests, created_at, model, state, provider_id, looks - 1, provider, next_at"
    );
    let found = query(sql).bind(now).bind(next_at).bind(limit).fetch_all(tx).await?;
    found.iter().map(read_batch).collect()
}

fn read_batch(row: &Row) -> StoreResult<OpenBatch> {
    let (batch, state): (i64, String) = (row.try_get(0)?, row.try_get(5)?);
    Ok(OpenBatch {
        batch,
        identity: BatchIdentity {
            name: row.try_get(1)?,
            requests: row.try_get(2)?,
            created_at: row.try_get(3)?,
        },
        provider: row.try_get(8)?,
        model: row.try_get(4)?,
        state: BatchState::from_name(&state)
            .ok_or_else(|| row::inconsistent("provider_batches", format!("batch {batch}"), "state", state))?,
        provider_id: row.try_get(6)?,
        looks: row.try_get(7)?,
        held_until: row.try_get(9)?,
    })
}

pub(super) async fn lines(connection: &mut Connection, batch: i64) -> StoreResult<Vec<BatchLine>> {
    let sql = sql!(
        "-- sql/round.lines\nSELECT journal_key, exchanges, body FROM batch_requests \
               WHERE batch = $1 AND state = 'out' ORDER BY queued_at, agent_id"
    );
    let found = query(sql).bind(batch).fetch_all(connection).await?;
    let line = |row: &Row| {
        Ok(BatchLine {
            key: row.try_get(0)?,
            exchanges: numbers(row, 1, "exchanges")?,
            body: row.try_get(2)?,
        })
    };
    found.iter().map(line).collect()
}

/// See [`crate::batch::BatchStore::move_batch`]. Deletes the bodies of the requests once the provider has them.
pub(super) async fn move_on(tx: &mut Connection, batch: i64, step: BatchMove) -> StoreResult<bool> {
    let is_submitted = step.submitted_as.is_some();
    if is_submitted {
        lock_asking(tx, batch).await?;
    }
    let sql = sql!(
        "-- sql/round.move_on\nUPDATE provider_batches SET next_at = $3, \
               state = CASE WHEN $4 IS NULL THEN state ELSE 'submitted' END, provider_id = coalesce($4, provider_id), \
               looks = CASE WHEN $4 IS NULL THEN looks ELSE 0 END \
               WHERE batch = $1 AND state = $2 AND ($4 IS NOT NULL OR next_at = $5)"
    );
    let row_count = query(sql)
        .bind(batch)
        .bind(step.from.name())
        .bind(step.next_at)
        .bind(step.submitted_as)
        .bind(step.held_until)
        .execute(&mut *tx)
        .await?;
    if row_count == 0 {
        return Ok(false);
    }
    if is_submitted {
        let sql = sql!("-- sql/round.forget_bodies\nUPDATE batch_requests SET body = '' WHERE batch = $1");
        query(sql).bind(batch).execute(tx).await?;
    }
    Ok(true)
}

/// Locks the agents of a batch's questions in order of their ids, since questions are only written under these locks.
async fn lock_asking(tx: &mut Connection, batch: i64) -> StoreResult<()> {
    let sql = sql!(
        "-- postgres/round.lock_asking\nSELECT agent_id FROM agents WHERE agent_id IN \
               (SELECT agent_id FROM batch_requests WHERE batch = $1) ORDER BY agent_id {for_update}"
    );
    if tx.dialect() == SqlDialect::Postgres {
        query(sql).bind(batch).execute(tx).await?;
    }
    Ok(())
}

pub(super) async fn known_ids(
    connection: &mut Connection,
    provider: &str,
    limit: i64,
) -> StoreResult<Vec<String>> {
    let sql = sql!(
        "-- sql/round.known\nSELECT provider_id FROM provider_batches \
               WHERE provider = $1 AND provider_id IS NOT NULL ORDER BY batch DESC LIMIT $2"
    );
    Ok(query(sql).bind(provider).bind(limit).fetch_column(connection).await?)
}

pub(crate) async fn figures(connection: &mut Connection) -> StoreResult<BatchFigures> {
    let sql = sql!(
        "-- sql/round.figures\nSELECT count(*) FILTER (WHERE state = 'intent'), \
               count(*) FILTER (WHERE state = 'submitted'), min(created_at), \
               (SELECT count(*) FROM batch_requests WHERE state = 'waiting'), \
               (SELECT count(*) FROM batch_requests WHERE batch IN \
                (SELECT batch FROM provider_batches WHERE state <> 'closed') AND state = 'out') \
               FROM provider_batches WHERE state <> 'closed'"
    );
    let row = query(sql).fetch_one(connection).await?;
    Ok(BatchFigures {
        intents: row.try_get(0)?,
        submitted: row.try_get(1)?,
        oldest_at: row::time(&row, 2)?,
        waiting: row.try_get(3)?,
        out: row.try_get(4)?,
    })
}
