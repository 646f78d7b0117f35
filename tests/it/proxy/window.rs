//! Clients that never compact: what has left the window is replaced in their requests.

use axum::response::{IntoResponse as _, Json, Response};
use recapd_config::ProxyMode;
use recapd_core::validator::{Severity, Target, validate};
use serde_json::{Value, json};
use tokio::{task::yield_now, time::timeout};

use super::{Rig, Server, counter, traffic::totals, user};
use crate::support::PATIENCE;

const ROUNDS: usize = 60;
/// The window's budget, and what a request of this test may have in characters: it, its document and a few rounds.
const BUDGET_TOKENS: i64 = 4_000;
const BODY_BYTES_MAX: usize = 40_000;
const AGENT: (&str, &str) = ("x-recapd-agent", "loop");

async fn rig() -> Rig {
    let server = Server::start(|config| {
        config.window.budget_tokens = BUDGET_TOKENS;
        config.window.low_water = 0.5;
    })
    .await;
    let daemon = format!("http://{}", server.address);
    over(server, &daemon).await
}

async fn over(server: Server, daemon: &str) -> Rig {
    Rig::over(server, daemon, |config| {
        config.proxy.mode = ProxyMode::Window;
        // A busy machine may take its time.
        config.proxy.decide_ms = 10_000;
    })
    .await
}

/// An SDK's loop with one tool: each request carries all of the conversation.
struct ToolLoop {
    rig: Rig,
    messages: Vec<Value>,
    /// How many copies are stored by now.
    copies: u64,
}

fn result(round: usize) -> Value {
    let lines = format!("line of file {round}\n").repeat(60);
    json!([{"type": "tool_result", "tool_use_id": format!("toolu_{round}"), "content": lines}])
}

fn call(round: usize) -> Value {
    json!({"type": "message", "role": "assistant", "content": [
        {"type": "thinking", "thinking": format!("Thought {round}"), "signature": "c2ln"},
        {"type": "tool_use", "id": format!("toolu_{round}"), "name": "read", "input": {"file": round}}]})
}

impl ToolLoop {
    fn new(rig: Rig) -> Self {
        Self { rig, messages: vec![user("Port the parser to the new grammar")], copies: 0 }
    }

    fn body(&self) -> String {
        let tools = json!([{"name": "read", "input_schema": {"type": "object"}}]);
        json!({"model": "claude-sonnet-4-5", "max_tokens": 100, "tools": tools, "messages": self.messages})
            .to_string()
    }

    async fn ask(&self, headers: &[(&str, &str)]) -> reqwest::Response {
        self.rig.post("/v1/messages", headers, self.body()).await
    }

    /// One round: the model calls the tool, and the client adds the call and its result. Both sides are stored then.
    async fn round(&mut self, round: usize) -> String {
        self.rig.upstream.plan(Json(call(round)).into_response());
        let reply = self.ask(&[AGENT]).await;
        let says = reply.headers()["x-recapd"].to_str().unwrap().to_owned();
        reply.bytes().await.unwrap();
        let Value::Object(mut said) = call(round) else { unreachable!() };
        said.remove("type");
        self.messages.extend([Value::Object(said), json!({"role": "user", "content": result(round)})]);
        self.copies += 2;
        until_stored(&self.rig, self.copies).await;
        says
    }
}

async fn until_stored(rig: &Rig, copies: u64) {
    let storing = async {
        while counter(&rig.metrics, "stored_total") < copies {
            yield_now().await;
        }
    };
    timeout(PATIENCE, storing).await.unwrap();
}

