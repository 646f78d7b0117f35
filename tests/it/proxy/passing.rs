//! Bytes pass as they are, in both directions, whatever happens to the copies.

use std::io::Write as _;

use axum::{body::Body, response::Response};
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use futures::stream;
use http_body_util::StreamBody;
use hyper::body::Frame;
use recapd_config::ProxyMode;
use serde_json::Value;

use super::{Rig, assistant, counter, user, window};
use crate::support::server::Server;

const SESSION: &str = "0b1c2d3e-0000-4000-8000-000000000001";
const PATHS: [&str; 6] = [
    "/v1/messages?beta=true",
    "/v1/chat/completions",
    "/v1/responses",
    "/v1beta/models/gemini-3:streamGenerateContent?alt=sse",
    "/v1/messages/count_tokens",
    "/v1/files?purpose=x%20y",
];

/// Bytes by chance: JSON with odd spellings, and what is none.
fn body(chance: &mut fastrand::Rng) -> Vec<u8> {
    let text: String = (0..chance.usize(0..400)).map(|_| chance.char(..)).collect();
    let json = serde_json::to_string(&text).unwrap();
    match chance.u8(..4) {
        0 => (0..chance.usize(0..5_000)).map(|_| chance.u8(..)).collect(),
        1 => format!(
            "{{ \"messages\" : [ {{\"role\":\"user\",\"content\":{json}}} ],\"x\":1.0e3,\"x\":-0 }}\n"
        )
        .into_bytes(),
        2 => format!(
            "{{\"input\":[{{\"type\":\"compaction\",\"encrypted_content\":{json}}}],\"contents\":[]}}"
        )
        .into_bytes(),
        _ => format!("data: {json}\n\ndata: [DONE]\n\n").into_bytes(),
    }
}

