//! Providers count the tokens of a request.

use std::sync::Arc;

use recapd::llm::{
    LlmError,
    anthropic::Anthropic,
    counting::CountEndpoint,
    gemini::Gemini,
    ollama::Ollama,
    openai::OpenAiChat,
    remote::{Protocol, RemoteModel, RemoteSettings},
    responses::Responses,
};
use serde_json::{Value, json};

use super::{KEY, MODEL, PATIENT_MS, settings};
use crate::support::fake_provider::{Call, FakeProvider, Planned, Shape, Trouble, Wait};

async fn count(shape: Shape, fake: &FakeProvider, request: &str) -> Result<i64, LlmError> {
    async fn by<P: Protocol>(protocol: P, settings: RemoteSettings, request: &str) -> Result<i64, LlmError> {
        let endpoint: Arc<dyn CountEndpoint> = Arc::new(RemoteModel::new(protocol, settings)?);
        endpoint.count(MODEL, request.as_bytes()).await
    }
    let settings = settings(fake.base_url(shape), PATIENT_MS);
    match shape {
        Shape::Anthropic => by(Anthropic::default(), settings, request).await,
        Shape::OpenAi => by(OpenAiChat::default(), settings, request).await,
        Shape::Responses => by(Responses, settings, request).await,
        Shape::Gemini => by(Gemini, settings, request).await,
        Shape::Ollama => by(Ollama { num_ctx: 4_096 }, settings, request).await,
    }
}

/// A request in each format, with fields that its count refuses.
fn request(shape: Shape) -> Value {
    match shape {
        Shape::Anthropic => json!({
            "model": "claude-haiku-5-5", "max_tokens": 10, "stream": true, "system": "Be brief.",
            "messages": [{"role": "user", "content": "hi"}],
        }),
        Shape::OpenAi | Shape::Ollama => json!({
            "model": "gpt-5", "messages": [{"role": "user", "content": "hi"}],
        }),
        Shape::Responses => json!({"input": "hi", "max_output_tokens": 10, "store": false}),
        Shape::Gemini => json!({
            "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
        }),
    }
}

const COUNTING: [Shape; 4] = [Shape::Anthropic, Shape::OpenAi, Shape::Responses, Shape::Gemini];

#[tokio::test]
async fn the_provider_counts_what_it_is_given() {
    for shape in COUNTING {
        let fake = FakeProvider::start();
        let tokens = count(shape, &fake, &request(shape).to_string()).await.unwrap();
        fake.assert_well_formed();
        let recorded = fake.requests().pop().unwrap();
        assert_eq!((recorded.shape, recorded.call), (shape, Call::Count));
        let expected = i64::try_from(recorded.body.to_string().len() / 4).unwrap();
        assert_eq!(tokens, expected, "{shape:?}");
        assert!(recorded.body.to_string().contains(MODEL), "{shape:?}");
        assert!(recorded.header(shape.key_header()).ends_with(KEY));
    }
}

#[tokio::test]
async fn ollama_counts_nothing_and_says_so() {
    let fake = FakeProvider::start();
    let error = count(Shape::Ollama, &fake, "{}").await.unwrap_err();
    assert_eq!(
        error,
        LlmError::Permanent("ollama counts no tokens there".to_owned())
    );
    assert_eq!(fake.requests().len(), 0);
}

#[tokio::test]
async fn what_is_no_request_is_not_sent() {
    let fake = FakeProvider::start();
    for text in ["", "hello", "[]", "null", "\"x\""] {
        let error = count(Shape::Anthropic, &fake, text).await.unwrap_err();
        assert!(matches!(error, LlmError::Permanent(_)), "{text}: {error}");
    }
    assert_eq!(fake.requests().len(), 0);
}

#[tokio::test]
async fn counting_fails_as_asking_does() {
    let fake = FakeProvider::start();
    for shape in COUNTING {
        let body = request(shape).to_string();
        for (planned, class, wait_ms) in [
            (
                Planned::Trouble(Trouble::RateLimited, Wait::Seconds(3)),
                "provider_rate_limited",
                Some(3_000),
            ),
            (
                Planned::Trouble(Trouble::BadKey, Wait::Unsaid),
                "provider_auth",
                None,
            ),
            (
                Planned::Trouble(Trouble::Overloaded, Wait::Unsaid),
                "provider_overloaded",
                None,
            ),
            (Planned::CutConnection, "provider_network", None),
            (Planned::BrokenBody, "provider_server", None),
            (
                Planned::status(200, r#"{"input_tokens":-1,"totalTokens":-1}"#),
                "provider_server",
                None,
            ),
        ] {
            fake.plan([planned.clone()]);
            let error = count(shape, &fake, &body).await.unwrap_err();
            assert_eq!(
                (error.class(), error.retry_after().map(|wait| wait.as_millis())),
                (class, wait_ms),
                "{shape:?} {planned:?}: {error}"
            );
        }
    }
}
