//! Withdraws items from the summary, for a rewind and for forgetting.
//!
//! An item about any exchange after the watermark is withdrawn as a whole. The live exchanges before the watermark that it
//! covered get digest items, so that coverage has no gap. All of this is one version, with its own fencing token.

use crate::sql::{Connection, query, sql};

use super::super::{
    super::{AppendRequest, StoreResult},
    facts,
    revise::{self, Revision},
    row::{self, exchange_columns},
    withdrawals,
};
use recapd_core::domain::{
    agent::AgentId,
    exchange::Exchange,
    ledger::Ledger,
    summary::{coverage::digest_items, version::VersionKind},
    time::Timestamp,
};

/// Withdraws the items that cover an exchange after the watermark of `ledger`. Returns the new version.
pub(super) async fn withdraw(
    tx: &mut Connection,
    request: &AppendRequest,
    ledger: &Ledger,
    at: Timestamp,
) -> StoreResult<i64> {
    let (agent, through) = (&request.agent, ledger.summarized_through);
    withdrawals::write_rest(tx, agent).await?;
    let removed = reaching_beyond(tx, agent, through).await?;
    let orphans = covered_before(tx, agent, &removed, through).await?;
    let (_, as_of) = revise::current(tx, agent).await?;
    let as_of = if request.replayed { as_of.map_or(at, |as_of| as_of.max(at)) } else { request.now };
    let revision = Revision {
        agent: agent.clone(),
        kind: VersionKind::Rewind,
        through,
        gains: None,
        removed,
        added: digest_items(&orphans),
        hidden: Vec::new(),
        facts: facts::beyond(tx, agent, through).await?,
        policy: request.rules.policy,
        as_of,
        now: request.now,
    };
    let version = revise::write(tx, revision, None).await?.version;
    note_rewind(tx, agent, version, ledger.last_seq).await?;
    Ok(version)
}

/// Returns the items that cover an exchange after `through`.
async fn reaching_beyond(tx: &mut Connection, agent: &AgentId, through: i64) -> StoreResult<Vec<i64>> {
    let sql = sql!(
        "-- sql/withdraw.reaching_beyond\nSELECT i.item FROM summary_items i \
               WHERE i.agent_id = $1 AND i.removed_version IS NULL AND EXISTS (SELECT 1 FROM summary_item_ranges r \
               WHERE r.agent_id = i.agent_id AND r.item = i.item AND r.last_exchange > $2) ORDER BY i.item"
    );
    Ok(query(sql).bind(agent.as_str()).bind(through).fetch_column(tx).await?)
}

/// Returns the live exchanges up to `through` that `items` cover.
pub(crate) async fn covered_before(
    tx: &mut Connection,
    agent: &AgentId,
    items: &[i64],
    through: i64,
) -> StoreResult<Vec<Exchange>> {
    let sql = sql!(
        "-- sql/withdraw.covered_before\nSELECT ",
        exchange_columns!("e"),
        " FROM {each}($2{::jsonb}) n {join} summary_item_ranges r ON r.agent_id = $1 AND r.item = CAST(n.value AS bigint) ",
        "{join} exchange_log e ON e.agent_id = r.agent_id ",
        "AND e.exchange BETWEEN r.first_exchange AND {min}(r.last_exchange, $3) ",
        "WHERE e.set_aside_at IS NULL AND e.role = 'exchange' ORDER BY e.exchange"
    );
    let found = query(sql)
        .bind(agent.as_str())
        .bind(serde_json::json!(items).to_string())
        .bind(through)
        .fetch_all(tx)
        .await?;
    found.iter().map(|row| row::exchange(row, 0)).collect()
}

/// Records which message's rewind wrote the version.
async fn note_rewind(tx: &mut Connection, agent: &AgentId, version: i64, seq: i64) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/withdraw.note_rewind\nUPDATE summary_versions SET rewind_seq = $3 \
               WHERE agent_id = $1 AND version = $2"
    );
    query(sql).bind(agent.as_str()).bind(version).bind(seq).execute(tx).await?;
    Ok(())
}
