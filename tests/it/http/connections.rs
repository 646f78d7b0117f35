//! Slow clients, clients that don't speak HTTP, and crowds of clients keep nobody else waiting.

use recapd_config::Config;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::support::{PATIENCE, server::Server};

/// The time limits under test: long enough to be kept on a busy machine.
const LIMIT_MS: u64 = 1_000;
const REQUEST: &[u8] = b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n";

async fn server(configure: impl FnOnce(&mut Config)) -> Server {
    Server::start(|config| {
        config.http.head_timeout_ms = LIMIT_MS;
        config.http.request_timeout_ms = 2 * LIMIT_MS;
        configure(config);
    })
    .await
}

async fn connect(server: &Server) -> TcpStream {
    TcpStream::connect(server.address).await.unwrap()
}

/// Returns everything that arrives until the daemon closes the connection.
async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let reading = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await;
    // Closing a connection with unread bytes resets it.
    drop(reading.expect("the connection ends"));
    String::from_utf8_lossy(&bytes).into_owned()
}

async fn sent(server: &Server, bytes: &[u8]) -> TcpStream {
    let mut stream = connect(server).await;
    // The connection may end before everything was sent.
    drop(stream.write_all(bytes).await);
    stream
}

async fn serves(server: &Server) {
    assert_eq!(server.get("/livez").await.status, 200);
}

#[tokio::test]
async fn a_head_that_trickles_ends_the_connection() {
    let server = server(|_| {}).await;
    for begun in ["", "GET /livez HTTP/1.1\r\nx: ", "POST /v1/agents/a/messages HT"] {
        let mut stream = sent(&server, begun.as_bytes()).await;
        serves(&server).await;
        let told = tokio::select! {
            told = rest(&mut stream) => told,
            // Further bytes don't extend the time.
            () = async { loop { serves(&server).await } } => unreachable!(),
        };
        assert!(!told.starts_with("HTTP/1.1 200"), "{begun}: {told}");
    }
}

#[tokio::test]
async fn an_idle_connection_ends() {
    let server = server(|config| config.http.idle_timeout_ms = LIMIT_MS).await;
    let mut stream = sent(&server, REQUEST).await;
    assert!(rest(&mut stream).await.starts_with("HTTP/1.1 200"));
}

/// Reads one answer to [`REQUEST`], and leaves the connection open.
async fn answered(stream: &mut TcpStream) {
    let mut answer = Vec::new();
    let reading = async {
        while !answer.ends_with(b"ok\n") {
            let byte = stream.read_u8().await.expect("it is answered");
            answer.push(byte);
        }
    };
    tokio::time::timeout(PATIENCE, reading).await.expect("it is answered");
    assert!(answer.starts_with(b"HTTP/1.1 200"));
}

#[tokio::test]
async fn a_slow_head_ends_a_connection_that_may_be_idle() {
    let server = server(|config| config.http.idle_timeout_ms = 3_600_000).await;
    let mut idle = sent(&server, REQUEST).await;
    answered(&mut idle).await;
    // The same after a request that was answered.
    let mut slow = sent(&server, REQUEST).await;
    answered(&mut slow).await;
    slow.write_all(b"GET /livez HTTP/1.1\r\nx: ").await.unwrap();
    assert_eq!(rest(&mut slow).await, "");
    idle.write_all(REQUEST).await.unwrap();
    answered(&mut idle).await;
}

