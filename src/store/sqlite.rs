//! The embedded store: SQLite in WAL mode, one writer with grouped commits, a pool of readers.
//!
//! One daemon at a time: whoever opens it for daemon work holds a lock file beside the database. Other programs may
//! read and write through SQL meanwhile.

mod agent;
mod append;
mod archive;
mod batch;
mod calibration;
mod complete;
mod edit;
mod exchange;
mod forget;
mod fork;
mod hold;
mod lineage;
mod project;
mod queue;
mod rebuild;
mod recall;
mod recount;
mod revise;
mod rollback;
mod row;
mod schedule;
mod schema;
mod session;
mod spending;
mod summary;
mod verify;
mod version;
mod writer;

use std::{
    fs::{File, TryLockError},
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use sqlx::{
    Connection, Row as _, SqliteConnection, SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};
use tokio_util::task::TaskTracker;

use super::{
    AgentRow, Ancestor, AppendOutcome, AppendRequest, ClaimRequest, Completed, Deleted, EditRequest, Edited,
    Enqueued, ExchangeQuery, Expanded, Failure, Forget, Forgotten, Forked, ItemQuery, ItemRow,
    JournalledAnswer, KeptCalibration, Material, MaterialLimits, MessageRange, Patch, Paused, Pins,
    Postponement, ProjectFigures, ProjectRow, ProjectStamp, Prune, RebuildRequest, Recount, RecountBatch,
    Recounted, Revised, RollbackRequest, RunRecord, SaidMessage, Sample, Searched, SessionEnded, Settle,
    Spending, Store, StoreError, StoreResult, StoredExchange, SummaryRow, Version, VersionFigures,
    VersionQuery, verify::AgentReport,
};
use crate::domain::{
    agent::AgentId,
    project::ProjectId,
    recall::Query,
    settings::{AgentSettings, SettingsPatch},
    time::Timestamp,
    work::{Lease, Reason},
};
use writer::Writer;

/// How a database is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqliteSettings {
    /// `sqlite:PATH`.
    pub url: String,
    /// Connections that read at the same time.
    pub readers: u32,
    /// At most so many operations share one commit.
    pub group_commit_max: usize,
    /// How long a writer waits for another program's lock.
    pub busy_timeout_ms: u64,
    /// When SQLite waits for the disk.
    pub synchronous: Synchronous,
}

/// When SQLite waits for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synchronous {
    /// At each commit: nothing acknowledged is lost in a power cut.
    Full,
    /// At checkpoints: consistent after a power cut, but the last commits may be gone.
    Normal,
    /// Never: for throw-away databases.
    Off,
}

/// The embedded store.
pub struct SqliteStore {
    writer: Writer,
    readers: SqlitePool,
    options: SqliteConnectOptions,
    tasks: TaskTracker,
    _lock: Option<Arc<File>>,
}

impl SqliteStore {
    /// Opens the database for daemon work: makes it if it isn't there, brings its schema up to date, and holds its
    /// lock until the store is dropped.
    ///
    /// # Errors
    /// [`StoreError::InUse`], [`StoreError::Schema`] or [`StoreError::Unavailable`].
    pub async fn open(settings: &SqliteSettings) -> StoreResult<Self> {
        let options = options(settings)?;
        let lock = Arc::new(lock(options.get_filename())?);
        let mut connection = SqliteConnection::connect_with(&options).await?;
        schema::migrate(&mut connection).await?;
        Self::over(settings, &options, connection, Some(lock)).await
    }

    /// Opens an existing database beside a running daemon, to look at it.
    ///
    /// # Errors
    /// As [`Self::open`]; a missing file is [`StoreError::Unavailable`].
    pub async fn look(settings: &SqliteSettings) -> StoreResult<Self> {
        let options = options(settings)?.create_if_missing(false);
        let mut connection = SqliteConnection::connect_with(&options).await?;
        schema::check(&mut connection).await?;
        Self::over(settings, &options, connection, None).await
    }

