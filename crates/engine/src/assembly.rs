//! Builds the parts of a daemon from its configuration. Only this module knows which type implements which trait.

mod model;

use std::{convert::Infallible, sync::Arc, time::Duration};

use secrecy::SecretString;
use tokio_util::sync::CancellationToken;

use crate::{
    call_log::CallLog,
    embedder::{Embedder, EmbedderParts},
    ingest::{Ingestor, Operator},
    journal::live::{Journal, LiveJournal},
    peers,
    schedule::{Schedule, ScheduleSettings},
    snapshot::{Snapshots, project::ProjectSnapshots},
    worker::{BatchServices, BatchSettings, Worker, WorkerParts, WorkerSettings},
};
use recapd_config::{self as config, Config, ModelMode};
use recapd_core::{
    domain::{
        number::{i64_or_max, usize_or_max},
        price::Prices,
        prompt::PromptLimits,
        summary::{calendar::Calendar, compaction::SummaryPolicy, section::Ageing},
        time::{HOUR_MS, MINUTE_MS},
        zone::Zone,
    },
    tokenizer,
};
use recapd_llm::{
    ChatModel, LlmError,
    batch::{BatchModel, RESULTS_BYTES_MAX},
    offline::OfflineModel,
};
use recapd_platform::{
    clock::Clock,
    notice::{LoopProgress, Notices},
};
use recapd_store::{
    AppendRules, DatabaseSettings, MaterialLimits, SqlStore, Store, StoreResult,
    archive::Archive,
    batch::BatchStore,
    embedding::{EmbeddingModel, EmbeddingStore},
    operate::OperatorStore,
    postgres::{self, Member, PostgresSettings, READ_PATIENCE_MS},
    sqlite::{MissingFolder, SqliteSettings, Synchronous},
};
use recapd_telemetry::metrics::Metrics;

pub use model::{Models, embeddings, model, models};

/// How many characters of a prompt make one token, to limit an update's material. Prose has about four, JSON fewer.
const PROMPT_CHARS_PER_TOKEN: i64 = 4;
/// How many tokens of an answer one item with its three texts takes.
const ITEM_TOKENS: i64 = 230;
/// How many small exchanges share one item on average. A model may join five, but mostly not all five belong together.
const EXCHANGES_PER_ITEM: i64 = 3;
/// How many polls an idle worker skips before it reads the queue anyway. Someone who writes to the database directly doesn't wake
/// a worker.
const POLLS_RESTED: u64 = 30;
/// The same for a database that other daemons may share. It is smaller, because another daemon doesn't announce that it has
/// created a row that becomes due later.
const POLLS_RESTED_SHARED: u64 = 5;
/// Limits the rest of an idle worker, unless the interval of one poll is longer.
const REST_MS_MAX: u64 = 60_000;

/// Limits the bytes of one token in the results of a batch. Few tokens are longer than a word, and JSON escapes some letters.
const RESULT_BYTES_PER_TOKEN: i64 = 16;
/// How many bytes one result has besides its answer.
const RESULT_BYTES_AROUND: i64 = 16_384;
/// SQLite: limits the write requests that share a commit. With more, nothing gets faster, and the first one waits longer.
const GROUP_COMMIT_MAX: usize = 256;
/// Limits the bytes of a batch. Gemini, which accepts the least, takes 20 MB in one request.
const BATCH_BYTES_MAX: i64 = 16_000_000;
/// How long a command waits for a document. Its user wants the document, even on a machine that is overloaded.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);
/// Converts hours of the configuration to days of the calendar. Days on which clocks change count as 24 hours, too.
const HOURS_PER_DAY: i64 = 24;

/// All parts of a daemon, on one store.
#[derive(Clone)]
pub struct Parts {
    pub store: Arc<dyn Store>,
    pub ingestor: Ingestor,
    pub worker: Worker,
    pub schedule: Schedule,
    pub snapshots: Arc<Snapshots>,
    pub projects: Arc<ProjectSnapshots>,
    /// `None` without an embedding model.
    pub embedder: Option<Arc<Embedder>>,
    pub metrics: Metrics,
    pub clock: Arc<dyn Clock>,
    notices: Notices,
    for_workers: WorkerParts,
}

