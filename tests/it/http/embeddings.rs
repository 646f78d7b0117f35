//! Recall's second list, with an embedding model behind real HTTP. The model is a fixed rule, so this says nothing of quality.

use serde_json::{Value, json};

use crate::support::{
    fake_provider::{
        FakeProvider, Shape,
        embeddings::{Embeddings, TOO_LONG, VectorAnswer},
    },
    server::Server,
};

const QUESTION: &str = "/v1/agents/coder/recall?q=the+cat+parser";
/// Longer than any answer takes, however busy the machine is.
const PATIENT_MS: u64 = 10_000;

async fn with_embeddings(fake: &FakeProvider, patience_ms: u64) -> Server {
    let server = Server::start(|config| {
        config.recall.embeddings = fake.base_url(Shape::OpenAi);
        "fake".clone_into(&mut config.recall.embeddings_model);
        config.recall.embeddings_dimensions = i64::try_from(Embeddings::DIMENSIONS).unwrap();
        config.recall.embeddings_patience_ms = patience_ms;
    })
    .await;
    archive(&server).await;
    server
}

async fn archive(server: &Server) {
    server.converse("coder", 1..=3).await;
    let secret = "My feline's token is ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let messages =
        vec![json!({"role": "user", "content": secret}), json!({"role": "assistant", "content": "Noted."})];
    server.say("coder", messages).await;
    server.converse("coder", 5..=6).await;
}

/// Embeds all messages; returns false if that fails.
async fn embed(server: &Server) -> bool {
    server.parts.embedder.as_ref().unwrap().embed_all().await.is_ok()
}

async fn vectors(server: &Server) -> usize {
    let messages = server.get("/metrics").await.body;
    let line = messages.lines().find(|line| line.starts_with("recapd_embeddings_stored_total"));
    line.unwrap().split(' ').next_back().unwrap().parse().unwrap()
}

fn exchanges(found: &Value) -> Vec<i64> {
    let found = found["found"].as_array().unwrap();
    found.iter().map(|found| found["exchange"].as_i64().unwrap()).collect()
}

#[tokio::test]
async fn an_exchange_is_found_by_its_meaning() {
    let fake = FakeProvider::start();
    let server = with_embeddings(&fake, PATIENT_MS).await;
    let before = server.get(QUESTION).await.json();
    assert!(!exchanges(&before).contains(&4), "{before}");
    assert!(embed(&server).await);
    assert_eq!(vectors(&server).await, 12);
    let found = server.get(QUESTION).await.json();
    assert!(exchanges(&found).contains(&4), "{found}");
    let by_meaning = found["found"].as_array().unwrap().iter().find(|found| found["exchange"] == 4).unwrap();
    assert_eq!(by_meaning["missing"], json!(["cat", "parser"]));
    for request in fake.embeddings().requests() {
        assert!(!request.to_string().contains("ghp_"), "{request}");
        assert_eq!(request["model"], "fake");
    }
}

#[tokio::test]
async fn a_model_in_trouble_changes_nothing_but_metrics() {
    let off = Server::start(|_| {}).await;
    archive(&off).await;
    assert!(off.parts.embedder.is_none());
    let expected = off.get(QUESTION).await.body;
    let fake = FakeProvider::start();
    for (answer, class) in [
        (VectorAnswer::Status(503), "overloaded"),
        (VectorAnswer::Status(401), "auth"),
        (VectorAnswer::Length(2), "bad_output"),
        (VectorAnswer::Length(2_000), "bad_output"),
        (VectorAnswer::Missing, "bad_output"),
        (VectorAnswer::Garbage, "server"),
        (VectorAnswer::Hang, "timeout"),
    ] {
        fake.embeddings().answer(VectorAnswer::Good);
        let is_silent = matches!(answer, VectorAnswer::Hang);
        let server = with_embeddings(&fake, if is_silent { 100 } else { PATIENT_MS }).await;
        assert!(embed(&server).await);
        fake.embeddings().answer(answer);
        assert_eq!(server.get(QUESTION).await.body, expected, "{answer:?}");
        let metric = format!("recapd_embeddings_errors_total{{purpose=\"question\",class=\"{class}\"}} 1");
        let metrics = server.get("/metrics").await.body;
        assert!(metrics.lines().any(|line| line == metric), "{answer:?}: {metrics}");
        // Then it is left alone for a while.
        let asked = fake.embeddings().requests().len();
        assert_eq!(server.get(QUESTION).await.body, expected, "{answer:?}");
        assert_eq!(fake.embeddings().requests().len(), asked);
        if !is_silent {
            server.converse("coder", 7..=7).await;
            assert!(!embed(&server).await, "{answer:?}");
            assert_eq!(vectors(&server).await, 12, "{answer:?}");
            fake.embeddings().answer(VectorAnswer::Good);
            assert!(embed(&server).await, "{answer:?}");
            assert_eq!(vectors(&server).await, 14, "what failed is tried again");
        }
    }
}

#[tokio::test]
async fn nothing_listens_and_nobody_waits() {
    let fake = FakeProvider::start();
    let server = with_embeddings(&fake, PATIENT_MS).await;
    drop(fake);
    let found = server.get(QUESTION).await;
    let off = Server::start(|_| {}).await;
    archive(&off).await;
    assert_eq!(found.body, off.get(QUESTION).await.body);
    assert!(!embed(&server).await);
}

#[tokio::test]
async fn a_text_that_is_too_long_holds_up_no_other() {
    let fake = FakeProvider::start();
    let server = with_embeddings(&fake, PATIENT_MS).await;
    let messages = vec![json!({"role": "user", "content": format!("An {TOO_LONG} story")})];
    server.say("coder", messages).await;
    server.converse("coder", 8..=8).await;
    assert!(embed(&server).await);
    assert_eq!(vectors(&server).await, 14);
}

#[tokio::test]
async fn searches_that_words_alone_answer_ask_no_model() {
    let fake = FakeProvider::start();
    let server = with_embeddings(&fake, PATIENT_MS).await;
    for question in ["q=%22the+loop%22", "q=parser&order=recent", "q=parser&tool=bash", "q=yesterday"] {
        let reply = server.get(&format!("/v1/agents/coder/recall?{question}")).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
    }
    assert!(fake.embeddings().requests().is_empty());
}
