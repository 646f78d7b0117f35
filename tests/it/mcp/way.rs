//! Which source answers, and how often the daemon is looked for.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{Router, http::header::CONTENT_TYPE};
use recapd_api::mcp::{DatabaseOpening, Remote, Way};
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

/// Makes a way to a server that claims to be a daemon, and counts its requests.
async fn counted() -> (Way, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let answer = move || {
        counter.fetch_add(1, Ordering::SeqCst);
        std::future::ready(([(CONTENT_TYPE, "application/json")], r#"{"name":"recapd","version":"0.1.0"}"#))
    };
    let serving = axum::serve(listener, Router::new().fallback(answer));
    TaskTracker::new().spawn(serving.into_future());
    let no_database = || -> DatabaseOpening { panic!("there is a daemon") };
    (Way::nearest(Remote::new(&base).unwrap(), no_database), asked)
}

#[tokio::test]
async fn questions_always_look_for_a_daemon_and_watches_now_and_then() {
    let (way, asked) = counted().await;
    let times = || asked.load(Ordering::SeqCst);
    for _ in 0..100 {
        way.recent_source(None).await.unwrap();
    }
    assert_eq!(times(), 1);
    for _ in 0..3 {
        way.source(None).await.unwrap();
    }
    assert_eq!(times(), 4);
    way.recent_source(None).await.unwrap();
    assert_eq!(times(), 4, "a question has found it as well");
    tokio::time::pause();
    tokio::time::advance(Duration::from_mins(1)).await;
    tokio::time::resume();
    way.recent_source(None).await.unwrap();
    assert_eq!(times(), 5);
}