    async fn over(
        settings: &SqliteSettings,
        options: &SqliteConnectOptions,
        connection: SqliteConnection,
        lock: Option<Arc<File>>,
    ) -> StoreResult<Self> {
        let readers = SqlitePoolOptions::new()
            .max_connections(settings.readers.max(1))
            .connect_with(options.clone().read_only(true))
            .await?;
        let tasks = TaskTracker::new();
        let writer = Writer::start(connection, settings.group_commit_max, &tasks);
        Ok(Self {
            writer,
            readers,
            options: options.clone(),
            tasks,
            _lock: lock,
        })
    }

    /// Takes what was forgotten out of the index's pages, then brings the log into the database and empties it, so that no
    /// earlier state of a page is left. False if a reader held it.
    async fn scrub(&self) -> StoreResult<bool> {
        while self.writer.run(|tx| Box::pin(recall::merge_some(tx))).await? {}
        let mut connection = SqliteConnection::connect_with(&self.options).await?;
        let sql = "-- sqlite/sqlite.scrub\nPRAGMA wal_checkpoint(TRUNCATE)";
        let busy: i64 = sqlx::query(sql).fetch_one(&mut connection).await?.try_get(0)?;
        connection.close().await?;
        Ok(busy == 0)
    }

    /// Waits for the writes under way and closes the database.
    pub async fn close(self) {
        drop(self.writer);
        self.tasks.close();
        self.tasks.wait().await;
        self.readers.close().await;
    }
}

fn options(settings: &SqliteSettings) -> StoreResult<SqliteConnectOptions> {
    let synchronous = match settings.synchronous {
        Synchronous::Full => SqliteSynchronous::Full,
        Synchronous::Normal => SqliteSynchronous::Normal,
        Synchronous::Off => SqliteSynchronous::Off,
    };
    Ok(SqliteConnectOptions::from_str(&settings.url)?
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(synchronous)
        .foreign_keys(true)
        // What was deleted or replaced is gone: an old document must not be read from a freed page.
        .pragma("secure_delete", "ON")
        .busy_timeout(Duration::from_millis(settings.busy_timeout_ms)))
}

