//! What the audit records of changes, refusals and sign-ins.

use recapd_core::domain::access::{AccessNames, Reach, Scope};
use recapd_store::audit::{AuditQuery, AuditStore as _};
use reqwest::{Method, RequestBuilder};
use serde_json::Value;

use crate::{
    cli::{code, json, recapd, stderr},
    support::{
        PATIENCE,
        server::{Reply, Server},
    },
};

const SECRET: &str = "The password is hunter2";

async fn done(request: RequestBuilder) -> u16 {
    Reply::of(request).await.status
}

fn post(server: &Server, token: Option<&str>, path: &str, body: &str) -> RequestBuilder {
    let request = server.request_by(token, Method::POST, path);
    request.header("content-type", "application/json").body(body.to_owned())
}

/// Returns the audit as an administrator gets it, oldest first, once it has `count` events.
async fn events(server: &Server, query: &str, count: usize) -> Vec<Value> {
    let asking = async {
        loop {
            let path = format!("/v1/audit?limit=200{query}");
            let reply = Reply::of(server.request_by(Some("root"), Method::GET, &path)).await;
            assert_eq!(reply.status, 200, "{}", reply.body);
            let mut events = reply.json()["events"].as_array().unwrap().clone();
            if events.len() >= count {
                events.reverse();
                return events;
            }
        }
    };
    let asked = tokio::time::timeout(PATIENCE, asking).await;
    asked.expect("they are written soon")
}

/// Formats kind, token, method and route, agent, status and outcome.
fn line(event: &Value) -> String {
    let text = |name: &str| event[name].as_str().unwrap_or("-").to_owned();
    format!(
        "{} {} {} {} {} {} {}",
        text("kind"),
        text("token"),
        text("method"),
        text("route"),
        text("agent_id"),
        event["status"],
        text("outcome")
    )
}

async fn server() -> Server {
    let server = Server::start(|_| {}).await;
    server.keep_token("root", Scope::Admin, Reach::All).await;
    server.keep_token("reader", Scope::Read, Reach::All).await;
    let mine = AccessNames { agents: ["coder".parse().unwrap()].into(), ..AccessNames::default() };
    server.keep_token("mine", Scope::Write, Reach::Only(mine)).await;
    server
}

#[tokio::test]
async fn administrators_see_changes_refusals_and_sign_ins() {
    let server = server().await;
    let by = |token, method, path: &str| server.request_by(token, method, path);
    let form = |request: RequestBuilder| request.header("content-type", "application/x-www-form-urlencoded");
    let said = format!("[{{\"role\":\"user\",\"content\":\"{SECRET}\"}}]");
    let append = post(&server, Some("mine"), "/v1/agents/coder/messages", &said);
    assert_eq!(done(append).await, 200);
    assert_eq!(done(by(Some("mine"), Method::GET, "/v1/agents/coder")).await, 200);
    assert_eq!(done(post(&server, Some("root"), "/v1/agents/coder/pause", "{}")).await, 200);
    assert_eq!(done(post(&server, Some("reader"), "/v1/agents/coder/pause", "{}")).await, 403);
    assert_eq!(done(by(Some("guess"), Method::GET, "/v1/agents/coder")).await, 401);
    let page = by(Some("root"), Method::GET, "/v1/agents").header("origin", "http://evil.example");
    assert_eq!(done(page).await, 403);
    let wrong = form(by(None, Method::POST, "/ui/login")).body("token=rcp_guess");
    assert_eq!(done(wrong).await, 401);
    let right = form(by(None, Method::POST, "/ui/login")).body("token=rcp_reader");
    assert_eq!(done(right).await, 303);
    let missing = post(&server, Some("root"), "/v1/agents/nobody/refresh", "{}");
    assert_eq!(done(missing).await, 404);
    assert_eq!(done(by(Some("reader"), Method::GET, "/v1/audit")).await, 403);
    assert_eq!(done(by(Some("mine"), Method::GET, "/v1/audit")).await, 403);

    let all = events(&server, "", 10).await;
    let lines: Vec<String> = all.iter().map(line).collect();
    assert_eq!(
        lines,
        [
            "append mine POST /v1/agents/{id}/messages coder 200 done",
            "change root POST /v1/agents/{id}/pause coder 200 done",
            "refusal reader POST /v1/agents/{id}/pause coder 403 forbidden",
            "refusal - GET /v1/agents/{id} coder 401 unauthorized",
            "refusal - GET /v1/agents - 403 foreign_origin",
            "refusal - POST /ui/login - 401 failed",
            "sign_in reader POST /ui/login - 303 done",
            "change root POST /v1/agents/{id}/refresh nobody 404 unknown_agent",
            "refusal reader GET /v1/audit - 403 forbidden",
            "refusal mine GET /v1/audit - 403 forbidden",
        ]
    );
    for event in &all {
        assert_eq!((&event["peer"], &event["request_id"]), (&"127.0.0.1".into(), &"test".into()));
        let text = event.to_string();
        assert!(!text.contains("rcp_") && !text.contains("hunter2"), "{text}");
    }
    let of_agent = events(&server, "&agent=coder", 4).await;
    assert_eq!(of_agent.len(), 4);
    assert!(events(&server, "&since=2030-01-01T00:00:00Z", 0).await.is_empty());
    let wrong = by(Some("root"), Method::GET, "/v1/audit?since=soon");
    Reply::of(wrong).await.problem(400, "invalid_parameter");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_the_audit_follow_each_other() {
    let server = server().await;
    for _ in 0..3 {
        let request = post(&server, Some("root"), "/v1/queue/pause", "{}");
        assert_eq!(done(request).await, 200);
    }
    let all = events(&server, "", 3).await;
    let get = async |path: &str| Reply::of(server.request_by(Some("root"), Method::GET, path)).await.json();
    let first = get("/v1/audit?limit=2").await;
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = get(&format!("/v1/audit?limit=2&cursor={cursor}")).await;
    assert_eq!(second["events"][0], all[0]);
    assert_eq!((&second["events"][1], &second["next_cursor"]), (&Value::Null, &Value::Null));

    // The command shows the same, from the database and from the daemon.
    let run = |args: &[&str]| {
        let command = &mut recapd();
        command.args(["audit", "--json"]).args(args).env("RECAPD_TOKEN", "rcp_root");
        let output = command.output().unwrap();
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
        json(&output)
    };
    let (database, address) = (server.database(), format!("http://{}", server.address));
    let of_database = ["--limit", "2", "--db", database.to_str().unwrap()];
    let of_daemon = ["--limit", "2", "--server", &address];
    let told = tokio::task::block_in_place(|| [run(&of_database), run(&of_daemon)]);
    for page in told {
        assert_eq!(page["events"], first["events"]);
    }
}

#[tokio::test]
async fn without_room_events_are_only_logged() {
    let server = Server::start(|config| config.http.audit_rows_max = 0).await;
    assert_eq!(done(post(&server, None, "/v1/queue/pause", "{}")).await, 200);
    server.end().await;
    let query = AuditQuery { limit: 1, ..AuditQuery::default() };
    assert_eq!(server.target.audit(query).await.unwrap(), []);
}
