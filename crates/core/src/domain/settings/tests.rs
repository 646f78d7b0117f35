use serde_json::{Value, json};

use super::*;

fn patched(settings: &AgentSettings, patch: Value) -> AgentSettings {
    SettingsPatch::parse(patch).unwrap().apply(settings)
}

#[test]
fn a_patch_replaces_values_and_null_removes_them() {
    let settings = patched(&AgentSettings::default(), json!({"budget_tokens": 50_000, "model": "gpt-5"}));
    assert_eq!(json!(settings), json!({"budget_tokens": 50_000, "model": "gpt-5"}));
    let settings = patched(&settings, json!({"low_water": 1, "model": null, "on_overflow": "refuse"}));
    assert_eq!(json!(settings), json!({"budget_tokens": 50_000, "low_water": 1.0, "on_overflow": "refuse"}));
    assert_eq!(patched(&settings, json!({})), settings);
}

#[test]
fn invalid_values_are_refused() {
    let invalid = [
        "budget_tokens",
        "low_water",
        "provider",
        "output_reserve_tokens",
        "on_overflow",
        "preset",
        "max_messages",
        "context_max_tokens",
        "system_reserve_tokens",
        "anchor",
        "alternation",
        "participants",
        "human_tag",
        "mode",
        "calls_per_day",
        "tokens_per_day",
        "usd_per_day",
        "time_zone",
    ];
    let cases = [
        json!({"budget_tokens": -1}),
        json!({"low_water": 1.5}),
        json!({"provider": "x".repeat(129)}),
        json!({"output_reserve_tokens": "many"}),
        json!({"on_overflow": "explode"}),
        json!({"preset": "ikiga"}),
        json!({"max_messages": -1}),
        json!({"context_max_tokens": 100_000_001}),
        json!({"system_reserve_tokens": -1}),
        json!({"anchor": "yes"}),
        json!({"alternation": "mix"}),
        json!({"participants": ["a", "b"]}),
        json!({"human_tag": "x".repeat(129)}),
        json!({"mode": "quarrel"}),
        json!({"calls_per_day": -1}),
        json!({"tokens_per_day": 1.5}),
        json!({"usd_per_day": 1_000_001}),
        json!({"time_zone": "Berlin"}),
    ];
    // As in the configuration.
    assert!(SettingsPatch::parse(json!({"low_water": 0})).is_err());
    for (name, patch) in invalid.into_iter().zip(cases) {
        let error = SettingsPatch::parse(patch).unwrap_err();
        assert!(matches!(error, SettingsError::Invalid { name: found, .. } if found == name), "{error}");
    }
    let unknown = SettingsPatch::parse(json!({"budget": 1}));
    assert_eq!(unknown, Err(SettingsError::Unknown("budget".to_owned())));
    assert_eq!(SettingsPatch::parse(json!([1])), Err(SettingsError::NotAnObject));
    insta::assert_snapshot!(
        SettingsPatch::parse(json!({"budget_tokens": 0.5})).unwrap_err(),
        @"setting `budget_tokens` must be an integer from 0 to 100000000; 0 never evicts"
    );
}

#[test]
fn every_setting_has_a_row_in_the_table() {
    let all = AgentSettings {
        preset: Some(Preset::Chat),
        budget_tokens: Some(1),
        low_water: Some(0.5),
        leg_tokens: Some(2_000),
        max_messages: Some(6),
        on_overflow: Some(OnOverflow::End),
        provider: Some("openai".to_owned()),
        model: Some("gpt-5".to_owned()),
        context_max_tokens: Some(3),
        output_reserve_tokens: Some(2),
        system_reserve_tokens: Some(1),
        anchor: Some(true),
        alternation: Some(Alternation::Ack),
        participants: Some("a, b".to_owned()),
        human_tag: Some("[HUMAN]".to_owned()),
        mode: Some(Mode::Talk),
        calls_per_day: Some(5),
        tokens_per_day: Some(6),
        usd_per_day: Some(7.5),
        time_zone: Some("Europe/Berlin".to_owned()),
    };
    let mut names: Vec<String> = json!(all).as_object().unwrap().keys().cloned().collect();
    let mut table: Vec<&str> = AgentSettings::names().collect();
    names.sort_unstable();
    table.sort_unstable();
    assert_eq!(names, table);
    assert_eq!(patched(&AgentSettings::default(), json!(all)), all);
    assert_eq!(AgentSettings::default().or(all.clone()), all);
    assert_eq!(all.clone().or(AgentSettings::default()), all);
}

#[test]
fn a_typed_value_becomes_the_matching_json() {
    let cases = [
        ("50_000", json!(50_000)),
        ("0.9", json!(0.9)),
        ("refuse", json!("refuse")),
        ("true", json!(true)),
        ("false", json!(false)),
        ("claude-opus-5", json!("claude-opus-5")),
        ("", Value::Null),
        ("null", Value::Null),
    ];
    for (text, value) in cases {
        assert_eq!(AgentSettings::parse_value(text), value, "{text}");
    }
}

#[test]
fn settings_override_the_style_of_a_shared_conversation() {
    let default = PerspectiveStyle { participants: vec!["x".to_owned()], ..PerspectiveStyle::default() };
    assert_eq!(AgentSettings::default().perspective_style(default.clone()), default);
    let settings = patched(
        &AgentSettings::default(),
        json!({"participants": "agent_a, agent_b,agent_a,", "human_tag": "", "mode": "meditation"}),
    );
    assert_eq!(
        settings.perspective_style(default),
        PerspectiveStyle {
            participants: vec!["agent_a".to_owned(), "agent_b".to_owned()],
            human_tag: String::new(),
            mode: Mode::Meditation,
        }
    );
}

#[test]
fn settings_override_the_configurations_budget_one_by_one() {
    let default = Budget::new(100_000, 0.8);
    let cases = [
        (json!({}), default),
        (json!({"budget_tokens": 0}), Budget::new(0, 0.8)),
        (json!({"low_water": 1}), Budget::new(100_000, 1.0)),
        (json!({"budget_tokens": 5, "low_water": 0.5}), Budget::new(5, 0.5)),
        (json!({"max_messages": 6}), default.with_max_messages(6)),
    ];
    for (patch, budget) in cases {
        let settings = patched(&AgentSettings::default(), patch);
        assert_eq!(settings.budget(default), budget, "{settings:?}");
    }
}
