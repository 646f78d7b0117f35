//! The worker: claims due rows, condenses newly evicted exchanges, composes the document, and completes the update.
//!
//! ```text
//! wake ─► claim (no more than there are free places) ─► material ─► model ─► checks ─► compose ─► complete
//!   ▲                                                      │                   │                    │
//!   └── poll, or a notice ◄── release / fail: backoff ◄────┴───────────────────┴── fenced: drop ◄───┘
//! ```
//!
//! An update that has to wait for a rate limit, a circuit breaker or the next day's spending limit gives its lease back until
//! then. Such a wait isn't an attempt. `llm::chain` decides which model is asked when.
//!
//! Invariants: no transaction is open while a model works. Whatever fails, the old summary stays; after the last attempt digests
//! replace the exchanges. A lease is renewed only as long as a worker works on its update.

mod ageing;
mod ask;
mod batch;
mod batch_poller;
mod bisect;
mod call;
mod compact;
mod condense;
mod condensed;
mod error;
mod failure_memory;
mod heartbeat;
mod material;
mod outcome;
mod panicking;
mod postpone;
mod request;
mod resumption;
mod suspect;
mod trace;
mod update;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, atomic::AtomicBool},
    time::Duration,
};

use futures::future::join_all;
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{Instrument as _, error, info, warn};

use crate::call_log::CallLog;
pub use batch::{BatchServices, BatchSettings};
pub use batch_poller::BatchPoller;
use compact::CompactionCooldown;
use failure_memory::FailureMemory;
use heartbeat::Heartbeat;
pub use outcome::Outcome;
use recapd_core::domain::{
    agent::AgentId,
    failure_streak::FailureStreak,
    number::i64_or_max,
    price::Prices,
    prompt::PromptLimits,
    redaction::Redactor,
    spend::DailyLimits,
    summary::compaction::SummaryPolicy,
    time::{CLOCK_JUMP_MS_MIN, Timestamp},
    tokens::TokenCounter,
    work::{Lease, RetryPolicy},
};
use recapd_llm::ChatModel;
use recapd_platform::{clock::Clock, notice::Notices};
use recapd_store::{ClaimRequest, MaterialLimits, Resume, Store, StoreResult, operate::OperatorStore};
use recapd_telemetry::metrics::{
    Metrics,
    labels::{ClaimResult, FailureReason, UpdatePath},
};
pub use resumption::Resumption;
use suspect::{ClaimTurn, LostLeases};

#[derive(Clone, Debug)]
pub struct WorkerSettings {
    /// The name that holds the worker's leases. It stays the same across restarts.
    pub owner: String,
    pub concurrency: usize,
    /// How often the queue is polled if nothing wakes the worker and a row may be due.
    pub poll_ms: u64,
    /// How often the queue is polled while no row is known to become due.
    pub rest_ms: u64,
    /// How long a lease lasts without a heartbeat.
    pub lease_ms: i64,
    pub retry: RetryPolicy,
    /// Limits the exchanges and tokens of one update.
    pub limits: MaterialLimits,
    pub prompt: PromptLimits,
    pub output_tokens_max: i64,
    /// Tokens that a thinking model may write before its answer; they are billed, too.
    pub thinking_reserve_tokens: i64,
    /// The number of pending exchanges that makes an update due at once.
    pub batch_exchanges: i64,
    /// The tokens that these exchanges must also have; 0 means none.
    pub batch_tokens_min: i64,
    /// How long fewer pending exchanges may wait for more.
    pub max_wait_ms: i64,
    pub policy: SummaryPolicy,
    pub spend: DailyLimits,
    pub prices: Prices,
    /// True if a model compacts documents that have become too big.
    pub compact_by_model: bool,
    /// Seeds jitter and the nonces that fence prompts. A daemon's seed must be unguessable.
    pub seed: u64,
}

