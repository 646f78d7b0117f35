//! What happens by the clock: ageing and pruning on cron expressions, the reconciler, and the sampler.
//!
//! Each task takes no input, is woken by time, does what the state demands and returns what it did; the next
//! activation is the retry. A cron firing is a row that one caller can take, so that it happens once, however many
//! daemons run, and a firing missed while nothing ran is made up for at the next look. One that failed, or whose daemon was
//! killed, is taken again after a while: the work may be done twice without harm.

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

/// Rows that one ageing or pruning step touches; the rest follows in the next step.
const STEP_ROWS_MAX: i64 = 1_000;
/// A parked row gets one more try after so long.
const PROBE_AFTER_MS: i64 = 6 * HOUR_MS;
/// How often the cron expressions are looked at.
const CRON_LOOK: Duration = Duration::from_secs(30);
/// While nothing moves, the figures are sampled once in so many periods, and at least once in [`CALM_MAX`].
const CALM_PERIODS: u32 = 6;
/// The alert on a sampler that is stuck fires after five minutes.
const CALM_MAX: Duration = Duration::from_secs(90);

/// When things happen, and how much is kept.
#[derive(Clone, Debug)]
pub struct ScheduleSettings {
    /// When items are aged.
    pub ageing: Crontab,
    /// When old rows are deleted.
    pub prune: Crontab,
    /// Runs older than this are deleted.
    pub runs_keep_days: i64,
    /// So many of the newest versions of each summary are kept.
    pub versions_keep: i64,
    /// Journalled answers older than this are deleted.
    pub journal_keep_hours: i64,
    /// How often the figures are sampled.
    pub sample_ms: u64,
    /// How often missing queue rows are looked for.
    pub reconcile_ms: u64,
    /// Exchanges may wait so long for company.
    pub max_wait_ms: i64,
    /// How often a failing update is tried.
    pub attempts_max: i64,
}

/// The schedules of a daemon.
#[derive(Clone)]
pub struct Schedule {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    notices: Notices,
    metrics: Metrics,
    settings: ScheduleSettings,
    database: Option<SampledDatabase>,
    /// The latest firing of each schedule that is known to be made, by this daemon or another one.
    made: Arc<Mutex<BTreeMap<&'static str, Timestamp>>>,
    /// Samples at which the database wasn't well.
    unwell: Arc<Mutex<FailureStreak>>,
}

/// What the sampler reads beside what stores say.
#[derive(Clone)]
struct SampledDatabase {
    operator: Arc<dyn OperatorStore>,
    connections: Arc<dyn Fn() -> Connections + Send + Sync>,
}

