//! Connections: no more than there are places for. Further ones wait in the system's queue until one closes.
//!
//! Nobody keeps a place by being slow: the head of a request has to come in time, also the next one on the same connection
//! (its body has a limit of its own, [`super::body`]), and an answer has to be taken.

use std::{
    future::Future as _,
    io::{self, IoSlice},
    net::SocketAddr,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{Router, serve::Listener};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Sleep, sleep},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// The most connections at once.
pub const CONNECTIONS_MAX: usize = 1_024;

/// How long the head of a request may take, from when it is waited for.
const HEAD_WAIT: Duration = Duration::from_secs(30);
/// How long a client may take none of an answer.
const STALL_MAX: Duration = Duration::from_secs(30);

/// Answers requests until `stop`; then until the last connection is closed.
pub(super) async fn serve(mut listener: Limited, router: Router, stop: CancellationToken) {
    let connections = TaskTracker::new();
    while let Some((connection, _)) = stop.run_until_cancelled(listener.accept()).await {
        connections.spawn(answer(connection, router.clone(), stop.clone(), HEAD_WAIT));
    }
    // Who connects from now on is refused.
    drop(listener);
    connections.close();
    connections.wait().await;
}

async fn answer(connection: Connection, router: Router, stop: CancellationToken, head_wait: Duration) {
    let mut builder = Builder::new(TokioExecutor::new()).http1_only();
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(head_wait);
    let service = TowerToHyperService::new(router);
    let mut answering = pin!(builder.serve_connection(TokioIo::new(connection), service));
    let ended = tokio::select! {
        ended = answering.as_mut() => ended,
        () = stop.cancelled() => {
            // The request under way is answered, and no other one.
            answering.as_mut().graceful_shutdown();
            answering.await
        }
    };
    if let Err(error) = ended {
        tracing::trace!(%error, "http.connection_failed");
    }
}

/// A listener that accepts while there are places.
pub(super) struct Limited {
    listener: TcpListener,
    places: Arc<Semaphore>,
}

impl Limited {
    pub(super) fn new(listener: TcpListener) -> Self {
        Self::with_connections_max(listener, CONNECTIONS_MAX)
    }

    fn with_connections_max(listener: TcpListener, connections_max: usize) -> Self {
        Self {
            listener,
            places: Arc::new(Semaphore::new(connections_max)),
        }
    }
}

impl Listener for Limited {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        // The semaphore is never closed, so there always is a permit.
        let place = Arc::clone(&self.places).acquire_owned().await.ok();
        let (stream, address) = Listener::accept(&mut self.listener).await;
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "http.nodelay_refused");
        }
        (
            Connection {
                stream,
                stall: None,
                _place: place,
            },
            address,
        )
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that gives its place back when it is dropped.
pub(super) struct Connection {
    stream: TcpStream,
    /// Runs while the client takes nothing.
    stall: Option<Pin<Box<Sleep>>>,
    _place: Option<OwnedSemaphorePermit>,
}

impl Connection {
    fn stream(self: Pin<&mut Self>) -> Pin<&mut TcpStream> {
        Pin::new(&mut self.get_mut().stream)
    }

    /// `written`, or an error if nothing has been for too long.
    fn in_time(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.stall = None;
            return written;
        }
        let stall = self.stall.get_or_insert_with(|| Box::pin(sleep(STALL_MAX)));
        stall
            .as_mut()
            .poll(context)
            .map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream().poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = self.as_mut().stream().poll_write(context, bytes);
        self.in_time(context, written)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = self.as_mut().stream().poll_write_vectored(context, slices);
        self.in_time(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// A client and the daemon's side of its connection.
    async fn connected() -> (TcpStream, Connection) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let client = TcpStream::connect(address).await.unwrap();
        let (connection, _) = Limited::with_connections_max(listener, 1).accept().await;
        (client, connection)
    }

    #[tokio::test]
    async fn a_head_that_trickles_ends_the_connection() {
        for begun in ["", "GET /livez HTTP/1.1\r\nx: "] {
            let (mut client, connection) = connected().await;
            client.write_all(begun.as_bytes()).await.unwrap();
            let stop = CancellationToken::new();
            // It ends by itself, whatever the client goes on sending.
            answer(connection, Router::new(), stop, Duration::from_millis(50)).await;
            let mut rest = Vec::new();
            let ended = client.read_to_end(&mut rest).await;
            assert!(ended.is_err() || !rest.starts_with(b"HTTP/1.1 200"), "{begun}");
        }
    }

    #[tokio::test]
    async fn an_answer_that_nobody_takes_ends_the_connection() {
        let (_client, mut connection) = connected().await;
        tokio::time::pause();
        let error = connection.write_all(&vec![0; 64 << 20]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_connection_waits_until_another_one_closes() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut limited = Limited::with_connections_max(listener, 1);
        let _clients = [
            TcpStream::connect(address).await.unwrap(),
            TcpStream::connect(address).await.unwrap(),
        ];
        let (first, _) = limited.accept().await;
        assert!(limited.accept().now_or_never().is_none());
        drop(first);
        assert!(limited.accept().now_or_never().is_some());
    }
}
