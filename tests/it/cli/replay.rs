use super::{code, json, package_file, recapd, replay_example, stderr, stdout};
use crate::support::fake_provider::{FakeProvider, Shape};

/// The first command of the README.
#[test]
fn the_example_fills_all_three_sections_and_verifies() {
    let output =
        recapd().args(["replay", "examples/two-weeks.jsonl"]).current_dir(package_file("")).output().unwrap();
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    for part in [
        "the model sees from here",
        "## Previously in This Session",
        "## Yesterday",
        "## This Week",
        "0 model calls",
        "verify: clean",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    for line in excerpt_in_the_readme() {
        assert!(text.contains(&line), "README shows {line:?}: {text}");
    }
}

/// In the same words as an import.
#[test]
fn an_unreadable_time_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chat.jsonl");
    let lines = ["2026-03-02T08:00:00Z", "yesterday"].map(|at| {
        let line = serde_json::json!({"role": "user", "content": "Hi", "timestamp": at});
        format!("{line}\n")
    });
    std::fs::write(&file, lines.concat()).unwrap();
    let output = recapd().arg("replay").arg(&file).output().unwrap();
    let (text, told) = (stdout(&output), stderr(&output));
    assert!(text.contains("0 duplicates, 1 with a time that can't be read"), "{text}");
    assert!(told.contains("chat.jsonl:2: the time of this message can't be read"), "{told}");
    let replayed = json(&recapd().arg("replay").arg(&file).arg("--json").output().unwrap());
    assert_eq!(replayed["unread_times"], 1);
}

/// The databases were written by the programs; see `tests/fixtures/programs/README.md`. The counts are those of their own sessions: 17 items,
/// and 10 events.
#[test]
fn sessions_in_databases_of_other_programs_are_imported() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("recapd.db");
    let sessions = tempfile::tempdir().unwrap();
    for (name, messages, agent) in [("openai_agents.sqlite", 17, "demo"), ("adk.sqlite", 10, "demo-session")]
    {
        let file = sessions.path().join(name);
        std::fs::copy(package_file("tests/fixtures/programs").join(name), &file).unwrap();
        let run = || {
            let mut import = recapd();
            import.arg("import").arg(&file).arg("--db").arg(&database).args(["--agent", agent, "--json"]);
            json(&import.output().unwrap())
        };
        assert_eq!(run()["accepted"], messages, "{agent}");
        assert_eq!((&run()["accepted"], &run()["duplicates"]), (&0.into(), &messages.into()), "{agent}");
    }
    let files = sessions.path().read_dir().unwrap().count();
    assert_eq!(files, 2, "an import leaves nothing beside the databases");
    let refused = recapd().arg("import").arg(&database).output().unwrap();
    assert_eq!(code(&refused), Some(2));
    assert!(stderr(&refused).contains("a database of recapd's with --db"), "{}", stderr(&refused));
}

/// In the same words in a replay and in an import.
#[test]
fn what_is_not_read_of_another_program_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chat.json");
    let messages = serde_json::json!([{"id": "m1", "role": "user", "parts": [
        {"type": "step-start"}, {"type": "text", "text": "Hi"}, {"type": "data-chart", "data": 1}]}]);
    std::fs::write(&file, messages.to_string()).unwrap();
    let database = folder.path().join("chat.db");
    let database = database.to_str().unwrap();
    for (command, count) in [
        (vec!["replay"], "1 message (1 × ai-sdk-ui)"),
        (vec!["import", "--db", database], "1 message stored"),
    ] {
        let output = recapd().args(command).arg(&file).output().unwrap();
        let (text, told) = (stdout(&output), stderr(&output));
        let line = "chat.json: read as ai-sdk-ui; not read: 1 × data-chart, 1 × step-start";
        assert!(text.contains(count), "{text}");
        assert!(told.contains(line), "{told}");
    }
}

/// Nothing is dropped silently: messages that no model is shown are stored, and reported.
#[test]
fn a_replay_with_few_messages_for_a_model_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("talk.jsonl");
    let said = |role: &str, number: usize| {
        let line = serde_json::json!({"role": role, "content": format!("Row {number}")});
        format!("{line}\n")
    };
    let replay = |lines: String, args: &[&str]| {
        std::fs::write(&file, lines).unwrap();
        recapd().arg("replay").arg(&file).args(args).output().unwrap()
    };
    let unread = || (0..1_200).map(|number| said(if number % 400 == 0 { "judge" } else { "human" }, number));
    let told = replay(unread().collect(), &[]);
    assert_eq!(code(&told), Some(1), "{}", stderr(&told));
    let text = stdout(&told);
    let line = text.lines().find(|line| line.starts_with("unshown"));
    insta::assert_snapshot!(line.unwrap(), @"unshown   3 of 3 messages are of kinds that no model gets: human (2), judge (1); if this is a conversation, name its format with --format, or give its messages the roles user, assistant, system, developer or tool");
    let counts = replay(unread().collect(), &["--json"]);
    assert_eq!(code(&counts), Some(1));
    insta::assert_snapshot!(json(&counts)["unshown"], @r#"{"kinds":[{"kind":"human","messages":2},{"kind":"judge","messages":1}],"messages":3,"nearly_all":true,"of":3}"#);
    let mixed = (0..9).map(|number| said("human", number));
    let mixed = replay(mixed.chain([said("user", 9)]).collect(), &[]);
    assert_eq!(code(&mixed), Some(0), "{}", stderr(&mixed));
    assert!(!stdout(&mixed).contains("unshown"));
}

