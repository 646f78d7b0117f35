//! Projects, and the summary that their agents share.

use reqwest::Method;
use serde_json::json;

use crate::support::{
    server::{Reply, Server},
    troubled_store::Trouble,
};

const PATH: &str = "/v1/projects/ikigai/summary";

/// Starts a server with two agents that have a past, and a project without agents.
async fn server() -> Server {
    let server = Server::start(|config| {
        config.window.budget_tokens = 200;
        config.window.low_water = 0.5;
    })
    .await;
    server.converse("coder", 1..=6).await;
    server.converse("tester", 11..=16).await;
    server.summarise().await;
    server
}

async fn member(server: &Server, method: Method, agent: &str) -> Reply {
    Reply::of(server.request(method, &format!("/v1/projects/ikigai/agents/{agent}"))).await
}

#[tokio::test]
async fn agents_of_a_project_share_a_summary() {
    let server = server().await;
    server.get(PATH).await.problem(404, "unknown_project");
    let reply = member(&server, Method::PUT, "coder").await;
    assert_eq!(reply.json(), json!({"agent_id": "coder", "project_id": "ikigai"}));
    let alone = server.get(PATH).await;
    assert_eq!((alone.status, alone.header("content-type")), (200, "text/markdown; charset=utf-8"));
    assert!(alone.body.contains("### coder\n"), "{}", alone.body);
    assert!(!alone.body.contains("tester"), "{}", alone.body);

    member(&server, Method::PUT, "tester").await;
    let both = server.get_until(PATH, |reply| reply.body.contains("### tester\n")).await;
    let (coder, tester) = both.body.split_once("### tester\n").unwrap();
    assert!(coder.contains("Fix bug 1") && tester.contains("Fix bug 11"), "{}", both.body);
    assert_ne!(both.header("etag"), alone.header("etag"));
    assert_eq!(server.get("/v1/agents/coder").await.json()["project_id"], "ikigai");

    // An exchange that has just left a window is there before it is summarised.
    server.converse("tester", 17..=20).await;
    let pending = server.get_until(PATH, |reply| reply.body.contains("Fix bug 18")).await;
    assert!(pending.body.contains("(not yet condensed)"), "{}", pending.body);

    member(&server, Method::DELETE, "coder").await;
    let left = server.get_until(PATH, |reply| !reply.body.contains("### coder\n")).await;
    assert!(left.body.contains("### tester\n"), "{}", left.body);
    server.end().await;
}

#[tokio::test]
async fn a_projects_summary_as_json_names_the_agents_of_its_parts() {
    let server = server().await;
    member(&server, Method::PUT, "coder").await;
    let reply = server.get_as(PATH, "application/json").await;
    let document = reply.json();
    assert_eq!(document["project_id"], "ikigai");
    assert_eq!(document["agents"], 1);
    let coder = &document["members"][0];
    assert_eq!((&coder["agent_id"], &coder["version"]), (&json!("coder"), &json!(1)));
    assert_eq!(coder["items"], coder["shown_items"]);
    assert!(coder["items"].as_i64().unwrap() > 0, "{document}");
    let known =
        server.request(Method::GET, PATH).header("if-none-match", server.get(PATH).await.header("etag"));
    assert_eq!(Reply::of(known).await.status, 304);
}

#[tokio::test]
async fn without_a_database_the_last_copy_is_served() {
    let server = server().await;
    member(&server, Method::PUT, "coder").await;
    let fresh = server.get(PATH).await;
    server.store.trouble("project", Trouble::Unavailable);
    server.store.trouble("project_stamp", Trouble::Unavailable);
    server.converse("coder", 7..=12).await;
    let stale = server.get_until(PATH, |reply| !reply.header("recapd-stale").is_empty()).await;
    assert_eq!(stale.body, fresh.body);
    let other = server.get("/v1/projects/other/summary").await;
    assert_eq!((other.status, other.body.as_str()), (503, "[Summary temporarily unavailable]"));
    server.store.recover();
    server.get_until(PATH, |reply| reply.body.contains("Fix bug 7")).await;
}

#[tokio::test]
async fn projects_are_listed_and_wrong_names_refused() {
    let server = server().await;
    assert_eq!(server.get("/v1/projects").await.json(), json!({"projects": [], "next_cursor": null}));
    for (project, agent) in [("a", "coder"), ("b", "tester")] {
        let path = format!("/v1/projects/{project}/agents/{agent}");
        assert_eq!(Reply::of(server.request(Method::PUT, &path)).await.status, 200);
    }
    let page = server.get("/v1/projects?limit=1").await.json();
    assert_eq!(page["projects"][0]["project_id"], "a");
    let next = page["next_cursor"].as_str().unwrap();
    let page = server.get(&format!("/v1/projects?limit=1&cursor={next}")).await.json();
    assert_eq!((&page["projects"][0]["project_id"], &page["next_cursor"]), (&json!("b"), &json!(null)));
    let refused = |path: &'static str, method: Method| Reply::of(server.request(method, path));
    let cases = [
        ("/v1/projects/-x/summary", Method::GET, 400, "invalid_project_id"),
        ("/v1/projects/p/agents/-x", Method::PUT, 400, "invalid_agent_id"),
        ("/v1/projects/p/agents/nobody", Method::PUT, 404, "unknown_agent"),
        ("/v1/projects/p/agents/nobody", Method::DELETE, 404, "unknown_agent"),
        ("/v1/projects/b/agents/coder", Method::DELETE, 404, "unknown_project"),
        ("/v1/projects/a/summary?x=1", Method::GET, 400, "unknown_parameter"),
    ];
    for (path, method, status, code) in cases {
        refused(path, method).await.problem(status, code);
    }
}
