//! `recapd agents`.

use super::{code, json, package_file, recapd, stderr, stdout};

#[test]
fn settings_are_set_shown_and_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("agents.db");
    let run = |args: &[&str]| recapd().args(args).arg("--db").arg(&database).output().unwrap();
    let replay = package_file("tests/fixtures/native.jsonl");
    let output = run(&["replay", "--agent", "coder", replay.to_str().unwrap()]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    assert!(stdout(&run(&["agents", "show", "coder"])).contains("(nothing"));
    let output = run(&[
        "agents",
        "set",
        "coder",
        "budget_tokens=50_000",
        "model=gpt-5",
        "low_water=1",
    ]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    insta::assert_snapshot!(stdout(&output), @r#"
    budget_tokens = 50000
    low_water = 1.0
    model = "gpt-5"
    "#);
    run(&["agents", "set", "coder", "low_water=", "on_overflow=end"]);
    let shown = json(&run(&["agents", "show", "coder", "--json"]));
    assert_eq!(
        shown,
        serde_json::json!({
            "agent_id": "coder",
            "settings": {"budget_tokens": 50_000, "model": "gpt-5", "on_overflow": "end"},
        })
    );
    for (args, status, words) in [
        (&["agents", "set", "coder", "budget=1"][..], 2, "budget_tokens"),
        (&["agents", "set", "coder", "low_water=7"], 2, "from 0 to 1"),
        (&["agents", "set", "coder", "low_water"], 2, "KEY=VALUE"),
        (&["agents", "set", "coder"], 2, "KEY=VALUE"),
        (&["agents", "show", "nobody"], 3, "coder"),
    ] {
        let output = run(args);
        assert_eq!(code(&output), Some(status), "{args:?}");
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
}
