//! `Idempotency-Key` on appends.

use recapd_store::Store as _;
use reqwest::Method;

use crate::support::{
    postgres::Database,
    server::{Reply, Server},
    troubled_store::Trouble,
};

const PATH: &str = "/v1/agents/coder/messages";
const TURN: &str = r#"[{"role":"user","content":"Fix it"},{"role":"assistant","content":"Fixed."}]"#;

async fn append(server: &Server, key: &str, body: &str) -> Reply {
    let request = server
        .request(Method::POST, PATH)
        .header("content-type", "application/json")
        .header("idempotency-key", key);
    Reply::of(request.body(body.to_owned())).await
}

async fn messages(server: &Server) -> i64 {
    let row = server.store.agent(&"coder".parse().unwrap()).await.unwrap();
    row.unwrap().ledger.last_seq
}

#[tokio::test]
async fn a_repeat_gets_the_same_answer_and_stores_nothing() {
    let server = Server::start(|_| {}).await;
    let first = append(&server, "k-1", TURN).await;
    assert_eq!((first.status, &first.json()["accepted"]), (200, &2.into()));
    for key in ["k-1", "\"k-1\""] {
        let again = append(&server, key, TURN).await;
        assert_eq!((again.status, &again.body), (200, &first.body));
    }
    assert_eq!(messages(&server).await, 2);
    // The same words under another key count as said again.
    assert_eq!(append(&server, "k-2", TURN).await.json()["accepted"], 2);
    let elsewhere = server
        .request(Method::POST, "/v1/agents/other/messages")
        .header("content-type", "application/json")
        .header("idempotency-key", "k-1");
    assert_eq!(Reply::of(elsewhere.body(TURN)).await.json()["accepted"], 2);
}

#[tokio::test]
async fn a_repeat_is_stored_again_after_a_deletion() {
    let server = Server::start(|_| {}).await;
    let deleted = server.request(Method::DELETE, "/v1/agents/coder?confirm=coder");
    append(&server, "k-1", TURN).await;
    assert_eq!(Reply::of(deleted).await.status, 200);
    assert_eq!(append(&server, "k-1", TURN).await.json()["accepted"], 2);
    assert_eq!(messages(&server).await, 2);
    // This daemon isn't told that another one deletes the agent.
    server.target.delete_agent(&"coder".parse().unwrap(), crate::support::conversation::T0).await.unwrap();
    let other = r#"[{"role":"user","content":"Break it"}]"#;
    assert_eq!(append(&server, "k-1", other).await.json()["accepted"], 1);
    assert_eq!(messages(&server).await, 1);
}

#[tokio::test]
async fn the_answer_of_a_deleted_agent_is_not_repeated() {
    let database = Database::create().await;
    let url = database.url();
    let here = Server::start(|config| config.database.url.clone_from(&url)).await;
    let there = Server::start(|config| config.database.url.clone_from(&url)).await;
    append(&here, "k-0", r#"[{"role":"user","content":"Hello"}]"#).await;
    let first = append(&here, "k-1", TURN).await;
    assert_eq!((&first.json()["accepted"], &first.json()["exchange"]), (&2.into(), &2.into()));
    // Another daemon deletes the agent, and gets the same request again.
    let deleted = there.request(Method::DELETE, "/v1/agents/coder?confirm=coder");
    assert_eq!(Reply::of(deleted).await.status, 200);
    there.clock.advance_ms(1);
    assert_eq!(append(&there, "k-1", TURN).await.json()["accepted"], 2);
    let again = append(&here, "k-1", TURN).await.json();
    assert_eq!(
        (&again["accepted"], &again["duplicates"], &again["exchange"]),
        (&0.into(), &2.into(), &1.into())
    );
    assert_eq!(append(&here, "k-1", TURN).await.json(), again);
    assert_eq!(messages(&here).await, 2);
}

#[tokio::test]
async fn another_request_under_the_same_key_is_refused() {
    let server = Server::start(|_| {}).await;
    append(&server, "k-1", TURN).await;
    for body in [r#"[{"role":"user","content":"Break it"}]"#, r#"[{"role":"user","content":"Fix it"}]"#] {
        append(&server, "k-1", body).await.problem(422, "idempotency_key_reused");
    }
    for key in ["", "two words", "\"\""] {
        append(&server, key, TURN).await.problem(400, "invalid_header");
    }
    assert_eq!(messages(&server).await, 2);
}

#[tokio::test]
async fn a_key_is_valid_without_a_remembered_answer() {
    let server = Server::start(|_| {}).await;
    // The answer is lost, but not the messages. Nothing is remembered of a failed request.
    server.store.trouble("append", Trouble::Unavailable);
    append(&server, "k-1", TURN).await.problem(503, "database_unavailable");
    server.store.recover();
    append(&server, "k-1", TURN).await;
    let row = server.store.agent(&"coder".parse().unwrap()).await.unwrap();
    assert_eq!(row.unwrap().ledger.last_seq, 2);
    // The same as another daemon, or this one after a restart, would find.
    let native = r#"{"id":"idempotency-key:k-9:0","kind":"user","content":"Fix it"}"#;
    append(&server, "k-3", native).await;
    append(&server, "k-9", r#"[{"role":"user","content":"Something else"}]"#)
        .await
        .problem(422, "idempotency_key_reused");
}

#[tokio::test]
async fn after_a_restart_a_key_is_still_for_one_request() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("shared.db").display());
    let server = Server::start(|config| config.database.url.clone_from(&url)).await;
    let named = r#"[{"id":"m-1","kind":"user","content":"Fix it"}]"#;
    assert_eq!(append(&server, "k-1", TURN).await.json()["accepted"], 2);
    assert_eq!(append(&server, "k-2", named).await.json()["accepted"], 1);
    server.end().await;
    drop(server);

    let server = Server::start(|config| config.database.url.clone_from(&url)).await;
    let again = append(&server, "k-1", TURN).await;
    assert_eq!(
        (again.status, &again.json()["accepted"], &again.json()["duplicates"]),
        (200, &0.into(), &2.into())
    );
    let shorter = r#"[{"role":"user","content":"Fix it"}]"#;
    let longer = r#"[{"role":"user","content":"Fix it"},{"role":"assistant","content":"Fixed."},{"role":"user","content":"Ok"}]"#;
    for (key, body) in [("k-1", shorter), ("k-1", longer), ("k-2", TURN), ("k-2", shorter)] {
        append(&server, key, body).await.problem(422, "idempotency_key_reused");
    }
    assert_eq!(messages(&server).await, 3);
}
