//! The queue and its leases, and the gauges that a sampler reads from the database.

use std::{
    collections::VecDeque,
    fmt::Write as _,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram};

use super::{
    Register, SecondsGauge, increase,
    labels::{AgentState, ClaimResult, QueueState, RenewalResult},
    unix_seconds,
};
use recapd_core::domain::time::{HOUR_MS, Timestamp};

const WAIT_SECONDS: [f64; 10] = [1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0];

#[derive(Debug)]
pub struct Queue {
    wait: Histogram,
    claims: Family<ClaimResult, Counter>,
    looked_at: SecondsGauge,
    leases_expired: Counter,
    renewals: Family<RenewalResult, Counter>,
    depth: Family<QueueState, Gauge>,
    oldest_ready: SecondsGauge,
    oldest_unsummarized: SecondsGauge,
    documents: Gauge,
    documents_tokens: Gauge,
    agents: Family<AgentState, Gauge>,
    sampled_at: SecondsGauge,
    sampler_duration: SecondsGauge,
    depths: Mutex<VecDeque<HourDepth>>,
}

/// The queue's depth in one hour, as sampled by this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HourDepth {
    pub began_at: Timestamp,
    /// The highest number of rows that were ready or running at one time.
    pub rows: i64,
}

/// The depths of this many hours are kept: a day, and the present hour.
const HOURS_KEPT: usize = 25;

/// A sample from the database. States that aren't listed have no rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueSample {
    pub depth: Vec<(QueueState, i64)>,
    pub oldest_ready_at: Option<Timestamp>,
    /// When the oldest exchange without a summary was evicted.
    pub oldest_unsummarized_at: Option<Timestamp>,
    pub documents: i64,
    pub documents_tokens: i64,
    pub agents: Vec<(AgentState, i64)>,
}

impl Queue {
    pub(super) fn register(to: &mut Register<'_>) -> Self {
        Self {
            wait: to.histogram(
                "queue_wait_seconds",
                "How long work waited to be claimed, from when it could be claimed",
                &WAIT_SECONDS,
            ),
            claims: to.counters("queue_claims", "Polls of the queue, by result", ClaimResult::ALL),
            looked_at: to.seconds(
                "queue_last_look_timestamp_seconds",
                "When the worker of this process last looked at the queue and got an answer; 0 is never",
            ),
            leases_expired: to.counter("leases_expired", "Claims whose holder vanished"),
            renewals: to.counters("lease_renewals", "Renewals of leases", RenewalResult::ALL),
            depth: to.gauges("queue_depth", "Queue rows (sampled)", QueueState::ALL),
            oldest_ready: to.seconds(
                "queue_oldest_ready_timestamp_seconds",
                "Since when the oldest work could be claimed (sampled); 0 is none",
            ),
            oldest_unsummarized: to.seconds(
                "oldest_unsummarized_timestamp_seconds",
                "When the oldest exchange that is in no summary was evicted (sampled); 0 is none",
            ),
            documents: to.gauge("documents", "Summaries (sampled; beyond some thousands an estimate)"),
            documents_tokens: to.gauge("documents_tokens", "Tokens of all summaries (sampled; as documents)"),
            agents: to.gauges(
                "agents",
                "Agents (sampled; beyond some thousands an estimate)",
                AgentState::ALL,
            ),
            sampled_at: to.seconds(
                "sampler_last_success_timestamp_seconds",
                "When the sampled gauges were last read; 0 is never",
            ),
            sampler_duration: to
                .seconds("sampler_duration_seconds", "How long reading the sampled gauges took"),
            depths: Mutex::default(),
        }
    }

    /// Counts a claim that came `wait` after the row became ready.
    pub fn waited(&self, wait: Duration) {
        self.wait.observe(wait.as_secs_f64());
    }

    /// Counts a poll of the queue. If the database answered, records `at` as the time of the last look.
    pub fn looked(&self, result: ClaimResult, at: Timestamp) {
        self.claims.get_or_create(&result).inc();
        if result != ClaimResult::Failed {
            self.looked_at.set(unix_seconds(Some(at)));
        }
    }

    pub fn leases_expired(&self, leases: i64) {
        self.leases_expired.inc_by(increase(leases));
    }

    pub fn renewed(&self, result: RenewalResult) {
        self.renewals.get_or_create(&result).inc();
    }

    /// Describes the queue in a few words, as it was last sampled. The age of the oldest work is that at `now`.
    pub fn line(&self, now: Timestamp) -> String {
        let depth = |state| self.depth.get_or_create(&state).get();
        let (ready, running) = (depth(QueueState::Ready), depth(QueueState::Running));
        let mut line = format!("ready {ready} · running {running} · parked {}", depth(QueueState::Parked));
        let oldest = self.oldest_ready.get();
        if ready > 0 && oldest > 0.0 {
            let waited = (unix_seconds(Some(now)) - oldest).max(0.0);
            // Writing to a string doesn't fail.
            write!(line, " · oldest {waited:.0} s").ok();
        }
        line
    }

    /// Returns the queue's depth in each of the last hours since this process started, oldest first.
    pub fn depths(&self) -> Vec<HourDepth> {
        self.locked_depths().iter().copied().collect()
    }

    fn locked_depths(&self) -> MutexGuard<'_, VecDeque<HourDepth>> {
        self.depths.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record_depth(&self, rows: i64, at: Timestamp) {
        let began_at = Timestamp(at.0 - at.0.rem_euclid(HOUR_MS));
        let mut depths = self.locked_depths();
        match depths.back_mut() {
            Some(hour) if hour.began_at == began_at => hour.rows = hour.rows.max(rows),
            _ => depths.push_back(HourDepth { began_at, rows }),
        }
        while depths.len() > HOURS_KEPT {
            depths.pop_front();
        }
    }

    /// Sets the gauges to a sample that was read at `at` and took `took`.
    pub fn sampled(&self, sample: &QueueSample, at: Timestamp, took: Duration) {
        for &state in QueueState::ALL {
            let rows = listed(&sample.depth, state);
            self.depth.get_or_create(&state).set(rows);
        }
        for &state in AgentState::ALL {
            let agents = listed(&sample.agents, state);
            self.agents.get_or_create(&state).set(agents);
        }
        let busy = [QueueState::Ready, QueueState::Running].map(|state| listed(&sample.depth, state));
        self.record_depth(busy.iter().sum(), at);
        self.oldest_ready.set(unix_seconds(sample.oldest_ready_at));
        self.oldest_unsummarized.set(unix_seconds(sample.oldest_unsummarized_at));
        self.documents.set(sample.documents);
        self.documents_tokens.set(sample.documents_tokens);
        self.sampled_at.set(unix_seconds(Some(at)));
        self.sampler_duration.set(took.as_secs_f64());
    }
}

fn listed<S: Copy + PartialEq>(list: &[(S, i64)], state: S) -> i64 {
    list.iter().find(|(listed, _)| *listed == state).map_or(0, |(_, count)| *count)
}