#[tokio::test]
async fn the_longest_idle_connection_is_closed_for_a_new_one() {
    let server = server(|config| {
        config.http.connections_max = 3;
        config.http.head_timeout_ms = 3_600_000;
        config.http.idle_timeout_ms = 3_600_000;
    })
    .await;
    let mut events = sent(&server, b"GET /v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    let mut begin = [0; 12];
    events.read_exact(&mut begin).await.unwrap();
    let (mut first, mut second) = (sent(&server, REQUEST).await, sent(&server, REQUEST).await);
    answered(&mut first).await;
    answered(&mut second).await;
    first.write_all(REQUEST).await.unwrap();
    answered(&mut first).await;
    let mut third = sent(&server, REQUEST).await;
    answered(&mut third).await;
    assert_eq!(rest(&mut second).await, "", "it was idle the longest");
    first.write_all(REQUEST).await.unwrap();
    answered(&mut first).await;
    // A stream of events is busy, even when nothing happens for long.
    server.converse("coder", 1..=1).await;
    let told = async {
        let mut text = String::new();
        while !text.contains("agent.changed") {
            let mut piece = [0; 1_024];
            let length = events.read(&mut piece).await.unwrap();
            assert_ne!(length, 0, "{text}");
            text.push_str(&String::from_utf8_lossy(&piece[..length]));
        }
    };
    tokio::time::timeout(PATIENCE, told).await.expect("it goes on");
}

#[tokio::test]
async fn a_body_that_trickles_ends_the_request() {
    let server = server(|config| config.http.request_timeout_ms = LIMIT_MS).await;
    let head = "POST /v1/agents/coder/messages HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                transfer-encoding: chunked\r\n\r\n1\r\n[\r\n";
    let (mut reading, mut writing) = sent(&server, head.as_bytes()).await.into_split();
    let trickle = async {
        loop {
            serves(&server).await;
            if writing.write_all(b"1\r\n \r\n").await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    };
    let mut bytes = Vec::new();
    tokio::select! {
        ended = tokio::time::timeout(PATIENCE, reading.read_to_end(&mut bytes)) => drop(ended.expect("it ends")),
        () = trickle => unreachable!(),
    }
    let told = String::from_utf8_lossy(&bytes);
    assert!(told.is_empty() || told.starts_with("HTTP/1.1 408"), "{told}");
}

#[tokio::test]
async fn bytes_that_are_no_request_are_refused() {
    let server = server(|_| {}).await;
    let long = format!("GET /livez HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(200_000));
    let many = format!("GET /livez HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(500));
    let path = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(70_000));
    for (bytes, status) in [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a TLS hello \r\n\r\n".to_vec(), "400"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), "4"),
        (b"GET /livez HTTP/1.1\r\nno colon here\r\n\r\n".to_vec(), "400"),
        (b"GET /livez HTTP/1.1\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n".to_vec(), "400"),
        (vec![0; 4_096], "400"),
        (long.into_bytes(), "431"),
        (many.into_bytes(), "431"),
        (path.into_bytes(), "4"),
    ] {
        let told = rest(&mut sent(&server, &bytes).await).await;
        let begin = format!("HTTP/1.1 {status}");
        assert!(told.is_empty() || told.starts_with(&begin), "{status}: {told}");
        serves(&server).await;
    }
}

#[tokio::test]
async fn a_half_closed_connection_holds_nothing() {
    let server = server(|_| {}).await;
    for bytes in [
        "",
        "GET /livez HTT",
        "POST /v1/agents/a/messages HTTP/1.1\r\ncontent-length: 9\r\n\r\n[",
        "GET /livez HTTP/1.1\r\n\r\n",
    ] {
        let mut stream = sent(&server, bytes.as_bytes()).await;
        stream.shutdown().await.unwrap();
        rest(&mut stream).await;
        serves(&server).await;
    }
}

#[tokio::test]
async fn a_client_that_was_too_slow_frees_its_place() {
    let server = server(|config| config.http.connections_max = 2).await;
    let _held = [connect(&server).await, connect(&server).await];
    let waiting = tokio::time::timeout(PATIENCE, server.get("/livez")).await;
    assert_eq!(waiting.expect("a place comes free").status, 200);
}

#[tokio::test]
async fn many_connections_of_one_peer_are_refused() {
    let server = server(|config| {
        config.http.head_timeout_ms = 3_600_000;
        config.http.idle_timeout_ms = 3_600_000;
        config.http.connections_per_peer_max = 3;
    })
    .await;
    let mut held = Vec::new();
    for _ in 0..3 {
        let mut stream = sent(&server, REQUEST).await;
        let mut status = [0; 12];
        let answered = tokio::time::timeout(PATIENCE, stream.read_exact(&mut status)).await;
        answered.expect("it is answered").unwrap();
        assert_eq!(&status, b"HTTP/1.1 200");
        held.push(stream);
    }
    let told = rest(&mut connect(&server).await).await;
    assert!(told.starts_with("HTTP/1.1 429") && told.contains("too_many_connections"), "{told}");
    held.pop();
    let last = b"GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let answer = async {
        loop {
            // A refused client may see only the end of the connection.
            let told = rest(&mut sent(&server, last).await).await;
            if told.starts_with("HTTP/1.1 200") {
                return;
            }
        }
    };
    let answer = tokio::time::timeout(PATIENCE, answer).await;
    answer.expect("a place comes free");
}

#[tokio::test]
async fn shutdown_does_not_wait_for_incomplete_heads() {
    let server = server(|config| config.http.head_timeout_ms = 3_600_000).await;
    let mut begun = sent(&server, b"GET /livez HTTP/1.1\r\nx: ").await;
    let mut idle = connect(&server).await;
    serves(&server).await;
    server.end().await;
    assert_eq!((rest(&mut begun).await, rest(&mut idle).await), (String::new(), String::new()));
}
