//! A server that gives the same answer to every request.

use std::net::SocketAddr;

use axum::{
    Router,
    http::{StatusCode, header::CONTENT_TYPE},
};
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

/// Starts a server that answers every request with this `status`, and `body` as JSON. Returns its address.
pub(crate) async fn at(status: StatusCode, body: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answer = move || std::future::ready((status, [(CONTENT_TYPE, "application/json")], body));
    let serving = axum::serve(listener, Router::new().fallback(answer));
    TaskTracker::new().spawn(serving.into_future());
    address
}