fn messages(body: &[u8]) -> Vec<Value> {
    let body: Value = serde_json::from_slice(body).unwrap();
    body["messages"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_long_loop_of_tools_stays_within_its_window() {
    let mut tools = ToolLoop::new(rig().await);
    let mut says = Vec::new();
    for round in 0..ROUNDS {
        if round == ROUNDS / 2 {
            tools.rig.server.summarise().await;
        }
        says.push(tools.round(round).await);
    }
    assert_eq!(says[0], "observed; agent=loop");
    let last = says.last().unwrap();
    assert!(last.starts_with("windowed; agent=loop; version="), "{last}");
    assert!(!last.ends_with("version=0"), "{last}");
    let received = tools.rig.upstream.received();
    let (mut steps, mut before) = (0, Vec::new());
    for request in &received {
        assert!(request.body.len() < BODY_BYTES_MAX, "{} bytes", request.body.len());
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let refused = validate(Target::Anthropic, &body, None);
        let refused = refused.iter().find(|found| found.severity == Severity::Refused);
        assert!(refused.is_none(), "{refused:?}");
        let messages = messages(&request.body);
        steps += usize::from(!messages.starts_with(&before));
        before = messages;
    }
    assert!((2..ROUNDS / 4).contains(&steps), "{steps} steps");
    let head = &before[0]["content"];
    assert_eq!(head[0]["text"], "Port the parser to the new grammar");
    let document = head[1]["text"].as_str().unwrap();
    assert!(document.contains("<summary agent=\"loop\""), "{document}");
    assert_eq!(head[1]["cache_control"]["type"], "ephemeral");
    // A count is of what would be sent.
    tools.rig.post("/v1/messages/count_tokens", &[AGENT], tools.body()).await;
    tools.ask(&[AGENT]).await.bytes().await.unwrap();
    let received = tools.rig.upstream.received();
    assert_eq!(messages(&received[ROUNDS].body), messages(&received[ROUNDS + 1].body));
    assert!(received[ROUNDS].body.len() < BODY_BYTES_MAX);
    assert_eq!(counter(&tools.rig.metrics, "requests_total{outcome=\"observed\"}"), count_observed(&says));
    let (server, _) = tools.rig.settled().await;
    let agents: Value = serde_json::from_str(&server.get("/v1/agents").await.body).unwrap();
    let stored = agents["agents"][0]["messages"].as_u64().unwrap();
    let traffic = &totals(&server, "loop").await["traffic"];
    // The last two requests may have taken another step.
    let counted = usize::try_from(traffic["window_steps"].as_i64().unwrap()).unwrap();
    assert!((steps..=steps + 1).contains(&counted), "{traffic}");
    assert_eq!(traffic["requests"], ROUNDS + 1, "{traffic}");
    let sent: usize = received.iter().map(|request| request.body.len()).sum();
    let saved = usize::try_from(traffic["saved_input_tokens"].as_i64().unwrap()).unwrap();
    let written = usize::try_from(traffic["request_bytes"].as_i64().unwrap()).unwrap();
    assert!(saved > 0 && saved < (written - sent) / 3, "{saved}");
    // The request, each call with its result, and the last answer.
    assert_eq!(stored, u64::try_from(2 * ROUNDS + 2).unwrap());
}

fn count_observed(says: &[String]) -> u64 {
    let observed = says.iter().filter(|says| says.starts_with("observed"));
    u64::try_from(observed.count()).unwrap()
}

#[tokio::test]
async fn the_last_step_holds_while_the_daemon_is_away() {
    let mut tools = ToolLoop::new(rig().await);
    let mut round = 0;
    while !tools.round(round).await.starts_with("windowed") {
        round += 1;
    }
    let before = messages(&tools.rig.upstream.received()[round].body);
    tools.rig.server.end().await;
    tools.ask(&[AGENT]).await.bytes().await.unwrap();
    let received = tools.rig.upstream.received();
    let after = messages(&received[round + 1].body);
    assert_eq!(after[..before.len()], before);
    // Other conversations go on as they are, and so does one that doesn't begin like this one any more.
    let written = tools.body();
    for headers in [("x-recapd-agent", "another"), AGENT] {
        let body = written.replace("Port the", "Write the");
        let reply = tools.rig.post("/v1/messages", &[headers], body.clone()).await;
        assert!(reply.headers()["x-recapd"].to_str().unwrap().starts_with("observed"));
        assert_eq!(tools.rig.upstream.received().last().unwrap().body, body);
    }
}

#[tokio::test]
async fn subscriptions_and_signed_requests_pass_as_they_are() {
    let mut tools = ToolLoop::new(rig().await);
    let mut round = 0;
    while !tools.round(round).await.starts_with("windowed") {
        round += 1;
    }
    for header in [
        ("anthropic-beta", "claude-code-20250219,oauth-2025-04-20"),
        ("authorization", "AWS4-HMAC-SHA256 Credential=x"),
    ] {
        tools.ask(&[AGENT, header]).await.bytes().await.unwrap();
        assert_eq!(tools.rig.upstream.received().last().unwrap().body, tools.body());
    }
}

#[tokio::test]
async fn bound_thinking_is_left_out_once_the_provider_refuses_it() {
    let mut tools = ToolLoop::new(rig().await);
    let mut round = 0;
    while !tools.round(round).await.starts_with("windowed") {
        round += 1;
    }
    let refusal = json!({"type": "error", "error": {"type": "invalid_request_error", "message": "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation."}});
    let refused =
        || -> Response { (axum::http::StatusCode::BAD_REQUEST, Json(refusal.clone())).into_response() };
    tools.rig.upstream.plan(refused());
    let reply = tools.ask(&[AGENT]).await;
    assert_eq!(reply.status(), 200);
    let received = tools.rig.upstream.received();
    let [.., first, again] = received.as_slice() else { unreachable!() };
    let thoughts = |body: &[u8]| String::from_utf8_lossy(body).matches("\"thinking\":").count();
    assert!(thoughts(&first.body) > 0 && thoughts(&again.body) == 0);
    // It is sent once more only once.
    tools.rig.upstream.plan(refused());
    tools.rig.upstream.plan(refused());
    let reply = tools.ask(&[AGENT]).await;
    assert_eq!(reply.status(), 400);
    assert_eq!(reply.json::<Value>().await.unwrap(), refusal);
}

#[tokio::test]
async fn a_conversation_without_an_id_has_a_window_too() {
    let rig = rig().await;
    let mut talk = vec![user("Port the parser")];
    let mut last = String::new();
    for round in 0..ROUNDS / 2 {
        let id = format!("call_{round}");
        let call = json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": id, "type": "function", "function": {"name": "read", "arguments": "{}"}}]});
        rig.upstream.plan(Json(json!({"choices": [{"message": call}]})).into_response());
        let body = json!({"model": "gpt-5", "messages": talk}).to_string();
        let reply = rig.post("/v1/chat/completions", &[], body).await;
        last = reply.headers()["x-recapd"].to_str().unwrap().to_owned();
        reply.bytes().await.unwrap();
        until_stored(&rig, 2 * (round as u64 + 1)).await;
        let lines = format!("line of file {round}\n").repeat(60);
        talk.extend([call, json!({"role": "tool", "tool_call_id": id, "content": lines})]);
    }
    assert!(last.starts_with("windowed; agent=openai:-:"), "{last}");
    let received = rig.upstream.received();
    let body = &received.last().unwrap().body;
    assert!(body.len() < BODY_BYTES_MAX, "{} bytes", body.len());
    let body: Value = serde_json::from_slice(body).unwrap();
    let content = body["messages"][0]["content"].as_str().unwrap();
    assert!(content.starts_with("Port the parser\n\n<summary"), "{content}");
    let refused = validate(Target::OpenAiChat, &body, None);
    assert!(refused.iter().all(|found| found.severity != Severity::Refused), "{refused:?}");
}
