//! How long an answer takes tells nothing of what may not be seen.

use std::time::Duration;

use recapd::{
    access::digest_of,
    domain::{
        access::{Named, Reach, Scope},
        time::Timestamp,
    },
    store::access::{AccessStore as _, NewToken},
};
use reqwest::Method;
use tokio::time::Instant;

use crate::support::server::{Reply, START, Server};

const ROUNDS: usize = 150;

/// Asks, and says how long that took.
async fn timed(server: &Server, token: Option<&str>, path: &str, status: u16) -> Duration {
    let mut request = server.request(Method::GET, path);
    if let Some(token) = token {
        request = request.bearer_auth(format!("rcp_{token}"));
    }
    let began = Instant::now();
    let reply = Reply::of(request).await;
    let took = began.elapsed();
    assert_eq!(reply.status, status, "{path}: {}", reply.body);
    took
}

/// The quicker quarter ends here: what a busy machine adds lies above it.
fn typical(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 4]
}

/// Fails unless the times of each are within twice those of the others, when asked in turn.
async fn assert_alike(server: &Server, asked: &[(Option<&str>, &str)], status: u16) {
    let mut times = vec![Vec::new(); asked.len()];
    for round in 0..ROUNDS {
        for (place, (token, path)) in asked.iter().enumerate() {
            let took = timed(server, *token, path, status).await;
            // The first ones warm up.
            if round > 10 {
                times[place].push(took);
            }
        }
    }
    let typical: Vec<Duration> = times.into_iter().map(typical).collect();
    let (least, most) = (typical.iter().min().unwrap(), typical.iter().max().unwrap());
    assert!(*most <= *least * 2, "{asked:?}: {typical:?}");
}

#[tokio::test]
async fn strangers_and_holders_of_other_tokens_learn_nothing_by_the_clock() {
    let server = Server::start(|_| {}).await;
    server.converse("victim", 1..=20).await;
    let join = server.request(Method::PUT, "/v1/projects/secret/agents/victim");
    assert_eq!(Reply::of(join).await.status, 200);
    let only = |agents: &[&str], projects: &[&str]| {
        Reach::Only(Named {
            agents: agents.iter().map(|id| id.parse().unwrap()).collect(),
            projects: projects.iter().map(|id| id.parse().unwrap()).collect(),
        })
    };
    for (name, reach) in [("coder", only(&["coder"], &[])), ("web", only(&[], &["web"]))] {
        let token = NewToken {
            name: name.parse().unwrap(),
            digest: digest_of(&format!("rcp_{name}")),
            scope: Scope::Admin,
            reach,
            expires_at: None,
        };
        let now = Timestamp::parse(START).unwrap();
        server.target.keep_token(token, now).await.unwrap();
    }
    server.access.refresh().await.unwrap();
    let (there, nowhere) = (
        "/v1/agents/victim/history?all=1",
        "/v1/agents/nobody/history?all=1",
    );
    for token in [Some("coder"), Some("web")] {
        assert_alike(&server, &[(token, there), (token, nowhere)], 404).await;
    }
    let unknown = Some("unknown");
    assert_alike(
        &server,
        &[
            (None, there),
            (None, nowhere),
            (unknown, there),
            (unknown, nowhere),
        ],
        401,
    )
    .await;
}
