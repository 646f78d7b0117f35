//! `GET /v1/agents/{id}/recall` and `GET /v1/agents/{id}/exchanges/{n}`.

use serde_json::json;

use crate::support::server::Server;

async fn with_archive() -> Server {
    let server = Server::start(|config| {
        config.window.budget_tokens = 200;
        config.window.low_water = 0.5;
    })
    .await;
    server.converse("coder", 1..=8).await;
    server
}

#[tokio::test]
async fn an_archive_is_searched_by_words() {
    let server = with_archive().await;
    for indexed in [false, true] {
        if indexed {
            server.parts.ingestor.index_all().await.unwrap();
        }
        let reply = server.get("/v1/agents/coder/recall?q=bug+3+loop&limit=1").await;
        let found = reply.json();
        assert_eq!(found["terms"], json!(["bug", "3", "loop"]), "{found}");
        assert_eq!(
            (&found["has_more"], &found["found"][0]["exchange"]),
            (&true.into(), &3.into()),
            "{found}"
        );
        assert_eq!(found["found"][0]["place"], "pending");
        assert_eq!(
            found["found"][0]["excerpts"][1]["text"], "Fixed bug 3: the loop ended too early.",
            "{found}"
        );
    }
    let text = server.get_as("/v1/agents/coder/recall?q=%22bug+7%22", "text/plain").await;
    assert!(text.body.starts_with("#7  2026-11-20 08:40  Fix bug 7 in parser.rs ("), "{}", text.body);
    server.summarise().await;
    let found = server.get("/v1/agents/coder/recall?q=%22bug+3%22").await.json();
    assert_eq!(
        (&found["found"][0]["place"], &found["found"][0]["summary_version"]),
        (&"covered".into(), &1.into())
    );
}

#[tokio::test]
async fn an_exchange_is_shown_as_it_was() {
    let server = with_archive().await;
    let shown = server.get("/v1/agents/coder/exchanges/3").await.json();
    assert_eq!(
        (&shown["exchange"], &shown["place"], &shown["state"]),
        (&3.into(), &"pending".into(), &"closed".into())
    );
    assert_eq!(shown["messages"][1]["payload"]["content"], "Fixed bug 3: the loop ended too early.");
    assert_eq!(shown.get("body"), None);
    let page = server.get("/v1/agents/coder/exchanges/3?limit=1").await.json();
    assert_eq!((page["messages"].as_array().unwrap().len(), &page["next_after"]), (1, &5.into()));
    let rest = server.get("/v1/agents/coder/exchanges/3?after=5").await.json();
    assert_eq!((&rest["messages"][0]["seq"], &rest["next_after"]), (&6.into(), &serde_json::Value::Null));
    let body = server.get("/v1/agents/coder/exchanges/%233?format=anthropic").await.json();
    assert_eq!(body["body"]["messages"][1]["role"], "assistant", "{body}");
    let text = server.get_as("/v1/agents/coder/exchanges/3", "text/plain").await;
    assert!(text.body.contains("\n[6] assistant: Fixed bug 3"), "{}", text.body);
}

#[tokio::test]
async fn failed_searches_say_why() {
    let server = with_archive().await;
    for (path, status, code) in [
        ("coder/recall", 400, "invalid_parameter"),
        ("coder/recall?q=%22%22", 400, "invalid_parameter"),
        ("coder/recall?q=x&limit=51", 400, "invalid_parameter"),
        ("coder/recall?query=x", 400, "unknown_parameter"),
        ("nobody/recall?q=x", 404, "unknown_agent"),
        ("coder/exchanges/99", 404, "unknown_exchange"),
        ("coder/exchanges/x", 400, "invalid_parameter"),
        ("-/exchanges/1", 400, "invalid_agent_id"),
        ("nobody/exchanges/1", 404, "unknown_agent"),
        ("coder/exchanges/1?format=x", 400, "invalid_parameter"),
    ] {
        server.get(&format!("/v1/agents/{path}")).await.problem(status, code);
    }
    // No word of the index's own query language reaches it.
    for words in ["%22", "a+AND", "who%3Aa", "x+NEAR(", "*", "^a+-b"] {
        let reply = server.get(&format!("/v1/agents/coder/recall?q={words}+bug")).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
    }
}
