//! The fast path answers requests for a summary in memory. A path that ends with `?` means the same, but is answered by the router.

use axum::http::{HeaderName, Request};
use futures::future::Either;
use hyper::service::Service as _;
use recapd_config::Config;
use recapd_core::domain::access::{AccessNames, Reach, Scope};

use crate::support::{
    server::{Reply, Server},
    troubled_store::Trouble,
};

const SHORT: &str = "/v1/agents/coder/summary";
const LONG: &str = "/v1/agents/coder/summary?";

/// Starts a server whose summary has been read in all formats, as some are made only on demand.
async fn server(configure: impl FnOnce(&mut Config)) -> Server {
    let server = Server::start(|config| {
        config.window.budget_tokens = 200;
        config.window.low_water = 0.5;
        configure(config);
    })
    .await;
    server.converse("coder", 1..=40).await;
    server.summarise().await;
    let written = |reply: &Reply| reply.header("recapd-version") != "0";
    server.get_until(SHORT, written).await;
    server.get_until(SHORT, |reply| reply.header("etag").ends_with(".gz\"")).await;
    server
}

/// Makes a request with these headers in addition to, or instead of, those that it needs.
fn get(path: &str, headers: &[(&str, &str)]) -> Request<String> {
    let mut request = Request::get(path).body(String::new()).unwrap();
    let own = [("host", "127.0.0.1"), ("accept-encoding", "identity"), ("x-request-id", "test")];
    for (name, value) in own.iter().chain(headers) {
        let name = name.parse::<HeaderName>().unwrap();
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    request
}

/// Returns the answer to a request over the network, and whether it came by the fast path.
async fn answered(server: &Server, request: Request<String>) -> (bool, String) {
    let answering = server.interface.call(request.clone());
    let is_short = matches!(answering, Either::Left(_));
    let (parts, _) = request.into_parts();
    let sent = server.request(parts.method, &parts.uri.to_string()).headers(parts.headers);
    (is_short, shown(sent.send().await.unwrap()).await)
}

async fn shown(answer: reqwest::Response) -> String {
    let headers = answer.headers().iter().filter(|(name, _)| *name != "date");
    let mut headers: Vec<String> = headers.map(|(name, value)| format!("{name}: {value:?}")).collect();
    headers.sort();
    let status = answer.status();
    let body = answer.bytes().await.unwrap();
    format!("{status}\n{}\n\n{}", headers.join("\n"), body.escape_ascii())
}

/// Sends the request both ways. Fails unless the answers are equal, and returns whether the fast path was taken.
async fn is_short(server: &Server, headers: &[(&str, &str)]) -> bool {
    let (is_short, short) = answered(server, get(SHORT, headers)).await;
    let (is_long_short, long) = answered(server, get(LONG, headers)).await;
    assert!(!is_long_short);
    assert_eq!(short, long, "{headers:?}");
    is_short
}

#[tokio::test]
async fn both_ways_lead_to_the_same_answer() {
    let server = server(|_| ()).await;
    let etag = server.get(SHORT).await.header("etag").to_owned();
    for headers in [
        &[][..],
        &[("accept", "application/json")],
        &[("accept", "text/html;q=0.3, application/json;q=0.2")],
        &[("accept-encoding", "gzip")],
        &[("accept-encoding", "br")],
        &[("if-none-match", &etag)],
        &[("if-none-match", &etag), ("accept", "application/json")],
        &[("if-none-match", &etag), ("accept-encoding", "gzip")],
        &[("if-none-match", "\"another\"")],
        &[("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")],
        &[("origin", "http://127.0.0.1")],
        &[("authorization", "Bearer rcp_whatever")],
    ] {
        assert!(is_short(&server, headers).await, "{headers:?}");
    }
    for header in [("origin", "http://evil.example"), ("host", "evil.example")] {
        let (is_short, answer) = answered(&server, get(SHORT, &[header])).await;
        assert!(!is_short && answer.starts_with("403"), "{answer}");
    }
    for path in [
        "/v1/agents/nobody/summary",
        "/v1/agents/a%20b/summary",
        "/v1/agents/a/b/summary",
        "/v1/agents/coder/summary?view=brief",
    ] {
        let (is_short, _) = answered(&server, get(path, &[])).await;
        assert!(!is_short, "{path}");
    }
    server.end().await;
}

#[tokio::test]
async fn both_ways_are_counted_alike() {
    const COUNTERS: [&str; 3] = [
        r#"recapd_http_requests_total{route="/v1/agents/{id}/summary",method="GET",code="200"} "#,
        r#"recapd_http_request_duration_seconds_count{route="/v1/agents/{id}/summary",method="GET"} "#,
        r#"recapd_document_reads_total{via="http",result="hit"} "#,
    ];
    let server = server(|_| ()).await;
    let count = || {
        let told = server.parts.metrics.encode(None).1;
        COUNTERS.map(|counter| {
            let mut lines = told.lines();
            let count = lines.find_map(|line| line.strip_prefix(counter));
            count.unwrap_or_else(|| panic!("{counter}: {told}")).parse::<u64>().unwrap()
        })
    };
    let before = count();
    for (path, asked) in [(SHORT, 1), (LONG, 2)] {
        server.get(path).await;
        assert_eq!(count(), before.map(|count| count + asked), "{path}");
    }
    server.end().await;
}

#[tokio::test]
async fn the_fast_path_is_for_authorized_readers_alone() {
    let server = server(|_| ()).await;
    let only = |agents: &[&str], projects: &[&str]| {
        Reach::Only(AccessNames {
            agents: agents.iter().map(|id| id.parse().unwrap()).collect(),
            projects: projects.iter().map(|id| id.parse().unwrap()).collect(),
        })
    };
    let tokens = [
        ("all", Reach::All, true),
        ("own", only(&["coder"], &["web"]), true),
        ("other", only(&["other"], &[]), false),
        // Whether the agent belongs to the project must be looked up.
        ("project", only(&[], &["web"]), false),
    ];
    for (name, reach, _) in &tokens {
        server.keep_token(name, Scope::Read, reach.clone()).await;
    }
    for (name, _, has_shortcut) in tokens {
        let bearer = format!("Bearer rcp_{name}");
        assert_eq!(is_short(&server, &[("authorization", &bearer)]).await, has_shortcut, "{name}");
    }
    for nobody in ["Bearer rcp_made_up", "Basic YTpi", ""] {
        assert!(!is_short(&server, &[("authorization", nobody)]).await, "{nobody}");
    }
    server.end().await;
}

#[tokio::test]
async fn the_limit_of_requests_counts_a_reader_once() {
    let server = server(|config| {
        config.http.requests_per_second = 1;
        config.http.requests_burst = 500;
    })
    .await;
    let mut told = Vec::new();
    while told.last() != Some(&429) {
        assert!(told.len() < 1_000, "there is no limit");
        told.push(server.get(SHORT).await.status);
    }
    // The conversation took some of the 500 requests.
    assert!(told.len() > 250, "{} were let through", told.len());
    server.end().await;
}

#[tokio::test]
async fn an_outdated_copy_is_left_to_the_router() {
    let server = server(|_| ()).await;
    server.store.trouble("summary", Trouble::Unavailable);
    assert!(is_short(&server, &[]).await, "what is known to be current needs no database");
    server.converse("coder", 41..=43).await;
    server.get_until(SHORT, |reply| !reply.header("recapd-stale").is_empty()).await;
    assert!(!is_short(&server, &[]).await);
    server.end().await;
}