#[derive(Clone)]
pub struct WorkerParts {
    pub store: Arc<dyn Store>,
    /// The model that writes items, with its fallbacks.
    pub model: Arc<dyn ChatModel>,
    /// Counts tokens of documents, in the encoding that defines their ceiling, and of prompts.
    pub counter: Arc<dyn TokenCounter>,
    pub clock: Arc<dyn Clock>,
    /// Wakes the worker, and carries its notices of changed summaries.
    pub notices: Notices,
    pub metrics: Metrics,
    /// Removes secrets from what a model reads and answers.
    pub redactor: Redactor,
    pub calls: Arc<CallLog>,
}

/// A lease in progress, and the tokens that end its wait for a model.
struct LeaseGuard {
    lease: Lease,
    /// Cancelled when the lease is lost.
    lease_lost: CancellationToken,
    /// Cancelled when the daemon stops without waiting for answers.
    hard: CancellationToken,
    heartbeat: Arc<Heartbeat>,
}

impl Drop for LeaseGuard {
    /// Stops the renewal of the lease, however the work ended (perhaps by a panic, or because its future was dropped).
    fn drop(&mut self) {
        self.heartbeat.remove(&self.lease);
    }
}

/// Why the wait for a model's answer ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interruption {
    /// The lease was lost: another worker may have taken over the row.
    Lost,
    /// The daemon stops without waiting for the answer.
    Stopped,
}

impl LeaseGuard {
    async fn interrupted(&self) -> Interruption {
        tokio::select! {
            biased;
            () = self.lease_lost.cancelled() => Interruption::Lost,
            () = self.hard.cancelled() => Interruption::Stopped,
        }
    }
}

#[derive(Clone)]
pub struct Worker {
    parts: WorkerParts,
    settings: Arc<WorkerSettings>,
    heartbeat: Arc<Heartbeat>,
    random: Arc<Mutex<fastrand::Rng>>,
    /// True if the built-in summariser has replaced a failing model since a model last answered.
    owes_revisits: Arc<AtomicBool>,
    /// Models whose unknown price was logged as a warning already.
    unpriced: Arc<Mutex<BTreeSet<String>>>,
    batching: Option<BatchServices>,
    compaction_cooldown: Arc<CompactionCooldown>,
    failure_memory: Arc<FailureMemory>,
    /// Lost leases that the database must still learn of.
    lost_leases: Arc<LostLeases>,
    /// The wall clock's time when the worker last read it, to notice that the clock was set back.
    last_now: Arc<Mutex<Option<Timestamp>>>,
    /// The current streak of failed polls of the queue.
    failed_polls: Arc<Mutex<FailureStreak>>,
}

impl Worker {
    pub fn new(parts: WorkerParts, settings: WorkerSettings) -> Self {
        let random = Arc::new(Mutex::new(fastrand::Rng::with_seed(settings.seed)));
        let heartbeat = Arc::new(Heartbeat::new(settings.lease_ms));
        Self {
            parts,
            settings: Arc::new(settings),
            heartbeat,
            random,
            owes_revisits: Arc::default(),
            unpriced: Arc::default(),
            batching: None,
            compaction_cooldown: Arc::default(),
            failure_memory: Arc::default(),
            lost_leases: Arc::default(),
            last_now: Arc::default(),
            failed_polls: Arc::default(),
        }
    }

    #[must_use]
    pub fn with_batches(self, batching: BatchServices) -> Self {
        let batching = Some(batching);
        Self { batching, ..self }
    }

    /// Returns the poller that sends the worker's batches and fetches their answers, if it uses batches.
    pub fn batch_poller(&self) -> Option<BatchPoller> {
        let batching = self.batching.clone()?;
        Some(BatchPoller::new(self.parts.clone(), batching, self.settings.prices.clone(), self.settings.seed))
    }

