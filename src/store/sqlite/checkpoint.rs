//! Brings the write-ahead log into the database beside the writer, so that the writer need not stop for it.
//!
//! SQLite would do it within the commit that makes the log long enough: some ten milliseconds in which nobody's append is
//! answered. It still does where this falls behind.

use std::sync::Arc;

use sqlx::{Connection as _, Row as _, SqliteConnection, sqlite::SqliteConnectOptions};
use tokio::sync::{Mutex, mpsc};
use tracing::warn;

/// Operations that are committed before the log is brought in.
const OPERATIONS_BETWEEN: usize = 512;
/// Pages in the log at which the writer does it itself. SQLite's own limit is 1,000.
const PAGES_MAX: &str = "8000";

/// Statements that a writer keeps prepared: those that go together count as one, and do so in many combinations.
const STATEMENTS_KEPT: usize = 256;

/// The options of a connection that writes.
pub(super) fn writing(options: SqliteConnectOptions) -> SqliteConnectOptions {
    options
        .pragma("wal_autocheckpoint", PAGES_MAX)
        .statement_cache_capacity(STATEMENTS_KEPT)
}

/// Counts what the writer commits, and says when it is enough.
pub(super) struct Committed {
    operations: usize,
    enough: mpsc::Sender<()>,
}

impl Committed {
    /// So many more operations.
    pub(super) fn add(&mut self, operations: usize) {
        self.operations += operations;
        if self.operations >= OPERATIONS_BETWEEN && self.enough.try_send(()).is_ok() {
            self.operations = 0;
        }
    }
}

/// The connection over which it is done, one at a time. Opened when it is first needed.
pub(super) struct Checkpoint {
    options: SqliteConnectOptions,
    connection: Mutex<Option<SqliteConnection>>,
}

impl Checkpoint {
    pub(super) fn new(options: SqliteConnectOptions) -> Arc<Self> {
        Arc::new(Self {
            options,
            connection: Mutex::new(None),
        })
    }

    /// A counter for the writer, and the work to be done beside it until the counter is dropped.
    pub(super) fn beside(self: &Arc<Self>) -> (Committed, impl Future<Output = ()> + Send + use<>) {
        let (enough, mut wanted) = mpsc::channel(1);
        let own = Arc::clone(self);
        let work = async move {
            while wanted.recv().await.is_some() {
                let sql = "-- sqlite/checkpoint.some\nPRAGMA wal_checkpoint(PASSIVE)";
                if let Err(error) = own.run(sql).await {
                    warn!(%error, "store.no_checkpoint");
                }
            }
        };
        let committed = Committed {
            operations: 0,
            enough,
        };
        (committed, work)
    }

    /// Brings in all of the log and empties it. False if a reader held it.
    pub(super) async fn all(&self) -> Result<bool, sqlx::Error> {
        self.run("-- sqlite/checkpoint.all\nPRAGMA wal_checkpoint(TRUNCATE)")
            .await
    }

    async fn run(&self, sql: &'static str) -> Result<bool, sqlx::Error> {
        let mut held = self.connection.lock().await;
        let connection = match held.as_mut() {
            Some(connection) => connection,
            None => held.insert(SqliteConnection::connect_with(&self.options).await?),
        };
        let busy: i64 = sqlx::query(sql).fetch_one(connection).await?.try_get(0)?;
        Ok(busy == 0)
    }

    /// Closes the connection.
    pub(super) async fn close(&self) {
        if let Some(connection) = self.connection.lock().await.take()
            && let Err(error) = connection.close().await
        {
            warn!(%error, "store.not_closed");
        }
    }
}
