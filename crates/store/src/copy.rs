//! Copies a whole database into another one, table by table. Either may be SQLite or PostgreSQL.
//!
//! Tables and columns are read from the schemas, so that a later addition can't be overlooked. The target is written in one
//! transaction. It commits only when the copy has been read back and found equal, so a failed copy leaves nothing. Rows are
//! streamed, so that memory doesn't grow with them.
//!
//! Two things aren't copied: the recall index, which is built again, and held leases, whose rows may be claimed at once. Fencing
//! tokens continue from the last one.
//!
//! Meanwhile daemons must be stopped, and nobody may insert messages by SQL, because such messages would stay in the source.

mod content;
mod table;

use std::time::Duration;

use futures::TryStreamExt as _;
use serde::Serialize;
use tracing::warn;

use super::{
    DatabaseSettings, StoreError, StoreResult, postgres, schema,
    sql::{Connection, DriverConnection, query, query_made, sql, statement::SqlDialect},
    sqlite,
};
use content::{Checksum, Record, RowBatch};
use table::{Pair, pairs};

/// How long to wait for the lock on the source's inbox, in milliseconds. New inserts wait for as long.
const INBOX_MS_MAX: u64 = 10_000;
/// How long a statement may take, in milliseconds. One statement reads a whole table.
const STATEMENT_MS_MAX: u64 = 24 * 3_600_000;
/// Limits the checks that no other connection is left. A daemon that stops needs a moment.
const OTHERS_CHECKS_MAX: u32 = 10;
/// The pause between two of these checks.
const OTHERS_PAUSE: Duration = Duration::from_millis(200);

