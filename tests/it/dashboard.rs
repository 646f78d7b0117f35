//! The dashboard's pages, as browsers without scripts see them.

mod actions;
mod filters;
mod legs;
mod live;
mod pages;
mod session;
mod sizes;
mod statements;

use crate::support::server::{Reply, Server};

/// Fails unless `reply` is a valid page: whole, guarded, with one heading, and without anything that the policy refuses.
#[track_caller]
fn assert_page(reply: &Reply) {
    let body = &reply.body;
    assert_eq!((reply.status, reply.header("content-type")), (200, "text/html; charset=utf-8"), "{body}");
    assert!(
        reply
            .header("content-security-policy")
            .starts_with("default-src 'none'; base-uri 'none'; connect-src 'self';")
    );
    assert_eq!(reply.header("cache-control"), "private, no-store");
    assert_eq!(body.matches("<h1").count(), 1, "{body}");
    assert!(body.starts_with("<!DOCTYPE html>") && body.ends_with("</html>"));
    for refused in [" style=", "<style", " onclick=", "javascript:", "http://", "https://"] {
        assert!(!body.contains(refused), "{refused} in {body}");
    }
    assert_eq!(body.matches("<script").count(), 1);
    let mut ids: Vec<&str> =
        body.split(" id=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    ids.sort_unstable();
    let all = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), all, "an id stands twice");
}

/// Returns the page at `path`.
async fn page(server: &Server, path: &str) -> String {
    let reply = server.get(path).await;
    assert_page(&reply);
    reply.body
}

/// Returns the key that a page's forms send.
async fn key(server: &Server) -> String {
    let body = page(server, "/ui/queue").await;
    let rest = body.split("name=\"key\" value=\"").nth(1).unwrap();
    rest.split('"').next().unwrap().to_owned()
}

/// Returns a page's links within the dashboard.
fn links(body: &str) -> Vec<String> {
    let targets = body.split(" href=\"").skip(1).map(|rest| rest.split('"').next().unwrap());
    let places = targets.map(|target| target.split('#').next().unwrap().replace("&amp;", "&"));
    places.filter(|target| target.starts_with("/ui/")).collect()
}
