use std::{fs, process::Output};

use super::{code, json, package_file, recapd, stderr, stdout};

const ORPHAN: &str =
    r#"[{"role":"tool","tool_call_id":"call_1","content":"12:00"},{"role":"user","content":"hi"}]"#;

fn check(format: &str, args: &[&str], request: &str) -> Output {
    recapd()
        .args(["check-request", "--format", format, "-"])
        .args(args)
        .write_stdin(request)
        .output()
        .unwrap()
}

#[test]
fn a_fine_request_ends_with_0() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("request.json");
    fs::write(&file, r#"{"messages":[{"role":"user","content":"hi"}]}"#).unwrap();
    let output = recapd().args(["check-request", "--format", "anthropic"]).arg(&file).output().unwrap();
    assert_eq!((code(&output), stdout(&output).as_str()), (Some(0), "no problems found\n"));
}

#[test]
fn a_refused_request_ends_with_1_and_says_where_and_why() {
    let output = check("openai", &[], ORPHAN);
    assert_eq!(code(&output), Some(1));
    assert_eq!(
        stdout(&output),
        "/0  refused: result_orphan (reported)\n    Invalid parameter: messages with role 'tool' must be a response to a \
         preceeding message with 'tool_calls'.\n1 refused, 0 risky\n"
    );
    let violations = json(&check("openai", &["--json"], ORPHAN));
    assert_eq!(violations[0]["path"], "/0");
    assert_eq!(violations[0]["rule"], "result_orphan");
    assert_eq!(violations[0]["severity"], "refused");
    assert_eq!(violations[0]["evidence"], "reported");
}

#[test]
fn a_risk_fails_only_a_strict_check() {
    let twice = r#"[{"role":"user","content":"hi"},{"role":"user","content":"hello"}]"#;
    assert_eq!(code(&check("anthropic", &[], twice)), Some(0));
    assert_eq!(code(&check("anthropic", &["--strict"], twice)), Some(1));
}

#[test]
fn the_rules_of_the_named_model_apply() {
    let contents = r#"{"contents":[
        {"role":"user","parts":[{"text":"What time is it?"}]},
        {"role":"model","parts":[{"functionCall":{"name":"clock","args":{}}}]},
        {"role":"user","parts":[{"functionResponse":{"name":"clock","response":{}}}]}]}"#;
    assert_eq!(code(&check("gemini", &["--model", "gemini-2.5-pro"], contents)), Some(0));
    assert_eq!(code(&check("gemini", &["--model", "gemini-3-pro"], contents)), Some(1));
}

#[test]
fn an_invalid_request_is_wrong_usage() {
    for (request, reason) in [("{", "isn't JSON"), ("5", "neither a request"), ("", "isn't JSON")] {
        let output = check("openai-responses", &[], request);
        assert_eq!(code(&output), Some(2), "{request}");
        assert!(stderr(&output).contains(reason), "{request}: {}", stderr(&output));
    }
    let missing = recapd()
        .args(["check-request", "--format", "openai"])
        .arg(package_file("tests/fixtures/gone.json"))
        .output()
        .unwrap();
    assert_eq!(code(&missing), Some(2));
    assert!(stderr(&missing).contains("gone.json"));
    assert_eq!(code(&check("mistral", &[], "[]")), Some(2));
}
