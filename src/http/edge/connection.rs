//! Connections: their number is limited, and a slow client can't keep its place.
//!
//! ```text
//! a place ─► accept ─► a place of the peer ─► head in time ─► request (`request::body` has a limit of its own) ─► answer taken
//! └ none: waits in the system's queue   └ none: 429        └ else it ends         next one ◄──────────┘ else it ends
//! ```
//!
//! What a request's handler leaves of its body is read and thrown away ([`rest`]), so that the client sees the answer.
//!
//! At `stop` no new connection is accepted, and requests that have been sent are answered.

mod peer;
mod rest;
mod socket;
mod stream;

use std::{
    convert::Infallible,
    future::Future,
    io,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{
    http::{Request, header::EXPECT},
    response::Response,
};
use hyper::{
    body::Incoming,
    server::conn::http1::Builder,
    service::{Service as _, service_fn},
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{sync::Semaphore, time::sleep};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub(in crate::http) use self::peer::Peer;
use self::{
    peer::{Peers, Place},
    rest::Received,
    stream::{Stream, Timed},
};
use crate::{config::HttpConfig, http::Interface};

pub use self::{socket::Socket, stream::Listener};

/// The most bytes of a request's head, of a body that is read ahead, and of an answer that the client hasn't read yet.
const BUFFER_BYTES_MAX: usize = 64 * 1_024;
/// How long requests sent before `stop` may take to be read.
const LINGER: Duration = Duration::from_millis(20);
/// How often a connection that has to end is looked at.
const ENDING_LOOK: Duration = Duration::from_secs(1);
/// The pause after accepting a connection failed: most likely there are too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// How many connections there may be, and how slow they may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// The most connections at once.
    pub connections_max: usize,
    /// The most connections of one peer.
    pub per_peer_max: usize,
    /// How long the head of a request may take, from when the connection is ready for it.
    pub head_timeout: Duration,
    /// How long a client may go without reading any of an answer.
    pub stall_timeout: Duration,
}

impl From<&HttpConfig> for ConnectionLimits {
    fn from(config: &HttpConfig) -> Self {
        Self {
            connections_max: config.connections_max,
            per_peer_max: config.connections_per_peer_max,
            head_timeout: Duration::from_millis(config.head_timeout_ms),
            stall_timeout: Duration::from_millis(config.stall_timeout_ms),
        }
    }
}

/// Answers requests on `listener` until `stop`; then until the last connection is closed.
pub(in crate::http) async fn serve(
    listener: Listener,
    interface: Interface,
    limits: ConnectionLimits,
    stop: CancellationToken,
) {
    let connections = TaskTracker::new();
    let peers = Arc::new(Peers::of_at_most(limits.per_peer_max));
    let places = Arc::new(Semaphore::new(limits.connections_max.min(Semaphore::MAX_PERMITS)));
    let next = || next(&listener, &places, &peers);
    while let Some((stream, peer, place)) = stop.run_until_cancelled(next()).await {
        let (interface, stop, rests) = (interface.clone(), stop.clone(), connections.clone());
        connections.spawn(async move {
            answer((stream, peer), interface, limits, stop, rests).await;
            drop(place);
        });
    }
    // Connection attempts from now on are refused.
    drop(listener);
    connections.close();
    connections.wait().await;
}

/// The next connection, with its places.
async fn next(
    listener: &Listener,
    places: &Arc<Semaphore>,
    peers: &Arc<Peers>,
) -> (Stream, Peer, impl Send + use<>) {
    // The semaphore is never closed, so there always is a permit.
    let permit = Arc::clone(places).acquire_owned().await.ok();
    loop {
        let (stream, peer) = accepted(listener).await;
        let place: Option<Place> = Peers::take(peers, peer);
        match place {
            Some(place) => return (stream, peer, (permit, place)),
            None => stream.refuse(),
        }
    }
}

async fn accepted(listener: &Listener) -> (Stream, Peer) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            // Only this client is affected, and it is gone.
            Err(error) if is_of_one(&error) => {}
            Err(error) => {
                tracing::error!(%error, "http.accept_failed");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn is_of_one(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset
    )
}

/// The state of a connection.
#[derive(Default)]
struct Doing {
    /// Whether a request is being answered.
    is_asked: AtomicBool,
    /// Whether the client isn't reading at the moment.
    is_stalled: AtomicBool,
}

/// Answers the requests on one connection.
async fn answer(
    (stream, peer): (Stream, Peer),
    interface: Interface,
    limits: ConnectionLimits,
    stop: CancellationToken,
    rests: TaskTracker,
) {
    let doing = Arc::new(Doing::default());
    let service = service_fn(|request: Request<Incoming>| {
        let is_awaited = request.headers().contains_key(EXPECT);
        let request = request.map(|body| Received::new(body, is_awaited, &rests));
        asked(request, peer, &interface, &doing)
    });
    let timed = Timed::new(stream, limits.stall_timeout, Arc::clone(&doing));
    let answering = Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_timeout)
        .max_buf_size(BUFFER_BYTES_MAX)
        .serve_connection(TokioIo::new(timed), service);
    let mut answering = pin!(answering);
    let ended = tokio::select! {
        ended = answering.as_mut() => ended,
        () = lingered(&stop) => {
            // The request under way is answered, and no further one.
            answering.as_mut().graceful_shutdown();
            tokio::select! {
                ended = answering => ended,
                () = nothing_left(&doing) => Ok(()),
            }
        }
    };
    if let Err(error) = ended {
        tracing::trace!(%error, "http.connection_failed");
    }
}

/// Handles one request, with the peer as an extension.
fn asked(
    mut request: Request<Received>,
    peer: Peer,
    interface: &Interface,
    doing: &Arc<Doing>,
) -> impl Future<Output = Result<Response, Infallible>> + use<> {
    request.extensions_mut().insert(peer);
    doing.is_asked.store(true, Ordering::Relaxed);
    let (answering, doing) = (interface.call(request), Arc::clone(doing));
    async move {
        let answer = answering.await;
        doing.is_asked.store(false, Ordering::Relaxed);
        answer
    }
}

async fn lingered(stop: &CancellationToken) {
    stop.cancelled().await;
    sleep(LINGER).await;
}

/// Waits until no request is being answered: an incomplete head isn't waited for.
async fn nothing_left(doing: &Doing) {
    loop {
        sleep(ENDING_LOOK).await;
        let is_asked = doing.is_asked.load(Ordering::Relaxed);
        if !is_asked && !doing.is_stalled.load(Ordering::Relaxed) {
            return;
        }
    }
}
