//! Filters of the queue and the runs, and actions on all rows that match.

use recapd_store::operate::{OperatorStore as _, QueueState};
use reqwest::Method;

use super::{key, page};
use crate::support::server::{Reply, Server};

/// Returns the agents whose rows a page lists.
fn listed(body: &str) -> Vec<&str> {
    let rows = body.split(" id=\"q-").skip(1);
    rows.map(|row| row.split('"').next().unwrap()).collect()
}

async fn parked(server: &Server, agents: &[&str]) {
    for agent in agents {
        server.converse(agent, 1..=8).await;
        let agent = agent.parse().unwrap();
        server.target.cancel(&agent, server.parts.clock.now()).await.unwrap();
    }
}

#[tokio::test]
async fn the_queue_shows_the_rows_that_a_filter_matches() {
    let server = Server::small().await;
    parked(&server, &["build-1", "build-2"]).await;
    server.converse("coder", 1..=8).await;
    for (filter, expected) in [
        ("", vec!["build-1", "build-2", "coder"]),
        ("state:parked", vec!["build-1", "build-2"]),
        ("agent:build-2", vec!["build-2"]),
        ("agent:build-*%20state:parked", vec!["build-1", "build-2"]),
        ("reason:cancelled", vec!["build-1", "build-2"]),
        ("agent:nobody", vec![]),
    ] {
        let body = page(&server, &format!("/ui/queue?q={filter}")).await;
        assert_eq!(listed(&body), expected, "{filter}");
    }
    let wrong = page(&server, "/ui/queue?q=%3Cb%3E").await;
    assert!(wrong.contains("`&lt;b&gt;` isn't a qualifier"), "{wrong}");
}

#[tokio::test]
async fn all_matching_rows_are_retried_and_no_others() {
    let server = Server::small().await;
    parked(&server, &["build-1", "build-2", "other"]).await;
    let body = page(&server, "/ui/queue?q=agent:build-*").await;
    assert!(body.contains("Retry all 2…"), "{body}");
    assert!(!page(&server, "/ui/queue").await.contains("Retry all"), "without a filter");
    let key = key(&server).await;
    let send = async |form: String| {
        let request = server
            .request(Method::POST, "/ui/queue/retry")
            .header("content-type", "application/x-www-form-urlencoded");
        Reply::of(request.body(form)).await
    };
    for refused in ["", "&q=", "&q=state:gone"] {
        assert_eq!(send(format!("key={key}{refused}")).await.status, 400, "{refused}");
    }
    let reply = send(format!("key={key}&q=agent:build-*+state:parked")).await;
    let place = "/ui/queue?q=agent:build-*%20state:parked&retried=2";
    assert_eq!((reply.status, reply.header("location")), (303, place));
    assert!(page(&server, place).await.contains("2 updates made due"));
    for (agent, state) in
        [("build-1", QueueState::Ready), ("build-2", QueueState::Ready), ("other", QueueState::Parked)]
    {
        let now = server.parts.clock.now();
        let row = server.target.queue_row(&agent.parse().unwrap(), now).await.unwrap();
        assert_eq!(row.unwrap().state, state, "{agent}");
    }
}

#[tokio::test]
async fn runs_are_filtered_by_outcome() {
    let server = Server::summarised().await;
    server.converse("other", 1..=8).await;
    server.summarise().await;
    for (filter, runs) in [
        ("", 2),
        ("state:completed", 2),
        ("state:failed", 0),
        ("agent:coder", 1),
        ("agent:o*%20state:completed", 1),
        ("reason:eviction", 2),
    ] {
        let body = page(&server, &format!("/ui/runs?q={filter}")).await;
        assert_eq!(body.matches("<tr id=\"r").count(), runs, "{filter}: {body}");
    }
}
