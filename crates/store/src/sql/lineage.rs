//! Applies clears, marks and rewinds to the database ([`recapd_core::domain::lineage`]).

pub(super) mod notes;
pub(super) mod pins;
pub(super) mod withdraw;

use crate::sql::{Connection, query, sql};

use super::{
    super::{AppendRequest, StepOutcome, StoreResult},
    hold, recount,
    row::{self, exchange_columns},
};
use recapd_core::domain::{
    agent::AgentId, exchange::Exchange, ledger::Ledger, lineage::Mark, number::i64_or_max, time::Timestamp,
};

/// Applies a clear: deletes the marks, because a rewind can't go back past a clear.
pub(super) async fn clear(tx: &mut Connection, agent: &AgentId, ledger: &Ledger) -> StoreResult<StepOutcome> {
    forget_marks(tx, agent, 0).await?;
    Ok(StepOutcome::Cleared { session: ledger.session })
}

pub(super) async fn mark(
    tx: &mut Connection,
    agent: &AgentId,
    ledger: &Ledger,
    label: Option<String>,
    exchange: i64,
) -> StoreResult<StepOutcome> {
    let mark = ledger.mark(exchange);
    let sql = sql!(
        "-- sql/lineage.mark\nINSERT INTO marks (agent_id, mark, label, exchange, first_exchange, \
               tokens_before_window) SELECT $1, coalesce(max(mark), 0) + 1, $2, $3, $4, $5 FROM marks WHERE agent_id = $1"
    );
    query(sql)
        .bind(agent.as_str())
        .bind(label.as_deref())
        .bind(mark.exchange)
        .bind(mark.first_exchange)
        .bind(mark.tokens_before_window)
        .execute(tx)
        .await?;
    Ok(StepOutcome::Marked { label, exchange })
}

/// Rewinds to the newest mark, or to the newest one with that label. Sets the later exchanges aside, withdraws items about
/// exchanges that the summary no longer covers, and voids the lease of an update in progress.
pub(super) async fn rewind(
    tx: &mut Connection,
    request: &AppendRequest,
    ledger: &mut Ledger,
    label: Option<String>,
    at: Timestamp,
) -> StoreResult<StepOutcome> {
    let agent = &request.agent;
    let covered_through = ledger.summarized_through;
    let Some((exchange, set_aside)) = go_back(tx, agent, ledger, label.as_deref(), at).await? else {
        return Ok(StepOutcome::Ignored { label });
    };
    // During a rebuild, the held document may be about exchanges that were set aside.
    hold::release(tx, agent, 0, true).await?;
    let version = if ledger.summarized_through < covered_through {
        // Exchanges that become pending again may have counts from an earlier model's counter.
        recount::begin_again(tx, agent).await?;
        Some(withdraw::withdraw(tx, request, ledger, at).await?)
    } else {
        None
    };
    void_lease(tx, agent, request.now).await?;
    Ok(StepOutcome::Rewound { exchange, set_aside, version })
}

/// Goes back to the newest mark, or to the newest one with that label, and sets the later exchanges aside. Doesn't change the
/// summary. Returns the mark's exchange and the number of exchanges set aside; `None` if there is no such mark.
pub(super) async fn go_back(
    tx: &mut Connection,
    agent: &AgentId,
    ledger: &mut Ledger,
    label: Option<&str>,
    at: Timestamp,
) -> StoreResult<Option<(i64, i64)>> {
    let Some((number, mark)) = find_mark(tx, agent, label).await? else {
        return Ok(None);
    };
    forget_marks(tx, agent, number).await?;
    pins::withdraw(tx, agent, mark.exchange).await?;
    notes::withdraw(tx, agent, mark.exchange).await?;
    let set_aside = set_aside(tx, agent, mark.exchange, at).await?;
    ledger.rewind(&mark, load_exchange(tx, agent, mark.exchange).await?);
    Ok(Some((mark.exchange, set_aside)))
}

async fn find_mark(
    tx: &mut Connection,
    agent: &AgentId,
    label: Option<&str>,
) -> StoreResult<Option<(i64, Mark)>> {
    let newest = sql!(
        "-- sql/lineage.newest_mark\nSELECT mark, exchange, first_exchange, tokens_before_window \
                  FROM marks WHERE agent_id = $1 ORDER BY mark DESC LIMIT 1"
    );
    let labelled = sql!(
        "-- sql/lineage.named_mark\nSELECT mark, exchange, first_exchange, tokens_before_window \
                 FROM marks WHERE agent_id = $1 AND label = $2 ORDER BY mark DESC LIMIT 1"
    );
    let query = match label {
        None => query(newest).bind(agent.as_str()),
        Some(label) => query(labelled).bind(agent.as_str()).bind(label),
    };
    let Some(row) = query.fetch_optional(tx).await? else {
        return Ok(None);
    };
    let mark = Mark {
        exchange: row.try_get(1)?,
        first_exchange: row.try_get(2)?,
        tokens_before_window: row.try_get(3)?,
    };
    Ok(Some((row.try_get(0)?, mark)))
}

/// Deletes the marks after number `last_mark`.
async fn forget_marks(tx: &mut Connection, agent: &AgentId, last_mark: i64) -> StoreResult<()> {
    let sql = sql!("-- sql/lineage.forget_marks\nDELETE FROM marks WHERE agent_id = $1 AND mark > $2");
    query(sql).bind(agent.as_str()).bind(last_mark).execute(tx).await?;
    Ok(())
}

/// Sets the exchanges after `last_exchange` aside. Returns how many of them have messages: one with only a rewind has none.
async fn set_aside(
    tx: &mut Connection,
    agent: &AgentId,
    last_exchange: i64,
    at: Timestamp,
) -> StoreResult<i64> {
    let sql = sql!(
        "-- sql/lineage.set_aside\nUPDATE exchange_log SET set_aside_at = $3 \
               WHERE agent_id = $1 AND exchange > $2 AND role = 'exchange' AND set_aside_at IS NULL RETURNING messages"
    );
    let query = query(sql).bind(agent.as_str()).bind(last_exchange).bind(at);
    let messages: Vec<i64> = query.fetch_column(tx).await?;
    let with_messages = messages.iter().filter(|messages| **messages > 0);
    Ok(i64_or_max(with_messages.count()))
}

/// Returns an exchange; `None` if it is a preamble.
async fn load_exchange(tx: &mut Connection, agent: &AgentId, exchange: i64) -> StoreResult<Option<Exchange>> {
    let sql = sql!(
        "-- sql/lineage.held\nSELECT ",
        exchange_columns!("e"),
        " FROM exchange_log e WHERE e.agent_id = $1 AND e.exchange = $2 AND e.role = 'exchange'"
    );
    let found = query(sql).bind(agent.as_str()).bind(exchange).fetch_optional(tx).await?;
    found.map(|row| row::exchange(&row, 0)).transpose()
}

/// Voids the lease of an update in progress, because the state that the update works on has changed. The row can be claimed again
/// at once, and no attempt is counted.
pub(super) async fn void_lease(tx: &mut Connection, agent: &AgentId, now: Timestamp) -> StoreResult<()> {
    let now = tx.now(now).await?;
    let sql = sql!(
        "-- sql/lineage.void_lease\nUPDATE summary_update_queue SET lease_token = NULL, lease_owner = NULL, \
               leased_at = NULL, visible_at = $2, attempts = {max}(attempts - 1, 0), wake_seq = wake_seq + 1 \
               WHERE agent_id = $1 AND lease_token IS NOT NULL"
    );
    query(sql).bind(agent.as_str()).bind(now).execute(tx).await?;
    Ok(())
}
