//! The compactions of hosts are answered from memory, or forwarded.

use recapd_config::ProxyMode;
use serde_json::{Value, json};

use super::{Rig, assistant, counter, user, window};

const SESSION: &str = "0b1c2d3e-0000-4000-8000-000000000001";
const CLAUDE: &str = "claude-code:-:0b1c2d3e-0000-4000-8000-000000000001";
const CODEX: &str = "codex:-:0b1c2d3e-0000-4000-8000-000000000001";

fn compaction(messages: &[Value], instructions: &str) -> String {
    let order = format!(
        "Your task is to create a detailed summary of the conversation. Use <analysis> and <summary>.{instructions}"
    );
    let messages: Vec<Value> = messages.iter().cloned().chain([user(&order)]).collect();
    json!({"model": "m", "tools": [{}], "messages": messages}).to_string()
}

#[tokio::test]
async fn claudes_compaction_is_answered_without_the_provider() {
    let rig = Rig::start(ProxyMode::Answer).await;
    let talk = [user("Always use pnpm"), assistant("Done.")];
    rig.turn(SESSION, &talk[..1]).await.bytes().await.unwrap();
    let headers = [("x-claude-code-session-id", SESSION), ("x-claude-code-request-class", "compaction")];
    let reply = rig.post("/v1/messages", &headers, compaction(&talk, "")).await;
    assert!(reply.headers()["x-recapd"].to_str().unwrap().starts_with("answered"));
    let body: Value = serde_json::from_str(&reply.text().await.unwrap()).unwrap();
    let text = body["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("<summary>") && text.contains("Always use pnpm"), "{text}");
    assert_eq!(rig.upstream.received().len(), 1);
    // The user's own instructions want a model, and so does a session that recapd doesn't know.
    rig.post("/v1/messages", &headers, compaction(&talk, "\n\nAdditional Instructions:\nKeep the SQL."))
        .await;
    assert_eq!(rig.upstream.received().len(), 2);
    // The host goes on with the summary in place of the conversation.
    let summary = format!("This session is being continued from a previous conversation.\n{text}");
    rig.turn(SESSION, &[user(&summary), assistant("Done."), user("Next")]).await.bytes().await.unwrap();
    let (server, metrics) = rig.settled().await;
    let shown = window(&server, CLAUDE).await;
    assert_eq!(shown.last().unwrap(), "Done.", "{shown:?}");
    assert!(shown.contains(&"Next".to_owned()), "{shown:?}");
    assert_eq!(counter(&metrics, "compactions_total{outcome=\"answered\"}"), 1);
}

#[tokio::test]
async fn an_observer_answers_nothing() {
    let rig = Rig::start(ProxyMode::Observe).await;
    let talk = [user("One"), assistant("Done.")];
    rig.turn(SESSION, &talk[..1]).await.bytes().await.unwrap();
    let headers = [("x-claude-code-session-id", SESSION), ("x-claude-code-request-class", "compaction")];
    let sent = compaction(&talk, "");
    rig.post("/v1/messages", &headers, sent.clone()).await;
    assert_eq!(rig.upstream.received()[1].body, sent);
    let (server, _) = rig.settled().await;
    assert_eq!(window(&server, CLAUDE).await, ["One", "Done."]);
}

#[tokio::test]
async fn codex_capsule_never_reaches_the_provider() {
    let rig = Rig::start(ProxyMode::Answer).await;
    let message = |text: &str| json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]});
    let ask = |items: Value| {
        let body = json!({"model": "m", "stream": false, "input": items}).to_string();
        rig.post("/v1/responses", &[("session-id", SESSION), ("user-agent", "codex_cli_rs/1")], body)
    };
    let said = json!({"output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Fixed."}]}]});
    rig.upstream.plan(axum::response::IntoResponse::into_response(axum::Json(said)));
    ask(json!([message("Fix it")])).await.bytes().await.unwrap();
    let reply = ask(json!([message("Fix it"), {"type": "compaction_trigger"}])).await;
    let body: Value = serde_json::from_str(&reply.text().await.unwrap()).unwrap();
    let items = body["output"].as_array().unwrap();
    assert_eq!((items.len(), &items[0]["type"]), (1, &json!("compaction")));
    assert_eq!(rig.upstream.received().len(), 1);
    ask(json!([message("Fix it"), items[0], message("And now?")])).await.bytes().await.unwrap();
    // Even when recapd answers nothing any more.
    let sent = String::from_utf8(rig.upstream.received()[1].body.to_vec()).unwrap();
    assert!(!sent.contains("recapd1.") && sent.contains("Fix it") && sent.contains("developer"), "{sent}");
    let (server, _) = rig.settled().await;
    let shown = window(&server, CODEX).await;
    assert_eq!(shown.iter().filter(|text| *text == "And now?").count(), 1, "{shown:?}");
}
