//! The queue of copies for the daemon.
//!
//! Invariant: offering a copy never waits. A copy that finds no room, or that the daemon doesn't take in time, is dropped
//! and counted. The next request carries the whole conversation again.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use hyper::{StatusCode, header::HeaderValue};
use serde::Deserialize;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::{Instant, sleep},
};
use tokio_util::task::TaskTracker;

use crate::{
    compression::unpack,
    daemon::ProxyDaemon,
    dialect::Dialect,
    reply,
    session::{Lineages, Session},
    tally::Tally,
};
use recapd_core::{
    domain::{
        agent::AgentId,
        continuation::{ContentUnit, SentExtent},
        number::i64_or_max,
        proxy_traffic::ProxyTraffic,
    },
    formats::request::{SentMessage, conversation},
};
use recapd_platform::{clock::Clock, randomness, threads};
use recapd_telemetry::metrics::{Metrics, labels::Unstored};

/// The number of lanes. Copies of one conversation stay in order in one lane. A slow copy doesn't delay other lanes.
const LANES: usize = 4;
/// Limits the copies in a lane. Another limit applies to the bytes of all lanes.
const LANE_MAX: usize = 1_024;
const KIB: usize = 1_024;
/// How long a copy is posted again and again while the daemon doesn't answer.
const PATIENCE: Duration = Duration::from_mins(1);
/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(500);

/// The owner of a copied conversation.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    /// The agent; `None` if only the conversation itself shows whose it is.
    pub(crate) agent: Option<AgentId>,
    /// The name of the client program.
    pub(crate) client: &'static str,
}

/// Connects the copies of a request and of its answer: the answer is stored where the request was stored.
#[derive(Debug, Default)]
pub(crate) struct RequestLink(OnceLock<StoredRequest>);

#[derive(Debug)]
struct StoredRequest {
    agent: AgentId,
    units: Vec<ContentUnit>,
}

/// A copy of a request or of an answer.
#[derive(Debug)]
pub(crate) struct StoredCopy {
    pub(crate) owner: Owner,
    pub(crate) dialect: Dialect,
    pub(crate) content: Content,
    pub(crate) link: Arc<RequestLink>,
}

#[derive(Debug)]
pub(crate) enum Content {
    /// The body of a request.
    Request(Bytes),
    /// The body of an answer. It may be cut short.
    Answer { content_type: String, encoding: Option<HeaderValue>, bytes: Bytes },
}

impl Content {
    fn len(&self) -> usize {
        match self {
            Self::Request(bytes) | Self::Answer { bytes, .. } => bytes.len(),
        }
    }

    fn count(&self, counts: &mut ProxyTraffic) {
        let bytes = i64_or_max(self.len());
        match self {
            Self::Request(_) => {
                counts.requests += 1;
                counts.request_bytes += bytes;
            }
            Self::Answer { .. } => counts.answer_bytes += bytes,
        }
    }
}

struct QueuedCopy {
    copy: StoredCopy,
    _room: OwnedSemaphorePermit,
}

/// The queue of copies. Clones share it.
#[derive(Clone)]
pub(crate) struct Copies {
    lanes: Arc<[mpsc::Sender<QueuedCopy>]>,
    room: Arc<Semaphore>,
    room_kib: usize,
    lineages: Arc<Lineages>,
    metrics: Metrics,
    tally: Tally,
}