/// What hosts write in the user's place begins no exchange and is no headline; what the user answers does and is.
#[test]
fn only_requests_of_the_user_begin_exchanges() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("kept.db");
    let surroundings = "<environment_details>\nACT MODE\n</environment_details>";
    let user = |texts: &[&str]| {
        let texts = texts.iter().chain([&surroundings]);
        let blocks: Vec<_> = texts.map(|text| serde_json::json!({"type": "text", "text": text})).collect();
        serde_json::json!({"role": "user", "content": blocks})
    };
    let model = |tool: &str| {
        let block = serde_json::json!({"type": "tool_use", "id": tool, "name": tool, "input": {}});
        serde_json::json!({"role": "assistant", "content": [block]})
    };
    let file = folder.path().join("cline.json");
    let messages = [
        user(&["<task>\nPaint the fence.\n</task>"]),
        model("read_file"),
        user(&["[read_file for 'fence.md'] Result:\nIt is green."]),
        model("write_to_file"),
        user(&["[write_to_file for 'fence.md'] Result:\nSaved."]),
        model("attempt_completion"),
        user(&[
            "[attempt_completion] Result: Done",
            "The user has provided feedback on the results. Consider their input to continue the task, and then attempt completion again.\n<feedback>\nThe gate, too.\n</feedback>",
        ]),
        model("read_file"),
        user(&["[read_file for 'gate.md'] Result:\nIt is red."]),
    ];
    std::fs::write(&file, serde_json::json!(messages).to_string()).unwrap();
    let replay = recapd().arg("replay").arg(&file).arg("--db").arg(&database).output().unwrap();
    assert_eq!(code(&replay), Some(0), "{}", stderr(&replay));
    let mut history = recapd();
    let history = history.args(["history", "cline", "--json", "--db"]).arg(&database).output().unwrap();
    let history = json(&history);
    let exchanges = history["exchanges"].as_array().unwrap();
    let told: Vec<_> = exchanges.iter().map(|exchange| exchange["title"].as_str().unwrap()).collect();
    assert_eq!(told, ["Paint the fence.", "The gate, too."], "{history}");
}

/// A model's name is enough if no provider is configured.
#[test]
fn a_replay_asks_the_provider_whose_model_is_named() {
    for (shape, model, more) in [
        (Shape::Anthropic, "claude-haiku-5-5", None),
        (Shape::Gemini, "gemini-3.8-flash", None),
        (Shape::OpenAi, "small-model", None),
        (Shape::Ollama, "small-model", Some("model.mode=ollama")),
    ] {
        let fake = FakeProvider::start();
        let base_url = format!("model.base_url={}", fake.base_url(shape));
        let more = more.map_or_else(Vec::new, |set| vec!["--set", set]);
        let output = recapd()
            .args(["replay", "examples/two-weeks.jsonl", "--model", model, "--set", &base_url])
            .args(more)
            .current_dir(package_file(""))
            .output()
            .unwrap();
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
        assert!(stdout(&output).contains("was served"), "{}", stdout(&output));
        fake.assert_well_formed();
        let requests = fake.requests();
        assert!(!requests.is_empty() && requests.iter().all(|request| request.shape == shape));
    }
}

/// Returns the README's excerpt of the first command's output, without the omitted lines and the duration.
fn excerpt_in_the_readme() -> Vec<String> {
    let readme = std::fs::read_to_string(package_file("README.md")).unwrap();
    let excerpt = readme.split("```text\n").nth(1).unwrap();
    let lines: Vec<String> = excerpt
        .split("```")
        .next()
        .unwrap()
        .lines()
        .filter(|line| line.trim() != "⋮" && !line.starts_with("cost"))
        .map(str::to_owned)
        .collect();
    assert!(lines.len() >= 12, "the README shows what comes out");
    lines
}

