//! Reads and sets projects, which are a column of the agents' rows.

use crate::sql::{Connection, Row, query, sql};

use super::{
    super::{
        PROJECT_AGENTS_MAX, ProjectFigures, ProjectMember, ProjectRow, ProjectStamp, StoreError, StoreResult,
    },
    row, summary,
};
use recapd_core::domain::{agent::AgentId, project::ProjectId, time::Timestamp};

pub(super) async fn set(
    tx: &mut Connection,
    agent: &AgentId,
    project: Option<ProjectId>,
    now: Timestamp,
) -> StoreResult<()> {
    let sql =
        sql!("-- sql/project.set\nUPDATE agents SET project_id = $2, updated_at = $3 WHERE agent_id = $1");
    let row_count = query(sql)
        .bind(agent.as_str())
        .bind(project.as_ref().map(ProjectId::as_str))
        .bind(now)
        .execute(&mut *tx)
        .await?;
    if row_count == 0 {
        return Err(StoreError::UnknownAgent(agent.clone()));
    }
    // From now on the queue's row counts as one of the new project. Its place stays.
    let sql =
        sql!("-- sql/project.set_row\nUPDATE summary_update_queue SET project_id = $2 WHERE agent_id = $1");
    query(sql).bind(agent.as_str()).bind(project.as_ref().map(ProjectId::as_str)).execute(tx).await?;
    Ok(())
}

pub(super) async fn list(
    connection: &mut Connection,
    after: Option<ProjectId>,
    limit: i64,
) -> StoreResult<Vec<ProjectFigures>> {
    let sql = sql!(
        "-- sql/project.list\nSELECT project_id, count(*), max(updated_at) FROM agents \
               WHERE project_id IS NOT NULL AND project_id > $1 GROUP BY project_id ORDER BY project_id LIMIT $2"
    );
    let found = query(sql)
        .bind(after.map_or_else(String::new, String::from))
        .bind(limit)
        .fetch_all(connection)
        .await?;
    let read = |row: &Row| {
        Ok(ProjectFigures { project: name(row, 0)?, agents: row.try_get(1)?, updated_at: row.try_get(2)? })
    };
    found.iter().map(read).collect()
}

fn name(row: &Row, column: usize) -> StoreResult<ProjectId> {
    let text: String = row.try_get(column)?;
    text.parse().map_err(|_| row::inconsistent("agents", "of a project", "project_id", text))
}

pub(super) async fn stamp(
    connection: &mut Connection,
    project: &ProjectId,
) -> StoreResult<Option<ProjectStamp>> {
    let sql = sql!(
        "-- sql/project.stamp\nSELECT count(*), coalesce(CAST(sum(s.version) AS bigint), 0), coalesce(CAST(sum(a.first_exchange) AS bigint), 0), \
               max(a.updated_at) FROM agents a LEFT JOIN summaries s ON s.agent_id = a.agent_id \
               WHERE a.project_id = $1"
    );
    let row = query(sql).bind(project.as_str()).fetch_one(connection).await?;
    let agents: i64 = row.try_get(0)?;
    if agents == 0 {
        return Ok(None);
    }
    Ok(Some(ProjectStamp {
        agents,
        versions: row.try_get(1)?,
        boundaries: row.try_get(2)?,
        updated_at: row.try_get(3)?,
    }))
}

pub(super) async fn load(
    tx: &mut Connection,
    project: &ProjectId,
) -> StoreResult<Option<(ProjectStamp, ProjectRow)>> {
    let Some(stamp) = stamp(tx, project).await? else {
        return Ok(None);
    };
    let sql = sql!(
        "-- sql/project.members\nSELECT agent_id, as_of, updated_at FROM agents WHERE project_id = $1 \
               ORDER BY updated_at DESC, agent_id LIMIT $2"
    );
    let found = query(sql).bind(project.as_str()).bind(PROJECT_AGENTS_MAX).fetch_all(&mut *tx).await?;
    let mut members = Vec::with_capacity(found.len());
    for row in &found {
        members.extend(member(tx, row).await?);
    }
    members.sort_by(|a, b| a.agent.cmp(&b.agent));
    let row = ProjectRow { agents: stamp.agents, members };
    Ok(Some((stamp, row)))
}

/// Reads an agent's part of the project; `None` if the agent has no summary row.
async fn member(tx: &mut Connection, row: &Row) -> StoreResult<Option<ProjectMember>> {
    let agent = row::agent_id(row, 0)?;
    let Some(summary) = summary::read_of_items(tx, &agent).await? else {
        return Ok(None);
    };
    Ok(Some(ProjectMember {
        items: summary::shown_items(tx, &agent).await?,
        version: summary.version,
        covers_through: summary.summarized_through,
        updated_at: row.try_get(2)?,
        as_of: row::time(row, 1)?,
        pending: summary.pending,
        pending_before: summary.pending_before,
        agent,
    }))
}
