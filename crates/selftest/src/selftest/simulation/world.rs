//! The world of one run: tables, time and random choices, and the points at which actors take turns.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, Ordering::Relaxed},
    },
    task::Poll,
};

use fastrand::Rng;

use super::{findings::Counts, judge::Judge, tables::Tables};
use recapd_core::domain::{agent::AgentId, time::Timestamp};
use recapd_platform::clock::Clock;
use recapd_store::{StoreError, StoreResult};

/// One in so many calls of the store fails, half of them after taking effect.
const CALL_FAILS_ONE_IN: u32 = 40;
/// The most lines of a run's trace.
const TRACE_LINES_MAX: usize = 20_000;

/// A task that runs until it is done or dropped.
pub(super) type SimulatedTask = Pin<Box<dyn Future<Output = ()> + Send>>;

pub(super) struct Inner {
    pub(super) random: Rng,
    pub(super) now: Timestamp,
    pub(super) tables: Tables,
    pub(super) judge: Judge,
    pub(super) counts: Counts,
    pub(super) is_troubled: bool,
    /// True if the database's clock counts, not the daemons'.
    pub(super) has_own_clock: bool,
    /// When the last polled actor wants to continue.
    pub(super) wait: Option<Timestamp>,
    /// The tasks that it started, with their daemons.
    pub(super) begun: Vec<(usize, SimulatedTask)>,
    trace: Option<Vec<String>>,
}

pub(super) struct World(Mutex<Inner>);

/// A call of the store, as the trace shows it.
#[derive(Clone, Copy)]
pub(super) struct StoreCall {
    pub(super) daemon: usize,
    pub(super) method: &'static str,
}

impl Inner {
    pub(super) fn new((random, now): (Rng, Timestamp), tables: Tables, judge: Judge, is_told: bool) -> Self {
        Self {
            random,
            now,
            tables,
            judge,
            counts: Counts::default(),
            is_troubled: true,
            has_own_clock: false,
            wait: None,
            begun: Vec::new(),
            trace: is_told.then(Vec::new),
        }
    }

    pub(super) fn tell(&mut self, line: impl FnOnce(&Self) -> String) {
        let Some(mut trace) = self.trace.take() else {
            return;
        };
        if trace.len() < TRACE_LINES_MAX {
            trace.push(line(self));
        }
        self.trace = Some(trace);
    }

    pub(super) fn take_trace(&mut self) -> Vec<String> {
        self.trace.take().unwrap_or_default()
    }

    /// Judges the changes of the current operation, and adds them to the trace.
    fn settle(&mut self, call: StoreCall, error: Option<&StoreError>) {
        let changed = std::mem::take(&mut self.tables.changed);
        for (agent, before) in &changed {
            if call.method == "reconcile" && before.as_ref().is_some_and(|before| before.row.is_none()) {
                self.judge.saw_row_made(agent);
            }
            if let Some(kept) = self.tables.agents.get(agent) {
                self.judge.judge(agent, before.as_ref(), kept);
            }
        }
        if !changed.is_empty() || error.is_some() {
            let agents: Vec<&AgentId> = changed.iter().map(|(agent, _)| agent).collect();
            self.tell(|inner| inner.line(call, &agents, error));
        }
    }

    fn line(&self, call: StoreCall, agents: &[&AgentId], error: Option<&StoreError>) -> String {
        let states = agents.iter().filter_map(|agent| {
            let kept = self.tables.agents.get(agent)?;
            let (ledger, row) = (&kept.ledger, kept.row.as_ref());
            let row = row.map_or("no row".to_owned(), |row| {
                let visible_ms = row.visible_at.since_ms(self.now);
                let parked = if row.parked_at.is_some() { " parked" } else { "" };
                let token = row.token.map_or(String::new(), |token| format!(" token {token}"));
                let wakes = (row.wake_seq, row.claimed_wake);
                format!("row{token} woken {}/{} in {visible_ms} ms{parked}", wakes.0, wakes.1)
            });
            let (through, first, last) =
                (ledger.summarized_through, ledger.first_exchange, ledger.last_exchange);
            Some(format!(" | {agent} v{} through {through} window {first}..{last}, {row}", kept.version))
        });
        let states: String = states.collect();
        let error = error.map_or(String::new(), |error| format!(" ! {error}"));
        format!("{:>9} d{} {}{error}{states}", self.now.0, call.daemon, call.method)
    }
}

impl World {
    pub(super) fn new(inner: Inner) -> Arc<Self> {
        Arc::new(Self(Mutex::new(inner)))
    }

    pub(super) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn draw<T>(&self, from: impl FnOnce(&mut Rng) -> T) -> T {
        from(&mut self.inner().random)
    }

    /// Lets other actors run, and at least this much time pass.
    pub(super) async fn pause(&self, wait_ms: i64) {
        let mut until = None;
        poll_fn(|_| {
            let mut inner = self.inner();
            let is_first = until.is_none();
            let until = *until.get_or_insert_with(|| inner.now.plus_ms(wait_ms));
            if !is_first && inner.now >= until {
                return Poll::Ready(());
            }
            inner.wait = Some(until);
            Poll::Pending
        })
        .await;
    }

    /// One call of the store: others may run before and after it, and it may fail on either side.
    pub(super) async fn call<T>(
        &self,
        call: StoreCall,
        operation: impl FnOnce(&mut Inner) -> StoreResult<T> + Send,
    ) -> StoreResult<T> {
        self.pause(0).await;
        let fault = self.draw(|random| random.u32(..2 * CALL_FAILS_ONE_IN));
        let fault = if self.inner().is_troubled { fault } else { u32::MAX };
        let lost = || StoreError::Unavailable("the connection is cut".into());
        if fault == 0 {
            self.inner().counts.cut += 1;
            return Err(lost());
        }
        let answer = self.operate(call, operation);
        self.pause(0).await;
        if fault == 1 {
            let mut inner = self.inner();
            inner.counts.cut += 1;
            inner.tell(|inner| {
                format!("{:>9} d{} {}: its answer is lost", inner.now.0, call.daemon, call.method)
            });
            return Err(lost());
        }
        answer
    }

    /// Runs an operation and judges its changes.
    pub(super) fn operate<T>(
        &self,
        call: StoreCall,
        operation: impl FnOnce(&mut Inner) -> StoreResult<T>,
    ) -> StoreResult<T> {
        let mut inner = self.inner();
        inner.tables.clock = inner.has_own_clock.then_some(inner.now);
        let answer = operation(&mut inner);
        inner.settle(call, answer.as_ref().err());
        answer
    }

    /// Starts a task on a daemon; it begins when its turn comes.
    pub(super) fn begin(&self, daemon: usize, life: SimulatedTask) {
        self.inner().begun.push((daemon, life));
    }
}

pub(super) struct SkewedClock {
    pub(super) world: Arc<World>,
    pub(super) skew_ms: AtomicI64,
}

impl Clock for SkewedClock {
    fn now(&self) -> Timestamp {
        self.world.inner().now.plus_ms(self.skew_ms.load(Relaxed))
    }
}