impl Parts {
    /// Returns an operator on `store`, which must be the database of these parts. Its changes wake this daemon's workers and readers.
    pub fn operator(&self, store: Arc<dyn OperatorStore>) -> Operator {
        Operator::new(store, Arc::clone(&self.clock), self.notices.clone())
    }

    pub fn notices(&self) -> &Notices {
        &self.notices
    }

    /// Builds the parts. `prices` must be those of `config`, `owner` names this daemon across restarts, and `seed` feeds jitter
    /// and nonces.
    pub fn new(
        (config, prices): (&Config, Prices),
        store: Arc<dyn Store>,
        model: Arc<dyn ChatModel>,
        clock: Arc<dyn Clock>,
        owner: &str,
        seed: u64,
    ) -> Self {
        let metrics = model::metrics(config, &prices, &model, clock.now());
        metrics.updates.workers(config.worker.concurrency);
        let notices = Notices::default();
        let redactor = config.summary.redactor().with_listener({
            let metrics = metrics.clone();
            Arc::new(move |rule| metrics.documents.redacted(rule))
        });
        let (shared, time) = (|| Arc::clone(&store), || Arc::clone(&clock));
        let ceiling = tokenizer::ceiling_counter();
        let worker = WorkerParts {
            store: shared(),
            model,
            counter: Arc::clone(&ceiling),
            clock: time(),
            notices: notices.clone(),
            metrics: metrics.clone(),
            redactor: redactor.clone(),
            calls: Arc::default(),
        };
        Self {
            ingestor: ingestor(config, shared(), time(), notices.clone(), metrics.clone())
                .redacting(redactor.clone()),
            worker: Worker::new(worker.clone(), worker_settings(config, prices, owner, seed)),
            for_workers: worker,
            schedule: Schedule::new(
                shared(),
                time(),
                notices.clone(),
                metrics.clone(),
                schedule_settings(config),
            ),
            projects: Arc::new(
                ProjectSnapshots::new(
                    shared(),
                    Arc::clone(&ceiling),
                    time(),
                    summary_policy(config),
                    redactor.clone(),
                )
                .in_contact(notices.contact().clone()),
            ),
            snapshots: Arc::new(
                Snapshots::new(shared(), ceiling, time(), config.summary.max_tokens)
                    .redacting(redactor)
                    .in_contact(notices.contact().clone())
                    .ageing(summary_policy(config).ageing)
                    .with_bytes_max(config.http.snapshot_bytes_max),
            ),
            embedder: None,
            store,
            metrics,
            clock,
            notices,
        }
    }

