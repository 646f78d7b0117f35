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
    /// The time was over before the daemon could answer.
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

    /// Puts `agent` into its project. Returns true if there is nothing left to do: it is done, or the daemon refuses
    /// it.
    fn join(&self, project: &SessionProject, agent: &AgentId) -> bool;
}

/// Whose brief is requested, and what its reader sees already.
#[derive(Clone, Copy)]
pub(super) struct BriefSubject<'a> {
    pub(super) owner: &'a SessionOwner,
    /// What the reader sees of its own past.
    pub(super) view: ReaderView,
}

/// What a session sees of its own past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReaderView {
    /// Everything: the brief is about other sessions.
    Everything,
    /// Nothing any more: the brief is also about this session.
    Nothing,
}

impl BriefSubject<'_> {
    /// Returns the project whose brief is requested; `None` for the agent's own brief.
    pub(super) fn project(&self) -> Option<&SessionProject> {
        let project = self.owner.project.as_ref();
        project.filter(|_| self.view == ReaderView::Everything)
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

/// The daemon's answer about an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DaemonAnswer {
    Brief {
        text: String,
        version: i64,
        /// For this long the daemon hasn't reached its database; `None` if it has.
        stale_ms: Option<i64>,
    },
    Unknown,
    /// The daemon has no copy, and doesn't reach its database.
    Unavailable,
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
        let settings = HttpSettings {
            timeout_ms,
            connect_timeout_ms: timeout_ms,
            proxy_url: None,
        };
        Some(Self {
            transport: Transport::new(&base.parse().ok()?, &settings).ok()?,
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .ok()?,
            deadline,
            time_max,
        })
    }

    pub(super) fn with_credentials(self, credentials: Credentials) -> Self {
        Self {
            transport: self.transport.with_credentials(credentials),
            ..self
        }
    }

    /// Reads a brief. If the project has no agent yet, first puts its former agent into it.
    pub(super) fn brief(&self, subject: BriefSubject<'_>, chars_max: usize, tokens_max: i64) -> DaemonAnswer {
        let path = format!("{}&max_chars={chars_max}&max_tokens={tokens_max}", subject.path());
        let read = || self.ask(self.request(Method::GET, &path).header("accept", "text/markdown"));
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
        let row = self.ask(self.request(Method::GET, &path)).ok();
        let row = row.filter(|reply| reply.status == 200);
        let row: Option<serde_json::Value> = row.and_then(|reply| serde_json::from_slice(&reply.body).ok());
        row.is_some_and(|row| row["project_id"].is_null())
            && self
                .put(project, &project.former)
                .is_ok_and(|status| status == 200)
    }

    fn put(&self, project: &SessionProject, agent: &AgentId) -> Result<u16, String> {
        let path = format!("/v1/projects/{}/agents/{agent}", project.id);
        let reply = self.ask(self.request(Method::PUT, &path))?;
        Ok(reply.status.as_u16())
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.transport.request(method, self.transport.at(path))
    }

    /// Returns how long a request that is sent now may take.
    fn time_left(&self) -> Duration {
        let left = self.deadline.saturating_duration_since(Instant::now());
        left.min(self.time_max)
    }

    fn ask(&self, request: RequestBuilder) -> Result<HttpReply, String> {
        let time = self.time_left();
        if time < TIME_MIN {
            return Err("no time is left".to_owned());
        }
        let answered = self
            .runtime
            .block_on(self.transport.send(request.timeout(time), RESPONSE_BYTES_MAX));
        answered.map_err(|error| error.to_string())
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
        let reply = self.ask(request).map_err(|reason| {
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
        let known = self.ask(self.request(Method::GET, &path));
        if known.is_ok_and(|reply| reply.status == 404) {
            self.adopt(project);
        }
        self.put(project, agent).is_ok_and(|status| status < 500)
    }
}

/// Checks that an answer confirms that the messages are stored.
fn verdict(reply: &HttpReply) -> Result<(), SendFailure> {
    let said = || format!("{}: {}", reply.status, String::from_utf8_lossy(&reply.body));
    match reply.status.as_u16() {
        200..300 if is_receipt(reply) => Ok(()),
        status if REFUSALS.contains(&status) && is_problem(reply) => Err(SendFailure::Refused(said())),
        _ if is_problem(reply) => Err(SendFailure::Declined(said())),
        _ => Err(SendFailure::Away(said())),
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
    let said: Option<serde_json::Value> = serde_json::from_slice(&reply.body).ok();
    said.is_some_and(|said| said["accepted"].is_i64() && said["duplicates"].is_i64())
}

/// True if the answer is a problem in the daemon's format. Another program's answer isn't.
fn is_problem(reply: &HttpReply) -> bool {
    reply
        .header("content-type")
        .is_some_and(|kind| kind.starts_with(PROBLEM))
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
    fn answers_are_classified_as_refused_declined_or_not_a_daemons() {
        let receipt = reply(200, "application/json", r#"{"accepted":1,"duplicates":0}"#);
        assert_eq!(verdict(&receipt), Ok(()));
        for status in REFUSALS {
            let unsent = verdict(&reply(status, PROBLEM, "{}")).unwrap_err();
            assert!(matches!(unsent, SendFailure::Refused(_)), "{unsent:?}");
        }
        for status in [401, 403, 404, 429, 500, 503] {
            let unsent = verdict(&reply(status, PROBLEM, "{}")).unwrap_err();
            assert!(matches!(unsent, SendFailure::Declined(_)), "{unsent:?}");
        }
        for status in [200, 400, 404, 500] {
            let unsent = verdict(&reply(status, "text/html", "It works!")).unwrap_err();
            assert!(matches!(unsent, SendFailure::Away(_)), "{unsent:?}");
        }
    }
}
