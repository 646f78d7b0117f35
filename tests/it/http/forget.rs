//! `POST /v1/agents/{id}/forget` and `DELETE /v1/agents/{id}`.

use reqwest::Method;
use serde_json::json;

use crate::support::server::{Reply, Server};

async fn with_archive() -> Server {
    let server = Server::start(|config| {
        config.window.budget_tokens = 200;
        config.window.low_water = 0.5;
    })
    .await;
    server.converse("coder", 1..=8).await;
    server
}

async fn forget(server: &Server, body: serde_json::Value) -> Reply {
    server.post("/v1/agents/coder/forget", body.to_string()).await
}

async fn delete(server: &Server, path: &str) -> Reply {
    Reply::of(server.request(Method::DELETE, &format!("/v1/agents/{path}"))).await
}

#[tokio::test]
async fn readers_see_nothing_of_a_forgotten_exchange() {
    let server = with_archive().await;
    server.summarise().await;
    server.converse("coder", 9..=12).await;
    let before = server.get("/v1/agents/coder/summary").await;
    assert!(before.body.contains("bug 3") && before.body.contains("bug 9"), "{}", before.body);
    let reply = forget(&server, json!({"exchanges": [3, 9, 12]})).await.json();
    assert_eq!(
        (&reply["messages"], &reply["exchanges"], &reply["agents"], &reply["journals_left"]),
        (&6.into(), &json!([3, 9, 12]), &json!(["coder"]), &json!([])),
        "{reply}"
    );
    for accept in ["application/json", "text/markdown"] {
        let is_new = |reply: &Reply| !reply.body.contains("bug 3");
        server.get_until("/v1/agents/coder/summary", is_new).await;
        let summary = server.get_as("/v1/agents/coder/summary", accept).await;
        assert!(!summary.body.contains("bug 9") && summary.body.contains("(forgotten)"), "{}", summary.body);
        assert!(summary.body.contains("bug 8"), "{}", summary.body);
        assert_ne!(summary.header("etag"), before.header("etag"));
    }
    for format in ["anthropic", "openai", "openai-responses", "gemini"] {
        let context = server.get(&format!("/v1/agents/coder/context?format={format}")).await;
        assert_eq!(context.status, 200, "{}", context.body);
        for words in ["bug 3", "bug 9", "bug 12"] {
            assert!(!context.body.contains(words), "{words} in {}", context.body);
        }
        assert!(!context.body.contains(r#""forgotten":true"#), "{}", context.body);
    }
    let history = server.get("/v1/agents/coder/history?all=1").await;
    assert!(!history.body.contains("bug 12") && history.body.contains("(forgotten)"), "{}", history.body);
    // The conversation goes on in place of the exchange.
    server.converse("coder", 13..=14).await;
    server.summarise().await;
    let shown = server.get("/v1/agents/coder/exchanges/12").await.json();
    assert_eq!((&shown["tokens"], &shown["messages"][0]["forgotten"]), (&0.into(), &true.into()), "{shown}");
}

#[tokio::test]
async fn invalid_requests_to_forget_are_refused() {
    let server = with_archive().await;
    let too_many: Vec<i64> = (1..=1_001).collect();
    for (body, status, code) in [
        (json!({}), 400, "invalid_body"),
        (json!({"exchanges": []}), 400, "invalid_body"),
        (json!({"exchanges": too_many}), 400, "invalid_body"),
        (json!({"exchanges": [1], "message": 1}), 400, "invalid_body"),
        (json!({"exchange": 1}), 400, "invalid_body"),
        (json!({"exchanges": [99]}), 404, "unknown_exchange"),
        (json!({"message": 99}), 404, "unknown_message"),
    ] {
        forget(&server, body).await.problem(status, code);
    }
    server.post("/v1/agents/nobody/forget", r#"{"message":1}"#).await.problem(404, "unknown_agent");
}

#[tokio::test]
async fn an_agent_is_deleted_when_its_id_is_given_again() {
    let server = with_archive().await;
    server.get("/v1/agents/coder/summary").await;
    server.post("/v1/agents/coder/fork", r#"{"child":"scout"}"#).await;
    delete(&server, "coder").await.problem(400, "invalid_parameter");
    delete(&server, "coder?confirm=code").await.problem(400, "invalid_parameter");
    delete(&server, "nobody?confirm=nobody").await.problem(404, "unknown_agent");
    let problem = delete(&server, "coder?confirm=coder").await.problem(409, "has_forks");
    assert!(problem["detail"].as_str().unwrap().contains("scout"), "{problem}");
    assert_eq!(delete(&server, "scout?confirm=scout").await.status, 200);
    let reply = delete(&server, "coder?confirm=coder").await.json();
    assert_eq!((&reply["messages"], &reply["journal_removed"]), (&16.into(), &true.into()), "{reply}");
    let is_gone = |reply: &Reply| reply.status == 404;
    server.get_until("/v1/agents/coder/summary", is_gone).await.problem(404, "unknown_agent");
    server.get("/v1/agents/coder/recall?q=bug").await.problem(404, "unknown_agent");
}
