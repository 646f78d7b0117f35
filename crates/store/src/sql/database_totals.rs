//! Counts agents and documents at a constant cost: a large table is estimated instead of counted.

use super::{super::StoreResult, row, statement::SqlDialect};
use crate::sql::{Connection, Row, query, sql};
use recapd_core::domain::time::Timestamp;

/// On SQLite, a table's first rows up to this many are counted.
const ROWS_MAX: i64 = 10_000;
/// On PostgreSQL, about this many pages of a table are counted.
const PAGES_MAX: i64 = 512;
/// The whole of a table, in millionths.
const WHOLE_PPM: i64 = 1_000_000;

pub(super) struct DatabaseTotals {
    pub(super) agents: i64,
    /// Agents that have a document.
    pub(super) documents: i64,
    pub(super) documents_tokens: i64,
    pub(super) is_estimated: bool,
    pub(super) oldest_pending_at: Option<Timestamp>,
}

/// Returns the totals. For a large table, PostgreSQL always counts the same pages and extrapolates. SQLite counts the first rows,
/// which gives a lower bound.
pub(super) async fn totals(tx: &mut Connection) -> StoreResult<DatabaseTotals> {
    let pending = sql!(
        "-- sql/database_totals.oldest_pending\nSELECT min(pending_since) FROM agents WHERE pending_since IS NOT NULL"
    );
    let oldest_pending_at = row::time(&query(pending).fetch_one(&mut *tx).await?, 0)?;
    let totals = match tx.dialect() {
        SqlDialect::Sqlite => first_rows(tx).await?,
        SqlDialect::Postgres => some_pages(tx).await?,
    };
    Ok(DatabaseTotals { oldest_pending_at, ..totals })
}

async fn first_rows(tx: &mut Connection) -> StoreResult<DatabaseTotals> {
    let sql = sql!(
        "-- sqlite/stock.first_rows\nSELECT (SELECT count(*) FROM (SELECT 1 FROM agents LIMIT $1)), count(*), \
         coalesce(sum(token_count), 0) FROM (SELECT version, token_count FROM summaries LIMIT $1) WHERE version > 0"
    );
    let row = query(sql).bind(ROWS_MAX + 1).fetch_one(tx).await?;
    let totals = read_totals(&row)?;
    Ok(DatabaseTotals { is_estimated: totals.agents > ROWS_MAX, ..totals })
}

async fn some_pages(tx: &mut Connection) -> StoreResult<DatabaseTotals> {
    let sizes = sql!(
        "-- postgres/stock.sizes\nSELECT pg_relation_size('agents') / current_setting('block_size')::bigint, \
         pg_relation_size('summaries') / current_setting('block_size')::bigint"
    );
    let sizes = query(sizes).fetch_one(&mut *tx).await?;
    let (agents_ppm, summaries_ppm) = (share_ppm(sizes.try_get(0)?), share_ppm(sizes.try_get(1)?));
    let sql = sql!(
        "-- postgres/stock.some_pages\nSELECT \
         (SELECT count(*) FROM agents TABLESAMPLE SYSTEM (CAST($1 AS bigint) / 10000.0) REPEATABLE (0)), count(*), \
         coalesce(CAST(sum(token_count) AS bigint), 0) \
         FROM summaries TABLESAMPLE SYSTEM (CAST($2 AS bigint) / 10000.0) REPEATABLE (0) WHERE version > 0"
    );
    let row = query(sql).bind(agents_ppm).bind(summaries_ppm).fetch_one(tx).await?;
    let totals = read_totals(&row)?;
    Ok(DatabaseTotals {
        agents: extrapolate(totals.agents, agents_ppm),
        documents: extrapolate(totals.documents, summaries_ppm),
        documents_tokens: extrapolate(totals.documents_tokens, summaries_ppm),
        is_estimated: agents_ppm.min(summaries_ppm) < WHOLE_PPM,
        ..totals
    })
}

fn read_totals(row: &Row) -> StoreResult<DatabaseTotals> {
    Ok(DatabaseTotals {
        agents: row.try_get(0)?,
        documents: row.try_get(1)?,
        documents_tokens: row.try_get(2)?,
        is_estimated: false,
        oldest_pending_at: None,
    })
}

/// Returns which share of a table with this many pages to count, in millionths; at least 1.
fn share_ppm(pages: i64) -> i64 {
    (PAGES_MAX * WHOLE_PPM / pages.max(1)).clamp(1, WHOLE_PPM)
}

/// Extrapolates from the count in a share of the table.
fn extrapolate(counted: i64, share_ppm: i64) -> i64 {
    counted.saturating_mul(WHOLE_PPM) / share_ppm
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partial_count_is_extrapolated() {
        for (pages, share) in
            [(0, WHOLE_PPM), (PAGES_MAX, WHOLE_PPM), (PAGES_MAX * 4, WHOLE_PPM / 4), (i64::MAX, 1)]
        {
            assert_eq!(share_ppm(pages), share);
        }
        assert_eq!(extrapolate(10, WHOLE_PPM), 10);
        assert_eq!(extrapolate(10, WHOLE_PPM / 4), 40);
        assert_eq!(extrapolate(i64::MAX, 1), i64::MAX);
    }
}
