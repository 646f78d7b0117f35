use super::{code, json, package_file, recapd, stderr, stdout};

#[test]
fn settings_are_set_shown_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("agents.db");
    let run = |args: &[&str]| recapd().args(args).arg("--db").arg(&database).output().unwrap();
    let replay = package_file("tests/fixtures/native.jsonl");
    let output = run(&["replay", "--agent", "coder", replay.to_str().unwrap()]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    let shown = stdout(&run(&["agents", "show", "coder"]));
    assert!(shown.lines().all(|line| line.ends_with("(configuration)")), "{shown}");
    let output = run(&["agents", "set", "coder", "budget_tokens=50_000", "model=gpt-5", "low_water=1"]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    insta::assert_snapshot!(stdout(&output), @r#"
    preset = "none"               (configuration)
    budget_tokens = 50000         (this agent)
    low_water = 1.0               (this agent)
    leg_tokens = -1               (configuration)
    max_messages = 0              (configuration)
    on_overflow = "evict"         (configuration)
    provider = "openai"           (configuration)
    model = "gpt-5"               (this agent)
    context_max_tokens = 160000   (configuration)
    output_reserve_tokens = 8000  (configuration)
    system_reserve_tokens = 0     (configuration)
    anchor = true                 (configuration)
    alternation = "merge"         (configuration)
    participants = ""             (configuration)
    human_tag = "[HUMAN]"         (configuration)
    mode = "talk"                 (configuration)
    calls_per_day = 0             (configuration)
    tokens_per_day = 0            (configuration)
    usd_per_day = 0.0             (configuration)
    time_zone = "UTC"             (configuration)
    "#);
    run(&["agents", "set", "coder", "low_water=", "on_overflow=end"]);
    let shown = json(&run(&["agents", "show", "coder", "--json"]));
    assert_eq!(
        shown,
        serde_json::json!({
            "agent_id": "coder",
            "settings": {"budget_tokens": 50_000, "model": "gpt-5", "on_overflow": "end"},
            "in_force": shown["in_force"],
        })
    );
    assert_eq!(
        shown["in_force"][1],
        serde_json::json!({"name": "budget_tokens", "value": 50_000, "from": "agent"})
    );
    for (args, status, words) in [
        (&["agents", "set", "coder", "budget=1"][..], 2, "budget_tokens"),
        (&["agents", "set", "coder", "low_water=0"], 2, "above 0"),
        (&["agents", "set", "coder", "low_water"], 2, "KEY=VALUE"),
        (&["agents", "set", "coder"], 2, "KEY=VALUE"),
        (&["agents", "show", "nobody"], 3, "coder"),
    ] {
        let output = run(args);
        assert_eq!(code(&output), Some(status), "{args:?}");
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
}
