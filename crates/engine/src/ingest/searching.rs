//! Searches the queue and the runs by conditions that have no index. A search reads a limited number of rows in the order of the
//! key.

use super::operating::Operator;
use recapd_core::domain::{agent::AgentId, number::i64_or_max};
use recapd_store::{
    StoreResult,
    operate::{QueueRow, Run, RunQuery, SEARCHED_MAX},
};

const PAGE_ROWS: i64 = 1_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchReport<Row, Cursor> {
    /// The matching rows, in the order of the list.
    pub found: Vec<Row>,
    /// The row after which to continue; `None` if the list was read to its end and all matching rows were within the limit.
    pub next: Option<Cursor>,
}

impl Operator {
    /// Returns the first `limit` matching rows of the queue after `after`. Reads at most [`SEARCHED_MAX`] rows, however long the queue is.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn search_queue(
        &self,
        after: Option<&AgentId>,
        limit: usize,
        matches: impl Fn(&QueueRow) -> bool + Send,
    ) -> StoreResult<SearchReport<QueueRow, AgentId>> {
        let mut search = Search::new(after.cloned(), limit);
        while search.is_unfinished() {
            let rows = self.queue(search.at.as_ref(), PAGE_ROWS).await?;
            search.examine(rows, |row| row.agent_id.clone(), &matches);
        }
        Ok(search.into_report())
    }

    /// Searches the runs of `query`, newest first, like [`Self::search_queue`].
    ///
    /// # Errors
    /// When the store fails.
    pub async fn search_runs(
        &self,
        query: RunQuery,
        matches: impl Fn(&Run) -> bool + Send,
    ) -> StoreResult<SearchReport<Run, i64>> {
        let mut search = Search::new(query.before, usize::try_from(query.limit).unwrap_or(0));
        while search.is_unfinished() {
            let query = RunQuery { before: search.at, limit: PAGE_ROWS, ..query.clone() };
            search.examine(self.runs(query).await?, |run| run.run, &matches);
        }
        Ok(search.into_report())
    }
}

struct Search<Row, Cursor> {
    found: Vec<Row>,
    limit: usize,
    /// The row after which the next page begins; `None` for the beginning of the list.
    at: Option<Cursor>,
    rows_read: i64,
    /// True if the last row of the list was read.
    is_through: bool,
    /// The last row to return, once a further row matches.
    full_at: Option<Cursor>,
}

impl<Row, Cursor> Search<Row, Cursor> {
    fn new(at: Option<Cursor>, limit: usize) -> Self {
        Self { found: Vec::new(), limit, at, rows_read: 0, is_through: false, full_at: None }
    }

    fn is_unfinished(&self) -> bool {
        !self.is_through && self.full_at.is_none() && self.rows_read < SEARCHED_MAX
    }

    /// Examines the next page of rows. A page of fewer than [`PAGE_ROWS`] rows is the last.
    fn examine(&mut self, rows: Vec<Row>, cursor: impl Fn(&Row) -> Cursor, matches: impl Fn(&Row) -> bool) {
        let rows_read = i64_or_max(rows.len());
        self.is_through = rows_read < PAGE_ROWS;
        self.rows_read = self.rows_read.saturating_add(rows_read);
        self.at = rows.last().map(&cursor).or(self.at.take());
        for row in rows.into_iter().filter(matches) {
            if self.found.len() == self.limit {
                self.full_at = self.found.last().map(&cursor);
                return;
            }
            self.found.push(row);
        }
    }

    fn into_report(self) -> SearchReport<Row, Cursor> {
        let unseen = self.at.filter(|_| !self.is_through);
        SearchReport { found: self.found, next: self.full_at.or(unseen) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches the numbers up to `count` for multiples of `of`.
    fn multiples(count: i64, of: i64, limit: usize) -> SearchReport<i64, i64> {
        let mut search = Search::new(None, limit);
        while search.is_unfinished() {
            let from = search.at.map_or(1, |at: i64| at + 1);
            let rows = (from..=count).take(usize::try_from(PAGE_ROWS).unwrap());
            search.examine(rows.collect(), |row| *row, |row| row % of == 0);
        }
        search.into_report()
    }

    #[test]
    fn a_search_ends_at_its_limit_the_lists_end_or_its_cap() {
        let cap = SEARCHED_MAX;
        for (count, of, limit, found, next) in [
            (10, 3, 5, vec![3, 6, 9], None),
            (10, 3, 3, vec![3, 6, 9], None),
            (10, 3, 2, vec![3, 6], Some(6)),
            (0, 1, 5, vec![], None),
            (1_000, 600, 5, vec![600], None),
            (2_500, 900, 5, vec![900, 1_800], None),
            (cap + 5, cap + 5, 5, vec![], Some(cap)),
        ] {
            assert_eq!(multiples(count, of, limit), SearchReport { found, next }, "{count} {of} {limit}");
        }
    }
}