#[test]
fn a_replay_is_the_same_each_time() {
    let run = || {
        let output = recapd()
            .arg("replay")
            .arg(package_file("examples/two-weeks.jsonl"))
            .arg("--json")
            .output()
            .unwrap();
        json(&output)["agents"].clone()
    };
    assert_eq!(run(), run());
}

#[test]
fn a_smaller_budget_evicts_more_and_zero_evicts_nothing() {
    let evicted = |budget: &str| {
        let file = package_file("examples/two-weeks.jsonl");
        let output = recapd().arg("replay").arg(file).args(["--json", "--budget", budget]).output().unwrap();
        let report = json(&output);
        assert_eq!(report["verify"]["breaches"], serde_json::json!([]));
        assert!(report["agents"][0]["summary_tokens"].as_i64().unwrap() <= 10_000);
        report["cost"]["evicted_tokens"].as_i64().unwrap()
    };
    assert_eq!(evicted("0"), 0);
    assert!(evicted("20000") > evicted("100000"));
    assert!(evicted("100000") > 0);
}

#[test]
fn every_format_is_detected_and_a_folder_is_read_whole() {
    for (file, format, agents, messages) in [
        ("native.jsonl", "1 × native", 1, None),
        ("openai.jsonl", "1 × openai", 1, None),
        ("openai.json", "1 × openai", 1, None),
        ("anthropic.jsonl", "1 × anthropic", 1, None),
        ("anthropic_request.json", "1 × anthropic", 1, None),
        ("claude_code.jsonl", "1 × claude-code", 2, None::<i64>),
        ("responses.jsonl", "1 × openai-responses", 1, Some(13)),
        ("responses_request.json", "1 × openai-responses", 1, Some(5)),
        ("codex.jsonl", "1 × codex", 1, Some(17)),
        ("codex_old.jsonl", "1 × codex", 1, Some(8)),
        ("pidgin.jsonl", "1 × pidgin", 1, Some(12)),
        ("pidgin_old.jsonl", "1 × pidgin", 1, Some(5)),
        ("aider.md", "1 × aider", 3, Some(11)),
        ("gemini.json", "1 × gemini", 1, Some(6)),
        ("gemini_history.json", "1 × gemini", 1, Some(2)),
    ] {
        let output = recapd()
            .arg("replay")
            .arg(package_file("tests/fixtures").join(file))
            .arg("--json")
            .output()
            .unwrap();
        let report = json(&output);
        assert_eq!(report["formats"], serde_json::json!([format]), "{file}");
        assert_eq!(report["agents"].as_array().unwrap().len(), agents, "{file}");
        assert!(report["messages"].as_i64().unwrap() >= messages.unwrap_or(1), "{file}");
        assert_eq!(code(&output), Some(0), "{file}");
    }
    let output = recapd().arg("replay").arg(package_file("tests/fixtures")).arg("--json").output().unwrap();
    let report = json(&output);
    assert!(report["agents"].as_array().unwrap().len() > 8);
    assert_eq!(report["verify"]["breaches"], serde_json::json!([]));
}

#[test]
fn a_kept_database_is_readable_and_refuses_the_same_conversation() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("kept.db");
    let replay = || {
        let mut command = recapd();
        command.arg("replay").arg(package_file("examples/two-weeks.jsonl")).arg("--db").arg(&database);
        command.output().unwrap()
    };
    replay_example("two-weeks", &database);
    let again = replay();
    assert_eq!(code(&again), Some(2));
    assert!(stderr(&again).contains("--agent"), "{}", stderr(&again));

    let look = |args: &[&str]| recapd().args(args).arg("--db").arg(&database).output().unwrap();
    let summary = look(&["summary", "two-weeks"]);
    assert!(stdout(&summary).contains("## This Week"), "{}", stderr(&summary));
    let history = look(&["history", "two-weeks", "--all"]);
    assert!(stdout(&history).contains("summarised since v1"), "{}", stderr(&history));
    let status = look(&["status"]);
    assert!(stdout(&status).contains("1 agent, 1 summary"), "{}", stdout(&status));
    let one = look(&["status", "two-weeks"]);
    assert!(stdout(&one).starts_with("two-weeks: 680 messages in 135 exchanges"), "{}", stdout(&one));
    let twice = look(&["summary", "two-weeks", "two-weeks", "--json"]);
    assert_eq!(json(&twice).as_array().unwrap().len(), 2);
    let verify = look(&["verify"]);
    assert_eq!(code(&verify), Some(0));
    assert!(stdout(&verify).contains("nothing is lost"), "{}", stdout(&verify));
    let unknown = look(&["summary", "nobody"]);
    assert_eq!(code(&unknown), Some(3));
    assert!(stderr(&unknown).contains("known agents: two-weeks"), "{}", stderr(&unknown));
}
