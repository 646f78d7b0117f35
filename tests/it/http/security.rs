//! Who gets in, and what they see: every route of the interface is tried with every kind of token.

use std::collections::BTreeSet;

use recapd_api::http::{openapi_document, page_routes};
use recapd_core::domain::access::{AccessNames, Reach, Scope};
use recapd_store::access::AccessStore as _;
use reqwest::Method;
use sqlx::{AssertSqlSafe, Connection as _, SqliteConnection, sqlite::SqliteConnectOptions};

use crate::support::{
    backend::{TABLES, assert_same},
    server::{Reply, START, Server},
};

/// Text that only the victim has.
pub(super) const SECRET: &str = "Fix bug";
/// An id as long as the victim's, without an agent.
pub(super) const NOBODY: &str = "nobody";
pub(super) const VICTIM: &str = "victim";

/// Returns every operation: method, path with `{id}`, and a body that does something.
pub(super) fn operations() -> Vec<(Method, String, String)> {
    let document = openapi_document();
    let paths = document["paths"].as_object().unwrap();
    let mut all = vec![(Method::POST, "/mcp".to_owned(), "{}".to_owned())];
    for (path, methods) in paths {
        for method in methods.as_object().unwrap().keys() {
            let method: Method = method.to_uppercase().parse().unwrap();
            let mut concrete = path.replace("{agent}", VICTIM);
            for number in ["{version}", "{item}", "{n}"] {
                concrete = concrete.replace(number, "1");
            }
            if method == Method::DELETE && path == "/v1/agents/{id}" {
                concrete.push_str("?confirm={id}");
            }
            if path.ends_with("/events") {
                concrete.push_str("?for=0s");
            }
            if path.ends_with("/recall") {
                concrete.push_str("?q=parser");
            }
            let body = body(&method, path).to_owned();
            all.push((method, concrete, body));
        }
    }
    all.extend(pages());
    all
}

/// Returns the operations of the dashboard, except for those open to anybody.
fn pages() -> impl Iterator<Item = (Method, String, String)> {
    const OPEN: [&str; 8] = [
        "/",
        "/ui",
        "/ui/style.css",
        "/ui/live.js",
        "/ui/icon.svg",
        "/ui/login",
        "/ui/logout",
        "/ui/agents/find",
    ];
    let guarded = page_routes().filter(|(_, path)| !OPEN.contains(path));
    guarded.map(|(method, path)| {
        let concrete = path.replace("{version}", "1").replace("{n}", "1");
        let query = match path.rsplit('/').next() {
            Some("diff") => "?from=1&to=1",
            Some("events") => "?for=0",
            _ => "",
        };
        (method.parse().unwrap(), concrete + query, "{}".to_owned())
    })
}

fn is_page(path: &str) -> bool {
    path.starts_with("/ui/")
}

/// Fails unless the answer is a page that refuses.
fn refused(reply: &Reply, status: u16) {
    assert_eq!(
        (reply.status, reply.header("content-type")),
        (status, "text/html; charset=utf-8"),
        "{}",
        reply.body
    );
}

fn body(method: &Method, path: &str) -> &'static str {
    match path.rsplit('/').next().unwrap() {
        "messages" => r#"[{"role":"user","content":"Let me in"}]"#,
        "mark" => r#"{"label":"mine"}"#,
        "fork" => r#"{"child":"sneaky"}"#,
        "pin" | "unpin" => r#"{"seq":1}"#,
        "rollback" => r#"{"version":1}"#,
        "forget" => r#"{"exchanges":[1]}"#,
        "{item}" => r#"{"pinned":true}"#,
        "notes" => r#"{"changes":[{"name":"1","text":"mine"}]}"#,
        "{name}" if method == Method::PUT => r#"{"text":"mine"}"#,
        "{id}" if method == Method::PATCH => r#"{"budget_tokens":5}"#,
        _ => "{}",
    }
}