impl Schedule {
    /// Schedules over `store`, not running yet.
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
            made: Arc::default(),
            unwell: Arc::default(),
        }
    }

    /// The same schedules, whose sampler looks at the connections to the database, too, and at what a hand has paused.
    #[must_use]
    pub fn with_database(
        self,
        operator: Arc<dyn OperatorStore>,
        connections: impl Fn() -> Connections + Send + Sync + 'static,
    ) -> Self {
        let database = Some(SampledDatabase {
            operator,
            connections: Arc::new(connections),
        });
        Self { database, ..self }
    }

    /// Fires what is due until `stop`. None of the three waits for another one: a job that is held up by a lock must not
    /// keep the sampler from saying so.
    pub async fn run(&self, stop: CancellationToken) {
        let reconcile = Duration::from_millis(self.settings.reconcile_ms.max(1));
        let sample = Duration::from_millis(self.settings.sample_ms.max(1));
        tokio::join!(
            every(CRON_LOOK, &stop, || self.fire_due()),
            every(reconcile, &stop, || self.reconcile()),
            stop.run_until_cancelled(self.keep_sampling(sample)),
        );
    }

    /// Samples once a period; while nothing moves, once in [`CALM_PERIODS`].
    async fn keep_sampling(&self, period: Duration) {
        let calm = (period * CALM_PERIODS).min(CALM_MAX);
        let mut last = None;
        loop {
            // Armed before the look: what moves during it isn't missed.
            let mut changes = self.notices.moves();
            let mut woken = Box::pin(self.notices.queue_woken());
            woken.as_mut().enable();
            let sample = self.sample().await;
            let is_calm = sample.is_some() && sample == last;
            last = sample;
            if is_calm {
                tokio::select! {
                    // Also an error says that something moved: more than was heard.
                    _ = changes.recv() => {}
                    () = woken => {}
                    () = sleep(calm.saturating_sub(period)) => {}
                }
            }
            // Every append tells who listens: mostly that should be nobody.
            drop(changes);
            sleep(period).await;
        }
    }

    /// Fires what is due and nobody else has fired: the latest firing of each schedule, however many were missed.
    pub async fn fire_due(&self) {
        if let Some(slot) = self.due("ageing", &self.settings.ageing).await {
            let aged = self.age().await;
            let outcome = if aged.is_ok() {
                RunOutcome::Completed
            } else {
                RunOutcome::Failed
            };
            self.metrics.documents.aged(outcome);
            self.fired("ageing", slot, aged).await;
        }
        if let Some(slot) = self.due("prune", &self.settings.prune).await {
            let gone = self.prune().await;
            self.fired("prune", slot, gone).await;
        }
    }

    /// What the schedules did last and do next; nothing of one whose database isn't known.
    ///
    /// # Errors
    /// What the store fails with.
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

    /// The latest firing of `name`, if it is still to be made, and is ours.
    async fn due(&self, name: &'static str, crontab: &Crontab) -> Option<Timestamp> {
        let now = self.clock.now();
        let slot = crontab.last_at_or_before(now)?;
        if self.made().get(name) == Some(&slot) {
            return None;
        }
        match self.counted(self.store.take_slot(name, slot, now).await) {
            Ok(Slot::Ours) => return Some(slot),
            Ok(Slot::Busy) => {}
            Ok(Slot::Done) => {
                self.made().insert(name, slot);
            }
            Err(error) => warn!(%error, schedule = name, "schedule.unreadable"),
        }
        None
    }

    /// Notes that a firing was made, and what it did. One that failed isn't noted, so that it is made again.
    async fn fired(&self, schedule: &'static str, slot: Timestamp, rows: StoreResult<u64>) {
        let noted = match rows {
            Ok(rows) => {
                info!(schedule, rows, "schedule.fired");
                self.store.finish_slot(schedule, slot, self.clock.now()).await
            }
            Err(error) => Err(error),
        };
        match self.counted(noted) {
            Ok(()) => {
                self.made().insert(schedule, slot);
            }
            Err(error) => warn!(schedule, %error, "schedule.failed"),
        }
    }

    /// What the store did, counted if it failed.
    fn counted<T>(&self, done: StoreResult<T>) -> StoreResult<T> {
        done.inspect_err(|error| self.metrics.service.db_failed(error.class()))
    }

    fn made(&self) -> MutexGuard<'_, BTreeMap<&'static str, Timestamp>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the queue for every document of which an item has outgrown its section. Returns how many.
    ///
    /// # Errors
    /// What the store fails with.
    pub async fn age(&self) -> StoreResult<u64> {
        let (now, mut woken) = (self.clock.now(), 0);
        loop {
            let step = self.store.enqueue_ageing(now, STEP_ROWS_MAX).await?;
            woken += step;
            self.notices.wake_queue();
            if step < STEP_ROWS_MAX.unsigned_abs() {
                return Ok(woken);
            }
        }
    }

    /// Deletes what is too old. Returns how many rows.
    ///
    /// # Errors
    /// What the store fails with.
    pub async fn prune(&self) -> StoreResult<u64> {
        let now = self.clock.now();
        let prune = Prune {
            runs_before: now.plus_ms(-self.settings.runs_keep_days * DAY_MS),
            answers_before: now.plus_ms(-self.settings.journal_keep_hours * HOUR_MS),
            versions_keep: self.settings.versions_keep,
            limit: STEP_ROWS_MAX,
        };
        self.store.prune(prune).await
    }

    /// Repairs what is missing in the queue, once.
    pub async fn reconcile(&self) {
        let now = self.clock.now();
        let pending_before = now.plus_ms(-self.settings.max_wait_ms);
        match self.counted(self.store.reconcile(pending_before, now).await) {
            Ok(0) => {}
            Ok(made) => {
                for _ in 0..made {
                    self.metrics.updates.queued(Reason::Reconcile);
                }
                warn!(rows = made, "queue.repaired");
                self.notices.wake_queue();
            }
            Err(error) => warn!(%error, "queue.reconcile_failed"),
        }
        match self.counted(self.store.enqueue_revisits(now, STEP_ROWS_MAX).await) {
            Ok(0) => {}
            Ok(agents) => {
                info!(agents, "queue.revisits");
                self.notices.wake_queue();
            }
            Err(error) => warn!(%error, "queue.revisits_failed"),
        }
        let parked_before = now.plus_ms(-PROBE_AFTER_MS);
        let probed = self
            .store
            .probe_parked(parked_before, self.settings.attempts_max, now);
        match self.counted(probed.await) {
            Ok(0) => {}
            Ok(rows) => {
                info!(rows, "queue.probed");
                self.notices.wake_queue();
            }
            Err(error) => warn!(%error, "queue.probe_failed"),
        }
    }

    /// What can't be read here stays as it was: the figures that are read next can't either, and say so.
    async fn sample_operator(&self, operator: &dyn OperatorStore) {
        if let Ok(since) = operator.queue_paused_since().await {
            self.metrics.updates.paused(since.is_some());
        }
        if let Ok(aged_at) = operator.done_at("ageing").await {
            self.metrics.documents.last_aged(aged_at);
        }
    }

    /// Counts what is the matter with the database, and says so now and then.
    fn tell_fault(&self, fault: Option<&StoreError>, now: Timestamp) {
        let mut spell = self.unwell.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(error) = fault else {
            if let Some(failed_ms) = spell.worked(now.0) {
                info!(failed_ms, "database.well_again");
            }
            return;
        };
        self.metrics.service.db_failed(error.class());
        if let Some(untold) = spell.failed(now.0) {
            error!(%error, untold, "sampler.failed");
        }
    }

    /// Reads the figures and shows them; none if they can't be read.
    async fn sample(&self) -> Option<metrics::QueueSample> {
        if let Some(database) = &self.database {
            let Connections {
                idle,
                in_use,
                max,
                timeouts,
            } = (database.connections)();
            let service = &self.metrics.service;
            service.connections(idle.into(), in_use.into(), max.into());
            service.pool_timeouts(timeouts);
            self.sample_operator(database.operator.as_ref()).await;
        }
        let started_at = self.clock.now();
        // Figures may be read where nothing can be written any more.
        let pinged = self.store.ping().await;
        let sampled = self.store.sample(started_at, DAY_MS).await;
        self.tell_fault(pinged.as_ref().err().or(sampled.as_ref().err()), started_at);
        let sample = sampled.ok()?;
        let figures = figures(&sample);
        let took = self.clock.now().since_ms(started_at);
        let took = Duration::from_millis(u64::try_from(took).unwrap_or(0));
        self.metrics.queue.sampled(&figures, started_at, took);
        let batches = &sample.batches;
        self.metrics.batches.sampled(
            (batches.intents, batches.submitted),
            (batches.waiting, batches.out),
            batches.oldest_at,
        );
        Some(figures)
    }
}

/// Does `work` now and each `period` from now on, until `stop`.
async fn every<F: Future<Output = ()>>(period: Duration, stop: &CancellationToken, work: impl Fn() -> F) {
    let mut ticks = tokio::time::interval(period);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        work().await;
    }
}

/// The sampled gauges.
fn figures(sample: &Sample) -> metrics::QueueSample {
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
            (
                AgentState::Active,
                (sample.agents - sample.parked - sample.paused).max(0),
            ),
            (AgentState::Paused, sample.paused),
            (AgentState::Parked, sample.parked),
        ],
    }
}
