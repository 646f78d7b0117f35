//! Removes part of the derived data before exchanges are forgotten: texts of earlier versions, model answers, idempotency keys.
//! There may be more of these than one transaction should remove.

use std::collections::BTreeMap;

use crate::sql::{Connection, query, sql, statement::Statement};

use super::{
    super::{super::StoreResult, withdrawals},
    TouchedAgent,
};
use recapd_core::domain::{agent::AgentId, number::i64_or_max, time::Timestamp};

/// Limits how many versions of one agent lose their texts in one transaction. The database overwrites each text, of up to 40 kB.
const VERSIONS_MAX: i64 = 32;
/// Limits how many short rows of one agent a transaction deletes.
const ROWS_MAX: i64 = 1_000;

pub(super) struct LightenOutcome {
    /// Versions that lost their text.
    pub(super) versions: i64,
    /// True if so little is left that the transaction that forgets the exchanges removes it, too.
    pub(super) is_light: bool,
}

/// Removes part of the data derived from these exchanges.
pub(super) async fn lighten(
    tx: &mut Connection,
    touched: &BTreeMap<AgentId, TouchedAgent>,
    now: Timestamp,
) -> StoreResult<LightenOutcome> {
    let mut outcome = LightenOutcome { versions: 0, is_light: true };
    for (agent, touched) in touched {
        withdrawals::write_rest(tx, agent).await?;
        if let Some(first) = touched.summarisable.first() {
            let version_count = versions(tx, agent, *first, now).await?;
            outcome.versions += version_count;
            outcome.is_light &= version_count < VERSIONS_MAX;
        }
        outcome.is_light &= rows(tx, agent).await?;
    }
    Ok(outcome)
}

/// Removes the texts of earlier versions, from the first version that covered `exchange` on.
async fn versions(tx: &mut Connection, agent: &AgentId, exchange: i64, now: Timestamp) -> StoreResult<i64> {
    let sql = sql!(
        "-- sql/forget.some_versions\nUPDATE summary_versions SET content = '', token_count = 0, digest = '', purged_at = $3 \
               WHERE agent_id = $1 AND version IN (SELECT v.version FROM summary_versions v WHERE v.agent_id = $1 \
               AND v.covers_through >= $2 AND v.purged_at IS NULL \
               AND v.version < (SELECT s.version FROM summaries s WHERE s.agent_id = $1) ORDER BY v.version LIMIT $4)"
    );
    let row_count =
        query(sql).bind(agent.as_str()).bind(exchange).bind(now).bind(VERSIONS_MAX).execute(tx).await?;
    Ok(i64_or_max(row_count))
}

/// Deletes some model answers and idempotency keys. Returns true if none of them are left.
async fn rows(tx: &mut Connection, agent: &AgentId) -> StoreResult<bool> {
    let answers: &'static Statement = sql!(
        "-- sql/forget.some_answers\nDELETE FROM model_answers WHERE agent_id = $1 AND journal_key IN \
               (SELECT m.journal_key FROM model_answers m WHERE m.agent_id = $1 LIMIT $2)"
    );
    let keys: &'static Statement = sql!(
        "-- sql/forget.some_keys\nDELETE FROM idempotency_keys WHERE agent_id = $1 AND key IN \
               (SELECT k.key FROM idempotency_keys k WHERE k.agent_id = $1 LIMIT $2)"
    );
    let mut is_light = true;
    for sql in [answers, keys] {
        let query = query(sql).bind(agent.as_str()).bind(ROWS_MAX);
        is_light &= i64_or_max(query.execute(&mut *tx).await?) < ROWS_MAX;
    }
    Ok(is_light)
}
