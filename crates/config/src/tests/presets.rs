//! Presets, and explicit values next to them.

use super::*;

/// The values that a preset changes, and the source of each.
fn under(preset: &str, sets: &[&str]) -> String {
    let preset = format!("window.preset={preset}");
    let sets: Vec<&str> = std::iter::once(preset.as_str()).chain(sets.iter().copied()).collect();
    let entries = load(None, &[], &sets).unwrap().entries();
    let set = entries.iter().filter(|entry| entry.origin != ConfigSource::Default);
    let lines: Vec<String> =
        set.map(|entry| format!("{} = {} ({})", entry.key, entry.value, entry.origin)).collect();
    lines.join("\n")
}

#[test]
fn a_preset_works_in_a_commented_file() {
    let text = commented().replace("#preset = \"none\"", "preset = \"ikigai\"");
    let (written, set) = (load(Some(&text), &[], &[]), load(None, &[], &["window.preset=request-limit"]));
    assert_eq!(written.unwrap().config, set.unwrap().config);
}

#[test]
fn a_preset_overrides_defaults_and_yields_to_explicit_values() {
    insta::assert_snapshot!(under("none", &[]), @r#"window.preset = "none" (--set)"#);
    insta::assert_snapshot!(under("request-limit", &["context.max_tokens=50000", "window.low_water=0.9"]), @r#"
    context.anchor = false (preset request-limit)
    context.max_tokens = 50000 (--set)
    context.output_reserve_tokens = 0 (preset request-limit)
    window.budget_tokens = 36000 (preset request-limit)
    window.leg_tokens = 0 (preset request-limit)
    window.low_water = 0.9 (--set)
    window.preset = "request-limit" (--set)
    "#);
    insta::assert_snapshot!(under("long-memory", &[]), @r#"
    context.anchor = false (preset long-memory)
    context.max_tokens = 112000 (preset long-memory)
    window.budget_tokens = 90000 (preset long-memory)
    window.low_water = 1.0 (preset long-memory)
    window.preset = "long-memory" (--set)
    "#);
    insta::assert_snapshot!(under("dialogue", &["window.provider=anthropic"]), @r#"
    context.anchor = false (preset dialogue)
    context.max_tokens = 144000 (preset dialogue)
    window.budget_tokens = 122000 (preset dialogue)
    window.leg_tokens = 0 (preset dialogue)
    window.low_water = 1.0 (preset dialogue)
    window.on_overflow = "end" (preset dialogue)
    window.preset = "dialogue" (--set)
    window.provider = "anthropic" (--set)
    "#);
    insta::assert_snapshot!(under("chat", &["window.max_messages=6"]), @r#"
    context.alternation = "ack" (preset chat)
    context.anchor = true (preset chat)
    window.leg_tokens = 0 (preset chat)
    window.low_water = 1.0 (preset chat)
    window.max_messages = 6 (--set)
    window.preset = "chat" (--set)
    "#);
    let file = "[window]\npreset = \"ikigai\"\nbudget_tokens = 5\n";
    let loaded = load(Some(file), &[("RECAPD__WINDOW__PRESET", "chat")], &[]).unwrap();
    let (window, context) = (&loaded.config.window, &loaded.config.context);
    assert_eq!((window.budget_tokens, window.max_messages), (5, 20));
    assert_eq!(context.max_tokens, Config::default().context.max_tokens);
    assert!(loaded.config.validate().is_empty());
    let error = load(None, &[], &["window.preset=ikigay"]).unwrap_err();
    assert!(error.contains("long-memory"), "{error}");
}
