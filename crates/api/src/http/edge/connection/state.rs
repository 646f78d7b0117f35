//! The state of a connection, and the body of an answer, which updates the state once it is sent.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio_util::sync::CancellationToken;

#[derive(Default)]
pub(super) struct ConnectionState {
    /// True while a handler runs.
    pub(super) is_handling: AtomicBool,
    /// True while the body of an answer is being sent.
    is_sending: AtomicBool,
    /// True while the client reads nothing of an answer.
    pub(super) is_stalled: AtomicBool,
    /// How many requests have begun.
    begun: AtomicU64,
    /// What the pool's counter said when the connection became idle. The connection with the smallest value has been
    /// idle longest.
    pub(super) idle_since: AtomicU64,
    /// Cancelled when the connection should close to make room for another one.
    pub(super) give_way: CancellationToken,
}

impl ConnectionState {
    pub(super) fn begin(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.is_handling.store(true, Ordering::Relaxed);
    }

    /// Records that the handler has returned and that its answer is being sent.
    pub(super) fn answer(&self) {
        self.is_sending.store(true, Ordering::Relaxed);
        self.is_handling.store(false, Ordering::Relaxed);
    }

    pub(super) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    /// True if no request is being answered and nothing is being sent.
    pub(super) fn is_idle(&self) -> bool {
        let states = [&self.is_handling, &self.is_sending, &self.is_stalled];
        !states.into_iter().any(|is| is.load(Ordering::Relaxed))
    }
}

/// The body of an answer. It is dropped once it is sent; the connection is then idle.
pub(super) struct ResponseBody {
    body: Body,
    state: Arc<ConnectionState>,
    /// The pool's counter.
    idled: Arc<AtomicU64>,
}

impl ResponseBody {
    pub(super) fn new(body: Body, state: Arc<ConnectionState>, idled: Arc<AtomicU64>) -> Self {
        Self { body, state, idled }
    }
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        let now = self.idled.fetch_add(1, Ordering::Relaxed) + 1;
        self.state.idle_since.store(now, Ordering::Relaxed);
        self.state.is_sending.store(false, Ordering::Relaxed);
    }
}
