//! Reads versions of the document.

use crate::sql::{Connection, Row, query, sql};

use super::{
    super::{StoreResult, Version, VersionFigures, VersionQuery},
    row,
};
use recapd_core::domain::{agent::AgentId, summary::version::VersionKind};

/// The columns of [`VersionFigures`], as [`figures`] reads them.
macro_rules! version_columns {
    () => {
        "version, kind, path, covers_after, covers_through, exchanges, token_count, as_of, created_at, purged_at"
    };
}

pub(super) async fn list(
    connection: &mut Connection,
    agent: &AgentId,
    wanted: VersionQuery,
) -> StoreResult<Vec<VersionFigures>> {
    let sql = sql!(
        "-- sql/version.list\nSELECT ",
        version_columns!(),
        " FROM summary_versions WHERE agent_id = $1 AND version < $2 ORDER BY version DESC LIMIT $3"
    );
    let found = query(sql)
        .bind(agent.as_str())
        .bind(wanted.before.unwrap_or(i64::MAX))
        .bind(wanted.limit)
        .fetch_all(connection)
        .await?;
    found.iter().map(figures).collect()
}

pub(super) async fn load(
    connection: &mut Connection,
    agent: &AgentId,
    version: i64,
) -> StoreResult<Option<Version>> {
    let sql = sql!(
        "-- sql/version.load\nSELECT ",
        version_columns!(),
        ", content FROM summary_versions WHERE agent_id = $1 AND version = $2"
    );
    let found = query(sql).bind(agent.as_str()).bind(version).fetch_optional(connection).await?;
    let read = |row: Row| -> StoreResult<Version> {
        Ok(Version { figures: figures(&row)?, content: row.try_get(10)? })
    };
    found.map(read).transpose()
}

/// Returns the oldest and the newest version that are kept; `None` if there are none.
pub(super) async fn kept_range(
    connection: &mut Connection,
    agent: &AgentId,
) -> StoreResult<Option<(i64, i64)>> {
    let sql = sql!(
        "-- sql/version.kept\nSELECT min(version), max(version) FROM summary_versions WHERE agent_id = $1"
    );
    let row = query(sql).bind(agent.as_str()).fetch_one(connection).await?;
    let oldest: Option<i64> = row.try_get(0)?;
    let newest: Option<i64> = row.try_get(1)?;
    Ok(oldest.zip(newest))
}

fn figures(row: &Row) -> StoreResult<VersionFigures> {
    let version: i64 = row.try_get(0)?;
    let kind: String = row.try_get(1)?;
    Ok(VersionFigures {
        version,
        kind: VersionKind::from_name(&kind).ok_or_else(|| {
            row::inconsistent("summary_versions", format!("version {version}"), "kind", kind)
        })?,
        path: row.try_get(2)?,
        covers_after: row.try_get(3)?,
        covers_through: row.try_get(4)?,
        exchanges: row.try_get(5)?,
        tokens: row.try_get(6)?,
        as_of: row.try_get(7)?,
        created_at: row.try_get(8)?,
        purged_at: row::time(row, 9)?,
    })
}
