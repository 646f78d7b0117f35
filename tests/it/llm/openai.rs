//! The OpenAI-compatible model against a fake server: every class of failure, and what goes over the wire.

use std::{net::TcpListener, time::Duration};

use recapd::{
    domain::{
        prompt::{Prompt, PromptLimits},
        reply::{self, Checked, ReplyError},
        summary::item::TEXT_CHARS_MAX,
        time::Timestamp,
        transcript::{Line, Transcript, Voice},
    },
    llm::{
        ChatModel as _, LlmError, ModelAnswer, ModelRequest,
        http::{self, HttpSettings},
        openai::{OpenAiModel, OpenAiSettings, OutputLimitField},
    },
};
use serde_json::json;

use crate::support::fake_openai::{FakeOpenAi, Planned};

const KEY: &str = "sk-very-secret-key";
const ASKED: [i64; 3] = [4, 5, 9];
/// Long enough for a busy machine; only tests of slow answers wait for less.
const PATIENT_MS: u64 = 30_000;
const IMPATIENT_MS: u64 = 120;

fn request() -> ModelRequest {
    let transcript = |&exchange: &i64| Transcript {
        exchange,
        started_at: Timestamp(1_795_000_000_000),
        interrupted: false,
        lines: vec![Line {
            voice: Voice::User,
            label: String::new(),
            text: format!("Please fix the parser of module number {exchange}, my passphrase is swordfish."),
            at: Timestamp(1_795_000_000_000),
        }],
    };
    let transcripts: Vec<Transcript> = ASKED.iter().map(transcript).collect();
    ModelRequest {
        prompt: Prompt::new(&transcripts, "k3v9x2m7", PromptLimits::default()),
        transcripts,
        output_tokens_max: 2_000,
    }
}

fn settings(base_url: String, timeout_ms: u64) -> OpenAiSettings {
    let mut settings = OpenAiSettings::new(base_url, "small-model");
    settings.api_key = Some(KEY.into());
    settings.timeout_ms = timeout_ms;
    settings
}

fn model(fake: &FakeOpenAi) -> OpenAiModel {
    OpenAiModel::new(settings(fake.base_url(), PATIENT_MS)).unwrap()
}

async fn checked(fake: &FakeOpenAi) -> Result<Checked, ReplyError> {
    let answer = model(fake).answer(&request()).await.unwrap();
    reply::parse(&answer.text, &ASKED)
}

fn error(message: &str, code: &str) -> String {
    json!({"error": {"message": message, "type": "invalid_request_error", "param": null, "code": code}})
        .to_string()
}

#[tokio::test]
async fn a_good_answer_covers_what_was_asked() {
    let fake = FakeOpenAi::start();
    let answer: ModelAnswer = model(&fake).answer(&request()).await.unwrap();
    let checked = reply::parse(&answer.text, &ASKED).unwrap();
    let covered: Vec<i64> = checked.drafts.iter().map(|draft| draft.exchanges.first).collect();
    assert_eq!(
        (covered.as_slice(), checked.missing.as_slice()),
        (&ASKED[..], &[][..])
    );
    assert!(
        answer.input_tokens > 100 && answer.output_tokens > 20,
        "{answer:?}"
    );
}

#[tokio::test]
async fn a_request_has_the_documented_shape() {
    let fake = FakeOpenAi::start();
    model(&fake).answer(&request()).await.unwrap();
    let mut explicit = settings(fake.base_url(), PATIENT_MS);
    explicit.output_limit_field = OutputLimitField::MaxCompletionTokens;
    explicit.reasoning_effort = Some("low".to_owned());
    explicit.api_key = None;
    OpenAiModel::new(explicit)
        .unwrap()
        .answer(&request())
        .await
        .unwrap();
    fake.assert_well_formed();
    let requests = fake.requests();
    let [first, second] = requests.as_slice() else {
        panic!("{requests:?}")
    };
    assert_eq!(first.header("authorization"), format!("Bearer {KEY}"));
    assert_eq!(
        first.header("user-agent"),
        format!("recapd/{}", env!("CARGO_PKG_VERSION"))
    );
    assert_eq!(first.header("content-type"), "application/json");
    assert_eq!(
        (first.format(), first.exchanges()),
        ("json_schema", ASKED.to_vec())
    );
    assert_eq!(
        (&first.body["model"], &first.body["max_tokens"]),
        (&json!("small-model"), &json!(2_000))
    );
    assert_eq!(second.header("authorization"), "");
    assert_eq!(second.body["max_completion_tokens"], json!(2_000));
    assert_eq!(second.body["reasoning_effort"], json!("low"));
}

