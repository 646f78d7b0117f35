//! Tests of the defaults, the comments, the order of sources, and the errors.

use std::{fs, path::Path};

use toml::Value;

use super::{keys::INTEGER_LIMITS, *};
use recapd_platform::threads::READERS_MAX;
mod errors;
mod place;
mod presets;
mod secrets;

type Pairs<'a> = &'a [(&'a str, &'a str)];
/// File, environment, flags; the expected budget and its source.
type Precedence<'a> = (Option<&'a str>, Pairs<'a>, &'a [&'a str], i64, &'a str);

fn load(toml: Option<&str>, environment: Pairs<'_>, sets: &[&str]) -> Result<LoadedConfig, String> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("recapd.toml");
    if let Some(toml) = toml {
        fs::write(&path, toml).unwrap();
    }
    let loader = Loader::new()
        .file_or(toml.map(|_| path.as_path()), Path::new("/nonexistent/recapd.toml"))
        .environment(environment.iter().copied());
    let loader = sets.iter().fold(loader, |loader, set| loader.set(*set));
    let here = format!("{}/", directory.path().display());
    loader.load().map_err(|error| error.to_string().replace(&here, ""))
}

fn documented() -> Vec<(String, String)> {
    let documented = reference::documented().into_iter();
    documented.map(|found| (found.key(), found.comment)).collect()
}

#[test]
fn batches_have_two_spellings() {
    for (sets, mode) in [
        (&["model.mode=gemini", "model.batch=true"][..], ModelMode::Gemini),
        (&["model.mode=batch", "model.model=claude-haiku-5-5"], ModelMode::Anthropic),
        (&["model.mode=batch", "model.model=gpt-5.4-mini"], ModelMode::OpenAi),
        (&["model.mode=openai-responses", "model.mode=batch"], ModelMode::OpenAiResponses),
        (&["model.batch=true", "model.model=gemini-3.8-flash"], ModelMode::Gemini),
    ] {
        let config = load(None, &[], sets).unwrap().config;
        assert_eq!((config.model.mode, config.model.batch), (mode, true), "{sets:?}");
    }
    let nameless = load(None, &[], &["model.mode=batch"]).unwrap_err();
    assert!(nameless.contains("model.batch needs a provider"), "{nameless}");
}