/// Starts a server with two agents that have a past, one of them in project `web`, and tokens for them.
pub(crate) async fn server() -> Server {
    let server = Server::start(|config| {
        config.window.budget_tokens = 200;
        config.window.low_water = 0.5;
    })
    .await;
    server.converse(VICTIM, 1..=6).await;
    let own = r#"[{"role":"user","content":"Hello"},{"role":"assistant","content":"Hi"}]"#;
    server.post("/v1/agents/coder/messages", own).await;
    server.summarise().await;
    let join = server.request(Method::PUT, "/v1/projects/web/agents/victim");
    assert_eq!(Reply::of(join).await.status, 200);
    let written = |reply: &Reply| reply.header("recapd-version") != "0";
    server.get_until("/v1/agents/victim/summary", written).await;

    let only = |agents: &[&str], projects: &[&str]| {
        Reach::Only(AccessNames {
            agents: agents.iter().map(|id| id.parse().unwrap()).collect(),
            projects: projects.iter().map(|id| id.parse().unwrap()).collect(),
        })
    };
    for (name, scope, reach) in [
        ("root", Scope::Admin, Reach::All),
        ("reader", Scope::Read, Reach::All),
        ("writer", Scope::Write, Reach::All),
        ("coder-read", Scope::Read, only(&["coder"], &[])),
        ("coder-admin", Scope::Admin, only(&["coder"], &["other"])),
        ("web", Scope::Write, only(&[], &["web"])),
        ("expired", Scope::Admin, Reach::All),
        ("revoked", Scope::Admin, Reach::All),
    ] {
        let expires_at = (name == "expired").then(now);
        server.keep_token_until(name, scope, reach, expires_at).await;
    }
    let revoked = "revoked".parse().unwrap();
    server.target.revoke_token(&revoked, now()).await.unwrap();
    server.access.refresh().await.unwrap();
    server
}

fn now() -> recapd_core::domain::time::Timestamp {
    recapd_core::domain::time::Timestamp::parse(START).unwrap()
}

pub(super) async fn ask(
    server: &Server,
    token: Option<&str>,
    (method, path, body): (&Method, &str, &str),
) -> Reply {
    let mut request = server.request_by(token, method.clone(), path);
    if method != Method::GET && method != Method::DELETE {
        request = request.header("content-type", "application/json").body(body.to_owned());
    }
    Reply::of(request).await
}

/// Returns everything in the database except for the audit, which also records those who change nothing.
async fn dump(server: &Server) -> String {
    let options = SqliteConnectOptions::new().filename(server.database());
    let mut past = SqliteConnection::connect_with(&options).await.unwrap();
    let mut lines = Vec::new();
    for table in TABLES.into_iter().filter(|table| *table != "audit_events") {
        let columns = format!("SELECT group_concat(name) FROM pragma_table_info('{table}')");
        let columns: String = sqlx::query_scalar(AssertSqlSafe(columns)).fetch_one(&mut past).await.unwrap();
        let rows = format!("SELECT json_array({columns}) FROM {table} ORDER BY 1");
        let rows: Vec<String> = sqlx::query_scalar(AssertSqlSafe(rows)).fetch_all(&mut past).await.unwrap();
        lines.extend(rows.into_iter().map(|row| format!("{table} {row}\n")));
    }
    lines.concat()
}

/// Returns an answer without the parts of the request that it repeats.
fn told(reply: &Reply, id: &str) -> (u16, String, Vec<String>) {
    // `allow` is the router's answer to a method that a route doesn't have; routes are no secret. The length is that of the
    // body, which is compared anyway.
    let headers = reply.headers().filter(|(name, _)| !["date", "allow", "content-length"].contains(name));
    let headers = headers.map(|(name, value)| format!("{name}: {value}"));
    // A beat comes at its time, whoever listens.
    let body = reply.body.replace("event: beat\ndata: null\n\n", "");
    (reply.status, body.replace(id, "ID"), headers.collect())
}

#[tokio::test]
async fn strangers_all_get_one_answer_and_change_nothing() {
    let server = server().await;
    let before = dump(&server).await;
    let (mut answers, mut forms) = (BTreeSet::new(), BTreeSet::new());
    for (method, path, body) in operations() {
        let path = path.replace("{id}", VICTIM);
        let is_open = path == "/livez" || path == "/readyz";
        for token in [None, Some("unknown"), Some("expired"), Some("revoked"), Some("")] {
            let reply = ask(&server, token, (&method, &path, &body)).await;
            if is_open {
                assert_eq!((reply.status, reply.body.as_str()), (200, "ok\n"));
            } else if is_page(&path) {
                refused(&reply, 401);
                let address = format!("value=\"{}\"", path.replace('&', "&amp;"));
                forms.insert(told(&reply, &address));
            } else {
                assert_eq!(reply.status, 401, "{method} {path} {token:?}: {}", reply.body);
                reply.problem(401, "unauthorized");
                assert_eq!(reply.header("www-authenticate"), "Bearer realm=\"recapd\"");
                answers.insert(told(&reply, ""));
            }
        }
    }
    // The same for paths without a route.
    for (method, path) in [(Method::GET, "/v1/nowhere"), (Method::PUT, "/v1/agents")] {
        let reply = ask(&server, None, (&method, path, "{}")).await;
        answers.insert(told(&reply, ""));
    }
    assert_eq!(answers.len(), 1, "{answers:#?}");
    assert_eq!(forms.len(), 1, "{forms:#?}");
    assert_same(&before, &dump(&server).await, "strangers");
}