fn chunks(bytes: &[u8], chance: &mut fastrand::Rng) -> Vec<Result<Bytes, std::io::Error>> {
    let (mut rest, mut chunks) = (bytes, Vec::new());
    while !rest.is_empty() {
        let (chunk, tail) = rest.split_at(chance.usize(1..=rest.len()));
        chunks.push(Ok(Bytes::copy_from_slice(chunk)));
        rest = tail;
    }
    chunks
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn no_byte_changes() {
    let rig = Rig::start(ProxyMode::Observe).await;
    let mut chance = fastrand::Rng::with_seed(12);
    for round in 0..200 {
        let path = PATHS[round % PATHS.len()];
        let (mut sent, mut answered) = (body(&mut chance), body(&mut chance));
        let mut headers = vec![("x-api-key", "secret"), ("content-type", "application/json")];
        if chance.bool() {
            sent = gzipped(&sent);
            headers.push(("content-encoding", "gzip"));
        }
        let mut answer =
            Response::builder().header("request-id", "r-1").header("content-type", "text/event-stream");
        if chance.bool() {
            answered = gzipped(&answered);
            answer = answer.header("content-encoding", "gzip");
        }
        let parts = chunks(&answered, &mut chance);
        rig.upstream.plan(answer.body(Body::from_stream(stream::iter(parts))).unwrap());
        let frames = chunks(&sent, &mut chance).into_iter().map(|chunk| chunk.map(Frame::data));
        let given = reqwest::Body::wrap(StreamBody::new(stream::iter(frames)));
        let reply = rig.post(path, &headers, given).await;
        assert_eq!(reply.headers()["request-id"], "r-1");
        let received = rig.upstream.received();
        let received = received.last().unwrap();
        assert_eq!(received.path, path);
        assert!(received.body == sent, "round {round} of {path}");
        assert_eq!(received.headers["x-api-key"], "secret");
        assert!(!received.headers.contains_key("x-forwarded-for"));
        let arrived = reply.bytes().await.unwrap();
        assert!(arrived == answered, "round {round} of {path}");
    }
    let (_, metrics) = rig.settled().await;
    assert_eq!(counter(&metrics, "failed_open_total"), 0);
}

#[tokio::test]
async fn errors_of_a_provider_pass_verbatim() {
    let rig = Rig::start(ProxyMode::Answer).await;
    for status in [400_u16, 401, 429, 529] {
        let text =
            format!("{{\"type\":\"error\", \"error\":{{\"message\":\"prompt is too long: {status}\"}}}}");
        let answer =
            Response::builder().status(status).header("retry-after", "7").header("x-should-retry", "true");
        rig.upstream.plan(answer.body(Body::from(text.clone())).unwrap());
        let reply = rig.turn("s", &[user("Hi")]).await;
        assert_eq!(
            (reply.status().as_u16(), &reply.headers()["retry-after"]),
            (status, &"7".parse().unwrap())
        );
        assert_eq!(reply.headers()["x-should-retry"], "true");
        assert_eq!(reply.text().await.unwrap(), text);
    }
}

#[tokio::test]
async fn a_chunk_arrives_before_the_next_one_is_sent() {
    let rig = Rig::start(ProxyMode::Observe).await;
    let (sender, receiver) = tokio::sync::mpsc::channel::<Result<Bytes, std::io::Error>>(1);
    let parts = stream::unfold(receiver, |mut receiver| async { Some((receiver.recv().await?, receiver)) });
    let answer = Response::builder().header("content-type", "text/event-stream");
    rig.upstream.plan(answer.body(Body::from_stream(parts)).unwrap());
    let mut reply = rig.turn("s", &[user("Hi")]).await;
    for text in ["event: ping\n", "data: {}\n\n"] {
        sender.send(Ok(Bytes::from_static(text.as_bytes()))).await.unwrap();
        assert_eq!(reply.chunk().await.unwrap().unwrap(), text);
    }
    // A client that goes away ends the request to the provider.
    drop(reply);
    sender.closed().await;
}

#[tokio::test]
async fn without_a_daemon_everything_passes() {
    let server = Server::start(|_| {}).await;
    let rig = Rig::over(server, "http://127.0.0.1:9", |config| {
        config.proxy.mode = ProxyMode::Answer;
    })
    .await;
    for _ in 0..3 {
        let reply = rig.turn("s", &[user("Hi")]).await;
        assert!(reply.text().await.unwrap().contains("Done."));
    }
    assert_eq!(rig.upstream.received().len(), 3);
}

#[tokio::test]
async fn a_body_over_the_limit_passes_unread() {
    let rig = Rig::configured(|config| config.proxy.body_bytes_max = 1_024).await;
    let long = "x".repeat(100_000);
    let reply = rig.turn("s", &[user(&long), assistant("Yes."), user("Hi")]).await;
    assert!(reply.text().await.unwrap().contains("Done."));
    assert!(rig.upstream.received()[0].body.len() > 100_000);
    let (server, metrics) = rig.settled().await;
    assert_eq!(counter(&metrics, "unstored_total{reason=\"too_long\"}"), 1);
    assert_eq!(server.get("/v1/agents").await.body.matches("agent_id").count(), 0);
}

#[tokio::test]
async fn what_is_not_the_providers_is_answered_here() {
    let rig = Rig::configured(|config| config.proxy.token_file = "rcp_1".to_owned()).await;
    let token = ("x-recapd-token", "rcp_1");
    let live = rig.client.get(format!("{}/recapd/livez", rig.base)).send().await.unwrap();
    assert_eq!(live.text().await.unwrap(), "ok\n");
    let protocol = rig.client.get(format!("{}/protocol", rig.base)).send().await.unwrap();
    let protocol: Value = serde_json::from_str(&protocol.text().await.unwrap()).unwrap();
    assert_eq!(protocol["mode"], "observe");
    let head = rig.client.head(&rig.base).send().await.unwrap();
    assert_eq!(head.status(), 200);
    for (path, headers, status, member) in [
        ("/v1/messages", vec![], 403, "/error/type"),
        ("/v1/messages", vec![token, ("sec-fetch-site", "cross-site")], 403, "/error/type"),
        ("/v1/responses", vec![token, ("upgrade", "websocket")], 426, "/error/code"),
        ("/to/nobody/v1/messages", vec![token], 404, "/error/message"),
    ] {
        let reply = rig.post(path, &headers, "{}").await;
        assert_eq!(reply.status(), status, "{path} {headers:?}");
        let body: Value = serde_json::from_str(&reply.text().await.unwrap()).unwrap();
        assert!(body.pointer(member).is_some_and(Value::is_string), "{body}");
    }
    assert!(rig.upstream.received().is_empty());
    // Java's client offers another protocol with each request, and goes on without.
    let reply = rig.post("/v1/messages", &[token, ("upgrade", "h2c")], "{}").await;
    assert_eq!(reply.status(), 200);
    // The token goes no further, wherever it stood.
    rig.post("/t/rcp_1/v1/messages", &[], "{}").await;
    rig.post("/v1/messages", &[token], "{}").await;
    for received in rig.upstream.received() {
        assert_eq!((received.path.as_str(), received.method.as_str()), ("/v1/messages", "POST"));
        assert!(!received.headers.contains_key("x-recapd-token"));
    }
}

#[tokio::test]
async fn a_provider_that_is_away_is_named_in_the_clients_own_form() {
    let rig = Rig::configured(|config| config.proxy.anthropic_url = "http://127.0.0.1:9".to_owned()).await;
    let reply = rig.turn(SESSION, &[user("Hi")]).await;
    assert_eq!(reply.status(), 502);
    let body: Value = serde_json::from_str(&reply.text().await.unwrap()).unwrap();
    assert_eq!(body["type"], "error");
    let (server, _) = rig.settled().await;
    // What was asked is stored all the same.
    assert_eq!(window(&server, &format!("claude-code:-:{SESSION}")).await, ["Hi"]);
}
