//! `http.requests_per_second`.

use recapd::{
    access::digest_of,
    domain::{
        access::{Reach, Scope},
        time::Timestamp,
    },
    store::access::{AccessStore as _, NewToken},
};
use reqwest::Method;

use crate::support::server::{Reply, START, Server};

async fn ask(server: &Server, token: Option<&str>, path: &str) -> Reply {
    let mut request = server.request(Method::GET, path);
    if let Some(token) = token {
        request = request.bearer_auth(format!("rcp_{token}"));
    }
    Reply::of(request).await
}

#[tokio::test]
async fn who_asks_too_often_is_told_when_to_come_back_and_others_are_answered() {
    let server = Server::start(|config| {
        config.http.requests_per_second = 1;
        config.http.requests_burst = 3;
    })
    .await;
    for name in ["one", "other"] {
        let token = NewToken {
            name: name.parse().unwrap(),
            digest: digest_of(&format!("rcp_{name}")),
            scope: Scope::Read,
            reach: Reach::All,
            expires_at: None,
        };
        let now = Timestamp::parse(START).unwrap();
        server.target.keep_token(token, now).await.unwrap();
    }
    server.access.refresh().await.unwrap();
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

    // Strangers share what their address has, whatever token they make up.
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
