//! Requests of web pages, and the headers that tell browsers what to do with an answer.

use recapd_core::domain::access::{Reach, Scope};
use reqwest::Method;

use super::security::{SECRET, ask, operations};
use crate::support::server::{Reply, Server};

#[tokio::test]
async fn web_pages_get_nothing() {
    let server =
        Server::start(|config| config.http.allowed_hosts = vec!["recapd.example.com".to_owned()]).await;
    let ask = async |header: &str, value: &str| {
        let request = server.request(Method::GET, "/v1/agents").header(header, value);
        Reply::of(request).await
    };
    ask("host", "evil.example:7411").await.problem(403, "foreign_host");
    ask("origin", "http://evil.example").await.problem(403, "foreign_origin");
    ask("origin", "null").await.problem(403, "foreign_origin");
    for host in ["localhost:7411", "recapd.example.com"] {
        let reply = ask("host", host).await;
        assert_eq!(reply.status, 200, "{host}");
        assert_eq!(reply.header("access-control-allow-origin"), "");
    }
    let own = format!("http://{}", server.address);
    assert_eq!(ask("origin", &own).await.status, 200);
}

#[tokio::test]
async fn pages_of_other_sites_get_nothing_of_a_daemon_without_tokens() {
    let server = Server::start(|_| {}).await;
    server.converse("coder", 1..=1).await;
    let ask = async |method: &Method, path: &str, fetch: [&str; 3]| {
        let names = ["sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest"];
        let request = server.request(method.clone(), path);
        let request =
            names.into_iter().zip(fetch).fold(request, |request, (name, value)| request.header(name, value));
        Reply::of(request).await
    };
    let open = ["/livez", "/readyz", "/ui/style.css", "/ui/login", "/"];
    let open = open.map(|path| (Method::GET, path.to_owned(), String::new()));
    for (method, path, _) in operations().into_iter().chain(open) {
        let path = path.replace("{id}", "coder");
        for fetch in [
            ["cross-site", "no-cors", "image"],
            ["same-site", "cors", "empty"],
            ["cross-site", "navigate", "iframe"],
        ] {
            let reply = ask(&method, &path, fetch).await;
            assert_eq!(reply.status, 403, "{method} {path} {fetch:?}: {}", reply.body);
            assert!(!reply.body.contains(SECRET), "{method} {path}");
        }
    }
    for path in ["/ui/", "/ui/agents/coder"] {
        let link = ask(&Method::GET, path, ["cross-site", "navigate", "document"]).await;
        assert_eq!(link.status, 200, "{path}");
    }
    let link = ask(&Method::GET, "/v1/agents", ["cross-site", "navigate", "document"]).await;
    link.problem(403, "foreign_origin");
    for own in ["same-origin", "none"] {
        let reply = ask(&Method::GET, "/v1/agents/coder/summary", [own, "cors", "empty"]).await;
        assert_eq!(reply.status, 200, "{own}");
    }
}

/// Fails unless the headers of `reply` keep other pages and caches away from it.
#[track_caller]
fn assert_private(reply: &Reply, what: &str) {
    let cache = reply.header("cache-control");
    assert!(cache.starts_with("private, no-"), "{what}: {cache}");
    let policy = reply.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none';"), "{what}: {policy}");
    assert!(policy.contains("frame-ancestors 'none'"), "{what}: {policy}");
    assert!(!policy.contains("unsafe"), "{what}: {policy}");
    let referrer = reply.header("referrer-policy");
    assert!(["no-referrer", "same-origin"].contains(&referrer), "{what}: {referrer}");
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        assert_eq!(reply.header(name), value, "{what}");
    }
}

#[tokio::test]
async fn answers_are_private() {
    let server = Server::start(|_| {}).await;
    server.converse("coder", 1..=1).await;
    for (method, path, body) in operations() {
        let path = path.replace("{id}", "coder");
        let reply = ask(&server, None, (&method, &path, &body)).await;
        assert_private(&reply, &format!("{method} {path}: {}", reply.status));
    }
    for path in ["/v1/nowhere", "/ui/nowhere", "/v1/agents/%ff/summary", "/", "/ui/login"] {
        assert_private(&server.get(path).await, path);
    }
    server.keep_token("root", Scope::Admin, Reach::All).await;
    for path in ["/v1/agents", "/v1/events", "/mcp", "/ui/", "/metrics"] {
        let reply = server.get(path).await;
        assert_eq!(reply.status, 401, "{path}");
        assert_private(&reply, path);
    }
}