impl Copies {
    /// Starts the queue. Its tasks end when all clones are dropped and all copies are stored or dropped.
    pub(crate) fn start(
        daemon: &Arc<dyn ProxyDaemon>,
        bytes_max: usize,
        clock: &Arc<dyn Clock>,
        metrics: Metrics,
        tally: Tally,
        tasks: &TaskTracker,
    ) -> Self {
        let lineages = Arc::new(Lineages::default());
        let lanes = (0..LANES).map(|_| {
            let (sender, receiver) = mpsc::channel(LANE_MAX);
            let lane = Lane {
                daemon: Arc::clone(daemon),
                lineages: Arc::clone(&lineages),
                clock: Arc::clone(clock),
                metrics: metrics.clone(),
                tally: tally.clone(),
                agents_named: AtomicU64::new(0),
            };
            tasks.spawn(lane.run(receiver));
            sender
        });
        let room_kib = bytes_max / KIB;
        Self {
            lanes: lanes.collect(),
            room: Arc::new(Semaphore::new(room_kib)),
            room_kib,
            lineages,
            metrics,
            tally,
        }
    }

    /// Returns the conversations that are recognised by their content.
    pub(crate) fn lineages(&self) -> &Arc<Lineages> {
        &self.lineages
    }

    /// Offers a copy. Drops it if there is no room.
    pub(crate) fn offer(&self, copy: StoredCopy) {
        let kib = copy.content.len().div_ceil(KIB).clamp(1, self.room_kib.max(1));
        let permits = u32::try_from(kib).unwrap_or(u32::MAX);
        let Ok(room) = Arc::clone(&self.room).try_acquire_many_owned(permits) else {
            return self.count_dropped(&copy);
        };
        let name = copy.owner.agent.as_ref().map_or("", AgentId::as_str);
        let lane = name.bytes().fold(0_usize, |sum, byte| sum.wrapping_mul(31) + usize::from(byte));
        let queued = QueuedCopy { copy, _room: room };
        if let Err(full) = self.lanes[lane % LANES].try_send(queued) {
            self.count_dropped(&full.into_inner().copy);
        }
    }

    fn count_dropped(&self, copy: &StoredCopy) {
        self.metrics.proxy.unstored(Unstored::Full);
        self.tally.count(copy.owner.agent.as_ref(), |counts| {
            copy.content.count(counts);
            counts.unstored += 1;
        });
    }

    /// Counts a request or an answer that is not copied.
    pub(crate) fn count_unstored(&self, session: &Session, reason: Unstored) {
        self.metrics.proxy.unstored(reason);
        self.tally.count(session.agent.as_ref(), |counts| counts.unstored += 1);
    }
}

struct Lane {
    daemon: Arc<dyn ProxyDaemon>,
    lineages: Arc<Lineages>,
    clock: Arc<dyn Clock>,
    metrics: Metrics,
    tally: Tally,
    /// How many agents this lane has named.
    agents_named: AtomicU64,
}

#[derive(Deserialize)]
struct StoreReply {
    agent_id: AgentId,
}

impl Lane {
    async fn run(self, mut copies: mpsc::Receiver<QueuedCopy>) {
        while let Some(queued) = copies.recv().await {
            let copy = &queued.copy;
            let stored = self.store(copy).await;
            match stored {
                Ok(()) => self.metrics.proxy.stored(self.clock.now()),
                Err(reason) => self.metrics.proxy.unstored(reason),
            }
            let holder = copy.link.0.get().map(|stored| &stored.agent);
            self.tally.count(holder.or(copy.owner.agent.as_ref()), |counts| {
                copy.content.count(counts);
                counts.unstored += i64::from(stored.is_err());
            });
        }
    }

