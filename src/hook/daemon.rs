//! The daemon, asked in what is left of a hook's time.

use std::time::Duration;

use reqwest::{Method, RequestBuilder};
use secrecy::SecretString;
use tokio::{runtime::Runtime, time::Instant};

use crate::{
    client::Transport,
    domain::{agent::AgentId, time::SECOND_MS},
    wire::{HttpReply, HttpSettings, RESPONSE_BYTES_MAX, send},
};

/// With less time than this left nothing is asked.
const TIME_MIN: Duration = Duration::from_millis(3);
/// Answers by which the daemon says that a message can't be taken, now or ever.
const REFUSALS: [u16; 4] = [400, 409, 413, 422];
const PROBLEM: &str = "application/problem+json";

/// Why messages aren't stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unsent {
    /// The daemon can't be reached, or not now.
    Away(String),
    /// It didn't answer in time.
    Late(String),
    /// It answers, and doesn't take them now. It may take another agent's.
    Declined(String),
    /// It doesn't take them, and won't later.
    Refused(String),
}

/// Who takes messages.
pub(super) trait Daemon {
    /// Stores messages of a `format`, one per line: all or none.
    fn append(&self, agent: &AgentId, format: &str, lines: String) -> Result<(), Unsent>;
}

/// What the daemon says of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// Its brief, and of which version.
    Brief {
        text: String,
        version: i64,
        /// For how long the daemon itself hasn't reached its database, if it hasn't.
        stale_ms: Option<i64>,
    },
    /// It doesn't know the agent.
    Unknown,
    /// It can't be asked.
    Away,
}

/// A daemon behind an address.
pub(super) struct Http {
    transport: Transport,
    runtime: Runtime,
    deadline: Instant,
    time_max: Duration,
}

impl Http {
    /// The daemon at `base`, which may be asked until `deadline`; no call may take longer than `time_max`.
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

    /// The same, asked with this token.
    pub(super) fn with_token(self, token: Option<SecretString>) -> Self {
        Self {
            transport: self.transport.with_token(token),
            ..self
        }
    }

    /// The brief of `agent`, of at most so many characters and tokens.
    pub(super) fn brief(&self, agent: &AgentId, chars_max: usize, tokens_max: i64) -> Told {
        let path =
            format!("/v1/agents/{agent}/summary?view=brief&max_chars={chars_max}&max_tokens={tokens_max}");
        let request = self.request(Method::GET, &path).header("accept", "text/markdown");
        match self.ask(request) {
            Ok(reply) if reply.status == 404 && is_problem(&reply) => Told::Unknown,
            Ok(reply) if reply.status == 200 => told(&reply).unwrap_or(Told::Away),
            _ => Told::Away,
        }
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.transport.request(method, self.transport.at(path))
    }

    fn ask(&self, request: RequestBuilder) -> Result<HttpReply, String> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left < TIME_MIN {
            return Err("no time is left".to_owned());
        }
        let time = left.min(self.time_max);
        let answered = self
            .runtime
            .block_on(send(request.timeout(time), RESPONSE_BYTES_MAX));
        answered.map_err(|error| error.to_string())
    }
}

impl Daemon for Http {
    fn append(&self, agent: &AgentId, format: &str, lines: String) -> Result<(), Unsent> {
        let path = format!("/v1/agents/{agent}/messages?format={format}");
        let request = self
            .request(Method::POST, &path)
            .header("content-type", "application/x-ndjson")
            .body(lines);
        let began = Instant::now();
        let reply = self.ask(request).map_err(|reason| {
            let is_late = began.elapsed() >= self.time_max || self.deadline <= Instant::now();
            if is_late {
                Unsent::Late(reason)
            } else {
                Unsent::Away(reason)
            }
        })?;
        verdict(&reply)
    }
}

/// What an answer says of the messages that were sent.
fn verdict(reply: &HttpReply) -> Result<(), Unsent> {
    let said = || format!("{}: {}", reply.status, String::from_utf8_lossy(&reply.body));
    match reply.status.as_u16() {
        200..300 if is_receipt(reply) => Ok(()),
        status if REFUSALS.contains(&status) && is_problem(reply) => Err(Unsent::Refused(said())),
        _ if is_problem(reply) => Err(Unsent::Declined(said())),
        _ => Err(Unsent::Away(said())),
    }
}

/// A brief; none if it isn't the daemon that answers, but something else on its port.
fn told(reply: &HttpReply) -> Option<Told> {
    Some(Told::Brief {
        version: reply.header("recapd-version")?.parse().ok()?,
        stale_ms: reply.header("recapd-stale").map(age_ms),
        text: String::from_utf8_lossy(&reply.body).into_owned(),
    })
}

/// How old a copy is: `41s`.
fn age_ms(text: &str) -> i64 {
    let seconds: i64 = text.trim_end_matches('s').parse().unwrap_or_default();
    seconds.saturating_mul(SECOND_MS)
}

/// Whether the daemon says that messages are stored.
fn is_receipt(reply: &HttpReply) -> bool {
    let said: Option<serde_json::Value> = serde_json::from_slice(&reply.body).ok();
    said.is_some_and(|said| said["accepted"].is_i64() && said["duplicates"].is_i64())
}

/// Whether it is the daemon that answers, and not something else on its port.
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
    fn an_answer_is_about_these_messages_about_this_agent_or_no_daemons() {
        let receipt = reply(200, "application/json", r#"{"accepted":1,"duplicates":0}"#);
        assert_eq!(verdict(&receipt), Ok(()));
        for status in REFUSALS {
            let unsent = verdict(&reply(status, PROBLEM, "{}")).unwrap_err();
            assert!(matches!(unsent, Unsent::Refused(_)), "{unsent:?}");
        }
        for status in [401, 403, 404, 429, 500, 503] {
            let unsent = verdict(&reply(status, PROBLEM, "{}")).unwrap_err();
            assert!(matches!(unsent, Unsent::Declined(_)), "{unsent:?}");
        }
        for status in [200, 400, 404, 500] {
            let unsent = verdict(&reply(status, "text/html", "It works!")).unwrap_err();
            assert!(matches!(unsent, Unsent::Away(_)), "{unsent:?}");
        }
    }
}
