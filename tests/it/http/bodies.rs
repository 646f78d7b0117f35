//! Many long bodies at once: some of them have room, and short ones always do.

use futures::{StreamExt as _, stream::FuturesUnordered};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_util::sync::CancellationToken;

use crate::support::{PATIENCE, server::Server, troubled_store::Trouble};

const PATH: &str = "/v1/agents/coder/messages";
/// The longest body. There is room for two of them, one of each client.
const BYTES_MAX: usize = 512 * 1_024;
/// The bytes of a body that need no room.
const FREE_BYTES: usize = 64 * 1_024;

/// Starts a server on which nobody is too slow.
async fn server() -> Server {
    Server::start(|config| {
        config.http.body_bytes_max = BYTES_MAX;
        config.http.request_timeout_ms = 3_600_000;
    })
    .await
}

/// Makes a message of `bytes` bytes.
fn body(bytes: usize) -> String {
    let frame = r#"{"role":"user","content":""}"#.len();
    serde_json::json!({ "role": "user", "content": "x".repeat(bytes - frame) }).to_string()
}

/// Sends eight long bodies at once. One is held until the others are answered, since the other half of the room is for others.
async fn crowd(server: &Server) {
    let go_on = CancellationToken::new();
    server.store.trouble("append", Trouble::Late(go_on.clone()));
    let asking = (0..8).map(|_| server.post(PATH, body(500_000)));
    let mut replies: FuturesUnordered<_> = asking.collect();
    for _ in 0..7 {
        let reply = replies.next().await.unwrap();
        reply.problem(503, "too_many_bodies");
        assert_eq!(reply.header("retry-after"), "5");
    }
    go_on.cancel();
    while let Some(reply) = replies.next().await {
        assert_eq!(reply.status, 200, "{}", reply.body);
    }
}

#[tokio::test]
async fn as_many_long_bodies_are_accepted_as_there_is_room_for() {
    let server = server().await;
    let crowds = async {
        crowd(&server).await;
        // All of the room is free again.
        crowd(&server).await;
    };
    tokio::time::timeout(PATIENCE, crowds).await.expect("all are answered");
    assert_eq!(server.post(PATH, body(BYTES_MAX)).await.status, 200);
}

/// Sends a body of `bytes` without its last byte.
async fn unfinished(server: &Server, bytes: usize) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = format!(
        "POST {PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {bytes}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&vec![b' '; bytes - 1]).await.unwrap();
    stream
}

/// Begins long bodies until there is no room for another one.
async fn exhaust(server: &Server) -> Vec<TcpStream> {
    let mut begun = Vec::new();
    loop {
        // A body next to the probe of this loop may have been refused, so two may not be enough.
        begun.push(unfinished(server, BYTES_MAX).await);
        let reply = server.post(PATH, body(300_000)).await;
        if reply.status != 200 {
            reply.problem(503, "too_many_bodies");
            return begun;
        }
    }
}

#[tokio::test]
async fn unfinished_bodies_block_no_short_ones_and_free_their_room() {
    let server = server().await;
    let exhausted = tokio::time::timeout(PATIENCE, exhaust(&server)).await;
    let begun = exhausted.expect("there is an end to the room");
    assert_eq!(server.post(PATH, body(FREE_BYTES)).await.status, 200);
    assert_eq!(server.post("/v1/agents/coder/clear", "{}").await.status, 200);
    let long = server.post(PATH, body(BYTES_MAX)).await;
    long.problem(503, "too_many_bodies");
    drop(begun);
    let taken = async { while server.post(PATH, body(BYTES_MAX)).await.status != 200 {} };
    tokio::time::timeout(PATIENCE, taken).await.expect("it is given back");
}

/// Returns the beginning of the answer, for a client that reads it after sending all of a long body.
async fn told(server: &Server, path: &str) -> String {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let body = vec![b' '; 8_000_000];
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    for piece in body.chunks(64 * 1_024) {
        stream.write_all(piece).await.expect("it is read");
    }
    let mut begin = [0; 12];
    stream.read_exact(&mut begin).await.expect("it is answered");
    String::from_utf8_lossy(&begin).into_owned()
}

#[tokio::test]
async fn a_client_refused_before_the_end_of_its_body_sees_why() {
    let server = server().await;
    for (path, status) in
        [(format!("{PATH}?formt=1"), 400), ("/v1/nothing".to_owned(), 404), (PATH.to_owned(), 413)]
    {
        let told = tokio::time::timeout(PATIENCE, told(&server, &path)).await;
        assert_eq!(told.expect("it ends"), format!("HTTP/1.1 {status}"), "{path}");
    }
}
