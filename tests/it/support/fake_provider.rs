//! A server that speaks every provider's API and answers as planned.
//!
//! It runs in a thread and a runtime of its own, so it works for async tests, tests with paused time, and tests of
//! the real binary alike. It stops when it is dropped. Its answers are checked with the providers' own clients
//! (`scripts/check-fakes`).

mod answer;
pub(crate) mod batches;
pub(crate) mod embeddings;
mod faults;
mod shape;
mod trouble;

use std::{
    collections::VecDeque,
    net::{SocketAddr, TcpListener},
    sync::{Arc, Mutex},
    thread::JoinHandle,
    time::Duration,
};

use axum::{
    Router,
    body::Bytes,
    extract::{DefaultBodyLimit, State},
    http::{HeaderMap, Method, StatusCode, Uri},
    response::{IntoResponse as _, Response},
};
use serde_json::Value;
use tokio::{sync::watch, time::timeout};
use tokio_util::sync::CancellationToken;

use self::{batches::Batches, embeddings::Embeddings};
pub(crate) use self::{
    shape::Shape,
    trouble::{Trouble, Wait},
};

/// Time limit for an awaited request.
const PATIENCE: Duration = Duration::from_mins(1);

/// The answer to one request.
#[derive(Clone, Debug)]
pub(crate) enum Planned {
    /// Valid items, one per exchange of the prompt.
    Good,
    /// An answer with this text.
    Content(String),
    /// An answer with prose instead of JSON.
    Garbage,
    /// An answer without text.
    Empty,
    /// Items for exchanges that nobody asked about.
    WrongExchanges,
    /// Valid items for all exchanges but the last.
    MissingExchanges,
    /// Valid items whose texts are far too long.
    Oversize,
    Refusal,
    /// A content filter stopped the model.
    ContentFilter,
    /// The answer was cut off at the output limit.
    Length,
    /// An error in the provider's own words.
    Trouble(Trouble, Wait),
    /// This status, body and headers.
    Status(u16, String, Vec<(&'static str, String)>),
    /// Success, with a body that is no JSON.
    BrokenBody,
    /// Success, with a body longer than any client should read.
    Flood,
    /// [`Planned::Good`], but this much later.
    Late(Duration),
    /// No answer, ever.
    Hang,
    /// Headers and half a body, then nothing more.
    Stall,
    /// Headers and half a body, then the connection is cut.
    CutConnection,
}

impl Planned {
    /// The given trouble in another provider's words, whatever the request's API.
    pub(crate) fn foreign(words: Shape, trouble: &Trouble) -> Self {
        let (status, body, headers) = trouble.refusal(words, Wait::Unsaid);
        Self::Status(status, body, headers)
    }

    /// A status with a body and no extra headers.
    pub(crate) fn status(status: u16, body: impl Into<String>) -> Self {
        Self::Status(status, body.into(), Vec::new())
    }
}

/// A request as received.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    pub(crate) shape: Shape,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
    /// The request's faults; with any, it was answered with 400.
    pub(crate) faults: Vec<String>,
}

impl Recorded {
    /// A header's value; empty if it is missing.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The requested format of the answer: `json_schema`, `json_object`, or empty.
    pub(crate) fn format(&self) -> &str {
        self.shape.format(&self.body).0
    }

    /// The requested schema of the answer; null if there is none.
    pub(crate) fn schema(&self) -> &Value {
        self.shape.format(&self.body).1
    }

