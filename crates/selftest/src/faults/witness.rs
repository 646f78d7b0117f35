//! Witnesses of availability: clients that constantly read summaries, and write for agents of their own, and note times and
//! refusals.
//!
//! A daemon that is stopped, killed or about to end need not answer: a request is judged only if the daemon was well at its
//! beginning and its end, with no change in between. A late answer isn't judged either, only counted, if the machine kept
//! this program or a thread of the daemon waiting for a processor for at least the excess time.

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fastrand::Rng;
use reqwest::StatusCode;
use serde_json::json;
use tokio::time::Instant;

use super::{
    ledger::{Door, RequestFate, Span, Turn, Voice},
    load::{Load, name_of},
    spans::Spans,
};
use recapd_llm::{
    LlmError,
    http::{self, HttpSettings},
};

/// The longest that a reader waits for a summary that the daemon has already delivered, whatever the database does.
pub const KNOWN_MS_MAX: u64 = 300;
/// The longest that a reader waits for any other summary, or the answer that there is none.
pub const UNKNOWN_MS_MAX: u64 = 2_000;
/// The longest time of the 99th percentile of appends to agents that other daemons' faults don't affect.
pub const APPEND_P99_MS_MAX: u64 = 100;
const PATIENCE_MS: u64 = 20_000;
const PAUSE_MS: u64 = 25;
/// How long it takes to notice that a daemon is gone.
const NOTICE_MS: u64 = 200;
/// The interval at which this program checks that it runs.
const BEAT_MS: u64 = 10;
/// The delay of such a check that shows that the program was kept from running.
const LATE_MS: u64 = 40;

#[derive(Clone, Debug, Default)]
pub(super) struct Sightings {
    pub(super) known: Spans,
    pub(super) unknown: Spans,
    /// Appends while the database was well, whatever happened to other daemons.
    pub(super) appends: Spans,
    /// Requests that couldn't be judged because the machine was busy.
    pub(super) unjudged: u64,
    /// Requests that took too long or were refused.
    pub(super) breaches: Vec<String>,
}

pub(super) struct Witness {
    client: reqwest::Client,
    load: Arc<Load>,
    agents: u64,
    sightings: Mutex<Sightings>,
    late_at: Mutex<Option<Instant>>,
}

impl Witness {
    pub(super) fn new(load: Arc<Load>, agents: u64) -> Result<Self, LlmError> {
        let settings =
            HttpSettings { timeout_ms: PATIENCE_MS, connect_timeout_ms: PATIENCE_MS, proxy_url: None };
        Ok(Self {
            client: http::client(&settings)?,
            load,
            agents,
            sightings: Mutex::default(),
            late_at: Mutex::default(),
        })
    }

    pub(super) fn sightings(&self) -> Sightings {
        self.seen().clone()
    }

    /// Notes when this program is kept from running.
    pub(super) async fn beat(&self) {
        loop {
            let due = Instant::now() + Duration::from_millis(BEAT_MS);
            tokio::time::sleep_until(due).await;
            if due.elapsed() > Duration::from_millis(LATE_MS) {
                *self.late_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
            }
        }
    }

    pub(super) async fn read(&self, daemon: usize, seed: u64) {
        let (mut random, mut known) = (Rng::with_seed(seed), HashSet::new());
        let (mut life, mut served) = (0, 0);
        while !self.load.is_over() {
            tokio::time::sleep(Duration::from_millis(PAUSE_MS)).await;
            let Some(before) = self.load.roster.sight(daemon) else {
                continue;
            };
            if life != before.life {
                life = before.life;
                known.clear();
            }
            let agent = name_of(random.u64(..self.agents));
            let watch = CpuWait::begin(before.whereabouts.pid);
            let url = format!("http://{}/v1/agents/{agent}/summary", before.whereabouts.address);
            let answer = self.client.get(url).send().await;
            let read = Sample {
                what: format!("daemon {daemon}, {agent}"),
                is_known: known.contains(&agent),
                status: answer.ok().map(|response| response.status()),
                took_ms: watch.took_ms(),
            };
            // A starting daemon accepts connections before it answers.
            let has_begun = served == before.life;
            if read.status.is_some() {
                served = before.life;
            }
            if read.status == Some(StatusCode::OK) {
                known.insert(agent);
            }
            if read.status.is_none() {
                // The end of a daemon is noticed a moment later.
                tokio::time::sleep(Duration::from_millis(NOTICE_MS)).await;
            }
            if has_begun && self.load.roster.sight(daemon) == Some(before) {
                self.judge(&read, &watch);
            }
        }
    }

    fn judge(&self, read: &Sample, watch: &CpuWait) {
        let max_ms = if read.is_known { KNOWN_MS_MAX } else { UNKNOWN_MS_MAX };
        // The daemon isn't listening yet, or has ended, which the caller notices in a moment.
        if read.status.is_none() && read.took_ms <= max_ms {
            return;
        }
        let is_late = read.took_ms > max_ms;
        if is_late && self.was_kept_waiting(watch, read.took_ms - max_ms) {
            self.seen().unjudged += 1;
            return;
        }
        let mut seen = self.seen();
        let spans = if read.is_known { &mut seen.known } else { &mut seen.unknown };
        spans.push(read.took_ms);
        if is_late || !read.is_answered() {
            seen.breaches.push(read.told());
        }
    }