    /// Returns the resumption of updates that wait since the time of an earlier worker: it makes them due again, because limits,
    /// models or keys may have changed.
    pub fn resumption(&self, which: Resume) -> Resumption {
        let resumption = Resumption::new(self.parts.clone(), which);
        resumption.owe();
        resumption
    }

    /// Works until `soft` is cancelled. Then it claims nothing new, and returns when its updates are finished. Cancelling `hard`
    /// makes updates that wait for a model give their leases back.
    pub async fn run(&self, soft: CancellationToken, hard: CancellationToken) {
        let (updates, beating) = (TaskTracker::new(), TaskTracker::new());
        let stop_beating = CancellationToken::new();
        beating.spawn({
            let (worker, stop) = (self.clone(), stop_beating.clone());
            async move { worker.heartbeat.run(&worker.parts, stop).await }
        });
        self.claim_until(&soft, &hard, &updates).await;
        // The heartbeat continues until the last updates have finished.
        updates.close();
        updates.wait().await;
        self.disclaim().await;
        stop_beating.cancel();
    }

    async fn claim_until(&self, soft: &CancellationToken, hard: &CancellationToken, updates: &TaskTracker) {
        let permits = Arc::new(Semaphore::new(self.settings.concurrency));
        // True if the last poll found nothing, and nothing has woken the worker since.
        let mut is_quiet = false;
        // True while a row that must run alone waits until all other work is done.
        let mut awaits_idle = false;
        while !soft.is_cancelled() {
            // Enabled before the claim, so that no wake-up between the claim and the wait is lost.
            let mut woken = Box::pin(self.parts.notices.queue_woken());
            woken.as_mut().enable();
            self.watch_for_clock_jump().await;
            let free_permits = permits.available_permits();
            let is_idle = free_permits == self.settings.concurrency;
            awaits_idle &= !is_idle;
            let leases = if free_permits > 0 && !awaits_idle {
                self.claim_or_warn(free_permits).await
            } else {
                Vec::new()
            };
            self.parts.notices.progress().record_poll();
            let found_all = leases.len() < free_permits;
            is_quiet &= free_permits > 0 && leases.is_empty();
            let turn = self.turn(leases, is_idle).await;
            awaits_idle |= matches!(turn, ClaimTurn::ThenIdle(_));
            let (leases, permits_each) = match turn {
                ClaimTurn::Together(leases) | ClaimTurn::ThenIdle(leases) => (leases, 1),
                ClaimTurn::Alone(lease) => {
                    (vec![lease], u32::try_from(self.settings.concurrency).unwrap_or(u32::MAX))
                }
            };
            for lease in leases {
                let Ok(permit) = Arc::clone(&permits).try_acquire_many_owned(permits_each) else {
                    break;
                };
                let (worker, hard) = (self.clone(), hard.clone());
                updates.spawn(async move {
                    worker.work(lease, &hard).await;
                    drop(permit);
                    worker.parts.notices.wake_queue();
                });
            }
            if found_all || free_permits == 0 {
                let rest = self.rest(is_quiet).await;
                is_quiet = tokio::select! {
                    () = woken => false,
                    () = tokio::time::sleep(rest) => true,
                    () = soft.cancelled() => false,
                };
            }
        }
    }

    /// Returns how long to wait before the next poll of the queue if nothing wakes the worker. This is one poll interval. After a
    /// poll that found nothing, it is the time until the next row is due, but at most `rest_ms`.
    async fn rest(&self, is_quiet: bool) -> Duration {
        let poll = self.poll_wait();
        let hears_all = self.parts.notices.contact().lost_since().is_none();
        if !(is_quiet && hears_all) {
            return poll;
        }
        let rest_max = Duration::from_millis(self.settings.rest_ms).max(poll);
        let rest = match self.parts.store.next_due_ms(self.parts.clock.now()).await {
            // The database's clock is finer than a millisecond.
            Ok(Some(due_ms)) if due_ms > 0 => span(due_ms + 1).min(rest_max),
            Ok(None) => rest_max,
            // The next claim meets the same error and reports it.
            Ok(Some(_)) | Err(_) => return poll,
        };
        self.parts.notices.progress().rests_for(rest);
        rest
    }

