//! What is particular to one provider: its fields, and how its answers end.

use recapd_llm::remote::Effort;
use serde_json::{Value, json};

use super::{MODEL, PATIENT_MS, model, named, request, settings, with};
use crate::support::fake_provider::{FakeProvider, Planned, Shape};

/// The body of the request that a model of that name gets.
async fn sent(shape: Shape, name: &str) -> Value {
    let fake = FakeProvider::start();
    named(shape, &fake, name).answer(&request()).await.unwrap();
    fake.assert_well_formed();
    fake.requests().pop().unwrap().body
}

/// The class of the error that a success with this body becomes, or `ok`.
async fn class(shape: Shape, body: Value) -> String {
    let fake = FakeProvider::start();
    fake.plan([Planned::status(200, body.to_string())]);
    match model(shape, &fake).answer(&request()).await {
        Ok(_) => "ok".to_owned(),
        Err(error) => error.class().to_owned(),
    }
}

#[tokio::test]
async fn anthropic_marks_its_instructions_and_leaves_room_to_think() {
    let body = sent(Shape::Anthropic, "claude-haiku-5-5").await;
    assert_eq!(body["max_tokens"], 2_000 + 4_000);
    assert_eq!(body["output_config"]["effort"], "low");
    assert_eq!(body["system"][0]["cache_control"], json!({"type": "ephemeral"}));
    let body = sent(Shape::Anthropic, "claude-haiku-4-5").await;
    assert_eq!(body["output_config"]["effort"], Value::Null);
    assert_eq!(body["output_config"]["format"]["type"], "json_schema");
}

#[tokio::test]
async fn anthropics_answers_end_in_many_ways() {
    for (reason, expected) in [
        ("end_turn", "ok"),
        ("stop_sequence", "ok"),
        ("max_tokens", "bad_output"),
        ("model_context_window_exceeded", "bad_output"),
        ("refusal", "provider_refusal"),
        ("pause_turn", "provider_server"),
        ("tool_use", "provider_server"),
        ("compaction", "provider_server"),
    ] {
        let body = json!({"type": "message", "content": [], "stop_reason": reason, "stop_details": null});
        assert_eq!(class(Shape::Anthropic, body).await, expected, "{reason}");
    }
    let broken = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    assert_eq!(class(Shape::Anthropic, broken).await, "provider_overloaded");
}

#[tokio::test]
async fn openais_thinking_models_are_told_to_think_little() {
    let body = sent(Shape::OpenAi, "gpt-5-mini").await;
    assert_eq!((&body["reasoning_effort"], &body["max_completion_tokens"]), (&json!("low"), &json!(6_000)));
    let body = sent(Shape::OpenAi, MODEL).await;
    assert_eq!((&body["reasoning_effort"], &body["max_tokens"]), (&Value::Null, &json!(2_000)));
    let body = sent(Shape::Responses, "gpt-5-mini").await;
    assert_eq!((&body["reasoning"]["effort"], &body["max_output_tokens"]), (&json!("low"), &json!(6_000)));
    assert_eq!(sent(Shape::Responses, "gpt-4.1").await["reasoning"], Value::Null);
}

#[tokio::test]
async fn responses_end_in_many_ways() {
    let body = |status: &str, error: Value, why: Value| json!({"status": status, "output": [], "error": error, "incomplete_details": why});
    let failed = |code: &str| body("failed", json!({"code": code, "message": "it failed"}), Value::Null);
    let incomplete = |why: &str| body("incomplete", Value::Null, json!({"reason": why}));
    for (body, expected) in [
        (body("completed", Value::Null, Value::Null), "ok"),
        (failed("server_error"), "provider_server"),
        (failed("rate_limit_exceeded"), "provider_rate_limited"),
        (failed("invalid_prompt"), "provider_refusal"),
        (failed("bio_policy"), "provider_refusal"),
        (failed("something_new"), "provider_server"),
        (incomplete("max_output_tokens"), "bad_output"),
        (incomplete("content_filter"), "provider_refusal"),
        (incomplete("steered"), "provider_server"),
        (body("queued", Value::Null, Value::Null), "provider_server"),
        (body("cancelled", Value::Null, Value::Null), "provider_server"),
    ] {
        assert_eq!(class(Shape::Responses, body.clone()).await, expected, "{body}");
    }
}

