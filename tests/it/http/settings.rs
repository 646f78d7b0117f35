//! `GET` and `PATCH /v1/agents/{id}`.

use recapd_core::domain::access::{AccessNames, Reach, Scope};
use reqwest::Method;
use serde_json::json;

use crate::support::server::{Reply, Server};

async fn patch(server: &Server, agent: &str, body: &str) -> Reply {
    let request = server
        .request(Method::PATCH, &format!("/v1/agents/{agent}"))
        .header("content-type", "application/merge-patch+json");
    Reply::of(request.body(body.to_owned())).await
}

#[tokio::test]
async fn settings_are_patched_shown_and_in_force_from_the_next_message_on() {
    let server = Server::start(|config| config.window.budget_tokens = 200).await;
    server.converse("coder", 1..=8).await;
    let reply =
        patch(&server, "coder", r#"{"budget_tokens": 1000, "low_water": 0.9, "model": "gpt-5"}"#).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    let settings = json!({"budget_tokens": 1_000, "low_water": 0.9, "model": "gpt-5"});
    assert_eq!(reply.json(), settings);
    let shown = server.get("/v1/agents/coder").await.json();
    assert_eq!((&shown["settings"], &shown["budget_tokens"]), (&settings, &json!(200)));
    let appended = server.converse("coder", 9..=9).await.json();
    assert_eq!(appended["window"]["budget_tokens"], 1_000);
    let shown = server.get("/v1/agents/coder").await.json();
    assert_eq!((&shown["first_exchange"], &shown["budget_tokens"]), (&json!(1), &json!(1_000)));
    // Nothing is pending any more, so the worker has nothing to write, and no summary appears.
    server.summarise().await;
    let summary = server.get("/v1/agents/coder").await.json();
    assert_eq!((&summary["version"], &summary["pending_exchanges"]), (&json!(0), &json!(0)));
    let reply = patch(&server, "coder", r#"{"low_water": null, "model": null}"#).await;
    assert_eq!(reply.json(), json!({"budget_tokens": 1_000}));
}

#[tokio::test]
async fn each_value_has_its_source() {
    let server = Server::start(|config| config.window.model = "gpt-5-mini".to_owned()).await;
    server.converse("coder", 1..=1).await;
    patch(&server, "coder", r#"{"preset": "pidgin", "low_water": 0.7}"#).await;
    let shown = server.get("/v1/agents/coder").await.json();
    let value = |name: &str| {
        let mut values = shown["in_force"].as_array().unwrap().iter();
        let value = values.find(|value| value["name"] == name).unwrap();
        (value["value"].clone(), value["from"].as_str().unwrap().to_owned())
    };
    for (name, expected, from) in [
        ("preset", json!("dialogue"), "agent"),
        ("low_water", json!(0.7), "agent"),
        ("on_overflow", json!("end"), "preset"),
        ("context_max_tokens", json!(90_000), "preset"),
        ("model", json!("gpt-5-mini"), "configuration"),
        ("output_reserve_tokens", json!(8_000), "configuration"),
    ] {
        assert_eq!(value(name), (expected, from.to_owned()), "{name}");
    }
}

#[tokio::test]
async fn an_agent_is_counted_by_its_own_model() {
    let server = Server::start(|_| {}).await;
    let tokens = |reply: Reply| reply.json()["window"]["tokens"].as_i64().unwrap();
    let plain = tokens(server.converse("plain", 1..=2).await);
    let first = tokens(server.converse("claude", 1..=1).await);
    patch(&server, "claude", r#"{"provider": "anthropic", "model": "claude-opus-5"}"#).await;
    // The messages already in the window were counted again.
    let claude = tokens(server.converse("claude", 2..=2).await);
    assert!(claude > plain * 3 / 2, "{first} {plain} {claude}");
    // The change bypasses the daemon, which notices it one append later, and then makes up for it.
    server
        .parts
        .store
        .change_settings(
            &"claude".parse().unwrap(),
            &recapd_core::domain::settings::SettingsPatch::parse(json!({"provider": null, "model": null}))
                .unwrap(),
            server.parts.clock.now(),
        )
        .await
        .unwrap();
    server.converse("claude", 2..=2).await;
    server.parts.ingestor.recount_due().await.unwrap();
    let heard = tokens(server.converse("claude", 2..=2).await);
    assert_eq!(heard, plain + 2 * (plain - first));
}

#[tokio::test]
async fn an_unknown_setting_is_refused_with_the_nearest_name() {
    let server = Server::start(|_| {}).await;
    server.converse("coder", 1..=1).await;
    let problem = patch(&server, "coder", r#"{"budget": 5}"#).await.problem(400, "invalid_setting");
    assert_eq!(problem["hint"], "did you mean `budget_tokens`?");
    assert_eq!(problem["errors"][0]["pointer"], "/budget");
    for share in ["2", "0"] {
        let problem = patch(&server, "coder", &format!(r#"{{"low_water": {share}}}"#))
            .await
            .problem(400, "invalid_setting");
        assert_eq!(problem["hint"], "send a number above 0, at most 1");
    }
    patch(&server, "coder", "[]").await.problem(400, "invalid_setting");
    patch(&server, "coder", "{").await.problem(400, "invalid_body");
    assert_eq!(server.get("/v1/agents/coder").await.json()["settings"], json!({}));
}

#[tokio::test]
async fn settings_may_come_before_the_first_message() {
    let server = Server::start(|_| {}).await;
    for wrong in [r#"{"budget": 5}"#, r#"{"low_water": 2}"#, "[]", "{"] {
        assert_eq!(patch(&server, "early", wrong).await.status, 400, "{wrong}");
    }
    let missing = server.get("/v1/agents/early").await;
    missing.problem(404, "unknown_agent");
    let reply = patch(&server, "early", r#"{"budget_tokens": 200}"#).await;
    assert_eq!((reply.status, reply.json()), (200, json!({"budget_tokens": 200})));
    assert_eq!(server.get("/v1/agents/early").await.json()["exchanges"], 0);
    let appended = server.converse("early", 1..=8).await.json();
    assert_eq!(appended["window"]["budget_tokens"], 200);
    let shown = server.get("/v1/agents/early").await.json();
    assert!(shown["first_exchange"].as_i64() > Some(1), "{shown}");

    server
        .keep_token(
            "other",
            Scope::Admin,
            Reach::Only(AccessNames { agents: ["other".parse().unwrap()].into(), projects: [].into() }),
        )
        .await;
    let request = server
        .request_by(Some("other"), Method::PATCH, "/v1/agents/hidden")
        .header("content-type", "application/merge-patch+json");
    let refused = Reply::of(request.body(r#"{"budget_tokens": 200}"#)).await;
    refused.problem(404, "unknown_agent");
    let hidden = server.parts.store.agent(&"hidden".parse().unwrap()).await;
    assert!(hidden.unwrap().is_none());
}

#[tokio::test]
async fn an_overflow_is_refused_with_a_hint() {
    let server = Server::start(|_| {}).await;
    server.converse("coder", 1..=1).await;
    patch(&server, "coder", r#"{"budget_tokens": 30, "on_overflow": "refuse"}"#).await;
    let body = json!([{"role": "user", "content": "please ".repeat(40)}]).to_string();
    let problem = server.post("/v1/agents/coder/messages", body.clone()).await.problem(409, "would_overflow");
    assert!(problem["detail"].as_str().unwrap().ends_with("nothing was stored"), "{problem}");
    assert_eq!(server.get("/v1/agents/coder").await.json()["messages"], 2);
    patch(&server, "coder", r#"{"on_overflow": "end"}"#).await;
    let reply = server.post("/v1/agents/coder/messages", body).await.json();
    assert_eq!((&reply["accepted"], &reply["session_ended"]), (&json!(1), &json!(1)));
}

#[tokio::test]
async fn the_command_line_asks_the_daemon() {
    let server = Server::start(|_| {}).await;
    server.converse("coder", 1..=1).await;
    let url = server.request(Method::GET, "").build().unwrap().url().to_string();
    let run = |args: &'static [&'static str]| {
        let url = url.clone();
        tokio::task::spawn_blocking(move || {
            let mut command = assert_cmd::Command::cargo_bin("recapd").unwrap();
            command.env_clear().args(["agents", "--server", &url]).args(args);
            let output = command.output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        })
    };
    let set = run(&["set", "coder", "budget_tokens=70"]).await.unwrap();
    assert!(set.contains("budget_tokens = 70            (this agent)\n"), "{set}");
    assert_eq!(run(&["show", "coder"]).await.unwrap(), set);
}