#[tokio::test]
async fn answers_that_are_none_are_refused_by_the_checks() {
    let fake = FakeOpenAi::start();
    fake.plan([Planned::Garbage, Planned::Empty, Planned::WrongExchanges]);
    assert!(matches!(checked(&fake).await, Err(ReplyError::Unreadable(_))));
    assert!(matches!(checked(&fake).await, Err(ReplyError::Unreadable(_))));
    assert!(matches!(checked(&fake).await, Err(ReplyError::Misattributed(_))));
    fake.plan([
        Planned::MissingExchanges,
        Planned::Oversize,
        Planned::Content("{\"items\": []}".to_owned()),
    ]);
    assert_eq!(checked(&fake).await.unwrap().missing, [9]);
    let oversize = checked(&fake).await.unwrap();
    assert!(
        oversize
            .drafts
            .iter()
            .all(|draft| draft.text.chars().count() <= TEXT_CHARS_MAX)
    );
    assert!(matches!(checked(&fake).await, Err(ReplyError::Worthless(_))));
}

#[tokio::test]
async fn every_failure_has_its_class() {
    let fake = FakeOpenAi::start();
    let model = model(&fake);
    let in_success = json!({"error": {"code": 429, "message": "Provider returned error"}}).to_string();
    for (planned, class) in [
        (
            Planned::status(401, error("no such key", "invalid_api_key")),
            "provider_auth",
        ),
        (
            Planned::status(429, error("quota", "insufficient_quota")),
            "provider_auth",
        ),
        (
            Planned::status(429, error("slow", "rate_limit_exceeded")),
            "provider_rate_limited",
        ),
        (
            Planned::status(400, error("long", "context_length_exceeded")),
            "provider_context_length",
        ),
        (Planned::status(413, ""), "provider_context_length"),
        (
            Planned::status(400, error("bad", "bad")),
            "provider_invalid_request",
        ),
        (
            Planned::status(404, r#"{"error":"model not found"}"#),
            "provider_invalid_request",
        ),
        (Planned::status(500, "oops"), "provider_server"),
        (Planned::status(503, "busy"), "provider_overloaded"),
        (Planned::status(408, ""), "provider_timeout"),
        (Planned::status(200, in_success), "provider_rate_limited"),
        (Planned::status(200, r#"{"choices":[]}"#), "provider_server"),
        (Planned::BrokenBody, "provider_server"),
        (Planned::Flood, "provider_server"),
        (Planned::CutConnection, "provider_network"),
        (Planned::Refusal, "provider_refusal"),
        (Planned::ContentFilter, "provider_refusal"),
        (Planned::Length, "bad_output"),
    ] {
        fake.plan([planned.clone()]);
        let error = model.answer(&request()).await.unwrap_err();
        assert_eq!(error.class(), class, "{planned:?}: {error}");
    }
    assert_eq!(
        fake.requests().len(),
        18,
        "no failure is tried again here: that is the queue's business"
    );
    fake.assert_well_formed();
}

#[tokio::test]
async fn no_more_of_an_answer_is_read_than_an_answer_can_have() {
    let fake = FakeOpenAi::start();
    fake.plan([Planned::Flood]);
    let error = model(&fake).answer(&request()).await.unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("the answer is longer than 4194304 bytes"),
        "{error}"
    );
}

#[tokio::test]
async fn the_provider_says_when_to_come_back() {
    let fake = FakeOpenAi::start();
    let model = model(&fake);
    let headers = |pairs: &[(&'static str, &str)]| {
        pairs
            .iter()
            .map(|&(name, value)| (name, value.to_owned()))
            .collect()
    };
    for (status, headers, wait_ms) in [
        (429, headers(&[("retry-after", "3")]), Some(3_000)),
        (
            429,
            headers(&[("retry-after-ms", "250"), ("retry-after", "3")]),
            Some(250),
        ),
        (
            429,
            headers(&[
                ("x-ratelimit-reset-requests", "1s"),
                ("x-ratelimit-reset-tokens", "6m0s"),
            ]),
            Some(360_000),
        ),
        (503, headers(&[("retry-after", "7")]), Some(7_000)),
        (429, headers(&[]), None),
    ] {
        fake.plan([Planned::Status(status, error("busy", ""), headers)]);
        let error = model.answer(&request()).await.unwrap_err();
        assert_eq!(
            error.retry_after().map(|wait| wait.as_millis()),
            wait_ms,
            "{error}"
        );
    }
}

#[tokio::test]
async fn slow_answers_are_awaited_and_too_slow_ones_are_not() {
    let fake = FakeOpenAi::start();
    fake.plan([Planned::Late(Duration::from_millis(20))]);
    assert!(model(&fake).answer(&request()).await.is_ok());
    let impatient = OpenAiModel::new(settings(fake.base_url(), IMPATIENT_MS)).unwrap();
    for planned in [
        Planned::Hang,
        Planned::Stall,
        Planned::Late(Duration::from_millis(50 * IMPATIENT_MS)),
    ] {
        fake.plan([planned.clone()]);
        let error = impatient.answer(&request()).await.unwrap_err();
        assert_eq!(error.class(), "provider_timeout", "{planned:?}: {error}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_a_matter_of_the_network() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let model = OpenAiModel::new(settings(format!("http://{free}/v1"), PATIENT_MS)).unwrap();
    let error = model.answer(&request()).await.unwrap_err();
    assert_eq!(error.class(), "provider_network", "{error}");
}

#[tokio::test]
async fn a_hanging_call_can_be_dropped() {
    let fake = FakeOpenAi::start();
    fake.otherwise(Planned::Hang);
    let model = model(&fake);
    let request = request();
    tokio::select! {
        answer = model.answer(&request) => panic!("{answer:?}"),
        () = fake.arrived(1) => {}
    }
    fake.otherwise(Planned::Good);
    assert!(model.answer(&request).await.is_ok());
}

#[tokio::test]
async fn a_server_that_knows_less_is_asked_for_less_from_then_on() {
    let fake = FakeOpenAi::start();
    let model = model(&fake);
    fake.plan([
        Planned::status(
            400,
            error(
                "This response_format type is unavailable now",
                "invalid_request_error",
            ),
        ),
        Planned::status(422, r#"{"error":"'response_format.type' must be 'text'"}"#),
    ]);
    assert!(model.answer(&request()).await.is_ok());
    assert!(model.answer(&request()).await.is_ok());
    let formats: Vec<String> = fake
        .requests()
        .iter()
        .map(|request| request.format().to_owned())
        .collect();
    assert_eq!(formats, ["json_schema", "json_object", "", ""]);
    fake.plan([Planned::status(
        400,
        error("response_format is still wrong", "bad"),
    )]);
    assert!(matches!(
        model.answer(&request()).await,
        Err(LlmError::Permanent(_))
    ));
    fake.assert_well_formed();
}

#[tokio::test]
async fn the_field_of_the_limit_is_changed_when_the_server_says_so() {
    let fake = FakeOpenAi::start();
    let model = model(&fake);
    let told = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.";
    fake.plan([Planned::status(400, error(told, "unsupported_parameter"))]);
    assert!(model.answer(&request()).await.is_ok());
    assert!(model.answer(&request()).await.is_ok());
    let changed: Vec<bool> = fake
        .requests()
        .iter()
        .map(|request| request.body["max_tokens"].is_null())
        .collect();
    assert_eq!(changed, [false, true, true]);
    fake.otherwise(Planned::status(
        400,
        error("unknown fields max_tokens, max_completion_tokens", "bad"),
    ));
    assert!(matches!(
        model.answer(&request()).await,
        Err(LlmError::Permanent(_))
    ));
    assert_eq!(
        fake.requests().len(),
        3 + 4,
        "a server that is never content is given up"
    );
}

#[tokio::test]
async fn a_key_does_not_follow_a_redirect() {
    let (fake, other) = (FakeOpenAi::start(), FakeOpenAi::start());
    let elsewhere = format!("{}/chat/completions", other.base_url());
    fake.plan([Planned::Status(307, String::new(), vec![("location", elsewhere)])]);
    assert!(matches!(
        model(&fake).answer(&request()).await,
        Err(LlmError::Permanent(_))
    ));
    assert_eq!(other.requests().len(), 0);
}

#[tokio::test]
async fn neither_key_nor_prompt_is_shown() {
    let fake = FakeOpenAi::start();
    let model = model(&fake);
    let request = request();
    let echo = format!("bad header `Bearer {KEY}`, bad input `{}`", request.prompt.user);
    fake.plan([
        Planned::status(401, error(&echo, KEY)),
        Planned::status(400, error(&format!("{}{KEY}", "x".repeat(290)), "bad")),
        Planned::status(
            422,
            json!({"detail": [{"input": request.prompt.user}]}).to_string(),
        ),
        Planned::Status(500, echo.clone(), vec![("x-request-id", KEY.to_owned())]),
        Planned::status(200, json!({"error": echo}).to_string()),
        Planned::CutConnection,
    ]);
    for _ in 0..6 {
        let error = model.answer(&request).await.unwrap_err();
        let shown = format!("{error} {error:?} {model:?}");
        assert!(
            !shown.contains("very-secret") && !shown.contains("swordfish"),
            "{shown}"
        );
    }
}

#[tokio::test]
async fn the_fake_notices_malformed_requests() {
    let fake = FakeOpenAi::start();
    let client = http::client(&HttpSettings::default()).unwrap();
    let body = json!({
        "model": "m",
        "temperature": 0,
        "messages": [{"role": "user", "content": "hi"}],
        "response_format": {"type": "json_schema", "json_schema": {
            "name": "a name", "strict": true, "schema": {"type": "object", "properties": {"a": {"type": "string", "minLength": 1}}, "required": []},
        }},
    });
    let call = client
        .post(format!("{}/chat/completions", fake.base_url()))
        .json(&body);
    let reply = http::send(call).await.unwrap();
    assert_eq!(reply.status, 400);
    insta::assert_snapshot!(fake.requests()[0].faults.join("\n"), @r"
    `temperature` is sent
    the answer must be limited by one field
    the roles must be system, user
    the instructions must say JSON
    one fence must close
    the schema's name is wrong
    the schema doesn't fit the strict mode
    ");
}
