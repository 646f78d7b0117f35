//! Timed work: ageing and pruning by cron expressions, the reconciler, and the sampler.
//!
//! Each task takes no input, does what the state requires, and returns what it did. Its next run is its retry. A cron firing is a
//! database row that one daemon takes, so it happens once, however many daemons run. A firing missed while no daemon ran is made
//! up for. A firing that failed, or whose daemon was killed, is taken again after a while. The work is idempotent.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use recapd_core::domain::{
    diagnosis::Firing,
    failure_streak::FailureStreak,
    time::{DAY_MS, HOUR_MS, Timestamp},
    work::Reason,
};
use recapd_platform::{clock::Clock, crontab::Crontab, notice::Notices};
use recapd_store::{
    Connections, Prune, Sample, Slot, Store, StoreError, StoreResult, operate::OperatorStore,
};
use recapd_telemetry::metrics::{
    self, Metrics,
    labels::{AgentState, QueueState, RunOutcome},
};

/// Limits how many rows one step of ageing or pruning changes. The next step continues.
const STEP_ROWS_MAX: i64 = 1_000;
/// After this time a parked row gets one more attempt.
const PROBE_AFTER_MS: i64 = 6 * HOUR_MS;
/// How often the cron expressions are checked.
const CRON_CHECK_INTERVAL: Duration = Duration::from_secs(30);
/// While nothing changes, the figures are sampled only once in this many periods, but at least every [`CALM_MAX`].
const CALM_PERIODS: u32 = 6;
/// Limits the time between two samples, because an alert fires after five minutes without one.
const CALM_MAX: Duration = Duration::from_secs(90);
/// Journalled answers of models are deleted after this time. They are reused only if an update fails and is tried again, which
/// happens within hours.
const ANSWERS_KEPT_MS: i64 = DAY_MS;

#[derive(Clone, Debug)]
pub struct ScheduleSettings {
    pub ageing: Crontab,
    pub prune: Crontab,
    /// Runs older than this are deleted.
    pub runs_keep_days: i64,
    /// How many of the newest versions of each summary are kept.
    pub versions_keep: i64,
    pub sample_ms: u64,
    /// How often to check for missing queue rows.
    pub reconcile_ms: u64,
    /// How long pending exchanges may wait for more before the reconciler checks for their row.
    pub max_wait_ms: i64,
    pub attempts_max: i64,
}

#[derive(Clone)]
pub struct Schedule {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    notices: Notices,
    metrics: Metrics,
    settings: ScheduleSettings,
    database: Option<SampledDatabase>,
    /// The latest known firing of each schedule, by this daemon or another one.
    fired: Arc<Mutex<BTreeMap<&'static str, Timestamp>>>,
    /// The current streak of samples at which the database failed.
    failed_samples: Arc<Mutex<FailureStreak>>,
}

#[derive(Clone)]
struct SampledDatabase {
    operator: Arc<dyn OperatorStore>,
    connections: Arc<dyn Fn() -> Connections + Send + Sync>,
}

