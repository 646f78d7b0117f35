//! The worker: wakes, claims what is due, condenses the newly evicted exchanges, composes the document, completes.
//!
//! ```text
//! wake ─► claim (no more than there are free places) ─► material ─► model ─► checks ─► compose ─► complete
//!   ▲                                                      │                   │                    │
//!   └── poll, or a notice ◄── release / fail: backoff ◄────┴───────────────────┴── fenced: drop ◄───┘
//! ```
//!
//! Who has to wait for a provider's limits, for its rest, or for the next day, gives its lease back until then: no lease
//! is held for that, and no attempt burnt. Why who is asked stands in `llm::chain`.
//!
//! Invariant: no transaction is open while a model thinks.
//! Invariant: whatever fails, the old summary stays; after the last attempt digests stand for the exchanges.
//! Invariant: a lease is renewed as long as somebody works on it, and no longer.

mod ask;
mod batch;
mod compact;
mod condense;
mod courier;
mod heartbeat;
mod panicking;
mod pieces;
mod portion;
mod postpone;
mod resumption;
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

use crate::{
    clock::Clock,
    domain::{
        agent::AgentId,
        price::Prices,
        prompt::PromptLimits,
        redaction::Redactor,
        spell::Spell,
        spend::DailyLimits,
        summary::compaction::SummaryPolicy,
        time::{SETBACK_MS_MIN, Timestamp},
        tokens::TokenCounter,
        transcript::TranscriptLimits,
        work::{Lease, RetryPolicy},
    },
    llm::ChatModel,
    notice::Notices,
    store::{ClaimRequest, MaterialLimits, Store, StoreResult, operate::OperatorStore},
    telemetry::metrics::{
        Metrics,
        labels::{ClaimResult, FailureReason, UpdatePath},
    },
};
pub use batch::{BatchSettings, Batching};
use compact::InVain;
pub use courier::Courier;
use heartbeat::Heartbeat;
use portion::Portions;
pub use resumption::Resumption;
pub use update::Outcome;

/// How the worker works.
#[derive(Clone, Debug)]
pub struct WorkerSettings {
    /// The name under which it holds leases: the same over restarts.
    pub owner: String,
    /// Updates at the same time.
    pub concurrency: usize,
    /// How often the queue is looked at when nothing wakes it and something may be due.
    pub poll_ms: u64,
    /// How often it is looked at when, as far as is known, nothing is due.
    pub rest_ms: u64,
    /// How long a lease lasts without a heartbeat.
    pub lease_ms: i64,
    /// When a failed update is tried again.
    pub retry: RetryPolicy,
    /// How much one update takes in.
    pub limits: MaterialLimits,
    /// How much of each text a model sees.
    pub transcript: TranscriptLimits,
    /// How much material one prompt holds.
    pub prompt: PromptLimits,
    /// The most tokens an answer may have.
    pub output_tokens_max: i64,
    /// How many more a model that thinks may write before it: they are billed, too.
    pub thinking_reserve_tokens: i64,
    /// So many pending exchanges are worth an update at once.
    pub batch_exchanges: i64,
    /// How long fewer may wait for company.
    pub max_wait_ms: i64,
    /// What the document may hold.
    pub policy: SummaryPolicy,
    /// What models may cost in a day.
    pub spend: DailyLimits,
    /// What models cost.
    pub prices: Prices,
    /// Whether a model compacts documents that grew too big.
    pub compact_by_model: bool,
    /// Seeds jitter, and the nonces of prompts' fences: of a daemon nobody may guess it.
    pub seed: u64,
}

/// What a worker works with.
#[derive(Clone)]
pub struct WorkerParts {
    /// Where the work is.
    pub store: Arc<dyn Store>,
    /// Who condenses.
    pub model: Arc<dyn ChatModel>,
    /// Counts the document, in the encoding that its ceiling is defined in.
    pub counter: Arc<dyn TokenCounter>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Wakes the worker, and learns from it which summaries changed.
    pub notices: Notices,
    /// What is counted.
    pub metrics: Metrics,
    /// Takes secrets out of what a model reads, and of what it answers.
    pub redactor: Redactor,
}

/// A lease in hand, and what ends its holder's waiting.
struct Hold {
    lease: Lease,
    lost: CancellationToken,
    hard: CancellationToken,
    heartbeat: Arc<Heartbeat>,
}

impl Drop for Hold {
    /// However the work ended, by a panic or because nobody waits for it any more: its lease is to run out.
    fn drop(&mut self) {
        self.heartbeat.remove(&self.lease);
    }
}

/// Why a model is waited for no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interruption {
    /// The lease is somebody else's by now.
    Lost,
    /// The daemon stops, and can't wait.
    Stopped,
}

impl Hold {
    async fn interrupted(&self) -> Interruption {
        tokio::select! {
            biased;
            () = self.lost.cancelled() => Interruption::Lost,
            () = self.hard.cancelled() => Interruption::Stopped,
        }
    }
}

