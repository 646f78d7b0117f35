//! Tokens in cookies.

use recapd::domain::access::{Named, Reach, Scope};
use reqwest::Method;

use super::assert_page;
use crate::support::server::{Reply, Server};

async fn sign_in(server: &Server, token: &str, to: &str) -> Reply {
    let form = format!("token={token}&to={to}");
    server
        .post_as("/ui/login", "application/x-www-form-urlencoded", form)
        .await
}

async fn get_with(server: &Server, path: &str, cookie: &str) -> Reply {
    Reply::of(server.request(Method::GET, path).header("cookie", cookie)).await
}

#[tokio::test]
async fn a_token_opens_the_pages_by_a_cookie_and_nothing_else() {
    let server = Server::summarised().await;
    server.keep_token("reader", Scope::Read, Reach::All).await;
    let stranger = server.get("/ui/agents/coder?x=<b>").await;
    assert_eq!(stranger.status, 401);
    assert!(
        stranger.body.contains("name=\"to\" value=\"/ui/agents/coder?"),
        "{}",
        stranger.body
    );
    assert!(!stranger.body.contains("Fix bug"));
    let wrong = sign_in(&server, "rcp_guess", "/ui/").await;
    assert_eq!((wrong.status, wrong.header("set-cookie")), (401, ""));
    assert!(wrong.body.contains("This token opens nothing"));
    let right = sign_in(&server, "rcp_reader", "/ui/agents/coder").await;
    assert_eq!(
        (right.status, right.header("location")),
        (303, "/ui/agents/coder")
    );
    assert_eq!(
        right.header("set-cookie"),
        "recapd_session=rcp_reader; Path=/ui; HttpOnly; SameSite=Strict"
    );
    let elsewhere = sign_in(&server, "rcp_reader", "//evil.example").await;
    assert_eq!(elsewhere.header("location"), "/ui/");
    let cookie = "recapd_session=rcp_reader";
    let page = get_with(&server, "/ui/agents/coder", cookie).await;
    assert_page(&page);
    assert!(page.body.contains("reader · read") && !page.body.contains("class=\"act\""));
    assert!(!page.body.contains("rcp_reader"));
    // The interface takes no cookies: a page elsewhere could send them.
    assert_eq!(get_with(&server, "/v1/agents", cookie).await.status, 401);
    let out = server.post("/ui/logout", "").await;
    assert_eq!((out.status, out.header("location")), (303, "/ui/login"));
    assert!(out.header("set-cookie").contains("Max-Age=0"));
}

#[tokio::test]
async fn pages_of_other_sites_sign_nobody_in_or_out() {
    let server = Server::summarised().await;
    server.keep_token("reader", Scope::Read, Reach::All).await;
    for path in ["/ui/login", "/ui/logout"] {
        let request = server
            .request(Method::POST, path)
            .header("origin", "http://evil.example");
        let request = request
            .header("content-type", "application/x-www-form-urlencoded")
            .body("token=rcp_reader");
        let reply = Reply::of(request).await;
        assert_eq!((reply.status, reply.header("set-cookie")), (403, ""), "{path}");
    }
}

#[tokio::test]
async fn who_sees_some_agents_sees_those() {
    let server = Server::summarised().await;
    server.converse("other", 1..=2).await;
    let named = Named {
        agents: ["coder".parse().unwrap()].into(),
        ..Named::default()
    };
    server.keep_token("mine", Scope::Admin, Reach::Only(named)).await;
    let cookie = "recapd_session=rcp_mine";
    let overview = get_with(&server, "/ui/", cookie).await;
    assert_eq!(
        (overview.status, overview.header("location")),
        (303, "/ui/agents")
    );
    let list = get_with(&server, "/ui/agents", cookie).await;
    assert_page(&list);
    assert!(list.body.contains("/ui/agents/coder") && !list.body.contains("other"));
    let queue = get_with(&server, "/ui/queue", cookie).await;
    assert!(
        !queue.body.contains("other") && !queue.body.contains("Pause all"),
        "{}",
        queue.body
    );
    let other = get_with(&server, "/ui/agents/other", cookie).await;
    let nobody = get_with(&server, "/ui/agents/nobod", cookie).await;
    assert_eq!(
        (other.status, other.body.replace("other", "nobod")),
        (404, nobody.body)
    );
}
