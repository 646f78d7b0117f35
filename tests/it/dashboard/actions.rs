//! The effects of forms.

use recapd_store::operate::{OperatorStore as _, QueueState};
use reqwest::Method;

use super::{key, page};
use crate::support::server::{Reply, Server};

async fn post(server: &Server, path: &str, key: &str) -> Reply {
    let request = server
        .request(Method::POST, path)
        .header("origin", format!("http://{}", server.address))
        .header("referer", format!("http://{}/ui/queue?limit=50", server.address))
        .header("content-type", "application/x-www-form-urlencoded");
    Reply::of(request.body(format!("key={key}"))).await
}

#[tokio::test]
async fn each_action_does_what_it_says() {
    let server = Server::small().await;
    server.converse("coder", 1..=8).await;
    let key = key(&server).await;
    let agent = "coder".parse().unwrap();
    let state = async || {
        let row = server.target.queue_row(&agent, server.parts.clock.now()).await.unwrap();
        row.unwrap().state
    };
    for (path, then) in [
        ("/ui/queue/coder/cancel", QueueState::Parked),
        ("/ui/queue/coder/retry", QueueState::Ready),
        ("/ui/agents/coder/pause", QueueState::Paused),
        ("/ui/agents/coder/resume", QueueState::Ready),
        ("/ui/agents/coder/refresh", QueueState::Ready),
    ] {
        let reply = post(&server, path, &key).await;
        assert_eq!((reply.status, reply.header("location")), (303, "/ui/queue?limit=50"), "{path}");
        assert_eq!(state().await, then, "{path}");
    }
    assert_eq!(post(&server, "/ui/queue/pause", &key).await.status, 303);
    assert!(server.target.queue_paused_since().await.unwrap().is_some());
    assert!(page(&server, "/ui/queue").await.contains("All updates were paused <time"));
    assert!(page(&server, "/ui/").await.contains("all updates are paused, for"));
    assert_eq!(post(&server, "/ui/queue/resume", &key).await.status, 303);
    assert_eq!(server.target.queue_paused_since().await.unwrap(), None);
}

#[tokio::test]
async fn an_earlier_version_is_restored_as_a_new_one() {
    let server = Server::summarised().await;
    server.converse("coder", 9..=16).await;
    server.summarise().await;
    let key = key(&server).await;
    let current = page(&server, "/ui/agents/coder/versions/2").await;
    assert!(!current.contains("Restore version"), "{current}");
    let earlier = page(&server, "/ui/agents/coder/versions/1").await;
    assert!(earlier.contains("Restore version 1…"), "{earlier}");
    assert!(earlier.contains("are summarised again."), "{earlier}");
    let path = "/ui/agents/coder/rollback";
    for wrong in ["", "&version=", "&version=two"] {
        assert_eq!(post(&server, path, &format!("{key}{wrong}")).await.status, 400, "{wrong}");
    }
    assert_eq!(post(&server, path, &format!("{key}&version=9")).await.status, 404);
    let reply = post(&server, path, &format!("{key}&version=1")).await;
    assert_eq!((reply.status, reply.header("location")), (303, "/ui/agents/coder"));
    let versions = page(&server, "/ui/agents/coder/versions").await;
    assert!(versions.contains("Version 3") && versions.contains("rollback"), "{versions}");
}

#[tokio::test]
async fn foreign_forms_change_nothing() {
    let server = Server::small().await;
    server.converse("coder", 1..=8).await;
    let key = key(&server).await;
    let agent = "coder".parse().unwrap();
    let before = server.target.queue_row(&agent, server.parts.clock.now()).await.unwrap();
    for wrong in ["", "0", &key.replace(|c: char| c.is_ascii_digit(), "a")] {
        let reply = post(&server, "/ui/queue/coder/cancel", wrong).await;
        assert_eq!(reply.status, 403, "{}", reply.body);
    }
    let bare = server.post_as("/ui/queue/coder/cancel", "application/x-www-form-urlencoded", "").await;
    assert_eq!(bare.status, 400);
    let request = server
        .request(Method::POST, "/ui/queue/coder/cancel")
        .header("origin", "http://evil.example")
        .header("content-type", "application/x-www-form-urlencoded");
    assert_eq!(Reply::of(request.body(format!("key={key}"))).await.status, 403);
    let after = server.target.queue_row(&agent, server.parts.clock.now()).await.unwrap();
    assert_eq!(before, after);
}

#[tokio::test]
async fn the_queue_shows_reasons_times_and_failures() {
    let server = Server::small().await;
    server.converse("coder", 1..=8).await;
    let body = page(&server, "/ui/queue").await;
    assert!(
        body.contains("waits for more exchanges; begins <time")
            || body.contains("may be taken by any worker"),
        "{body}"
    );
    post(&server, "/ui/queue/coder/cancel", &key(&server).await).await;
    let body = page(&server, "/ui/queue").await;
    assert!(body.contains("all attempts failed, or an operator parked it"), "{body}");
    assert!(!body.contains("Cancel"), "nobody confirms a cancellation: {body}");
    assert!(body.contains("action=\"/ui/queue/coder/retry\""), "{body}");
}
