//! Deleting an agent with everything about it.

use crate::store::sql::{Connection, query, query_made, sql};

use super::super::{
    super::{StoreError, StoreResult},
    agent, recall,
};
use crate::domain::agent::AgentId;

/// The most forks that are named when they prevent the deletion.
const FORKS_NAMED: i64 = 10;

/// See [`super::super::super::Store::delete_agent`]. Returns how many messages were deleted. Rows are deleted from
/// every table that names agents, so that none can be overlooked that is added later.
pub(in super::super) async fn delete(tx: &mut Connection, agent: &AgentId) -> StoreResult<i64> {
    agent::known(tx, agent).await?;
    let forks = forks(tx, agent).await?;
    if !forks.is_empty() {
        return Err(StoreError::HasForks {
            agent: agent.clone(),
            forks,
        });
    }
    let defer = sql!(
        sqlite: "-- sql/forget.defer\nPRAGMA defer_foreign_keys = ON",
        postgres: "-- sql/forget.defer\nSET CONSTRAINTS ALL DEFERRED",
    );
    query(defer).execute(&mut *tx).await?;
    let messages = recall::forget_agent(tx, agent).await?;
    let tables = sql!(
        sqlite: "-- sql/forget.tables\nSELECT m.name FROM sqlite_schema m WHERE m.type = 'table' \
                 AND EXISTS (SELECT 1 FROM pragma_table_info(m.name) c WHERE c.name = 'agent_id') ORDER BY m.name",
        postgres: "-- sql/forget.tables\nSELECT CAST(c.table_name AS text) FROM information_schema.columns c \
                   JOIN information_schema.tables t USING (table_schema, table_name) \
                   WHERE c.column_name = 'agent_id' AND c.table_schema = current_schema() \
                   AND t.table_type = 'BASE TABLE' ORDER BY 1",
    );
    for table in query(tables).fetch_column::<String>(&mut *tx).await? {
        // The name is one of the schema's own.
        let sql = format!("-- sql/forget.rows\nDELETE FROM \"{table}\" WHERE agent_id = $1");
        query_made(sql).bind(agent.as_str()).execute(&mut *tx).await?;
    }
    recall::forgot_agent(tx).await?;
    Ok(messages)
}

async fn forks(tx: &mut Connection, agent: &AgentId) -> StoreResult<Vec<String>> {
    let sql = sql!(
        "-- sql/forget.forks\nSELECT agent_id FROM agents WHERE parent_agent_id = $1 ORDER BY agent_id LIMIT $2"
    );
    Ok(query(sql)
        .bind(agent.as_str())
        .bind(FORKS_NAMED)
        .fetch_column(tx)
        .await?)
}
