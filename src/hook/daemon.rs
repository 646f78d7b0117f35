//! Sends requests to the daemon, within the time that the hook has left.

use std::time::Duration;

use reqwest::{Method, RequestBuilder};
use tokio::{runtime::Runtime, time::Instant};

use super::agent::{SessionOwner, SessionProject};
use recapd_client::{Credentials, Transport};
use recapd_core::domain::{agent::AgentId, time::SECOND_MS};
use recapd_platform::http_client::{HttpReply, HttpSettings, RESPONSE_BYTES_MAX};

/// The daemon isn't asked if less time than this is left.
const TIME_MIN: Duration = Duration::from_millis(3);
/// A daemon is slow if it had at least 1/`SLOW_SHARE` of a request's time and didn't answer.
const SLOW_SHARE: u32 = 2;
/// Statuses by which the daemon refuses a message for good.
const REFUSALS: [u16; 4] = [400, 409, 413, 422];
const PROBLEM: &str = "application/problem+json";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SendFailure {
    /// The daemon is unreachable, or another program answers.
    Away(String),
    /// The daemon didn't answer, though it had much of a hook's time.
    Late(String),
    /// The hook had too little time left for an answer, so this says nothing about the daemon.
    OutOfTime,
    /// The daemon answers, but doesn't accept the messages now. It may accept those of another agent.
    Declined(String),
    /// The daemon will never accept the messages.
    Refused(String),
}

/// Stores messages. Tests use one in memory.
pub(super) trait Daemon {
    /// Stores messages of one `format`, one per line: all of them, or none if one is refused.
    fn append(&self, agent: &AgentId, format: &str, lines: String) -> Result<(), SendFailure>;

    /// Puts `agent` into its project. Returns false if that should be tried again; an agent that the daemon refuses to put
    /// there isn't tried again.
    fn join(&self, project: &SessionProject, agent: &AgentId) -> bool;
}

/// Whose brief is requested.
#[derive(Clone, Copy)]
pub(super) struct BriefSubject<'a> {
    pub(super) owner: &'a SessionOwner,
    pub(super) own_past: OwnPast,
}

/// Whether the session that gets the brief still sees its own earlier messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnPast {
    /// The session sees them, so the brief is about the project's other sessions.
    Visible,
    /// The host has compacted them, so the brief is about this session.
    Gone,
}

impl BriefSubject<'_> {
    /// Returns the project whose brief is requested; `None` for the agent's own brief.
    pub(super) fn project(&self) -> Option<&SessionProject> {
        let project = self.owner.project.as_ref();
        project.filter(|_| self.own_past == OwnPast::Visible)
    }

    fn path(&self) -> String {
        let agent = &self.owner.agent;
        match self.project() {
            Some(SessionProject { id, .. }) => {
                format!("/v1/projects/{id}/summary?reader={agent}&without={agent}&view=brief")
            }
            None => format!("/v1/agents/{agent}/summary?view=brief"),
        }
    }
}

/// The daemon's answer to a request for a brief.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DaemonAnswer {
    Brief {
        text: String,
        version: i64,
        /// How long ago the daemon last reached its database, if it can't reach the database now.
        stale_ms: Option<i64>,
    },
    /// The daemon has no such agent or project.
    Unknown,
    /// The daemon answers, but can't reach its database and has no copy of the brief.
    Unavailable,
    /// No daemon answers in time, the daemon answers with another error, or another program answers.
    Away,
}

/// A daemon at a URL.
pub(super) struct Http {
    transport: Transport,
    runtime: Runtime,
    deadline: Instant,
    time_max: Duration,
}

impl Http {
    /// Returns a daemon at `base` that may be asked until `deadline`. Each request may take `time_max`. `None` if the
    /// URL is unusable.
    pub(super) fn new(base: &str, deadline: Instant, time_max: Duration) -> Option<Self> {
        let timeout_ms = u64::try_from(time_max.as_millis()).ok()?;
        let settings = HttpSettings { timeout_ms, connect_timeout_ms: timeout_ms, proxy_url: None };
        Some(Self {
            transport: Transport::new(&base.parse().ok()?, &settings).ok()?,
            runtime: tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?,
            deadline,
            time_max,
        })
    }

    pub(super) fn with_credentials(self, credentials: Credentials) -> Self {
        Self { transport: self.transport.with_credentials(credentials), ..self }
    }

    /// Reads a brief. If the project has no agent yet, first puts its former agent into it.
    pub(super) fn brief(&self, subject: BriefSubject<'_>, chars_max: usize, tokens_max: i64) -> DaemonAnswer {
        let path = format!("{}&max_chars={chars_max}&max_tokens={tokens_max}", subject.path());
        let read = || self.send(self.request(Method::GET, &path).header("accept", "text/markdown"));
        let is_unknown = |reply: &HttpReply| reply.status == 404 && is_problem(reply);
        let reply = match (read(), subject.project()) {
            (Ok(reply), Some(project)) if is_unknown(&reply) && self.adopt(project) => read(),
            (reply, _) => reply,
        };
        match reply {
            Ok(reply) if is_unknown(&reply) => DaemonAnswer::Unknown,
            Ok(reply) if reply.status == 200 => parse_brief(&reply).unwrap_or(DaemonAnswer::Away),
            Ok(reply) if reply.status == 503 => DaemonAnswer::Unavailable,
            _ => DaemonAnswer::Away,
        }
    }

