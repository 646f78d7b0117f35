//! Deletes an agent and everything about it, some rows at a time.

use crate::sql::{Connection, query, query_made, sql, statement::SqlDialect};

use super::super::{
    super::{DeleteStep, StoreError, StoreResult},
    agent, recall, row,
};
use recapd_core::domain::{agent::AgentId, number::i64_or_max, time::Timestamp};

/// Limits how many forks the error names when forks prevent the deletion.
const FORKS_NAMED: i64 = 10;
/// Limits how many rows one transaction deletes.
const ROWS_MAX: i64 = 250;
/// Limits how many long rows one transaction deletes. Each may have 40 kB, which the database overwrites.
const LONG_ROWS_MAX: i64 = 32;
/// This many rows of `recall_words` count as one row: they are short, and a message has many.
const SHORT_ROWS: i64 = 16;
/// The tables with long rows.
const LONG: [&str; 2] = ["summary_versions", "model_answers"];
/// The tables through which others see the agent or work for it. The first step empties them.
const SEEN: [&str; 3] = ["summary_update_queue", "summaries", "forgettings"];

/// See [`crate::Store::begin_delete`].
pub(crate) async fn begin(tx: &mut Connection, agent: &AgentId, now: Timestamp) -> StoreResult<()> {
    if is_begun(tx, agent).await? {
        return Ok(());
    }
    if agent::load(tx, agent).await?.is_none() {
        return known_to_inbox(tx, agent).await;
    }
    let forks = forks(tx, agent).await?;
    if !forks.is_empty() {
        return Err(StoreError::HasForks { agent: agent.clone(), forks });
    }
    for table in SEEN {
        delete_rows(tx, table, agent, i64::MAX).await?;
    }
    let sql = sql!(
        "-- sql/forget.hide\nUPDATE agents SET deleted_at = $2, updated_at = $2, project_id = NULL, pending_since = NULL, \
               recount_before = NULL, totals_from = NULL WHERE agent_id = $1"
    );
    query(sql).bind(agent.as_str()).bind(now).execute(tx).await?;
    Ok(())
}

/// Succeeds if the inbox has messages of `agent`. If every message of an agent was refused, the agent has no row, but the inbox
/// keeps its messages.
async fn known_to_inbox(tx: &mut Connection, agent: &AgentId) -> StoreResult<()> {
    let sql = sql!("-- sql/forget.known_to_inbox\nSELECT 1 FROM message_inbox WHERE agent_id = $1 LIMIT 1");
    let found = query(sql).bind(agent.as_str()).fetch_optional(tx).await?;
    found.map(drop).ok_or_else(|| StoreError::UnknownAgent(agent.clone()))
}

async fn is_begun(tx: &mut Connection, agent: &AgentId) -> StoreResult<bool> {
    let sql =
        sql!("-- sql/forget.is_begun\nSELECT 1 FROM agents WHERE agent_id = $1 AND deleted_at IS NOT NULL");
    Ok(query(sql).bind(agent.as_str()).fetch_optional(tx).await?.is_some())
}

pub(crate) async fn due(connection: &mut Connection, limit: i64) -> StoreResult<Vec<AgentId>> {
    let sql = sql!(
        "-- sql/forget.deletions_due\nSELECT agent_id FROM agents WHERE deleted_at IS NOT NULL ORDER BY agent_id LIMIT $1"
    );
    let found = query(sql).bind(limit).fetch_all(connection).await?;
    found.iter().map(|found| row::agent_id(found, 0)).collect()
}

