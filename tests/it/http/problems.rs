//! Answers to requests that fail.

use recapd_core::domain::access::{AccessNames, Reach, Scope};
use recapd_llm::http::{HttpSettings, client};
use reqwest::Method;

use crate::support::{
    server::{Reply, Server},
    troubled_store::Trouble,
};

#[tokio::test]
async fn a_problem_says_what_is_wrong_and_what_to_do() {
    let server = Server::start(|_| {}).await;
    let reply = server.get("/v1/agents/coder/history?archive=3").await;
    insta::assert_snapshot!(reply.body, @r#"
    {
      "type": "urn:recapd:problem:unknown_parameter",
      "title": "Unknown query parameter",
      "status": 400,
      "detail": "parameter `archive` is unknown",
      "instance": "urn:recapd:request:test",
      "code": "unknown_parameter",
      "hint": "did you mean `archived`?",
      "errors": [
        {
          "parameter": "archive",
          "detail": "did you mean `archived`?"
        }
      ]
    }
    "#);
}

#[tokio::test]
async fn unknown_parameters_are_refused_everywhere() {
    let server = Server::start(|_| {}).await;
    let cases = [
        ("/v1/agents?limti=3", "did you mean `limit`?"),
        ("/v1/agents?colour=red", "known parameters: `limit`, `cursor`"),
        ("/v1/agents/a/history?archives=1", "did you mean `archived`?"),
        ("/v1/agents/a/summary?max_token=5", "did you mean `max_tokens`?"),
        ("/v1/status?x", "this route takes no parameters"),
        ("/livez?x=1", "this route takes no parameters"),
        ("/readyz?verbos", "did you mean `verbose`?"),
        ("/metrics?x=1", "this route takes no parameters"),
    ];
    for (path, hint) in cases {
        let problem = server.get(path).await.problem(400, "unknown_parameter");
        assert_eq!(problem["hint"], hint, "{path}");
        assert!(problem["errors"][0]["parameter"].is_string(), "{problem}");
    }
    for (path, hint) in [
        ("/v1/agents/a/messages?fromat=openai", "did you mean `format`?"),
        ("/v1/agents/a/sessions/end?now", "this route takes no parameters"),
    ] {
        let problem = server.post(path, "{}").await.problem(400, "unknown_parameter");
        assert_eq!(problem["hint"], hint, "{path}");
    }
    let problem = server.post("/v1/agents/a/messages?format=openi", "{}").await;
    let problem = problem.problem(400, "invalid_parameter");
    insta::assert_snapshot!(problem["hint"].as_str().unwrap(), @"send one of native, openai, openai-responses, anthropic, gemini, claude-code, codex, pidgin, aider, or leave it out to have the format detected");
}

#[tokio::test]
async fn an_invalid_id_is_refused_with_the_rule() {
    let server = Server::start(|_| {}).await;
    let long = "a".repeat(129);
    for id in ["-a", ".hidden", "a%20b", "a%2Fb", "%C3%A4", "%FF", "a%00", &long] {
        let problem = server.get(&format!("/v1/agents/{id}/summary")).await;
        let problem = problem.problem(400, "invalid_agent_id");
        if id != "%FF" {
            let detail = problem["detail"].as_str().unwrap();
            assert!(detail.contains("1 to 128 characters of A-Z a-z 0-9 . _ : -"), "{detail}");
        }
    }
    // An id may hold characters that are unusual in paths.
    server.converse("team:coder.1_x", 1..=1).await;
    assert_eq!(server.get("/v1/agents/team:coder.1_x/summary").await.status, 200);
    assert_eq!(server.get("/v1/agents/team%3Acoder.1_x/summary").await.status, 200);
}

#[tokio::test]
async fn a_path_that_cannot_be_read_is_the_same_problem_for_every_token() {
    let server = Server::start(|_| {}).await;
    let ask = async |path: &str| {
        let request = server.request_by(Some("some"), Method::GET, path);
        Reply::of(request).await
    };
    let paths =
        [("/v1/agents/%FF/summary", "invalid_agent_id"), ("/v1/projects/%FF/summary", "invalid_project_id")];
    let mut without = Vec::new();
    for (path, code) in paths {
        without.push(server.get(path).await.problem(400, code));
    }
    let named = AccessNames {
        agents: ["coder"].map(|id| id.parse().unwrap()).into(),
        projects: ["web"].map(|id| id.parse().unwrap()).into(),
    };
    server.keep_token("some", Scope::Read, Reach::Only(named)).await;
    for ((path, code), without) in paths.into_iter().zip(without) {
        assert_eq!(ask(path).await.problem(400, code), without, "{path}");
    }
}

#[tokio::test]
async fn a_member_of_a_wrong_type_is_named() {
    let server = Server::start(|_| {}).await;
    let reply = server.post("/v1/agents/coder/mark", r#"{"label":5}"#).await;
    let problem = reply.problem(400, "invalid_body");
    assert_eq!(problem["errors"][0]["pointer"], "/label", "{problem}");
    let detail = problem["errors"][0]["detail"].as_str().unwrap();
    assert!(detail.contains("expected a string"), "{detail}");
    // A missing member has no place in the body.
    let reply = server.post("/v1/agents/coder/fork", "{}").await;
    let problem = reply.problem(400, "invalid_body");
    assert!(problem["errors"].is_null(), "{problem}");
}

#[tokio::test]
async fn unknown_paths_are_not_found_and_wrong_methods_name_the_right_ones() {
    let server = Server::start(|_| {}).await;
    for path in ["/v1", "/v1/agents/", "/v1/agents/a/nothing", "/v2/status", "/v1/agents/a/summary/"] {
        let problem = server.get(path).await.problem(404, "unknown_route");
        assert_eq!(problem["detail"], format!("there is no route `{path}`"));
    }
    for (method, path, allowed) in [
        (Method::POST, "/v1/agents/a/summary", "GET,HEAD"),
        (Method::DELETE, "/v1/agents/a/messages", "POST"),
        (Method::OPTIONS, "/v1/agents/a/messages", "POST"),
    ] {
        let reply = Reply::of(server.request(method, path)).await;
        let problem = reply.problem(405, "wrong_method");
        assert_eq!(problem["hint"], "the header Allow of this answer names the route's methods");
        assert_eq!(reply.header("allow"), allowed);
    }
}

#[tokio::test]
async fn a_failing_database_differs_from_a_defect() {
    let server = Server::start(|_| {}).await;
    server.converse("coder", 1..=1).await;
    let gets = [
        ("agent", "/v1/agents/coder/history"),
        ("exchanges", "/v1/agents/coder/history"),
        ("agents", "/v1/agents"),
        ("sample", "/v1/status"),
    ];
    for (operation, path) in gets {
        server.store.trouble(operation, Trouble::Unavailable);
        let reply = server.get(path).await;
        reply.problem(503, "database_unavailable");
        assert_eq!(reply.header("retry-after"), "5");
        for trouble in [Trouble::Inconsistent, Trouble::Panic] {
            server.store.trouble(operation, trouble);
            let reply = server.get(path).await;
            reply.problem(500, "internal");
            assert!(!reply.body.contains("secret"), "{}", reply.body);
        }
        server.store.recover();
        assert_eq!(server.get(path).await.status, 200);
    }
    let body = r#"{"role":"user","content":"Hi"}"#;
    for (operation, path) in
        [("append", "/v1/agents/coder/messages"), ("end_session", "/v1/agents/coder/sessions/end")]
    {
        server.store.trouble(operation, Trouble::Unavailable);
        server.post(path, body).await.problem(503, "database_unavailable");
        server.store.trouble(operation, Trouble::Panic);
        server.post(path, body).await.problem(500, "internal");
        server.store.recover();
        assert_eq!(server.post(path, body).await.status, 200);
    }
}

#[tokio::test]
async fn every_answer_has_the_id_of_its_request() {
    let server = Server::start(|_| {}).await;
    assert_eq!(server.get("/livez").await.header("x-request-id"), "test");
    let client = client(&HttpSettings::default()).unwrap();
    let url = format!("http://{}/livez", server.address);
    // Ids that could mislead a reader of the log are replaced, as are missing ones.
    let long = "a".repeat(129);
    let mut made = Vec::new();
    for id in [None, Some(""), Some("a b"), Some("a\"b"), Some(long.as_str())] {
        let request = id.iter().fold(client.get(&url), |request, id| request.header("x-request-id", *id));
        made.push(Reply::of(request).await.header("x-request-id").to_owned());
    }
    insta::assert_snapshot!(made.join("\n"), @r"
    1a1f81ccf00-1
    1a1f81ccf00-2
    1a1f81ccf00-3
    1a1f81ccf00-4
    1a1f81ccf00-5
    ");
}
