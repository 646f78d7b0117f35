//! Rewrites requests of clients that never compact: replaces what has left the window with the document.
//!
//! The daemon decides how many units of the conversation have left the window, and which text replaces them
//! (`POST /v1/agents/{id}/replacement`). The proxy keeps a step until the window moves. So between two steps
//! each request begins with the bytes of the previous one, and a provider's prompt cache stays valid.
//!
//! Invariant: a step is applied only if the conversation begins as the daemon says. While the daemon is unavailable,
//! the last step stays in force. If there is none, the request is forwarded unchanged.

mod outline;
mod rewrite;
mod step;
#[cfg(test)]
mod tests;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use hashlink::LruCache;
use tokio::{
    sync::Semaphore,
    time::{Instant, error::Elapsed, timeout_at},
};
use tokio_util::task::TaskTracker;

use crate::{daemon::ProxyDaemon, dialect::Dialect, session::Lineages};
pub(crate) use outline::RequestWriter;
use outline::{Outline, OutlineMemory};
use recapd_core::domain::{agent::AgentId, continuation::ContentUnit, proxy_traffic::ProxyTraffic};
use recapd_platform::threads::{self, ComputationPanic};
use rewrite::Rewrite;
use step::{ReplacementReply, WindowSession, WindowStep};

/// Limits how many conversations' steps are remembered.
const SESSIONS_MAX: usize = 1_024;
/// A part of Anthropic's error about thinking that is bound to messages that aren't in the request.
const BOUND: &str = "bound to a different conversation";

/// A request that may be rewritten.
#[derive(Clone, Debug)]
pub(crate) struct WindowRequest {
    pub(crate) writer: RequestWriter,
    pub(crate) agent: Option<AgentId>,
    /// The body as the client wrote it, without compression.
    pub(crate) plain: Bytes,
    /// The body with its capsules replaced; `None` if it has none.
    pub(crate) expanded: Option<Bytes>,
    /// True if the request only asks how many tokens it has.
    pub(crate) is_count: bool,
}

