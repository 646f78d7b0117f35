//! Computes a row's place behind the waiting rows of its project (see [`PROJECT_SPACING_MS`]).
//!
//! A row gets its place when it is created or armed again. The place (`behind_ms`) stays through failures, waits and wakes:
//! `due_at` is always the sum of `visible_at`, the slack of the priority, and the place. A row that becomes more urgent gets the
//! place of a new row.

use super::{super::StoreResult, Connection, query, statement::Statement};
use recapd_core::domain::{
    time::Timestamp,
    work::{PROJECT_SPACING_MS, Priority, ROWS_AHEAD_MAX, Reason},
};

/// SQL that counts the rows `w` of the project of agent `a` that wait for a worker, are at least as urgent as `$level`, and meet
/// `$condition`. Skips rows that are paused or wait for a batch's answer. Counts at most `$max` rows, in index order, so that it
/// reads no more of the index. On a table with a limit it is evaluated once, however often its result is used.
macro_rules! rows_ahead {
    ($level:literal, $condition:literal, $max:literal) => {
        concat!(
            "(SELECT count(*) FROM (SELECT 1 FROM summary_update_queue w WHERE w.project_id = a.project_id AND w.priority >= ",
            $level,
            " AND w.parked_at IS NULL AND w.paused_until IS NULL AND w.deferred_at IS NULL ",
            $condition,
            " ORDER BY w.priority LIMIT ",
            $max,
            ") ahead)"
        )
    };
}
pub(super) use rows_ahead;

/// SQL that creates queue rows for many agents, each with its place. `$newcomers` is a list of parts: the statement's label and
/// its first table, with the agents, their projects, and whether they have a row. Its parameters are `$1` and `$9`. `$conflict`,
/// also a list of parts, says what happens to existing rows.
macro_rules! enqueue_all {
    ([$($newcomers:tt)+], [$($conflict:tt)+]) => {
        concat!(
            $($newcomers)+,
            ", crowds AS (SELECT p.project_id, (SELECT count(*) FROM (SELECT 1 FROM summary_update_queue w \
             WHERE w.project_id = p.project_id AND w.priority >= $2 AND w.parked_at IS NULL AND w.paused_until IS NULL \
             AND w.deferred_at IS NULL ORDER BY w.priority LIMIT $8) ahead) AS rows_ahead \
             FROM (SELECT DISTINCT project_id FROM newcomers WHERE project_id IS NOT NULL) p), \
             placed AS (SELECT n.agent_id, n.project_id, CASE WHEN n.project_id IS NULL THEN 0 \
             ELSE $7 * {min}($8, c.rows_ahead - 1 + row_number() OVER (PARTITION BY n.project_id, n.is_queued ORDER BY n.agent_id)) \
             END AS behind FROM newcomers n LEFT JOIN crowds c ON c.project_id = n.project_id) \
             INSERT INTO summary_update_queue AS q \
             (agent_id, project_id, priority, reasons, queued_at, visible_at, behind_ms, due_at) \
             SELECT agent_id, project_id, $2, $3, $4, $5, behind, $6 + behind {ms} FROM placed \
             WHERE true ORDER BY agent_id ON CONFLICT (agent_id) ",
            $($conflict)+
        )
    };
}
pub(super) use enqueue_all;

/// The parameters of [`enqueue_all!`]'s statement.
pub(super) struct Newcomers {
    /// `$1`: the time that decides which agents are selected.
    pub(super) by: Timestamp,
    pub(super) reason: Reason,
    pub(super) priority: Priority,
    pub(super) now: Timestamp,
    /// `$9`: limits the number of agents.
    pub(super) limit: i64,
}

impl Newcomers {
    /// Creates the rows. Returns how many it created or changed.
    pub(super) async fn enqueue(
        self,
        tx: &mut Connection,
        statement: &'static Statement,
    ) -> StoreResult<u64> {
        let now = tx.now(self.now).await?;
        let level = self.priority.level();
        let row_count = query(statement)
            .bind(self.by)
            .bind(level)
            .bind(self.reason.bit())
            .bind(now)
            .bind(now)
            .bind(now.plus_ms(Priority::slack_ms(level)))
            .bind(PROJECT_SPACING_MS)
            .bind(ROWS_AHEAD_MAX)
            .bind(self.limit)
            .execute(tx)
            .await?;
        Ok(row_count)
    }
}