    /// Claims and carries out updates until none is due. Returns how each of them ended.
    ///
    /// # Errors
    /// When the queue can't be read.
    pub async fn drain(&self) -> StoreResult<Vec<Outcome>> {
        let never = CancellationToken::new();
        let working = async {
            let mut outcomes = Vec::new();
            loop {
                let leases = self.claim(self.settings.concurrency).await?;
                if leases.is_empty() {
                    return Ok(outcomes);
                }
                let leases = match self.turn(leases, true).await {
                    ClaimTurn::Together(leases) | ClaimTurn::ThenIdle(leases) => leases,
                    ClaimTurn::Alone(lease) => vec![lease],
                };
                outcomes.extend(join_all(leases.into_iter().map(|lease| self.work(lease, &never))).await);
            }
        };
        tokio::select! {
            outcomes = working => outcomes,
            () = self.heartbeat.run(&self.parts, never.clone()) => Ok(Vec::new()),
        }
    }

    /// Works like [`Self::drain`] for one agent, and doesn't touch other rows of the queue. `queue` must be the same database.
    ///
    /// # Errors
    /// When the queue can't be read.
    pub async fn drain_one(&self, agent: &AgentId, queue: &dyn OperatorStore) -> StoreResult<Vec<Outcome>> {
        let never = CancellationToken::new();
        let working = async {
            let mut outcomes = Vec::new();
            while let Some(lease) = queue.claim_one(agent, self.claim_request(1)).await? {
                outcomes.push(self.work(lease, &never).await);
            }
            Ok(outcomes)
        };
        tokio::select! {
            outcomes = working => outcomes,
            () = self.heartbeat.run(&self.parts, never.clone()) => Ok(Vec::new()),
        }
    }

    fn claim_request(&self, limit: usize) -> ClaimRequest {
        ClaimRequest {
            owner: self.settings.owner.clone(),
            limit: i64_or_max(limit),
            lease_ms: self.settings.lease_ms,
            now: self.parts.clock.now(),
        }
    }

    /// Claims at most `limit` due rows: a step of [`Self::run`].
    ///
    /// # Errors
    /// When the queue can't be read.
    pub async fn claim(&self, limit: usize) -> StoreResult<Vec<Lease>> {
        self.disclaim().await;
        let request = self.claim_request(limit);
        let now = request.now;
        let leases = self.parts.store.claim(request).await;
        let result = match &leases {
            Ok(leases) if leases.is_empty() => ClaimResult::Empty,
            Ok(_) => ClaimResult::Found,
            Err(_) => ClaimResult::Failed,
        };
        self.parts.metrics.queue.looked(result, self.parts.clock.now());
        let leases = leases?;
        for lease in &leases {
            self.parts.notices.agent_moved(&lease.agent);
            self.parts.metrics.queue.waited(span(now.since_ms(lease.ready_at)));
        }
        let expired = leases.iter().filter(|lease| lease.taken_over).count();
        self.parts.metrics.queue.leases_expired(i64_or_max(expired));
        Ok(leases)
    }

    /// If the wall clock was set back, moves the times of waiting rows back by as much. Otherwise they would wait until the clock
    /// caught up.
    async fn watch_for_clock_jump(&self) {
        let now = self.parts.clock.now();
        let before = self.lock_last_now().replace(now);
        // How far the clock was set back; negative if time passed as usual.
        let ahead_ms = before.map_or(0, |before| before.since_ms(now));
        if ahead_ms >= CLOCK_JUMP_MS_MIN {
            self.set_back(ahead_ms, now, before).await;
        }
        // By the new time the worker's own leases may seem to have expired, so they are renewed before anything is claimed.
        if ahead_ms >= CLOCK_JUMP_MS_MIN || -ahead_ms >= self.settings.lease_ms / 2 {
            self.beat().await;
        }
    }

