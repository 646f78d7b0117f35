//! `/v1/queue`, `/v1/runs`, `/v1/stats` and operators' actions on updates; `/v1/agents/{id}/window`, `/version`.

use reqwest::Method;
use serde_json::{Value, json};

use super::openapi::assert_described;
use crate::support::server::{Reply, Server};

/// Waits until readers get the first version.
async fn written(server: &Server) {
    let is_written = |reply: &Reply| reply.header("recapd-version") == "1";
    server.get_until("/v1/agents/coder/summary", is_written).await;
}

/// Sends a request, and checks that the answer is as described.
async fn ask(server: &Server, method: Method, route: &str, path: &str) -> Reply {
    let request = server.request(method.clone(), path);
    let request =
        if method == Method::POST { request.header("content-type", "application/json") } else { request };
    let reply = Reply::of(request).await;
    assert_described(&recapd_api::http::openapi_document(), &method, route, &reply);
    reply
}

#[tokio::test]
async fn a_refresh_is_queued_and_done_at_once() {
    let server = Server::small().await;
    let refresh =
        async || ask(&server, Method::POST, "/v1/agents/{id}/refresh", "/v1/agents/coder/refresh").await;
    refresh().await.problem(404, "unknown_agent");
    server.converse("coder", 1..=8).await;
    let reply = refresh().await;
    assert_eq!((reply.status, reply.header("location")), (202, "/v1/queue/coder"));
    assert_eq!(reply.json()["state"], "ready");
    server.parts.worker.drain().await.unwrap();
    written(&server).await;
    let runs = ask(&server, Method::GET, "/v1/runs", "/v1/runs?agent=coder").await.json();
    assert_eq!((&runs["runs"][0]["outcome"], &runs["runs"][0]["version"]), (&json!("completed"), &json!(1)));
    let run = ask(&server, Method::GET, "/v1/runs/{n}", "/v1/runs/1").await.json();
    assert_eq!(run, runs["runs"][0]);
    ask(&server, Method::GET, "/v1/runs/{n}", "/v1/runs/77").await.problem(404, "unknown_run");
    let stats = ask(&server, Method::GET, "/v1/stats", "/v1/stats?window=2d").await.json();
    assert_eq!((&stats["window_hours"], &stats["updates"]["completed"]), (&json!(48), &json!(1)));
    for window in ["", "0h", "24", "1w", "9999d"] {
        let reply = server.get(&format!("/v1/stats?window={window}")).await;
        reply.problem(400, "invalid_parameter");
    }
}

#[tokio::test]
async fn a_row_is_cancelled_and_retried() {
    let server = Server::small().await;
    let row = async |method, action: &str| {
        let route = format!("/v1/queue/{{id}}{action}");
        ask(&server, method, &route, &format!("/v1/queue/coder{action}")).await
    };
    row(Method::GET, "").await.problem(404, "unknown_queue_row");
    row(Method::POST, "/retry").await.problem(404, "unknown_queue_row");
    server.converse("coder", 1..=8).await;
    assert_eq!(row(Method::GET, "").await.json()["state"], "scheduled");
    let cancelled = row(Method::POST, "/cancel").await.json();
    assert_eq!((&cancelled["state"], &cancelled["waits_for"]), (&json!("parked"), &json!("operator")));
    let list = ask(&server, Method::GET, "/v1/queue", "/v1/queue?limit=1").await.json();
    assert_eq!((&list["rows"][0], &list["next_cursor"]), (&cancelled, &Value::Null));
    let retried = row(Method::POST, "/retry").await.json();
    assert_eq!(
        (&retried["state"], &retried["last_error"]),
        (&json!("ready"), &json!("cancelled: by an operator"))
    );
    // A page in a browser can't do it without a preflight request.
    let bare = server.request(Method::POST, "/v1/queue/coder/cancel");
    Reply::of(bare).await.problem(415, "unsupported_media_type");
}

#[tokio::test]
async fn updates_are_paused_and_resumed() {
    let server = Server::small().await;
    let post = async |route: &str, path: &str| ask(&server, Method::POST, route, path).await;
    post("/v1/agents/{id}/pause", "/v1/agents/coder/pause").await.problem(404, "unknown_agent");
    server.converse("coder", 1..=8).await;
    let version = async || {
        let reply = server.get("/v1/agents/coder/summary").await;
        reply.header("recapd-version").to_owned()
    };
    let paused = post("/v1/agents/{id}/pause", "/v1/agents/coder/pause").await.json();
    assert_eq!(paused, json!({ "agent_id": "coder", "paused": true }));
    server.summarise().await;
    assert_eq!(version().await, "0");
    post("/v1/agents/{id}/resume", "/v1/agents/coder/resume").await;
    assert!(post("/v1/queue/pause", "/v1/queue/pause").await.json()["paused_since"].is_string());
    server.summarise().await;
    assert_eq!(version().await, "0");
    let list = server.get("/v1/queue").await.json();
    assert!(list["paused_since"].is_string(), "{list}");
    assert_eq!(post("/v1/queue/resume", "/v1/queue/resume").await.json(), json!({ "paused_since": null }));
    server.summarise().await;
    written(&server).await;
}