fn lock(database: &Path) -> StoreResult<File> {
    let mut path = PathBuf::from(database);
    path.as_mut_os_string().push(".lock");
    let file = File::create(&path)
        .map_err(|error| StoreError::Unavailable(format!("{}: {error}", path.display())))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::InUse(database.display().to_string())),
        Err(TryLockError::Error(error)) => {
            Err(StoreError::Unavailable(format!("{}: {error}", path.display())))
        }
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn append(&self, request: AppendRequest) -> StoreResult<AppendOutcome> {
        self.writer
            .run(move |tx| Box::pin(append::append(tx, request, false)))
            .await
    }

    async fn rewind(&self, request: AppendRequest) -> StoreResult<AppendOutcome> {
        self.writer
            .run(move |tx| Box::pin(append::append(tx, request, true)))
            .await
    }

    async fn fork(&self, parent: &AgentId, child: &AgentId, now: Timestamp) -> StoreResult<Forked> {
        let (parent, child) = (parent.clone(), child.clone());
        self.writer
            .run(move |tx| Box::pin(fork::fork(tx, parent, child, now)))
            .await
    }

    async fn ancestors(&self, agent: &AgentId) -> StoreResult<Vec<Ancestor>> {
        fork::ancestors(&mut *self.readers.begin().await?, agent).await
    }

    async fn pins(&self, agent: &AgentId, limit: i64) -> StoreResult<Pins> {
        lineage::pins::load(&mut *self.readers.begin().await?, agent, limit).await
    }

    async fn end_session(&self, agent: &AgentId, now: Timestamp) -> StoreResult<SessionEnded> {
        let agent = agent.clone();
        self.writer
            .run(move |tx| Box::pin(async move { session::end_session(tx, &agent, now).await }))
            .await
    }

    async fn change_settings(
        &self,
        agent: &AgentId,
        patch: &SettingsPatch,
        now: Timestamp,
    ) -> StoreResult<AgentSettings> {
        let (agent, patch) = (agent.clone(), patch.clone());
        self.writer
            .run(move |tx| Box::pin(async move { agent::change_settings(tx, &agent, &patch, now).await }))
            .await
    }

    async fn begin_recount(&self, agent: &AgentId) -> StoreResult<()> {
        let agent = agent.clone();
        self.writer
            .run(move |tx| Box::pin(async move { recount::begin(tx, &agent).await }))
            .await
    }

    async fn recounts_due(&self, limit: i64) -> StoreResult<Vec<AgentId>> {
        recount::due(&mut *self.readers.acquire().await?, limit).await
    }

    async fn recount_batch(&self, agent: &AgentId, messages_max: i64) -> StoreResult<Option<RecountBatch>> {
        let mut tx = self.readers.begin().await?;
        recount::batch(&mut tx, agent, messages_max).await
    }

    async fn recount(&self, request: Recount) -> StoreResult<Option<Recounted>> {
        self.writer
            .run(move |tx| Box::pin(recount::recount(tx, request)))
            .await
    }

    async fn calibrations(&self) -> StoreResult<Vec<KeptCalibration>> {
        calibration::load(&mut *self.readers.acquire().await?).await
    }

    async fn keep_calibrations(&self, kept: Vec<KeptCalibration>, now: Timestamp) -> StoreResult<()> {
        self.writer
            .run(move |tx| Box::pin(calibration::keep(tx, kept, now)))
            .await
    }

    async fn agent(&self, agent: &AgentId) -> StoreResult<Option<AgentRow>> {
        agent::load(&mut *self.readers.acquire().await?, agent).await
    }

    async fn agents(&self, after: Option<&AgentId>, limit: i64) -> StoreResult<Vec<AgentRow>> {
        agent::list(&mut *self.readers.acquire().await?, after, limit).await
    }

    async fn exchanges(&self, agent: &AgentId, query: ExchangeQuery) -> StoreResult<Vec<StoredExchange>> {
        let mut tx = self.readers.begin().await?;
        exchange::load(&mut tx, agent, query).await
    }

    async fn count_exchanges(&self, agent: &AgentId, from: i64, through: i64) -> StoreResult<i64> {
        exchange::count(&mut *self.readers.acquire().await?, agent, from, through).await
    }

    async fn last_said(&self, agent: &AgentId, limit: i64) -> StoreResult<Vec<SaidMessage>> {
        exchange::last_said(&mut *self.readers.acquire().await?, agent, limit).await
    }

    async fn search(&self, agent: &AgentId, query: &Query) -> StoreResult<Option<Searched>> {
        recall::search(&mut *self.readers.begin().await?, agent, query).await
    }

    async fn expand(
        &self,
        agent: &AgentId,
        exchange: i64,
        range: MessageRange,
    ) -> StoreResult<Option<Expanded>> {
        recall::expand(&mut *self.readers.begin().await?, agent, exchange, range).await
    }

    async fn index_messages(&self, messages_max: i64) -> StoreResult<i64> {
        // Read and taken apart here, so that the writer only writes.
        let mut reader = self.readers.acquire().await?;
        let Some(batch) = recall::next_batch(&mut reader, messages_max).await? else {
            // An earlier life may have been killed before it had done this.
            if recall::is_unmerged(&mut reader).await? {
                self.scrub().await?;
            }
            return Ok(0);
        };
        self.writer
            .run(move |tx| Box::pin(recall::write_batch(tx, batch)))
            .await
    }

    async fn forget(&self, request: Forget) -> StoreResult<Forgotten> {
        let forgotten = self
            .writer
            .run(move |tx| Box::pin(forget::forget(tx, request)))
            .await?;
        Ok(Forgotten {
            is_scrubbed: self.scrub().await?,
            ..forgotten
        })
    }

    async fn delete_agent(&self, agent: &AgentId) -> StoreResult<Deleted> {
        let agent = agent.clone();
        let messages = self
            .writer
            .run(move |tx| Box::pin(async move { forget::delete::delete(tx, &agent).await }))
            .await?;
        Ok(Deleted {
            messages,
            is_scrubbed: self.scrub().await?,
        })
    }

    async fn summary(&self, agent: &AgentId) -> StoreResult<Option<SummaryRow>> {
        let mut tx = self.readers.begin().await?;
        summary::read(&mut tx, agent).await
    }

    async fn summary_of_step(&self, agent: &AgentId) -> StoreResult<Option<SummaryRow>> {
        let mut tx = self.readers.begin().await?;
        summary::of_step(&mut tx, agent).await
    }

    async fn versions(&self, agent: &AgentId, query: VersionQuery) -> StoreResult<Vec<VersionFigures>> {
        version::list(&mut *self.readers.acquire().await?, agent, query).await
    }

    async fn version(&self, agent: &AgentId, version: i64) -> StoreResult<Option<Version>> {
        version::load(&mut *self.readers.acquire().await?, agent, version).await
    }

    async fn roll_back(&self, request: RollbackRequest) -> StoreResult<Revised> {
        self.writer
            .run(move |tx| Box::pin(rollback::roll_back(tx, request)))
            .await
    }

    async fn rebuild(&self, request: RebuildRequest) -> StoreResult<Revised> {
        self.writer
            .run(move |tx| Box::pin(rebuild::rebuild(tx, request)))
            .await
    }

    async fn items(&self, agent: &AgentId, query: ItemQuery) -> StoreResult<Vec<ItemRow>> {
        edit::list(&mut *self.readers.acquire().await?, agent, query).await
    }

    async fn edit_item(&self, request: EditRequest) -> StoreResult<Edited> {
        self.writer.run(move |tx| Box::pin(edit::edit(tx, request))).await
    }

    async fn set_project(
        &self,
        agent: &AgentId,
        project: Option<&ProjectId>,
        now: Timestamp,
    ) -> StoreResult<()> {
        let (agent, project) = (agent.clone(), project.cloned());
        self.writer
            .run(move |tx| Box::pin(async move { project::set(tx, &agent, project, now).await }))
            .await
    }

    async fn projects(&self, after: Option<&ProjectId>, limit: i64) -> StoreResult<Vec<ProjectFigures>> {
        project::list(&mut *self.readers.acquire().await?, after.cloned(), limit).await
    }

    async fn project_stamp(&self, project: &ProjectId) -> StoreResult<Option<ProjectStamp>> {
        project::stamp(&mut *self.readers.acquire().await?, project).await
    }

    async fn project(&self, project: &ProjectId) -> StoreResult<Option<(ProjectStamp, ProjectRow)>> {
        let mut tx = self.readers.begin().await?;
        project::load(&mut tx, project).await
    }

    async fn enqueue(
        &self,
        agent: &AgentId,
        reason: Reason,
        delay_ms: i64,
        now: Timestamp,
    ) -> StoreResult<Enqueued> {
        let agent = agent.clone();
        self.writer
            .run(move |tx| {
                Box::pin(async move {
                    let wake = queue::Wake {
                        reason,
                        delay_ms,
                        revive_after_ms: 0,
                        now,
                    };
                    queue::enqueue(tx, &agent, wake).await
                })
            })
            .await
    }

    async fn claim(&self, claim: ClaimRequest) -> StoreResult<Vec<Lease>> {
        // An idle daemon polls: the look costs no write transaction while nothing is due.
        if !queue::is_any_due(&mut *self.readers.acquire().await?, claim.now).await? {
            return Ok(Vec::new());
        }
        self.writer.run(move |tx| Box::pin(queue::claim(tx, claim))).await
    }

    async fn renew(&self, leases: &[Lease], now: Timestamp, lease_ms: i64) -> StoreResult<Vec<i64>> {
        let leases = leases.to_vec();
        self.writer
            .run(move |tx| Box::pin(queue::renew(tx, leases, now, lease_ms)))
            .await
    }

    async fn material(&self, lease: &Lease, limits: MaterialLimits) -> StoreResult<Material> {
        let mut tx = self.readers.begin().await?;
        summary::material(&mut tx, &lease.agent, limits).await
    }

    async fn journalled(&self, agent: &AgentId, key: &str) -> StoreResult<Option<JournalledAnswer>> {
        summary::journalled(&mut *self.readers.acquire().await?, agent, key).await
    }

    async fn journal(
        &self,
        agent: &AgentId,
        key: &str,
        answer: &JournalledAnswer,
        now: Timestamp,
    ) -> StoreResult<()> {
        let (agent, key, answer) = (agent.clone(), key.to_owned(), answer.clone());
        self.writer
            .run(move |tx| Box::pin(summary::journal(tx, agent, key, answer, now)))
            .await
    }

    async fn complete(&self, lease: &Lease, patch: Patch) -> StoreResult<Completed> {
        let lease = lease.clone();
        self.writer
            .run(move |tx| Box::pin(complete::complete(tx, lease, patch)))
            .await
    }

    async fn settle(&self, lease: &Lease, settle: Settle) -> StoreResult<Completed> {
        let lease = lease.clone();
        self.writer
            .run(move |tx| Box::pin(complete::settle(tx, lease, settle)))
            .await
    }

    async fn fail(&self, lease: &Lease, failure: Failure) -> StoreResult<()> {
        let lease = lease.clone();
        self.writer
            .run(move |tx| Box::pin(queue::fail(tx, lease, failure)))
            .await
    }

    async fn release(&self, leases: &[Lease], now: Timestamp) -> StoreResult<u64> {
        let leases = leases.to_vec();
        self.writer
            .run(move |tx| Box::pin(queue::release(tx, leases, now)))
            .await
    }

    async fn postpone(&self, lease: &Lease, postponement: Postponement) -> StoreResult<()> {
        let lease = lease.clone();
        self.writer
            .run(move |tx| Box::pin(spending::postpone(tx, lease, postponement)))
            .await
    }

    async fn record_run(&self, lease: &Lease, run: RunRecord) -> StoreResult<()> {
        let lease = lease.clone();
        self.writer
            .run(move |tx| Box::pin(spending::record_run(tx, lease, run)))
            .await
    }

    async fn resume_paused(&self, now: Timestamp) -> StoreResult<u64> {
        self.writer
            .run(move |tx| Box::pin(spending::resume_paused(tx, now)))
            .await
    }

    async fn spending(&self, agent: &AgentId, since: Timestamp) -> StoreResult<Spending> {
        spending::spending(&mut *self.readers.begin().await?, agent, since).await
    }

    async fn paused(&self, agent: &AgentId) -> StoreResult<Option<Paused>> {
        spending::paused_agent(&mut *self.readers.acquire().await?, agent).await
    }

    async fn enqueue_revisits(&self, now: Timestamp, limit: i64) -> StoreResult<u64> {
        self.writer
            .run(move |tx| Box::pin(spending::enqueue_revisits(tx, now, limit)))
            .await
    }

    async fn reclaim(&self, owner: &str, now: Timestamp) -> StoreResult<u64> {
        let owner = owner.to_owned();
        self.writer
            .run(move |tx| Box::pin(queue::reclaim(tx, owner, now)))
            .await
    }

    async fn reconcile(&self, pending_before: Timestamp, now: Timestamp) -> StoreResult<u64> {
        self.writer
            .run(move |tx| Box::pin(queue::reconcile(tx, pending_before, now)))
            .await
    }

    async fn probe_parked(
        &self,
        parked_before: Timestamp,
        attempts_max: i64,
        now: Timestamp,
    ) -> StoreResult<u64> {
        self.writer
            .run(move |tx| Box::pin(queue::probe_parked(tx, parked_before, attempts_max, now)))
            .await
    }

    async fn enqueue_ageing(&self, now: Timestamp, limit: i64) -> StoreResult<u64> {
        self.writer
            .run(move |tx| Box::pin(schedule::enqueue_ageing(tx, now, limit)))
            .await
    }

    async fn take_slot(&self, name: &str, slot: Timestamp, now: Timestamp) -> StoreResult<bool> {
        let name = name.to_owned();
        self.writer
            .run(move |tx| Box::pin(schedule::take_slot(tx, name, slot, now)))
            .await
    }

    async fn prune(&self, prune: Prune) -> StoreResult<u64> {
        self.writer
            .run(move |tx| Box::pin(schedule::prune(tx, prune)))
            .await
    }

    async fn sample(&self, now: Timestamp, window_ms: i64) -> StoreResult<Sample> {
        let mut tx = self.readers.begin().await?;
        schedule::sample(&mut tx, now, window_ms).await
    }

    async fn verify(&self, agent: &AgentId) -> StoreResult<AgentReport> {
        let mut tx = self.readers.begin().await?;
        verify::verify(&mut tx, agent).await
    }

    async fn ping(&self) -> StoreResult<()> {
        sqlx::query("-- sqlite/sqlite.ping\nSELECT 1")
            .execute(&mut *self.readers.acquire().await?)
            .await?;
        Ok(())
    }
}
