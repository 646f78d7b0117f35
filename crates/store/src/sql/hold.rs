//! Holds the readers' document during a rebuild.
//!
//! A rebuild makes the items again, batch by batch, and its first versions cover less than the previous document. So the previous
//! document stays in `summaries.content` until the new one covers as much, or nothing is left to cover. Until then new versions
//! are written to `summary_versions` only.

use crate::sql::{Connection, query, sql};

use super::super::StoreResult;
use recapd_core::domain::agent::AgentId;

pub(super) async fn is_held(connection: &mut Connection, agent: &AgentId) -> StoreResult<bool> {
    let sql =
        sql!("-- sql/hold.is_held\nSELECT 1 FROM summaries WHERE agent_id = $1 AND held_version IS NOT NULL");
    let found = query(sql).bind(agent.as_str()).fetch_optional(connection).await?;
    Ok(found.is_some())
}

/// Holds the present document. Must run before the watermark moves back.
pub(super) async fn begin(tx: &mut Connection, agent: &AgentId) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/hold.begin\nUPDATE summaries SET held_version = version, held_through = \
               (SELECT a.summarized_through FROM agents a WHERE a.agent_id = $1) \
               WHERE agent_id = $1 AND content <> '' AND held_version IS NULL"
    );
    query(sql).bind(agent.as_str()).execute(tx).await?;
    Ok(())
}

/// Gives readers the newest version again if it covers, with `through`, as much as the held document. If `ends`, does so in any
/// case: because the newest version will never cover more, or because the held document may show what must not be shown any more.
pub(super) async fn release(
    tx: &mut Connection,
    agent: &AgentId,
    through: i64,
    ends: bool,
) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/hold.release\nUPDATE summaries SET held_version = NULL, held_through = NULL, \
               content = coalesce(v.content, ''), token_count = coalesce(v.token_count, 0), \
               updated_at = coalesce(v.created_at, summaries.updated_at) FROM agents a LEFT JOIN summary_versions v \
               ON v.agent_id = a.agent_id AND v.version = \
               (SELECT s.version FROM summaries s WHERE s.agent_id = a.agent_id) \
               WHERE a.agent_id = $1 AND summaries.agent_id = $1 AND summaries.held_version IS NOT NULL \
               AND (summaries.held_through <= $2 OR $3)"
    );
    query(sql).bind(agent.as_str()).bind(through).bind(ends).execute(tx).await?;
    Ok(())
}
