//! Sessions of browsers.

use recapd_api::access::session::{IDLE_MS, LIFE_MS};
use recapd_core::domain::{
    access::{AccessNames, Reach, Scope},
    time::MINUTE_MS,
};
use recapd_store::access::AccessStore as _;
use reqwest::Method;
use tokio_util::task::TaskTracker;

use super::assert_page;
use crate::support::{
    PATIENCE,
    server::{Reply, Server},
};

async fn sign_in(server: &Server, token: &str, to: &str) -> Reply {
    let form = format!("token={token}&to={to}");
    server.post_as("/ui/login", "application/x-www-form-urlencoded", form).await
}

async fn get_with(server: &Server, path: &str, cookie: &str) -> Reply {
    Reply::of(server.request(Method::GET, path).header("cookie", cookie)).await
}

/// Returns the cookie that a sign-in sets, as browsers send it back.
fn cookie_of(reply: &Reply) -> String {
    reply.header("set-cookie").split(';').next().unwrap().to_owned()
}

/// Signs in and returns the cookie.
async fn signed_in(server: &Server, token: &str) -> String {
    let reply = sign_in(server, token, "/ui/").await;
    assert_eq!(reply.status, 303, "{}", reply.body);
    cookie_of(&reply)
}

async fn status_with(server: &Server, cookie: &str) -> u16 {
    get_with(server, "/ui/agents", cookie).await.status
}

#[tokio::test]
async fn a_token_opens_the_pages_by_a_session_and_nothing_else() {
    let server = Server::summarised().await;
    server.keep_token("reader", Scope::Read, Reach::All).await;
    let stranger = server.get("/ui/agents/coder?x=<b>").await;
    assert_eq!(stranger.status, 401);
    assert!(stranger.body.contains("name=\"to\" value=\"/ui/agents/coder?"), "{}", stranger.body);
    assert!(!stranger.body.contains("Fix bug"));
    let wrong = sign_in(&server, "rcp_guess", "/ui/").await;
    assert_eq!((wrong.status, wrong.header("set-cookie")), (401, ""));
    assert!(wrong.body.contains("This token isn't valid"));
    let right = sign_in(&server, "rcp_reader", "/ui/agents/coder").await;
    assert_eq!((right.status, right.header("location")), (303, "/ui/agents/coder"));
    let cookie = cookie_of(&right);
    let (name, id) = cookie.split_once('=').unwrap();
    assert_eq!(name, format!("recapd_session_{}", server.address.port()));
    assert!(id.len() == 64 && id.bytes().all(|digit| digit.is_ascii_hexdigit()), "{id}");
    assert_eq!(right.header("set-cookie"), format!("{cookie}; Path=/ui; HttpOnly; SameSite=Strict"));
    let elsewhere = sign_in(&server, "rcp_reader", "//evil.example").await;
    assert_eq!(elsewhere.header("location"), "/ui/");
    assert_ne!(cookie_of(&elsewhere), cookie, "each sign-in has an id of its own");
    let page = get_with(&server, "/ui/agents/coder", &cookie).await;
    assert_page(&page);
    assert!(page.body.contains("reader · read") && !page.body.contains("class=\"act\""));
    assert!(!page.body.contains("rcp_reader") && !page.body.contains(id));
    // Neither the token itself nor an id under another name is a cookie.
    for other in [
        format!("{name}=rcp_reader"),
        "recapd_session=rcp_reader".to_owned(),
        format!("recapd_session_1={id}"),
        format!("__Host-{cookie}"),
    ] {
        assert_eq!(status_with(&server, &other).await, 401, "{other}");
    }
    // The interface accepts no cookies, since a foreign page could send them.
    assert_eq!(get_with(&server, "/v1/agents", &cookie).await.status, 401);
}

#[tokio::test]
async fn over_tls_the_cookie_belongs_to_this_host_alone() {
    let server = Server::summarised().await;
    server.keep_token("reader", Scope::Read, Reach::All).await;
    let request = server
        .request(Method::POST, "/ui/login")
        .header("host", "recapd.example.com")
        .header("origin", "https://recapd.example.com")
        .header("content-type", "application/x-www-form-urlencoded");
    let reply = Reply::of(request.body("token=rcp_reader")).await;
    let cookie = cookie_of(&reply);
    assert!(cookie.starts_with("__Host-recapd_session_443="), "{cookie}");
    assert_eq!(reply.header("set-cookie"), format!("{cookie}; Path=/; HttpOnly; SameSite=Strict; Secure"));
    let get = async |cookie: &str| {
        let request = server
            .request(Method::GET, "/ui/agents")
            .header("host", "recapd.example.com")
            .header("cookie", cookie);
        Reply::of(request).await.status
    };
    assert_eq!(get(&cookie).await, 200);
    // A cookie that a neighbour put in its place, without the prefix that only this host can set.
    let plain = cookie.replace("__Host-recapd_session_443", "recapd_session_80");
    assert_eq!(get(&plain).await, 401);
}