    /// Builds the parts for a command that works on `store` without a daemon and asks no model.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn without_model(
        config: &Config,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
    ) -> StoreResult<Self> {
        let model = Arc::new(OfflineModel);
        let parts = Self::new((config, Prices::default()), store, model, clock, "command", 0);
        parts.ingestor.load_calibrations().await?;
        let snapshots = Snapshots::clone(&parts.snapshots).with_first_timeout(COMMAND_TIMEOUT);
        let projects = ProjectSnapshots::clone(&parts.projects).with_first_timeout(COMMAND_TIMEOUT);
        Ok(Self { snapshots: Arc::new(snapshots), projects: Arc::new(projects), ..parts })
    }

    /// Returns these parts with a new worker and a new schedule. The new configuration may differ from the old one only in the
    /// sections that [`config::RELOADED`] names. The caller stops the old worker and schedule, which first finish the work in
    /// progress.
    #[must_use]
    pub fn renewed(
        self,
        (config, prices): (&Config, Prices),
        model: Arc<dyn ChatModel>,
        owner: &str,
        seed: u64,
    ) -> Self {
        model::introduce(&self.metrics, config, &prices, &model);
        self.metrics.updates.workers(config.worker.concurrency);
        let for_workers = WorkerParts { model, ..self.for_workers };
        Self {
            worker: Worker::new(for_workers.clone(), worker_settings(config, prices, owner, seed)),
            schedule: Schedule::new(
                Arc::clone(&self.store),
                Arc::clone(&self.clock),
                self.notices.clone(),
                self.metrics.clone(),
                schedule_settings(config),
            ),
            for_workers,
            ..self
        }
    }

    /// Returns the log of the last calls of models.
    pub fn calls(&self) -> Arc<CallLog> {
        Arc::clone(&self.for_workers.calls)
    }

    /// Returns the progress of the worker's loop, for health checks.
    pub fn progress(&self) -> &LoopProgress {
        self.notices.progress()
    }

    #[must_use]
    pub fn with_journal(self, journal: LiveJournal) -> Self {
        let ingestor = self.ingestor.with_journal(journal);
        Self { ingestor, ..self }
    }

    /// Makes the worker put questions that may wait into batches for `model`. `store` stores the questions.
    #[must_use]
    pub fn with_batches(
        self,
        config: &Config,
        store: Arc<dyn BatchStore>,
        model: Option<Arc<dyn BatchModel>>,
    ) -> Self {
        let Some(model) = model else { return self };
        let worker =
            self.worker.with_batches(BatchServices { store, model, settings: batch_settings(config) });
        Self { worker, ..self }
    }

    /// Adds search by embeddings to recall, if the configuration names an embedding model. `store` must be the database of these
    /// parts.
    ///
    /// # Errors
    /// When the client can't be built.
    pub fn with_embeddings(
        self,
        config: &Config,
        store: Arc<dyn EmbeddingStore>,
        api_key: Option<SecretString>,
    ) -> Result<Self, LlmError> {
        if !config.recall.has_embeddings() {
            return Ok(self);
        }
        let parts = EmbedderParts {
            store,
            remote: Arc::new(embeddings(&config.recall, api_key)?),
            clock: Arc::clone(&self.clock),
            notices: self.notices.clone(),
            metrics: self.metrics.clone(),
            redactor: self.for_workers.redactor.clone(),
        };
        let model = EmbeddingModel {
            name: config.recall.embeddings_model.clone(),
            dimensions: config.recall.embeddings_dimensions,
        };
        let patience = Duration::from_millis(config.recall.embeddings_patience_ms);
        let embedder = Some(Arc::new(Embedder::new(parts, model, patience)));
        Ok(Self { embedder, ..self })
    }

    /// Makes the sampler also watch the connections to `store` and the queue's pauses. `store` must be the database of these
    /// parts.
    #[must_use]
    pub fn with_database(self, store: &Arc<SqlStore>) -> Self {
        let pool = Arc::clone(store);
        let connections = move || pool.connections();
        let schedule = self.schedule.with_database(Arc::clone(store) as _, connections);
        Self { schedule, ..self }
    }

    /// Passes changes by other daemons on the same database, which `member` reports, to this daemon. Runs until the future is
    /// dropped.
    pub async fn follow_fleet(&self, member: Member) -> Infallible {
        peers::follow(member, &self.notices, self.clock.as_ref()).await
    }

    pub async fn follow_changes(self, stop: CancellationToken) {
        let agents = self.snapshots.follow(self.notices.changes(), stop.clone());
        let projects = self.projects.follow(self.notices.changes(), stop);
        tokio::join!(agents, projects);
    }
}

/// Builds an ingestor for commands that change data without a daemon. It uses the saved calibrations, and redacts as a daemon
/// does.
///
/// # Errors
/// When the store fails.
pub async fn ingestor_alone(
    config: &Config,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
) -> StoreResult<Ingestor> {
    let metrics = Metrics::new(clock.now(), &[]);
    let ingestor =
        ingestor(config, store, clock, Notices::default(), metrics).redacting(config.summary.redactor());
    ingestor.load_calibrations().await?;
    Ok(ingestor)
}

fn ingestor(
    config: &Config,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    notices: Notices,
    metrics: Metrics,
) -> Ingestor {
    let (provider, model) = (&config.window.provider, &config.window.model);
    let counter = tokenizer::counter_for(provider, model);
    Ingestor::new(store, counter, clock, append_rules(config), notices, metrics)
        .counting_each(provider, model, Arc::new(tokenizer::counter_for))
        .comparing(config.convergence.rules())
}

/// Opens the live journal for the agents in `archive`; `None` if the configuration names no folder.
///
/// # Errors
/// When the folder can't be made.
pub fn live_journal(
    settings: &config::JournalConfig,
    archive: Arc<dyn Archive>,
) -> std::io::Result<LiveJournal> {
    if settings.dir.is_empty() {
        return Ok(None);
    }
    Ok(Some(Arc::new(Journal::open(settings.dir.as_ref(), archive)?)))
}

