//! The HTTP interface on a free port of 127.0.0.1, over a SQLite database of its own.

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use recapd_api::{
    access::{Access, audit::Audit, digest_of},
    http::{self, HttpState, Interface},
};
use recapd_config::Config;
use recapd_core::domain::{
    access::{Reach, Scope},
    time::Timestamp,
};
use recapd_engine::assembly::{self, Parts};
use recapd_llm::{
    http::{HttpReply, HttpSettings, client, send},
    offline::OfflineModel,
};
use recapd_platform::clock::{Clock, ManualClock};
use recapd_store::{
    SqlStore,
    access::{AccessStore as _, NewToken, TokenOutcome},
};
use reqwest::{Client, Method, RequestBuilder};
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    PATIENCE,
    backend::{sqlite_settings, write_sqlite},
    port::Port,
    troubled_store::TroubledStore,
};

/// The initial time of every server's clock.
pub(crate) const START: &str = "2026-11-20T08:40:00Z";

/// A running interface. Nothing is summarised until a test drains the worker.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) parts: Parts,
    pub(crate) access: Arc<Access>,
    pub(crate) interface: Interface,
    pub(crate) target: Arc<SqlStore>,
    pub(crate) store: Arc<TroubledStore>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
    pub(crate) writes: TaskTracker,
    client: Client,
    folder: TempDir,
    /// Keeps the port reserved after the server's end.
    _port: Port,
}

fn with_small_window(config: &mut Config) {
    config.window.budget_tokens = 200;
    config.window.low_water = 0.5;
}

impl Server {
    pub(crate) async fn small() -> Self {
        Self::start(with_small_window).await
    }

    /// A server with a small window, and an agent with some summarised exchanges.
    pub(crate) async fn summarised() -> Self {
        let server = Self::small().await;
        server.converse("coder", 1..=8).await;
        server.summarise().await;
        server
    }

    /// A server with an agent whose exchanges are half a year old: summarised ones have left the document.
    pub(crate) async fn quiet() -> Self {
        let server = Self::start(|config| {
            with_small_window(config);
            config.summary.drop_older = true;
        })
        .await;
        for number in 1..=8 {
            let at = "2026-05-20T08:40:00Z";
            let body = serde_json::json!([
                { "kind": "user", "content": format!("Fix bug {number} in parser.rs\n{}", "please ".repeat(30)), "at": at },
                { "kind": "assistant", "content": format!("Fixed bug {number}."), "at": at },
            ]);
            let reply = server.post("/v1/agents/coder/messages", body.to_string()).await;
            assert_eq!(reply.status, 200, "{}", reply.body);
        }
        server.summarise().await;
        server
    }