    async fn set_back(&self, ahead_ms: i64, now: Timestamp, before: Option<Timestamp>) {
        match self.parts.store.set_back(Some(ahead_ms), now).await {
            Ok(rows) => warn!(ahead_ms, rows, "clock.set_back"),
            Err(error) => {
                self.parts.metrics.service.db_failed(error.class());
                warn!(ahead_ms, %error, "clock.set_back_unheeded");
                *self.lock_last_now() = before;
            }
        }
    }

    fn lock_last_now(&self) -> std::sync::MutexGuard<'_, Option<Timestamp>> {
        self.last_now.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    async fn claim_or_warn(&self, limit: usize) -> Vec<Lease> {
        let result = self.claim(limit).await;
        let now_ms = self.parts.clock.now().0;
        let mut streak = self.failed_polls.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match result {
            Ok(leases) => {
                if let Some(failed_ms) = streak.worked(now_ms) {
                    info!(failed_ms, "queue.readable_again");
                }
                leases
            }
            Err(error) => {
                self.parts.metrics.service.db_failed(error.class());
                if let Some(untold) = streak.failed(now_ms) {
                    warn!(%error, untold, "queue.unreadable");
                }
                Vec::new()
            }
        }
    }

    /// Carries out the update of one lease, with a heartbeat. If the lease is lost or the daemon stops, this ends only the wait
    /// for a model; a write that has begun is finished.
    pub async fn work(&self, lease: Lease, hard: &CancellationToken) -> Outcome {
        let guard = LeaseGuard {
            lease_lost: self.heartbeat.add(&lease),
            hard: hard.clone(),
            heartbeat: Arc::clone(&self.heartbeat),
            lease,
        };
        let started_at = self.parts.clock.now();
        let in_progress = self.parts.metrics.updates.start();
        let traced = trace::update(&guard.lease);
        let outcome = self.update(&guard).instrument(traced.clone()).await;
        traced.record("recapd.outcome", outcome.name());
        drop(traced);
        self.parts.notices.agent_moved(&guard.lease.agent);
        drop((guard, in_progress));
        if let Some(label) = outcome.label().filter(|_| !outcome.has_written()) {
            let took = span(self.parts.clock.now().since_ms(started_at));
            self.parts.metrics.updates.finished(label, UpdatePath::None, 0, took);
        }
        outcome
    }

    /// Renews the held leases once: a step of [`Self::run`].
    pub async fn beat(&self) {
        self.heartbeat.beat(&self.parts).await;
    }

    async fn give_back(&self, lease: &Lease) -> Outcome {
        self.heartbeat.remove(lease);
        if let Err(error) =
            self.parts.store.release(std::slice::from_ref(lease), self.parts.clock.now()).await
        {
            self.parts.metrics.service.db_failed(error.class());
            error!(%error, agent_id = %lease.agent, "lease.release_failed");
            self.lost_leases.add(lease);
        }
        Outcome::Released
    }

    /// Returns the time to the next poll, with a jitter of a tenth, so that many daemons don't poll at the same time.
    fn poll_wait(&self) -> Duration {
        let poll_ms = self.settings.poll_ms;
        Duration::from_millis(poll_ms * 9 / 10 + self.draw(|random| random.u64(0..=poll_ms / 5)))
    }

    fn draw<T>(&self, from: impl FnOnce(&mut fastrand::Rng) -> T) -> T {
        let mut random = self.random.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        from(&mut random)
    }
}

/// Converts milliseconds to a duration. Negative ones, after a clock ran backwards, become zero.
fn span(span_ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(span_ms).unwrap_or(0))
}

fn reason(class: &str) -> FailureReason {
    FailureReason::from_name(class).unwrap_or(FailureReason::Internal)
}
