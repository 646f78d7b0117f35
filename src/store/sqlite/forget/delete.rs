//! Deleting an agent with all that is known of it.

use sqlx::{AssertSqlSafe, Row as _, SqliteConnection};

use super::super::{
    super::{StoreError, StoreResult},
    agent, recall,
};
use crate::domain::agent::AgentId;

/// Forks that are named when they stand in the way.
const FORKS_NAMED: i64 = 10;

/// See [`super::super::super::Store::delete_agent`]. Returns how many messages went. Rows go from every table that names
/// agents, so that none can be overlooked that is added later.
pub(in super::super) async fn delete(tx: &mut SqliteConnection, agent: &AgentId) -> StoreResult<i64> {
    if agent::load(tx, agent).await?.is_none() {
        return Err(StoreError::UnknownAgent(agent.clone()));
    }
    let forks = forks(tx, agent).await?;
    if !forks.is_empty() {
        return Err(StoreError::HasForks {
            agent: agent.clone(),
            forks,
        });
    }
    sqlx::query("-- sqlite/forget.defer\nPRAGMA defer_foreign_keys = ON")
        .execute(&mut *tx)
        .await?;
    let messages = recall::forget_agent(tx, agent).await?;
    let tables = "-- sqlite/forget.tables\nSELECT m.name FROM sqlite_schema m WHERE m.type = 'table' \
                  AND EXISTS (SELECT 1 FROM pragma_table_info(m.name) c WHERE c.name = 'agent_id') ORDER BY m.name";
    for table in sqlx::query(tables).fetch_all(&mut *tx).await? {
        let table: String = table.try_get(0)?;
        // The name is one of the schema's own.
        let sql = format!("-- sqlite/forget.rows\nDELETE FROM \"{table}\" WHERE agent_id = ?1");
        sqlx::query(AssertSqlSafe(sql))
            .bind(agent.as_str())
            .execute(&mut *tx)
            .await?;
    }
    recall::hold_watermark(tx).await?;
    Ok(messages)
}

async fn forks(tx: &mut SqliteConnection, agent: &AgentId) -> StoreResult<Vec<String>> {
    let sql = "-- sqlite/forget.forks\nSELECT agent_id FROM agents WHERE parent_agent_id = ?1 ORDER BY agent_id LIMIT ?2";
    let found = sqlx::query(sql)
        .bind(agent.as_str())
        .bind(FORKS_NAMED)
        .fetch_all(tx)
        .await?;
    Ok(found
        .iter()
        .map(|row| row.try_get(0))
        .collect::<Result<_, sqlx::Error>>()?)
}
