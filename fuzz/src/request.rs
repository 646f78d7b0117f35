//! Requests: validation and counting of any JSON.

use crate::Corpus;
use recapd_core::{
    tokenizer::count_request,
    validator::{Target, VIOLATIONS_MAX, validate},
};
use serde_json::Value;

const TARGETS: [(Target, &str, &str); 4] = [
    (Target::Anthropic, "anthropic", "claude-sonnet-4-5"),
    (Target::OpenAiChat, "openai", "gpt-5"),
    (Target::OpenAiResponses, "openai", "o3"),
    (Target::Gemini, "gemini", "gemini-3-pro"),
];

/// Validates and counts `data` as a request to each provider.
pub(crate) fn judge(data: &[u8]) -> Corpus {
    for (_, provider, model) in TARGETS {
        let count = count_request(provider, model, data);
        let parts = count.parts;
        assert_eq!(count.tokens, parts.system + parts.tools + parts.messages + parts.overhead);
        assert!(count.tokens >= 0);
    }
    let Ok(request) = serde_json::from_slice::<Value>(data) else {
        return Corpus::Reject;
    };
    for (target, _, model) in TARGETS {
        let violations = validate(target, &request, None);
        assert!(violations.len() <= VIOLATIONS_MAX);
        for violation in &violations {
            assert!(points_somewhere(&request, &violation.path), "{violation:?}");
            assert!(target.rules().iter().any(|rule| rule.code == violation.rule), "{violation:?}");
        }
        let _ = validate(target, &request, Some(model));
    }
    Corpus::Keep
}

/// True if `path` exists in the request, or its parent does.
fn points_somewhere(request: &Value, path: &str) -> bool {
    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
    request.pointer(path).is_some() || request.pointer(parent).is_some()
}
