//! What the proxy adds to a request: a conversation that is observed, beside a request that is only relayed, by the same
//! process, in turn.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use axum::{Router, extract::DefaultBodyLimit, routing::any};
use bytes::Bytes;
use recapd_config::Config;
use recapd_core::domain::time::Timestamp;
use recapd_platform::http_client::relay_client;
use recapd_proxy::{DaemonAnswer, Proxy, ProxyDaemon, ProxyListener, ProxySettings, serve};
use recapd_telemetry::metrics::Metrics;
use reqwest::{Client, StatusCode};
use tokio::{net::TcpListener, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{KIB, Scale, messages, request};

/// Bytes of a request, and how often it is sent each way.
const SIZES: [(usize, usize); 3] = [(16 * KIB, 2_000), (KIB * KIB, 400), (30 * KIB * KIB, 30)];
/// The provider's answer.
const ANSWER: &str = r#"{"type":"message","role":"assistant","content":[{"type":"text","text":"Done."}]}"#;

/// A daemon that takes everything at once.
struct QuickDaemon;

#[async_trait]
impl ProxyDaemon for QuickDaemon {
    async fn post(&self, _: &str, _: Bytes) -> Result<DaemonAnswer, String> {
        Ok(DaemonAnswer {
            status: StatusCode::OK,
            body: Bytes::from_static(br#"{"agent_id":"a"}"#),
        })
    }
}

async fn ask(client: &Client, url: &str, body: Bytes) -> Duration {
    let began = Instant::now();
    let request = client
        .post(url)
        .header("x-claude-code-session-id", "bench")
        .body(body);
    let answer = request.send().await.unwrap();
    assert_eq!(answer.bytes().await.unwrap(), ANSWER);
    began.elapsed()
}

pub(crate) fn milliseconds(times: &mut [Duration], share: usize) -> f64 {
    times.sort_unstable();
    times[(times.len() - 1) * share / 100].as_secs_f64() * 1_000.0
}

pub(crate) async fn measure(scale: Scale) {
    let tasks = TaskTracker::new();
    let stop = CancellationToken::new();
    let provider = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut config = Config::default();
    config.proxy.anthropic_url = format!("http://{}", provider.local_addr().unwrap());
    let app = Router::new()
        .fallback(any(|_: Bytes| async {
            ([("content-type", "application/json")], ANSWER)
        }))
        .layer(DefaultBodyLimit::disable());
    tasks.spawn(async move { axum::serve(provider, app).await.unwrap() });
    let daemon: Arc<dyn ProxyDaemon> = Arc::new(QuickDaemon);
    let metrics = Metrics::new(Timestamp(0), &[]);
    let proxy = Proxy::new(ProxySettings::from(&config.proxy), &daemon, metrics, &tasks).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tasks.spawn(serve(ProxyListener::Tcp(listener), proxy, stop.clone()));

    let client = relay_client(1_000).unwrap();
    // Both go to the same provider; only the first is read and stored.
    let (observed, relayed) = (
        format!("{base}/v1/messages"),
        format!("{base}/v1/messages/batches"),
    );
    println!(
        "{:>10}  {:>22}  {:>22}  {:>16}",
        "bytes", "relayed p50, p99 ms", "observed p50, p99 ms", "added p50, p99"
    );
    for (bytes, count) in SIZES {
        let (body, count) = (request(&messages(bytes)), scale.of(count / 10, count));
        let (mut observing, mut relaying) = (Vec::new(), Vec::new());
        for _ in 0..count {
            relaying.push(ask(&client, &relayed, body.clone()).await);
            observing.push(ask(&client, &observed, body.clone()).await);
        }
        let [a, b] = [50, 99].map(|share| milliseconds(&mut relaying, share));
        let [c, d] = [50, 99].map(|share| milliseconds(&mut observing, share));
        println!(
            "{bytes:>10}  {a:>13.2} {b:>8.2}  {c:>13.2} {d:>8.2}  {:>8.2} {:>7.2}",
            c - a,
            d - b
        );
    }
}
