//! The time that the proxy adds to a request. Three requests take turns in one process: one that is only relayed, one
//! whose conversation is observed, and one whose first half has left the window.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use axum::{Router, extract::DefaultBodyLimit, routing::any};
use bytes::Bytes;
use recapd_config::{Config, ProxyMode};
use recapd_core::{
    domain::{
        continuation::{ContentUnit, beginnings},
        message::Format,
        time::Timestamp,
    },
    formats::request::{SentMessage, conversation},
};
use recapd_platform::{
    clock::{Clock, SystemClock},
    http_client::relay_client,
};
use recapd_proxy::{DaemonAnswer, Proxy, ProxyDaemon, ProxyListener, ProxySettings, serve};
use recapd_telemetry::metrics::Metrics;
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use tokio::{net::TcpListener, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{KIB, Scale, messages, request};

/// The bytes of a request, and how often it is sent each way.
const SIZES: [(usize, usize); 3] = [(16 * KIB, 2_000), (KIB * KIB, 400), (30 * KIB * KIB, 30)];
/// The size of the text that replaces what has left the window: about 10,000 tokens.
const TEXT_BYTES: usize = 40 * KIB;
/// The provider's answer.
const ANSWER: &str = r#"{"type":"message","role":"assistant","content":[{"type":"text","text":"Done."}]}"#;

/// A daemon that answers without delay, and whose window has lost the first part of a conversation.
#[derive(Default)]
struct QuickDaemon {
    replaced: Mutex<Value>,
}

impl QuickDaemon {
    /// Removes half of the conversation from the window.
    fn evict(&self, body: &Bytes) {
        let body = std::str::from_utf8(body).unwrap();
        let sent = conversation(Format::Anthropic, Some(Format::ClaudeCode), body).unwrap();
        let units: Vec<ContentUnit> = sent.iter().flat_map(SentMessage::units).collect();
        let count = units.len() / 4 * 2;
        let hash = beginnings(0, units).nth(count - 1).unwrap();
        *self.replaced.lock().unwrap() = json!({
            "agent_id": "a", "summary_version": 1, "units": count, "hash": format!("{hash:016x}"), "tag": count.to_string(),
            "text": "What was said before. ".repeat(TEXT_BYTES / 22),
        });
    }
}

#[async_trait]
impl ProxyDaemon for QuickDaemon {
    async fn post(&self, path: &str, _: Bytes) -> Result<DaemonAnswer, String> {
        let answer = if path.contains("/replacement") {
            self.replaced.lock().unwrap().to_string()
        } else {
            r#"{"agent_id":"a"}"#.to_owned()
        };
        Ok(DaemonAnswer { status: StatusCode::OK, body: answer.into() })
    }
}

/// Sends a request; checks the `x-recapd` header against `says`.
async fn ask(client: &Client, url: &str, body: Bytes, says: Option<&str>) -> Duration {
    let began = Instant::now();
    let request = client.post(url).header("x-claude-code-session-id", "bench").body(body);
    let answer = request.send().await.unwrap();
    let said = answer.headers().get("x-recapd").map(|said| said.to_str().unwrap());
    assert_eq!(said.and_then(|said| said.split(';').next()), says);
    assert_eq!(answer.bytes().await.unwrap(), ANSWER);
    began.elapsed()
}

pub(crate) fn milliseconds(times: &mut [Duration], share: usize) -> f64 {
    times.sort_unstable();
    times[(times.len() - 1) * share / 100].as_secs_f64() * 1_000.0
}

/// Starts a proxy. Returns its base URL.
async fn proxy(config: &Config, daemon: &Arc<dyn ProxyDaemon>, tasks: &TaskTracker) -> String {
    let metrics = Metrics::new(Timestamp(0), &[]);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let proxy = Proxy::new(ProxySettings::from(&config.proxy), daemon, &clock, metrics, tasks).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tasks.spawn(serve(ProxyListener::Tcp(listener), proxy, CancellationToken::new()));
    base
}

pub(crate) async fn measure(scale: Scale) {
    let tasks = TaskTracker::new();
    let provider = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut config = Config::default();
    config.proxy.anthropic_url = format!("http://{}", provider.local_addr().unwrap());
    // The proxy must not give up while it is measured.
    config.proxy.decide_ms = 10_000;
    let app = Router::new()
        .fallback(any(|_: Bytes| async { ([("content-type", "application/json")], ANSWER) }))
        .layer(DefaultBodyLimit::disable());
    tasks.spawn(async move { axum::serve(provider, app).await.unwrap() });
    let quick = Arc::new(QuickDaemon::default());
    let daemon: Arc<dyn ProxyDaemon> = Arc::<QuickDaemon>::clone(&quick);
    let observer = proxy(&config, &daemon, &tasks).await;
    config.proxy.mode = ProxyMode::Window;
    let cutter = proxy(&config, &daemon, &tasks).await;

    let client = relay_client(1_000).unwrap();
    // All requests go to the same provider; the proxy neither reads nor stores the first one.
    let ways = [
        ("relayed", format!("{observer}/v1/messages/batches"), None),
        ("observed", format!("{observer}/v1/messages"), Some("observed")),
        ("windowed", format!("{cutter}/v1/messages"), Some("windowed")),
    ];
    println!("{:>10}  {:>10}  {:>16}  {:>16}", "bytes", "way", "p50, p99 ms", "added p50, p99");
    for (bytes, count) in SIZES {
        let mut said = messages(bytes);
        said.push(json!({"role": "user", "content": "Go on."}));
        let (body, count) = (request(&said), scale.of(count / 10, count));
        quick.evict(&body);
        let mut times = [const { Vec::new() }; 3];
        for _ in 0..count {
            for ((_, url, says), times) in ways.iter().zip(&mut times) {
                times.push(ask(&client, url, body.clone(), *says).await);
            }
        }
        let shares = times.map(|mut times| [50, 99].map(|share| milliseconds(&mut times, share)));
        for ((name, ..), [p50, p99]) in ways.iter().zip(shares) {
            let [added50, added99] = [p50 - shares[0][0], p99 - shares[0][1]];
            println!("{bytes:>10}  {name:>10}  {p50:>8.2} {p99:>7.2}  {added50:>8.2} {added99:>7.2}");
        }
    }
}
