use std::process::Output;

use super::{
    code, json, package_file,
    place::{ask, look, small},
    recapd, stderr, stdout,
};
use crate::support::server::Server;

/// Runs `args` with `input`, through the daemon and on a separate database.
fn both(server: &Server, database: &std::path::Path, args: &[&str], input: &str) -> [Output; 2] {
    let url = format!("http://{}", server.address);
    let through = recapd().args(args).args(["--server", &url]).write_stdin(input).output().unwrap();
    let budget = ["--set", "window.budget_tokens=200"];
    let mut command = recapd();
    command.args(args).args(budget).arg("--db").arg(database).write_stdin(input);
    [through, command.output().unwrap()]
}

/// Formats an exchange of two messages with ids.
fn exchange(number: i32) -> String {
    let ask = format!("Fix bug {number} {}", "please ".repeat(30));
    format!(
        "{{\"id\":\"u{number}\",\"kind\":\"user\",\"content\":\"{ask}\"}}\n\
         {{\"id\":\"a{number}\",\"kind\":\"assistant\",\"content\":\"Fixed {number}.\"}}\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_works_the_same_with_a_daemon_and_a_database() {
    let server = Server::start(small).await;
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("push.db");
    let text: String = (1..=9).map(exchange).collect();
    let [asked, looked] = both(&server, &database, &["push", "coder", "--json"], &text);
    assert_eq!(code(&asked), Some(0), "{}", stderr(&asked));
    assert_eq!(json(&asked), json(&looked));
    insta::assert_snapshot!(stdout(&looked), @r#"
    {
      "agent_id": "coder",
      "accepted": 18,
      "duplicates": 0,
      "exchange": 9,
      "window": {
        "budget_tokens": 200,
        "fill_ratio": 0.705,
        "tokens": 141,
        "tokens_until_eviction": 59
      },
      "evicted": [
        {
          "from_exchange": 1,
          "through_exchange": 2,
          "tokens": 94
        },
        {
          "from_exchange": 3,
          "through_exchange": 4,
          "tokens": 94
        },
        {
          "from_exchange": 5,
          "through_exchange": 6,
          "tokens": 94
        }
      ],
      "summary": {
        "covers_through": 0,
        "pending_exchanges": 6,
        "version": 0
      }
    }
    "#);
    for again in both(&server, &database, &["push", "coder"], &exchange(9)) {
        assert_eq!(
            stdout(&again).split(';').next(),
            Some("stored 0 messages of coder, 2 were already stored"),
            "{}",
            stderr(&again)
        );
    }
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn transcripts_of_any_format_and_length_are_pushed() {
    let server = Server::start(small).await;
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("push.db");
    for (name, agent) in [
        ("claude_code.jsonl", "claude"),
        ("codex.jsonl", "codex"),
        ("aider.md", "aider"),
        ("gemini_history.json", "gemini"),
        ("responses.jsonl", "responses"),
        ("openai.json", "chat"),
    ] {
        let file = package_file("tests/fixtures").join(name);
        let [asked, looked] =
            both(&server, &database, &["push", agent, file.to_str().unwrap(), "--json"], "");
        assert_eq!(code(&asked), Some(0), "{name} {}", stderr(&asked));
        assert_eq!(json(&asked), json(&looked), "{name}");
    }
    // More than fits into one request.
    let many: String = (100..500).map(exchange).collect();
    for output in both(&server, &database, &["push", "many", "--json"], &many) {
        assert_eq!(json(&output)["accepted"], 800, "{}", stderr(&output));
    }
    assert_eq!(code(&look(&database, &["verify"])), Some(0));
    server.end().await;
    assert_eq!(code(&ask(&server, &["push", "coder", "--format", "native", "Cargo.toml"])), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_line_is_named_and_nothing_is_stored() {
    let server = Server::start(small).await;
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("bad.db");
    let good = r#"{"role":"user","content":"Fix it"}"#;
    for (args, input, status, words) in [
        (&["push", "a"][..], format!("{good}\n{{\"role\":"), 1, "standard input:2: broken JSON"),
        (&["push", "a"], format!("{good}\n7"), 1, "1 of 2 messages can't be read, so none was stored"),
        (
            &["push", "a"],
            format!("{good}\n{{\"role\":\"assitant\",\"content\":\"Fixed\"}}"),
            1,
            "standard input:2: role `assitant` is unknown; did you mean `assistant`?",
        ),
        (&["push", "a"], String::new(), 1, "standard input"),
        (&["push", "a"], "hello".to_owned(), 1, "standard input"),
        (&["push", "a", "nowhere.jsonl"], String::new(), 2, "nowhere.jsonl"),
        (&["push", "a", "--format", "msn"], good.to_owned(), 2, "claude-code"),
        (&["push", "not an id"], good.to_owned(), 2, "<AGENT>"),
    ] {
        for output in both(&server, &database, args, &input) {
            assert_eq!(code(&output), Some(status), "{args:?} {input} {}", stderr(&output));
            assert!(stderr(&output).contains(words), "{args:?} {input}: {}", stderr(&output));
        }
    }
    assert_eq!(code(&ask(&server, &["window", "a"])), Some(3));
    assert!(!database.exists());
    server.end().await;
}

#[test]
fn an_import_keeps_the_roles_that_a_push_refuses() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("roles.db");
    let file = folder.path().join("chat.jsonl");
    let text = "{\"role\":\"user\",\"content\":\"Hi\"}\n{\"role\":\"wizard\",\"content\":\"Abracadabra\"}\n";
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let pushed = look(&database, &["push", "coder", file]);
    assert_eq!(code(&pushed), Some(1), "{}", stderr(&pushed));
    assert!(
        stderr(&pushed).contains("chat.jsonl:2: role `wizard` is unknown; give one of user, "),
        "{}",
        stderr(&pushed)
    );
    let imported = look(&database, &["import", file, "--agent", "coder", "--json"]);
    assert_eq!(json(&imported)["accepted"], 2, "{}", stderr(&imported));
}

#[test]
fn a_push_leaves_out_messages_of_sub_agents() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("push.db");
    let file = package_file("tests/fixtures/claude_code.jsonl");
    let whole = std::fs::read_to_string(&file).unwrap();
    let side: String =
        whole.split_inclusive('\n').filter(|line| line.contains(r#""isSidechain": true"#)).collect();
    let messages = whole.lines().filter(|line| !line.trim().is_empty()).count();
    for (agent, input, expected, left_out) in [
        ("main", &whole, messages - 2, true),
        // The transcript of a sub-agent has only such lines.
        ("side", &side, 2, false),
    ] {
        let output = recapd()
            .args(["push", agent, "--format", "claude-code", "--json", "--db"])
            .arg(&database)
            .write_stdin(input.as_str())
            .output()
            .unwrap();
        assert_eq!(json(&output)["accepted"], expected, "{}", stderr(&output));
        assert_eq!(
            stderr(&output).contains("standard input: left out 2 messages of sub-agents"),
            left_out,
            "{}",
            stderr(&output)
        );
    }
}

/// An agent's own notes are no conversation. A few are no reason for a warning; many are, but don't fail the push.
#[test]
fn a_push_without_messages_for_a_model_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("notes.db");
    let push = |notes: usize| {
        let mut command = recapd();
        let input = "{\"kind\":\"note\",\"content\":\"x\"}\n".repeat(notes);
        command.args(["push", "my-agent", "--db"]).arg(&database);
        command.write_stdin(input).output().unwrap()
    };
    let line = "20 of 20 messages are of kinds that no model gets: note (20)";
    for (notes, expected) in [(1, false), (20, true)] {
        let told = push(notes);
        assert_eq!(code(&told), Some(0), "{}", stderr(&told));
        assert_eq!(stdout(&told).contains(line), expected, "{}", stdout(&told));
    }
}
