//! Counts what the proxy does in each session, and reports it to the daemon.
//!
//! Invariants: counting never waits. A report is sent again under its name until the daemon answers it, and the daemon counts a
//! name once. While a report waits, further counts are summed up.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use hyper::StatusCode;
use tokio::{sync::mpsc, time::timeout};
use tokio_util::task::TaskTracker;

use crate::daemon::{DaemonAnswer, ProxyDaemon};
use recapd_core::domain::{
    agent::AgentId,
    number::i64_or_max,
    proxy_traffic::{ProxyReport, ProxyTraffic},
};
use recapd_platform::randomness;

/// Limits the sessions that are counted between two reports. Counts of further sessions are dropped.
const SESSIONS_MAX: usize = 512;
/// The time from a count to its report.
const INTERVAL: Duration = Duration::from_secs(10);
/// Bytes per token, for an estimate. It is rather too low: tool traffic has 3.4 bytes per token.
const BYTES_PER_TOKEN: usize = 4;
/// A longer string without a blank is an attachment or the like, whose bytes say nothing about its tokens.
const WORD_BYTES_MAX: usize = 4_096;

/// The counts that aren't reported yet. Clones share them.
#[derive(Clone)]
pub(crate) struct Tally {
    counts: Arc<SessionCounts>,
    /// Wakes the reporter. It ends when all clones are dropped.
    wake: mpsc::Sender<()>,
}

#[derive(Default)]
struct SessionCounts(Mutex<HashMap<AgentId, ProxyTraffic>>);

impl SessionCounts {
    fn lock(&self) -> MutexGuard<'_, HashMap<AgentId, ProxyTraffic>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tally {
    /// Starts the task that reports to `daemon`. It ends when all clones are dropped and all counts are reported or dropped.
    pub(crate) fn start(daemon: Arc<dyn ProxyDaemon>, tasks: &TaskTracker) -> Self {
        let (wake, woken) = mpsc::channel(1);
        let counts = Arc::<SessionCounts>::default();
        let reporter = Reporter {
            daemon,
            counts: Arc::clone(&counts),
            name: randomness::seed().unwrap_or(0),
            reports_made: 0,
            waiting: Vec::new(),
        };
        tasks.spawn(reporter.run(woken));
        Self { counts, wake }
    }

    /// Counts something in a session. Does nothing if the session is unknown.
    pub(crate) fn count(&self, session: Option<&AgentId>, count: impl FnOnce(&mut ProxyTraffic)) {
        let Some(agent) = session else {
            return;
        };
        let mut counts = self.counts.lock();
        if counts.len() >= SESSIONS_MAX && !counts.contains_key(agent) {
            tracing::debug!(agent_id = %agent, "proxy.tally_full");
            return;
        }
        count(counts.entry(agent.clone()).or_default());
        drop(counts);
        // If the channel is full, the reporter is woken already.
        self.wake.try_send(()).unwrap_or_default();
    }
}

struct Reporter {
    daemon: Arc<dyn ProxyDaemon>,
    counts: Arc<SessionCounts>,
    /// Distinguishes this proxy's reports from those of others.
    name: u64,
    reports_made: u64,
    /// The reports that the daemon hasn't answered yet.
    waiting: Vec<(AgentId, ProxyReport)>,
}

impl Reporter {
    async fn run(mut self, mut woken: mpsc::Receiver<()>) {
        while woken.recv().await.is_some() {
            loop {
                let ended = async { while woken.recv().await.is_some() {} };
                let has_ended = timeout(INTERVAL, ended).await.is_ok();
                if self.report().await || has_ended {
                    break;
                }
            }
        }
    }

    /// Reports all counts. Returns false if the daemon doesn't answer.
    async fn report(&mut self) -> bool {
        if !self.send().await {
            return false;
        }
        let counts = std::mem::take(&mut *self.counts.lock());
        for (agent, traffic) in counts {
            self.reports_made += 1;
            let report = format!("{:016x}-{}", self.name, self.reports_made);
            self.waiting.push((agent, ProxyReport { report, traffic }));
        }
        self.send().await
    }

    /// Sends the reports that wait, up to the first that the daemon doesn't answer.
    async fn send(&mut self) -> bool {
        while let Some((agent, report)) = self.waiting.last() {
            let body = serde_json::json!(report).to_string();
            let path = format!("/v1/agents/{agent}/proxy");
            match self.daemon.post(&path, Bytes::from(body)).await {
                Ok(answer) if is_final(&answer) => {
                    tracing::debug!(path, status = %answer.status, "proxy.reported");
                    self.waiting.pop();
                }
                Ok(answer) => {
                    tracing::debug!(path, status = %answer.status, "proxy.report_delayed");
                    return false;
                }
                Err(problem) => {
                    tracing::debug!(path, problem, "proxy.report_delayed");
                    return false;
                }
            }
        }
        true
    }
}

/// True if the daemon has taken the report or will never take it: the agent may be unknown, since nothing of it was stored.
fn is_final(answer: &DaemonAnswer) -> bool {
    let status = answer.status;
    status.is_success() || (status.is_client_error() && status != StatusCode::TOO_MANY_REQUESTS)
}

/// Estimates the tokens of some JSON, without attachments.
pub(crate) fn estimated_tokens(json: &[u8]) -> i64 {
    let is_text = |piece: &&[u8]| piece.len() <= WORD_BYTES_MAX || memchr::memchr(b' ', piece).is_some();
    let pieces = json.split(|byte| *byte == b'"');
    let bytes: usize = pieces.filter(is_text).map(<[u8]>::len).sum();
    i64_or_max(bytes / BYTES_PER_TOKEN)
}

#[cfg(test)]
mod tests;