#[tokio::test]
async fn a_cookie_is_worthless_after_sign_out() {
    let server = Server::summarised().await;
    server.keep_token("reader", Scope::Read, Reach::All).await;
    let (mine, other) = (signed_in(&server, "rcp_reader").await, signed_in(&server, "rcp_reader").await);
    let events = server.request(Method::GET, "/ui/events?for=60").header("cookie", &mine);
    let tasks = TaskTracker::new();
    let events = tasks.spawn(Reply::of(events));
    let out = server.request(Method::POST, "/ui/logout").header("cookie", &mine);
    let out = Reply::of(out).await;
    assert_eq!((out.status, out.header("location")), (303, "/ui/login"));
    let cleared: Vec<&str> =
        out.headers().filter(|(name, _)| *name == "set-cookie").map(|(_, value)| value).collect();
    assert_eq!(cleared.len(), 2, "{cleared:?}");
    assert!(cleared.iter().all(|cookie| cookie.contains("=;") && cookie.ends_with("; Max-Age=0")));
    assert_eq!(status_with(&server, &mine).await, 401);
    assert_eq!(status_with(&server, &other).await, 200);
    // The session's event stream ends, too.
    let ended = tokio::time::timeout(PATIENCE, events).await;
    let ended = ended.expect("they end with the session").unwrap();
    assert!([200, 401].contains(&ended.status), "{}", ended.status);
}

#[tokio::test]
async fn a_session_ends_with_its_token_and_with_time() {
    let server = Server::summarised().await;
    server.keep_token("kept", Scope::Read, Reach::All).await;
    server.keep_token("revoked", Scope::Read, Reach::All).await;
    let soon = server.parts.clock.now().plus_ms(MINUTE_MS);
    server.keep_token_until("expiring", Scope::Read, Reach::All, Some(soon)).await;
    let revoked = signed_in(&server, "rcp_revoked").await;
    let expiring = signed_in(&server, "rcp_expiring").await;
    let kept = signed_in(&server, "rcp_kept").await;
    for cookie in [&revoked, &expiring, &kept] {
        assert_eq!(status_with(&server, cookie).await, 200);
    }
    let name = "revoked".parse().unwrap();
    let now = server.parts.clock.now();
    server.target.revoke_token(&name, now).await.unwrap();
    server.access.refresh().await.unwrap();
    assert_eq!(status_with(&server, &revoked).await, 401);
    server.clock.advance_ms(MINUTE_MS);
    assert_eq!(status_with(&server, &expiring).await, 401);
    assert_eq!(status_with(&server, &kept).await, 200);
    server.clock.advance_ms(IDLE_MS);
    assert_eq!(status_with(&server, &kept).await, 401, "nobody used it for an hour");
    let again = signed_in(&server, "rcp_kept").await;
    for _ in 0..LIFE_MS / (IDLE_MS / 2) - 1 {
        server.clock.advance_ms(IDLE_MS / 2);
        assert_eq!(status_with(&server, &again).await, 200);
    }
    server.clock.advance_ms(IDLE_MS / 2);
    assert_eq!(status_with(&server, &again).await, 401, "it is a day old");
}

#[tokio::test]
async fn attempts_to_sign_in_are_limited() {
    let server = Server::start(|_| {}).await;
    server.keep_token("reader", Scope::Read, Reach::All).await;
    for _ in 0..10 {
        assert_eq!(sign_in(&server, "rcp_guess", "/ui/").await.status, 401);
    }
    let refused = sign_in(&server, "rcp_reader", "/ui/").await;
    assert_eq!((refused.status, refused.header("set-cookie")), (429, ""));
    assert!(refused.header("retry-after").parse::<u64>().unwrap() <= 10);
    assert!(refused.body.contains("too many attempts"), "{}", refused.body);
    // A holder of a session or a token isn't slowed down by guessers.
    let reply = Reply::of(server.request_by(Some("reader"), Method::GET, "/ui/agents")).await;
    assert_eq!(reply.status, 200);
}

#[tokio::test]
async fn foreign_pages_can_not_sign_anybody_in_or_out() {
    let server = Server::summarised().await;
    server.keep_token("reader", Scope::Read, Reach::All).await;
    for path in ["/ui/login", "/ui/logout"] {
        let request = server.request(Method::POST, path).header("origin", "http://evil.example");
        let request =
            request.header("content-type", "application/x-www-form-urlencoded").body("token=rcp_reader");
        let reply = Reply::of(request).await;
        assert_eq!((reply.status, reply.header("set-cookie")), (403, ""), "{path}");
    }
}

#[tokio::test]
async fn a_token_for_some_agents_shows_only_those() {
    let server = Server::summarised().await;
    server.converse("other", 1..=2).await;
    let named = AccessNames { agents: ["coder".parse().unwrap()].into(), ..AccessNames::default() };
    server.keep_token("mine", Scope::Admin, Reach::Only(named)).await;
    let cookie = &signed_in(&server, "rcp_mine").await;
    let overview = get_with(&server, "/ui/", cookie).await;
    assert_eq!((overview.status, overview.header("location")), (303, "/ui/agents"));
    let list = get_with(&server, "/ui/agents", cookie).await;
    assert_page(&list);
    assert!(list.body.contains("/ui/agents/coder") && !list.body.contains("other"));
    let queue = get_with(&server, "/ui/queue", cookie).await;
    assert!(!queue.body.contains("other") && !queue.body.contains("Pause all"), "{}", queue.body);
    let other = get_with(&server, "/ui/agents/other", cookie).await;
    let nobody = get_with(&server, "/ui/agents/nobod", cookie).await;
    assert_eq!((other.status, other.body.replace("other", "nobod")), (404, nobody.body));
}
