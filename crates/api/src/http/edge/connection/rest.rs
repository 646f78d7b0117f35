//! Discards the part of a body that no handler reads. A client doesn't look for an answer while it sends, and never
//! sees the answer if its connection is reset.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::body::Body;
use futures::StreamExt as _;
use hyper::body::{Body as HttpBody, Bytes, Frame, Incoming, SizeHint};
use tokio::{runtime::Handle, time::timeout};
use tokio_util::task::TaskTracker;

/// Limits how many bytes are discarded.
const BYTES_MAX: usize = 256 << 20;
/// Limits how long the discarding of one body takes.
const TIME_MAX: Duration = Duration::from_secs(15);

/// The body of a request. When it is dropped, its unread part is read and discarded.
pub(super) struct RequestBody {
    /// `None` at the end.
    body: Option<Incoming>,
    /// True if the client waits for `100 Continue`, and sends nothing until the body is read.
    is_awaited: bool,
    connections: TaskTracker,
}

impl RequestBody {
    pub(super) fn new(body: Incoming, is_awaited: bool, connections: &TaskTracker) -> Self {
        Self { body: Some(body), is_awaited, connections: connections.clone() }
    }
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let received = self.get_mut();
        received.is_awaited = false;
        let Some(body) = &mut received.body else {
            return Poll::Ready(None);
        };
        let frame = ready!(Pin::new(body).poll_frame(context));
        if !matches!(frame, Some(Ok(_))) {
            received.body = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let hint = self.body.as_ref().map(HttpBody::size_hint);
        hint.unwrap_or_else(|| SizeHint::with_exact(0))
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        let is_over = self.is_awaited || self.is_end_stream();
        let remaining = self.body.take().filter(|_| !is_over);
        if let (Some(body), Ok(runtime)) = (remaining, Handle::try_current()) {
            // The task ends with the connection at the latest.
            let discarding = timeout(TIME_MAX, discard(body));
            self.connections.spawn_on(discarding, &runtime);
        }
    }
}

async fn discard(body: Incoming) {
    let (mut chunks, mut bytes) = (Body::new(body).into_data_stream(), 0);
    while bytes <= BYTES_MAX
        && let Some(Ok(chunk)) = chunks.next().await
    {
        bytes += chunk.len();
    }
}