    /// Puts the former agent of a project into the project. Returns false if there is no such agent or it belongs to
    /// another project.
    fn adopt(&self, project: &SessionProject) -> bool {
        let path = format!("/v1/agents/{}", project.former);
        let row = self.send(self.request(Method::GET, &path)).ok();
        let row = row.filter(|reply| reply.status == 200);
        let row: Option<serde_json::Value> = row.and_then(|reply| serde_json::from_slice(&reply.body).ok());
        row.is_some_and(|row| row["project_id"].is_null())
            && self.put(project, &project.former).is_ok_and(|status| status == 200)
    }

    fn put(&self, project: &SessionProject, agent: &AgentId) -> Result<u16, String> {
        let path = format!("/v1/projects/{}/agents/{agent}", project.id);
        let reply = self.send(self.request(Method::PUT, &path))?;
        Ok(reply.status.as_u16())
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.transport.request(method, self.transport.at(path))
    }

    /// Returns how long a request that is sent now may take.
    fn time_left(&self) -> Duration {
        let remaining = self.deadline.saturating_duration_since(Instant::now());
        remaining.min(self.time_max)
    }

    fn send(&self, request: RequestBuilder) -> Result<HttpReply, String> {
        let time = self.time_left();
        if time < TIME_MIN {
            return Err("no time is left".to_owned());
        }
        let reply = self.runtime.block_on(self.transport.send(request.timeout(time), RESPONSE_BYTES_MAX));
        reply.map_err(|error| error.to_string())
    }
}

impl Daemon for Http {
    fn append(&self, agent: &AgentId, format: &str, lines: String) -> Result<(), SendFailure> {
        let path = format!("/v1/agents/{agent}/messages?format={format}");
        let request = self
            .request(Method::POST, &path)
            .header("content-type", "application/x-ndjson")
            .header("recapd-source", "transcript")
            .body(lines);
        let (began, time) = (Instant::now(), self.time_left());
        let reply = self.send(request).map_err(|reason| {
            if time >= TIME_MIN && began.elapsed() < time {
                SendFailure::Away(reason)
            } else if time >= self.time_max / SLOW_SHARE {
                SendFailure::Late(reason)
            } else {
                SendFailure::OutOfTime
            }
        })?;
        verdict(&reply)
    }

    fn join(&self, project: &SessionProject, agent: &AgentId) -> bool {
        let path = format!("/v1/projects/{}/summary?view=brief", project.id);
        let summary = self.send(self.request(Method::GET, &path));
        if summary.is_ok_and(|reply| reply.status == 404) {
            self.adopt(project);
        }
        self.put(project, agent).is_ok_and(|status| status < 500)
    }
}

/// Checks that the daemon confirms that the messages are stored.
fn verdict(reply: &HttpReply) -> Result<(), SendFailure> {
    let reason = || format!("{}: {}", reply.status, String::from_utf8_lossy(&reply.body));
    match reply.status.as_u16() {
        200..300 if is_receipt(reply) => Ok(()),
        status if REFUSALS.contains(&status) && is_problem(reply) => Err(SendFailure::Refused(reason())),
        _ if is_problem(reply) => Err(SendFailure::Declined(reason())),
        _ => Err(SendFailure::Away(reason())),
    }
}

/// Parses the brief in an answer; `None` if another program answers.
fn parse_brief(reply: &HttpReply) -> Option<DaemonAnswer> {
    Some(DaemonAnswer::Brief {
        version: reply.header("recapd-version")?.parse().ok()?,
        stale_ms: reply.header("recapd-stale").map(age_ms),
        text: String::from_utf8_lossy(&reply.body).into_owned(),
    })
}

/// Parses the age of a copy, such as `41s`, into milliseconds.
fn age_ms(text: &str) -> i64 {
    let seconds: i64 = text.trim_end_matches('s').parse().unwrap_or_default();
    seconds.saturating_mul(SECOND_MS)
}

/// True if the answer is the daemon's confirmation of stored messages.
fn is_receipt(reply: &HttpReply) -> bool {
    let body: Option<serde_json::Value> = serde_json::from_slice(&reply.body).ok();
    body.is_some_and(|body| body["accepted"].is_i64() && body["duplicates"].is_i64())
}

/// True if the answer is a problem in the daemon's format. Another program's answer isn't.
fn is_problem(reply: &HttpReply) -> bool {
    reply.header("content-type").is_some_and(|kind| kind.starts_with(PROBLEM))
}

#[cfg(test)]
mod tests {
    use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};

    use super::*;

    fn reply(status: u16, kind: &'static str, body: &str) -> HttpReply {
        let kind = HeaderValue::from_static(kind);
        HttpReply {
            status: status.try_into().unwrap(),
            headers: HeaderMap::from_iter([(CONTENT_TYPE, kind)]),
            body: body.as_bytes().to_vec(),
        }
    }

    #[test]
    fn an_answer_stores_refuses_or_declines_messages_or_comes_from_another_program() {
        let receipt = reply(200, "application/json", r#"{"accepted":1,"duplicates":0}"#);
        assert_eq!(verdict(&receipt), Ok(()));
        for status in REFUSALS {
            let failure = verdict(&reply(status, PROBLEM, "{}")).unwrap_err();
            assert!(matches!(failure, SendFailure::Refused(_)), "{failure:?}");
        }
        for status in [401, 403, 404, 429, 500, 503] {
            let failure = verdict(&reply(status, PROBLEM, "{}")).unwrap_err();
            assert!(matches!(failure, SendFailure::Declined(_)), "{failure:?}");
        }
        for status in [200, 400, 404, 500] {
            let failure = verdict(&reply(status, "text/html", "It works!")).unwrap_err();
            assert!(matches!(failure, SendFailure::Away(_)), "{failure:?}");
        }
    }
}
