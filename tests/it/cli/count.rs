//! `recapd count`.

use super::{code, json, package_file, recapd, stderr, stdout};

const CHAT: &str =
    r#"{"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hello!"}]}"#;

#[test]
fn tokens_come_with_their_method_and_their_parts() {
    let output = recapd()
        .args(["count", "--provider", "openai", "--model", "gpt-5", "-"])
        .write_stdin(CHAT)
        .output()
        .unwrap();
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    insta::assert_snapshot!(stdout(&output), @r"
    16 tokens (o200k)
      system              3
      tools               0
      messages            2
      overhead           11
    ");
}

#[test]
fn programs_get_json() {
    let output = recapd()
        .args([
            "count",
            "--json",
            "--provider",
            "anthropic",
            "--model",
            "claude-sonnet-4-5",
        ])
        .arg(package_file("tests/fixtures/anthropic_request.json"))
        .output()
        .unwrap();
    let count = json(&output);
    assert_eq!(count["method"], "o200k*claude");
    let parts = count["parts"].as_object().unwrap();
    let sum: i64 = parts.values().map(|tokens| tokens.as_i64().unwrap()).sum();
    assert_eq!(count["tokens"], sum);
    assert!(parts["messages"].as_i64().unwrap() > 0, "{count}");
}

#[test]
fn the_configured_model_is_the_default() {
    let count = |provider: &str| {
        let output = recapd()
            .args([
                "count",
                "--json",
                "--set",
                &format!("window.provider={provider}"),
                "-",
            ])
            .write_stdin(CHAT)
            .output()
            .unwrap();
        json(&output)["method"].clone()
    };
    assert_eq!(count("google"), "o200k*gemini");
    assert_eq!(count("somebody"), "bytes/3");
}

#[test]
fn a_file_that_is_not_there_is_wrong_usage() {
    let output = recapd().args(["count", "nowhere.json"]).output().unwrap();
    assert_eq!(code(&output), Some(2));
    assert!(stderr(&output).contains("nowhere.json"), "{}", stderr(&output));
}
