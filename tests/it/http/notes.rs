//! `/v1/agents/{id}/notes`, and the line about notes in briefs and contexts.

use recapd_core::domain::note::{NOTE_BYTES_MAX, NOTES_MAX};
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::server::{Reply, Server};

async fn put(server: &Server, path: &str, body: Value) -> Reply {
    let request =
        server.request(Method::PUT, &format!("/v1/agents/{path}")).header("content-type", "application/json");
    Reply::of(request.body(body.to_string())).await
}

#[tokio::test]
async fn notes_are_written_extended_read_and_deleted() {
    let server = Server::start(|_| {}).await;
    server.converse("coder", 1..=1).await;
    let written = put(&server, "coder/notes/a%2Fplan.md", json!({"text": "One"})).await.json();
    assert_eq!(written["notes"], json!([{"name": "a/plan.md", "version": 3, "bytes": 3, "deleted": false}]));
    put(&server, "coder/notes/a%2Fplan.md", json!({"text": "\ntwo", "append": true})).await;
    let note = server.get("/v1/agents/coder/notes/a%2Fplan.md").await.json();
    assert_eq!(
        (&note["text"], &note["version"], &note["title"]),
        (&json!("One\ntwo"), &json!(4), &json!("One"))
    );
    assert_eq!(note["versions"].as_array().unwrap().len(), 2);
    let first = server.get("/v1/agents/coder/notes/a%2Fplan.md?version=3").await.json();
    assert_eq!(first["text"], "One");
    let listed = server.get("/v1/agents/coder/notes").await.json();
    assert_eq!(
        (&listed["notes"][0]["name"], &listed["notes"][0]["text"]),
        (&json!("a/plan.md"), &Value::Null)
    );
    assert_eq!(server.get("/v1/agents/coder/notes?texts").await.json()["notes"][0]["text"], "One\ntwo");
    let deleted = server.request(Method::DELETE, "/v1/agents/coder/notes/a%2Fplan.md?replaces=4");
    assert_eq!(Reply::of(deleted).await.status, 204);
    server.get("/v1/agents/coder/notes/a%2Fplan.md").await.problem(404, "unknown_note");
    // Notes are no part of the conversation.
    let context = server.get("/v1/agents/coder/context?format=openai").await.json();
    assert_eq!(context["body"]["messages"].as_array().unwrap().len(), 2, "{context}");
}

#[tokio::test]
async fn changes_are_made_together_or_not_at_all() {
    let server = Server::start(|_| {}).await;
    server.converse("coder", 1..=1).await;
    let change = async |changes: Value| {
        server.post("/v1/agents/coder/notes", json!({"changes": changes}).to_string()).await
    };
    change(json!([{"name": "a", "text": "1"}, {"name": "b", "text": "2", "replaces": 0}])).await;
    let moved = change(
        json!([{"name": "c", "text": "1", "replaces": 0}, {"name": "a", "text": null, "replaces": 3}]),
    )
    .await;
    assert_eq!(moved.json()["notes"][1]["deleted"], true, "{}", moved.body);
    for (changes, status, code) in [
        (json!([{"name": "d", "text": "x"}, {"name": "b", "text": "x", "replaces": 3}]), 409, "note_changed"),
        (json!([{"name": "d", "text": "x"}, {"name": "z", "text": null}]), 404, "unknown_note"),
        (json!([{"name": "d", "text": "x".repeat(NOTE_BYTES_MAX + 1)}]), 400, "invalid_note"),
        (json!([{"name": "../d", "text": "x"}]), 400, "invalid_body"),
        (json!([{"name": "d", "txt": "x"}]), 400, "invalid_body"),
        (json!([]), 400, "invalid_body"),
    ] {
        change(changes).await.problem(status, code);
    }
    let many: Vec<Value> =
        (0..NOTES_MAX - 2).map(|at| json!({"name": format!("n{at}"), "text": ""})).collect();
    assert_eq!(change(json!(many)).await.status, 200);
    change(json!([{"name": "more", "text": ""}])).await.problem(409, "notes_full");
    let full = "x".repeat(NOTE_BYTES_MAX);
    assert_eq!(put(&server, "coder/notes/b", json!({"text": full})).await.status, 200);
    put(&server, "coder/notes/b", json!({"text": "x", "append": true})).await.problem(400, "invalid_note");
    put(&server, "coder/notes/..%2Fx", json!({"text": "x"})).await.problem(400, "invalid_note");
    put(&server, "nobody/notes/x", json!({"text": "x"})).await.problem(404, "unknown_agent");
    server.get("/v1/agents/nobody/notes").await.problem(404, "unknown_agent");
}

#[tokio::test]
async fn briefs_and_contexts_name_the_notes() {
    let server = Server::summarised().await;
    put(&server, "coder/notes/plan.md", json!({"text": "How to fix the parser"})).await;
    let brief = server.get_as("/v1/agents/coder/summary?view=brief", "text/markdown").await.body;
    assert!(brief.contains("Notes of the agent: plan.md: How to fix the parser"), "{brief}");
    let whole = server.get_as("/v1/agents/coder/summary", "text/markdown").await.body;
    assert!(!whole.contains("Notes of the agent"), "{whole}");
    let context =
        async || server.get("/v1/agents/coder/context?format=openai").await.json()["body"].to_string();
    let before = context().await;
    assert!(!before.contains("Notes of the agent"), "{before}");
    // The next step of the window tells of it.
    server.converse("coder", 50..=60).await;
    let after = context().await;
    assert!(after.contains("Notes of the agent: plan.md: How to fix the parser"), "{after}");
    let handoff = server.get("/v1/agents/coder/handoff").await.json();
    assert!(handoff["text"].as_str().unwrap().contains("Notes of the agent"), "{handoff}");
}
