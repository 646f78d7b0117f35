//! Bad input: what can't be read is named with its line, the reason and a hint, and the rest is still read.

use super::{code, json, package_file, recapd, stderr, stdout};
use crate::support::PATIENCE;

fn replay(file: &std::path::Path) -> std::process::Output {
    recapd().arg("replay").arg(file).args(["--format", "native", "--json"]).output().unwrap()
}

#[test]
fn bad_lines_are_named_and_counted_and_the_rest_is_read() {
    let output = replay(&package_file("tests/fixtures/bad_lines.jsonl"));
    let report = json(&output);
    assert_eq!(code(&output), Some(0));
    let skipped = stderr(&output);
    for (line, reason) in [
        (3, "JSON"),
        (4, "a JSON number, not an object"),
        (5, "a JSON string, not an object"),
        (6, "a JSON array, not an object"),
        (9, "name"),
        (10, "UTF-8"),
        (11, "JSON"),
    ] {
        let found = skipped.lines().find(|text| text.contains(&format!("bad_lines.jsonl:{line}: ")));
        assert!(found.is_some_and(|text| text.contains(reason)), "line {line}, {reason}: {skipped}");
    }
    let named = skipped.lines().filter(|line| line.contains("bad_lines.jsonl:")).count();
    assert_eq!(report["skipped"].as_u64().unwrap(), named as u64);
    assert!(report["messages"].as_i64().unwrap() >= 3);
    assert_eq!(report["verify"]["breaches"], serde_json::json!([]));
}

/// Valid conversations that break naive code.
#[test]
fn odd_conversations_work() {
    let folder = tempfile::tempdir().unwrap();
    let odd = [
        (
            "no user at all",
            "{\"kind\":\"assistant\",\"content\":\"Hello?\"}\n{\"kind\":\"assistant\",\"content\":\"Anybody?\"}",
        ),
        (
            "an orphan result",
            "{\"kind\":\"tool_result\",\"content\":\"42\",\"data\":{\"tool_call_id\":\"x\"}}\n{\"kind\":\"user\",\"content\":\"hi\"}",
        ),
        (
            "unknown kinds",
            "{\"kind\":\"user\",\"content\":\"hi\"}\n{\"kind\":\"telemetry\",\"content\":\"0.3\"}",
        ),
        ("null content", "{\"kind\":\"user\",\"content\":null}\n{\"kind\":\"assistant\",\"content\":null}"),
        (
            "repeated tool ids",
            "{\"kind\":\"user\",\"content\":\"go\"}\n\
             {\"kind\":\"tool_call\",\"content\":\"\",\"data\":{\"tool_call_id\":\"a\",\"name\":\"ls\",\"arguments\":{}}}\n\
             {\"kind\":\"tool_result\",\"content\":\"1\",\"data\":{\"tool_call_id\":\"a\"}}\n\
             {\"kind\":\"tool_call\",\"content\":\"\",\"data\":{\"tool_call_id\":\"a\",\"name\":\"ls\",\"arguments\":{}}}\n\
             {\"kind\":\"tool_result\",\"content\":\"2\",\"data\":{\"tool_call_id\":\"a\"}}",
        ),
        (
            "time that steps back, or is missing",
            "{\"kind\":\"user\",\"content\":\"1\",\"at\":\"2026-03-02T10:00:00Z\"}\n\
             {\"kind\":\"user\",\"content\":\"2\",\"at\":\"2026-03-01T10:00:00Z\"}\n\
             {\"kind\":\"user\",\"content\":\"3\"}",
        ),
    ];
    for (number, (name, lines)) in odd.into_iter().enumerate() {
        let file = folder.path().join(format!("odd-{number}.jsonl"));
        std::fs::write(&file, lines).unwrap();
        let output = recapd().arg("replay").arg(&file).args(["--budget", "1", "--json"]).output().unwrap();
        let report = json(&output);
        assert_eq!(code(&output), Some(0), "{name}: {}", stderr(&output));
        assert_eq!(report["messages"].as_u64().unwrap(), lines.lines().count() as u64, "{name}");
        assert_eq!(report["skipped"], 0, "{name}");
        assert_eq!(report["verify"]["breaches"], serde_json::json!([]), "{name}");
    }
}

