//! Shares of common pools: no token, and no address without one, has more than half.

use futures::{StreamExt as _, stream::FuturesUnordered};
use recapd_core::domain::access::{Reach, Scope};
use reqwest::{Method, RequestBuilder};
use tokio_util::sync::CancellationToken;

use crate::support::{
    PATIENCE,
    server::{Reply, Server},
    troubled_store::Trouble,
};

const MESSAGES: &str = "/v1/agents/coder/messages";

async fn with_tokens(server: Server) -> Server {
    for name in ["one", "other"] {
        server.keep_token(name, Scope::Write, Reach::All).await;
    }
    server
}

/// Sends a request, and returns once the answer begins.
async fn begun(request: RequestBuilder) -> reqwest::Response {
    request.send().await.unwrap()
}

#[tokio::test]
async fn one_token_has_half_of_the_places_for_events() {
    let server = with_tokens(Server::start(|config| config.http.subscribers_max = 4).await).await;
    let listen = |token| begun(server.request_by(Some(token), Method::GET, "/v1/events"));
    let mut held = vec![listen("one").await, listen("one").await];
    assert!(held.iter().all(|reply| reply.status() == 200));
    let refused = Reply::of(server.request_by(Some("one"), Method::GET, "/v1/events")).await;
    let problem = refused.problem(503, "too_many_subscribers");
    assert!(problem["detail"].as_str().unwrap().contains("half of the 4 event streams"), "{problem}");
    held.push(listen("other").await);
    assert_eq!(held[2].status(), 200);
}

#[tokio::test]
async fn one_token_has_half_of_the_places_to_wait() {
    let server = Server::start(|config| {
        config.window.budget_tokens = 200;
        config.window.low_water = 0.5;
        config.http.connections_max = 6;
        config.http.request_timeout_ms = 60_000;
    })
    .await;
    server.converse("coder", 1..=8).await;
    server.summarise().await;
    let path = "/v1/agents/coder/summary";
    let tag = server.get(path).await.header("etag").to_owned();
    let server = with_tokens(server).await;
    let wait = |token, seconds: u32| {
        let path = format!("{path}?wait={seconds}s");
        let request = server.request_by(Some(token), Method::GET, &path);
        Reply::of(request.header("if-none-match", &tag))
    };
    // One of four waits is refused at once; the others stay.
    let mut waiting: FuturesUnordered<_> = (0..4).map(|_| wait("one", 30)).collect();
    let refused = tokio::time::timeout(PATIENCE, waiting.next()).await;
    let refused = refused.expect("the places are taken").unwrap();
    refused.problem(429, "too_many_requests");
    assert_ne!(refused.header("retry-after"), "");
    assert_eq!(wait("other", 0).await.status, 304);
    // A request without a wait needs no place.
    let reply = Reply::of(server.request_by(Some("one"), Method::GET, path)).await;
    assert_eq!(reply.status, 200);
}

#[tokio::test]
async fn one_token_has_half_of_the_room_for_bodies() {
    const BYTES_MAX: usize = 512 * 1_024;
    let server = Server::start(|config| {
        config.http.body_bytes_max = BYTES_MAX;
        config.http.request_timeout_ms = 3_600_000;
    })
    .await;
    let server = with_tokens(server).await;
    let body = serde_json::json!({ "role": "user", "content": "x".repeat(500_000) }).to_string();
    let post = |token| {
        let request = server.request_by(Some(token), Method::POST, MESSAGES);
        let request = request.header("content-type", "application/json");
        Reply::of(request.body(body.clone()))
    };
    let go_on = CancellationToken::new();
    server.store.trouble("append", Trouble::Late(go_on.clone()));
    let all = async {
        // One of the token's two bodies is refused at once, so that the other one can go on, and another client's.
        let (mut first, mut second) = (Box::pin(post("one")), Box::pin(post("one")));
        let (refused, held) = tokio::select! {
            reply = &mut first => (reply, second),
            reply = &mut second => (reply, first),
        };
        refused.problem(503, "too_many_bodies");
        let release = async {
            // Another one of the same token is refused while another client's is accepted.
            post("one").await.problem(503, "too_many_bodies");
            go_on.cancel();
        };
        let (held, other, ()) = tokio::join!(held, post("other"), release);
        assert_eq!((held.status, other.status), (200, 200));
    };
    tokio::time::timeout(PATIENCE, all).await.expect("all are answered");
}

#[tokio::test]
async fn only_a_trusted_proxy_can_name_the_client() {
    let limited = async |proxies: &[&str]| {
        let proxies = proxies.iter().map(|&proxy| proxy.to_owned()).collect();
        let server = Server::start(|config| {
            config.http.requests_per_second = 1;
            config.http.requests_burst = 2;
            config.http.trusted_proxies = proxies;
        })
        .await;
        server.keep_token("one", Scope::Read, Reach::All).await;
        let mut told = Vec::new();
        for number in 0..20 {
            let request = server.request(Method::GET, "/v1/agents");
            let request = request.header("x-forwarded-for", format!("6.6.6.6, 192.0.2.{number}"));
            told.push(Reply::of(request).await.status);
        }
        told
    };
    assert_eq!(limited(&["127.0.0.1"]).await, [401; 20], "each client has its own limit");
    assert!(limited(&[]).await.contains(&429), "anybody could write that header");
    assert!(limited(&["10.0.0.0/8"]).await.contains(&429));
}
