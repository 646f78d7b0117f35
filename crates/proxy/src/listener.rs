//! The proxy's listener and its connections.

use std::{convert::Infallible, io, net, os::unix, path::Path, pin::pin, time::Duration};

use hyper::{server::conn::http1::Builder, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use listenfd::ListenFd;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener},
    time::sleep,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::service::Proxy;
use recapd_config::Listen;

/// The head of a request must arrive within this time.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Limits the head of a request.
const HEAD_BYTES_MAX: usize = 128 << 10;
/// The pause after a failed accept, because the cause, such as too many open files, mostly lasts for a while.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// A listener that the service manager created (`sd_listen_fds(3)`). It holds new connections while the proxy restarts.
#[derive(Debug)]
pub enum InheritedListener {
    Tcp(net::TcpListener),
    Unix(unix::net::UnixListener),
}

impl InheritedListener {
    /// Takes the listener that the environment names; `None` if there is none. Call this before anything else reads the
    /// environment, because it changes the environment.
    ///
    /// # Errors
    /// If the environment names something that isn't a listening socket.
    pub fn take() -> io::Result<Option<Self>> {
        let mut inherited = ListenFd::from_env();
        match inherited.take_tcp_listener(0) {
            Ok(listener) => Ok(listener.map(Self::Tcp)),
            Err(_) => Ok(inherited.take_unix_listener(0)?.map(Self::Unix)),
        }
    }

    /// True if only programs on this machine can connect.
    pub fn is_near(&self) -> bool {
        match self {
            Self::Tcp(listener) => listener.local_addr().is_ok_and(|address| address.ip().is_loopback()),
            Self::Unix(_) => true,
        }
    }
}

/// Listens for agents.
#[derive(Debug)]
pub enum ProxyListener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl ProxyListener {
    /// Listens at an inherited listener.
    ///
    /// # Errors
    /// If the listener can't be used any more.
    pub fn inherited(listener: InheritedListener) -> io::Result<Self> {
        match listener {
            InheritedListener::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                TcpListener::from_std(listener).map(Self::Tcp)
            }
            InheritedListener::Unix(listener) => {
                listener.set_nonblocking(true)?;
                UnixListener::from_std(listener).map(Self::Unix)
            }
        }
    }

    /// Listens at `listen`. Replaces the file of a socket on which no program listens any more.
    ///
    /// # Errors
    /// If the address is in use or not allowed.
    pub async fn listen(listen: &Listen) -> io::Result<Self> {
        match listen {
            Listen::Address(address) => TcpListener::bind(address).await.map(Self::Tcp),
            Listen::Socket(path) => listen_at(path).map(Self::Unix),
        }
    }
}

fn listen_at(path: &Path) -> io::Result<UnixListener> {
    let is_dead = unix::net::UnixStream::connect(path)
        .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    if is_dead {
        std::fs::remove_file(path)?;
    }
    UnixListener::bind(path)
}

/// Handles requests until `stop`. Then waits until the answers in progress are sent.
pub async fn serve(listener: ProxyListener, proxy: Proxy, stop: CancellationToken) {
    let connections = TaskTracker::new();
    loop {
        let accepted = match &listener {
            ProxyListener::Tcp(listener) => {
                stop.run_until_cancelled(listener.accept()).await.map(|accepted| {
                    accepted.map(|(stream, _)| {
                        let (proxy, stop) = (proxy.clone(), stop.clone());
                        // Each chunk of a stream goes out at once.
                        if let Err(error) = stream.set_nodelay(true) {
                            tracing::debug!(%error, "proxy.nodelay_refused");
                        }
                        connections.spawn(connection(stream, proxy, stop));
                    })
                })
            }
            ProxyListener::Unix(listener) => {
                stop.run_until_cancelled(listener.accept()).await.map(|accepted| {
                    accepted.map(|(stream, _)| {
                        connections.spawn(connection(stream, proxy.clone(), stop.clone()));
                    })
                })
            }
        };
        match accepted {
            None => break,
            Some(Ok(())) => {}
            Some(Err(error)) => {
                tracing::error!(%error, "proxy.accept_failed");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

async fn connection(stream: impl AsyncRead + AsyncWrite + Unpin, proxy: Proxy, stop: CancellationToken) {
    let service = service_fn(|request| {
        let proxy = proxy.clone();
        async move { Ok::<_, Infallible>(proxy.handle(request).await) }
    });
    let serving = Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut serving = pin!(serving);
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = stop.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::trace!(%error, "proxy.connection_failed");
    }
}
