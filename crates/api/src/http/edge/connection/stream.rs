//! Listeners, and connections with timeouts.

use std::{
    future::Future as _,
    io::{self, IoSlice},
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream, UnixStream},
    time::{Sleep, sleep},
};

use super::{ConnectionLimits, ConnectionState, PeerOrigin, Socket};

/// The answer to a peer that already has too many connections. It is sent before the request is read.
const REFUSAL: &str = "HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/problem+json\r\ncontent-length: 281\r\n\
retry-after: 5\r\ncache-control: private, no-store\r\nx-content-type-options: nosniff\r\nx-frame-options: DENY\r\n\
content-security-policy: default-src 'none'; frame-ancestors 'none'\r\nreferrer-policy: no-referrer\r\n\
cross-origin-resource-policy: same-origin\r\nconnection: close\r\n\r\n\
{\"type\":\"urn:recapd:problem:too_many_connections\",\"title\":\"Too many connections\",\"status\":429,\
\"detail\":\"there are too many connections from this address\",\"instance\":\"urn:recapd:request:none\",\
\"code\":\"too_many_connections\",\"hint\":\"close some, or raise http.connections_per_peer_max\"}";

pub enum Listener {
    Tcp(TcpListener),
    Unix(Socket),
    Both(TcpListener, Socket),
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Self::Tcp(listener)
    }
}

impl From<Socket> for Listener {
    fn from(socket: Socket) -> Self {
        Self::Unix(socket)
    }
}

impl Listener {
    /// Returns a listener that also accepts connections from `socket`.
    #[must_use]
    pub fn with_socket(self, socket: Socket) -> Self {
        match self {
            Self::Tcp(listener) | Self::Both(listener, _) => Self::Both(listener, socket),
            Self::Unix(_) => Self::Unix(socket),
        }
    }

    pub(super) async fn accept(&self) -> io::Result<(Stream, PeerOrigin)> {
        match self {
            Self::Tcp(listener) => accept_tcp(listener).await,
            Self::Unix(socket) => accept_unix(socket).await,
            Self::Both(listener, socket) => tokio::select! {
                accepted = accept_tcp(listener) => accepted,
                accepted = accept_unix(socket) => accepted,
            },
        }
    }
}

async fn accept_tcp(listener: &TcpListener) -> io::Result<(Stream, PeerOrigin)> {
    let (stream, address) = listener.accept().await?;
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "http.nodelay_refused");
    }
    let ip = Some(address.ip());
    Ok((Stream::Tcp(stream), PeerOrigin { ip }))
}

async fn accept_unix(socket: &Socket) -> io::Result<(Stream, PeerOrigin)> {
    let (stream, _) = socket.listener.accept().await?;
    Ok((Stream::Unix(stream), PeerOrigin { ip: None }))
}

pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

trait ByteStream: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> ByteStream for T {}

impl Stream {
    /// Sends the refusal if that needs no waiting, and closes the connection.
    pub(super) fn refuse(self) {
        // A client that doesn't read the refusal only sees that the connection is closed.
        let _sent = match self {
            Self::Tcp(stream) => stream.try_write(REFUSAL.as_bytes()),
            Self::Unix(stream) => stream.try_write(REFUSAL.as_bytes()),
        };
    }
}

/// A connection that fails if its client stops reading for too long, or sends a request's head too slowly.
pub(super) struct TimedStream {
    stream: Stream,
    limits: ConnectionLimits,
    /// A timer that runs while the client doesn't read.
    stall: Option<Pin<Box<Sleep>>>,
    /// A timer that runs while a head is arriving.
    head: Option<Head>,
    state: Arc<ConnectionState>,
}

struct Head {
    /// How many requests had begun when this head began to arrive.
    begun: u64,
    end: Pin<Box<Sleep>>,
}

impl TimedStream {
    pub(super) fn new(stream: Stream, limits: ConnectionLimits, state: Arc<ConnectionState>) -> Self {
        let mut timed = Self { stream, limits, stall: None, head: None, state };
        // On a new connection, the time of the first head begins at once.
        timed.begin_head();
        timed
    }

    fn begin_head(&mut self) {
        self.head = Some(Head { begun: self.state.begun(), end: Box::pin(sleep(self.limits.head_timeout)) });
    }

    /// Returns `read`, or an error if a request's head has taken too long. Bytes that arrive while a request is being
    /// answered belong to its body or to a later head; the time of that head begins with the next byte.
    fn check_head_time(
        &mut self,
        context: &mut Context<'_>,
        read: Poll<io::Result<()>>,
        has_arrived: bool,
    ) -> Poll<io::Result<()>> {
        let is_handling = self.state.is_handling.load(Ordering::Relaxed);
        let begun = self.state.begun();
        self.head.take_if(|head| is_handling || head.begun != begun);
        if has_arrived && !is_handling && self.head.is_none() {
            self.begin_head();
        }
        let Some(head) = self.head.as_mut().filter(|_| read.is_pending()) else {
            return read;
        };
        let ended = head.end.as_mut().poll(context);
        ended.map(|()| Err(io::ErrorKind::TimedOut.into()))
    }

    fn stream(&mut self) -> Pin<&mut dyn ByteStream> {
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream),
            Stream::Unix(stream) => Pin::new(stream),
        }
    }

    /// Returns `written`, or an error if the client has read nothing for too long.
    fn check_write_time(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            if self.stall.take().is_some() {
                self.state.is_stalled.store(false, Ordering::Relaxed);
            }
            return written;
        }
        let (state, stall_timeout) = (&self.state, self.limits.stall_timeout);
        let stall = self.stall.get_or_insert_with(|| {
            state.is_stalled.store(true, Ordering::Relaxed);
            Box::pin(sleep(stall_timeout))
        });
        stall.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for TimedStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (timed, before) = (self.get_mut(), buffer.filled().len());
        let read = timed.stream().poll_read(context, buffer);
        let has_arrived = buffer.filled().len() > before;
        timed.check_head_time(context, read, has_arrived)
    }
}

impl AsyncWrite for TimedStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let timed = self.get_mut();
        let written = timed.stream().poll_write(context, bytes);
        timed.check_write_time(context, written)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().stream().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().stream().poll_shutdown(context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let timed = self.get_mut();
        let written = timed.stream().poll_write_vectored(context, slices);
        timed.check_write_time(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Tcp(stream) => stream.is_write_vectored(),
            Stream::Unix(stream) => stream.is_write_vectored(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::AsyncWriteExt as _;

    use super::*;
    use recapd_client::PROBLEM_TYPES;
    use recapd_config::Config;

    #[test]
    fn a_refusal_is_a_problem() {
        let (head, body) = REFUSAL.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "{}", body.len());
        let problem: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!((&problem["status"], &problem["code"]), (&429.into(), &"too_many_connections".into()));
        assert_eq!(problem["type"], format!("{PROBLEM_TYPES}too_many_connections"));
    }

    #[tokio::test]
    async fn an_answer_that_is_not_read_ends_the_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let _client = TcpStream::connect(address).await.unwrap();
        let (stream, _) = Listener::from(listener).accept().await.unwrap();
        let state = Arc::new(ConnectionState::default());
        let limits =
            ConnectionLimits { stall_timeout: Duration::from_secs(30), ..(&Config::default().http).into() };
        let mut timed = TimedStream::new(stream, limits, Arc::clone(&state));
        tokio::time::pause();
        let error = timed.write_all(&vec![0; 64 << 20]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(state.is_stalled.load(Ordering::Relaxed));
    }
}
