//! A simulated daemon: the real ingestor, worker and schedule over the simulated store, driven step by step.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll, Wake, Waker},
};

use tokio_util::sync::CancellationToken;

use super::{
    course::Course,
    store::SimulatedStore,
    thinker::Thinker,
    world::{SimulatedTask, SkewedClock, World},
};
use recapd_core::domain::{price::Prices, prompt::PromptLimits, spend::DailyLimits, time::Timestamp};
use recapd_engine::{
    ingest::Ingestor,
    schedule::{Schedule, ScheduleSettings},
    worker::{Worker, WorkerParts, WorkerSettings},
};
use recapd_llm::ChatModel;
use recapd_platform::{clock::Clock, crontab::Crontab, notice::Notices};
use recapd_store::{MaterialLimits, Store};
use recapd_telemetry::metrics::Metrics;

/// Objects that all daemons share because they are slow to create, and that the simulation ignores.
#[derive(Clone)]
pub(super) struct Surroundings {
    pub(super) notices: Notices,
    pub(super) metrics: Metrics,
    /// Required by the schedule, but not used here.
    pub(super) crontab: Crontab,
}

pub(super) struct SimulatedDaemon {
    number: usize,
    pub(super) clock: Arc<SkewedClock>,
    pub(super) ingestor: Ingestor,
    worker: Worker,
    schedule: Schedule,
    store: Arc<dyn Store>,
    /// Cancelled when the daemon stops and can't wait for models.
    pub(super) stop: CancellationToken,
    pub(super) actors: Vec<Actor>,
}

pub(super) struct Actor {
    life: SimulatedTask,
    /// When it wants to continue; `None` if another event must come first.
    pub(super) wait: Option<Timestamp>,
    woken: Arc<Woken>,
}

/// Set when an event that an actor waits for has happened.
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Relaxed);
    }
}

impl Actor {
    pub(super) fn new(life: SimulatedTask) -> Self {
        Self { life, wait: None, woken: Arc::new(Woken(AtomicBool::new(true))) }
    }

    pub(super) fn may_go_on(&self, now: Timestamp) -> bool {
        self.woken.0.load(Relaxed) || self.wait.is_some_and(|until| until <= now)
    }

    /// Runs until the next point at which others may run first. Returns true if it is done.
    pub(super) fn go_on(&mut self, world: &World) -> bool {
        self.woken.0.store(false, Relaxed);
        world.inner().wait = None;
        let waker = Waker::from(Arc::clone(&self.woken));
        let is_done = self.life.as_mut().poll(&mut Context::from_waker(&waker)) == Poll::Ready(());
        self.wait = world.inner().wait.take();
        is_done
    }
}

impl SimulatedDaemon {
    /// Starts a daemon, for the first time or again.
    pub(super) fn start(
        world: &Arc<World>,
        number: usize,
        clock: Arc<SkewedClock>,
        course: &Course,
        surroundings: &Surroundings,
    ) -> Self {
        let store: Arc<dyn Store> = Arc::new(SimulatedStore { world: Arc::clone(world), daemon: number });
        let model: Arc<dyn ChatModel> = Arc::new(Thinker { world: Arc::clone(world) });
        let time: Arc<dyn Clock> = Arc::<SkewedClock>::clone(&clock);
        let Surroundings { notices, metrics, crontab } = surroundings.clone();
        let ingestor = Ingestor::new(
            Arc::clone(&store),
            Arc::clone(&course.counter),
            Arc::clone(&time),
            course.rules,
            notices.clone(),
            metrics.clone(),
        );
        let parts = WorkerParts {
            store: Arc::clone(&store),
            model,
            counter: Arc::clone(&course.counter),
            clock: Arc::clone(&time),
            notices: notices.clone(),
            metrics: metrics.clone(),
            redactor: course.redactor.clone(),
            calls: Arc::default(),
        };
        let seed = world.draw(|random| random.u64(..));
        let worker = Worker::new(parts, worker_settings(course, number, seed));
        let schedule =
            Schedule::new(Arc::clone(&store), time, notices, metrics, schedule_settings(course, crontab));
        let mut daemon = Self {
            number,
            clock,
            ingestor: ingestor.redacting(course.redactor.clone()),
            worker,
            schedule,
            store,
            stop: CancellationToken::new(),
            actors: Vec::new(),
        };
        daemon.set_off(world, course);
        daemon
    }

    pub(super) fn begin(&mut self, life: SimulatedTask) {
        self.actors.push(Actor::new(life));
    }

    /// Starts the tasks that run throughout a daemon's life.
    fn set_off(&mut self, world: &Arc<World>, course: &Course) {
        self.claiming(world, course);
        let (own, worker, beat_ms) = (Arc::clone(world), self.worker.clone(), course.lease_ms / 4);
        self.begin(Box::pin(async move {
            loop {
                own.pause(beat_ms).await;
                worker.beat().await;
            }
        }));
        let (own, schedule, reconcile_ms) = (Arc::clone(world), self.schedule.clone(), course.reconcile_ms);
        self.begin(Box::pin(async move {
            loop {
                own.pause(reconcile_ms).await;
                schedule.reconcile().await;
                // The next run makes up for a failure.
                drop(schedule.age().await);
            }
        }));
    }

    /// Takes its leases back, then claims due rows and starts their updates.
    fn claiming(&mut self, world: &Arc<World>, course: &Course) {
        let (own, worker, stop) = (Arc::clone(world), self.worker.clone(), self.stop.clone());
        let (store, clock) = (Arc::clone(&self.store), Arc::clone(&self.clock));
        let (number, poll_ms, places) = (self.number, course.poll_ms, course.concurrency);
        self.begin(Box::pin(async move {
            drop(store.reclaim(&owner(number), clock.now()).await);
            let held = Arc::new(());
            while !stop.is_cancelled() {
                let free = (places + 1).saturating_sub(Arc::strong_count(&held));
                let leases = if free > 0 { worker.claim(free).await } else { Ok(Vec::new()) };
                for lease in leases.unwrap_or_default() {
                    let (worker, stop, place) = (worker.clone(), stop.clone(), Arc::clone(&held));
                    own.begin(
                        number,
                        Box::pin(async move {
                            worker.work(lease, &stop).await;
                            drop(place);
                        }),
                    );
                }
                own.pause(poll_ms).await;
            }
        }));
    }
}

fn owner(number: usize) -> String {
    format!("daemon {number}")
}

fn worker_settings(course: &Course, number: usize, seed: u64) -> WorkerSettings {
    WorkerSettings {
        owner: owner(number),
        concurrency: course.concurrency,
        poll_ms: 1,
        rest_ms: 1,
        lease_ms: course.lease_ms,
        retry: course.retry,
        limits: MaterialLimits { exchanges_max: course.exchanges_max, tokens_max: i64::MAX },
        prompt: PromptLimits::default(),
        output_tokens_max: 1_000,
        thinking_reserve_tokens: 0,
        batch_exchanges: course.rules.batch_exchanges,
        batch_tokens_min: course.rules.batch_tokens_min,
        max_wait_ms: course.rules.max_wait_ms,
        policy: course.rules.policy,
        spend: DailyLimits::default(),
        prices: Prices::default(),
        compact_by_model: true,
        seed,
    }
}

fn schedule_settings(course: &Course, crontab: Crontab) -> ScheduleSettings {
    ScheduleSettings {
        ageing: crontab.clone(),
        prune: crontab,
        runs_keep_days: 1,
        versions_keep: 1,
        sample_ms: 15_000,
        reconcile_ms: 1,
        max_wait_ms: course.rules.max_wait_ms,
        attempts_max: course.retry.attempts_max,
    }
}
