//! `recapd recall` and `expand`.

use super::{code, json, package_file, recapd, stderr, stdout};

#[test]
fn exchanges_named_in_the_summary_are_found_and_shown() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("recall.db");
    let run = |args: &[&str]| recapd().args(args).arg("--db").arg(&database).output().unwrap();
    let replay = package_file("examples/two-weeks.jsonl");
    let output = run(&["replay", "--agent", "coder", "--budget", "2000", replay.to_str().unwrap()]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    let found = json(&run(&["recall", "coder", "test", "--json"]));
    let first = &found["found"][0];
    let number = first["exchange"].as_i64().unwrap();
    assert!(first["excerpts"][0]["text"].as_str().unwrap().to_lowercase().contains("test"), "{first}");
    assert_eq!((first["missing"].clone(), &found["unsearched_messages"]), (serde_json::json!([]), &0.into()));
    let text = stdout(&run(&["recall", "coder", "test", "--limit", "1"]));
    assert!(
        text.contains(&format!("#{number}  ")) && text.contains("\n(expand shows an exchange by its #n"),
        "{text}"
    );
    let named = format!("#{number}");
    let shown = stdout(&run(&["expand", "coder", &named]));
    assert!(shown.starts_with(&format!("#{number} of coder  ")), "{shown}");
    assert!(shown.contains("] user 20"), "{shown}");
    let whole = json(&run(&["expand", "coder", &named, "--json"]));
    assert_eq!(whole["messages"][0]["payload"]["kind"], "user", "{whole}");
    let body = json(&run(&["expand", "coder", &named, "--format", "openai"]));
    assert_eq!(body["messages"][0]["role"], "user", "{body}");
    assert_eq!(code(&run(&["recall", "coder", "zzzznowhere"])), Some(0));
    for (args, status, words) in [
        (&["recall", "coder", "*"][..], 2, "no word"),
        (&["recall", "nobody", "x"], 3, "coder"),
        (&["recall", "coder"], 2, "WORDS"),
        (&["expand", "coder", "99999"], 3, "#99999"),
        (&["expand", "nobody", "1"], 3, "coder"),
        (&["expand", "coder", "x"], 2, "'#38'"),
        (&["expand", "coder", "1", "--format", "x"], 2, "openai-responses"),
    ] {
        let output = run(args);
        assert_eq!(code(&output), Some(status), "{args:?} {}", stderr(&output));
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
}
