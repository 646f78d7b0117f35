//! Connections: limits their number, and closes slow ones.
//!
//! ```text
//! accept ─► a slot of the peer ─► a slot ─► head in time ─► request (`request::body` has a limit of its own) ─► answer read
//!           └ none: 429          └ none: an idle connection is closed     next request ◄───────┘ else closed
//! ```
//!
//! A head must arrive in time, counted from its first byte; on a new connection, from the beginning of the connection.
//! Between two requests a connection may be idle for longer.
//!
//! If a handler leaves a part of a body unread, that part is read and discarded ([`rest`]), so that the client sees the
//! answer.
//!
//! At `stop`, no new connection is accepted. Requests that were already sent are still answered.

mod peer;
mod pool;
mod proxy;
mod rest;
mod socket;
mod state;
mod stream;

use std::{
    convert::Infallible,
    future::Future,
    io,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
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
use tokio::time::sleep;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub(crate) use self::peer::Peer;
use self::{
    pool::{ConnectionSlot, Pool},
    proxy::PeerOrigin,
    rest::RequestBody,
    state::{ConnectionState, ResponseBody},
    stream::{Stream, TimedStream},
};
use crate::http::Interface;
use recapd_config::HttpConfig;

pub use self::{proxy::TrustedProxies, socket::Socket, stream::Listener};

/// Limits the bytes of a request's head, of a body that is read ahead, and of an answer that the client hasn't read
/// yet.
const BUFFER_BYTES_MAX: usize = 64 * 1_024;
/// At `stop`, a connection waits this long for requests that are already on their way. A connection that gives way to
/// another one checks this often whether it is idle.
const LINGER: Duration = Duration::from_millis(20);
/// How often a closing connection checks whether a request is still being answered.
const ENDING_LOOK: Duration = Duration::from_secs(1);
/// Limits the time for which a client reads nothing of an answer, as long as other servers wait.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);
/// The pause after a failed accept. Most likely too many files are open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    pub connections_max: usize,
    pub per_peer_max: usize,
    /// Limits the time for a request's head, from its first byte or from the beginning of the connection.
    pub head_timeout: Duration,
    /// Limits the idle time between two requests.
    pub idle_timeout: Duration,
    /// Limits the time for which a client reads nothing of an answer.
    pub stall_timeout: Duration,
}

impl From<&HttpConfig> for ConnectionLimits {
    fn from(config: &HttpConfig) -> Self {
        Self {
            connections_max: config.connections_max,
            per_peer_max: config.connections_per_peer_max,
            head_timeout: Duration::from_millis(config.head_timeout_ms),
            idle_timeout: Duration::from_millis(config.idle_timeout_ms),
            stall_timeout: STALL_TIMEOUT,
        }
    }
}

/// Serves requests on `listener` until `stop`. Then waits until the last connection is closed.
pub(crate) async fn serve(
    listener: Listener,
    interface: Interface,
    limits: ConnectionLimits,
    stop: CancellationToken,
) {
    let connections = TaskTracker::new();
    let proxies = interface.proxies().clone();
    let pool = Pool::new(limits.connections_max, limits.per_peer_max, proxies);
    while let Some(connection) = stop.run_until_cancelled(next_connection(&listener, &pool)).await {
        let (interface, stop, tasks) = (interface.clone(), stop.clone(), connections.clone());
        let idled = Arc::clone(&pool.idled);
        connections.spawn(async move {
            answer(connection, (interface, idled), limits, stop, tasks).await;
        });
    }
    // From now on, the system refuses connections.
    drop(listener);
    connections.close();
    connections.wait().await;
}

async fn next_connection(listener: &Listener, pool: &Arc<Pool>) -> (Stream, PeerOrigin, ConnectionSlot) {
    loop {
        let (stream, origin) = accept(listener).await;
        match pool.admit(origin).await {
            Some(admitted) => return (stream, origin, admitted),
            None => stream.refuse(),
        }
    }
}

async fn accept(listener: &Listener) -> (Stream, PeerOrigin) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) if affects_only_client(&error) => {}
            Err(error) => {
                tracing::error!(%error, "http.accept_failed");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn affects_only_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

async fn answer(
    (stream, origin, admitted): (Stream, PeerOrigin, ConnectionSlot),
    (interface, idled): (Interface, Arc<AtomicU64>),
    limits: ConnectionLimits,
    stop: CancellationToken,
    tasks: TaskTracker,
) {
    let state = Arc::clone(&admitted.state);
    let service = service_fn(|request: Request<Incoming>| {
        let is_awaited = request.headers().contains_key(EXPECT);
        let mut request = request.map(|body| RequestBody::new(body, is_awaited, &tasks));
        let client = interface.proxies().client(origin, request.headers());
        request.extensions_mut().insert(client);
        call(request, &interface, &state, &idled)
    });
    let timed = TimedStream::new(stream, limits, Arc::clone(&state));
    let answering = Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.idle_timeout)
        .max_buf_size(BUFFER_BYTES_MAX)
        .serve_connection(TokioIo::new(timed), service);
    let mut answering = pin!(answering);
    let ended = tokio::select! {
        ended = answering.as_mut() => ended,
        () = state.give_way.cancelled() => {
            answering.as_mut().graceful_shutdown();
            tokio::select! {
                biased;
                ended = answering => ended,
                // A request that has just arrived is still answered.
                () = wait_until_idle(&state) => Ok(()),
            }
        }
        () = wait_for_stop(&stop) => {
            // Answers the request in progress, but no further request.
            answering.as_mut().graceful_shutdown();
            tokio::select! {
                ended = answering => ended,
                () = wait_for_handlers(&state) => Ok(()),
            }
        }
    };
    if let Err(error) = ended {
        tracing::trace!(%error, "http.connection_failed");
    }
    drop(admitted);
}

fn call(
    request: Request<RequestBody>,
    interface: &Interface,
    state: &Arc<ConnectionState>,
    idled: &Arc<AtomicU64>,
) -> impl Future<Output = Result<Response<ResponseBody>, Infallible>> + use<> {
    state.begin();
    let answering = interface.call(request);
    let (state, idled) = (Arc::clone(state), Arc::clone(idled));
    async move {
        let answer = answering.await?;
        state.answer();
        Ok(answer.map(|body| ResponseBody::new(body, state, idled)))
    }
}

/// Waits until no request is being answered or sent.
async fn wait_until_idle(state: &ConnectionState) {
    while !state.is_idle() {
        sleep(LINGER).await;
    }
}

async fn wait_for_stop(stop: &CancellationToken) {
    stop.cancelled().await;
    sleep(LINGER).await;
}

/// Waits until no handler runs and no answer waits for its client to read. A request whose head is incomplete doesn't
/// count.
async fn wait_for_handlers(state: &ConnectionState) {
    loop {
        sleep(ENDING_LOOK).await;
        let is_handling = state.is_handling.load(Ordering::Relaxed);
        if !is_handling && !state.is_stalled.load(Ordering::Relaxed) {
            return;
        }
    }
}