pub fn database_settings(config: &config::DatabaseConfig) -> DatabaseSettings {
    if config.is_postgres() { postgres_settings(config).into() } else { sqlite_settings(config).into() }
}

/// Opens the database for a daemon. The configuration says whether this also migrates the schema.
///
/// # Errors
/// When the store fails.
pub async fn open_store(config: &Config) -> StoreResult<SqlStore> {
    let settings = database_settings(&config.database);
    match config.database.migrate {
        config::Migrate::Auto => SqlStore::open(&settings).await,
        config::Migrate::Manual => SqlStore::open_as_is(&settings).await,
    }
}

fn sqlite_settings(config: &config::DatabaseConfig) -> SqliteSettings {
    SqliteSettings {
        url: config.url.clone(),
        readers: config.readers,
        group_commit_max: GROUP_COMMIT_MAX,
        busy_timeout_ms: config.busy_timeout_ms,
        synchronous: match config.synchronous {
            config::Synchronous::Full => Synchronous::Full,
            config::Synchronous::Normal => Synchronous::Normal,
            config::Synchronous::Off => Synchronous::Off,
        },
        missing_folder: if config.is_in_state_folder { MissingFolder::Make } else { MissingFolder::Refuse },
    }
}

fn postgres_settings(config: &config::DatabaseConfig) -> PostgresSettings {
    PostgresSettings {
        url: config.url.clone(),
        read_url: Some(config.read_url.clone()).filter(|url| !url.is_empty()),
        read_lag_ms_max: config.read_lag_ms_max,
        read_patience_ms: READ_PATIENCE_MS,
        connections: config.connections,
        acquire_timeout_ms: config.busy_timeout_ms,
        statement_timeout_ms: config.statement_timeout_ms,
        clock: postgres::Clock::Database,
    }
}

fn append_rules(config: &Config) -> AppendRules {
    AppendRules {
        budget: config.window.budget(),
        on_overflow: config.window.on_overflow,
        basis: config.basis(),
        context: config.context.options(),
        idle_gap_ms: config.session.idle_gap_minutes * MINUTE_MS,
        batch_exchanges: config.queue.batch_exchanges,
        batch_tokens_min: batch_tokens_min(config),
        debounce_ms: config.queue.debounce_ms,
        max_wait_ms: config.queue.max_wait_ms,
        revive_after_ms: config.queue.revive_after_ms,
        policy: summary_policy(config),
    }
}

/// Returns how many tokens a batch must have; 0 for the built-in summariser, whose calls cost nothing.
fn batch_tokens_min(config: &Config) -> i64 {
    match config.model.mode {
        ModelMode::Offline => 0,
        _ => config.queue.batch_tokens_min,
    }
}

/// Returns how many items fit into an answer. An answer that is cut off is billed but useless.
fn items_max(config: &Config) -> i64 {
    match config.model.mode {
        ModelMode::Offline => i64::MAX,
        _ => (config.model.output_tokens_max / ITEM_TOKENS).max(1),
    }
}

/// Returns how many exchanges one question may have. Small ones are joined, so that no more items result than fit into an answer.
fn exchanges_max(config: &Config) -> i64 {
    let joined = items_max(config).saturating_mul(EXCHANGES_PER_ITEM);
    config.worker.batch_exchanges_max.min(joined)
}