#[tokio::test]
async fn the_window_is_whole_exchanges() {
    let server = Server::small().await;
    let route = "/v1/agents/{id}/window";
    ask(&server, Method::GET, route, "/v1/agents/coder/window").await.problem(404, "unknown_agent");
    server.post("/v1/agents/coder/messages", r#"{"kind":"system","content":"Be brief."}"#).await;
    server.converse("coder", 1..=8).await;
    let window = ask(&server, Method::GET, route, "/v1/agents/coder/window").await.json();
    assert_eq!(window["preamble"][0]["payload"]["content"], "Be brief.");
    let exchanges = window["exchanges"].as_array().unwrap();
    assert_eq!(exchanges[0]["exchange"], window["first_exchange"]);
    assert!(exchanges.len() > 1, "{window}");
    assert!(exchanges.iter().all(|exchange| exchange["messages"].as_array().unwrap().len() == 2));
    let mut path = "/v1/agents/coder/window?limit=1".to_owned();
    let mut found = Vec::new();
    loop {
        let page = server.get(&path).await.json();
        found.push(page["exchanges"][0]["exchange"].clone());
        match page["next_cursor"].as_str() {
            Some(cursor) => path = format!("/v1/agents/coder/window?limit=1&cursor={cursor}"),
            None => break,
        }
    }
    found.reverse();
    let all: Vec<Value> = exchanges.iter().map(|exchange| exchange["exchange"].clone()).collect();
    assert_eq!(found, all);
}

#[tokio::test]
async fn a_daemon_reports_its_version() {
    let server = Server::small().await;
    let reply = ask(&server, Method::GET, "/version", "/version").await;
    assert_eq!(reply.json(), json!({ "name": "recapd", "version": env!("CARGO_PKG_VERSION") }));
}

#[tokio::test]
async fn a_summary_is_shortened_to_the_requested_size() {
    let server = Server::small().await;
    server.converse("coder", 1..=40).await;
    server.summarise().await;
    written(&server).await;
    let all = server.get("/v1/agents/coder/summary").await.body;
    let brief = server.get("/v1/agents/coder/summary?view=brief").await.body;
    let closing = "*Shortened. The full summary: `recapd summary coder` or GET /v1/agents/coder/summary.*\n";
    assert!(brief.ends_with(closing), "{brief}");
    let newest = brief.lines().find_map(|line| line.strip_prefix("- ")).unwrap();
    let last = all.lines().rfind(|line| !line.is_empty() && !line.starts_with('*'));
    assert!(last.unwrap().ends_with(newest), "{last:?}: {newest}");
    let short = server.get("/v1/agents/coder/summary?max_chars=900").await.body;
    assert!(short.chars().count() <= 900 && short.ends_with(closing), "{short}");
    let path = "/v1/agents/coder/summary?max_tokens=200";
    let reply = server.get_as(path, "application/json").await.json();
    assert!((1..=200).contains(&reply["tokens"].as_i64().unwrap()), "{reply}");
    assert_eq!((&reply["truncated"], reply["sections"][0].is_object()), (&json!(true), true));
    assert_eq!(server.get("/v1/agents/coder/summary?max_chars=1000000").await.body, all);
    for bad in ["view=long", "max_tokens=0", "max_chars=-1"] {
        let reply = server.get(&format!("/v1/agents/coder/summary?{bad}")).await;
        reply.problem(400, "invalid_parameter");
    }
}

#[tokio::test]
async fn agents_may_be_called_like_actions() {
    let server = Server::small().await;
    for name in ["pause", "resume"] {
        server.converse(name, 1..=8).await;
        let path = format!("/v1/queue/{name}");
        let row = ask(&server, Method::GET, &path, &path).await;
        assert_eq!((row.status, &row.json()["agent_id"]), (200, &json!(name)));
        server.get(&format!("{path}?x=1")).await.problem(400, "unknown_parameter");
        let retried = ask(&server, Method::POST, "/v1/queue/{id}/retry", &format!("{path}/retry")).await;
        assert_eq!(retried.json()["state"], "ready");
    }
    let paused = ask(&server, Method::POST, "/v1/queue/pause", "/v1/queue/pause").await;
    assert!(paused.json()["paused_since"].is_string());
    server.parts.worker.drain().await.unwrap();
    ask(&server, Method::POST, "/v1/queue/resume", "/v1/queue/resume").await;
    server.parts.worker.drain().await.unwrap();
    server.get("/v1/queue/pause").await.problem(404, "unknown_queue_row");
}
