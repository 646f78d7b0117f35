//! `POST /v1/agents/{id}/clear`, `mark`, `rewind` and `fork`.

use crate::support::server::{Reply, Server};

#[tokio::test]
async fn a_body_is_an_object() {
    let server = Server::start(|_| {}).await;
    server.converse("coder", 1..=1).await;
    for (action, body) in [("clear", "[]"), ("mark", r#"["here"]"#), ("pin", "[1]"), ("rebuild", "null")] {
        let reply = server.post(&format!("/v1/agents/coder/{action}"), body).await;
        let problem = reply.problem(400, "invalid_body");
        assert_ne!(problem["hint"], "", "{action}");
    }
}

#[tokio::test]
async fn members_that_a_body_does_not_have_are_named() {
    let server = Server::start(|_| {}).await;
    for (path, body, pointer, hint) in [
        ("coder/mark", r#"{"lable":"x"}"#, "/lable", "did you mean `label`?"),
        ("coder/rewind", r#"{"mark":"x"}"#, "/mark", "known fields: `to`"),
        ("coder/fork", r#"{"child":"b","a/b":1}"#, "/a~1b", "known fields: `child`"),
        ("coder/forget", r#"{"exchange":1}"#, "/exchange", "did you mean `exchanges`?"),
        ("coder/clear", r#"{"now":true}"#, "/now", "this route's body has no members"),
    ] {
        let reply = server.post(&format!("/v1/agents/{path}"), body).await;
        let problem = reply.problem(400, "invalid_body");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
        assert_eq!(problem["errors"][0]["detail"], hint, "{problem}");
        assert_eq!(problem["hint"], hint, "{problem}");
    }
    // A known member of a wrong type is named as well, with an example of a right one.
    let reply = server.post("/v1/agents/coder/pin", r#"{"seq":"1"}"#).await;
    let problem = reply.problem(400, "invalid_body");
    assert_eq!(problem["hint"], r#"send `{"seq": 12}`"#, "{problem}");
    assert_eq!(problem["errors"][0]["pointer"], "/seq", "{problem}");
}

#[tokio::test]
async fn an_agent_is_marked_rewound_cleared_and_forked() {
    let server = Server::start(|_| {}).await;
    server.converse("coder", 1..=2).await;
    let post = async |path: &str, body: &str| {
        let reply = server.post(&format!("/v1/agents/coder/{path}"), body).await;
        assert!(reply.status < 300, "{}", reply.body);
        reply.body
    };
    insta::assert_snapshot!(
        post("mark", r#"{"label":"here"}"#).await,
        @r#"{"exchange":2,"first_exchange":1,"covers_through":0,"window_tokens":116,"label":"here","marked_exchange":2}"#
    );
    server.converse("coder", 3..=5).await;
    insta::assert_snapshot!(
        post("rewind", r#"{"to":"here"}"#).await,
        @r#"{"exchange":2,"first_exchange":1,"covers_through":0,"window_tokens":116,"marked_exchange":2,"set_aside":3,"version":null}"#
    );
    insta::assert_snapshot!(
        post("fork", r#"{"child":"scout"}"#).await,
        @r#"{"agent_id":"scout","parent_agent_id":"coder","fork_exchange":5,"exchanges":2,"items":0}"#
    );
    insta::assert_snapshot!(
        post("clear", "").await,
        @r#"{"exchange":0,"first_exchange":7,"covers_through":0,"window_tokens":0,"session":2}"#
    );
    // The cleared exchanges are shown as pending, and summarised; the child still has its window.
    server.summarise().await;
    let summary = server.get("/v1/agents/coder/summary").await;
    assert!(summary.body.contains("Fix"), "{}", summary.body);
    let agents = server.get("/v1/agents").await.json();
    assert_eq!(agents["agents"][1]["agent_id"], "scout");
    assert_eq!(agents["agents"][1]["window_tokens"], 116);
}

/// After a fork, a clear is in an exchange of its own.
#[tokio::test]
async fn an_exchange_without_content_has_no_line_in_the_summary() {
    let server = Server::start(|_| {}).await;
    server.converse("coder", 1..=1).await;
    for (path, body) in [("coder/fork", r#"{"child":"scout"}"#), ("scout/clear", "")] {
        let reply = server.post(&format!("/v1/agents/{path}"), body).await;
        assert!(reply.status < 300, "{}", reply.body);
    }
    server.summarise().await;
    let is_written = |reply: &Reply| reply.header("recapd-version") == "1";
    let summary = server.get_until("/v1/agents/scout/summary", is_written).await;
    assert!(summary.body.contains("Fix"), "{}", summary.body);
    assert!(!summary.body.contains("(no text)"), "{}", summary.body);
}

/// A rewind's own message is in an exchange, too, but nothing is said there.
#[tokio::test]
async fn a_rewind_after_another_sets_nothing_aside() {
    let server = Server::start(|_| {}).await;
    server.converse("coder", 1..=2).await;
    let set_aside = async || {
        let reply = server.post("/v1/agents/coder/rewind", "{}").await;
        reply.json()["set_aside"].clone()
    };
    server.post("/v1/agents/coder/mark", "{}").await;
    server.converse("coder", 3..=3).await;
    assert_eq!(set_aside().await, 1);
    assert_eq!(set_aside().await, 0);
    server.converse("coder", 4..=5).await;
    assert_eq!(set_aside().await, 2);
}

/// Exchanges that were set aside have numbers between pending ones, but aren't pending.
#[tokio::test]
async fn pending_exchanges_are_counted_alike_everywhere() {
    let server = Server::small().await;
    server.converse("coder", 1..=2).await;
    server.post("/v1/agents/coder/mark", "{}").await;
    server.converse("coder", 3..=3).await;
    server.post("/v1/agents/coder/rewind", "{}").await;
    let appended = server.converse("coder", 4..=9).await.json();
    let agents = server.get("/v1/agents").await.json();
    let agent = server.get("/v1/agents/coder").await.json();
    let summary = server.get_as("/v1/agents/coder/summary", "application/json").await.json();
    let numbers = agent["first_exchange"].as_i64().unwrap() - 1;
    assert!(numbers > 3, "{agent}");
    for told in [&agents["agents"][0], &agent, &summary] {
        assert_eq!(told["pending_exchanges"], numbers - 1, "{told}");
    }
    // An append doesn't count them, so its number is an upper bound.
    assert_eq!(appended["summary"]["pending_exchanges"], numbers);
}

#[tokio::test]
async fn impossible_steps_are_refused_with_a_reason() {
    let server = Server::start(|_| {}).await;
    server.converse("coder", 1..=1).await;
    for (path, body, status, code) in [
        ("coder/rewind", r#"{"to":"nowhere"}"#, 404, "unknown_mark"),
        ("coder/rewind", "{}", 404, "unknown_mark"),
        ("coder/fork", r#"{"child":"coder"}"#, 409, "agent_exists"),
        ("coder/fork", "{}", 400, "invalid_body"),
        ("coder/fork", r#"{"child":"no name"}"#, 400, "invalid_body"),
        ("coder/mark", r#"{"name":"x"}"#, 400, "invalid_body"),
        ("coder/clear", "[", 400, "invalid_body"),
        ("coder/clear?now=1", "", 400, "unknown_parameter"),
        ("nobody/clear", "", 404, "unknown_agent"),
        ("nobody/mark", "", 404, "unknown_agent"),
        ("nobody/fork", r#"{"child":"b"}"#, 404, "unknown_agent"),
    ] {
        let reply = server.post(&format!("/v1/agents/{path}"), body).await;
        reply.problem(status, code);
    }
    let agents = server.get("/v1/agents").await.json();
    assert_eq!(agents["agents"].as_array().map(Vec::len), Some(1), "{agents}");
    assert_eq!(agents["agents"][0]["messages"], 2);
}
