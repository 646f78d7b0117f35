//! Installs hooks into all sorts of settings, and removes them again.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn commands(host: Host) -> Commands {
    Commands {
        host,
        program: "recapd".to_owned(),
        options: Vec::new(),
        events: events(host),
        scope: Scope::User,
    }
}

/// The events of the newest version of the host.
fn events(host: Host) -> Vec<Event> {
    let newest = HostProgram::Found { version: "2.1.332".parse().unwrap(), program: "claude".into() };
    support(host, Scope::User, &newest).unwrap().events
}

#[test]
fn an_empty_file_gets_all_events() {
    let text = with_hooks("", &commands(Host::Codex)).unwrap();
    let settings: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        settings["hooks"]["SessionStart"],
        json!([{
            "matcher": "startup|resume|clear|compact",
            "hooks": [{ "type": "command", "command": "recapd hook SessionStart --host codex", "timeout": 3 }]
        }])
    );
    assert_eq!(settings["hooks"].as_object().unwrap().len(), Event::ALL.len() - 1, "{text}");
    assert!(settings["hooks"].get("StopFailure").is_none(), "Codex has no such event");
    assert_eq!(with_hooks(&text, &commands(Host::Codex)).unwrap(), text);
    assert_eq!(without_hooks(&text).unwrap(), "{}\n");
}

#[test]
fn every_kind_of_session_start_has_a_hook() {
    let codex = "startup|resume|clear|compact";
    for (host, expected) in [(Host::ClaudeCode, format!("{codex}|fork")), (Host::Codex, codex.to_owned())] {
        let text = with_hooks("", &commands(host)).unwrap();
        let settings: Value = serde_json::from_str(&text).unwrap();
        let groups = &settings["hooks"]["SessionStart"];
        assert_eq!(groups[0]["matcher"], json!(expected), "{text}");
    }
}

#[test]
fn an_older_entry_is_replaced_and_can_be_removed() {
    let new = with_hooks(OTHERS, &commands(Host::ClaudeCode)).unwrap();
    let old = new.replace("|fork", "");
    assert_ne!(old, new);
    assert_eq!(without_hooks(&old).unwrap(), OTHERS);
    let renewed = with_hooks(&old, &commands(Host::ClaudeCode)).unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(&renewed).unwrap(),
        serde_json::from_str::<Value>(&new).unwrap()
    );
    assert_eq!(with_hooks(&renewed, &commands(Host::ClaudeCode)).unwrap(), renewed);
    assert_eq!(without_hooks(&renewed).unwrap(), OTHERS);
}

const OTHERS: &str = r#"{
    "model":   "opus",
    "hooks": { "Stop": [ {"hooks": [{"type": "command", "command": "say done"}]} ],
        "PreToolUse": [] },
    "permissions": {"allow": ["Bash(ls:*)"]}
}"#;

