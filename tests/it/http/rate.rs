//! `http.requests_per_second`.

use recapd_core::domain::access::{Reach, Scope};
use reqwest::Method;

use crate::support::server::{Reply, Server};

async fn ask(server: &Server, token: Option<&str>, path: &str) -> Reply {
    Reply::of(server.request_by(token, Method::GET, path)).await
}

#[tokio::test]
async fn too_many_requests_get_a_retry_time_and_others_are_answered() {
    let server = Server::start(|config| {
        config.http.requests_per_second = 1;
        config.http.requests_burst = 3;
    })
    .await;
    for name in ["one", "other"] {
        server.keep_token(name, Scope::Read, Reach::All).await;
    }
    let mut told = Vec::new();
    for _ in 0..30 {
        told.push(ask(&server, Some("one"), "/v1/agents").await.status);
    }
    assert_eq!(told[..3], [200; 3]);
    assert!(told.contains(&429), "{told:?}");
    let refused = loop {
        let reply = ask(&server, Some("one"), "/v1/agents").await;
        if reply.status == 429 {
            break reply;
        }
    };
    let problem = refused.problem(429, "too_many_requests");
    assert_eq!(refused.header("retry-after"), "1", "{problem}");
    assert_eq!(ask(&server, Some("other"), "/v1/agents").await.status, 200);

    // Clients without a valid token share their address's limit, whatever token they make up.
    let mut told = Vec::new();
    for number in 0..30 {
        let token = format!("guess-{number}");
        told.push(ask(&server, Some(&token), "/v1/agents").await.status);
    }
    assert_eq!(told[..3], [401; 3]);
    assert!(told.contains(&429), "{told:?}");
    for _ in 0..30 {
        assert_eq!(ask(&server, None, "/livez").await.status, 200);
    }
}
