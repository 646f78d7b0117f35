//! Creates, locks, loads and lists agents' rows, and changes agents' settings.

use crate::sql::{
    Connection, query, sql,
    statement::{SqlDialect, Statement},
};

use super::{
    super::{AgentRow, StoreError, StoreResult},
    recount,
    row::{self, exchange_columns},
    spending,
};
use recapd_core::domain::{
    agent::AgentId,
    settings::{AgentSettings, SettingsPatch},
    time::Timestamp,
};

/// Selects an agent's row with its newest exchange and its preamble (the messages before the first user message), in the columns
/// that [`row::agent`] reads. `counted`, for display, counts the pending exchanges. `bounded` computes an upper bound of them
/// from their numbers, which takes the same time however many they are.
macro_rules! agent_select {
    (counted, $label:literal, $where:literal) => {
        agent_select!(
            $label,
            "(SELECT count(*) FROM exchange_log w WHERE w.agent_id = a.agent_id AND w.exchange > a.summarized_through \
             AND w.exchange < a.first_exchange AND w.set_aside_at IS NULL AND w.role = 'exchange')",
            $where
        )
    };
    (bounded, $label:literal, $where:literal) => {
        agent_select!($label, "a.first_exchange - 1 - a.summarized_through", $where)
    };
    ($label:literal, $pending:literal, $where:literal) => {
        sql!(
            $label,
            "\nSELECT a.agent_id, a.project_id, a.pending_since, a.as_of, a.created_at, a.updated_at, ",
            "coalesce(s.held_version, s.version, 0), coalesce(s.token_count, 0), a.last_seq, a.last_exchange, a.session, ",
            "a.first_exchange, a.tokens_before_window, a.summarized_through, a.budget_tokens, CAST(a.settings AS text), a.max_messages, ",
            $pending,
            ", a.chain, a.chained_through, ",
            exchange_columns!("n"),
            ", ",
            exchange_columns!("p"),
            " FROM agents a LEFT JOIN summaries s ON s.agent_id = a.agent_id ",
            "LEFT JOIN exchange_log n ON n.agent_id = a.agent_id AND n.exchange = a.newest_exchange ",
            "LEFT JOIN exchange_log p ON p.agent_id = a.agent_id AND p.exchange = a.preamble_exchange ",
            $where
        )
    };
}

/// Locks the agent's row until the end of the transaction. Returns false if the agent has no row; another caller may still create
/// it.
pub(crate) async fn lock(tx: &mut Connection, agent: &AgentId) -> StoreResult<bool> {
    if tx.dialect() == SqlDialect::Sqlite {
        return Ok(true);
    }
    let sql = sql!("-- postgres/agent.lock\nSELECT 1 FROM agents WHERE agent_id = $1 {for_update}");
    Ok(query(sql).bind(agent.as_str()).execute(tx).await? > 0)
}

/// Locks the rows of all agents that descend by forks from the same first agent as `agent`, so that none of them is forked
/// meanwhile.
pub(crate) async fn lock_family(tx: &mut Connection, agent: &AgentId) -> StoreResult<()> {
    let sql = sql!(
        "-- postgres/agent.lock_family\nWITH RECURSIVE up (agent_id, parent) AS \
               (SELECT agent_id, parent_agent_id FROM agents WHERE agent_id = $1 \
               UNION SELECT a.agent_id, a.parent_agent_id FROM up u JOIN agents a ON a.agent_id = u.parent), \
               down (agent_id) AS (SELECT agent_id FROM up \
               UNION SELECT a.agent_id FROM down d JOIN agents a ON a.parent_agent_id = d.agent_id) \
               SELECT 1 FROM agents WHERE agent_id IN (SELECT agent_id FROM down) ORDER BY agent_id FOR NO KEY UPDATE"
    );
    query(sql).bind(agent.as_str()).execute(tx).await?;
    Ok(())
}

/// Loads an agent for display, with the exact number of pending exchanges.
pub(super) async fn load_counted(
    connection: &mut Connection,
    agent: &AgentId,
) -> StoreResult<Option<AgentRow>> {
    let sql =
        agent_select!(counted, "-- sql/agent.counted", "WHERE a.agent_id = $1 AND a.deleted_at IS NULL");
    one(connection, sql, agent).await
}