#[test]
fn entries_of_others_stay_byte_for_byte() {
    let text = with_hooks(OTHERS, &commands(Host::ClaudeCode)).unwrap();
    assert!(text.contains(r#""model":   "opus","#) && text.contains(r#""PreToolUse": []"#));
    assert!(text.contains("say done") && text.contains("recapd hook Stop --host claude-code"));
    assert_eq!(without_hooks(&text).unwrap(), OTHERS);
    assert_eq!(without_hooks(OTHERS).unwrap(), OTHERS);
}

#[test]
fn removing_a_handler_keeps_others_in_its_group() {
    let settings = r#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"a"},{"type":"command","command":"/usr/bin/recapd hook Stop"},{"type":"command","command":"recapd summary x"}]}]}}"#;
    let left = r#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"a"},{"type":"command","command":"recapd summary x"}]}]}}"#;
    assert_eq!(without_hooks(settings).unwrap(), left);
}

#[test]
fn an_entry_in_another_spelling_is_replaced() {
    let by_hand = r#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"recapd hook stop"}]}]}}"#;
    let text = with_hooks(by_hand, &commands(Host::Codex)).unwrap();
    assert!(!text.contains("hook stop"), "{text}");
    assert_eq!(text.matches("recapd hook Stop --host").count(), 1, "{text}");
    assert_eq!(without_hooks(by_hand).unwrap(), "{}");
}

#[test]
fn entries_with_other_options_replace_the_installed_ones() {
    let text = with_hooks(OTHERS, &commands(Host::ClaudeCode)).unwrap();
    let other = Commands {
        options: vec!["--agent".to_owned(), "me-{session}".to_owned()],
        events: Event::ALL.to_vec(),
        ..commands(Host::ClaudeCode)
    };
    let changed = with_hooks(&text, &other).unwrap();
    assert_eq!(changed.matches("recapd hook").count(), Event::ALL.len(), "{changed}");
    assert!(changed.contains("recapd hook Stop --host claude-code --agent 'me-{session}'"), "{changed}");
    assert_eq!(without_hooks(&changed).unwrap(), OTHERS);
    let lines = diff(&text, &changed);
    assert!(lines.contains('-') && lines.lines().any(|line| line.starts_with('+')), "{lines}");
}

#[test]
fn hooks_for_events_that_an_older_host_does_not_know_are_removed() {
    let new = with_hooks(OTHERS, &commands(Host::ClaudeCode)).unwrap();
    assert!(new.contains("StopFailure") && new.contains("PostCompact"));
    let mut old = commands(Host::ClaudeCode);
    old.events.retain(|event| !matches!(event, Event::StopFailure | Event::PostCompact));
    let changed = with_hooks(&new, &old).unwrap();
    assert!(!changed.contains("StopFailure") && !changed.contains("PostCompact"), "{changed}");
    assert_eq!(without_hooks(&changed).unwrap(), OTHERS);
}

fn command(settings: &str, event: &str) -> String {
    let settings: Value = serde_json::from_str(settings).unwrap();
    let command = &settings["hooks"][event][0]["hooks"][0]["command"];
    command.as_str().unwrap().to_owned()
}

#[test]
fn shared_settings_do_nothing_without_recapd() {
    for host in [Host::ClaudeCode, Host::Codex] {
        let shared = Commands { scope: Scope::Project, ..commands(host) };
        let text = with_hooks("{}", &shared).unwrap();
        let mut shell = std::process::Command::new("/bin/sh");
        let output = shell.args(["-c", &command(&text, "Stop")]).env("PATH", "/nowhere").output();
        let output = output.unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{output:?}");
        assert_eq!(with_hooks(&text, &shared).unwrap(), text);
        assert_eq!(without_hooks(&text).unwrap(), "{}");
        // The form for the user alone replaces the shared one.
        let own = with_hooks(&text, &commands(host)).unwrap();
        assert_eq!(own.matches("recapd hook Stop --host").count(), 1, "{own}");
        assert!(!own.contains("command -v"), "{own}");
    }
}

#[test]
fn settings_that_cannot_be_edited_are_refused_with_a_hint() {
    for broken in ["[]", "{", "// notes\n{}", r#"{"hooks": []}"#, r#"{"hooks": {"Stop": {}}}"#] {
        let error = with_hooks(broken, &commands(Host::Codex)).unwrap_err().to_string();
        assert!(error.contains("correct them"), "{error}");
    }
    let unsafe_word = Commands { program: "recapd; rm".to_owned(), ..commands(Host::Codex) };
    assert!(with_hooks("{}", &unsafe_word).is_err());
}

/// Any value in settings. Where the test puts it, no container above recapd's entries is empty: uninstalling deletes empty
/// containers.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z\"\\\\{}\\[\\], é]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[a-z\"{}, ]{1,6}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn uninstalling_restores_the_original_text(
        members in proptest::collection::btree_map("[a-z\"{}, ]{1,8}", any_value(), 1..5),
        others in proptest::collection::vec(any_value(), 0..3),
        is_pretty in any::<bool>(),
    ) {
        let mut settings: serde_json::Map<String, Value> =
            members.into_iter().filter(|(key, _)| key != HOOKS).collect();
        prop_assume!(!settings.is_empty());
        if !others.is_empty() {
            let groups: Vec<Value> = others.into_iter().map(|other| json!({ "hooks": [{ "command": other }] })).collect();
            settings.insert(HOOKS.to_owned(), json!({ "Stop": groups, "Other": [] }));
        }
        let text = if is_pretty {
            serde_json::to_string_pretty(&settings).unwrap()
        } else {
            serde_json::to_string(&settings).unwrap()
        };
        let with = with_hooks(&text, &commands(Host::ClaudeCode)).unwrap();
        prop_assert_eq!(with_hooks(&with, &commands(Host::ClaudeCode)).unwrap(), with.clone());
        let mut parsed: Value = serde_json::from_str(&with).unwrap();
        prop_assert!(parsed["hooks"]["SessionEnd"].is_array());
        prop_assert_eq!(without_hooks(&with).unwrap(), text);
        parsed.as_object_mut().unwrap().remove(HOOKS);
        settings.remove(HOOKS);
        prop_assert_eq!(parsed, Value::Object(settings));
    }
}
