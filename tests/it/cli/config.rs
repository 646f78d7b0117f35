use std::fs;

use super::{code, json, recapd, stderr, stdout};

#[test]
fn settings_in_force_are_shown_with_their_origin() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("own.toml");
    fs::write(&file, "[window]\nbudget_tokens = 50_000\n\n[http]\nlisten = \"127.0.0.1:7500\"\n").unwrap();
    let run = |args: &[&str]| {
        let mut command = recapd();
        command.env("RECAPD__QUEUE__POLL_MS", "300").arg("--config").arg(&file);
        command.args(args).output().unwrap()
    };
    let shown = run(&["config", "show", "--changed", "--origin", "--set", "log.level=debug"]);
    let here = format!("{}/", folder.path().display());
    insta::assert_snapshot!(stdout(&shown).replace(&here, ""), @r#"
    [http]
    listen = "127.0.0.1:7500"  # own.toml:5

    [log]
    level = "debug"            # --set

    [queue]
    poll_ms = "300ms"          # env RECAPD__QUEUE__POLL_MS

    [window]
    budget_tokens = 50000      # own.toml:2
    "#);
    let entries = json(&run(&["config", "show", "--changed", "--json"]));
    assert_eq!(entries.as_array().unwrap().len(), 3);
    assert_eq!(entries[1]["key"], "queue.poll_ms");

    // The output is a valid configuration.
    let all = folder.path().join("all.toml");
    fs::write(&all, stdout(&run(&["config", "show"]))).unwrap();
    let again = recapd().arg("--config").arg(&all).args(["config", "show"]).output().unwrap();
    assert_eq!(stdout(&again), fs::read_to_string(&all).unwrap());
    assert_eq!(
        stdout(&recapd().args(["config", "show", "--changed"]).output().unwrap()),
        "# nothing differs from the defaults\n"
    );
}

#[test]
fn a_check_reports_errors_and_exits_with_78() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("own.toml");
    let check = |text: &str, args: &[&str]| {
        fs::write(&file, text).unwrap();
        let mut command = recapd();
        command.arg("--config").arg(&file).args(["config", "check"]).args(args);
        command.output().unwrap()
    };
    let sound = check("[window]\nbudget_tokens = 5000\n", &[]);
    assert_eq!(code(&sound), Some(0), "{}", stderr(&sound));
    assert!(stdout(&sound).ends_with("1 of them changed\n"), "{}", stdout(&sound));
    for quiet in ["--quiet", "-q"] {
        let sound = check("", &[quiet]);
        assert_eq!((code(&sound), stdout(&sound).as_str()), (Some(0), ""), "{quiet}");
    }
    let wrong = check("[window]\nbudget_token = 5\n\n[queue]\npoll_ms = 1\n", &[]);
    assert_eq!(code(&wrong), Some(78));
    let told = stderr(&wrong);
    assert!(
        told.contains("own.toml:2: unknown key window.budget_token: did you mean window.budget_tokens?"),
        "{told}"
    );
    assert!(told.contains("own.toml:5: queue.poll_ms must be from 10 to 60000, not 1"), "{told}");
    let keyless = check("[model]\nmode = \"anthropic\"\n", &["--quiet"]);
    assert_eq!(code(&keyless), Some(78));
    assert!(stderr(&keyless).contains("ANTHROPIC_API_KEY"), "{}", stderr(&keyless));
    // As `systemctl reload` and people call it: only the service itself has its credentials.
    let apart = check("[model]\nmode = \"anthropic\"\n", &["--without-keys"]);
    assert_eq!(code(&apart), Some(0), "{}", stderr(&apart));
    let wrong = check("[model]\nmode = \"anthropc\"\n", &["--without-keys"]);
    assert_eq!(code(&wrong), Some(78), "{}", stdout(&wrong));
}

#[test]
fn a_check_reads_what_a_start_reads() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("own.toml");
    for (text, told) in [
        ("[model]\nmode = \"openai\"\napi_key_file = \"/nowhere/key\"\n", "/nowhere/key"),
        ("[http]\ntokens_file = \"/nowhere/tokens\"\n", "http.tokens_file: /nowhere/tokens"),
        (
            "[trace]\notlp_url = \"http://127.0.0.1:1\"\notlp_headers_file = \"/nowhere/headers\"\n",
            "/nowhere/headers",
        ),
    ] {
        fs::write(&file, text).unwrap();
        let check = |args: &[&str]| {
            let mut command = recapd();
            command.args(["config", "check", "--config"]).arg(&file);
            command.args(args).output().unwrap()
        };
        let unreadable = check(&[]);
        assert_eq!(code(&unreadable), Some(78), "{text}");
        assert!(stderr(&unreadable).contains(told), "{}", stderr(&unreadable));
        assert_eq!(code(&check(&["--without-keys"])), Some(0), "{text}");
    }
}

/// Even before the log begins, and even if `RUST_LOG` filters it out.
#[test]
fn a_daemons_log_says_why_it_ended() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("own.toml");
    for (text, words, code_of_exit) in [
        ("[log]\nformat = \"json\"\n[worker]\nconcurrency = 0\n", "own.toml:4", 78),
        (
            "[log]\nformat = \"json\"\n[database]\nurl = \"sqlite:/nowhere/at/all.db\"\n",
            "/nowhere/at/all.db",
            69,
        ),
    ] {
        fs::write(&file, text).unwrap();
        let mut command = recapd();
        command.env("RUST_LOG", "off").arg("--config").arg(&file);
        let output = command.arg("serve").output().unwrap();
        let said = stderr(&output);
        assert_eq!(code(&output), Some(code_of_exit), "{said}");
        let event: serde_json::Value = serde_json::from_str(said.trim_end()).unwrap();
        assert_eq!((&event["level"], &event["message"]), (&"ERROR".into(), &"daemon.failed".into()));
        assert!(event["error"].as_str().unwrap().contains(words), "{said}");
    }
}

#[test]
fn the_reference_and_the_schema_are_printed() {
    let reference = recapd().args(["config", "default"]).output().unwrap();
    assert_eq!(stdout(&reference), recapd_config::DEFAULT_TOML);
    let schema = json(&recapd().args(["config", "schema"]).output().unwrap());
    assert_eq!(schema, recapd_config::json_schema());
}