#[tokio::test]
async fn a_hidden_agent_looks_like_a_missing_one() {
    let server = server().await;
    let before = dump(&server).await;
    for (method, path, body) in operations() {
        for token in ["coder-read", "coder-admin"] {
            let of = async |id: &str| {
                let path = path.replace("{id}", id);
                let reply = ask(&server, Some(token), (&method, &path, &body)).await;
                assert!(
                    !reply.body.contains(SECRET) && (id != NOBODY || !reply.body.contains(VICTIM)),
                    "{method} {path}: {}",
                    reply.body
                );
                told(&reply, id)
            };
            let (victim, nobody) = (of(VICTIM).await, of(NOBODY).await);
            assert_eq!(victim, nobody, "{method} {path} with {token}");
            if path.contains("/agents/{id}") || path.contains("/queue/{id}") {
                assert!([403, 404].contains(&victim.0), "{method} {path}: {}", victim.0);
            }
        }
    }
    assert_same(&before, &dump(&server).await, "tokens of others");

    // Routes that name an agent elsewhere than at the beginning of the path.
    for (method, path, body) in [
        (Method::GET, "/v1/runs?agent={id}", ""),
        (Method::GET, "/ui/runs?q=agent:{id}", ""),
        (Method::GET, "/ui/agents/find?agent={id}", ""),
        (Method::POST, "/v1/agents/coder/fork", r#"{"child":"{id}"}"#),
    ] {
        let of = async |id: &str| {
            let (path, body) = (path.replace("{id}", id), body.replace("{id}", id));
            told(&ask(&server, Some("coder-admin"), (&method, &path, &body)).await, id)
        };
        let (victim, nobody) = (of(VICTIM).await, of(NOBODY).await);
        assert_eq!(victim, nobody, "{method} {path}");
        assert!([403, 404].contains(&victim.0), "{path}: {}", victim.0);
    }
    let of = async |run: &str| {
        let path = format!("/v1/runs/{run}");
        let reply = ask(&server, Some("coder-admin"), (&Method::GET, &path, "")).await;
        told(&reply, &format!("no run {run}"))
    };
    assert_eq!(of("1").await, of("9").await);
    assert_same(&before, &dump(&server).await, "tokens of others");
}

#[tokio::test]
async fn a_token_for_reading_changes_nothing() {
    let server = server().await;
    let before = dump(&server).await;
    for (method, path, body) in operations() {
        let needs_more = method != Method::GET && path != "/mcp";
        for (token, own, others) in [("reader", VICTIM, NOBODY), ("coder-read", "coder", "coder")] {
            if !needs_more {
                continue;
            }
            let mut replies = Vec::new();
            for id in [own, others] {
                let path = path.replace("{id}", id);
                let reply = ask(&server, Some(token), (&method, &path, &body)).await;
                if is_page(&path) {
                    refused(&reply, 403);
                } else {
                    reply.problem(403, "forbidden");
                }
                replies.push(told(&reply, id));
            }
            assert_eq!(replies[0], replies[1], "{method} {path} with {token}");
        }
    }
    assert_same(&before, &dump(&server).await, "readers");
}

#[tokio::test]
async fn a_token_for_writing_can_not_administrate() {
    let server = server().await;
    for (method, path, body, status) in [
        ("POST", "/v1/agents/coder/messages", r#"[{"role":"user","content":"More"}]"#, 200),
        ("POST", "/v1/agents/coder/mark", r#"{"label":"here"}"#, 200),
        ("PATCH", "/v1/agents/coder", r#"{"budget_tokens":5}"#, 403),
        ("POST", "/v1/agents/coder/forget", r#"{"exchanges":[1]}"#, 403),
        ("POST", "/v1/queue/pause", "{}", 403),
        ("PUT", "/v1/projects/web/agents/coder", "{}", 403),
        ("DELETE", "/v1/agents/coder?confirm=coder", "", 403),
    ] {
        let method: Method = method.parse().unwrap();
        let reply = ask(&server, Some("writer"), (&method, path, body)).await;
        assert_eq!(reply.status, status, "{method} {path}: {}", reply.body);
        if status == 403 {
            let reply = ask(&server, Some("root"), (&method, path, body)).await;
            assert_eq!(reply.status, 200, "{method} {path}: {}", reply.body);
        }
    }
}

#[tokio::test]
async fn lists_show_only_visible_agents() {
    let server = server().await;
    let get = async |token, path: &str| {
        let reply = ask(&server, Some(token), (&Method::GET, path, "")).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.body);
        reply.json()
    };
    let ids = |page: &serde_json::Value, list: &str, name: &str| -> Vec<String> {
        let rows = page[list].as_array().unwrap();
        rows.iter().map(|row| row[name].as_str().unwrap().to_owned()).collect()
    };
    for (token, agents, projects) in [
        ("root", vec!["coder", "victim"], vec!["web"]),
        ("coder-read", vec!["coder"], vec![]),
        ("web", vec!["victim"], vec!["web"]),
    ] {
        let page = get(token, "/v1/agents").await;
        assert_eq!(ids(&page, "agents", "agent_id"), agents, "{token}");
        let page = get(token, "/v1/agents?limit=1").await;
        assert_eq!(ids(&page, "agents", "agent_id"), agents[..1], "{token}");
        let page = get(token, "/v1/projects").await;
        assert_eq!(ids(&page, "projects", "project_id"), projects, "{token}");
    }
    let refresh = (&Method::POST, "/v1/agents/victim/refresh", "{}");
    assert_eq!(ask(&server, Some("web"), refresh).await.status, 202);
    for (token, rows) in [("root", 1), ("web", 1), ("coder-read", 0)] {
        let page = get(token, "/v1/queue").await;
        assert_eq!(page["rows"].as_array().unwrap().len(), rows, "{token}: {page}");
    }
    let summary = ask(&server, Some("web"), (&Method::GET, "/v1/projects/web/summary", "")).await;
    assert!(summary.body.contains(SECRET), "{}", summary.body);
    let runs = ask(&server, Some("web"), (&Method::GET, "/v1/runs", "")).await;
    runs.problem(400, "invalid_parameter");
    assert_eq!(get("web", "/v1/runs?agent=victim").await["runs"][0]["agent_id"], VICTIM);
    assert_eq!(get("web", "/v1/runs/1").await["agent_id"], VICTIM);

    // An agent that leaves the project takes its past along.
    let leave = (&Method::DELETE, "/v1/projects/web/agents/victim", "");
    assert_eq!(ask(&server, Some("root"), leave).await.status, 200);
    let left = ask(&server, Some("web"), (&Method::GET, "/v1/agents/victim/summary", "")).await;
    left.problem(404, "unknown_agent");
}

#[tokio::test]
async fn a_revoked_token_is_worthless() {
    let server = server().await;
    let get = async |token| ask(&server, token, (&Method::GET, "/v1/agents", "")).await.status;
    assert_eq!(get(Some("root")).await, 200);
    server.access.refresh().await.unwrap();
    let uses = async |name: &str| {
        let tokens = server.target.tokens().await.unwrap();
        tokens.into_iter().find(|token| token.name.as_str() == name).unwrap().last_used_at
    };
    assert!(uses("root").await.is_some());
    assert_eq!(uses("writer").await, None);
    for token in server.target.tokens().await.unwrap() {
        server.target.revoke_token(&token.name, now()).await.unwrap();
    }
    server.access.refresh().await.unwrap();
    assert_eq!((get(Some("root")).await, get(None).await), (401, 401));
    server.target.reset_tokens().await.unwrap();
    server.access.refresh().await.unwrap();
    assert_eq!(get(None).await, 200);
}

#[tokio::test]
async fn tokens_can_be_demanded_before_there_are_any() {
    let server = Server::start(|config| config.http.require_token = true).await;
    server.get("/v1/agents").await.problem(401, "unauthorized");
    server.get("/livez").await;
}