#[test]
fn a_message_of_20_mb_is_kept_and_reported_over_budget() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("huge.jsonl");
    let huge = format!(
        "{{\"kind\":\"user\",\"content\":\"{}\"}}\n{{\"kind\":\"user\",\"content\":\"next\"}}",
        "word ".repeat(4 << 20)
    );
    std::fs::write(&file, huge).unwrap();
    let report = json(&replay(&file));
    assert_eq!(report["messages"], 2);
    assert_eq!(
        report["agents"][0]["covers_through"], 1,
        "the huge exchange is summarised when the next one begins"
    );
    assert!(report["cost"]["evicted_tokens"].as_i64().unwrap() > 4_000_000);
    assert_eq!(report["verify"]["breaches"], serde_json::json!([]));
}

/// A pipe without a writer would block, and a link to its own folder would recurse.
#[test]
fn a_folder_with_a_pipe_and_a_link_to_itself_is_read_once() {
    let folder = tempfile::tempdir().unwrap();
    let named = |name: &str| folder.path().join(name);
    std::fs::write(named("chat.jsonl"), r#"{"kind":"user","content":"hi"}"#).unwrap();
    std::os::unix::fs::symlink(".", named("again")).unwrap();
    let pipe = std::process::Command::new("mkfifo").arg(named("pipe")).status();
    assert!(pipe.unwrap().success());
    let output = recapd()
        .arg("replay")
        .arg(folder.path())
        .args(["--format", "native", "--json"])
        .timeout(PATIENCE)
        .output()
        .unwrap();
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    assert_eq!(json(&output)["messages"], 1);
}

#[test]
fn nothing_readable_is_a_failure_that_says_why() {
    for (file, word) in [
        ("empty.jsonl", "empty"),
        ("unknown_format.jsonl", "--format"),
        ("broken_document.json", "broken_document.json"),
    ] {
        let output = recapd().arg("replay").arg(package_file("tests/fixtures").join(file)).output().unwrap();
        assert_eq!(code(&output), Some(1), "{file}");
        assert!(stderr(&output).contains(word), "{file}: {}", stderr(&output));
    }
    let output = recapd().args(["replay", "no-such-file.jsonl"]).output().unwrap();
    assert_eq!(code(&output), Some(2));
    assert!(stderr(&output).contains("no-such-file.jsonl does not exist"), "{}", stderr(&output));
}

/// No provider accepts one, and no database stores one: a replacement character takes its place.
#[test]
fn half_an_emoji_in_a_tools_name_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let [file, database] = ["calls.jsonl", "work.db"].map(|name| folder.path().join(name));
    let lines = [
        r#"{"role":"user","content":"do it"}"#,
        r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"ba\ud83dsh","arguments":"{\"path\":\"\ud83d\"}"}}]}"#,
        r#"{"role":"tool","tool_call_id":"c1","content":"ok \ud83d"}"#,
        r#"{"role":"assistant","content":"done"}"#,
    ];
    std::fs::write(&file, lines.join("\n")).unwrap();
    let run = |args: &[&str]| {
        let output = recapd().args(args).arg("--db").arg(&database).output().unwrap();
        assert_eq!(code(&output), Some(0), "{args:?}: {}", stderr(&output));
        stdout(&output)
    };
    run(&["import", &file.display().to_string(), "--agent", "half"]);
    for format in ["openai", "openai-responses", "anthropic", "gemini"] {
        let context = run(&["context", "half", "--format", format]);
        assert!(context.contains("\"name\": \"ba"), "{format}: {context}");
        assert!(!context.to_lowercase().contains("\\ud83d\""), "{format}: {context}");
    }
    run(&["verify"]);
}
