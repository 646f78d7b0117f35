//! The proxy between agents and their providers: real sockets, a daemon's interface behind it, a provider that echoes.

mod compaction;
mod passing;
mod restart;
mod storing;
mod traffic;
mod window;

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{DefaultBodyLimit, State},
    http::{HeaderMap, Method, Uri},
    response::Response,
};
use recapd_client::{DaemonEndpoint, Transport};
use recapd_config::{Config, ProxyMode};
use recapd_platform::{
    clock::{Clock, SystemClock},
    http_client::{HttpSettings, relay_client},
};
use recapd_proxy::{Proxy, ProxyDaemon, ProxyListener, ProxySettings, RemoteDaemon, serve};
use recapd_telemetry::metrics::Metrics;
use reqwest::Client;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::support::server::Server;

/// A request as the provider got it.
#[derive(Clone, Debug)]
struct Received {
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Bytes,
}

/// A provider that answers as planned, and else with a short text.
#[derive(Clone, Default)]
struct Upstream {
    received: Arc<Mutex<Vec<Received>>>,
    planned: Arc<Mutex<VecDeque<Response>>>,
}

impl Upstream {
    async fn start(self, stop: CancellationToken, tasks: &TaskTracker) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = Router::new().fallback(answer).layer(DefaultBodyLimit::disable()).with_state(self);
        tasks.spawn(async move {
            let serving = axum::serve(listener, app);
            stop.run_until_cancelled(serving.into_future()).await
        });
        address
    }

    fn plan(&self, answer: Response) {
        self.planned.lock().unwrap().push_back(answer);
    }

    fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }
}

async fn answer(
    State(upstream): State<Upstream>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let path = uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    let is_chat = path.contains("/chat/");
    upstream.received.lock().unwrap().push(Received { method, path, headers, body });
    let planned = upstream.planned.lock().unwrap().pop_front();
    planned.unwrap_or_else(|| {
        let said = json!({"role": "assistant", "content": "Done."});
        let body = if is_chat {
            json!({"choices": [{"message": said}]})
        } else {
            json!({"type": "message", "role": "assistant", "content": [{"type": "text", "text": "Done."}]})
        };
        Response::builder()
            .header("content-type", "application/json")
            .body(Body::from(body.to_string()))
            .unwrap()
    })
}

/// A proxy between a provider and a daemon.
struct Rig {
    server: Server,
    upstream: Upstream,
    base: String,
    client: Client,
    metrics: Metrics,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Rig {
    async fn start(mode: ProxyMode) -> Self {
        Self::configured(|config| config.proxy.mode = mode).await
    }

    async fn configured(configure: impl FnOnce(&mut Config)) -> Self {
        let server = Server::start(|_| {}).await;
        let daemon = format!("http://{}", server.address);
        Self::over(server, &daemon, configure).await
    }

    /// A proxy whose daemon listens at `daemon`.
    async fn over(server: Server, daemon: &str, configure: impl FnOnce(&mut Config)) -> Self {
        let (upstream, stop, tasks) = (Upstream::default(), CancellationToken::new(), TaskTracker::new());
        let provider = format!("http://{}", upstream.clone().start(stop.clone(), &tasks).await);
        let mut config = Config::default();
        config.proxy.anthropic_url.clone_from(&provider);
        config.proxy.openai_url.clone_from(&provider);
        config.proxy.gemini_url.clone_from(&provider);
        configure(&mut config);
        let place: DaemonEndpoint = daemon.parse().unwrap();
        let transport = Transport::new(&place, &HttpSettings::default()).unwrap();
        let daemon: Arc<dyn ProxyDaemon> = Arc::new(RemoteDaemon::new(transport));
        let metrics = Metrics::new(recapd_core::domain::time::Timestamp(0), &[]);
        let token = Some(config.proxy.token_file.clone()).filter(|token| !token.is_empty());
        let settings = ProxySettings::from(&config.proxy).with_token(token.map(Into::into));
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let proxy = Proxy::new(settings, &daemon, &clock, metrics.clone(), &tasks).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        tasks.spawn(serve(ProxyListener::Tcp(listener), proxy, stop.clone()));
        let client = relay_client(1_000).unwrap();
        Self { server, upstream, base, client, metrics, stop, tasks }
    }

    /// Posts `body` to `path`, with these headers.
    async fn post(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<reqwest::Body>,
    ) -> reqwest::Response {
        let mut request = self.client.post(format!("{}{path}", self.base)).body(body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.send().await.unwrap()
    }

    /// Posts messages as a Claude Code session does.
    async fn turn(&self, session: &str, messages: &[Value]) -> reqwest::Response {
        let body = json!({"model": "m", "tools": [{"name": "Bash"}], "messages": messages}).to_string();
        self.post("/v1/messages?beta=true", &[("x-claude-code-session-id", session)], body).await
    }

    /// Stops the proxy once everything is stored.
    async fn settled(self) -> (Server, Metrics) {
        drop(self.client);
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        (self.server, self.metrics)
    }
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn assistant(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

/// The texts of an agent's window, in order.
async fn window(server: &Server, agent: &str) -> Vec<String> {
    let reply = server.get(&format!("/v1/agents/{agent}/context?format=openai&alternation=keep")).await;
    let body: Value = serde_json::from_str(&reply.body).unwrap();
    let texts = body["body"]["messages"].as_array().unwrap_or_else(|| panic!("{}", reply.body)).iter();
    texts
        .map(|message| match &message["content"] {
            Value::String(text) => text.clone(),
            parts => parts[0]["text"].as_str().unwrap_or_default().to_owned(),
        })
        .collect()
}

/// The value of a counter with these labels.
fn counter(metrics: &Metrics, sample: &str) -> u64 {
    let (_, text) = metrics.encode(None);
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("recapd_proxy_{sample} ")));
    line.unwrap_or_else(|| panic!("no {sample} in {text}")).parse().unwrap()
}
