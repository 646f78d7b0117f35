//! A proxy to a daemon that delays some requests.

use std::{net::SocketAddr, time::Duration};

use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::TaskTracker;

/// Bytes of a request that are read to identify it.
const BEGINNING_BYTES: usize = 32;

/// Starts a proxy to `daemon` in which connections that begin with a GET of `path` wait for `delay`.
pub(crate) async fn at(daemon: SocketAddr, path: &'static str, delay: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connections = TaskTracker::new();
    let accepted = connections.clone();
    connections.spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            accepted.spawn(pass_on(near, daemon, path, delay));
        }
    });
    address
}

async fn pass_on(mut near: TcpStream, daemon: SocketAddr, path: &str, delay: Duration) {
    let mut beginning = [0; BEGINNING_BYTES];
    // A mere check for a listener sends nothing.
    let length = near.peek(&mut beginning).await.unwrap_or_default();
    if beginning[..length].starts_with(format!("GET {path} ").as_bytes()) {
        tokio::time::sleep(delay).await;
    }
    // Either side may have closed.
    if let Ok(mut far) = TcpStream::connect(daemon).await {
        tokio::io::copy_bidirectional(&mut near, &mut far).await.ok();
    }
}
