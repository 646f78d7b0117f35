//! A hundred readers of a full context and forty writers of tiny messages: the daemon needs at most half a gigabyte, everybody is answered
//! or told when to retry, and afterwards the memory is released.
//!
//! For a minute: `RECAPD_TEST_SECONDS=60 cargo test --release --test it memory -- --nocapture`.

use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::join_all;
use reqwest::{RequestBuilder, StatusCode};

use super::*;

const READERS: usize = 100;
const WRITERS: usize = 40;
/// The daemon's memory limit under load.
const PEAK_BYTES_MAX: u64 = 512 << 20;
/// The daemon's memory limit afterwards.
const REST_BYTES_MAX: u64 = 150 << 20;
/// The window: this many results of this many bytes, 19 MB.
const RESULTS: usize = 38;
const RESULT_BYTES: usize = 500_000;
const TINY_MESSAGES: usize = 10_000;

/// Counts the outcomes of one kind of request.
#[derive(Default)]
struct Count {
    answered: AtomicU64,
    put_off: AtomicU64,
}

impl Count {
    /// Sends a request, reads the whole answer, and waits if told to retry later.
    async fn ask(&self, request: RequestBuilder) {
        let response = request.send().await.expect("the daemon lives");
        let (status, headers) = (response.status(), response.headers().clone());
        let body = response.bytes().await.expect("an answer is sent whole");
        if status.is_success() {
            self.answered.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let text = String::from_utf8_lossy(&body);
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{text}");
        assert!(headers.contains_key("retry-after"), "{text}");
        self.put_off.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(TICK * 4).await;
    }

    fn said(&self) -> (u64, u64) {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (of(&self.answered), of(&self.put_off))
    }
}

/// Reads a figure of the daemon's in bytes: `VmHWM`, the peak, or `RssAnon`, the present use without pages of files, which the system
/// reclaims by itself.
fn memory(daemon: &Daemon, figure: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.child.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with(figure)).unwrap();
    let kibibytes = line.split_whitespace().nth(1).unwrap();
    kibibytes.parse::<u64>().unwrap() << 10
}

/// The unit's settings of the C library's allocator, as names and values.
fn allocator(unit: &str) -> Vec<(&str, &str)> {
    let mut lines = unit.lines().filter_map(|line| line.strip_prefix("Environment="));
    let line = lines.find(|line| line.starts_with("MALLOC_"));
    let words = line.into_iter().flat_map(str::split_whitespace);
    words.filter_map(|word| word.split_once('=')).collect()
}

/// A client that waits longer than the daemon's own time limit.
fn patient_client() -> reqwest::Client {
    let settings =
        recapd_llm::http::HttpSettings { timeout_ms: 120_000, connect_timeout_ms: 60_000, proxy_url: None };
    recapd_llm::http::client(&settings).unwrap()
}

async fn fill(daemon: &Daemon) {
    let path = format!("/v1/agents/{AGENT}/messages?format=native");
    let ask = json!([{"kind": "user", "content": "Read all of these logs"}]);
    let result = json!([{"kind": "tool_result", "name": "cat", "content": "line of a log\n".repeat(RESULT_BYTES / 14)}]);
    for messages in std::iter::once(&ask).chain(std::iter::repeat_n(&result, RESULTS)) {
        let request = daemon.client.post(daemon.url(&path)).json(messages);
        assert!(request.send().await.unwrap().status().is_success());
    }
}

#[expect(clippy::disallowed_methods, reason = "a long run is asked for by the environment")]
fn seconds() -> u64 {
    let said = std::env::var("RECAPD_TEST_SECONDS").ok();
    said.and_then(|said| said.parse().ok()).unwrap_or(6)
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_and_writers_stay_within_the_memory_limits() {
    let fake = FakeProvider::start();
    let unit = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/systemd/recapd.service"));
    let unit = unit.unwrap();
    let environment = allocator(&unit);
    assert_eq!(environment.len(), 3);
    let settings = ["window.budget_tokens=0", "model.mode=offline"];
    let daemon = Daemon::start_with(&fake, &settings, &environment, Stdio::inherit());
    daemon.until_ready().await;
    let client = patient_client();
    fill(&daemon).await;
    let end = Instant::now() + Duration::from_secs(seconds());
    let (reads, writes) = (Count::default(), Count::default());
    let context = daemon.url(&format!("/v1/agents/{AGENT}/context?format=anthropic"));
    let tiny = vec![json!({"role": "user", "content": "x"}); TINY_MESSAGES];
    let tiny = serde_json::to_string(&tiny).unwrap();
    let reading = join_all((0..READERS).map(async |_| {
        while Instant::now() < end {
            reads.ask(client.get(&context)).await;
        }
    }));
    let writing = join_all((0..WRITERS).map(async |writer| {
        let url = daemon.url(&format!("/v1/agents/writer-{writer}/messages"));
        while Instant::now() < end {
            let request = client.post(&url).header("content-type", "application/json");
            writes.ask(request.body(tiny.clone())).await;
        }
    }));
    tokio::join!(reading, writing);
    let peak = memory(&daemon, "VmHWM:");
    println!("peak {} MiB, reads {:?}, writes {:?}", peak >> 20, reads.said(), writes.said());
    assert!(peak < PEAK_BYTES_MAX, "{peak}");
    assert!(reads.said().0 > 0 && writes.said().0 > 0);
    let rested = async |daemon: &Daemon| memory(daemon, "RssAnon:") < REST_BYTES_MAX;
    daemon.until("the memory is given back", rested).await;
    println!("rest {} MiB", memory(&daemon, "RssAnon:") >> 20);
}
