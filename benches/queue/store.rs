//! Claiming and completing through recapd's store, with its own schema, as the daemon does.

use std::{sync::Arc, time::Duration};

use recapd_config::Config;
use recapd_platform::clock::{Clock as _, SystemClock};
use recapd_store::{
    ClaimRequest, SqlStore, Store,
    postgres::{Clock, PostgresSettings},
    update::Settle,
};
use sqlx::{Connection as _, Executor as _, PgConnection, raw_sql};
use tokio::{task::JoinSet, time::Instant};

use crate::{
    WORKERS,
    server::{Database, own_processor_time},
};

const LEASE_MS: i64 = 15_000;
const TIMEOUT_MS: u64 = 60_000;

/// Creates agents with nothing pending, and a due row for each.
const FILL: &str = "-- bench/store.fill\nINSERT INTO agents (agent_id, created_at, updated_at) \
                    SELECT 'agent-' || n, now(), now() FROM generate_series(1, $1) AS n";
const FILL_REST: &str = "-- bench/store.fill_rest\nINSERT INTO summaries (agent_id, updated_at) \
                         SELECT agent_id, now() FROM agents; \
                         INSERT INTO summary_update_queue (agent_id, queued_at, visible_at, due_at) \
                         SELECT agent_id, now(), now(), now() FROM agents";

/// Creates the schema, `rows` agents and their queue rows.
pub(crate) async fn fill(database: &Database, rows: u32) -> anyhow::Result<()> {
    open(database).await?.close().await;
    let mut connection = PgConnection::connect_with(&database.options).await?;
    sqlx::query(FILL).bind(i64::from(rows)).execute(&mut connection).await?;
    connection.execute(raw_sql(FILL_REST)).await?;
    connection.close().await?;
    Ok(())
}

/// Claims and completes `rows` rows: each worker claims up to `lot` rows and completes them singly. Returns the time
/// that it took, and this process's processor time.
pub(crate) async fn drain(database: &Database, lot: u32, rows: u32) -> anyhow::Result<(Duration, Duration)> {
    let (before, start) = (own_processor_time(), Instant::now());
    let store = Arc::new(open(database).await?);
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        workers.spawn(worker(Arc::clone(&store), i64::from(lot)));
    }
    let mut completed = 0;
    while let Some(worker) = workers.join_next().await {
        completed += worker??;
    }
    let (took, processor) = (start.elapsed(), own_processor_time().saturating_sub(before));
    anyhow::ensure!(completed == rows, "{completed} of {rows} rows were completed");
    Ok((took, processor))
}

async fn worker(store: Arc<SqlStore>, limit: i64) -> anyhow::Result<u32> {
    let mut completed = 0;
    loop {
        let now = SystemClock.now();
        let request = ClaimRequest { owner: "bench".to_owned(), limit, lease_ms: LEASE_MS, now };
        let leases = store.claim(request).await?;
        if leases.is_empty() {
            return Ok(completed);
        }
        for lease in &leases {
            let settle = Settle { lo: 0, hi: 0, now: SystemClock.now() };
            anyhow::ensure!(!store.settle(lease, settle).await?.rearmed, "a row was left");
            completed += 1;
        }
    }
}

async fn open(database: &Database) -> anyhow::Result<SqlStore> {
    let settings = PostgresSettings {
        url: database.url(),
        read_url: None,
        read_lag_ms_max: 10_000,
        read_patience_ms: TIMEOUT_MS,
        // The pool checks a returned connection; the next claim needn't wait for that.
        connections: Config::default().database.connections,
        acquire_timeout_ms: TIMEOUT_MS,
        statement_timeout_ms: TIMEOUT_MS,
        clock: Clock::Database,
    };
    Ok(SqlStore::open(&settings.into()).await?)
}
