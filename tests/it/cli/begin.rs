//! First steps: `recapd init`, `serve --demo`, `version`, `completions`, `man`.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Stdio},
};

use super::{code, json, recapd, stderr, stdout};
use crate::support::port::Port;

#[test]
fn a_starting_configuration_has_the_defaults_and_overwrites_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| recapd().current_dir(folder.path()).args(args).output().unwrap();
    let output = run(&["init"]);
    assert_eq!((code(&output), stdout(&output).as_str()), (Some(0), "wrote recapd.toml\n"));
    assert!(stderr(&output).contains("recapd config check --config recapd.toml"), "{}", stderr(&output));
    let written = std::fs::read_to_string(folder.path().join("recapd.toml")).unwrap();
    assert!(written.starts_with("#:schema ") && written.contains("\n#budget_tokens = 100000\n"), "{written}");
    let keys = written.lines().filter(|line| line.contains(" = ") && !line.starts_with("# "));
    assert_eq!(keys.count(), 8, "{written}");
    let output = run(&["config", "check", "--json", "--config", "recapd.toml"]);
    assert_eq!(json(&output)["changed"], 0, "{}", stderr(&output));
    let output = run(&["init"]);
    assert_eq!(code(&output), Some(1));
    assert!(stderr(&output).contains("isn't overwritten"), "{}", stderr(&output));
    assert_eq!(stdout(&run(&["init", "-"])), written);
    let all = stdout(&run(&["init", "--all", "-"]));
    assert!(all.starts_with("#:schema ") && all.contains("\n#poll_ms = 1000\n"), "{all}");
    assert_eq!(code(&run(&["init", "no/such/folder/x.toml"])), Some(2));
}

#[test]
fn the_version_is_printed_as_text_and_json() {
    let output = recapd().arg("version").output().unwrap();
    assert_eq!(stdout(&output), format!("recapd {}\n", env!("CARGO_PKG_VERSION")));
    let told = json(&recapd().args(["version", "--json"]).output().unwrap());
    assert_eq!((&told["name"], &told["version"]), (&"recapd".into(), &env!("CARGO_PKG_VERSION").into()));
    assert!(told["schema"]["sqlite"].as_i64() > Some(0) && told["schema"]["postgres"].as_i64() > Some(0));
}

#[test]
fn completions_and_man_pages_list_the_commands() {
    for (shell, words) in
        [("bash", "complete -F _recapd"), ("zsh", "#compdef recapd"), ("fish", "complete -c recapd")]
    {
        let output = recapd().args(["completions", shell]).output().unwrap();
        assert_eq!(code(&output), Some(0));
        let script = stdout(&output);
        assert!(script.contains(words) && script.contains("queue"), "{shell}");
    }
    assert_eq!(code(&recapd().args(["completions", "csh"]).output().unwrap()), Some(2));
    let page = stdout(&recapd().arg("man").output().unwrap());
    for words in [".TH recapd 1", ".SH \"EXIT CODES\"", ".SH ENVIRONMENT", ".SH HOOKS"] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("man1");
    let output = recapd().args(["man", "--json", "--out"]).arg(&out).output().unwrap();
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    assert_eq!(json(&output)["folder"], out.display().to_string());
    for page in ["recapd.1", "recapd-serve.1", "recapd-queue-retry.1"] {
        assert!(out.join(page).is_file(), "{page}");
    }
    assert_eq!(std::fs::read_to_string(out.join("recapd.1")).unwrap(), page);
}

#[test]
fn the_reference_has_every_command_with_its_options() {
    let output = recapd().args(["man", "--markdown"]).output().unwrap();
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    let reference = stdout(&output);
    for words in [
        "# The command line",
        "| 75 |",
        "## recapd queue",
        "### recapd queue retry",
        "`--all`",
        "`<AGENT>`",
        "## recapd help environment",
    ] {
        assert!(reference.contains(words), "{words}: {reference}");
    }
    let kept = include_str!("../../../docs/cli.md");
    assert!(reference == kept, "docs/cli.md is out of date; `recapd man --markdown > docs/cli.md` writes it");
    assert!(!reference.contains("clock-offset-file"), "what is hidden stays so");
}

/// A daemon that is killed at the end of the test.
struct Demo(Child);

impl Drop for Demo {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
fn a_demonstration_needs_nothing_and_leaves_nothing() {
    let port = Port::reserve();
    let address = port.address();
    let folder = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin("recapd"));
    command.env_clear().env("TMPDIR", folder.path()).env("HOME", folder.path()).current_dir(folder.path());
    command.args(["serve", "--demo", "--listen", &address.to_string()]);
    let mut demo = Demo(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
    let url = format!("http://{address}");
    let mut lines = BufReader::new(demo.0.stderr.take().unwrap()).lines();
    let told: Vec<String> =
        lines.by_ref().map(Result::unwrap).take_while(|line| line != "Ctrl-C stops the daemon.").collect();
    assert!(told.concat().contains(&format!("{url}/ui/")), "{told:?}");
    let commands = told.iter().filter_map(|line| line.strip_prefix("  recapd "));
    let commands: Vec<&str> = commands.map(|line| line.split("  ").next().unwrap()).collect();
    assert_eq!(commands.len(), 3, "{told:?}");
    for command in commands {
        let output = recapd().args(command.split(' ')).output().unwrap();
        assert_eq!(code(&output), Some(0), "{command}: {}", stderr(&output));
    }
    let run = |args: &[&str]| recapd().args(args).args(["--server", &url]).output().unwrap();
    let output = run(&["history", "demo"]);
    let history = stdout(&output);
    assert!(history.contains("the model sees from here"), "{history} {}", stderr(&output));
    assert!(history.contains("Add structured logging"), "{history}");
    let output = run(&["update", "demo", "--wait"]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    let summary = stdout(&run(&["summary", "demo"]));
    assert!(summary.contains("## Previously in This Session"), "{summary}");
    for made in ["recapd.db", ".local"] {
        assert!(!folder.path().join(made).exists(), "{made}");
    }
    let refused = recapd().args(["serve", "--demo", "--db", "x.db"]).output().unwrap();
    assert_eq!(code(&refused), Some(2), "{}", stderr(&refused));
}
