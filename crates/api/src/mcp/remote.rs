//! A source that asks another daemon over HTTP.

use std::time::Duration;

use async_trait::async_trait;
use reqwest::{
    Method, RequestBuilder, StatusCode, Url,
    header::{ACCEPT, CONTENT_TYPE, IF_NONE_MATCH},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{
    WAIT_SECONDS,
    source::{AgentsPage, Source, SourceError},
};
use crate::recall::{self, ExpandQuery, ExpandReply, RecallReply};
use recapd_client::{Answerer, Credentials, DaemonEndpoint, EndpointError, Summary, Transport, answerer};
use recapd_core::domain::{
    agent::AgentId,
    cursor::{Cursor, PagedList},
    note::Note,
};
use recapd_engine::ingest::{NoteRequest, NotesReply, WrittenNotesReply};
use recapd_platform::http_client::{HttpClientError, HttpReply, HttpSettings};
use recapd_store::Sample;

const TIMEOUT_MS: u64 = 10_000;
const CONNECT_TIMEOUT_MS: u64 = 1_000;
/// [`Remote::is_there`] waits this long for an answer: longer than for a connection, so that a slow daemon isn't taken
/// for none.
const THERE_TIMEOUT_MS: u64 = 2_000;
/// Limits the answers that are read. An exchange has up to 8 MB of payloads.
const ANSWER_BYTES_MAX: usize = 16 << 20;

const JSON: &str = "application/json";

#[derive(Clone, Debug)]
pub struct Remote {
    transport: Transport,
}

impl Remote {
    /// Returns a source that asks the daemon at `base`, such as `http://127.0.0.1:7411`.
    ///
    /// # Errors
    /// [`SourceError::Refused`] if `base` isn't an address.
    pub fn new(base: &str) -> Result<Self, SourceError> {
        let endpoint: DaemonEndpoint =
            base.parse().map_err(|error: EndpointError| SourceError::Refused(error.to_string()))?;
        let settings =
            HttpSettings { timeout_ms: TIMEOUT_MS, connect_timeout_ms: CONNECT_TIMEOUT_MS, proxy_url: None };
        let transport = Transport::new(&endpoint, &settings);
        let transport = transport.map_err(|error| SourceError::Refused(error.to_string()))?;
        Ok(Self { transport })
    }

    #[must_use]
    pub fn with_credentials(self, credentials: Credentials) -> Self {
        Self { transport: self.transport.with_credentials(credentials) }
    }

    fn get(&self, url: Url) -> RequestBuilder {
        self.transport.request(Method::GET, url)
    }

    /// Checks that a daemon runs. A daemon that accepts the connection but answers slowly counts: it knows who may see
    /// what, and its database may be another than the one that would be used without it. A refused connection or
    /// another program doesn't count.
    pub async fn is_there(&self) -> bool {
        let request = self
            .get(self.url(&["version"], &[]))
            .header(ACCEPT, JSON)
            .timeout(Duration::from_millis(THERE_TIMEOUT_MS));
        match self.transport.send(request, ANSWER_BYTES_MAX).await {
            Ok(reply) => answerer(reply.status, &reply.body) != Answerer::Other,
            Err(error) => matches!(error, HttpClientError::Late(_)),
        }
    }

    fn url(&self, path: &[&str], query: &[(&str, &str)]) -> Url {
        self.transport.url(path, query)
    }

    fn agent_url(&self, agent: &AgentId, path: &[&str], query: &[(&str, &str)]) -> Url {
        let path = [&["v1", "agents", agent.as_str()], path].concat();
        self.url(&path, query)
    }

    async fn ask(
        &self,
        request: RequestBuilder,
        subject: RequestSubject<'_>,
    ) -> Result<HttpReply, SourceError> {
        let reply = self.transport.send(request, ANSWER_BYTES_MAX).await;
        let reply = reply.map_err(|error| {
            let address = self.transport.endpoint();
            tracing::warn!(%error, daemon = %address, "mcp.daemon_unreachable");
            SourceError::Unavailable(match error {
                HttpClientError::Untrusted(why) => why,
                HttpClientError::Late(_) => {
                    format!("the daemon at {address} doesn't answer in time: ask again later")
                }
                _ => format!("the daemon at {address} doesn't answer; is it running?"),
            })
        })?;
        if reply.status.is_success() || reply.status == StatusCode::NOT_MODIFIED {
            return Ok(reply);
        }
        Err(subject.error(&reply))
    }

    async fn json<T: DeserializeOwned>(
        &self,
        url: Url,
        subject: RequestSubject<'_>,
    ) -> Result<T, SourceError> {
        self.read(self.get(url), subject).await
    }

    async fn read<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
        subject: RequestSubject<'_>,
    ) -> Result<T, SourceError> {
        let reply = self.ask(request.header(ACCEPT, JSON), subject).await?;
        serde_json::from_slice(&reply.body).map_err(|error| {
            tracing::error!(%error, daemon = %self.transport.endpoint(), "mcp.answer_unreadable");
            let cure = "is it of the same version as this recapd?";
            SourceError::Unavailable(format!(
                "the daemon at {} gives an answer that this recapd can't read: {cure}",
                self.transport.endpoint()
            ))
        })
    }
}

/// What a request is about. Errors about unknown agents and exchanges name it.
#[derive(Clone, Copy)]
struct RequestSubject<'a> {
    agent: Option<&'a AgentId>,
    /// 0 unless the request is about one exchange.
    exchange: i64,
}

impl<'a> RequestSubject<'a> {
    const ALL: Self = Self { agent: None, exchange: 0 };