    /// The numbers of the exchanges in the fenced material.
    pub(crate) fn exchanges(&self) -> Vec<i64> {
        let (_, material) = self.shape.prompt(&self.body);
        let headings = material.lines().filter_map(|line| line.strip_prefix("== "));
        headings.filter_map(|line| line.split(' ').next()?.parse().ok()).collect()
    }
}

#[derive(Debug)]
struct Shared {
    script: Mutex<VecDeque<Planned>>,
    otherwise: Mutex<Planned>,
    requests: Mutex<Vec<Recorded>>,
    arrived: watch::Sender<usize>,
    batches: Batches,
    embeddings: Embeddings,
}

#[derive(Debug)]
pub(crate) struct FakeProvider {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl FakeProvider {
    /// Starts a server on a free port of 127.0.0.1 that gives good answers.
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            script: Mutex::default(),
            otherwise: Mutex::new(Planned::Good),
            requests: Mutex::default(),
            arrived: watch::Sender::new(0),
            batches: Batches::default(),
            embeddings: Embeddings::default(),
        });
        let stop = CancellationToken::new();
        let thread = {
            let (shared, stop) = (Arc::clone(&shared), stop.clone());
            std::thread::spawn(move || serve(listener, shared, &stop))
        };
        Self { address, shared, stop, thread: Some(thread) }
    }

    /// The base URL to configure.
    pub(crate) fn base_url(&self, shape: Shape) -> String {
        format!("http://{}{}", self.address, shape.base_path())
    }

    /// Plans the answers to the next requests, after those already planned.
    pub(crate) fn plan(&self, planned: impl IntoIterator<Item = Planned>) {
        self.shared.script.lock().unwrap().extend(planned);
    }

    /// Sets the answer to requests for which nothing is planned.
    pub(crate) fn otherwise(&self, planned: Planned) {
        *self.shared.otherwise.lock().unwrap() = planned;
    }

    /// The requests so far, oldest first.
    pub(crate) fn requests(&self) -> Vec<Recorded> {
        self.shared.requests.lock().unwrap().clone()
    }

    pub(crate) fn batches(&self) -> &Batches {
        &self.shared.batches
    }

    pub(crate) fn embeddings(&self) -> &Embeddings {
        &self.shared.embeddings
    }

    /// Waits until `count` requests have come in since the start.
    pub(crate) async fn arrived(&self, count: usize) {
        let mut arrived = self.shared.arrived.subscribe();
        let come = timeout(PATIENCE, arrived.wait_for(|so_far| *so_far >= count)).await;
        drop(come.expect("a request comes").unwrap());
    }

    /// Fails the test if any request was malformed.
    pub(crate) fn assert_well_formed(&self) {
        for request in self.requests() {
            assert_eq!(request.faults, [""; 0], "{}", request.body);
        }
    }
}

impl Drop for FakeProvider {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

fn serve(listener: TcpListener, shared: Arc<Shared>, stop: &CancellationToken) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        let router = Router::new().fallback(dispatch).layer(DefaultBodyLimit::disable()).with_state(shared);
        tokio::select! {
            () = stop.cancelled() => {}
            served = axum::serve(listener, router) => served.unwrap(),
        }
    });
}

async fn dispatch(
    State(shared): State<Arc<Shared>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let query = uri.query().unwrap_or_default();
    if let Some(response) = shared.batches.respond(&method, uri.path(), query, &headers, &body) {
        return response;
    }
    match serde_json::from_slice(&body) {
        Ok(body) if uri.path().ends_with("/embeddings") => shared.embeddings.respond(&headers, body).await,
        Ok(body) => respond(&shared, &uri, headers, body).await,
        Err(_) => StatusCode::BAD_REQUEST.into_response(),
    }
}

async fn respond(shared: &Shared, uri: &Uri, headers: HeaderMap, body: Value) -> Response {
    let Some(shape) = Shape::of(uri.path()) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let faults = faults::of(shape, &headers, &body);
    let request = Recorded { shape, path: uri.path().to_owned(), headers, body, faults };
    shared.requests.lock().unwrap().push(request.clone());
    let planned = if request.faults.is_empty() {
        let next = shared.script.lock().unwrap().pop_front();
        next.unwrap_or_else(|| shared.otherwise.lock().unwrap().clone())
    } else {
        Planned::Trouble(Trouble::Because(request.faults.join("; ")), Wait::Unsaid)
    };
    shared.arrived.send_modify(|count| *count += 1);
    answer::to(&request, planned).await
}