fn worker_settings(config: &Config, prices: Prices, owner: &str, seed: u64) -> WorkerSettings {
    let (queue, worker) = (&config.queue, &config.worker);
    let chars_max = worker.input_tokens_max.saturating_mul(PROMPT_CHARS_PER_TOKEN);
    let rest = if config.database.is_postgres() { POLLS_RESTED_SHARED } else { POLLS_RESTED };
    WorkerSettings {
        owner: owner.to_owned(),
        concurrency: worker.concurrency,
        poll_ms: queue.poll_ms,
        rest_ms: queue.poll_ms.saturating_mul(rest).min(REST_MS_MAX),
        lease_ms: queue.lease_ms,
        retry: queue.retry_policy(),
        limits: MaterialLimits { exchanges_max: exchanges_max(config), tokens_max: worker.input_tokens_max },
        prompt: PromptLimits {
            material_chars_max: usize_or_max(chars_max),
            items_max: usize_or_max(items_max(config)),
        },
        output_tokens_max: config.model.output_tokens_max,
        thinking_reserve_tokens: config.model.thinking_reserve_tokens,
        batch_exchanges: queue.batch_exchanges,
        batch_tokens_min: batch_tokens_min(config),
        max_wait_ms: queue.max_wait_ms,
        policy: summary_policy(config),
        compact_by_model: config.summary.compact_by_model,
        spend: config.spend.limits(),
        prices,
        seed,
    }
}

fn batch_settings(config: &Config) -> BatchSettings {
    let (batch, model) = (&config.batch, &config.model);
    let answer_tokens = model.output_tokens_max.saturating_add(model.thinking_reserve_tokens);
    let answer_bytes =
        answer_tokens.saturating_mul(RESULT_BYTES_PER_TOKEN).saturating_add(RESULT_BYTES_AROUND);
    let readable = i64_or_max(RESULTS_BYTES_MAX) / answer_bytes;
    BatchSettings {
        gather_ms: batch.gather_ms,
        requests_max: batch.requests_max.min(readable).max(1),
        bytes_max: BATCH_BYTES_MAX,
        open_max: batch.open_max,
        max_wait_ms: batch.max_wait_ms,
    }
}

/// Returns the policy for documents: their length, and how they age.
pub fn summary_policy(config: &Config) -> SummaryPolicy {
    let idle_gap_minutes = config.session.idle_gap_minutes;
    let config = &config.summary;
    SummaryPolicy {
        max_tokens: config.max_tokens,
        ageing: match config.ageing {
            config::Ageing::Off => Ageing::Off,
            config::Ageing::Calendar => Ageing::Calendar(Calendar {
                zone: Zone::parse(&config.time_zone).unwrap_or_default(),
                session_ms: config.session_hours * HOUR_MS,
                days: (config.week_hours + HOURS_PER_DAY - 1) / HOURS_PER_DAY,
                drops_older: config.drop_older,
                idle_gap_ms: idle_gap_minutes * MINUTE_MS,
                session: None,
            }),
            config::Ageing::Age => Ageing::Age {
                session_ms: config.session_hours * HOUR_MS,
                yesterday_ms: config.yesterday_hours * HOUR_MS,
                week_ms: config.week_hours * HOUR_MS,
                drops_older: config.drop_older,
            },
        },
        style: config.style,
        ..SummaryPolicy::default()
    }
}

fn schedule_settings(config: &Config) -> ScheduleSettings {
    ScheduleSettings {
        ageing: config.schedule.ageing.clone(),
        prune: config.schedule.prune.clone(),
        runs_keep_days: config.schedule.runs_keep_days,
        versions_keep: config.schedule.versions_keep,
        sample_ms: config.schedule.sample_ms,
        reconcile_ms: config.queue.reconcile_ms,
        max_wait_ms: config.queue.max_wait_ms,
        attempts_max: config.queue.attempts_max,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_limited_to_what_fits_its_answer() {
        let mut config = Config::default();
        let sizes = |config: &Config| (items_max(config), exchanges_max(config));
        assert_eq!(sizes(&config), (i64::MAX, config.worker.batch_exchanges_max));
        config.model.mode = ModelMode::Anthropic;
        assert_eq!(sizes(&config), (17, 51));
        config.model.output_tokens_max = 100;
        assert_eq!(sizes(&config), (1, 3));
        config.worker.batch_exchanges_max = 2;
        assert_eq!(sizes(&config), (1, 2));
    }

    #[test]
    fn the_results_of_a_batch_can_be_read() {
        let mut config = Config::default();
        assert_eq!(batch_settings(&config).requests_max, config.batch.requests_max);
        config.model.output_tokens_max = 1_000_000;
        assert_eq!(batch_settings(&config).requests_max, 4);
        config.model.thinking_reserve_tokens = i64::MAX;
        assert_eq!(batch_settings(&config).requests_max, 1);
    }
}
