//! The time of an answer reveals nothing about what the caller may not see.

use std::time::Duration;

use recapd_core::domain::access::{AccessNames, Reach, Scope};
use recapd_store::Store as _;
use reqwest::Method;
use tokio::time::Instant;

use crate::support::server::{Reply, Server};

/// How often each request is measured, and how often it is made before that to warm up.
const ROUNDS: usize = 120;
const WARM_UP: usize = 10;
/// A leak shows each time; the noise of a busy machine doesn't.
const TRIES: usize = 3;

/// Method, and the path after the agent: routes that read much of an agent, and one that writes.
const ROUTES: [(&str, &str); 3] =
    [("GET", "history?all=1"), ("GET", "context?format=openai"), ("POST", "messages")];
const SAID: &str = r#"{"kind":"user","content":"Hello"}"#;

/// A request that should take as long as others.
#[derive(Clone, Copy, Debug)]
struct Asked {
    token: Option<&'static str>,
    route: (&'static str, &'static str),
    agent: &'static str,
}

/// Sends a request, and returns how long it took.
async fn timed(server: &Server, asked: Asked, status: u16) -> Duration {
    let (method, rest) = asked.route;
    let path = format!("/v1/agents/{}/{rest}", asked.agent);
    let mut request = server.request_by(asked.token, method.parse().unwrap(), &path);
    if method == "POST" {
        request = request.header("content-type", "application/json").body(SAID);
    }
    let began = Instant::now();
    let reply = Reply::of(request).await;
    let took = began.elapsed();
    assert_eq!(reply.status, status, "{asked:?}: {}", reply.body);
    took
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Returns the median time of each. The requests are sent in turn, forwards and backwards, so that whatever slows the
/// machine down slows all of them down.
async fn medians(server: &Server, asked: &[Asked], status: u16) -> Vec<Duration> {
    let mut times = vec![Vec::new(); asked.len()];
    for round in 0..WARM_UP + ROUNDS {
        let mut places: Vec<usize> = (0..asked.len()).collect();
        if round % 2 == 1 {
            places.reverse();
        }
        for place in places {
            let took = timed(server, asked[place], status).await;
            if round >= WARM_UP {
                times[place].push(took);
            }
        }
    }
    times.into_iter().map(median).collect()
}

/// True if each is at most twice any other.
fn are_alike(medians: &[Duration]) -> bool {
    let (least, most) = (medians.iter().min().unwrap(), medians.iter().max().unwrap());
    *most <= *least * 2
}

/// Fails unless the median times of all are alike.
async fn assert_alike(server: &Server, asked: &[Asked], status: u16) {
    let mut found = Vec::new();
    for _ in 0..TRIES {
        found = medians(server, asked, status).await;
        if are_alike(&found) {
            return;
        }
    }
    assert!(are_alike(&found), "{asked:?}: {found:?}");
}

#[tokio::test]
async fn response_times_reveal_nothing_to_strangers_and_other_tokens() {
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
    for (name, reach) in [("coder", only(&["coder"], &[])), ("web", only(&[], &["web"]))] {
        server.keep_token(name, Scope::Admin, reach).await;
    }
    let kinds = |route, tokens: &[Option<&'static str>]| -> Vec<Asked> {
        let agents = |token: Option<&'static str>| ["victim", "nobody"].map(|agent| (token, agent));
        let kinds = tokens.iter().copied().flat_map(agents);
        kinds.map(|(token, agent)| Asked { token, route, agent }).collect()
    };
    for route in ROUTES {
        for token in ["coder", "web"] {
            assert_alike(&server, &kinds(route, &[Some(token)]), 404).await;
        }
        assert_alike(&server, &kinds(route, &[None, Some("unknown")]), 401).await;
    }
    let row = server.store.agent(&"victim".parse().unwrap()).await.unwrap();
    assert_eq!(row.unwrap().ledger.last_exchange, 20, "nothing was written");
}