impl Schedule {
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        notices: Notices,
        metrics: Metrics,
        settings: ScheduleSettings,
    ) -> Self {
        Self {
            store,
            clock,
            notices,
            metrics,
            settings,
            database: None,
            fired: Arc::default(),
            failed_samples: Arc::default(),
        }
    }

    /// Makes the sampler also watch the database's connections and an operator's pauses.
    #[must_use]
    pub fn with_database(
        self,
        operator: Arc<dyn OperatorStore>,
        connections: impl Fn() -> Connections + Send + Sync + 'static,
    ) -> Self {
        let database = Some(SampledDatabase { operator, connections: Arc::new(connections) });
        Self { database, ..self }
    }

    /// Runs all scheduled work until `stop`. The three tasks don't wait for each other, because the sampler must be able to show
    /// that a job hangs.
    pub async fn run(&self, stop: CancellationToken) {
        let reconcile = Duration::from_millis(self.settings.reconcile_ms.max(1));
        let sample = Duration::from_millis(self.settings.sample_ms.max(1));
        tokio::join!(
            every(CRON_CHECK_INTERVAL, &stop, || self.fire_due()),
            every(reconcile, &stop, || self.reconcile()),
            stop.run_until_cancelled(self.keep_sampling(sample)),
        );
    }

    /// Samples every period; while nothing changes, every [`CALM_PERIODS`] periods.
    async fn keep_sampling(&self, period: Duration) {
        let calm = (period * CALM_PERIODS).min(CALM_MAX);
        let mut last = None;
        loop {
            // Subscribes before the sample, so that no change during it is missed.
            let mut changes = self.notices.moves();
            let mut woken = Box::pin(self.notices.queue_woken());
            woken.as_mut().enable();
            let sample = self.sample().await;
            let is_calm = sample.is_some() && sample == last;
            last = sample;
            if is_calm {
                tokio::select! {
                    // An error also means a change: more were sent than this receiver could hold.
                    _ = changes.recv() => {}
                    () = woken => {}
                    () = sleep(calm.saturating_sub(period)) => {}
                }
            }
            // Every append pays for each receiver, so this one doesn't stay subscribed.
            drop(changes);
            sleep(period).await;
        }
    }

    /// Fires what is due and what no other daemon has fired: only the latest firing of each schedule, however many were missed.
    pub async fn fire_due(&self) {
        if let Some(slot) = self.take_due("ageing", &self.settings.ageing).await {
            let aged = self.age().await;
            let outcome = if aged.is_ok() { RunOutcome::Completed } else { RunOutcome::Failed };
            self.metrics.documents.aged(outcome);
            self.record_firing("ageing", slot, aged).await;
        }
        if let Some(slot) = self.take_due("prune", &self.settings.prune).await {
            let pruned = self.prune().await;
            self.record_firing("prune", slot, pruned).await;
        }
    }

    /// Returns the last and the next firing of each schedule. The last one is known only to a schedule with a database
    /// ([`Self::with_database`]).
    ///
    /// # Errors
    /// When the store fails.
    pub async fn firings(&self) -> StoreResult<Vec<Firing>> {
        let now = self.clock.now();
        let mut firings = Vec::new();
        for (name, crontab) in [("ageing", &self.settings.ageing), ("prune", &self.settings.prune)] {
            let last_at = match &self.database {
                Some(database) => database.operator.fired_at(name).await?,
                None => None,
            };
            firings.push(Firing {
                name,
                crontab: crontab.as_str().to_owned(),
                last_at,
                next_at: crontab.next_after(now),
            });
        }
        Ok(firings)
    }

    /// Takes the latest firing of `name`. Returns `None` if it was made already, or another daemon has taken it.
    async fn take_due(&self, name: &'static str, crontab: &Crontab) -> Option<Timestamp> {
        let now = self.clock.now();
        let slot = crontab.last_at_or_before(now)?;
        if self.lock_fired().get(name) == Some(&slot) {
            return None;
        }
        match self.count_error(self.store.take_slot(name, slot, now).await) {
            Ok(Slot::Ours) => return Some(slot),
            Ok(Slot::Busy) => {}
            Ok(Slot::Done) => {
                self.lock_fired().insert(name, slot);
            }
            Err(error) => warn!(%error, schedule = name, "schedule.unreadable"),
        }
        None
    }

    /// Records a firing and its result. Doesn't record a failed firing, so that it is made again.
    async fn record_firing(&self, schedule: &'static str, slot: Timestamp, rows: StoreResult<u64>) {
        let recorded = match rows {
            Ok(rows) => {
                info!(schedule, rows, "schedule.fired");
                self.store.finish_slot(schedule, slot, self.clock.now()).await
            }
            Err(error) => Err(error),
        };
        match self.count_error(recorded) {
            Ok(()) => {
                self.lock_fired().insert(schedule, slot);
            }
            Err(error) => warn!(schedule, %error, "schedule.failed"),
        }
    }

    /// Counts an error of the store, and returns the result unchanged.
    fn count_error<T>(&self, result: StoreResult<T>) -> StoreResult<T> {
        result.inspect_err(|error| self.metrics.service.db_failed(error.class()))
    }

    fn lock_fired(&self) -> MutexGuard<'_, BTreeMap<&'static str, Timestamp>> {
        self.fired.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues an update of every document with an item that is too old for its section. Returns how many.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn age(&self) -> StoreResult<u64> {
        let (now, mut queued) = (self.clock.now(), 0);
        loop {
            let step = self.store.enqueue_ageing(now, STEP_ROWS_MAX).await?;
            queued += step;
            self.notices.wake_queue();
            if step < STEP_ROWS_MAX.unsigned_abs() {
                return Ok(queued);
            }
        }
    }

    /// Deletes old rows. Returns how many.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn prune(&self) -> StoreResult<u64> {
        let now = self.clock.now();
        let prune = Prune {
            runs_before: now.plus_ms(-self.settings.runs_keep_days * DAY_MS),
            answers_before: now.plus_ms(-ANSWERS_KEPT_MS),
            versions_keep: self.settings.versions_keep,
            limit: STEP_ROWS_MAX,
        };
        self.store.prune(prune).await
    }

    /// Repairs the queue once: creates missing rows, queues provisional items that may be condensed again, and gives rows that
    /// have been parked for long one more attempt.
    pub async fn reconcile(&self) {
        let now = self.clock.now();
        let pending_before = now.plus_ms(-self.settings.max_wait_ms);
        match self.count_error(self.store.reconcile(pending_before, now).await) {
            Ok(0) => {}
            Ok(rows) => {
                for _ in 0..rows {
                    self.metrics.updates.queued(Reason::Reconcile);
                }
                warn!(rows, "queue.repaired");
                self.notices.wake_queue();
            }
            Err(error) => warn!(%error, "queue.reconcile_failed"),
        }
        match self.count_error(self.store.enqueue_revisits(now, STEP_ROWS_MAX).await) {
            Ok(0) => {}
            Ok(agents) => {
                info!(agents, "queue.revisits");
                self.notices.wake_queue();
            }
            Err(error) => warn!(%error, "queue.revisits_failed"),
        }
        let parked_before = now.plus_ms(-PROBE_AFTER_MS);
        let probed = self.store.probe_parked(parked_before, self.settings.attempts_max, now);
        match self.count_error(probed.await) {
            Ok(0) => {}
            Ok(rows) => {
                info!(rows, "queue.probed");
                self.notices.wake_queue();
            }
            Err(error) => warn!(%error, "queue.probe_failed"),
        }
    }

    /// Samples the pause and the last ageing. Keeps the old values if the database fails, and doesn't report the failure: the
    /// figures that are read next fail, too, and report it.
    async fn sample_operator(&self, operator: &dyn OperatorStore) {
        if let Ok(since) = operator.queue_paused_since().await {
            self.metrics.updates.paused(since.is_some());
        }
        if let Ok(aged_at) = operator.done_at("ageing").await {
            self.metrics.documents.last_aged(aged_at);
        }
    }

    /// Counts a failure of the database, and logs it from time to time.
    fn report_fault(&self, fault: Option<&StoreError>, now: Timestamp) {
        let mut streak = self.failed_samples.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(error) = fault else {
            if let Some(failed_ms) = streak.worked(now.0) {
                info!(failed_ms, "database.well_again");
            }
            return;
        };
        self.metrics.service.db_failed(error.class());
        if let Some(untold) = streak.failed(now.0) {
            error!(%error, untold, "sampler.failed");
        }
    }

    /// Reads the figures and publishes them as metrics; `None` if they can't be read.
    async fn sample(&self) -> Option<metrics::QueueSample> {
        if let Some(database) = &self.database {
            let Connections { idle, in_use, max, timeouts } = (database.connections)();
            let service = &self.metrics.service;
            service.connections(idle.into(), in_use.into(), max.into());
            service.pool_timeouts(timeouts);
            self.sample_operator(database.operator.as_ref()).await;
        }
        let started_at = self.clock.now();
        // A database that accepts no more writes may still be readable.
        let pinged = self.store.ping().await;
        let sampled = self.store.sample(started_at, DAY_MS).await;
        self.report_fault(pinged.as_ref().err().or(sampled.as_ref().err()), started_at);
        let sample = sampled.ok()?;
        let queue_sample = queue_sample(&sample);
        let took = self.clock.now().since_ms(started_at);
        let took = Duration::from_millis(u64::try_from(took).unwrap_or(0));
        self.metrics.queue.sampled(&queue_sample, started_at, took);
        let batches = &sample.batches;
        self.metrics.batches.sampled(
            (batches.intents, batches.submitted),
            (batches.waiting, batches.out),
            batches.oldest_at,
        );
        Some(queue_sample)
    }
}

/// Does `work` now and after each `period`, until `stop`.
async fn every<F: Future<Output = ()>>(period: Duration, stop: &CancellationToken, work: impl Fn() -> F) {
    let mut ticks = tokio::time::interval(period);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        work().await;
    }
}

fn queue_sample(sample: &Sample) -> metrics::QueueSample {
    metrics::QueueSample {
        depth: vec![
            (QueueState::Ready, sample.ready),
            (QueueState::Scheduled, sample.scheduled),
            (QueueState::Running, sample.running),
            (QueueState::Parked, sample.parked),
        ],
        oldest_ready_at: sample.oldest_ready_at,
        oldest_unsummarized_at: sample.oldest_pending_at,
        documents: sample.documents,
        documents_tokens: sample.documents_tokens,
        agents: vec![
            (AgentState::Active, (sample.agents - sample.parked - sample.paused).max(0)),
            (AgentState::Paused, sample.paused),
            (AgentState::Parked, sample.parked),
        ],
    }
}