    async fn store(&self, copy: &StoredCopy) -> Result<(), Unstored> {
        let (extent, body) = match &copy.content {
            Content::Request(body) => (SentExtent::Whole, body.clone()),
            Content::Answer { content_type, encoding, bytes } => {
                let plain = unpack(encoding.as_ref(), bytes).ok_or(Unstored::Unreadable)?;
                match reply::messages(copy.dialect, content_type, &plain) {
                    Some(messages) => (SentExtent::End, messages.to_string().into()),
                    None => return Ok(()),
                }
            }
        };
        // Only a conversation without an id must be read here.
        let units = match &copy.owner.agent {
            Some(_) => Vec::new(),
            None => units(copy, body.clone()).await?,
        };
        let agent = match (extent, copy.link.0.get()) {
            (SentExtent::End, Some(stored)) => stored.agent.clone(),
            // Without the stored request, the answer might get into another conversation.
            (SentExtent::End, None) => return Err(Unstored::Refused),
            (SentExtent::Whole, _) => self.agent(&copy.owner, &units),
        };
        let path = path(&agent, copy.dialect, copy.owner.client, extent);
        let agent = self.post(&path, body).await?.unwrap_or(agent);
        if copy.owner.agent.is_none() {
            let client = copy.owner.client;
            let request_units = copy.link.0.get().map_or(&[][..], |stored| &stored.units);
            let all_units: Vec<ContentUnit> = request_units.iter().chain(&units).copied().collect();
            self.lineages.remember(client, &all_units, &agent);
        }
        if extent == SentExtent::Whole {
            // Later, this request's answer reads it.
            drop(copy.link.0.set(StoredRequest { agent, units }));
        }
        Ok(())
    }

    fn agent(&self, owner: &Owner, units: &[ContentUnit]) -> AgentId {
        let Owner { agent, client } = owner;
        let found = agent.clone().or_else(|| self.lineages.find(client, units));
        found.unwrap_or_else(|| {
            let count = self.agents_named.fetch_add(1, Ordering::Relaxed);
            let chance = randomness::seed().unwrap_or(0).wrapping_add(count);
            Session::new_agent(client, units, chance)
        })
    }

    /// Posts a copy until the daemon answers. Returns the agent that holds the conversation, if the answer names one.
    async fn post(&self, path: &str, body: Bytes) -> Result<Option<AgentId>, Unstored> {
        let end = Instant::now() + PATIENCE;
        loop {
            let problem = match self.daemon.post(path, body.clone()).await {
                Ok(answer) if answer.status.is_success() => {
                    let stored: Option<StoreReply> = serde_json::from_slice(&answer.body).ok();
                    return Ok(stored.map(|stored| stored.agent_id));
                }
                Ok(answer)
                    if answer.status.is_client_error() && answer.status != StatusCode::TOO_MANY_REQUESTS =>
                {
                    let text = String::from_utf8_lossy(&answer.body).into_owned();
                    tracing::warn!(path, status = %answer.status, said = text, "proxy.copy_refused");
                    return Err(Unstored::Refused);
                }
                Ok(answer) => answer.status.to_string(),
                Err(problem) => problem,
            };
            if Instant::now() > end {
                tracing::warn!(path, problem, "proxy.daemon_away");
                return Err(Unstored::DaemonAway);
            }
            sleep(PAUSE).await;
        }
    }
}

/// Returns the units of a copy. They identify its conversation.
async fn units(copy: &StoredCopy, body: Bytes) -> Result<Vec<ContentUnit>, Unstored> {
    let (format, host) = (copy.dialect.format(), copy.dialect.host(copy.owner.client));
    let reading = threads::computed("reading a copy", move || {
        let text = std::str::from_utf8(&body).map_err(|_| Unstored::Unreadable)?;
        let sent = conversation(format, host, text).map_err(|error| {
            tracing::debug!(%error, "proxy.copy_unreadable");
            Unstored::Unreadable
        })?;
        Ok(sent.iter().flat_map(SentMessage::units).collect())
    });
    reading.await.unwrap_or(Err(Unstored::Unreadable))
}

/// Returns the daemon's path for a copy.
pub(crate) fn path(agent: &AgentId, dialect: Dialect, client: &str, extent: SentExtent) -> String {
    let extent = match extent {
        SentExtent::Whole => "whole",
        SentExtent::End => "end",
    };
    let format = dialect.format().name();
    let host = dialect.host(client).map(|host| format!("&host={}", host.name())).unwrap_or_default();
    format!("/v1/agents/{agent}/conversation?format={format}&extent={extent}{host}")
}