    /// A server with the defaults, as changed by `configure`.
    pub(crate) async fn start(configure: impl FnOnce(&mut Config)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        write_sqlite(&folder).await;
        config.database.url = sqlite_settings(&folder).url;
        configure(&mut config);
        let settings = assembly::database_settings(&config.database);
        let inner = Arc::new(SqlStore::open(&settings).await.unwrap());
        let store = Arc::new(TroubledStore::new(Arc::clone(&inner) as _));
        let clock = Arc::new(ManualClock::new(Timestamp::parse(START).unwrap()));
        let parts = Parts::new(
            (&config, config.spend.prices().unwrap()),
            Arc::clone(&store) as _,
            Arc::new(OfflineModel),
            Arc::clone(&clock) as Arc<dyn Clock>,
            "test",
            7,
        )
        .with_embeddings(&config, Arc::clone(&inner) as _, None)
        .unwrap();
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let access = Access::new(Arc::clone(&inner) as _, Arc::clone(&clock) as _, config.http.require_token);
        let access = Arc::new(access);
        let mut state = HttpState::over(&parts, Arc::clone(&inner), Arc::clone(&access), stop.clone());
        let (audit, recording) = Audit::with_writer(parts.metrics.clone(), config.http.audit_rows_max);
        state.audit = audit;
        tasks.spawn(recording.run(Arc::clone(&inner) as _, stop.clone()));
        let writes = state.writes.clone();
        let port = Port::reserve();
        let address = port.address();
        let listener = TcpListener::bind(address).await.unwrap();
        let settings = http::HttpSettings::from(&config);
        let limits = settings.connections;
        let interface = http::interface(state, settings);
        tasks.spawn(http::serve(listener, interface.clone(), limits, stop.clone()));
        tasks.spawn(parts.clone().follow_changes(stop.clone()));
        tasks.close();
        Self {
            address,
            parts,
            access,
            interface,
            target: inner,
            store,
            clock,
            stop,
            tasks,
            writes,
            client: client(&HttpSettings::default()).unwrap(),
            folder,
            _port: port,
        }
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.folder.path().join("recapd.db")
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("http://{}{path}", self.address)).header("x-request-id", "test")
    }

    /// Builds a request with the token `rcp_TOKEN`, or without one.
    pub(crate) fn request_by(&self, token: Option<&str>, method: Method, path: &str) -> RequestBuilder {
        let request = self.request(method, path);
        match token {
            Some(token) => request.bearer_auth(format!("rcp_{token}")),
            None => request,
        }
    }

    /// Stores the token `rcp_NAME`, and waits until it is known.
    pub(crate) async fn keep_token(&self, name: &str, scope: Scope, reach: Reach) {
        self.keep_token_until(name, scope, reach, None).await;
    }

    /// The same as [`Self::keep_token`], for a token that expires.
    pub(crate) async fn keep_token_until(
        &self,
        name: &str,
        scope: Scope,
        reach: Reach,
        expires_at: Option<Timestamp>,
    ) {
        let token = NewToken {
            name: name.parse().unwrap(),
            digest: digest_of(&format!("rcp_{name}")),
            scope,
            reach,
            expires_at,
        };
        let now = Timestamp::parse(START).unwrap();
        let kept = self.target.keep_token(token, now).await.unwrap();
        assert_eq!(kept, TokenOutcome::Done);
        self.access.refresh().await.unwrap();
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        Reply::of(self.request(Method::GET, path)).await
    }

    pub(crate) async fn get_as(&self, path: &str, accept: &str) -> Reply {
        Reply::of(self.request(Method::GET, path).header("accept", accept)).await
    }

    pub(crate) async fn post(&self, path: &str, body: impl Into<String>) -> Reply {
        self.post_as(path, "application/json", body).await
    }

    pub(crate) async fn post_as(&self, path: &str, content_type: &str, body: impl Into<String>) -> Reply {
        let request = self.request(Method::POST, path).header("content-type", content_type);
        Reply::of(request.body(body.into())).await
    }

    /// Appends finished exchanges to `agent`, one per request: a question of about 40 tokens, and an answer.
    pub(crate) async fn converse(&self, agent: &str, exchanges: std::ops::RangeInclusive<i64>) -> Reply {
        let mut last = None;
        for number in exchanges {
            let body = serde_json::json!([
                { "role": "user", "content": format!("Fix bug {number} in parser.rs\n{}", "please ".repeat(30)) },
                { "role": "assistant", "content": format!("Fixed bug {number}: the loop ended too early.") },
            ]);
            let reply = self.post(&format!("/v1/agents/{agent}/messages"), body.to_string()).await;
            assert_eq!(reply.status, 200, "{}", reply.body);
            last = Some(reply);
        }
        last.unwrap()
    }

    /// A server with an agent `coder` that works on its second exchange in several legs.
    pub(crate) async fn in_legs() -> Self {
        let server = Self::start(|config| {
            config.window.budget_tokens = 300;
            config.window.low_water = 0.5;
            config.window.leg_tokens = 60;
        })
        .await;
        server.converse("coder", 1..=1).await;
        let request =
            serde_json::json!({ "role": "user", "content": "Fix all linting errors\nand say which" });
        server.say("coder", vec![request]).await;
        server.work("coder", 1..=8).await;
        server
    }

    /// Appends rounds of about 50 tokens to the open exchange of `agent`.
    pub(crate) async fn work(&self, agent: &str, rounds: std::ops::RangeInclusive<i64>) {
        let round = |number: i64| {
            let call = serde_json::json!({ "id": format!("c{number}"), "type": "function",
                "function": { "name": "lint", "arguments": "{}" } });
            [
                serde_json::json!({ "role": "assistant", "content": format!("I look at file {number}."), "tool_calls": [call] }),
                serde_json::json!({ "role": "tool", "tool_call_id": format!("c{number}"),
                    "content": format!("{} in file {number}", "warning ".repeat(20)) }),
            ]
        };
        self.say(agent, rounds.flat_map(round).collect()).await;
    }

    pub(crate) async fn say(&self, agent: &str, messages: Vec<Value>) {
        let path = format!("/v1/agents/{agent}/messages");
        let reply = self.post(&path, Value::from(messages).to_string()).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
    }

    /// Advances the clock beyond all waits, and makes the due updates.
    pub(crate) async fn summarise(&self) {
        self.clock.advance_ms(10 * 60 * 1_000);
        self.parts.worker.drain().await.unwrap();
    }

    /// Repeats the request until the answer is as wanted.
    pub(crate) async fn get_until(&self, path: &str, is_wanted: impl Fn(&Reply) -> bool + Sync) -> Reply {
        let asking = async {
            loop {
                let reply = self.get(path).await;
                if is_wanted(&reply) {
                    return reply;
                }
            }
        };
        tokio::time::timeout(PATIENCE, asking).await.expect("it comes soon")
    }

    /// Ends the server and waits for that.
    pub(crate) async fn end(&self) {
        self.stop.cancel();
        tokio::time::timeout(PATIENCE, self.tasks.wait()).await.expect("it ends");
    }
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: String,
    headers: reqwest::header::HeaderMap,
}

impl Reply {
    pub(crate) async fn of(request: RequestBuilder) -> Self {
        let HttpReply { status, headers, body } = send(request).await.unwrap();
        Self { status: status.as_u16(), body: String::from_utf8(body).unwrap(), headers }
    }

    /// A header's value; empty if it is missing.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// All headers in the order of arrival.
    pub(crate) fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// The body as JSON with sorted keys, for snapshots.
    pub(crate) fn pretty(&self) -> String {
        serde_json::to_string_pretty(&self.json()).unwrap()
    }

    /// Asserts that this is a well-formed problem with this status and code, and returns it.
    pub(crate) fn problem(&self, status: u16, code: &str) -> Value {
        let problem = self.json();
        assert_eq!(
            (self.status, self.header("content-type")),
            (status, "application/problem+json"),
            "{problem}"
        );
        assert_eq!(problem["code"], code, "{problem}");
        assert_eq!(problem["status"], status, "{problem}");
        assert_eq!(problem["type"], format!("urn:recapd:problem:{code}"));
        assert_eq!(problem["instance"], format!("urn:recapd:request:{}", self.header("x-request-id")));
        for member in ["title", "detail"] {
            assert_ne!(problem[member].as_str().unwrap_or_default(), "", "{problem}");
        }
        problem
    }
}