#[tokio::test]
async fn each_gemini_generation_is_told_to_think_little_in_its_own_field() {
    let config = |body: Value| body["generationConfig"].clone();
    let new = config(sent(Shape::Gemini, "gemini-3.8-flash").await);
    assert_eq!(new["thinkingConfig"], json!({"thinkingLevel": "LOW"}));
    assert_eq!(new["maxOutputTokens"], 6_000);
    assert_eq!(new["responseMimeType"], "application/json");
    let old = config(sent(Shape::Gemini, "gemini-2.5-flash").await);
    assert_eq!(old["thinkingConfig"], json!({"thinkingBudget": 512}));
    let fake = FakeProvider::start();
    named(Shape::Gemini, &fake, "models/gemini-3.8-flash").answer(&request()).await.unwrap();
    assert_eq!(fake.requests()[0].path, "/v1beta/models/gemini-3.8-flash:generateContent");
}

#[tokio::test]
async fn geminis_answers_end_in_many_ways() {
    for (reason, expected) in [
        ("STOP", "ok"),
        ("MAX_TOKENS", "bad_output"),
        ("SAFETY", "provider_refusal"),
        ("RECITATION", "provider_refusal"),
        ("PROHIBITED_CONTENT", "provider_refusal"),
        ("SPII", "provider_refusal"),
        ("MODEL_ARMOR", "provider_refusal"),
        ("OTHER", "provider_server"),
        ("MALFORMED_RESPONSE", "provider_server"),
        ("SOMETHING_NEW", "provider_server"),
    ] {
        let body = json!({"candidates": [{"content": {"role": "model"}, "finishReason": reason}]});
        assert_eq!(class(Shape::Gemini, body).await, expected, "{reason}");
    }
    let blocked = json!({"promptFeedback": {"blockReason": "SAFETY"}});
    assert_eq!(class(Shape::Gemini, blocked).await, "provider_refusal");
    let unfinished = json!({"candidates": [{"content": {"parts": [{"text": "{"}]}}]});
    assert_eq!(class(Shape::Gemini, unfinished).await, "provider_server");
}

#[tokio::test]
async fn ollama_gets_a_context_that_is_big_enough_and_cuts_nothing() {
    let body = sent(Shape::Ollama, "qwen3:8b").await;
    assert_eq!(body["options"], json!({"num_ctx": 8_192, "num_predict": 2_000}));
    assert_eq!(
        (&body["think"], &body["truncate"], &body["stream"]),
        (&json!(false), &json!(false), &json!(false))
    );
    let thinking = sent(Shape::Ollama, "gpt-oss:20b").await;
    assert_eq!((&thinking["think"], &thinking["options"]["num_predict"]), (&json!("low"), &json!(6_000)));
}

#[tokio::test]
async fn ollamas_answers_end_in_many_ways() {
    let body = |reason: Value, done: bool| json!({"message": {"role": "assistant", "content": "{}"}, "done": done, "done_reason": reason});
    for (body, expected) in [
        (body(json!("stop"), true), "ok"),
        (body(Value::Null, true), "ok"),
        (body(json!("length"), true), "bad_output"),
        (body(json!("load"), true), "provider_server"),
        (body(Value::Null, false), "provider_server"),
        (json!({"error": "unexpected EOF"}), "provider_server"),
    ] {
        assert_eq!(class(Shape::Ollama, body.clone()).await, expected, "{body}");
    }
}

