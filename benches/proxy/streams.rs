//! Many concurrent streams through `recapd proxy`: the proxy's memory, and the time to the first bytes.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::DefaultBodyLimit,
    response::{IntoResponse as _, Response},
    routing::any,
};
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use recapd_platform::http_client::relay_client;
use reqwest::Client;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{net::TcpListener, sync::Semaphore, task::JoinSet, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    KIB, Scale,
    latency::milliseconds,
    messages,
    process::{Process, address, until},
    request,
};

const REQUEST_BYTES: usize = 256 * KIB;
const PEAK_KIB_MAX: usize = 256 * KIB;
/// Streams that may start at the same time.
const BEGINNING: usize = 16;
const FIRST: &str = "event: message_start\ndata: {\"type\":\"message_start\"}\n\n";
const LAST: &str = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";

/// Serves `app`. Returns its address.
async fn serve(app: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    TaskTracker::new()
        .spawn(async move { axum::serve(listener, app.layer(DefaultBodyLimit::disable())).await });
    format!("http://{address}")
}

/// Starts a provider whose streams all end at `end`.
async fn provider(end: CancellationToken) -> String {
    let answer = move |_: Bytes| {
        let end = end.clone();
        async move {
            let last = async move {
                end.cancelled().await;
                Ok::<_, std::io::Error>(LAST)
            };
            let events = stream::iter([Ok(FIRST)]).chain(stream::once(last));
            let answer = Response::builder().header("content-type", "text/event-stream");
            answer.body(Body::from_stream(events)).unwrap()
        }
    };
    serve(Router::new().fallback(any(answer))).await
}

/// Starts a daemon that answers without delay.
async fn daemon() -> String {
    let answer = |_: Bytes| async { r#"{"agent_id":"a"}"#.into_response() };
    serve(Router::new().fallback(any(answer))).await
}

/// Raises the limit of open files: every stream needs two descriptors here.
fn allow_descriptors() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let most = Rlimit { current: maximum, maximum };
    setrlimit(Resource::Nofile, most).unwrap();
}

/// Runs one stream: waits for its first bytes, lets the next stream start, and reads the rest.
async fn watch(client: Client, url: String, number: usize, body: Bytes, open: Arc<Semaphore>) -> Duration {
    let began = Instant::now();
    let asked = client.post(url).header("x-claude-code-session-id", format!("bench-{number}")).body(body);
    let mut answer = asked.send().await.unwrap();
    assert_eq!(answer.chunk().await.unwrap().unwrap(), FIRST);
    let took = began.elapsed();
    open.add_permits(1);
    assert_eq!(answer.bytes().await.unwrap(), LAST);
    took
}

pub(crate) async fn measure(scale: Scale) {
    allow_descriptors();
    let count: usize = scale.of(50, 500);
    let end = CancellationToken::new();
    let (listen, provider, daemon) = (address(), provider(end.clone()).await, daemon().await);
    let words = format!("proxy --listen {listen} --server {daemon} --set proxy.anthropic_url={provider}");
    let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
    let proxy = Process::start(&words);
    let client = relay_client(5_000).unwrap();
    until(&client, &format!("http://{listen}/recapd/livez")).await;
    let body = request(&messages(REQUEST_BYTES));
    let begun = Arc::new(Semaphore::new(BEGINNING));
    let mut streams = JoinSet::new();
    for number in 0..count {
        begun.acquire().await.unwrap().forget();
        let url = format!("http://{listen}/v1/messages");
        streams.spawn(watch(client.clone(), url, number, body.clone(), Arc::clone(&begun)));
    }
    drop(begun.acquire_many(u32::try_from(BEGINNING).unwrap()).await.unwrap());
    let peak = proxy.peak_kib();
    end.cancel();
    let mut times = streams.join_all().await;
    let [p50, p99] = [50, 99].map(|share| milliseconds(&mut times, share));
    println!(
        "\n{count} streams at once, requests of {} KiB: {} MiB resident at most, first bytes p50 {p50:.1} ms, p99 {p99:.1} ms",
        REQUEST_BYTES / KIB,
        peak / KIB
    );
    assert!(peak <= PEAK_KIB_MAX, "more than {} MiB", PEAK_KIB_MAX / KIB);
}
