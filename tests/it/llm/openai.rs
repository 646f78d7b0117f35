//! Servers that speak OpenAI's chat completions, each a little differently.

use recapd_llm::{
    ChatModel as _, LlmError,
    http::{self, HttpSettings},
    openai::{OpenAiChat, OpenAiModel, OutputLimitField},
};
use serde_json::json;

use super::{PATIENT_MS, model, request, settings};
use crate::support::fake_provider::{FakeProvider, Planned, Shape};

fn error(message: &str, code: &str) -> String {
    json!({"error": {"message": message, "type": "invalid_request_error", "param": null, "code": code}})
        .to_string()
}

#[tokio::test]
async fn a_configured_field_is_sent() {
    let fake = FakeProvider::start();
    let chat = OpenAiChat { output_limit_field: OutputLimitField::MaxCompletionTokens };
    let model = OpenAiModel::new(chat, settings(fake.base_url(Shape::OpenAi), PATIENT_MS)).unwrap();
    model.answer(&request()).await.unwrap();
    let body = fake.requests().pop().unwrap().body;
    assert_eq!(body["max_completion_tokens"], json!(6_000));
    fake.assert_well_formed();
}

#[tokio::test]
async fn the_forms_tried_for_one_answer_are_limited() {
    let fake = FakeProvider::start();
    let model = model(Shape::OpenAi, &fake);
    fake.plan([
        Planned::status(400, error("This response_format type is unavailable now", "invalid_request_error")),
        Planned::status(422, r#"{"error":"'response_format.type' must be 'text'"}"#),
        Planned::status(400, error("response_format is still wrong", "bad")),
    ]);
    assert!(matches!(model.answer(&request()).await, Err(LlmError::Permanent(_))));
    assert_eq!(fake.requests().len(), 3);
    fake.assert_well_formed();
}

#[tokio::test]
async fn the_field_of_the_limit_is_changed_when_the_server_says_so() {
    let fake = FakeProvider::start();
    let model = model(Shape::OpenAi, &fake);
    let told = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.";
    fake.plan([Planned::status(400, error(told, "unsupported_parameter"))]);
    assert!(model.answer(&request()).await.is_ok());
    assert!(model.answer(&request()).await.is_ok());
    let changed: Vec<bool> =
        fake.requests().iter().map(|request| request.body["max_tokens"].is_null()).collect();
    assert_eq!(changed, [false, true, true]);
    fake.otherwise(Planned::status(400, error("unknown fields max_tokens, max_completion_tokens", "bad")));
    assert!(matches!(model.answer(&request()).await, Err(LlmError::Permanent(_))));
    assert_eq!(fake.requests().len(), 3 + 5, "a server that is never content is given up");
}

/// A model's name doesn't tell whether it thinks, but its first answer that is cut off does.
#[tokio::test]
async fn a_thinking_model_gets_more_room() {
    let fake = FakeProvider::start();
    let model = model(Shape::OpenAi, &fake);
    let message = json!({"content": "", "reasoning_content": "Well, the user wants"});
    let cut_off = json!({"choices": [{"message": message, "finish_reason": "length"}]}).to_string();
    fake.plan([
        Planned::status(200, cut_off.clone()),
        Planned::Good,
        Planned::status(400, error("This model's maximum context length is 8192 tokens.", "bad")),
        Planned::Good,
        Planned::status(400, error("max_tokens is too large: 6000", "bad")),
        Planned::status(200, cut_off),
        Planned::Good,
    ]);
    for is_answered in [false, true, true, false, true] {
        let failed = model.answer(&request()).await.err();
        let is_cut_off = (!is_answered).then_some(LlmError::Truncated { usage: None });
        assert_eq!(failed, is_cut_off);
    }
    let requests = fake.requests();
    let limits = requests.iter().filter_map(|request| request.body["max_tokens"].as_i64());
    let limits: Vec<i64> = limits.collect();
    assert_eq!(limits, [2_000, 6_000, 6_000, 2_000, 6_000, 2_000, 2_000]);
    fake.assert_well_formed();
}

#[tokio::test]
async fn the_fake_notices_malformed_requests() {
    let fake = FakeProvider::start();
    let client = http::client(&HttpSettings::default()).unwrap();
    let body = json!({
        "model": "m",
        "temperature": 0,
        "messages": [{"role": "user", "content": "hi"}],
        "response_format": {"type": "json_schema", "json_schema": {
            "name": "a name", "strict": true, "schema": {"type": "object", "properties": {"a": {"type": "string", "minLength": 1}}, "required": []},
        }},
    });
    let call = client.post(format!("{}/chat/completions", fake.base_url(Shape::OpenAi))).json(&body);
    let reply = http::send(call).await.unwrap();
    assert_eq!(reply.status, 400);
    insta::assert_snapshot!(fake.requests()[0].faults.join("\n"), @r"
    `temperature` is sent
    the answer must be limited by one field
    the roles must be system, user
    the schema's name is wrong
    the instructions must say JSON
    one fence must close
    the schema doesn't fit the strict mode
    ");
}
