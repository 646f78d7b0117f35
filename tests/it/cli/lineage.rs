//! `recapd mark`, `rewind`, `clear` and `fork`, and `recapd context --as`, over a database.

use serde_json::json;

use super::{code, json, recapd, stderr, stdout};

#[test]
fn a_conversation_is_marked_rewound_forked_and_cleared() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("lineage.db");
    let run = |args: &[&str]| recapd().args(args).arg("--db").arg(&database).output().unwrap();
    let said = folder.path().join("said.jsonl");
    let say = |range: std::ops::RangeInclusive<i32>| {
        let lines: Vec<String> = range
            .flat_map(|n| {
                [
                    json!({"kind": "user", "content": format!("Question {n}")}).to_string(),
                    json!({"kind": "assistant", "content": format!("Answer {n}")}).to_string(),
                ]
            })
            .collect();
        std::fs::write(&said, lines.join("\n")).unwrap();
        let output = run(&["replay", "--agent", "coder", said.to_str().unwrap()]);
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    };
    say(1..=3);
    let told = |args: &[&str]| {
        let output = run(args);
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
        stdout(&output)
    };
    insta::assert_snapshot!(told(&["mark", "coder", "before"]), @"marked coder `before` at #3");
    insta::assert_snapshot!(
        told(&["rewind", "coder", "before"]),
        @"rewound coder to the mark `before` at #3: 0 exchanges set aside, the window begins with #1"
    );
    insta::assert_snapshot!(
        told(&["fork", "coder", "scout"]),
        @"forked scout from coder at #3: 3 exchanges and 0 items of the summary are shared"
    );
    insta::assert_snapshot!(told(&["clear", "scout"]), @"cleared scout: session 2 begins with an empty window");
    let marked = json(&run(&["mark", "coder", "--json"]));
    assert_eq!((&marked["label"], &marked["marked_exchange"]), (&json!(null), &json!(3)));
    assert!(told(&["history", "coder"]).contains("#1"));
    told(&["verify"]);
    for (args, status, words) in [
        (&["rewind", "coder", "nowhere"][..], 3, "nowhere"),
        (&["rewind", "scout"], 3, "there is no mark"),
        (&["mark", "nobody"], 3, "coder"),
        (&["fork", "nobody", "b"], 3, "coder"),
        (&["fork", "coder", "scout"], 1, "exists already"),
        (&["fork", "coder"], 2, "CHILD"),
        (&["fork", "coder", "no name"], 2, "agent id"),
    ] {
        let output = run(args);
        assert_eq!(code(&output), Some(status), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
}

#[test]
fn a_context_is_seen_by_its_speakers() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("talk.db");
    let run = |args: &[&str]| recapd().args(args).arg("--db").arg(&database).output().unwrap();
    let replay = super::package_file("tests/fixtures/pidgin.jsonl");
    let output = run(&["replay", "--agent", "duet", replay.to_str().unwrap()]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    let seen = |speaker: &str| {
        let output = run(&["context", "duet", "--format", "openai", "--as", speaker]);
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
        let messages = json(&output)["messages"].clone();
        let brief = |message: &serde_json::Value| {
            let content = message["content"].as_str().unwrap().replace('\n', " ");
            format!("{}: {content}", message["role"].as_str().unwrap())
        };
        messages.as_array().unwrap().iter().map(brief).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(seen("agent_a"), @r"
    system: You talk with another program.
    user: [HUMAN]: Talk about bridges.
    assistant: Arches carry by pressing.
    user: And cables by pulling.  [HUMAN]: And beams?
    ");
    insta::assert_snapshot!(seen("agent_b"), @r"
    system: You talk with another program.
    user: [HUMAN]: Talk about bridges.  Arches carry by pressing.
    assistant: And cables by pulling.
    user: [HUMAN]: And beams?
    ");
    let output = run(&["context", "duet", "--format", "gemini", "--as", "agent_c"]);
    assert_eq!(code(&output), Some(3));
    assert!(stderr(&output).contains("known speakers: agent_a, agent_b"), "{}", stderr(&output));
}

/// As over HTTP: some providers require the thinking of an open tool round, whatever has left the window before it.
#[test]
fn thinking_of_an_open_exchange_can_be_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let (database, said) = (folder.path().join("thought.db"), folder.path().join("said.jsonl"));
    let run = |args: &[&str]| {
        let set = ["--set", "window.budget_tokens=100"];
        let mut command = recapd();
        command.args(args).args(set).arg("--db").arg(&database);
        command.output().unwrap()
    };
    let earlier = (1..=4).flat_map(|number| {
        [
            json!({"role": "user", "content": format!("Question {number}: {}", "please ".repeat(40))}),
            json!({"role": "assistant", "content": "Done."}),
        ]
    });
    let open = [
        json!({"role": "user", "content": "Which files?"}),
        json!({"role": "assistant", "content": [
            {"type": "thinking", "thinking": "I look.", "signature": "c2lnbmVk"},
            {"type": "tool_use", "id": "t", "name": "ls", "input": {}},
        ]}),
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "a.rs"}]}),
    ];
    let messages: Vec<_> = earlier.chain(open).map(|message| message.to_string()).collect();
    std::fs::write(&said, messages.join("\n")).unwrap();
    let output = run(&["push", "thinker", said.to_str().unwrap(), "--format", "anthropic"]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    for (thinking, is_sent) in [(vec![], false), (vec!["--thinking", "open"], true)] {
        let context = vec!["context", "thinker", "--format", "anthropic"];
        let output = run(&[context, thinking].concat());
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
        assert_eq!(stdout(&output).contains("c2lnbmVk"), is_sent, "{}", stdout(&output));
    }
    let output = run(&["context", "thinker", "--format", "anthropic", "--thinking", "all"]);
    assert_eq!(code(&output), Some(2));
}
