//! Projects: a column of the agents' rows.

use sqlx::{Row as _, SqliteConnection, sqlite::SqliteRow};

use super::{
    super::{
        PROJECT_AGENTS_MAX, ProjectFigures, ProjectMember, ProjectRow, ProjectStamp, StoreError, StoreResult,
    },
    row, summary,
};
use crate::domain::{agent::AgentId, project::ProjectId, time::Timestamp};

/// See [`super::super::Store::set_project`].
pub(super) async fn set(
    tx: &mut SqliteConnection,
    agent: &AgentId,
    project: Option<ProjectId>,
    now: Timestamp,
) -> StoreResult<()> {
    let sql = "-- sqlite/project.set\nUPDATE agents SET project_id = ?2, updated_at = ?3 WHERE agent_id = ?1";
    let done = sqlx::query(sql)
        .bind(agent.as_str())
        .bind(project.map(String::from))
        .bind(now.0)
        .execute(tx)
        .await?;
    if done.rows_affected() == 0 {
        return Err(StoreError::UnknownAgent(agent.clone()));
    }
    Ok(())
}

/// See [`super::super::Store::projects`].
pub(super) async fn list(
    connection: &mut SqliteConnection,
    after: Option<ProjectId>,
    limit: i64,
) -> StoreResult<Vec<ProjectFigures>> {
    let sql = "-- sqlite/project.list\nSELECT project_id, count(*), max(updated_at) FROM agents \
               WHERE project_id IS NOT NULL AND project_id > ?1 GROUP BY project_id ORDER BY project_id LIMIT ?2";
    let found = sqlx::query(sql)
        .bind(after.map_or_else(String::new, String::from))
        .bind(limit)
        .fetch_all(connection)
        .await?;
    let read = |row: &SqliteRow| {
        Ok(ProjectFigures {
            project: name(row, 0)?,
            agents: row.try_get(1)?,
            updated_at: Timestamp(row.try_get(2)?),
        })
    };
    found.iter().map(read).collect()
}

fn name(row: &SqliteRow, column: usize) -> StoreResult<ProjectId> {
    let text: String = row.try_get(column)?;
    text.parse().map_err(|_| StoreError::Inconsistent {
        table: "agents",
        row: "of a project".to_owned(),
        column: "project_id",
        value: text,
    })
}

/// See [`super::super::Store::project_stamp`].
pub(super) async fn stamp(
    connection: &mut SqliteConnection,
    project: &ProjectId,
) -> StoreResult<Option<ProjectStamp>> {
    let sql = "-- sqlite/project.stamp\nSELECT count(*), coalesce(sum(s.version), 0), coalesce(sum(a.first_exchange), 0), \
               coalesce(max(a.updated_at), 0) FROM agents a LEFT JOIN summaries s ON s.agent_id = a.agent_id \
               WHERE a.project_id = ?1";
    let row = sqlx::query(sql)
        .bind(project.as_str())
        .fetch_one(connection)
        .await?;
    let agents: i64 = row.try_get(0)?;
    if agents == 0 {
        return Ok(None);
    }
    Ok(Some(ProjectStamp {
        agents,
        versions: row.try_get(1)?,
        boundaries: row.try_get(2)?,
        updated_at: Timestamp(row.try_get(3)?),
    }))
}

/// See [`super::super::Store::project`].
pub(super) async fn load(
    tx: &mut SqliteConnection,
    project: &ProjectId,
) -> StoreResult<Option<(ProjectStamp, ProjectRow)>> {
    let Some(stamp) = stamp(tx, project).await? else {
        return Ok(None);
    };
    let sql = "-- sqlite/project.members\nSELECT agent_id, as_of, updated_at FROM agents WHERE project_id = ?1 \
               ORDER BY updated_at DESC, agent_id LIMIT ?2";
    let found = sqlx::query(sql)
        .bind(project.as_str())
        .bind(PROJECT_AGENTS_MAX)
        .fetch_all(&mut *tx)
        .await?;
    let mut members = Vec::with_capacity(found.len());
    for row in &found {
        members.extend(member(tx, row).await?);
    }
    members.sort_by(|one, other| one.agent.cmp(&other.agent));
    let row = ProjectRow {
        agents: stamp.agents,
        members,
    };
    Ok(Some((stamp, row)))
}

async fn member(tx: &mut SqliteConnection, row: &SqliteRow) -> StoreResult<Option<ProjectMember>> {
    let agent = row::agent_id(row, 0)?;
    let Some(summary) = summary::read(tx, &agent).await? else {
        return Ok(None);
    };
    Ok(Some(ProjectMember {
        items: summary::shown_items(tx, &agent).await?,
        version: summary.version,
        covers_through: summary.summarized_through,
        updated_at: Timestamp(row.try_get(2)?),
        as_of: row::time(row, 1)?,
        pending: summary.pending,
        pending_before: summary.pending_before,
        agent,
    }))
}
