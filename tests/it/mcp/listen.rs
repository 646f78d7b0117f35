//! A subscription is acknowledged once it is known how things stand, so that every later change is told. Time stands still
//! here: it goes on where nobody has anything left to do, and nowhere else.

use std::{
    pin::pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use axum::{
    body::{Body, BodyDataStream},
    http::Request,
};
use futures::StreamExt as _;
use recapd::{
    client::Summary,
    domain::agent::AgentId,
    mcp::{AgentsPage, Endpoint, EndpointSettings, Server, Shared, Source, SourceError, Way},
    recall::{ExpandQuery, ExpandReply, RecallReply},
    store::Sample,
};
use rmcp::{ServiceExt as _, transport::async_rw::AsyncRwTransport};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, duplex, split},
    sync::Semaphore,
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{LATER, PATIENCE, SUMMARY, message, meta};

/// So long nobody has anything to do.
const PAUSE: Duration = Duration::from_secs(1);
/// More than all that is said.
const BYTES: usize = 1 << 16;

/// A summary that changes by hand, and is looked at as often as it is shown.
struct Shown {
    tag: Mutex<&'static str>,
    looks: Semaphore,
}

impl Shown {
    /// Lets one look see it as it is by then.
    fn show(&self) {
        self.looks.add_permits(1);
    }

    fn change(&self) {
        *self.tag.lock().unwrap() = "changed";
    }
}

fn nothing<T>() -> Result<T, SourceError> {
    Err(SourceError::Unavailable("there is only a tag".to_owned()))
}

#[async_trait]
impl Source for Shown {
    async fn agents(&self, _after: Option<&AgentId>, _limit: i64) -> Result<AgentsPage, SourceError> {
        nothing()
    }

    async fn summary(&self, _agent: &AgentId) -> Result<Summary, SourceError> {
        nothing()
    }

    async fn tag(&self, _agent: &AgentId, _known: Option<&str>) -> Result<Option<String>, SourceError> {
        self.looks.acquire().await.unwrap().forget();
        Ok(Some((*self.tag.lock().unwrap()).to_owned()))
    }

    async fn history(&self, _agent: &AgentId) -> Result<String, SourceError> {
        nothing()
    }

    async fn window(&self, _agent: &AgentId) -> Result<Value, SourceError> {
        nothing()
    }

    async fn recall(&self, _agent: &AgentId, _words: &str, _limit: i64) -> Result<RecallReply, SourceError> {
        nothing()
    }

    async fn expand(
        &self,
        _agent: &AgentId,
        _exchange: i64,
        _query: ExpandQuery,
    ) -> Result<ExpandReply, SourceError> {
        nothing()
    }

    async fn sample(&self) -> Result<Sample, SourceError> {
        nothing()
    }
}

/// A summary, and what clients share who hear of it until the token is cancelled.
fn shown() -> (Arc<Shown>, Arc<Shared>, CancellationToken) {
    let shown = Arc::new(Shown {
        tag: Mutex::new("first"),
        looks: Semaphore::new(0),
    });
    let stop = CancellationToken::new();
    let way = Way::Fixed(Arc::<Shown>::clone(&shown));
    let shared = Shared::new(way, stop.clone());
    (shown, shared, stop)
}

fn subscription() -> String {
    let params = json!({ "notifications": { "resourceSubscriptions": [SUMMARY] }, "_meta": meta(LATER) });
    message("subscriptions/listen", params).to_string()
}

fn posted() -> Request<Body> {
    Request::post("/mcp")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", LATER)
        .header("mcp-method", "subscriptions/listen")
        .body(Body::from(subscription()))
        .unwrap()
}

#[track_caller]
fn assert_acknowledged(told: &Value) {
    assert_eq!(
        told["method"], "notifications/subscriptions/acknowledged",
        "{told}"
    );
    assert_eq!(
        told["params"]["notifications"],
        json!({ "resourceSubscriptions": [SUMMARY] }),
        "{told}"
    );
}

#[track_caller]
fn assert_updated(told: &Value) {
    assert_eq!(told["method"], "notifications/resources/updated", "{told}");
    assert_eq!(told["params"]["uri"], SUMMARY, "{told}");
}

/// What is told in an answer that stays open.
struct Told {
    body: BodyDataStream,
    read: String,
}

impl Told {
    fn of(body: Body) -> Self {
        Self {
            body: body.into_data_stream(),
            read: String::new(),
        }
    }

    async fn next(&mut self) -> Value {
        loop {
            while let Some((event, rest)) = self.read.split_once("\n\n") {
                let data = event.lines().find_map(|line| line.strip_prefix("data:"));
                let told = data.and_then(|data| serde_json::from_str(data.trim()).ok());
                self.read = rest.to_string();
                if let Some(told) = told {
                    return told;
                }
            }
            let chunk = timeout(PATIENCE, self.body.next()).await.expect("it comes soon");
            let chunk = chunk.expect("the answer stays open").unwrap();
            self.read.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_changes_after_the_acknowledgement_is_told_over_http() {
    let (summary, shared, stop) = shown();
    let endpoint = Endpoint::new(&shared, &EndpointSettings::default(), &stop);
    let mut answering = pin!(endpoint.answer(posted()));
    let early = timeout(PAUSE, &mut answering).await;
    assert!(early.is_err(), "it is acknowledged before anybody has looked");
    summary.show();
    let mut told = Told::of(answering.await.into_body());
    assert_acknowledged(&told.next().await);
    summary.change();
    summary.show();
    assert_updated(&told.next().await);
}

#[tokio::test(start_paused = true)]
async fn a_daemon_that_ends_waits_for_no_look() {
    let (_summary, shared, stop) = shown();
    let endpoint = Endpoint::new(&shared, &EndpointSettings::default(), &stop);
    let mut answering = pin!(endpoint.answer(posted()));
    let early = timeout(PAUSE, &mut answering).await;
    assert!(early.is_err(), "nobody has looked");
    stop.cancel();
    let mut told = Told::of(answering.await.into_body());
    assert_acknowledged(&told.next().await);
    let end = told.next().await;
    assert_eq!((&end["id"], &end["error"]), (&1.into(), &Value::Null), "{end}");
}

/// A host on the other side of a pipe.
fn host(shared: Arc<Shared>) -> DuplexStream {
    let (near, far) = duplex(BYTES);
    let (input, output) = split(far);
    TaskTracker::new().spawn(async move {
        let transport = AsyncRwTransport::new_server(input, output);
        let running = Server::new(&shared).serve(transport).await.unwrap();
        drop(running.waiting().await);
    });
    near
}

async fn line(lines: &mut Lines<BufReader<ReadHalf<DuplexStream>>>) -> Value {
    let line = timeout(PATIENCE, lines.next_line()).await.expect("it comes soon");
    serde_json::from_str(&line.unwrap().expect("the pipe stays open")).unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_changes_after_the_acknowledgement_is_told_over_a_pipe() {
    let (summary, shared, _stop) = shown();
    let (output, mut input) = split(host(shared));
    let mut lines = BufReader::new(output).lines();
    let asked = format!("{}\n", subscription());
    input.write_all(asked.as_bytes()).await.unwrap();
    let early = timeout(PAUSE, lines.next_line()).await;
    assert!(early.is_err(), "it is acknowledged before anybody has looked");
    summary.show();
    assert_acknowledged(&line(&mut lines).await);
    summary.change();
    summary.show();
    assert_updated(&line(&mut lines).await);
}