    /// Writes for an agent of its own at one daemon, whose window never overflows. The turns are in the ledger.
    pub(super) async fn write(&self, daemon: usize) {
        let voice = Voice { agent: format!("bystander-{daemon}"), door: Door::Ids };
        // A daemon's first append loads the tokenizer.
        let (mut number, mut is_roomy, mut warm) = (0, false, 0);
        while !self.load.is_over() {
            tokio::time::sleep(Duration::from_millis(2 * PAUSE_MS)).await;
            let roster = &self.load.roster;
            let (Some(before), Some(database)) = (roster.sight(daemon), roster.database(daemon)) else {
                continue;
            };
            let messages: Vec<_> = voice.turn(number).into_iter().map(|said| said.payload).collect();
            let (watch, begun) = (CpuWait::begin(before.whereabouts.pid), self.load.ledger.tick());
            let url = format!(
                "http://{}/v1/agents/{}/messages?format=native",
                before.whereabouts.address, voice.agent
            );
            let request = self.client.post(url).header("content-type", "application/json");
            let status =
                request.body(json!(messages).to_string()).send().await.map(|response| response.status());
            let took_ms = watch.took_ms();
            let is_done = status.is_ok_and(|status| status.is_success());
            self.load.ledger.turn(Turn {
                voice: voice.clone(),
                number,
                fate: if is_done { RequestFate::Acknowledged } else { RequestFate::Ambiguous },
                span: Span { begun, ended: self.load.ledger.tick() },
            });
            number += 1;
            if is_done && !is_roomy {
                is_roomy = self.make_room(before.whereabouts.address, &voice.agent).await;
            }
            if is_done && warm != before.life {
                warm = before.life;
                continue;
            }
            if is_done && roster.sight(daemon) == Some(before) && roster.database(daemon) == Some(database) {
                let late_ms = took_ms.saturating_sub(APPEND_P99_MS_MAX);
                if late_ms > 0 && self.was_kept_waiting(&watch, late_ms) {
                    self.seen().unjudged += 1;
                } else {
                    self.seen().appends.push(took_ms);
                }
            }
        }
    }

    /// Removes the agent's budget, so that its window never overflows. Returns false on failure.
    async fn make_room(&self, address: SocketAddr, agent: &str) -> bool {
        let request = self.client.patch(format!("http://{address}/v1/agents/{agent}"));
        let request = request.header("content-type", "application/json");
        let response = request.body(json!({"budget_tokens": 0}).to_string()).send().await;
        response.is_ok_and(|response| response.status().is_success())
    }

    /// Returns true if the daemon or this program would have been in time with a free processor.
    fn was_kept_waiting(&self, watch: &CpuWait, late_ms: u64) -> bool {
        let late_at = *self.late_at.lock().unwrap_or_else(PoisonError::into_inner);
        late_at.is_some_and(|late_at| late_at >= watch.began) || watch.waited_ms() >= late_ms
    }

    fn seen(&self) -> MutexGuard<'_, Sightings> {
        self.sightings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Sample {
    what: String,
    is_known: bool,
    status: Option<StatusCode>,
    took_ms: u64,
}

impl Sample {
    fn is_answered(&self) -> bool {
        match self.status {
            Some(StatusCode::OK) => true,
            // Not created yet, or not in memory.
            Some(StatusCode::NOT_FOUND | StatusCode::SERVICE_UNAVAILABLE) => !self.is_known,
            _ => false,
        }
    }

    fn told(&self) -> String {
        let known = if self.is_known { "a known" } else { "another" };
        let status = self.status.map_or_else(|| "nothing".to_owned(), |status| status.to_string());
        format!("{}: a read of {known} summary got {status} after {} ms", self.what, self.took_ms)
    }
}

/// Measures how long the threads of a process wait for a processor.
struct CpuWait {
    pid: u32,
    began: Instant,
    before: BTreeMap<String, u64>,
}

impl CpuWait {
    fn begin(pid: u32) -> Self {
        Self { pid, before: waits_ns(pid), began: Instant::now() }
    }

    fn took_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// The longest wait of any of them.
    fn waited_ms(&self) -> u64 {
        let after = waits_ns(self.pid);
        let waited = after
            .iter()
            .map(|(thread, ns)| ns.saturating_sub(self.before.get(thread).copied().unwrap_or_default()));
        waited.max().unwrap_or_default() / 1_000_000
    }
}

/// How long each thread of a process has waited for a processor so far, in nanoseconds; empty if the operating system
/// doesn't tell.
fn waits_ns(pid: u32) -> BTreeMap<String, u64> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let wait = |thread: fs::DirEntry| {
        let figures = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        let ns = figures.split_whitespace().nth(1)?.parse().ok()?;
        Some((thread.file_name().to_string_lossy().into_owned(), ns))
    };
    threads.filter_map(wait).collect()
}