#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error("the source: {0}")]
    Source(#[source] StoreError),
    #[error("the target: {0}")]
    Target(#[source] StoreError),
    #[error("the {0}: another recapd is connected to it; stop all daemons on both databases first")]
    InUse(&'static str),
    #[error("the source: somebody inserts messages into it by SQL, which would stay there; stop that first")]
    Inserts,
    #[error("the target isn't empty: table {0} has rows; copy into a new database")]
    NotEmpty(String),
    /// The two databases have different tables or columns, so their versions differ.
    #[error("the databases differ in {0}")]
    Unlike(String),
    #[error("table {table} came out different ({read} rows read, {written} written): nothing was kept")]
    Differs {
        table: String,
        /// Rows read in the target.
        read: u64,
        /// Rows written from the source.
        written: u64,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyProgress<'p> {
    pub table: &'p str,
    pub rows: u64,
    /// All rows to copy and to read back.
    pub rows_total: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CopyReport {
    /// The tables in the order in which they were copied.
    pub tables: Vec<CopiedTable>,
    /// How many texts contained U+0000, which PostgreSQL can't hold and which becomes U+FFFD there.
    pub texts_changed: u64,
    /// How many held leases were released.
    pub leases_released: u64,
    /// The last fencing token that was given out.
    pub lease_token: i64,
}

/// A table that was copied, read back and found equal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CopiedTable {
    pub table: String,
    pub rows: u64,
    /// The checksum of its rows, which is the same for both kinds of database.
    pub checksum: String,
}

impl CopyReport {
    pub fn rows(&self) -> u64 {
        self.tables.iter().map(|table| table.rows).sum()
    }
}

/// Copies a database into an empty one. Creates the target file if it doesn't exist.
///
/// # Errors
/// See [`CopyError`]; then the target has tables but no rows.
pub async fn copy(
    from: &DatabaseSettings,
    to: &DatabaseSettings,
    progress: &(dyn Fn(CopyProgress<'_>) + Send + Sync),
) -> Result<CopyReport, CopyError> {
    let mut source = CopyEnd::open(from, false).await.map_err(CopyError::Source)?;
    schema::check(&mut source.connection).await.map_err(CopyError::Source)?;
    let mut target = CopyEnd::open(to, true).await.map_err(CopyError::Target)?;
    schema::migrate(&mut target.connection).await.map_err(CopyError::Target)?;
    source.check_alone("source").await?;
    target.check_alone("target").await?;
    begin_reading(&mut source.connection).await.map_err(CopyError::Source)?;
    begin_writing(&mut target.connection).await.map_err(CopyError::Target)?;
    let pairs = pairs(&mut source.connection, &mut target.connection).await?;
    let report = copy_tables(&mut source, &mut target, &pairs, progress).await?;
    // A recapd that connected in the meantime may have written, or be about to write, something that isn't in the copy.
    source.check_alone("source").await?;
    if is_insert_waiting(&mut source.connection).await.map_err(CopyError::Source)? {
        return Err(CopyError::Inserts);
    }
    end(&mut target.connection).await.map_err(CopyError::Target)?;
    checkpoint_fully(&mut target.connection).await;
    // The copy is committed already, so an error here doesn't matter.
    drop(end(&mut source.connection).await);
    Ok(report)
}

/// One of the two databases of a copy, with its lock if it is a file.
struct CopyEnd {
    connection: Connection,
    _lock: Option<std::fs::File>,
}

impl CopyEnd {
    /// Opens the database alone, as far as a file's lock ensures that. Creates a missing file if `creates`.
    async fn open(settings: &DatabaseSettings, creates: bool) -> StoreResult<Self> {
        let (connection, lock) = match settings {
            DatabaseSettings::Sqlite(settings) => {
                let (connection, lock) = sqlite::open_locked(settings, creates).await?;
                (connection, Some(lock))
            }
            DatabaseSettings::Postgres(settings) => {
                (postgres::connect_single(settings, STATEMENT_MS_MAX).await?, None)
            }
        };
        Ok(Self { connection, _lock: lock })
    }

    /// Fails if another recapd is connected to a server. On a file, the lock ensures this.
    async fn check_alone(&mut self, which: &'static str) -> Result<(), CopyError> {
        if self.connection.dialect() == SqlDialect::Sqlite {
            return Ok(());
        }
        let fault = if which == "source" { CopyError::Source } else { CopyError::Target };
        for _ in 0..OTHERS_CHECKS_MAX {
            if count_others(&mut self.connection).await.map_err(fault)? == 0 {
                return Ok(());
            }
            tokio::time::sleep(OTHERS_PAUSE).await;
        }
        Err(CopyError::InUse(which))
    }
}

async fn count_others(connection: &mut Connection) -> StoreResult<i64> {
    // Without this statement, a transaction would see the same statistics each time.
    let anew = sql!("-- postgres/copy.look_anew\nSELECT pg_stat_clear_snapshot()");
    query(anew).execute(&mut *connection).await?;
    let sql = sql!(
        "-- postgres/copy.others\nSELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
         AND application_name LIKE 'recapd%' AND pid <> pg_backend_pid()"
    );
    Ok(query(sql).fetch_one(connection).await?.try_get(0)?)
}

/// Returns true if an insert of messages by SQL waits for the lock that the copy holds. On a file, such an insert fails instead
/// of waiting.
async fn is_insert_waiting(connection: &mut Connection) -> StoreResult<bool> {
    if connection.dialect() == SqlDialect::Sqlite {
        return Ok(false);
    }
    let sql = sql!(
        "-- postgres/copy.waiting\nSELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'RowExclusiveLock' \
         AND relation = CAST('message_inbox' AS regclass) \
         AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    );
    let waiting: i64 = query(sql).fetch_one(connection).await?.try_get(0)?;
    Ok(waiting > 0)
}

async fn copy_tables(
    source: &mut CopyEnd,
    target: &mut CopyEnd,
    pairs: &[Pair],
    progress: &(dyn Fn(CopyProgress<'_>) + Send + Sync),
) -> Result<CopyReport, CopyError> {
    let mut rows_total = 0;
    for pair in pairs {
        if pair.count(&mut target.connection).await.map_err(CopyError::Target)? > 0 {
            return Err(CopyError::NotEmpty(pair.name.clone()));
        }
        rows_total += 2 * pair.count(&mut source.connection).await.map_err(CopyError::Source)?;
    }
    let mut copied = CopyReport::default();
    let mut rows_done = 0;
    for pair in pairs {
        let mut report = |rows: u64| {
            rows_done += rows;
            progress(CopyProgress { table: &pair.name, rows: rows_done, rows_total });
        };
        let (read, changed) = copy_rows(source, target, pair, &mut report).await?;
        let written = read_back(target, pair, &mut report).await.map_err(CopyError::Target)?;
        if read != written {
            return Err(CopyError::Differs {
                table: pair.name.clone(),
                read: read.rows,
                written: written.rows,
            });
        }
        copied.texts_changed += changed;
        copied.tables.push(CopiedTable {
            table: pair.name.clone(),
            rows: read.rows,
            checksum: read.to_string(),
        });
    }
    copied.lease_token = last_token(&mut source.connection).await.map_err(CopyError::Source)?;
    copied.leases_released =
        finish(&mut target.connection, pairs, copied.lease_token).await.map_err(CopyError::Target)?;
    Ok(copied)
}

/// Copies a table's rows. Returns their checksum, and how many texts had to change.
async fn copy_rows(
    source: &mut CopyEnd,
    target: &mut CopyEnd,
    pair: &Pair,
    report: &mut (dyn FnMut(u64) + Send),
) -> Result<(Checksum, u64), CopyError> {
    let (mut sum, mut changed) = (Checksum::default(), 0);
    let mut batch = RowBatch::new(pair);
    let from = source.connection.dialect();
    let to = target.connection.dialect();
    let failed = |error: sqlx::Error| CopyError::Source(error.into());
    let mut rows = query_made(pair.select(from)).fetch(&mut source.connection).map_err(failed)?;
    while let Some(row) = rows.try_next().await.map_err(failed)? {
        let mut record = Record::read(&row, pair).map_err(failed)?;
        changed += record.fit(to);
        sum.add(&record);
        batch.push(record);
        if batch.is_full() {
            report(batch.write(&mut target.connection).await.map_err(CopyError::Target)?);
        }
    }
    report(batch.write(&mut target.connection).await.map_err(CopyError::Target)?);
    Ok((sum, changed))
}

/// Returns the checksum of the target's rows.
async fn read_back(
    target: &mut CopyEnd,
    pair: &Pair,
    report: &mut (dyn FnMut(u64) + Send),
) -> StoreResult<Checksum> {
    let mut sum = Checksum::default();
    let sql = pair.select(target.connection.dialect());
    let mut rows = query_made(sql).fetch(&mut target.connection)?;
    while let Some(row) = rows.try_next().await? {
        sum.add(&Record::read(&row, pair)?);
        if sum.rows.is_multiple_of(content::ROWS_REPORTED) {
            report(content::ROWS_REPORTED);
        }
    }
    report(sum.rows % content::ROWS_REPORTED);
    Ok(sum)
}

/// Begins to read the source, and blocks inserts of messages into it. A file's lock stops only daemons.
async fn begin_reading(source: &mut Connection) -> StoreResult<()> {
    if let DriverConnection::Postgres(postgres) = source.driver() {
        postgres::wait_at_most(postgres.untimed()?, INBOX_MS_MAX).await?;
    }
    let begin = sql!(
        sqlite: "-- sql/copy.begin_reading\nBEGIN IMMEDIATE",
        postgres: "-- sql/copy.begin_reading\nBEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    );
    query(begin).execute(&mut *source).await?;
    if source.dialect() == SqlDialect::Postgres {
        // The lock comes first, so that everything committed before it is read.
        let hold = sql!("-- postgres/copy.hold_inbox\nLOCK TABLE message_inbox IN SHARE MODE");
        query(hold).execute(source).await?;
    }
    Ok(())
}

async fn begin_writing(target: &mut Connection) -> StoreResult<()> {
    let begin = sql!(
        sqlite: "-- sql/copy.begin\nBEGIN IMMEDIATE",
        postgres: "-- sql/copy.begin\nBEGIN",
    );
    query(begin).execute(target).await?;
    Ok(())
}

async fn end(connection: &mut Connection) -> StoreResult<()> {
    query(sql!("-- sql/copy.commit\nCOMMIT")).execute(connection).await?;
    Ok(())
}

/// Writes the whole write-ahead log into the database file, so that the file alone holds everything.
async fn checkpoint_fully(target: &mut Connection) {
    let sql = sql!("-- sqlite/copy.checkpoint\nPRAGMA wal_checkpoint(TRUNCATE)");
    if target.dialect() == SqlDialect::Sqlite
        && let Err(error) = query(sql).fetch_one(target).await
    {
        warn!(%error, "copy.no_checkpoint");
    }
}

/// Returns the last fencing token that may have been given out. PostgreSQL reserves tokens in blocks.
async fn last_token(connection: &mut Connection) -> StoreResult<i64> {
    let sql = sql!(
        sqlite: "-- sql/copy.last_token\nSELECT value FROM counters WHERE name = 'lease_token'",
        postgres: "-- sql/copy.last_token\nSELECT CASE WHEN is_called THEN last_value + seqincrement - 1 ELSE 0 END \
                   FROM lease_token, pg_sequence WHERE seqrelid = CAST('lease_token' AS regclass)",
    );
    Ok(query(sql).fetch_one(connection).await?.try_get(0)?)
}

/// Releases the copied leases, lets the target's counters continue after its rows, and has the recall index built. Returns how
/// many leases it released.
async fn finish(target: &mut Connection, pairs: &[Pair], last_token: i64) -> StoreResult<u64> {
    let token = sql!(
        sqlite: "-- sql/copy.token\nUPDATE counters SET value = max(value, $1) WHERE name = 'lease_token'",
        postgres: "-- sql/copy.token\nSELECT setval('lease_token', greatest($1, 1), $1 > 0)",
    );
    query(token).bind(last_token).execute(&mut *target).await?;
    // The holders of these leases don't use the target, so the leases are released.
    let release = sql!(
        "-- sql/copy.release\nUPDATE summary_update_queue SET lease_token = NULL, lease_owner = NULL, \
         leased_at = NULL, visible_at = queued_at, attempts = {max}(attempts - 1, 0) \
         WHERE lease_token IS NOT NULL"
    );
    let released = query(release).execute(&mut *target).await?;
    if target.dialect() == SqlDialect::Postgres {
        for pair in pairs {
            pair.continue_numbering(target).await?;
        }
        let index = sql!(
            "-- postgres/copy.index\nINSERT INTO recall_pending (agent_id) SELECT agent_id FROM agents \
             ON CONFLICT (agent_id) DO NOTHING"
        );
        query(index).execute(target).await?;
    }
    Ok(released)
}
