//! Forwards requests to their providers, and answers to their clients.
//!
//! Invariant: bytes are forwarded as they arrive, each chunk at once, trailers too. If the client disconnects, the
//! request to the provider is cancelled.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use futures::StreamExt as _;
use http_body_util::{BodyExt as _, BodyStream, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    HeaderMap, Method, Request, Response,
    body::{Body, Frame, Incoming, SizeHint},
};
use reqwest::Client;

use recapd_platform::http_client::{self, HttpClientError};

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;
/// The body of an answer to the client.
pub(crate) type ProxyBody = UnsyncBoxBody<Bytes, BoxError>;

/// Limits the time for connecting to a provider.
const CONNECT_TIMEOUT_MS: u64 = 5_000;

/// A request's body, read up to a limit.
pub(crate) enum ReadBody {
    Whole(Bytes),
    /// The body is longer than the limit. Holds the part that was read, followed by the rest.
    TooLong(reqwest::Body),
}

/// Sends requests.
#[derive(Clone, Debug)]
pub(crate) struct Relay(Client);

impl Relay {
    pub(crate) fn new() -> Result<Self, HttpClientError> {
        http_client::relay_client(CONNECT_TIMEOUT_MS).map(Self)
    }

    /// Sends a request. Returns once the head of the answer has arrived.
    ///
    /// # Errors
    /// If there is no answer. The error's text contains no address.
    pub(crate) async fn send(
        &self,
        method: Method,
        url: &str,
        headers: HeaderMap,
        body: reqwest::Body,
    ) -> Result<Response<reqwest::Body>, reqwest::Error> {
        let request = self.0.request(method, url).headers(headers).body(body);
        request.send().await.map(Into::into).map_err(reqwest::Error::without_url)
    }
}

/// Reads a body of at most `bytes_max` bytes.
///
/// # Errors
/// If the body ends too early.
pub(crate) async fn read<B>(mut body: B, bytes_max: usize) -> Result<ReadBody, B::Error>
where
    B: Body<Data = Bytes> + Send + Sync + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    let (mut chunks, mut length) = (Vec::new(), 0);
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else {
            continue;
        };
        length += data.len();
        chunks.push(data);
        if length > bytes_max {
            let read = futures::stream::iter(chunks.into_iter().map(|chunk| Ok(Frame::data(chunk))));
            let rest = StreamBody::new(read.chain(BodyStream::new(body)));
            return Ok(ReadBody::TooLong(reqwest::Body::wrap(rest)));
        }
    }
    let mut chunks = chunks.into_iter();
    match (chunks.next(), chunks.len()) {
        (None, _) => Ok(ReadBody::Whole(Bytes::new())),
        (Some(only), 0) => Ok(ReadBody::Whole(only)),
        (Some(first), _) => {
            let mut bytes = Vec::with_capacity(length);
            bytes.extend_from_slice(&first);
            chunks.for_each(|chunk| bytes.extend_from_slice(&chunk));
            Ok(ReadBody::Whole(bytes.into()))
        }
    }
}

/// Returns the body of a request that is forwarded unread. A request without a body gets none.
pub(crate) fn unread_body(request: Request<Incoming>) -> reqwest::Body {
    match request.body().size_hint().exact() {
        Some(0) => reqwest::Body::default(),
        _ => reqwest::Body::wrap(request.into_body()),
    }
}

/// Returns a short body that the proxy itself writes.
pub(crate) fn own_body(text: impl Into<Bytes>) -> ProxyBody {
    Full::new(text.into()).map_err(|never| match never {}).boxed_unsync()
}

/// Boxes the body of a provider's answer.
pub(crate) fn forwarded_body(body: reqwest::Body) -> ProxyBody {
    body.map_err(Into::into).boxed_unsync()
}

/// Boxes the body of a provider's answer, and copies it while it is forwarded. `done` gets the copy when the answer
/// ends or breaks off, or when the client disconnects. If the answer has more than `bytes_max` bytes, `done` gets
/// `None`.
pub(crate) fn copied_body(
    body: reqwest::Body,
    bytes_max: usize,
    done: impl FnOnce(Option<Vec<u8>>) + Send + 'static,
) -> ProxyBody {
    let tee = Tee { body, copy: Some(Vec::new()), bytes_max, done: Some(Box::new(done)) };
    tee.map_err(Into::into).boxed_unsync()
}

type CopyReceiver = Box<dyn FnOnce(Option<Vec<u8>>) + Send>;

struct Tee {
    body: reqwest::Body,
    /// `None` once the answer is too long.
    copy: Option<Vec<u8>>,
    bytes_max: usize,
    done: Option<CopyReceiver>,
}

impl Tee {
    fn keep(&mut self, data: &[u8]) {
        if let Some(copy) = &mut self.copy {
            if copy.len() + data.len() > self.bytes_max {
                self.copy = None;
            } else {
                copy.extend_from_slice(data);
            }
        }
    }

    fn finish(&mut self) {
        if let Some(done) = self.done.take() {
            done(self.copy.take());
        }
    }
}

impl Body for Tee {
    type Data = Bytes;
    type Error = reqwest::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, reqwest::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        match &frame {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    self.keep(data);
                }
            }
            Some(Err(_)) | None => self.finish(),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Tee {
    fn drop(&mut self) {
        self.finish();
    }
}