    fn of(agent: &'a AgentId) -> Self {
        Self { agent: Some(agent), exchange: 0 }
    }

    fn error(self, reply: &HttpReply) -> SourceError {
        let problem: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        let member = |name: &str| problem.get(name).and_then(Value::as_str).unwrap_or_default();
        match (self.agent.cloned(), member("code")) {
            (Some(agent), "unknown_agent") => SourceError::UnknownAgent(agent),
            (Some(agent), "unknown_exchange") => {
                SourceError::UnknownExchange { agent, exchange: self.exchange }
            }
            (_, "note_changed") => SourceError::NoteChanged(member("detail").to_owned()),
            _ if reply.status.is_client_error() => {
                SourceError::Refused(format!("{}; {}", member("detail"), member("hint")))
            }
            _ => {
                SourceError::Unavailable(format!("the daemon answers {}: {}", reply.status, member("detail")))
            }
        }
    }
}

#[async_trait]
impl Source for Remote {
    async fn agents(&self, after: Option<&AgentId>, limit: i64) -> Result<AgentsPage, SourceError> {
        let limit = limit.to_string();
        let mut query = vec![("limit", limit.as_str())];
        let cursor = after.map(|after| Cursor::after(PagedList::Agents, after).to_string());
        query.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
        self.json(self.url(&["v1", "agents"], &query), RequestSubject::ALL).await
    }

    async fn summary(&self, agent: &AgentId) -> Result<Summary, SourceError> {
        self.json(self.agent_url(agent, &["summary"], &[]), RequestSubject::of(agent)).await
    }

    async fn tag(&self, agent: &AgentId, known_tag: Option<&str>) -> Result<Option<String>, SourceError> {
        let wait = WAIT_SECONDS.to_string();
        let url = self.agent_url(agent, &["summary"], &[("wait", &wait)]);
        let patience = Duration::from_secs(WAIT_SECONDS) + Duration::from_millis(TIMEOUT_MS);
        let mut request = self.get(url).timeout(patience);
        if let Some(known_tag) = known_tag {
            request = request.header(IF_NONE_MATCH, known_tag);
        }
        match self.ask(request, RequestSubject::of(agent)).await {
            Err(SourceError::UnknownAgent(_)) => Ok(None),
            Err(error) => Err(error),
            Ok(reply) => Ok(reply.header("etag").map(str::to_owned)),
        }
    }

    async fn history(&self, agent: &AgentId) -> Result<String, SourceError> {
        let url = self.agent_url(agent, &["history"], &[]);
        let request = self.get(url).header(ACCEPT, "text/plain");
        let reply = self.ask(request, RequestSubject::of(agent)).await?;
        Ok(String::from_utf8_lossy(&reply.body).into_owned())
    }

    async fn window(&self, agent: &AgentId, all: bool) -> Result<Value, SourceError> {
        let which = if all { ("all", "1") } else { ("archived", "0") };
        self.json(self.agent_url(agent, &["history"], &[which]), RequestSubject::of(agent)).await
    }

    async fn recall(&self, agent: &AgentId, parameters: &[(&str, &str)]) -> Result<RecallReply, SourceError> {
        let url = self.agent_url(agent, &["recall"], parameters);
        self.json(url, RequestSubject::of(agent)).await
    }

    async fn expand(
        &self,
        agent: &AgentId,
        exchange: i64,
        query: ExpandQuery,
    ) -> Result<ExpandReply, SourceError> {
        let (number, after, limit) =
            (exchange.to_string(), query.after_seq.to_string(), query.limit.to_string());
        let mut parameters = vec![("after", after.as_str()), ("limit", limit.as_str())];
        let scope = recall::SCOPES.iter().find(|(_, scope)| *scope == query.scope);
        parameters.extend(scope.map(|(name, _)| ("scope", *name)));
        parameters.extend(query.format.map(|format| ("format", format.name())));
        let subject = RequestSubject { agent: Some(agent), exchange };
        self.json(self.agent_url(agent, &["exchanges", &number], &parameters), subject).await
    }

    async fn notes(&self, agent: &AgentId) -> Result<Vec<Note>, SourceError> {
        let url = self.agent_url(agent, &["notes"], &[("texts", "1")]);
        let reply: NotesReply = self.json(url, RequestSubject::of(agent)).await?;
        Ok(reply.notes.into_iter().map(Into::into).collect())
    }

    async fn write_notes(
        &self,
        agent: &AgentId,
        requests: &[NoteRequest],
    ) -> Result<WrittenNotesReply, SourceError> {
        let url = self.agent_url(agent, &["notes"], &[]);
        let body = json!({ "changes": requests }).to_string();
        let request = self.transport.request(Method::POST, url).header(CONTENT_TYPE, JSON);
        self.read(request.body(body), RequestSubject::of(agent)).await
    }

    async fn handoff(&self, agent: &AgentId, max_tokens: Option<i64>) -> Result<String, SourceError> {
        let limit = max_tokens.map(|tokens| tokens.to_string());
        let query: Vec<(&str, &str)> = limit.iter().map(|limit| ("max_tokens", limit.as_str())).collect();
        let url = self.agent_url(agent, &["handoff"], &query);
        let reply: Value = self.json(url, RequestSubject::of(agent)).await?;
        Ok(reply["text"].as_str().unwrap_or_default().to_owned())
    }

    async fn sample(&self) -> Result<Sample, SourceError> {
        self.json(self.url(&["v1", "status"], &[]), RequestSubject::ALL).await
    }
}
