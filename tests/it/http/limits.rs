//! Requests that are too long, too many or too slow, and clients that leave too early.

use recapd_store::Store as _;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_util::sync::CancellationToken;

use crate::support::{PATIENCE, server::Server, troubled_store::Trouble};

const PATH: &str = "/v1/agents/coder/messages";

/// Returns head and body of the problem.
async fn answer(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"}") {
        let read = tokio::time::timeout(PATIENCE, stream.read_buf(&mut bytes)).await;
        assert_ne!(read.expect("an answer comes").unwrap(), 0, "the answer breaks off");
    }
    String::from_utf8(bytes).unwrap()
}

/// Waits until every write is done, and returns the number of messages.
async fn messages_in_the_end(server: &Server) -> i64 {
    server.writes.close();
    let writes = tokio::time::timeout(PATIENCE, server.writes.wait());
    writes.await.unwrap();
    let agent = "coder".parse().unwrap();
    server.store.agent(&agent).await.unwrap().unwrap().ledger.last_seq
}

#[tokio::test]
async fn the_size_of_a_body_is_limited() {
    let server = Server::start(|config| config.http.body_bytes_max = 2_000).await;
    let body = |bytes: usize| {
        let frame = r#"{"role":"user","content":""}"#.len();
        serde_json::json!({ "role": "user", "content": "x".repeat(bytes - frame) }).to_string()
    };
    assert_eq!(body(2_000).len(), 2_000);
    assert_eq!(server.post(PATH, body(2_000)).await.status, 200);
    let problem = server.post(PATH, body(2_001)).await.problem(413, "body_too_large");
    assert_eq!(problem["detail"], "the body is longer than 2000 bytes");
    assert_eq!(server.post(PATH, body(4_000_000)).await.status, 413);
}

#[tokio::test]
async fn the_size_of_a_body_of_unknown_length_is_limited_too() {
    let server = Server::start(|config| config.http.body_bytes_max = 2_000).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = format!(
        "POST {PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    let chunk = format!("7d1\r\n{}\r\n", "x".repeat(0x7d1));
    stream.write_all(format!("{head}{chunk}0\r\n\r\n").as_bytes()).await.unwrap();
    let answer = answer(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
}

#[tokio::test]
async fn the_messages_of_a_request_are_limited() {
    let server = Server::start(|config| config.http.batch_messages_max = 3).await;
    let body = |count: usize| format!("[{}]", vec![r#"{"role":"user","content":"Hi"}"#; count].join(","));
    assert_eq!(server.post(PATH, body(3)).await.json()["accepted"], 3);
    let problem = server.post(PATH, body(4)).await.problem(413, "too_many_messages");
    assert_eq!(problem["detail"], "the request holds 4 messages; at most 3 are allowed");
    let lines = [r#"{"role":"user","content":"Hi"}"#; 4].join("\n\n");
    let reply = server.post_as(PATH, "application/x-ndjson", lines).await;
    assert_eq!(reply.problem(413, "too_many_messages"), problem);
}

#[tokio::test]
async fn only_messages_may_be_long() {
    let server = Server::start(|_| {}).await;
    server.converse("coder", 1..=1).await;
    let body = |spaces: usize| format!("{{{}}}", " ".repeat(spaces));
    let path = "/v1/agents/coder/clear";
    let problem = server.post(path, body(300_000)).await.problem(413, "body_too_large");
    assert_eq!(problem["detail"], "the body is longer than 262144 bytes");
    assert_eq!(server.post(path, body(200_000)).await.status, 200);
}

#[tokio::test]
async fn a_slow_request_is_given_up_but_its_write_is_not() {
    let server = Server::start(|config| config.http.request_timeout_ms = 1_000).await;
    let go_on = CancellationToken::new();
    server.store.trouble("append", Trouble::Late(go_on.clone()));
    let body = r#"{"role":"user","content":"Hi"}"#;
    let reply = server.post(PATH, body).await;
    let problem = reply.problem(503, "timed_out");
    assert!(problem["hint"].as_str().unwrap().contains("client id"), "{problem}");
    assert_eq!(reply.header("retry-after"), "5");
    go_on.cancel();
    assert_eq!(messages_in_the_end(&server).await, 1);

    server.store.trouble("sample", Trouble::Hang);
    server.get("/v1/status").await.problem(503, "timed_out");
}

#[tokio::test]
async fn a_write_continues_without_its_client() {
    let server = Server::start(|_| {}).await;
    let go_on = CancellationToken::new();
    server.store.trouble("append", Trouble::Late(go_on.clone()));
    let body = r#"{"role":"user","content":"Hi"}"#;
    let writes = async {
        while server.writes.is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = server.post(PATH, body) => panic!("it can't be answered yet"),
        begun = tokio::time::timeout(PATIENCE, writes) => begun.expect("it is written"),
    }
    go_on.cancel();
    assert_eq!(messages_in_the_end(&server).await, 1);
}

#[tokio::test]
async fn a_body_that_does_not_arrive_is_not_waited_for() {
    let server = Server::start(|config| config.http.request_timeout_ms = 400).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = format!(
        "POST {PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{{"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let answer = answer(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(answer.contains("body_too_slow"), "{answer}");
}