/// A useless answer is billed, and the provider reports the tokens.
#[tokio::test]
async fn useless_answers_report_their_tokens() {
    let choice = |why: &str| json!({"message": {"content": "{"}, "finish_reason": why});
    let candidate = |why: &str| json!({"content": {"parts": [{"text": "{"}]}, "finishReason": why});
    let messages = |why: &str| {
        json!({"type": "message", "content": [], "stop_reason": why,
               "usage": {"input_tokens": 50, "cache_read_input_tokens": 30, "cache_creation_input_tokens": 20, "output_tokens": 7}})
    };
    let completion = |why: &str| {
        json!({"choices": [choice(why)], "usage": {"prompt_tokens": 100, "completion_tokens": 7,
               "prompt_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 20}}})
    };
    let response = |status: &str, why: Value, error: Value| {
        json!({"status": status, "output": [], "incomplete_details": why, "error": error,
               "usage": {"input_tokens": 100, "output_tokens": 7,
                         "input_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 20}}})
    };
    let generated = |why: &str| {
        json!({"candidates": [candidate(why)], "usageMetadata": {"promptTokenCount": 80,
               "cachedContentTokenCount": 30, "candidatesTokenCount": 4, "thoughtsTokenCount": 3}})
    };
    let chat = |why: Value| {
        json!({"message": {"role": "assistant", "content": "{"}, "done": !why.is_null(), "done_reason": why,
               "prompt_eval_count": 50, "eval_count": 7})
    };
    let reason = |why: &str| json!({"reason": why});
    let error = json!({"code": "server_error", "message": "it failed"});
    for (shape, body) in [
        (Shape::Anthropic, messages("pause_turn")),
        (Shape::Anthropic, messages("max_tokens")),
        (Shape::Anthropic, messages("refusal")),
        (Shape::OpenAi, completion("error")),
        (Shape::OpenAi, completion("length")),
        (Shape::OpenAi, completion("content_filter")),
        (Shape::Responses, response("cancelled", Value::Null, Value::Null)),
        (Shape::Responses, response("failed", Value::Null, error)),
        (Shape::Responses, response("incomplete", reason("max_output_tokens"), Value::Null)),
        (Shape::Responses, response("incomplete", reason("content_filter"), Value::Null)),
        (Shape::Gemini, generated("OTHER")),
        (Shape::Gemini, generated("MAX_TOKENS")),
        (Shape::Gemini, generated("SAFETY")),
        (Shape::Ollama, chat(Value::Null)),
        (Shape::Ollama, chat(json!("length"))),
    ] {
        let fake = FakeProvider::start();
        fake.plan([Planned::status(200, body.to_string())]);
        let error = model(shape, &fake).answer(&request()).await.unwrap_err();
        let usage = error.usage().expect("it is told");
        let (cached, written) = match shape {
            Shape::Ollama => (0, 0),
            Shape::Gemini => (30, 0),
            Shape::Anthropic | Shape::OpenAi | Shape::Responses => (30, 20),
        };
        assert_eq!(
            (usage.input, usage.cached_input, usage.cache_write, usage.output),
            (50, cached, written, 7),
            "{shape:?} {body}"
        );
    }
}

#[tokio::test]
async fn default_effort_sends_nothing_about_thinking() {
    for (shape, name) in [
        (Shape::Anthropic, "claude-haiku-5-5"),
        (Shape::OpenAi, "gpt-5-mini"),
        (Shape::Responses, "gpt-5-mini"),
        (Shape::Gemini, "gemini-3.8-flash"),
        (Shape::Ollama, "qwen3:8b"),
    ] {
        let fake = FakeProvider::start();
        let mut settings = settings(fake.base_url(shape), PATIENT_MS);
        name.clone_into(&mut settings.model);
        settings.effort = Effort::Default;
        with(shape, settings).unwrap().0.answer(&request()).await.unwrap();
        let body = fake.requests().pop().unwrap().body.to_string();
        for word in ["effort\":\"low", "thinkingConfig", "\"think\""] {
            assert!(!body.contains(word), "{shape:?}: {body}");
        }
    }
}

/// Limits that a provider reports with an answer are passed on, so that all callers with the key keep them.
#[tokio::test]
async fn an_answer_may_report_that_limits_are_used_up() {
    let fake = FakeProvider::start();
    let body = json!({"choices": [{"message": {"content": "{}"}, "finish_reason": "stop"}]}).to_string();
    let headers = |remaining: &str| {
        vec![
            ("x-ratelimit-remaining-requests", remaining.to_owned()),
            ("x-ratelimit-reset-requests", "6s".to_owned()),
        ]
    };
    fake.plan([Planned::Status(200, body.clone(), headers("0")), Planned::Status(200, body, headers("9"))]);
    let model = model(Shape::OpenAi, &fake);
    let rest = model.answer(&request()).await.unwrap().rest;
    assert_eq!(rest, Some(std::time::Duration::from_secs(6)));
    assert_eq!(model.answer(&request()).await.unwrap().rest, None);
}
