//! `GET /livez`, `/readyz`, `/metrics`, and the server's shutdown.

use tokio::{io::AsyncReadExt as _, net::TcpStream};

use crate::support::{PATIENCE, server::Server, troubled_store::Trouble};

#[tokio::test]
async fn it_is_ready_while_the_database_answers() {
    let server = Server::start(|_| {}).await;
    assert_eq!(server.get("/livez").await.body, "ok\n");
    assert_eq!(server.get("/readyz").await.body, "ok\n");
    assert_eq!(server.get("/readyz?verbose").await.body, "database: ok\nrunning: ok\n");

    server.store.trouble("ping", Trouble::Unavailable);
    assert_eq!(server.get("/livez").await.status, 200);
    let reply = server.get("/readyz?verbose").await;
    let problem = reply.problem(503, "not_ready");
    assert_eq!(problem["detail"], "database: the database fails: disk I/O error");
    assert_eq!(reply.header("retry-after"), "5");

    server.store.recover();
    assert_eq!(server.get("/readyz").await.status, 200);
}

#[tokio::test]
async fn metrics_come_in_the_requested_format() {
    let server = Server::start(|_| {}).await;
    let plain = server.get("/metrics").await;
    assert_eq!(
        (plain.status, plain.header("content-type")),
        (200, "text/plain; version=0.0.4; charset=utf-8")
    );
    let open = server.get_as("/metrics", "application/openmetrics-text;version=1.0.0").await;
    assert_eq!(open.header("content-type"), "application/openmetrics-text; version=1.0.0; charset=utf-8");
    assert!(open.body.ends_with("# EOF\n"), "{}", open.body);
}

#[tokio::test]
async fn shutdown_finishes_requests_and_closes_idle_connections() {
    let server = Server::start(|_| {}).await;
    let mut idle = TcpStream::connect(server.address).await.unwrap();
    let go_on = tokio_util::sync::CancellationToken::new();
    server.store.trouble("append", Trouble::Late(go_on.clone()));
    let append = server.converse("coder", 1..=1);
    let end = async {
        // The append is under way once its write is.
        while server.writes.is_empty() {
            tokio::task::yield_now().await;
        }
        server.stop.cancel();
        assert_eq!(idle.read(&mut [0]).await.unwrap(), 0);
        go_on.cancel();
        server.end().await;
    };
    let (reply, ()) = tokio::time::timeout(PATIENCE, async { tokio::join!(append, end) }).await.unwrap();
    assert_eq!(reply.json()["accepted"], 2);
    assert!(TcpStream::connect(server.address).await.is_err());
}