/// See [`super::super::super::Store::delete_some`]. Deletes rows from every table that names agents, so that a table added later
/// can't be overlooked. Deletes the agent's own row last.
pub(crate) async fn delete_some(tx: &mut Connection, agent: &AgentId) -> StoreResult<DeleteStep> {
    let deleted = DeleteStep { messages: 0, is_gone: true };
    if !is_begun(tx, agent).await? {
        if agent::load(tx, agent).await?.is_none() {
            delete_rows(tx, "message_inbox", agent, i64::MAX).await?;
        }
        return Ok(deleted);
    }
    let defer = sql!(
        sqlite: "-- sql/forget.defer\nPRAGMA defer_foreign_keys = ON",
        postgres: "-- sql/forget.defer\nSET CONSTRAINTS ALL DEFERRED",
    );
    query(defer).execute(&mut *tx).await?;
    let (mut step, mut room) = (DeleteStep::default(), ROWS_MAX);
    for table in tables(tx).await? {
        let limit = match table.as_str() {
            table if LONG.contains(&table) => room.min(LONG_ROWS_MAX),
            "recall_words" => room * SHORT_ROWS,
            _ => room,
        };
        let row_count = delete_rows(tx, &table, agent, limit).await?;
        if table == "message_log" {
            step.messages = row_count;
            recall::correct_after_deletion(tx).await?;
        }
        room -= row_count.min(room);
        if row_count == limit || room == 0 {
            return Ok(step);
        }
    }
    let sql = sql!("-- sql/forget.agent\nDELETE FROM agents WHERE agent_id = $1");
    query(sql).bind(agent.as_str()).execute(&mut *tx).await?;
    step.is_gone = true;
    Ok(step)
}

/// Returns the tables that name agents. Leaves out the agents' own table, and the audit's, which records who deleted an agent. A
/// table that refers to another one comes before it.
async fn tables(tx: &mut Connection) -> StoreResult<Vec<String>> {
    let sql = sql!(
        sqlite: "-- sql/forget.tables\nSELECT m.name FROM sqlite_schema m WHERE m.type = 'table' AND m.name NOT IN ('agents', 'audit_events') \
                 AND EXISTS (SELECT 1 FROM pragma_table_info(m.name) c WHERE c.name = 'agent_id') \
                 ORDER BY m.name = 'summary_items', m.name",
        postgres: "-- sql/forget.tables\nSELECT CAST(c.table_name AS text) FROM information_schema.columns c \
                   JOIN information_schema.tables t USING (table_schema, table_name) \
                   WHERE c.column_name = 'agent_id' AND c.table_schema = current_schema() AND c.table_name NOT IN ('agents', 'audit_events') \
                   AND t.table_type = 'BASE TABLE' ORDER BY c.table_name = 'summary_items', 1",
    );
    Ok(query(sql).fetch_column(tx).await?)
}

/// Deletes up to `limit` of the agent's rows from a table, newest first if the rows have an order. Returns how many it deleted.
async fn delete_rows(tx: &mut Connection, table: &str, agent: &AgentId, limit: i64) -> StoreResult<i64> {
    // The names come from the schema.
    let key = match tx.dialect() {
        SqlDialect::Sqlite => key(tx, table).await?,
        SqlDialect::Postgres => "ctid".to_owned(),
    };
    let order = if table == "message_log" { "ORDER BY seq DESC" } else { "" };
    let sql = format!(
        "-- sql/forget.rows\nDELETE FROM \"{table}\" WHERE agent_id = $1 AND ({key}) IN \
         (SELECT {key} FROM \"{table}\" WHERE agent_id = $1 {order} LIMIT $2)"
    );
    let query = query_made(sql).bind(agent.as_str()).bind(limit);
    Ok(i64_or_max(query.execute(tx).await?))
}

/// Returns the columns of a table's primary key, or `rowid` if it has none.
async fn key(tx: &mut Connection, table: &str) -> StoreResult<String> {
    let sql = sql!("-- sqlite/forget.key\nSELECT name FROM pragma_table_info($1) WHERE pk > 0 ORDER BY pk");
    let columns: Vec<String> = query(sql).bind(table).fetch_column(tx).await?;
    Ok(if columns.is_empty() { "rowid".to_owned() } else { columns.join(", ") })
}

async fn forks(tx: &mut Connection, agent: &AgentId) -> StoreResult<Vec<String>> {
    let sql = sql!(
        "-- sql/forget.forks\nSELECT agent_id FROM agents WHERE parent_agent_id = $1 ORDER BY agent_id LIMIT $2"
    );
    Ok(query(sql).bind(agent.as_str()).bind(FORKS_NAMED).fetch_column(tx).await?)
}
