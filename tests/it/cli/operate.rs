//! `recapd queue`, `runs`, `update`, `age`, `window`, `agents list|pause|resume`: through a daemon and on the database.

use std::time::Duration;

use axum::http::StatusCode;

use super::{
    code, json,
    place::{alike, ask, look, two_agents},
    recapd, stderr, stdout,
};
use crate::support::{monotone, slow};

/// Longer than the one second after which a daemon once counted as missing.
const SLOW: Duration = Duration::from_millis(1_500);

#[tokio::test(flavor = "multi_thread")]
async fn the_queue_is_listed_and_changed() {
    let server = two_agents().await;
    let page = json(&ask(&server, &["queue", "--json"]));
    insta::assert_snapshot!(serde_json::to_string_pretty(&page).unwrap(), @r#"
    {
      "next_cursor": null,
      "paused_since": null,
      "rows": [
        {
          "age_ms": 0,
          "agent_id": "coder",
          "attempts": 0,
          "crashes": 0,
          "last_error": null,
          "leased_at": null,
          "next_at": "2026-11-20T08:40:02Z",
          "owner": null,
          "parked_at": null,
          "paused_for": null,
          "priority": 100,
          "queued_at": "2026-11-20T08:40:00Z",
          "reason": "eviction",
          "state": "scheduled",
          "waits_for": "batching"
        }
      ]
    }
    "#);
    assert_eq!(json(&ask(&server, &["queue", "show", "coder", "--json"])), page["rows"][0]);
    let shown = stdout(&ask(&server, &["queue", "show", "coder"]));
    assert!(shown.contains("state       scheduled (batching)"), "{shown}");
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_rows_are_retried_cancelled_and_paused() {
    let server = two_agents().await;
    let output = ask(&server, &["queue", "cancel", "coder"]);
    assert!(stdout(&output).starts_with("parked coder: the next eviction"), "{}", stderr(&output));
    let rows = &alike(&server, &["queue"])["rows"];
    assert_eq!(rows[0], alike(&server, &["queue", "show", "coder"]));
    for (args, words) in [
        (&["queue", "retry", "--all"][..], "1 agent due now"),
        (&["queue", "retry", "--all"], "(nothing is parked)"),
        (&["queue", "retry", "coder"], "coder is due now"),
        (&["queue", "pause"], "updates are paused since 2026-11-20T08:40:00"),
        (&["queue"], "all updates are paused since"),
        (&["queue", "resume"], "updates are resumed"),
        (&["agents", "pause", "coder"], "updates of coder are paused; `recapd agents resume coder`"),
        (&["queue"], "paused (operator)"),
        (&["agents", "resume", "coder"], "updates of coder are resumed"),
        (&["update", "coder"], "requested an update of coder"),
        (&["age", "--dry-run"], "(no line is too old for its section)"),
        (&["age"], "0 summaries queued for ageing"),
    ] {
        let output = ask(&server, args);
        assert_eq!(code(&output), Some(0), "{args:?} {}", stderr(&output));
        assert!(stdout(&output).contains(words), "{args:?} {}", stdout(&output));
    }
    server.summarise().await;
    assert_eq!(alike(&server, &["queue", "list"])["rows"].as_array().unwrap().len(), 0);
    assert!(stdout(&ask(&server, &["queue"])).contains("(the queue is empty"));
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_listed_and_shown() {
    let server = two_agents().await;
    assert!(stdout(&ask(&server, &["runs"])).contains("(no such runs"));
    server.summarise().await;
    let page = alike(&server, &["runs"]);
    insta::assert_snapshot!(serde_json::to_string_pretty(&page).unwrap(), @r#"
    {
      "next_cursor": null,
      "runs": [
        {
          "agent_id": "coder",
          "attempt": 1,
          "batched": false,
          "cost_microusd": 0,
          "covers_after": 0,
          "covers_through": 6,
          "document_tokens": 104,
          "duration_ms": 0,
          "error": null,
          "error_class": null,
          "exchanges": 6,
          "finished_at": "2026-11-20T08:50:00Z",
          "input_tokens": 0,
          "items_added": 1,
          "items_dropped": 0,
          "model": "extractive",
          "model_calls": 0,
          "outcome": "completed",
          "output_tokens": 0,
          "path": "append",
          "provider": "offline",
          "reason": "eviction",
          "run": 1,
          "started_at": "2026-11-20T08:50:00Z",
          "truncated": false,
          "version": 1
        }
      ]
    }
    "#);
    assert_eq!(alike(&server, &["runs", "show", "1"]), page["runs"][0]);
    assert_eq!(
        alike(&server, &["runs", "list", "--agent", "coder", "--outcome", "completed", "--limit", "1"]),
        page
    );
    assert_eq!(alike(&server, &["runs", "list", "--outcome", "failed"])["runs"], serde_json::json!([]));
    let shown = stdout(&ask(&server, &["runs", "show", "1"]));
    assert!(shown.contains("outcome    completed"), "{shown}");
    let listed = stdout(&ask(&server, &["runs"]));
    assert!(listed.contains("RUN  AGENT") && listed.contains("#1–#"), "{listed}");
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn windows_and_agents_are_listed() {
    let server = two_agents().await;
    let agents = alike(&server, &["agents"]);
    insta::assert_snapshot!(serde_json::to_string_pretty(&agents["agents"][1]).unwrap(), @r#"
    {
      "agent_id": "planner",
      "budget_tokens": 200,
      "covers_through": 0,
      "exchanges": 1,
      "first_exchange": 1,
      "messages": 2,
      "newest": {
        "exchange": 1,
        "state": "closed"
      },
      "pending_exchanges": 0,
      "pending_since": null,
      "project_id": null,
      "summary_tokens": 0,
      "updated_at": "2026-11-20T08:40:00Z",
      "version": 0,
      "window_tokens": 58
    }
    "#);
    let page = alike(&server, &["agents", "list", "--limit", "1"]);
    assert_eq!(page["next_cursor"], "coder");
    let rest = alike(&server, &["agents", "list", "--after", "coder"]);
    assert_eq!(rest["agents"], serde_json::json!([agents["agents"][1]]));
    let window = alike(&server, &["window", "coder"]);
    assert_eq!(window["exchanges"][0]["exchange"], window["first_exchange"]);
    assert_eq!(alike(&server, &["window", "coder", "--limit", "1"])["exchanges"][0]["exchange"], 9);
    let text = stdout(&ask(&server, &["window", "coder"]));
    assert!(text.contains("Fixed bug 9: the loop ended too early."), "{text}");
    let sent = alike(&server, &["window", "coder", "--format", "openai"]);
    assert!(sent["body"]["messages"].is_array(), "{sent}");
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_agent_is_answered_with_the_nearest() {
    let server = two_agents().await;
    for args in [
        &["queue", "show", "codr"][..],
        &["window", "codr"],
        &["update", "codr"],
        &["agents", "pause", "codr"],
        &["runs", "list", "--agent", "codr"],
        &["summary", "codr"],
        &["pins", "codr"],
    ] {
        for output in [ask(&server, args), look(&server.database(), args)] {
            // Commands that change the database are refused while the daemon has it open; nothing may change.
            if code(&output) == Some(69) {
                continue;
            }
            assert_eq!(code(&output), Some(3), "{args:?} {}", stderr(&output));
            let told = stderr(&output);
            assert!(
                told.contains("did you mean `coder`?") || told.contains("isn't in the queue"),
                "{args:?} {told}"
            );
        }
    }
    for args in [&["queue", "show", "planner"][..], &["queue", "retry", "planner"], &["runs", "show", "99"]] {
        assert_eq!(code(&ask(&server, args)), Some(3), "{args:?}");
    }
    server.end().await;
}

/// Without `--server` and `--db`, commands ask the daemon at the configured address.
#[tokio::test(flavor = "multi_thread")]
async fn a_running_daemon_is_found() {
    let server = two_agents().await;
    let empty = tempfile::tempdir().unwrap();
    let listen = format!("http.listen={}", server.address);
    let run = |args: &[&str]| {
        let mut command = recapd();
        command.current_dir(empty.path()).env("HOME", empty.path()).args(args).args(["--set", &listen]);
        command.output().unwrap()
    };
    let output = run(&["agents", "--json"]);
    assert_eq!(json(&output)["agents"][0]["agent_id"], "coder", "{}", stderr(&output));
    let output = run(&["update", "coder"]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    server.end().await;
    let output = run(&["agents"]);
    assert_eq!(code(&output), Some(69), "{}", stdout(&output));
    assert!(stderr(&output).contains("recapd.db"), "{}", stderr(&output));
}

/// The default database isn't the daemon's, so falling back to it would be wrong.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_daemon_is_found() {
    let server = two_agents().await;
    let slow = slow::at(server.address, "/version", SLOW).await;
    let empty = tempfile::tempdir().unwrap();
    let output = recapd()
        .current_dir(empty.path())
        .args(["agents", "--json", "--set", &format!("http.listen={slow}")])
        .output()
        .unwrap();
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    assert_eq!(json(&output)["agents"][0]["agent_id"], "coder");
    server.end().await;
}

/// Only a recapd answer counts: another program at that address may be overloaded as well.
#[tokio::test(flavor = "multi_thread")]
async fn an_overloaded_daemon_is_recognised() {
    let daemon = r#"{"type":"urn:recapd:problem:overloaded","code":"overloaded","detail":"too much to do"}"#;
    let empty = tempfile::tempdir().unwrap();
    for status in [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE] {
        for (body, told) in [(daemon, "too much to do"), ("{}", "recapd.db")] {
            let address = monotone::at(status, body).await;
            let output = recapd()
                .current_dir(empty.path())
                .env("HOME", empty.path())
                .args(["agents", "--set", &format!("http.listen={address}")])
                .output()
                .unwrap();
            assert!(stderr(&output).contains(told), "{status} {body} {}", stderr(&output));
        }
    }
}

#[test]
fn without_a_daemon_the_command_makes_the_update() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("alone.db");
    let run = |args: &[&str]| look(&database, args);
    let (mut offset, exchange) = (0, |number: i32| {
        format!(
            "{{\"role\":\"user\",\"content\":\"Fix bug {number} in parser.rs {}\"}}\n{{\"role\":\"assistant\",\"content\":\"Fixed {number}.\"}}\n",
            "please ".repeat(60)
        )
    });
    let mut push = |exchanges: i32| {
        let text: String = (offset..offset + exchanges).map(exchange).collect();
        offset += exchanges;
        let args = ["push", "coder", "--set", "window.budget_tokens=200"];
        let mut command = recapd();
        command.args(args).arg("--db").arg(&database).write_stdin(text);
        command.output().unwrap()
    };
    let output = push(1);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    assert_eq!(stdout(&run(&["update", "coder", "--wait"])), "coder was up to date\n");
    let output = push(8);
    assert!(stdout(&output).contains("left the window"), "{}", stdout(&output));
    let output = run(&["update", "coder", "--wait", "--json"]);
    let done = json(&output);
    assert_eq!(
        (&done["agent_id"], &done["run"]["outcome"], &done["run"]["version"]),
        (&"coder".into(), &"completed".into(), &1.into()),
        "{}",
        stderr(&output)
    );
    let output = push(3);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    let line = stdout(&run(&["update", "coder", "--wait"]));
    assert!(line.starts_with("updated coder: version 2 of "), "{line}");
    run(&["agents", "pause", "coder"]);
    let output = run(&["update", "coder", "--wait"]);
    assert_eq!(code(&output), Some(1));
    assert!(stderr(&output).contains("`recapd agents resume coder`"), "{}", stderr(&output));
    run(&["agents", "resume", "coder"]);
    run(&["queue", "pause"]);
    let output = run(&["update", "coder", "--wait", "--timeout", "1"]);
    assert_eq!(code(&output), Some(75), "{}", stderr(&output));
    assert!(stderr(&output).contains("`recapd queue show coder`"), "{}", stderr(&output));
    assert_eq!(code(&run(&["verify"])), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn due_summaries_are_listed_before_they_are_aged() {
    let server = two_agents().await;
    server.summarise().await;
    server.clock.advance_ms(3 * 24 * 3_600 * 1_000);
    let due = json(&ask(&server, &["age", "--dry-run", "--json"]));
    assert_eq!((&due["dry_run"], &due["queued"], &due["has_more"]), (&true.into(), &0.into(), &false.into()));
    assert_eq!(due["due"][0]["agent_id"], "coder");
    assert!(stdout(&ask(&server, &["age", "--dry-run"])).starts_with("coder  due "));
    let aged = json(&ask(&server, &["age", "--json"]));
    assert_eq!(aged, serde_json::json!({"dry_run": false, "queued": 1, "due": [], "has_more": false}));
    assert_eq!(json(&ask(&server, &["age", "--dry-run", "--json"]))["due"], serde_json::json!([]));
    server.end().await;
}

#[test]
fn empty_databases_say_what_to_do_next() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("empty.db");
    let output = look(&database, &["migrate", "up"]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    for (args, words) in [
        (&["agents"][..], "recapd push AGENT"),
        (&["queue"], "recapd update AGENT"),
        (&["runs"], "recapd queue"),
        (&["age", "--dry-run"], "(no line"),
    ] {
        let output = look(&database, args);
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
        assert!(stdout(&output).contains(words), "{args:?} {}", stdout(&output));
    }
    let output = look(&database, &["window", "me"]);
    assert_eq!(code(&output), Some(3));
    assert!(stderr(&output).contains("recapd push me"), "{}", stderr(&output));
}

#[test]
fn without_a_daemon_only_the_named_agent_is_updated() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("alone.db");
    let exchange = |number: i32| {
        format!(
            "{{\"role\":\"user\",\"content\":\"Fix bug {number} {}\"}}\n{{\"role\":\"assistant\",\"content\":\"Fixed.\"}}\n",
            "please ".repeat(60)
        )
    };
    let text: String = (0..9).map(exchange).collect();
    for agent in ["coder", "other"] {
        let args = ["push", agent, "--set", "window.budget_tokens=200"];
        let mut command = recapd();
        command.args(args).arg("--db").arg(&database).write_stdin(text.clone());
        assert_eq!(code(&command.output().unwrap()), Some(0));
    }
    look(&database, &["update", "other"]);
    let line = stdout(&look(&database, &["update", "coder", "--wait"]));
    assert!(line.starts_with("updated coder: version 1 of "), "{line}");
    let queue = json(&look(&database, &["queue", "--json"]));
    let [row] = &queue["rows"].as_array().unwrap()[..] else {
        panic!("{queue}");
    };
    assert_eq!(
        (&row["agent_id"], &row["state"], &row["attempts"]),
        (&"other".into(), &"ready".into(), &0.into())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn quiet_and_verbose_control_hints_and_logs() {
    let server = two_agents().await;
    let told = |args: &[&str]| stderr(&ask(&server, args));
    let list = ["agents", "list", "--limit", "1"];
    assert_eq!(told(&list), "more follow: --cursor coder, or --all\n");
    assert_eq!(told(&[&list[..], &["-q"]].concat()), "");
    let after = stdout(&ask(&server, &["agents", "--cursor", "coder"]));
    assert!(after.contains("planner") && !after.contains("coder"), "{after}");
    // Errors are printed even with `--quiet`.
    assert!(told(&["status", "codr", "--quiet"]).contains("coder"));
    assert_eq!(code(&ask(&server, &["agents", "-q", "-v"])), Some(2));
    server.end().await;
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("alone.db");
    look(&database, &["migrate", "up"]);
    let told = |args: &[&str]| stderr(&look(&database, args));
    assert_eq!(told(&["queue", "pause"]), "");
    assert!(told(&["queue", "resume", "-v"]).contains("queue.paused_by_hand"));
}
