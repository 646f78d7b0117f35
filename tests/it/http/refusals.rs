//! A refusal reveals nothing about what the caller may not see: it is decided without reading the agent, so neither
//! its text nor its time depends on the agent.

use recapd_core::domain::access::{AccessNames, Reach, Scope};
use recapd_store::Store as _;
use reqwest::Method;

use crate::support::{
    server::{Reply, Server},
    troubled_store::{EVERY_OPERATION, Trouble},
};

/// Method, and the path after the agent: routes that read much of an agent, and one that writes.
const ROUTES: [(&str, &str); 5] = [
    ("GET", "history?all=1"),
    ("GET", "context?format=openai"),
    ("GET", "summary"),
    ("GET", "expand?exchange=1"),
    ("POST", "messages"),
];
const MESSAGE: &str = r#"{"kind":"user","content":"Hello"}"#;

/// Returns the status, and the text without the agent's id.
async fn refusal(server: &Server, token: Option<&str>, route: (&str, &str), agent: &str) -> (u16, String) {
    let (method, rest) = route;
    let path = format!("/v1/agents/{agent}/{rest}");
    let mut request = server.request_by(token, method.parse().unwrap(), &path);
    if method == "POST" {
        request = request.header("content-type", "application/json").body(MESSAGE);
    }
    let reply = Reply::of(request).await;
    (reply.status, reply.body.replace(agent, "AGENT"))
}

#[tokio::test]
async fn refusals_do_not_depend_on_the_agent() {
    let server = Server::start(|_| {}).await;
    server.converse("victim", 1..=20).await;
    let join = server.request(Method::PUT, "/v1/projects/secret/agents/victim");
    assert_eq!(Reply::of(join).await.status, 200);
    let only = |agents: &[&str], projects: &[&str]| {
        Reach::Only(AccessNames {
            agents: agents.iter().map(|id| id.parse().unwrap()).collect(),
            projects: projects.iter().map(|id| id.parse().unwrap()).collect(),
        })
    };
    for (name, reach) in
        [("owner", Reach::All), ("coder", only(&["coder"], &[])), ("web", only(&[], &["web"]))]
    {
        server.keep_token(name, Scope::Admin, reach).await;
    }
    // From now on, a request that reads the agent fails with 503.
    server.store.trouble(EVERY_OPERATION, Trouble::Unavailable);
    let callers = [(Some("coder"), 404), (Some("web"), 404), (None, 401), (Some("unknown"), 401)];
    for route in ROUTES {
        for (token, status) in callers {
            let victim = refusal(&server, token, route, "victim").await;
            assert_eq!(victim.0, status, "{token:?} {route:?}: {}", victim.1);
            assert_eq!(victim, refusal(&server, token, route, "nobody").await, "{token:?} {route:?}");
        }
    }
    assert_eq!(
        refusal(&server, Some("owner"), ROUTES[0], "victim").await.0,
        503,
        "the owner's request reads"
    );
    let row = server.target.agent(&"victim".parse().unwrap()).await.unwrap();
    assert_eq!(row.unwrap().ledger.last_exchange, 20, "nothing was written");
}
