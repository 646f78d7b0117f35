//! Pages stay small, however much there is.

use serde_json::json;

use super::{links, page};
use crate::support::server::Server;

/// The largest size of a page.
const PAGE_BYTES_MAX: usize = 1_000_000;

#[tokio::test]
async fn many_exchanges_are_paged() {
    // The window is so large that nothing leaves it: the most that can be on one page.
    let server = Server::start(|config| config.window.budget_tokens = 10_000_000).await;
    for batch in 0..3 {
        let said: Vec<_> = (0..300)
            .flat_map(|n| {
                let asked = format!("Question {} {}", batch * 300 + n, "& ".repeat(60));
                [
                    json!({ "role": "user", "content": asked }),
                    json!({ "role": "assistant", "content": "Yes & no" }),
                ]
            })
            .collect();
        let body = serde_json::to_string(&said).unwrap();
        assert_eq!(server.post("/v1/agents/big/messages", body).await.status, 200);
    }
    let body = page(&server, "/ui/agents/big").await;
    assert_eq!(body.matches("<li id=\"x").count(), 30);
    assert!(body.len() < PAGE_BYTES_MAX, "{} bytes", body.len());
    assert!(body.contains(" id=\"x900\"") && !body.contains(" id=\"x870\""));
    let mut path = "/ui/agents/big/exchanges?before=871".to_owned();
    assert!(links(&body).contains(&path), "{:?}", links(&body));
    let mut oldest = 871;
    for _ in 0..5 {
        let body = page(&server, &path).await;
        assert!(body.len() < PAGE_BYTES_MAX);
        assert!(body.contains(&format!(" id=\"x{}\"", oldest - 1)));
        oldest = (oldest - 200).max(1);
        let next = links(&body).into_iter().find(|link| link.contains("?before="));
        match next {
            Some(next) => path = next,
            None => assert_eq!(oldest, 1),
        }
    }
}

#[tokio::test]
async fn many_agents_are_paged() {
    let server = Server::start(|_| {}).await;
    for number in 0..120 {
        server.converse(&format!("agent-{number:04}"), 1..=1).await;
    }
    let body = page(&server, "/ui/agents").await;
    assert_eq!(body.matches(" id=\"a-agent-").count(), 50);
    assert!(body.contains("/ui/agents?cursor=agent-0049"));
    let last = page(&server, "/ui/agents?cursor=agent-0099").await;
    assert_eq!(last.matches(" id=\"a-agent-").count(), 20);
    assert!(!last.contains("Next page"));
    let found = server.get("/ui/agents/find?agent=agent-0042").await;
    assert_eq!((found.status, found.header("location")), (303, "/ui/agents/agent-0042"));
}
