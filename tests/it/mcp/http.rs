//! Behaviour that is special to HTTP.

use recapd_api::mcp::MESSAGE_BYTES_MAX;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::{Events, PATIENCE, SUMMARY, ask, later};
use crate::support::server::{Reply, Server};

#[tokio::test]
async fn a_web_page_is_refused_whatever_name_it_gives_this_machine() {
    let server =
        Server::start(|config| config.http.allowed_hosts = vec!["recapd.example.com".to_owned()]).await;
    for (header, value, status) in [
        ("host", "attacker.example", 403),
        ("host", "recapd.example.com", 200),
        ("host", "localhost:7411", 200),
        ("origin", "http://attacker.example", 403),
        ("origin", "http://localhost:3000", 403),
    ] {
        let reply = Reply::of(later(&server, "tools/list", json!({})).header(header, value)).await;
        assert_eq!(reply.status, status, "{header}: {value}");
    }
}

#[tokio::test]
async fn an_oversized_message_is_refused_and_the_next_one_answered() {
    let server = Server::small().await;
    server.converse("coder", 1..=1).await;
    let words = "x".repeat(MESSAGE_BYTES_MAX);
    let arguments = json!({ "name": "recall", "arguments": { "agent": "coder", "query": words } });
    let reply = Reply::of(later(&server, "tools/call", arguments)).await;
    assert_eq!(reply.status, 413);
    assert!(ask(&server, "tools/list", json!({})).await["tools"].is_array());
}

#[tokio::test]
async fn a_client_that_sends_slowly_is_cut_off() {
    let server = Server::start(|config| config.http.request_timeout_ms = 300).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\naccept: application/json, \
         text/event-stream\r\ncontent-length: 100\r\n\r\n{{",
        server.address
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let reading = stream.read_to_string(&mut answer);
    tokio::time::timeout(PATIENCE, reading).await.expect("it is cut off").unwrap();
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    server.end().await;
}

#[tokio::test]
async fn a_listener_that_reads_nothing_blocks_nobody() {
    let server = Server::small().await;
    server.converse("coder", 1..=2).await;
    let filter = json!({ "resourceSubscriptions": [SUMMARY] });
    let request = later(&server, "subscriptions/listen", json!({ "notifications": filter }));
    let idle = Events::open(request).await;
    for round in 0..3 {
        server.converse("coder", (3 + round)..=(3 + round)).await;
        assert!(ask(&server, "resources/list", json!({})).await["resources"].is_array());
    }
    server.end().await;
    drop(idle);
}