/// Why a request couldn't be rewritten. It is forwarded unchanged.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RewriteFailure {
    #[error("it took too long; see proxy.decide_ms")]
    Overdue(#[from] Elapsed),
    #[error(transparent)]
    Panicked(#[from] ComputationPanic),
}

/// A rewritten request.
#[derive(Debug)]
pub(crate) struct WindowedRequest {
    pub(crate) agent: AgentId,
    pub(crate) version: i64,
    pub(crate) body: Bytes,
    /// True if the request is the first of its step.
    begins_step: bool,
    /// An estimate of the tokens that the provider doesn't get.
    saved_tokens: i64,
    outline: Arc<Outline>,
    session: Arc<SharedSession>,
    cut: usize,
}

impl WindowedRequest {
    pub(crate) fn count(&self, counts: &mut ProxyTraffic) {
        counts.window_steps += i64::from(self.begins_step);
        counts.saved_input_tokens += self.saved_tokens;
    }

    /// Returns the request without any thinking, if the provider's error says that thinking is bound to messages that
    /// are gone; `None` for other errors. Later steps of this conversation then leave thinking out, too.
    pub(crate) fn unbound(&self, error: &[u8]) -> Option<Bytes> {
        let is_about_thinking = memchr::memmem::find(error, BOUND.as_bytes()).is_some();
        if self.outline.dialect != Dialect::Anthropic || !is_about_thinking {
            return None;
        }
        let mut session = self.session.lock();
        session.is_bound = true;
        let step = session.step.as_mut()?;
        step.thinks_from = self.outline.len();
        let rewrite =
            Rewrite { replacement: &step.replacement, cut: self.cut, thinks_from: step.thinks_from };
        rewrite.body(&self.outline)
    }
}

#[derive(Debug)]
struct SharedSession {
    session: Mutex<WindowSession>,
    /// Allows one question to the daemon at a time.
    asking: Arc<Semaphore>,
}

impl SharedSession {
    fn lock(&self) -> MutexGuard<'_, WindowSession> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The windows of all conversations.
pub(crate) struct Windows {
    daemon: Arc<dyn ProxyDaemon>,
    lineages: Arc<Lineages>,
    tasks: TaskTracker,
    memory: Arc<OutlineMemory>,
    /// The key is the session's agent and the hash of the first unit, because several conversations may share a
    /// session.
    sessions: Mutex<LruCache<(AgentId, u64), Arc<SharedSession>>>,
}

impl Windows {
    pub(crate) fn new(daemon: Arc<dyn ProxyDaemon>, lineages: Arc<Lineages>, tasks: TaskTracker) -> Self {
        Self {
            daemon,
            lineages,
            tasks,
            memory: Arc::default(),
            sessions: Mutex::new(LruCache::new(SESSIONS_MAX)),
        }
    }

    /// Rewrites a request; `None` if it should be forwarded unchanged. The daemon must answer within half of `limit`.
    ///
    /// # Errors
    /// If rewriting takes longer than `limit`, or panics.
    pub(crate) async fn rewrite(
        &self,
        request: WindowRequest,
        limit: Duration,
    ) -> Result<Option<WindowedRequest>, RewriteFailure> {
        let (began_at, memory) = (Instant::now(), Arc::clone(&self.memory));
        let deadline = began_at + limit;
        let WindowRequest { writer, agent, plain, expanded, is_count } = request;
        let reading = threads::computed("reading a conversation", move || {
            Outline::read(writer, &plain, expanded, &memory)
        });
        let Some(outline) = timeout_at(deadline, reading).await?? else {
            return Ok(None);
        };
        let units: Vec<ContentUnit> = outline.units().collect();
        let agent = agent.or_else(|| self.lineages.find(writer.client, &units));
        let (Some(agent), Some(first)) = (agent, units.first()) else {
            return Ok(None);
        };
        let session = self.session(&agent, first.hash);
        self.ask(&agent, *first, &session, began_at + limit / 2).await;
        let outline = Arc::new(outline);
        let writing = {
            let (session, outline) = (Arc::clone(&session), Arc::clone(&outline));
            threads::computed("rewriting a request", move || rewrite_request(session, outline, is_count))
        };
        Ok(timeout_at(deadline, writing).await??)
    }

    fn session(&self, agent: &AgentId, first: u64) -> Arc<SharedSession> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (agent.clone(), first);
        if let Some(session) = sessions.get(&key) {
            return Arc::clone(session);
        }
        let session =
            Arc::new(SharedSession { session: Mutex::default(), asking: Arc::new(Semaphore::new(1)) });
        sessions.insert(key, Arc::clone(&session));
        session
    }

    /// Asks the daemon what has left the window. An answer that comes too late is used for the next request.
    async fn ask(
        &self,
        agent: &AgentId,
        first: ContentUnit,
        session: &Arc<SharedSession>,
        deadline: Instant,
    ) {
        let Ok(turn) = Arc::clone(&session.asking).try_acquire_owned() else {
            return;
        };
        let tag = session.lock().offer.as_ref().map(|offer| offer.tag.clone());
        let tag_parameter = tag.map_or_else(String::new, |tag| format!("&known={tag}"));
        let path = format!("/v1/agents/{agent}/replacement?begins_with={:016x}{tag_parameter}", first.hash);
        let (daemon, session) = (Arc::clone(&self.daemon), Arc::clone(session));
        let asking = self.tasks.spawn(async move {
            match daemon.post(&path, Bytes::new()).await {
                Ok(answer) if answer.status.is_success() => {
                    let reply: Option<ReplacementReply> = serde_json::from_slice(&answer.body).ok();
                    let mut session = session.lock();
                    let is_known = |reply: &ReplacementReply| {
                        session.offer.as_ref().is_some_and(|offer| offer.tag == reply.tag)
                    };
                    if let Some(reply) = reply.filter(|reply| !is_known(reply)) {
                        session.offer = reply.replacement().map(Arc::new);
                    }
                }
                Ok(answer) => tracing::debug!(path, status = %answer.status, "proxy.no_window"),
                Err(problem) => tracing::debug!(path, problem, "proxy.no_window"),
            }
            drop(turn);
        });
        // If the answer isn't here by the deadline, the last known answer is used.
        drop(timeout_at(deadline, asking).await);
    }
}

fn rewrite_request(
    session: Arc<SharedSession>,
    outline: Arc<Outline>,
    is_count: bool,
) -> Option<WindowedRequest> {
    let (step, previous) = {
        let (mut session, now) = (session.lock(), Instant::now());
        let previous = session.step.as_ref().map(|step| Arc::clone(&step.replacement));
        let step = session.step(&outline, now);
        if !is_count {
            session.last_request_at = Some(now);
        }
        (step, previous)
    };
    let (WindowStep { replacement, thinks_from, saved_tokens }, cut) = step?;
    let begins_step = previous.is_none_or(|previous| !Arc::ptr_eq(&previous, &replacement));
    let rewrite = Rewrite { replacement: &replacement, cut, thinks_from };
    Some(WindowedRequest {
        body: rewrite.body(&outline)?,
        agent: replacement.agent.clone(),
        version: replacement.version,
        begins_step,
        // A request for a count isn't input of a model.
        saved_tokens: if is_count { 0 } else { saved_tokens },
        outline,
        session,
        cut,
    })
}
