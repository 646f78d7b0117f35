//! Neither a key nor a prompt appears in errors or debug output.

use recapd_llm::LlmError;
use serde_json::json;

use super::{KEY, MODEL, PASSPHRASE, PATIENT_MS, request, settings, with};
use crate::support::fake_provider::{FakeProvider, Planned, Shape};

/// Failures of servers that echo what they were sent.
pub(crate) fn echoes(key: &str, prompt: &str) -> Vec<Planned> {
    let echo = format!("bad header `Bearer {key}`, bad input `{prompt}`");
    let error = |message: &str| json!({"error": {"message": message, "type": key, "code": key}}).to_string();
    vec![
        Planned::status(401, error(&echo)),
        Planned::status(400, error(&format!("{}{key}", "x".repeat(290)))),
        Planned::status(422, json!({"detail": [{"input": prompt}]}).to_string()),
        Planned::status(429, json!({"error": echo, "request_id": key}).to_string()),
        Planned::Status(
            500,
            echo.clone(),
            vec![("x-request-id", key.to_owned()), ("request-id", key.to_owned())],
        ),
        Planned::status(200, json!({"error": echo}).to_string()),
        Planned::status(
            200,
            json!({"content": [], "stop_reason": "refusal",
                                      "stop_details": {"explanation": echo}, "choices": [{"message": {"refusal": echo}}],
                                      "status": "completed", "output": [{"type": "message",
                                      "content": [{"type": "refusal", "refusal": echo}]}],
                                      "promptFeedback": {"blockReason": echo}})
            .to_string(),
        ),
        Planned::CutConnection,
    ]
}

#[tokio::test]
async fn neither_key_nor_prompt_is_shown() {
    for shape in Shape::ALL {
        let fake = FakeProvider::start();
        let (model, shown) = with(shape, settings(fake.base_url(shape), PATIENT_MS)).unwrap();
        assert!(shown.contains(MODEL) && !shown.contains(KEY), "{shown}");
        let request = request();
        let echoes = echoes(KEY, &request.prompt.user);
        for planned in echoes {
            fake.plan([planned.clone()]);
            let error = model.answer(&request).await.unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains("very-secret") && !shown.contains(PASSPHRASE), "{planned:?}: {shown}");
        }
    }
}

#[test]
fn settings_that_can_not_work_are_refused_without_showing_secrets() {
    for shape in Shape::ALL {
        for (base_url, model, key) in [
            ("", "m", None),
            ("api.openai.com/v1", "m", None),
            ("ftp://host/v1", "m", None),
            ("https://me:SECRET@host/v1", "m", None),
            ("https://host/v1?key=SECRET", "m", None),
            ("https://host/v1", " ", None),
            ("https://host/v1", "m?key=SECRET", None),
            ("https://host/v1", "m", Some("SECRET\u{7f}SECRET")),
        ] {
            let mut settings = settings(base_url, PATIENT_MS);
            model.clone_into(&mut settings.model);
            settings.api_key = key.map(Into::into);
            let error = with(shape, settings).map(|_| ()).unwrap_err();
            assert!(matches!(error, LlmError::Permanent(_) | LlmError::Auth(_)), "{error}");
            assert!(!format!("{error} {error:?}").contains("SECRET"), "{error}");
        }
    }
}
