//! Traces: what the real binary sends to a collector, and that nothing waits for it.

use std::{
    process::Stdio,
    sync::{Arc, Mutex},
};

use axum::{Router, body::Bytes, extract::State, http::HeaderMap, http::StatusCode, routing::post};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::Notify, time::timeout};
use tokio_util::task::TaskTracker;

use super::Daemon;
use crate::support::{
    PATIENCE,
    fake_provider::{FakeProvider, Planned, Trouble, Wait},
};

/// A client's own trace.
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";
/// A user's word, and the collector's key.
const CANARY: &str = "cagedcanary";
const KEY: &str = "collectors-key";

/// A collector with the requests it got and the answers it gives.
#[derive(Clone)]
struct Collector {
    calls: Arc<Mutex<Vec<(HeaderMap, String)>>>,
    /// Answers to give before it accepts anything.
    refusals: Arc<Mutex<Vec<StatusCode>>>,
    came: Arc<Notify>,
}

impl Collector {
    /// Listens on a free port, and returns its address.
    async fn start(refusals: &[StatusCode]) -> (Self, String) {
        let collector = Self {
            calls: Arc::default(),
            refusals: Arc::new(Mutex::new(refusals.to_vec())),
            came: Arc::default(),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().route("/v1/traces", post(take)).with_state(collector.clone());
        TaskTracker::new().spawn(async move { axum::serve(listener, router).await.unwrap() });
        (collector, url)
    }

    fn spans(&self) -> Vec<Value> {
        let calls = self.calls.lock().unwrap();
        let bodies = calls.iter().map(|(_, body)| serde_json::from_str::<Value>(body).unwrap());
        bodies
            .flat_map(|body| body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone())
            .collect()
    }

    async fn until(&self, is_wanted: impl Fn(&Value) -> bool + Sync) -> Value {
        let looking = async {
            loop {
                let came = self.came.notified();
                if let Some(span) = self.spans().into_iter().find(&is_wanted) {
                    return span;
                }
                came.await;
            }
        };
        timeout(PATIENCE, looking).await.unwrap_or_else(|_| panic!("not among {:#?}", self.spans()))
    }
}

async fn take(
    State(collector): State<Collector>,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, &'static str) {
    let refusal = collector.refusals.lock().unwrap().pop();
    if let Some(refusal) = refusal {
        return (refusal, "");
    }
    let body = String::from_utf8(body.to_vec()).unwrap();
    collector.calls.lock().unwrap().push((headers, body));
    collector.came.notify_waiters();
    (StatusCode::OK, "{}")
}

/// The value of an attribute; null if there is none.
fn attribute<'a>(span: &'a Value, name: &str) -> &'a Value {
    const NONE: &Value = &Value::Null;
    let attributes = span["attributes"].as_array().unwrap();
    let found = attributes.iter().find(|attribute| attribute["key"] == name);
    found.map_or(NONE, |found| found["value"].as_object().unwrap().values().next().unwrap())
}

async fn say(daemon: &Daemon, number: u32) {
    let ask = format!("Question {number} of the {CANARY}: why? ").repeat(8);
    let messages = json!([{"kind": "user", "content": ask}, {"kind": "assistant", "content": CANARY}]);
    let request = daemon.client.post(daemon.url("/v1/agents/coder/messages?format=native"));
    let request = request
        .header("content-type", "application/json")
        .header("traceparent", format!("00-{TRACE}-{CALLER}-01"))
        .body(messages.to_string());
    assert!(request.send().await.unwrap().status().is_success());
}

/// A daemon that sends its traces to `url` because of OpenTelemetry's variables. Traces don't depend on the log level.
async fn traced(fake: &FakeProvider, url: &str) -> Daemon {
    let environment = [
        ("OPENAI_API_KEY", "key"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", url),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20collectors-key"),
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test"),
    ];
    let settings = ["queue.attempts_max=100", "trace.gather_ms=20"];
    let daemon = Daemon::start_with(fake, &settings, &environment, Stdio::inherit());
    daemon.until_ready().await;
    daemon
}

