//! The era of sessions.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::{EARLIER, Events, SUMMARY, answered, message, posted};
use crate::support::server::{Reply, Server};
use recapd_api::mcp::{SESSIONS_MAX, SUBSCRIPTIONS_MAX, WATCHES_MAX};

fn initializing(server: &Server) -> RequestBuilder {
    let params = json!({
        "protocolVersion": EARLIER,
        "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" },
    });
    posted(server, &message("initialize", params))
}

async fn initialize(server: &Server) -> Reply {
    let reply = Reply::of(initializing(server)).await;
    let answer = answered(&reply);
    assert_eq!(answer["result"]["protocolVersion"], EARLIER, "{answer}");
    assert_eq!(answer["result"]["serverInfo"]["name"], "recapd", "{answer}");
    reply
}

fn in_session(request: RequestBuilder, session: &str) -> RequestBuilder {
    request.header("mcp-session-id", session).header("mcp-protocol-version", EARLIER)
}

async fn session(server: &Server) -> String {
    let session = initialize(server).await.header("mcp-session-id").to_owned();
    let greeting = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let reply = Reply::of(in_session(posted(server, &greeting), &session)).await;
    assert_eq!(reply.status, 202, "{}", reply.body);
    session
}

async fn ask(server: &Server, session: &str, method: &str, params: Value) -> Value {
    answered(&Reply::of(in_session(posted(server, &message(method, params)), session)).await)
}

fn stream(server: &Server, session: &str) -> RequestBuilder {
    let request = server.request(Method::GET, "/mcp").header("accept", "text/event-stream");
    in_session(request, session)
}

#[tokio::test]
async fn a_subscriber_is_notified_of_new_versions_until_it_unsubscribes() {
    let server = Server::small().await;
    server.converse("coder", 1..=2).await;
    let session = session(&server).await;
    let mut events = Events::open(stream(&server, &session)).await;
    let subscribed = ask(&server, &session, "resources/subscribe", json!({ "uri": SUMMARY })).await;
    assert_eq!(subscribed["result"], json!({}), "{subscribed}");
    server.converse("coder", 3..=8).await;
    let notice = events.next().await;
    assert_eq!(notice["method"], "notifications/resources/updated", "{notice}");
    assert_eq!(notice["params"]["uri"], SUMMARY);
    server.summarise().await;
    assert_eq!(events.next().await["params"]["uri"], SUMMARY);
    let is_written = |reply: &Reply| reply.header("recapd-version") == "1";
    let document = server.get_until("/v1/agents/coder/summary", is_written).await.body;
    let read = ask(&server, &session, "resources/read", json!({ "uri": SUMMARY })).await;
    assert_eq!(read["result"]["contents"][0]["text"], document, "{read}");

    let ended = ask(&server, &session, "resources/unsubscribe", json!({ "uri": SUMMARY })).await;
    assert_eq!(ended["result"], json!({}), "{ended}");
    let ended = Reply::of(in_session(server.request(Method::DELETE, "/mcp"), &session)).await;
    assert_eq!(ended.status, 204);
    let gone = Reply::of(in_session(posted(&server, &message("tools/list", Value::Null)), &session)).await;
    assert_eq!(gone.status, 404);
    server.end().await;
}

#[tokio::test]
async fn a_request_without_a_session_is_told_how_to_begin_one() {
    let server = Server::small().await;
    let request =
        || posted(&server, &message("tools/list", Value::Null)).header("mcp-protocol-version", EARLIER);
    let gone = request().header("mcp-session-id", "gone");
    for (request, status, words) in
        [(request(), 400, "Session ID is required"), (gone, 404, "Session not found")]
    {
        let problem = Reply::of(request).await.problem(status, "http_error");
        assert!(problem["detail"].as_str().unwrap().ends_with(words), "{problem}");
        let hint = problem["hint"].as_str().unwrap();
        assert!(hint.contains("`initialize`") && hint.contains("mcp-session-id"), "{problem}");
    }
    server.end().await;
}

#[tokio::test]
async fn missing_resources_cannot_be_subscribed_to() {
    let server = Server::small().await;
    let session = session(&server).await;
    for uri in ["recapd://agents/nobody/summary.md", "file:///etc/passwd"] {
        for method in ["resources/subscribe", "resources/read"] {
            let answer = ask(&server, &session, method, json!({ "uri": uri })).await;
            // The error's number in this era.
            assert_eq!(answer["error"]["code"], -32_002, "{answer}");
        }
    }
}

#[tokio::test]
async fn when_there_are_too_many_sessions_further_clients_are_served_without() {
    let server = Server::start(|config| config.http.trusted_proxies = vec!["127.0.0.1".to_owned()]).await;
    server.converse("coder", 1..=1).await;
    // One client's half.
    for _ in 0..SESSIONS_MAX / 2 {
        assert_ne!(initialize(&server).await.header("mcp-session-id"), "");
    }
    assert_eq!(initialize(&server).await.header("mcp-session-id"), "");
    let other = async || {
        let request = initializing(&server).header("x-forwarded-for", "192.0.2.1");
        Reply::of(request).await.header("mcp-session-id").to_owned()
    };
    let others = other().await;
    assert_ne!(others, "", "there are places for others");
    for _ in 1..SESSIONS_MAX / 2 {
        assert_ne!(other().await, "");
    }
    assert_eq!(other().await, "");
    let ended = Reply::of(in_session(server.request(Method::DELETE, "/mcp"), &others)).await;
    assert_eq!(ended.status, 204);
    assert_ne!(other().await, "", "a place comes back");
    let params = json!({ "name": "status", "arguments": { "agent": "coder" } });
    let request = posted(&server, &message("tools/call", params)).header("mcp-protocol-version", EARLIER);
    let answer = answered(&Reply::of(request).await);
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    let params = json!({ "uri": "recapd://agents/coder/summary.md" });
    let request =
        posted(&server, &message("resources/subscribe", params)).header("mcp-protocol-version", EARLIER);
    let answer = answered(&Reply::of(request).await);
    assert_eq!(answer["error"]["code"], -32_600, "{answer}");
    server.end().await;
}

#[tokio::test]
async fn subscriptions_are_limited_and_end_with_their_session() {
    let server = Server::small().await;
    let mut uris = Vec::new();
    for number in 0..26 {
        server.converse(&format!("a{number}"), 1..=1).await;
        uris.extend(
            ["summary.md", "history.md", "window.json"]
                .map(|file| format!("recapd://agents/a{number}/{file}")),
        );
        uris.push(format!("ikigai:///summaries/a{number}.md"));
    }
    for _ in 0..=(SUBSCRIPTIONS_MAX / WATCHES_MAX) {
        let session = session(&server).await;
        for uri in uris.iter().take(WATCHES_MAX) {
            let subscribed = ask(&server, &session, "resources/subscribe", json!({ "uri": uri })).await;
            assert_eq!(subscribed["result"], json!({}), "{subscribed}");
        }
        let further = json!({ "uri": uris.last() });
        let refused = ask(&server, &session, "resources/subscribe", further.clone()).await;
        assert_eq!(refused["error"]["code"], -32_600, "{refused}");
        let first = json!({ "uri": uris.first() });
        ask(&server, &session, "resources/unsubscribe", first).await;
        let subscribed = ask(&server, &session, "resources/subscribe", further).await;
        assert_eq!(subscribed["result"], json!({}), "{subscribed}");
        let ended = Reply::of(in_session(server.request(Method::DELETE, "/mcp"), &session)).await;
        assert_eq!(ended.status, 204);
    }
    server.end().await;
}
