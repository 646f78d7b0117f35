//! Who sees what over HTTP: the tokens of `security` through the tools, resources and notices.

use reqwest::Method;
use serde_json::{Value, json};

use super::{EARLIER, Events, answered, later_by, message, posted_by, text};
use crate::{
    http::security,
    support::server::{Reply, Server},
};

const OWN: &str = "coder";
/// An agent of the project `web`.
const OF_WEB: &str = "victim";
const ALL: [&str; 2] = [OWN, OF_WEB];

/// The tokens, with the agents that each sees.
const TOKENS: [(&str, &[&str]); 5] =
    [("root", &ALL), ("reader", &ALL), ("coder-read", &[OWN]), ("coder-admin", &[OWN]), ("web", &[OF_WEB])];

async fn ask(server: &Server, token: &str, method: &str, params: Value) -> Value {
    answered(&Reply::of(later_by(server, Some(token), method, params)).await)
}

async fn call(server: &Server, token: &str, tool: &str, arguments: Value) -> Value {
    let params = json!({ "name": tool, "arguments": arguments });
    ask(server, token, "tools/call", params).await["result"].clone()
}

#[tokio::test]
async fn a_token_sees_its_agents_alone() {
    let server = security::server().await;
    for (token, seen) in TOKENS {
        for agent in ["coder", "victim", "nobody"] {
            let is_seen = seen.contains(&agent);
            for (tool, arguments) in [
                ("summary_get", json!({ "agent": agent })),
                ("recall", json!({ "agent": agent, "query": "hello parser" })),
                ("expand", json!({ "agent": agent, "exchanges": "1" })),
                ("status", json!({ "agent": agent })),
            ] {
                let answer = call(&server, token, tool, arguments).await;
                assert_eq!(answer["isError"], !is_seen, "{token} {tool} {agent}: {answer}");
                if !is_seen {
                    let said = format!("`agent`: agent `{agent}` is unknown; call status");
                    assert!(text(&answer).starts_with(&said), "{token} {tool}: {answer}");
                }
            }
            for file in ["summary.md", "history.md", "window.json"] {
                let uri = json!({ "uri": format!("recapd://agents/{agent}/{file}") });
                let answer = ask(&server, token, "resources/read", uri).await;
                assert_eq!(answer["error"].is_null(), is_seen, "{token} {file} {agent}: {answer}");
            }
        }
        let listed = ask(&server, token, "resources/list", json!({})).await;
        let uris = listed["result"]["resources"].as_array().unwrap().iter();
        let uris: Vec<&str> = uris.map(|resource| resource["uri"].as_str().unwrap()).collect();
        let expected: Vec<String> =
            seen.iter().map(|id| format!("recapd://agents/{id}/summary.md")).collect();
        assert_eq!(uris, expected, "{token}");
        let reference = json!({ "type": "ref/prompt", "name": "summary" });
        let argument = json!({ "ref": reference, "argument": { "name": "agent", "value": "" } });
        let completed = ask(&server, token, "completion/complete", argument).await;
        assert_eq!(completed["result"]["completion"]["values"], json!(seen), "{token}");
        let status = call(&server, token, "status", json!({})).await;
        for agent in ALL {
            assert_eq!(text(&status).contains(agent), seen.contains(&agent), "{token}: {status}");
        }
        assert_eq!(text(&status).contains("queue: "), seen.len() > 1, "{token}: {status}");
    }
}

#[tokio::test]
async fn a_tokens_agent_is_meant_by_default() {
    let server = security::server().await;
    for (token, agent) in [("coder-read", OWN), ("web", OF_WEB)] {
        let shown = call(&server, token, "expand", json!({ "exchanges": "1" })).await;
        assert!(text(&shown).starts_with(&format!("#1 of {agent} ")), "{shown}");
    }
    // Of a project's agents, the newest.
    let join = server.request_by(Some("root"), Method::PUT, "/v1/projects/web/agents/coder");
    assert_eq!(Reply::of(join).await.status, 200);
    for agent in [OWN, OF_WEB, OWN] {
        server.clock.advance_ms(1_000);
        let path = format!("/v1/agents/{agent}/messages");
        let said = server.request_by(Some("root"), Method::POST, &path);
        let said = said.header("content-type", "application/json");
        let said = said.body(r#"[{"role":"user","content":"And now?"}]"#);
        assert_eq!(Reply::of(said).await.status, 200);
        let shown = call(&server, "web", "expand", json!({ "exchanges": "1" })).await;
        assert!(text(&shown).starts_with(&format!("#1 of {agent} ")), "{shown}");
    }
}

#[tokio::test]
async fn strangers_and_other_tokens_get_nothing_of_a_session() {
    let server = security::server().await;
    for token in [None, Some("unknown"), Some("expired"), Some("revoked")] {
        let reply = Reply::of(later_by(&server, token, "tools/list", json!({}))).await;
        assert_eq!(reply.status, 401, "{token:?}");
    }
    let params = json!({ "protocolVersion": EARLIER, "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let begun = Reply::of(posted_by(&server, Some("root"), &message("initialize", params))).await;
    let session = begun.header("mcp-session-id").to_owned();
    let list = |token| {
        posted_by(&server, Some(token), &message("tools/list", Value::Null))
            .header("mcp-session-id", &session)
            .header("mcp-protocol-version", EARLIER)
    };
    assert_eq!(Reply::of(list("coder-read")).await.status, 404);
    assert_ne!(Reply::of(list("root")).await.status, 404);
}

#[tokio::test]
async fn notices_come_for_the_tokens_agents_only() {
    let server = security::server().await;
    let [own, other] = ALL.map(|id| format!("recapd://agents/{id}/summary.md"));
    let filter = json!({ "notifications": { "resourceSubscriptions": [other, own] } });
    let request = later_by(&server, Some("coder-read"), "subscriptions/listen", filter);
    let mut events = Events::open(request).await;
    let accepted = events.next().await;
    assert_eq!(accepted["method"], "notifications/subscriptions/acknowledged", "{accepted}");
    // The first look is always reported for what is seen, and never for what isn't.
    let notice = events.next().await;
    assert_eq!(notice["params"]["uri"], own, "{notice}");
    server.stop.cancel();
    let end = events.next().await;
    assert_eq!(end["method"], Value::Null, "{end}");
    server.end().await;
}