#[tokio::test]
async fn a_requests_span_has_its_client_as_parent_and_holds_no_text() {
    let (collector, url) = Collector::start(&[]).await;
    let fake = FakeProvider::start();
    let mut daemon = traced(&fake, &url).await;
    for number in 1..=2 {
        say(&daemon, number).await;
    }
    daemon.until_version(1).await;
    let request = collector.until(|span| span["name"] == "POST /v1/agents/{id}/messages").await;
    assert_eq!(
        (&request["traceId"], &request["parentSpanId"], &request["kind"]),
        (&json!(TRACE), &json!(CALLER), &json!(2))
    );
    assert_eq!(attribute(&request, "http.response.status_code"), "200");
    collector.until(|span| span["name"] == "upsert_memory").await;
    // The second read is served from memory.
    for reader in ["00f067aa0ba90301", "00f067aa0ba90302"] {
        let read = daemon.client.get(daemon.url("/v1/agents/coder/summary"));
        let read = read.header("traceparent", format!("00-{TRACE}-{reader}-01"));
        assert!(read.send().await.unwrap().status().is_success());
        collector.until(|span| span["parentSpanId"] == reader).await;
    }
    let is_probe = |span: &Value| span["name"].as_str().unwrap().contains("readyz");
    assert!(!collector.spans().iter().any(is_probe));
    // The daemon counts spans once the collector has confirmed them.
    daemon
        .until("what was sent is counted", async |daemon: &Daemon| {
            daemon.metric("recapd_trace_spans_total{outcome=\"sent\"}").await > 0
        })
        .await;
    daemon.end().await;

    let calls = collector.calls.lock().unwrap().clone();
    let (headers, body) = &calls[0];
    assert_eq!(headers["authorization"], format!("Bearer {KEY}"));
    assert_eq!(headers["content-type"], "application/json");
    let body: Value = serde_json::from_str(body).unwrap();
    let resource = body["resourceSpans"][0]["resource"].to_string();
    assert!(
        resource.contains("\"recapd\"") && resource.contains("deployment.environment.name"),
        "{resource}"
    );
    for (_, body) in &calls {
        assert!(!body.contains(CANARY) && !body.contains(KEY), "{body}");
    }
}

#[tokio::test]
async fn a_models_call_has_its_update_as_parent() {
    let (collector, url) = Collector::start(&[]).await;
    let fake = FakeProvider::start();
    let mut daemon = traced(&fake, &url).await;
    fake.plan([Planned::Trouble(Trouble::Server, Wait::Unsaid)]);
    for number in 1..=2 {
        say(&daemon, number).await;
    }
    daemon.until_version(1).await;
    let call = collector
        .until(|span| span["kind"] == 3 && attribute(span, "gen_ai.usage.output_tokens").is_string())
        .await;
    assert!(call["name"].as_str().unwrap().starts_with("chat "), "{call}");
    assert_eq!(attribute(&call, "gen_ai.provider.name"), "openai");
    let update = collector.until(|span| span["spanId"] == call["parentSpanId"]).await;
    assert_eq!((&update["name"], &update["traceId"]), (&json!("upsert_memory"), &call["traceId"]));
    assert_eq!(attribute(&update, "gen_ai.conversation.id"), "coder");
    assert_eq!(attribute(&update, "recapd.outcome"), "completed");

    let failed = collector.until(|span| span["kind"] == 3 && span["status"]["code"] == 2).await;
    assert_eq!(attribute(&failed, "error.type"), "provider_server");
    let tried = collector.until(|span| span["spanId"] == failed["parentSpanId"]).await;
    assert_eq!(tried["status"]["code"], 2);
    assert_eq!(attribute(&tried, "recapd.outcome"), "retried");
    daemon.end().await;
}

#[tokio::test]
async fn spans_are_resent_and_flushed_when_the_daemon_ends() {
    let (collector, url) = Collector::start(&[StatusCode::SERVICE_UNAVAILABLE]).await;
    let fake = FakeProvider::start();
    let traced = format!("trace.otlp_url={url}/v1/traces");
    let environment = [("OPENAI_API_KEY", "key")];
    let settings = [traced.as_str(), "trace.service_name=web", "trace.gather_ms=500"];
    let mut daemon = Daemon::start_with(&fake, &settings, &environment, Stdio::inherit());
    daemon.until_ready().await;
    let posts = || {
        let spans = collector.spans().into_iter();
        spans.filter(|span| span["traceId"] == TRACE).count()
    };
    say(&daemon, 1).await;
    // It was refused at first.
    collector.until(|span| span["traceId"] == TRACE).await;
    let before = posts();
    say(&daemon, 2).await;
    // A new span waits for others to be sent with; the daemon's end doesn't wait.
    daemon.end().await;
    assert!(posts() > before, "the last one is there, too");
    assert!(collector.calls.lock().unwrap()[0].1.contains("\"web\""));
}

#[tokio::test]
async fn a_collector_that_is_away_holds_nothing_up() {
    let fake = FakeProvider::start();
    let environment = [("OPENAI_API_KEY", "key")];
    // No collector listens there.
    let mut daemon =
        Daemon::start_with(&fake, &["trace.otlp_url=http://127.0.0.1:9"], &environment, Stdio::null());
    daemon.until_ready().await;
    for number in 1..=3 {
        say(&daemon, number).await;
    }
    daemon.until_version(1).await;
    daemon.end().await;
}
