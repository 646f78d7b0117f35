//! recapd's queue reduced to its table and its statements: the upper bound for the store's rate.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use sqlx::{
    Connection as _, Executor as _, PgConnection, PgPool, Row as _,
    postgres::{PgPoolOptions, PgRow, types::PgInterval},
    raw_sql,
};
use tokio::{task::JoinSet, time::Instant};

use crate::{
    LOT, WORKERS,
    server::{Database, own_processor_time},
    tokens::Tokens,
};

const SCHEMA: &str = include_str!("schema.sql");
const LEASE: PgInterval = PgInterval { months: 0, days: 0, microseconds: 15_000_000 };
const OWNER: &str = "bench";

#[derive(Clone, Copy)]
pub(crate) enum How {
    /// Each worker claims one row and completes it, with one statement each.
    Single,
    /// Like `Single`, but each claim waits until it is on disk.
    SingleFlushed,
    /// Each worker claims up to `LOT` rows and completes them together, with one statement each.
    Lots,
}

#[derive(Clone, Debug)]
pub(crate) struct Lease {
    agent: String,
    token: i64,
    claimed_wake: i64,
}

/// Creates the queue's table with `rows` due rows.
pub(crate) async fn fill(database: &Database, rows: u32) -> anyhow::Result<()> {
    let mut connection = PgConnection::connect_with(&database.options).await?;
    connection.execute(raw_sql(SCHEMA)).await?;
    let sql = "-- bench/statements.fill\nINSERT INTO summary_update_queue (agent_id) \
               SELECT 'agent-' || n FROM generate_series(1, $1) AS n";
    sqlx::query(sql).bind(i64::from(rows)).execute(&mut connection).await?;
    connection.close().await?;
    Ok(())
}

/// Claims and completes `rows` rows. Returns the time that it took, and this process's processor time.
pub(crate) async fn drain(database: &Database, how: How, rows: u32) -> anyhow::Result<(Duration, Duration)> {
    let (before, start) = (own_processor_time(), Instant::now());
    let queue = Queue::new(database, how);
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        let queue = queue.clone();
        workers.spawn(async move {
            match how {
                How::Single | How::SingleFlushed => queue.run_worker(1).await,
                How::Lots => queue.run_worker(i64::from(LOT)).await,
            }
        });
    }
    let mut completed = 0;
    while let Some(worker) = workers.join_next().await {
        completed += worker??;
    }
    let (took, processor) = (start.elapsed(), own_processor_time().saturating_sub(before));
    anyhow::ensure!(completed == u64::from(rows), "{completed} of {rows} rows were completed");
    anyhow::ensure!(queue.count_rows().await? == 0, "rows are left");
    queue.pool.close().await;
    Ok((took, processor))
}

/// The queue's statements, and a pool of connections.
#[derive(Clone)]
struct Queue {
    pool: PgPool,
    tokens: Arc<Tokens>,
    /// The value of `synchronous_commit` for claims.
    flush_claims: &'static str,
}

impl Queue {
    fn new(database: &Database, how: How) -> Self {
        Self {
            pool: PgPoolOptions::new().max_connections(WORKERS).connect_lazy_with(database.options.clone()),
            tokens: Arc::default(),
            flush_claims: if matches!(how, How::SingleFlushed) { "on" } else { "off" },
        }
    }

    /// Runs one worker: claims up to `lot` rows and completes them, until none are left.
    async fn run_worker(&self, lot: i64) -> anyhow::Result<u64> {
        let mut completed = 0;
        loop {
            let leases = self.claim(lot).await?;
            if leases.is_empty() {
                return Ok(completed);
            }
            let done = if let [lease] = leases.as_slice() {
                self.complete_one(lease).await?
            } else {
                self.complete(&leases).await?.len()
            };
            anyhow::ensure!(done == leases.len(), "a lease was lost");
            completed += u64::try_from(done)?;
        }
    }

    /// Claims up to `limit` due rows. Unless `flush_claims` is on, a claim returns before it is on disk. If the server
    /// crashes, the claim may be lost; the row is then claimed again.
    async fn claim(&self, limit: i64) -> anyhow::Result<Vec<Lease>> {
        let sql = "-- bench/statements.claim\nWITH due AS MATERIALIZED (SELECT agent_id FROM summary_update_queue \
                   WHERE parked_at IS NULL AND visible_at <= now() ORDER BY due_at, visible_at LIMIT $1 \
                   FOR UPDATE SKIP LOCKED), numbered AS (SELECT agent_id, row_number() OVER () AS number FROM due) \
                   UPDATE summary_update_queue q SET lease_token = $2 + d.number, lease_owner = $3, \
                   leased_at = now(), visible_at = now() + $4, claimed_wake = q.wake_seq, \
                   attempts = q.attempts + 1, crashes = q.crashes + (q.lease_token IS NOT NULL)::int, \
                   deferred_at = NULL, paused_until = NULL, paused_for = NULL \
                   FROM numbered d WHERE q.agent_id = d.agent_id \
                   RETURNING q.agent_id, q.lease_token, q.claimed_wake, q.attempts, q.crashes, q.reasons, \
                   set_config('synchronous_commit', $5, true)";
        let query = sqlx::query(sql)
            .bind(limit)
            .bind(self.tokens.take(&self.pool, limit).await?)
            .bind(OWNER)
            .bind(LEASE)
            .bind(self.flush_claims);
        let rows = query.fetch_all(&self.pool).await.context("claim")?;
        rows.iter().map(Lease::new).collect()
    }

    /// Completes one lease of a row without pending exchanges. Returns 0 if the lease was lost or the row was woken.
    async fn complete_one(&self, lease: &Lease) -> anyhow::Result<usize> {
        let sql = "-- bench/statements.complete_one\nDELETE FROM summary_update_queue \
                   WHERE agent_id = $1 AND lease_token = $2 AND wake_seq = $3";
        let query = sqlx::query(sql).bind(&lease.agent).bind(lease.token).bind(lease.claimed_wake);
        let done = query.execute(&self.pool).await.context("complete one")?;
        Ok(usize::try_from(done.rows_affected())?)
    }

    /// Completes leases of rows without pending exchanges. Returns the tokens of leases that weren't lost, whose rows
    /// weren't woken.
    async fn complete(&self, leases: &[Lease]) -> anyhow::Result<Vec<i64>> {
        let sql = "-- bench/statements.complete\nDELETE FROM summary_update_queue q \
                   USING unnest($1::text[], $2::bigint[], $3::bigint[]) AS done (agent_id, token, wake) \
                   WHERE q.agent_id = done.agent_id AND q.lease_token = done.token AND q.wake_seq = done.wake \
                   RETURNING q.lease_token";
        let agents: Vec<&str> = leases.iter().map(|lease| lease.agent.as_str()).collect();
        let tokens: Vec<i64> = leases.iter().map(|lease| lease.token).collect();
        let wakes: Vec<i64> = leases.iter().map(|lease| lease.claimed_wake).collect();
        let done = sqlx::query_scalar(sql).bind(agents).bind(tokens).bind(wakes).fetch_all(&self.pool).await;
        done.context("complete several")
    }

    async fn count_rows(&self) -> anyhow::Result<i64> {
        let sql = "-- bench/statements.left\nSELECT count(*) FROM summary_update_queue";
        Ok(sqlx::query_scalar(sql).fetch_one(&self.pool).await?)
    }
}

impl Lease {
    fn new(row: &PgRow) -> anyhow::Result<Self> {
        Ok(Self { agent: row.try_get(0)?, token: row.try_get(1)?, claimed_wake: row.try_get(2)? })
    }
}
