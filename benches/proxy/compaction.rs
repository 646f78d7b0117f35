//! The time of a compaction that `recapd proxy` answers from a daemon.

use std::time::Duration;

use bytes::Bytes;
use recapd_platform::http_client::relay_client;
use reqwest::Client;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{
    KIB, Scale,
    latency::milliseconds,
    messages,
    process::{Process, address, until},
    request,
};

/// About the size of a conversation that a host compacts.
const CONVERSATION_BYTES: usize = 760 * KIB;
const P99_MS_MAX: f64 = 100.0;
const LOOK: Duration = Duration::from_millis(200);
const LOOKS_MAX: usize = 600;
/// After so many answers from one summary version, the summary is up to date.
const SAME: usize = 10;
const ORDER: &str =
    "Your task is to create a detailed summary of the conversation. Use <analysis> and <summary>.";

/// Sends a compaction request. Returns the answer's `x-recapd` header; `None` if the proxy forwarded the request.
async fn ask(client: &Client, url: &str, body: Bytes) -> Option<String> {
    let asked = client
        .post(url)
        .header("x-claude-code-session-id", "0b1c2d3e-0000-4000-8000-000000000001")
        .header("x-claude-code-request-class", "compaction")
        .body(body);
    let answer = asked.send().await.unwrap();
    let says = answer.headers().get("x-recapd").map(|value| value.to_str().unwrap().to_owned());
    answer.bytes().await.unwrap();
    says.filter(|says| says.starts_with("answered"))
}

pub(crate) async fn measure(scale: Scale) {
    let rounds = scale.of(30, 300);
    let folder = tempfile::tempdir().unwrap();
    let (daemon, listen, nobody) = (address(), address(), address());
    let start = |words: String| Process::start(&words.split(' ').map(str::to_owned).collect::<Vec<_>>());
    let database = folder.path().join("bench.db");
    let _daemon = start(format!(
        "serve --listen {daemon} --db {} --set model.mode=offline --set queue.debounce_ms=0",
        database.display()
    ));
    let _proxy = start(format!(
        "proxy --listen {listen} --server http://{daemon} --set proxy.mode=answer --set proxy.anthropic_url=http://{nobody}"
    ));
    let client = relay_client(5_000).unwrap();
    until(&client, &format!("http://{daemon}/readyz")).await;
    until(&client, &format!("http://{listen}/recapd/livez")).await;
    let mut said = messages(CONVERSATION_BYTES);
    said.push(json!({"role": "user", "content": ORDER}));
    let (url, body) = (format!("http://{listen}/v1/messages"), request(&said));
    // The first requests store the conversation; the daemon writes the summary meanwhile.
    let (mut looks, mut last, mut same) = (0..LOOKS_MAX, None, 0);
    while same < SAME {
        looks.next().unwrap();
        sleep(LOOK).await;
        let says = ask(&client, &url, body.clone()).await;
        same = if says.is_some() && says == last { same + 1 } else { 0 };
        last = says;
    }
    let mut times = Vec::new();
    for _ in 0..rounds {
        let began = Instant::now();
        let says = ask(&client, &url, body.clone()).await;
        assert!(says.is_some(), "a model would have been asked");
        times.push(began.elapsed());
    }
    let [p50, p99] = [50, 99].map(|share| milliseconds(&mut times, share));
    println!("\ncompaction of {} KiB answered: p50 {p50:.1} ms, p99 {p99:.1} ms", body.len() / KIB);
    assert!(scale == Scale::Small || p99 <= P99_MS_MAX, "more than {P99_MS_MAX} ms");
}
