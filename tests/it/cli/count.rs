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
        .args(["count", "--json", "--provider", "anthropic", "--model", "claude-sonnet-4-5"])
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
            .args(["count", "--json", "--set", &format!("window.provider={provider}"), "-"])
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

/// The usage that agents reported corrects the estimate if a database is named.
#[test]
fn a_database_corrects_the_estimate() {
    let folder = tempfile::tempdir().unwrap();
    let (database, transcript) = (folder.path().join("count.db"), folder.path().join("chat.jsonl"));
    let turn = |prompt: i64| {
        let question = serde_json::json!({"role": "user", "content": "word ".repeat(1_000)});
        let answer = serde_json::json!({"role": "assistant", "content": [{"type": "text", "text": "Yes."}],
            "usage": {"input_tokens": prompt, "output_tokens": 3}});
        format!("{question}\n{answer}\n")
    };
    std::fs::write(&transcript, [9_000, 12_000, 15_000].map(turn).concat()).unwrap();
    let claude = ["--set", "window.provider=anthropic", "--set", "window.model=claude-opus-5"];
    let run = |args: &[&str]| {
        let command = &mut recapd();
        let command = command.args(args).args(claude).arg("--db").arg(&database);
        let output = command.write_stdin(CHAT).output().unwrap();
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
        output
    };
    run(&["replay", "--format", "anthropic", transcript.to_str().unwrap()]);
    let count = json(&run(&["count", "--json", "-"]));
    let calibrated = &count["calibrated"];
    assert_eq!(calibrated["samples"], 1, "{count}");
    for figure in ["average", "guard"] {
        let permille = calibrated[format!("{figure}_permille")].as_i64().unwrap();
        let tokens = calibrated[format!("{figure}_tokens")].as_i64().unwrap();
        let estimate = count["tokens"].as_i64().unwrap();
        assert_eq!(tokens, (estimate * permille + 999) / 1_000, "{count}");
    }
    assert!(stdout(&run(&["count", "-"])).contains("corrected by 1 usage report"));
    assert!(stdout(&run(&["status"])).contains("tokens of anthropic claude-opus-5: on average ×"));
    // An exact count needs no correction.
    let exact = json(&run(&["count", "--json", "--provider", "openai", "--model", "gpt-5", "-"]));
    assert_eq!(exact.get("calibrated"), None);
}
