//! What the proxy did for each session is reported to the daemon.

use axum::{
    body::Body,
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use recapd_config::ProxyMode;
use serde_json::{Value, json};

use super::{Rig, Server, assistant, user};

const SESSION: &str = "0b1c2d3e-0000-4000-8000-000000000001";
const AGENT: &str = "claude-code:-:0b1c2d3e-0000-4000-8000-000000000001";

pub(super) async fn totals(server: &Server, agent: &str) -> Value {
    server.get(&format!("/v1/agents/{agent}/proxy")).await.json()
}

#[tokio::test]
async fn each_session_has_its_own_totals() {
    let rig = Rig::start(ProxyMode::Answer).await;
    let mut sent = 0;
    let mut talk = Vec::new();
    for text in ["One", "Two"] {
        talk.push(user(text));
        rig.turn(SESSION, &talk).await.bytes().await.unwrap();
        sent += rig.upstream.received().last().unwrap().body.len();
        talk.push(assistant("Done."));
    }
    let other = [("x-recapd-agent", "other")];
    let body = json!({"model": "m", "messages": [user("One")]}).to_string();
    rig.post("/v1/messages", &other, body.clone()).await.bytes().await.unwrap();
    // The provider's refusal isn't stored, and the next request carries the conversation again.
    let refusal: Response = (StatusCode::BAD_REQUEST, Body::from("{}")).into_response();
    rig.upstream.plan(refusal);
    rig.post("/v1/messages", &other, body).await.bytes().await.unwrap();

    let order =
        "Your task is to create a detailed summary of the conversation. Use <analysis> and <summary>.";
    let headers = [("x-claude-code-session-id", SESSION), ("x-claude-code-request-class", "compaction")];
    let compaction = |order: &str| {
        let messages: Vec<Value> = talk.iter().cloned().chain([user(order)]).collect();
        json!({"model": "m", "tools": [{}], "messages": messages}).to_string()
    };
    let answered = rig.post("/v1/messages", &headers, compaction(order)).await;
    assert!(answered.headers()["x-recapd"].to_str().unwrap().starts_with("answered"));

    let (server, _) = rig.settled().await;
    let totals_of_session = totals(&server, AGENT).await;
    let traffic = &totals_of_session["traffic"];
    assert_eq!(traffic["requests"], 2, "{traffic}");
    assert_eq!(traffic["request_bytes"], sent, "{traffic}");
    assert!(traffic["answer_bytes"].as_i64().unwrap() > 0, "{traffic}");
    assert_eq!(traffic["compactions_answered"], 1, "{traffic}");
    assert!(traffic["saved_input_tokens"].as_i64().unwrap() > 0, "{traffic}");
    assert_eq!((&traffic["unstored"], &traffic["window_steps"]), (&json!(0), &json!(0)));
    assert!(totals_of_session["last_at"].is_string());
    let others = &totals(&server, "other").await["traffic"];
    assert_eq!((&others["requests"], &others["compactions_answered"]), (&json!(2), &json!(0)));
}

#[tokio::test]
async fn a_session_that_the_request_does_not_name_is_counted() {
    let rig = Rig::start(ProxyMode::Observe).await;
    let body = json!({"model": "m", "messages": [user("One")]}).to_string();
    rig.post("/v1/chat/completions", &[], body).await.bytes().await.unwrap();
    let (server, _) = rig.settled().await;
    let agents = server.get("/v1/agents").await.json();
    let agent = agents["agents"][0]["agent_id"].as_str().unwrap();
    assert_eq!(totals(&server, agent).await["traffic"]["requests"], 1);
}

#[tokio::test]
async fn an_answer_that_is_too_long_is_counted_as_unstored() {
    let rig = Rig::start(ProxyMode::Observe).await;
    let text = "x".repeat(5 << 20);
    let answer = json!({"role": "assistant", "content": [{"type": "text", "text": text}]}).to_string();
    let json = Response::builder().header("content-type", "application/json");
    rig.upstream.plan(json.body(Body::from(answer)).unwrap());
    rig.turn(SESSION, &[user("One")]).await.bytes().await.unwrap();
    let (server, _) = rig.settled().await;
    let traffic = &totals(&server, AGENT).await["traffic"];
    assert_eq!((&traffic["requests"], &traffic["unstored"]), (&json!(1), &json!(1)), "{traffic}");
}
