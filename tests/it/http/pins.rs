//! `POST /v1/agents/{id}/pin` and `unpin`, `GET /v1/agents/{id}/pins`, and copies in contexts.

use serde_json::{Value, json};

use crate::support::server::{Reply, Server};

async fn with_archive() -> Server {
    let server = Server::start(|config| {
        config.window.budget_tokens = 200;
        config.window.low_water = 0.5;
        config.context.pins_max_tokens = 130;
    })
    .await;
    server.converse("coder", 1..=8).await;
    server
}

async fn post(server: &Server, action: &str, seq: i64) -> Reply {
    let path = format!("/v1/agents/coder/{action}");
    server.post(&path, json!({ "seq": seq }).to_string()).await
}

async fn head(server: &Server, first_exchange: i64) -> (String, Value) {
    let path = "/v1/agents/coder/context?format=openai";
    let is_there = |reply: &Reply| reply.json()["first_exchange"] == first_exchange;
    let reply = server.get_until(path, is_there).await.json();
    (reply["body"]["messages"][0]["content"].as_str().unwrap().to_owned(), reply)
}

#[tokio::test]
async fn a_pinned_message_is_copied_once_its_exchange_has_left() {
    let server = with_archive().await;
    let pinned = post(&server, "pin", 6).await;
    assert_eq!(pinned.json(), json!({"seq": 6, "pinned": true, "first_exchange": 7}), "{}", pinned.body);
    post(&server, "pin", 15).await;
    let (text, reply) = head(&server, 7).await;
    assert!(
        text.contains(
            "<copy of=\"message 6\" exchange=\"#3\" by=\"assistant\" why=\"pinned\">\nFixed bug 3:"
        ),
        "{text}"
    );
    assert_eq!(reply["copied"], json!([6]));
    let copy = text.find("<copy").unwrap();
    assert!(text.starts_with("Fix bug 1 ") && copy < text.find("<summary").unwrap(), "{text}");
    // An important message of the session is copied as well; the exchanges are summarised all the same.
    let body = r#"[{"role":"user","content":"Always test.","important":true},{"role":"assistant","content":"Yes."}]"#;
    server.post("/v1/agents/coder/messages", body).await;
    server.converse("coder", 9..=14).await;
    let (text, reply) = head(&server, 14).await;
    assert_eq!(reply["copied"], json!([6, 15, 19]), "{text}");
    assert!(text.contains("why=\"important\">\nAlways test.") && text.contains("#3)"), "{text}");
    let shown = server.get("/v1/agents/coder/pins").await.json();
    assert_eq!(shown["max_tokens"], 130);
    let brief: Vec<(i64, bool, bool)> = shown["pins"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pin| (pin["seq"].as_i64().unwrap(), pin["pinned"] == true, pin["in_window"] == true))
        .collect();
    assert_eq!(brief, [(6, true, false), (15, true, false), (19, false, false)]);
    assert_eq!(shown["pins"][0]["title"], "Fixed bug 3: the loop ended too early.");
    assert_eq!(post(&server, "unpin", 6).await.json()["pinned"], false);
    assert_eq!(head(&server, 14).await.1["copied"], json!([15, 19]));
}

#[tokio::test]
async fn messages_without_room_are_named() {
    let server = with_archive().await;
    for number in [1, 2] {
        let body = json!([{"role": "user", "content": format!("Rule {number}: {}", "mind ".repeat(80)), "important": true},
                          {"role": "assistant", "content": "Yes."}]);
        server.post("/v1/agents/coder/messages", body.to_string()).await;
    }
    server.converse("coder", 9..=14).await;
    let agent = server.get("/v1/agents/coder").await.json();
    let (_, reply) = head(&server, agent["first_exchange"].as_i64().unwrap()).await;
    assert_eq!(reply["copied"], json!([19]), "{}", reply["notes"]);
    let note = reply["notes"][0].as_str().unwrap();
    assert!(note.starts_with("no room for copies of important message 17 of exchange #9:"), "{note}");
    // A pin is refused when it is made.
    post(&server, "pin", 17).await;
    let refused = post(&server, "pin", 19).await;
    let problem = refused.problem(409, "pins_full");
    assert!(problem["hint"].as_str().unwrap().contains("unpin"), "{problem}");
}

#[tokio::test]
async fn invalid_pins_are_refused() {
    let server = Server::start(|_| {}).await;
    server.converse("coder", 1..=1).await;
    for (path, body, status, code) in [
        ("coder/pin", r#"{"seq":9}"#, 404, "unknown_message"),
        ("coder/unpin", r#"{"seq":1}"#, 404, "unknown_message"),
        ("coder/pin", "{}", 400, "invalid_body"),
        ("coder/pin", r#"{"seq":"1"}"#, 400, "invalid_body"),
        ("nobody/pin", r#"{"seq":1}"#, 404, "unknown_agent"),
    ] {
        let reply = server.post(&format!("/v1/agents/{path}"), body).await;
        reply.problem(status, code);
    }
    server.get("/v1/agents/nobody/pins").await.problem(404, "unknown_agent");
    server.get("/v1/agents/coder/pins?x=1").await.problem(400, "unknown_parameter");
}
