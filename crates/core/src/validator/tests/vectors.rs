//! Test vectors: for each rule, a request that breaks it, the text of the provider's error, and a similar valid request.

use std::{collections::BTreeSet, fs, path::Path};

use serde::Deserialize;
use serde_json::Value;

use crate::validator::{Severity, Target, validate};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vector {
    rule: String,
    /// How `broken` breaks the rule.
    why: String,
    model: Option<String>,
    /// `risky`; absent if the provider refuses the request.
    severity: Option<String>,
    broken: Value,
    /// Where the violation is reported.
    path: String,
    /// A part of the violation's message.
    message: String,
    /// Other rules that `broken` inevitably breaks as well.
    #[serde(default)]
    also: BTreeSet<String>,
    mended: Value,
}

impl Vector {
    fn severity(&self) -> Severity {
        match self.severity.as_deref() {
            None => Severity::Refused,
            Some("risky") => Severity::Risky,
            Some(other) => panic!("{other}"),
        }
    }
}

const FILES: [(Target, &str); 4] = [
    (Target::Anthropic, "anthropic"),
    (Target::OpenAiChat, "openai_chat"),
    (Target::OpenAiResponses, "openai_responses"),
    (Target::Gemini, "gemini"),
];

fn vectors(file: &str) -> Vec<Vector> {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .join("tests/fixtures/requests")
        .join(file)
        .with_extension("json");
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn assert_broken(target: Target, vector: &Vector) {
    let violations = validate(target, &vector.broken, vector.model.as_deref());
    let found =
        violations.iter().find(|violation| violation.rule == vector.rule && violation.path == vector.path);
    let found = found.unwrap_or_else(|| panic!("{}, {}: {violations:#?}", vector.rule, vector.why));
    assert!(found.message.contains(&vector.message), "{}: {}", vector.why, found.message);
    assert_eq!(found.severity, vector.severity(), "{}: {found:?}", vector.why);
    let others: BTreeSet<String> = violations
        .iter()
        .filter(|violation| *violation != found)
        .map(|violation| violation.rule.to_owned())
        .collect();
    assert_eq!(others, vector.also, "{}, {}: {violations:#?}", vector.rule, vector.why);
    if !found.path.is_empty() && vector.rule != "messages_missing" {
        let is_there = vector.broken.pointer(&found.path).is_some();
        let is_absent = vector.rule.ends_with("_missing");
        assert!(is_there || is_absent, "{}: no {}", vector.why, found.path);
    }
}

#[test]
fn every_broken_request_is_reported_with_the_providers_text() {
    for (target, file) in FILES {
        for vector in vectors(file) {
            assert_broken(target, &vector);
        }
    }
}

#[test]
fn every_mended_request_is_accepted() {
    for (target, file) in FILES {
        for vector in vectors(file) {
            let violations = validate(target, &vector.mended, vector.model.as_deref());
            // These requests don't test whether a model takes system messages or a prefill.
            let refused: Vec<_> = violations
                .iter()
                .filter(|violation| violation.severity == Severity::Refused || violation.rule == vector.rule)
                .collect();
            assert!(refused.is_empty(), "{}, {}: {refused:#?}", vector.rule, vector.why);
        }
    }
}

#[test]
fn every_rule_has_a_vector_and_a_code_of_its_own() {
    // `size_limits_are_checked` builds requests of 100,000 messages and of 32 MB.
    let without_vector = ["messages_too_many", "body_too_large"];
    for (target, file) in FILES {
        let codes: Vec<&str> = target.rules().iter().map(|rule| rule.code).collect();
        let unique: BTreeSet<&str> = codes.iter().copied().collect();
        assert_eq!(unique.len(), codes.len(), "{file}");
        let vectors = vectors(file);
        let tested: BTreeSet<&str> = vectors.iter().map(|vector| vector.rule.as_str()).collect();
        let untested: Vec<_> =
            unique.iter().filter(|&code| !tested.contains(code) && !without_vector.contains(code)).collect();
        assert!(untested.is_empty(), "{file}: {untested:?}");
        let unknown: Vec<_> = tested.difference(&unique).collect();
        assert!(unknown.is_empty(), "{file}: {unknown:?}");
    }
}

#[test]
fn a_bare_array_and_a_whole_body_get_the_same_verdict() {
    for (target, file) in FILES {
        let key = match target {
            Target::Anthropic | Target::OpenAiChat => "messages",
            Target::OpenAiResponses => "input",
            Target::Gemini => "contents",
        };
        for vector in vectors(file).iter().filter(|vector| vector.broken.is_array()) {
            let bare = validate(target, &vector.broken, vector.model.as_deref());
            let body = serde_json::json!({key: vector.broken});
            let whole = validate(target, &body, vector.model.as_deref());
            let expected: Vec<String> =
                bare.iter().map(|violation| format!("/{key}{}", violation.path)).collect();
            let paths: Vec<_> = whole.iter().map(|violation| violation.path.clone()).collect();
            // Only a body shows that `tools` lacks a called tool.
            assert!(paths.starts_with(&expected) || whole.iter().any(|it| it.rule == "server_tool_gone"));
        }
    }
}

#[test]
fn size_limits_are_checked() {
    let message = serde_json::json!({"role": "user", "content": "hi"});
    let messages = serde_json::json!({"messages": vec![message.clone(); 100_001]});
    let rules = |request: &Value| -> BTreeSet<&'static str> {
        let violations = validate(Target::Anthropic, request, None);
        assert!(violations.len() <= crate::validator::VIOLATIONS_MAX);
        violations
            .iter()
            .filter(|violation| violation.severity == Severity::Refused)
            .map(|violation| violation.rule)
            .collect()
    };
    assert_eq!(rules(&messages), BTreeSet::from(["messages_too_many"]));
    let messages = serde_json::json!({"messages": vec![message; 100_000]});
    assert_eq!(rules(&messages), BTreeSet::new());
    let body = |bytes: usize| serde_json::json!([{"role": "user", "content": "x".repeat(bytes)}]);
    assert_eq!(rules(&body(32 * 1024 * 1024)), BTreeSet::from(["body_too_large"]));
    assert_eq!(rules(&body(1024 * 1024)), BTreeSet::new());
}
