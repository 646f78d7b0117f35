//! Motorhead's three routes, with the shapes of its own API description.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::server::{Reply, Server};

const PATH: &str = "/sessions/chat-1/memory";

async fn memory(server: &Server) -> Value {
    let reply = server.get(PATH).await;
    assert_eq!(
        (reply.status, reply.header("content-type")),
        (200, "application/json")
    );
    reply.json()
}

#[tokio::test]
async fn motorheads_clients_work_unchanged() {
    let server = Server::start(|_| {}).await;
    assert_eq!(
        memory(&server).await,
        json!({ "messages": [], "context": null, "tokens": 0 })
    );
    let ping =
        r#"{"messages": [{ "role": "Human", "content": "ping" }, { "role": "AI", "content": "pong" }]}"#;
    let reply = server.post(PATH, ping).await;
    assert_eq!((reply.status, reply.json()), (200, json!({ "status": "Ok" })));
    let more = r#"{"messages": [{"role": "Human", "content": "And: a colon?"}], "unknown": 1}"#;
    assert_eq!(server.post(PATH, more).await.status, 200);
    let messages = json!([
        { "role": "Human", "content": "And: a colon?" },
        { "role": "AI", "content": "pong" },
        { "role": "Human", "content": "ping" },
    ]);
    assert_eq!(
        memory(&server).await,
        json!({ "messages": messages, "context": null, "tokens": 0 })
    );
    // It is an agent like any other.
    assert_eq!(server.get("/v1/agents/chat-1").await.status, 200);

    for _ in 0..2 {
        let reply = Reply::of(server.request(Method::DELETE, PATH)).await;
        assert_eq!((reply.status, reply.json()), (200, json!({ "status": "Ok" })));
        assert_eq!(memory(&server).await["messages"], json!([]));
    }
}

#[tokio::test]
async fn the_summary_is_in_the_context() {
    let server = Server::start(|config| {
        config.window.budget_tokens = 200;
        config.window.low_water = 0.5;
    })
    .await;
    let context = json!({ "messages": [], "context": "They spoke of Bogotá." });
    assert_eq!(server.post(PATH, context.to_string()).await.status, 200);
    assert_eq!(memory(&server).await["context"], "They spoke of Bogotá.");
    server.converse("chat-1", 1..=8).await;
    server.summarise().await;
    let told = server
        .get_until(PATH, |reply| reply.body.contains("Previously in This Session"))
        .await
        .json();
    let context = told["context"].as_str().unwrap();
    assert!(context.starts_with("They spoke of Bogotá.\n\n"), "{context}");
    assert!(told["tokens"].as_i64().unwrap() > 0);
    let messages = told["messages"].as_array().unwrap();
    assert!((1..8).contains(&messages.len()), "{messages:?}");
    assert_eq!(messages[0]["content"], "Fixed bug 8: the loop ended too early.");
}

#[tokio::test]
async fn the_newest_context_is_shown() {
    let server = Server::start(|_| {}).await;
    for city in ["Bogotá", "Oslo", "Oslo", "Bogotá"] {
        let context = format!("They spoke of {city}.");
        let said = json!({ "messages": [{ "role": "Human", "content": city }], "context": context });
        assert_eq!(server.post(PATH, said.to_string()).await.status, 200);
        assert_eq!(memory(&server).await["context"], context);
    }
    let memory = memory(&server).await;
    let said = memory["messages"].as_array().unwrap().iter();
    let said: Vec<_> = said.map(|message| message["content"].as_str().unwrap()).collect();
    assert_eq!(said, ["Bogotá", "Oslo", "Oslo", "Bogotá"]);
    // Messages stay, and a repeated context adds nothing.
    let window = server.get("/v1/agents/chat-1/window").await.body;
    assert_eq!(window.matches("They spoke of").count(), 3, "{window}");
}

#[tokio::test]
async fn errors_name_the_cause() {
    let server = Server::start(|_| {}).await;
    let problem = server
        .post(
            PATH,
            r#"{"messages": [{"role": "Human", "content": "a"}, {"role": "Robot", "content": "b"}]}"#,
        )
        .await
        .problem(400, "invalid_message");
    assert_eq!(problem["errors"][0]["pointer"], "/messages/1");
    server.post(PATH, "[]").await.problem(400, "invalid_body");
    server
        .post("/sessions/a%20b/memory", "{}")
        .await
        .problem(400, "invalid_agent_id");
    assert_eq!(memory(&server).await["messages"], json!([]));
}

#[tokio::test]
async fn a_body_of_very_many_values_is_refused() {
    let server = Server::start(|_| {}).await;
    let messages = vec![r#"{"role":"a","content":"b"}"#; 200_000].join(",");
    let reply = server.post(PATH, format!(r#"{{"messages":[{messages}]}}"#)).await;
    reply.problem(413, "body_too_large");
}
