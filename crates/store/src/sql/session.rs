//! Opens and closes sessions. The first message opens a session. An idle gap, a clear or an end (requested, or because the newest
//! leg alone exceeds the budget) closes a session and opens the next one.

use crate::sql::{Connection, query, sql};

use super::{
    super::{AgentRow, SessionEnded, StoreResult},
    agent, queue,
};
use recapd_core::domain::{agent::AgentId, time::Timestamp, work::Reason};

pub(super) async fn open(
    tx: &mut Connection,
    agent: &AgentId,
    session: i64,
    first_exchange: i64,
    opened_at: Timestamp,
) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/session.open_session\nINSERT INTO sessions (agent_id, session, first_exchange, opened_at) \
               VALUES ($1, $2, $3, $4)"
    );
    query(sql).bind(agent.as_str()).bind(session).bind(first_exchange).bind(opened_at).execute(tx).await?;
    Ok(())
}

/// Ends a session. `reason` is `idle`, `end` or `clear`.
pub(super) async fn end(
    tx: &mut Connection,
    agent: &AgentId,
    session: i64,
    ended_at: Timestamp,
    reason: &str,
) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/session.end_session\nUPDATE sessions SET ended_at = $3, end_reason = $4 \
               WHERE agent_id = $1 AND session = $2 AND ended_at IS NULL"
    );
    query(sql).bind(agent.as_str()).bind(session).bind(ended_at).bind(reason).execute(tx).await?;
    Ok(())
}

/// See [`super::super::Store::end_session`].
pub(super) async fn end_session(
    tx: &mut Connection,
    agent: &AgentId,
    now: Timestamp,
) -> StoreResult<SessionEnded> {
    let row = agent::load_known(tx, agent).await?;
    let session = row.ledger.session;
    if !is_session_empty(tx, &row).await? {
        end(tx, agent, session, now, "end").await?;
        open(tx, agent, session + 1, row.ledger.last_exchange + 1, now).await?;
        let sql = sql!(
            "-- sql/session.next_session\nUPDATE agents SET session = $2, updated_at = $3 WHERE agent_id = $1"
        );
        query(sql).bind(agent.as_str()).bind(session + 1).bind(now).execute(&mut *tx).await?;
    }
    let enqueued = if row.ledger.pending_numbers() > 0 {
        let wake = queue::Wake::at_once(Reason::SessionEnd, now);
        Some(queue::enqueue(tx, agent, wake).await?)
    } else {
        None
    };
    Ok(SessionEnded { session, enqueued })
}

/// Returns true if the session has no messages yet. Ending it would only leave an empty session behind.
async fn is_session_empty(tx: &mut Connection, row: &AgentRow) -> StoreResult<bool> {
    let sql = sql!(
        "-- sql/session.is_session_empty\nSELECT first_exchange > $3 FROM sessions \
               WHERE agent_id = $1 AND session = $2"
    );
    let found = query(sql)
        .bind(row.agent.as_str())
        .bind(row.ledger.session)
        .bind(row.ledger.last_exchange)
        .fetch_optional(tx)
        .await?;
    Ok(found.map(|row| row.try_get::<bool>(0)).transpose()?.unwrap_or(false))
}
