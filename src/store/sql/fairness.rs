//! Where a row stands behind the rows of its project (see [`Fairness`](crate::domain::work::Fairness)).
//!
//! A row gets its place when it is made and when it is armed again, and keeps it (`behind_ms`) through failures, waits and
//! wakes: every `due_at` is `visible_at`, the slack of the priority, and the place. Who becomes more urgent gets the place
//! that a new row would get.

use super::{super::StoreResult, Connection, query, statement::Statement};
use crate::domain::{
    time::Timestamp,
    work::{Priority, Reason},
};

/// How many rows `w` of the project of the agent `a` wait for a worker that are at least as urgent as `$level` and meet
/// `$condition` (who is paused, or waits for a batch's answer, is in nobody's way); no
/// more are counted than `$max`, in the order of the index, so that it is read no farther. Of a table that is limited it is asked
/// once, however often its answer is used.
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

/// A statement that makes rows for many agents, each in its place. `$newcomers` is its label and its first table, which has
/// the agents, their projects, and whether they have a row; of its parameters, `$1` and `$9` are for that. `$conflict`
/// says what becomes of rows that are there.
macro_rules! enqueue_all {
    ($newcomers:literal, $conflict:literal) => {
        concat!(
            $newcomers,
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
            $conflict
        )
    };
}
pub(super) use enqueue_all;

/// What [`enqueue_all!`]'s statement is told.
pub(super) struct Newcomers {
    /// `$1`: what tells who they are.
    pub(super) by: Timestamp,
    /// Why they are looked at.
    pub(super) reason: Reason,
    /// How urgent that is.
    pub(super) priority: Priority,
    /// When.
    pub(super) now: Timestamp,
    /// `$9`: the most of them.
    pub(super) limit: i64,
}

impl Newcomers {
    /// Makes the rows. Returns how many were made or changed.
    pub(super) async fn enqueue(
        self,
        tx: &mut Connection,
        statement: &'static Statement,
    ) -> StoreResult<u64> {
        let now = tx.now(self.now).await?;
        let level = self.priority.level();
        let fairness = tx.fairness();
        let done = query(statement)
            .bind(self.by)
            .bind(level)
            .bind(self.reason.bit())
            .bind(now)
            .bind(now)
            .bind(now.plus_ms(Priority::slack_ms(level)))
            .bind(fairness.project_spacing_ms)
            .bind(fairness.rows_counted_max())
            .bind(self.limit)
            .execute(tx)
            .await?;
        Ok(done)
    }
}