/// The worker. Clones share their leases.
#[derive(Clone)]
pub struct Worker {
    parts: WorkerParts,
    settings: Arc<WorkerSettings>,
    heartbeat: Arc<Heartbeat>,
    random: Arc<Mutex<fastrand::Rng>>,
    /// The built-in summariser stood in for a model since one answered last.
    owes_revisits: Arc<AtomicBool>,
    /// Models of which it was said that their price isn't known.
    unpriced: Arc<Mutex<BTreeSet<String>>>,
    batching: Option<Batching>,
    in_vain: Arc<InVain>,
    portions: Arc<Portions>,
    /// What the clock showed when the queue was looked at last.
    seen: Arc<Mutex<Option<Timestamp>>>,
    /// Looks at the queue that fail.
    unreadable: Arc<Mutex<Spell>>,
}

impl Worker {
    /// A worker that isn't running yet.
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
            in_vain: Arc::default(),
            portions: Arc::default(),
            seen: Arc::default(),
            unreadable: Arc::default(),
        }
    }

    /// The same worker, which puts what may wait into batches.
    #[must_use]
    pub fn with_batches(self, batching: Batching) -> Self {
        let batching = Some(batching);
        Self { batching, ..self }
    }

    /// Who carries its batches to the provider and the answers back, if it has any.
    pub fn courier(&self) -> Option<Courier> {
        let batching = self.batching.clone()?;
        Some(Courier::new(
            self.parts.clone(),
            batching,
            self.settings.prices.clone(),
            self.settings.seed,
        ))
    }

    /// What resumes the updates that wait for a limit of the worker before this one: its own may be another one.
    pub fn resumption(&self) -> Resumption {
        let resumption = Resumption::new(self.parts.clone());
        resumption.owe();
        resumption
    }

    /// Works until `soft` stops it: then nothing new is claimed, and it returns when what it holds is finished, or
    /// given back because `hard` was called.
    pub async fn run(&self, soft: CancellationToken, hard: CancellationToken) {
        let (updates, beating) = (TaskTracker::new(), TaskTracker::new());
        let stop_beating = CancellationToken::new();
        beating.spawn({
            let (worker, stop) = (self.clone(), stop_beating.clone());
            async move { worker.heartbeat.run(&worker.parts, stop).await }
        });
        self.claim_until(&soft, &hard, &updates).await;
        // The heartbeat goes on while the last updates finish.
        updates.close();
        updates.wait().await;
        stop_beating.cancel();
    }

    async fn claim_until(&self, soft: &CancellationToken, hard: &CancellationToken, updates: &TaskTracker) {
        let places = Arc::new(Semaphore::new(self.settings.concurrency));
        let mut is_quiet = false;
        while !soft.is_cancelled() {
            // Armed before the look, so that a wake-up between the look and the wait isn't lost.
            let mut woken = Box::pin(self.parts.notices.queue_woken());
            woken.as_mut().enable();
            self.mind_clock().await;
            let free = places.available_permits();
            let leases = if free > 0 {
                self.claim_or_warn(free).await
            } else {
                Vec::new()
            };
            self.parts.notices.progress().made();
            let found_all = leases.len() < free;
            is_quiet &= free > 0 && leases.is_empty();
            for lease in leases {
                let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                    break;
                };
                let (worker, hard) = (self.clone(), hard.clone());
                updates.spawn(async move {
                    worker.work(lease, &hard).await;
                    drop(place);
                    worker.parts.notices.wake_queue();
                });
            }
            if found_all || free == 0 {
                let rest = self.rest(is_quiet).await;
                is_quiet = tokio::select! {
                    () = woken => false,
                    () = tokio::time::sleep(rest) => true,
                    () = soft.cancelled() => false,
                };
            }
        }
    }

    /// How long the queue needn't be looked at if nothing wakes it: a poll; and where nothing was found after one, until
    /// something falls due, but not for ever.
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
            // The next claim meets the same error, and tells it.
            Ok(Some(_)) | Err(_) => return poll,
        };
        self.parts.notices.progress().rests_for(rest);
        rest
    }

    /// Works off what is due now and returns how many updates that took.
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
                outcomes.extend(join_all(leases.into_iter().map(|lease| self.work(lease, &never))).await);
            }
        };
        tokio::select! {
            outcomes = working => outcomes,
            () = self.heartbeat.run(&self.parts, never.clone()) => Ok(Vec::new()),
        }
    }

    /// As [`Self::drain`], of one agent: nothing else of the queue is touched. `queue` is that of the same database.
    ///
    /// # Errors
    /// When the queue can't be read.
    pub async fn drain_one(&self, agent: &AgentId, queue: &dyn OperatorStore) -> StoreResult<Vec<Outcome>> {
        let never = CancellationToken::new();
        let working = async {
            let mut outcomes = Vec::new();
            while let Some(lease) = queue.claim_one(agent, self.claim_of(1)).await? {
                outcomes.push(self.work(lease, &never).await);
            }
            Ok(outcomes)
        };
        tokio::select! {
            outcomes = working => outcomes,
            () = self.heartbeat.run(&self.parts, never.clone()) => Ok(Vec::new()),
        }
    }

    fn claim_of(&self, limit: usize) -> ClaimRequest {
        ClaimRequest {
            owner: self.settings.owner.clone(),
            limit: i64::try_from(limit).unwrap_or(i64::MAX),
            lease_ms: self.settings.lease_ms,
            now: self.parts.clock.now(),
        }
    }

    /// Leases what is due, at most `limit` rows: a step of [`Self::run`].
    ///
    /// # Errors
    /// When the queue can't be read.
    pub(crate) async fn claim(&self, limit: usize) -> StoreResult<Vec<Lease>> {
        let request = self.claim_of(limit);
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
            self.parts
                .metrics
                .queue
                .waited(span(now.since_ms(lease.ready_at)));
        }
        let expired = leases.iter().filter(|lease| lease.taken_over).count();
        self.parts
            .metrics
            .queue
            .leases_expired(i64::try_from(expired).unwrap_or(i64::MAX));
        Ok(leases)
    }

    /// Sees when the clock jumped. What a time that was ahead has put off would wait until the clock is there again.
    async fn mind_clock(&self) {
        let now = self.parts.clock.now();
        let before = self.last_seen().replace(now);
        let ahead_ms = before.map_or(0, |before| before.since_ms(now));
        if ahead_ms >= SETBACK_MS_MIN {
            self.set_back(ahead_ms, now, before).await;
        }
        // By the new time its own leases may seem to have run out: they are prolonged before anything is claimed.
        if ahead_ms >= SETBACK_MS_MIN || -ahead_ms >= self.settings.lease_ms / 2 {
            self.beat().await;
        }
    }

    async fn set_back(&self, ahead_ms: i64, now: Timestamp, before: Option<Timestamp>) {
        match self.parts.store.set_back(Some(ahead_ms), now).await {
            Ok(rows) => warn!(ahead_ms, rows, "clock.set_back"),
            Err(error) => {
                warn!(ahead_ms, %error, "clock.set_back_unheeded");
                *self.last_seen() = before;
            }
        }
    }

    fn last_seen(&self) -> std::sync::MutexGuard<'_, Option<Timestamp>> {
        self.seen
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    async fn claim_or_warn(&self, limit: usize) -> Vec<Lease> {
        let claimed = self.claim(limit).await;
        let now_ms = self.parts.clock.now().0;
        let mut spell = self
            .unreadable
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        match claimed {
            Ok(leases) => {
                if let Some(failed_ms) = spell.worked(now_ms) {
                    info!(failed_ms, "queue.readable_again");
                }
                leases
            }
            Err(error) => {
                self.parts.metrics.service.db_failed(error.class());
                if let Some(untold) = spell.failed(now_ms) {
                    warn!(%error, untold, "queue.unreadable");
                }
                Vec::new()
            }
        }
    }

    /// Carries out one lease, with a heartbeat. Only waiting for a model is cut short when the lease is lost or the
    /// daemon stops; a write that has begun is seen through.
    pub(crate) async fn work(&self, lease: Lease, hard: &CancellationToken) -> Outcome {
        let hold = Hold {
            lost: self.heartbeat.add(&lease),
            hard: hard.clone(),
            heartbeat: Arc::clone(&self.heartbeat),
            lease,
        };
        let started_at = self.parts.clock.now();
        let in_progress = self.parts.metrics.updates.start();
        let traced = trace::update(&hold.lease);
        let outcome = self.update(&hold).instrument(traced.clone()).await;
        traced.record("recapd.outcome", outcome.name());
        drop(traced);
        self.parts.notices.agent_moved(&hold.lease.agent);
        drop((hold, in_progress));
        if let Some(label) = outcome.label().filter(|_| !outcome.has_written()) {
            let took = span(self.parts.clock.now().since_ms(started_at));
            self.parts
                .metrics
                .updates
                .finished(label, UpdatePath::None, 0, took);
        }
        outcome
    }

    /// Renews what is held, once: a step of [`Self::run`].
    pub(crate) async fn beat(&self) {
        self.heartbeat.beat(&self.parts).await;
    }

    async fn give_back(&self, lease: &Lease) -> Outcome {
        self.heartbeat.remove(lease);
        if let Err(error) = self
            .parts
            .store
            .release(std::slice::from_ref(lease), self.parts.clock.now())
            .await
        {
            error!(%error, agent_id = %lease.agent, "lease.release_failed");
        }
        Outcome::Released
    }

    /// A tenth of jitter keeps many daemons from polling in step.
    fn poll_wait(&self) -> Duration {
        let poll_ms = self.settings.poll_ms;
        Duration::from_millis(poll_ms * 9 / 10 + self.draw(|random| random.u64(0..=poll_ms / 5)))
    }

    fn draw<T>(&self, from: impl FnOnce(&mut fastrand::Rng) -> T) -> T {
        let mut random = self
            .random
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        from(&mut random)
    }
}

/// A duration by the clock. One that ran backwards took no time.
fn span(span_ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(span_ms).unwrap_or(0))
}

/// The metrics' name for why an update failed.
fn reason(class: &str) -> FailureReason {
    FailureReason::from_name(class).unwrap_or(FailureReason::Internal)
}