#[test]
fn the_limit_of_readers_matches_the_thread_budget() {
    for (readers, is_accepted) in [(READERS_MAX, true), (READERS_MAX + 1, false)] {
        let set = format!("database.readers={readers}");
        assert_eq!(load(None, &[], &[&set]).is_ok(), is_accepted, "{set}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "most of them are a golden text")]
fn the_reference_states_the_defaults() {
    let loaded = load(None, &[], &[]).unwrap();
    assert_eq!(loaded.config, Config::default());
    assert_eq!(loaded.config.validate(), []);
    assert_eq!(load(Some(DEFAULT_TOML), &[], &[]).unwrap().config, Config::default());

    let entries = loaded.entries();
    assert!(entries.iter().all(|entry| entry.origin == ConfigSource::Default));
    let shown: Vec<String> = entries.iter().map(|entry| format!("{} = {}", entry.key, entry.value)).collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    batch.gather_ms = "5m"
    batch.max_wait_ms = "4h"
    batch.open_max = 10
    batch.requests_max = 400
    context.alternation = "merge"
    context.anchor = true
    context.max_tokens = 160000
    context.output_reserve_tokens = 8000
    context.pins_max_tokens = 4000
    context.system_reserve_tokens = 0
    convergence.profile = "balanced"
    convergence.stop_at = 0.95
    convergence.warn_at = 0.8
    convergence.weights = "content=0.40 structure=0.15 sentences=0.20 length=0.15 punctuation=0.10"
    database.busy_timeout_ms = "5s"
    database.connections = 16
    database.migrate = "auto"
    database.read_lag_ms_max = "10s"
    database.read_url = ""
    database.readers = 4
    database.statement_timeout_ms = "30s"
    database.synchronous = "full"
    database.url = ""
    fallback.allow_http = false
    fallback.api_key_file = ""
    fallback.base_url = ""
    fallback.concurrency = 8
    fallback.mode = "offline"
    fallback.model = ""
    fallback.proxy = ""
    fallback.requests_per_minute = 0
    fallback.tokens_per_minute = 0
    hook.announce = false
    hook.max_chars = 6000
    http.allowed_hosts = []
    http.answers_bytes_max = 134217728
    http.audit_rows_max = 100000
    http.batch_messages_max = 10000
    http.body_bytes_max = 33554432
    http.connections_max = 1024
    http.connections_per_peer_max = 512
    http.head_timeout_ms = "10s"
    http.idle_timeout_ms = "1m"
    http.listen = "127.0.0.1:7411"
    http.request_timeout_ms = "30s"
    http.requests_burst = 5000
    http.requests_per_second = 1000
    http.require_token = false
    http.snapshot_bytes_max = 134217728
    http.socket = "auto"
    http.socket_mode = "0660"
    http.subscribers_max = 200
    http.tokens_file = ""
    http.trusted_proxies = []
    journal.dir = ""
    log.format = "auto"
    log.level = "info"
    model.allow_http = false
    model.api_key_file = ""
    model.base_url = ""
    model.batch = false
    model.breaker_failures = 5
    model.breaker_rest_ms = "30s"
    model.concurrency = 8
    model.effort = "low"
    model.mode = "offline"
    model.model = ""
    model.num_ctx = 0
    model.output_limit_field = "auto"
    model.output_tokens_max = 4000
    model.proxy = ""
    model.requests_per_minute = 0
    model.thinking_reserve_tokens = 4000
    model.timeout_ms = "1m"
    model.tokens_per_minute = 0
    perspective.human_tag = "[HUMAN]"
    perspective.mode = "talk"
    perspective.participants = ""
    proxy.anthropic_url = "https://api.anthropic.com"
    proxy.body_bytes_max = 268435456
    proxy.copies_bytes_max = 67108864
    proxy.decide_ms = "50ms"
    proxy.gemini_url = "https://generativelanguage.googleapis.com"
    proxy.listen = ""
    proxy.mode = "observe"
    proxy.openai_url = "https://api.openai.com"
    proxy.subagents = true
    proxy.token_file = ""
    proxy.upstreams = ""
    proxy.window_subscriptions = false
    queue.attempts_max = 5
    queue.backoff_base_ms = "5s"
    queue.backoff_max_ms = "15m"
    queue.batch_exchanges = 3
    queue.batch_tokens_min = 2000
    queue.crashes_max = 3
    queue.debounce_ms = "2s"
    queue.lease_ms = "15s"
    queue.max_wait_ms = "2m"
    queue.owner = ""
    queue.poll_ms = "1s"
    queue.reconcile_ms = "5m"
    queue.revive_after_ms = "10m"
    recall.embeddings = ""
    recall.embeddings_allow_http = false
    recall.embeddings_api_key_file = ""
    recall.embeddings_dimensions = 0
    recall.embeddings_model = ""
    recall.embeddings_patience_ms = "300ms"
    recall.embeddings_proxy = ""
    schedule.ageing = "0 3 * * *"
    schedule.prune = "30 3 * * *"
    schedule.runs_keep_days = "90d"
    schedule.sample_ms = "15s"
    schedule.versions_keep = 50
    session.idle_gap_minutes = "4h"
    spend.agent_calls_per_day = 0
    spend.agent_tokens_per_day = 0
    spend.agent_usd_per_day = 0.0
    spend.calls_per_day = 0
    spend.prices_file = ""
    spend.tokens_per_day = 0
    spend.usd_per_day = 0.0
    summary.ageing = "age"
    summary.compact_by_model = false
    summary.drop_older = false
    summary.max_tokens = 10000
    summary.redact = true
    summary.redact_patterns = []
    summary.session_hours = "1d"
    summary.style = "plain"
    summary.time_zone = "UTC"
    summary.week_hours = "14d"
    summary.yesterday_hours = "7d"
    trace.attributes = ""
    trace.gather_ms = "5s"
    trace.otlp_headers_file = ""
    trace.otlp_url = ""
    trace.sample = 1.0
    trace.service_name = "recapd"
    window.budget_tokens = 100000
    window.leg_tokens = -1
    window.low_water = 0.8
    window.max_messages = 0
    window.model = "gpt-5"
    window.on_overflow = "evict"
    window.preset = "none"
    window.provider = "openai"
    worker.batch_exchanges_max = 200
    worker.concurrency = 4
    worker.drain_ms = "30s"
    worker.input_tokens_max = 24000
    "#);
}

#[test]
fn duplicated_defaults_agree() {
    let config = Config::default();
    assert_eq!(config.queue.retry_policy(), recapd_core::domain::work::RetryPolicy::default());
    assert_eq!(config.window.budget().low_water_tokens(), 80_000);
    assert_eq!(config.worker.drain(), std::time::Duration::from_secs(30));
}

#[test]
fn every_key_has_a_comment_of_one_to_three_lines() {
    let documented = documented();
    let entries = load(None, &[], &[]).unwrap().entries();
    assert_eq!(documented.len(), entries.len());
    for (key, comment) in documented {
        assert!(comment.ends_with('.') && comment.len() <= 3 * 120, "{key}: {comment}");
    }
}

#[test]
fn the_comments_state_the_limits_that_are_checked() {
    let values: Value = toml::from_str(DEFAULT_TOML).unwrap();
    let limits_of = |key: &str| INTEGER_LIMITS.iter().find(|(name, ..)| *name == key);
    for (key, comment) in documented() {
        let (section, name) = key.split_once('.').unwrap();
        if !values[section][name].is_integer() {
            assert_eq!(limits_of(&key), None, "{key}");
            continue;
        }
        let (_, min, max) = limits_of(&key).unwrap_or_else(|| panic!("{key} has no limits"));
        let limits = comment.split_once("From ").and_then(|(_, rest)| rest.split_once(" to ")).unwrap();
        let number = |text: &str| -> i64 {
            let digits: String =
                text.chars().take_while(|c| c.is_ascii_digit() || ['_', '-'].contains(c)).collect();
            digits.replace('_', "").parse().unwrap()
        };
        assert_eq!((number(limits.0), number(limits.1)), (*min, *max), "{key}");

        let refused = format!("--set: {key} must be from {min} to {max}, not");
        for (value, fits) in [(min - 1, false), (*min, true), (*max, true), (max + 1, false)] {
            let text = load(None, &[], &[&format!("{key}={value}")]).err().unwrap_or_default();
            assert_eq!(text.contains(&refused), !fits, "{key}={value}: {text}");
        }
    }
}

#[test]
fn every_value_in_the_comments_is_accepted_and_no_other() {
    let mut choices = 0;
    for documented in reference::documented() {
        let (key, Some(values)) = (documented.key(), documented.choices()) else {
            continue;
        };
        choices += 1;
        for value in &values {
            // Some modes require a model.
            let sets =
                [format!("{key}={value}"), "model.model=any".to_owned(), "fallback.model=any".to_owned()];
            let loaded = load(None, &[], &sets.each_ref().map(String::as_str)).unwrap();
            let mut entries = loaded.entries().into_iter();
            let entry = entries.find(|entry| entry.key == key).unwrap();
            assert_eq!(entry.value, format!("\"{value}\""));
        }
        let error = load(None, &[], &[&format!("{key}=sideways")]).unwrap_err();
        for value in values {
            assert!(error.contains(&format!("`{value}`")), "{error}");
        }
    }
    assert_eq!(choices, 16);
}

#[test]
fn durations_are_read_from_every_source() {
    let file = "[queue]\nmax_wait_ms = \"1m30s\"\n[summary]\nweek_hours = \"30d\"\n";
    let variables = [("RECAPD__SESSION__IDLE_GAP_MINUTES", "8h")];
    let config = load(Some(file), &variables, &["queue.debounce_ms=10s"]).unwrap().config;
    assert_eq!((config.queue.max_wait_ms, config.queue.debounce_ms), (90_000, 10_000));
    assert_eq!((config.summary.week_hours, config.session.idle_gap_minutes), (720, 480));
    let error = load(None, &[], &["summary.week_hours=90m"]).unwrap_err();
    assert_eq!(
        error,
        "--set: summary.week_hours must be a whole number of hours, or a duration such as 7d, not `90m`"
    );
}

#[test]
fn the_starting_file_has_the_keys_that_people_change() {
    let text = starting();
    let keys = text.lines().filter_map(|line| line.strip_prefix('#')?.split_once(" = "));
    let names: Vec<&str> = keys.map(|(name, _)| name).filter(|name| !name.contains(' ')).collect();
    assert_eq!(names.len(), reference::STARTING.len(), "{text}");
    let set = text.replace("#budget_tokens = 100000", "budget_tokens = 5000");
    assert_eq!(load(Some(&set), &[], &[]).unwrap().config.window.budget_tokens, 5_000);
}

#[test]
fn the_schema_knows_every_key_with_its_default_and_its_limits() {
    let schema = json_schema();
    let defaults: Value = toml::from_str(DEFAULT_TOML).unwrap();
    for entry in load(None, &[], &[]).unwrap().entries() {
        let (section, name) = entry.key.split_once('.').unwrap();
        let property = &schema["properties"][section]["properties"][name];
        assert_eq!(property["default"], serde_json::json!(defaults[section][name]), "{}", entry.key);
        assert!(!property["description"].as_str().unwrap().is_empty(), "{}", entry.key);
    }
    let budget = &schema["properties"]["window"]["properties"]["budget_tokens"];
    assert_eq!((&budget["type"], &budget["maximum"]), (&"integer".into(), &100_000_000.into()));
    let water = &schema["properties"]["window"]["properties"]["low_water"];
    assert_eq!((&water["exclusiveMinimum"], &water["maximum"]), (&0.into(), &1.into()));
    let mode = &schema["properties"]["model"]["properties"]["mode"]["enum"];
    assert!(mode.as_array().unwrap().contains(&"offline".into()), "{mode}");
    assert_eq!(schema["properties"]["summary"]["properties"]["redact_patterns"]["type"], "array");
}

/// The comments state what an empty base URL and an empty model mean. Explicit values override both.
#[test]
fn every_mode_has_its_address_and_its_model() {
    let documented: std::collections::BTreeMap<String, String> = documented().into_iter().collect();
    for (mode, address, name) in [
        ("anthropic", "https://api.anthropic.com/v1", "claude-haiku-5-5"),
        ("openai", "https://api.openai.com/v1", "gpt-5.4-mini"),
        ("openai-responses", "https://api.openai.com/v1", "gpt-5.4-mini"),
        ("gemini", "https://generativelanguage.googleapis.com/v1beta", "gemini-3.8-flash"),
    ] {
        let mode = format!("model.mode={mode}");
        let model = load(None, &[], &[&mode]).unwrap().config.model;
        assert_eq!((model.address(), model.name()), (address, name));
        assert!(documented["model.model"].contains(name), "{name}");
        let own = ["model.base_url=http://127.0.0.1:4000/v1", "model.model=mine", &mode];
        let model = load(None, &[], &own).unwrap().config.model;
        assert_eq!((model.address(), model.name()), ("http://127.0.0.1:4000/v1", "mine"));
    }
    let ollama = load(None, &[], &["model.mode=ollama", "model.model=qwen3"]).unwrap();
    assert!(documented["model.base_url"].contains(ollama.config.model.address()));
}

#[test]
fn without_a_mode_the_models_name_selects_the_provider() {
    use ModelMode::{Anthropic, Gemini, Offline, Ollama, OpenAi};
    for (mode, model, expected) in [
        (Offline, "claude-haiku-5-5", Anthropic),
        (Offline, "gemini-3.8-flash", Gemini),
        (Offline, "gpt-5.4-mini", OpenAi),
        (Offline, "qwen3", OpenAi),
        (Ollama, "gemini-3.8-flash", Ollama),
    ] {
        assert_eq!(mode.or_of(model), expected, "{model}");
    }
}

#[test]
fn each_source_overrides_the_one_before() {
    let toml = "[window]\nbudget_tokens = 1_000\n\n[worker]\nconcurrency = 2\n";
    let alias = ("IKIGAI_SLIDING_CONTEXT_TOKENS", "2000");
    let variable = ("RECAPD__WINDOW__BUDGET_TOKENS", "3_000");
    let set = "window.budget_tokens = 4000";
    let cases: [Precedence<'_>; 6] = [
        (None, &[], &[], 100_000, "default"),
        (Some(toml), &[], &[], 1_000, "recapd.toml:2"),
        (Some(toml), &[alias], &[], 2_000, "env IKIGAI_SLIDING_CONTEXT_TOKENS"),
        (Some(toml), &[variable, alias], &[], 3_000, "env RECAPD__WINDOW__BUDGET_TOKENS"),
        (Some(toml), &[alias, variable], &[], 3_000, "env RECAPD__WINDOW__BUDGET_TOKENS"),
        (Some(toml), &[alias, variable], &["window.budget_tokens=9", set], 4_000, "--set"),
    ];
    for (file, environment, sets, tokens, origin) in cases {
        let loaded = load(file, environment, sets).unwrap();
        assert_eq!(loaded.config.window.budget_tokens, tokens);
        let shown = loaded.origin("window.budget_tokens").to_string();
        assert!(shown.ends_with(origin), "{shown}");
        assert_eq!(loaded.config.worker.concurrency, if file.is_some() { 2 } else { 4 });
    }
}

#[test]
fn every_setting_of_an_agent_has_a_key_and_a_value_in_the_configuration() {
    let config = Config::default();
    let values = serde_json::json!(config.agent_settings());
    let entries = load(None, &[], &[]).unwrap().entries();
    for (name, key) in recapd_core::domain::settings::AgentSettings::keys() {
        let entry = entries.iter().find(|entry| entry.key == key).unwrap();
        assert_eq!(values[name].to_string(), entry.value, "{name}");
    }
    assert_eq!(config.basis(), recapd_core::domain::preset::Basis::default());
    assert_eq!(
        config.context.pins_max_tokens,
        recapd_core::domain::context::ContextOptions::default().pins_max_tokens
    );
}

#[test]
fn the_old_budget_variable_still_disables_eviction() {
    let loaded = load(None, &[("IKIGAI_SLIDING_CONTEXT_TOKENS", "0")], &[]).unwrap();
    assert!(!loaded.config.window.budget().is_exceeded_by(i64::MAX));
}

#[test]
fn values_are_read_by_the_type_of_the_key() {
    let toml =
        "[window]\nlow_water = 1\nbudget_tokens = 0x10\nprovider = \"7\"\n[http]\nlisten = \"[::1]:80\"\n";
    let config =
        load(Some(toml), &[("RECAPD__WINDOW__MODEL", "1"), ("PATH", "/bin")], &["convergence.stop_at=1"])
            .unwrap()
            .config;
    assert_eq!((config.window.low_water, config.convergence.stop_at), (1.0, 1.0));
    assert_eq!(config.window.budget_tokens, 16);
    assert_eq!((config.window.provider.as_str(), config.window.model.as_str()), ("7", "1"));
    assert_eq!(config.http.listen.to_string(), "[::1]:80");
}

#[test]
fn a_named_file_must_exist_and_the_system_file_need_not() {
    let missing = Path::new("/nonexistent/recapd.toml");
    let error = Loader::new().file(Some(missing)).load().unwrap_err().to_string();
    assert!(error.starts_with("the configuration file /nonexistent/recapd.toml can't be read: "), "{error}");

    let directory = tempfile::tempdir().unwrap();
    let system = directory.path().join("config.toml");
    fs::write(&system, "[worker]\nconcurrency = 7\n").unwrap();
    let loaded = Loader::new().file_or(None, &system).load().unwrap();
    assert_eq!(loaded.config.worker.concurrency, 7);

    fs::write(&system, "#".repeat(1_048_577)).unwrap();
    let error = Loader::new().file_or(None, &system).load().unwrap_err().to_string();
    assert!(error.contains("1048576 bytes; name another"), "{error}");
}

#[test]
fn the_environment_of_the_process_is_read() {
    // Cargo sets this for every test.
    assert_eq!(from_process_environment().get("CARGO_PKG_NAME"), Some("recapd-config"));
}