/// Loads an agent for changes, with an upper bound of the pending exchanges.
pub(super) async fn load(connection: &mut Connection, agent: &AgentId) -> StoreResult<Option<AgentRow>> {
    let sql = agent_select!(bounded, "-- sql/agent.load", "WHERE a.agent_id = $1 AND a.deleted_at IS NULL");
    one(connection, sql, agent).await
}

async fn one(
    connection: &mut Connection,
    sql: &'static Statement,
    agent: &AgentId,
) -> StoreResult<Option<AgentRow>> {
    let found = query(sql).bind(agent.as_str()).fetch_optional(connection).await?;
    found.as_ref().map(row::agent).transpose()
}

/// Loads an agent for changes. Fails if it is unknown.
pub(super) async fn load_known(connection: &mut Connection, agent: &AgentId) -> StoreResult<AgentRow> {
    let row = load(connection, agent).await?;
    row.ok_or_else(|| StoreError::UnknownAgent(agent.clone()))
}

/// Loads an agent for changes, and creates it if there is none.
pub(super) async fn load_or_create(
    tx: &mut Connection,
    agent: &AgentId,
    now: Timestamp,
) -> StoreResult<AgentRow> {
    if let Some(row) = load(tx, agent).await? {
        return Ok(row);
    }
    if !create(tx, agent, now).await? {
        // Another caller has created it in the meantime, perhaps by a fork.
        lock(tx, agent).await?;
    }
    // The load skips an agent that is being deleted.
    let row = load(tx, agent).await?;
    row.ok_or_else(|| StoreError::Contended("the agent is being deleted".to_owned()))
}

/// Creates an agent with an empty summary. Returns false if another caller has created it meanwhile.
pub(crate) async fn create(tx: &mut Connection, agent: &AgentId, now: Timestamp) -> StoreResult<bool> {
    let row = sql!(
        "-- sql/agent.create\nINSERT INTO agents (agent_id, created_at, updated_at) VALUES ($1, $2, $2) \
                    ON CONFLICT (agent_id) DO NOTHING"
    );
    let summary =
        sql!("-- sql/agent.create_summary\nINSERT INTO summaries (agent_id, updated_at) VALUES ($1, $2)");
    if query(row).bind(agent.as_str()).bind(now).execute(&mut *tx).await? == 0 {
        return Ok(false);
    }
    query(summary).bind(agent.as_str()).bind(now).execute(tx).await?;
    Ok(true)
}

/// Changes an agent's settings; see [`super::super::Store::change_settings`].
pub(super) async fn change_settings(
    tx: &mut Connection,
    agent: &AgentId,
    patch: &SettingsPatch,
    now: Timestamp,
) -> StoreResult<AgentSettings> {
    let row = load_or_create(tx, agent, now).await?;
    let settings = patch.apply(&row.settings);
    let sql = sql!(
        "-- sql/agent.change_settings\nUPDATE agents SET settings = $2{::json}, updated_at = $3 WHERE agent_id = $1"
    );
    query(sql)
        .bind(agent.as_str())
        .bind(serde_json::json!(settings).to_string())
        .bind(now)
        .execute(&mut *tx)
        .await?;
    if (&settings.provider, &settings.model) != (&row.settings.provider, &row.settings.model) {
        recount::begin(tx, agent).await?;
    }
    spending::resume_agent(tx, agent, now).await?;
    if settings.time_zone != row.settings.time_zone {
        age_anew(tx, agent, now).await?;
    }
    Ok(settings)
}

/// Makes the document due for ageing at once, because days begin at other times in another time zone.
async fn age_anew(tx: &mut Connection, agent: &AgentId, now: Timestamp) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/agent.age_anew\nUPDATE summaries SET next_ageing_at = {min}(next_ageing_at, $2) \
               WHERE agent_id = $1 AND next_ageing_at IS NOT NULL"
    );
    query(sql).bind(agent.as_str()).bind(now).execute(tx).await?;
    Ok(())
}

pub(super) async fn list(
    connection: &mut Connection,
    after: Option<&AgentId>,
    limit: i64,
) -> StoreResult<Vec<AgentRow>> {
    let sql = agent_select!(
        counted,
        "-- sql/agent.list",
        "WHERE a.agent_id > $1 AND a.deleted_at IS NULL ORDER BY a.agent_id LIMIT $2"
    );
    let after = after.map_or("", AgentId::as_str);
    let found = query(sql).bind(after).bind(limit).fetch_all(connection).await?;
    found.iter().map(row::agent).collect()
}
