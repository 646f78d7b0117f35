//! Conversations are stored as they were, under their sessions.

use std::io::Write as _;

use axum::{
    body::Body,
    response::{IntoResponse as _, Response},
};
use flate2::{Compression, write::GzEncoder};
use recapd_config::ProxyMode;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde_json::{Value, json};

use super::{Rig, Server, assistant, counter, user, window};

const SESSION: &str = "0b1c2d3e-0000-4000-8000-000000000001";
const AGENT: &str = "claude-code:-:0b1c2d3e-0000-4000-8000-000000000001";

async fn agents(server: &Server) -> Vec<String> {
    let body: Value = serde_json::from_str(&server.get("/v1/agents").await.body).unwrap();
    let agents = body["agents"].as_array().unwrap().iter();
    agents.map(|agent| agent["agent_id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn both_sides_of_a_session_are_stored_once() {
    let rig = Rig::start(ProxyMode::Observe).await;
    let reminder = json!({"type": "text", "text": "<system-reminder>Today is Sunday.</system-reminder>"});
    let first = json!({"role": "user", "content": [reminder, {"type": "text", "text": "One"}]});
    let reply = rig.turn(SESSION, std::slice::from_ref(&first)).await;
    assert_eq!(reply.headers()["x-recapd"], format!("observed; agent={AGENT}").as_str());
    reply.bytes().await.unwrap();
    let mut talk = vec![first, assistant("Done.")];
    for text in ["Two", "Three"] {
        talk.push(user(text));
        rig.turn(SESSION, &talk).await.bytes().await.unwrap();
        talk.push(assistant("Done."));
    }
    let (server, metrics) = rig.settled().await;
    assert_eq!(window(&server, AGENT).await, ["One", "Done.", "Two", "Done.", "Three", "Done."]);
    assert_eq!(counter(&metrics, "stored_total"), 6);
}

#[tokio::test]
async fn what_is_no_conversation_is_not_stored() {
    let rig = Rig::start(ProxyMode::Observe).await;
    let ask =
        |headers: &'static [(&str, &str)], body: Value| rig.post("/v1/messages", headers, body.to_string());
    let session = ("x-claude-code-session-id", SESSION);
    let title = json!({"messages": [user("Make a title")]});
    let turn = json!({"messages": [user("One")], "tools": [{}]});
    ask(&[("x-claude-code-session-id", SESSION)], title).await;
    ask(&[("x-claude-code-session-id", SESSION), ("x-claude-code-request-class", "auxiliary")], turn.clone())
        .await;
    // A sub-agent's conversation is an agent of its own.
    ask(&[("x-claude-code-session-id", SESSION), ("x-claude-code-agent-id", "a1")], turn.clone()).await;
    rig.post("/v1/messages", &[session], turn.to_string()).await;
    let (server, _) = rig.settled().await;
    let agents = agents(&server).await;
    assert_eq!(agents.len(), 2, "{agents:?}");
    assert!(agents.iter().all(|agent| agent.starts_with(AGENT)), "{agents:?}");
}

#[tokio::test]
async fn a_conversation_without_an_id_is_one_agent() {
    let rig = Rig::start(ProxyMode::Observe).await;
    let mut talks = [vec![user("Same beginning")], vec![user("Same beginning")]];
    for round in 0..3 {
        for (number, talk) in talks.iter_mut().enumerate() {
            let body = json!({ "messages": talk }).to_string();
            let said = json!({"choices": [{"message": assistant(&format!("Answer {round} to {number}"))}]});
            rig.upstream.plan(axum::response::Json(said.clone()).into_response());
            rig.post("/v1/chat/completions", &[], body).await.bytes().await.unwrap();
            talk.extend([
                said["choices"][0]["message"].clone(),
                user(&format!("Question {round} of {number}")),
            ]);
        }
    }
    let (server, _) = rig.settled().await;
    let agents = agents(&server).await;
    assert_eq!(agents.len(), 2, "{agents:?}");
    for agent in agents {
        assert_eq!(window(&server, &agent).await.len(), 6);
    }
}

#[tokio::test]
async fn a_stream_is_stored_as_its_message() {
    let rig = Rig::start(ProxyMode::Observe).await;
    let event = |data: Value| format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap());
    let stream = [
        event(
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        ),
        event(
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Stre"}}),
        ),
        event(
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "amed."}}),
        ),
        event(json!({"type": "message_stop"})),
    ];
    let answer = Response::builder().header("content-type", "text/event-stream");
    rig.upstream.plan(answer.body(stream.concat().into()).unwrap());
    rig.turn(SESSION, &[user("One")]).await.bytes().await.unwrap();
    let (server, _) = rig.settled().await;
    assert_eq!(window(&server, AGENT).await, ["One", "Streamed."]);
}

#[tokio::test]
async fn compressed_bodies_are_stored_too() {
    let rig = Rig::start(ProxyMode::Observe).await;
    let said =
        json!({"type": "message", "role": "assistant", "content": [{"type": "text", "text": "Packed."}]});
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(said.to_string().as_bytes()).unwrap();
    let gzip = gzip.finish().unwrap();
    let answer =
        Response::builder().header("content-type", "application/json").header("content-encoding", "gzip");
    rig.upstream.plan(answer.body(Body::from(gzip.clone())).unwrap());
    let body = json!({"tools": [{}], "messages": [user("One")]}).to_string();
    let packed = compress_to_vec(body.as_bytes(), CompressionLevel::Fastest);
    let headers = [("x-claude-code-session-id", SESSION), ("content-encoding", "zstd")];
    let reply = rig.post("/v1/messages", &headers, packed.clone()).await;
    assert_eq!(reply.bytes().await.unwrap(), gzip);
    let received = rig.upstream.received();
    assert_eq!(received[0].body, packed);
    assert_eq!(received[0].headers["content-encoding"], "zstd");
    let (server, _) = rig.settled().await;
    assert_eq!(window(&server, AGENT).await, ["One", "Packed."]);
}

#[tokio::test]
async fn an_attempt_that_fails_begins_no_conversation() {
    let rig = Rig::start(ProxyMode::Observe).await;
    for status in [529, 429] {
        let refused = Response::builder().status(status).body(Body::from("{}"));
        rig.upstream.plan(refused.unwrap());
    }
    let body = json!({"messages": [user("One")]}).to_string();
    for _ in 0..3 {
        let reply = rig.post("/v1/chat/completions", &[], body.clone()).await;
        reply.bytes().await.unwrap();
    }
    let (server, _) = rig.settled().await;
    let agents = agents(&server).await;
    assert_eq!(agents.len(), 1, "{agents:?}");
    assert_eq!(window(&server, &agents[0]).await, ["One", "Done."]);
}
