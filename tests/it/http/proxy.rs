//! `GET` and `POST /v1/agents/{id}/proxy`.

use serde_json::{Value, json};

use crate::support::server::{Reply, Server};

const PATH: &str = "/v1/agents/coder/proxy";

async fn report(server: &Server, name: &str, traffic: Value) -> Reply {
    let body = json!({"report": name, "traffic": traffic}).to_string();
    server.post(PATH, body).await
}

#[tokio::test]
async fn reports_are_added_up_and_shown() {
    let server = Server::start(|_| {}).await;
    assert_eq!(server.get(PATH).await.status, 404);
    assert_eq!(report(&server, "a-1", json!({"requests": 1})).await.status, 404);
    server.converse("coder", 1..=1).await;
    let none = server.get(PATH).await.json();
    assert_eq!((&none["traffic"]["requests"], &none["first_at"]), (&json!(0), &Value::Null));
    for _ in 0..2 {
        let traffic = json!({"requests": 2, "saved_input_tokens": 900});
        assert_eq!(report(&server, "a-1", traffic).await.status, 200);
    }
    let told = report(&server, "a-2", json!({"requests": 3})).await.json();
    let shown = server.get(PATH).await.json();
    assert_eq!(told, shown);
    let traffic = &shown["traffic"];
    assert_eq!((&traffic["requests"], &traffic["saved_input_tokens"]), (&json!(5), &json!(900)));
    assert!(shown["first_at"].is_string() && shown["last_at"].is_string(), "{shown}");
}

#[tokio::test]
async fn a_wrong_report_is_refused() {
    let server = Server::start(|_| {}).await;
    server.converse("coder", 1..=1).await;
    for (name, traffic) in [
        ("", json!({})),
        ("a b", json!({})),
        ("a-1", json!({"requests": -1})),
        ("a-1", json!({"requets": 1})),
        ("a-1", json!(3)),
    ] {
        let reply = report(&server, name, traffic).await;
        assert_eq!((reply.status, &reply.json()["code"]), (400, &json!("invalid_body")), "{}", reply.body);
    }
    assert_eq!(server.get(PATH).await.json()["first_at"], Value::Null);
}
