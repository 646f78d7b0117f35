//! The reference is the default, every comment is true, sources have their order, and errors help.

use std::{fs, path::Path};

use secrecy::ExposeSecret as _;
use toml::Value;

use super::{keys::INTEGER_LIMITS, *};

type Pairs<'a> = &'a [(&'a str, &'a str)];
/// File, environment, flags; the budget and the origin that come out.
type Precedence<'a> = (Option<&'a str>, Pairs<'a>, &'a [&'a str], i64, &'a str);

fn load(toml: Option<&str>, environment: Pairs<'_>, sets: &[&str]) -> Result<Loaded, String> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("recapd.toml");
    if let Some(toml) = toml {
        fs::write(&path, toml).unwrap();
    }
    let loader = Loader::new()
        .file_or(
            toml.map(|_| path.as_path()),
            Path::new("/nonexistent/recapd.toml"),
        )
        .environment(environment.iter().copied());
    let loader = sets.iter().fold(loader, |loader, set| loader.set(*set));
    let here = format!("{}/", directory.path().display());
    loader
        .load()
        .map_err(|error| error.to_string().replace(&here, ""))
}

/// The keys of `config.toml` with the comment before each, as one line.
fn documented() -> Vec<(String, String)> {
    let (mut section, mut comment, mut found) = (String::new(), Vec::new(), Vec::new());
    for line in DEFAULT_TOML.lines() {
        if let Some(text) = line.strip_prefix('#') {
            comment.push(text.trim());
        } else if let Some(name) = line.strip_prefix('[') {
            name.trim_end_matches(']').clone_into(&mut section);
        } else if let Some((key, _)) = line.split_once(" = ") {
            found.push((format!("{section}.{key}"), comment.join(" ")));
            comment.clear();
        } else {
            comment.clear();
        }
    }
    found
}

#[test]
fn the_reference_is_the_default() {
    let loaded = load(None, &[], &[]).unwrap();
    assert_eq!(loaded.config, Config::default());
    assert_eq!(loaded.config.validate(), []);
    assert_eq!(
        load(Some(DEFAULT_TOML), &[], &[]).unwrap().config,
        Config::default()
    );

    let entries = loaded.entries();
    assert!(entries.iter().all(|entry| entry.origin == Origin::Default));
    let shown: Vec<String> = entries
        .iter()
        .map(|entry| format!("{} = {}", entry.key, entry.value))
        .collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    context.max_tokens = 160000
    database.busy_timeout_ms = 5000
    database.group_commit_max = 256
    database.readers = 4
    database.synchronous = "full"
    database.url = "sqlite:recapd.db"
    http.batch_messages_max = 10000
    http.body_bytes_max = 33554432
    http.listen = "127.0.0.1:7411"
    http.request_timeout_ms = 30000
    log.format = "auto"
    log.level = "info"
    model.api_key_file = ""
    model.base_url = "https://api.openai.com/v1"
    model.connect_timeout_ms = 5000
    model.mode = "offline"
    model.model = "gpt-5.4-mini"
    model.output_limit_field = "auto"
    model.output_tokens_max = 4000
    model.timeout_ms = 60000
    queue.attempts_max = 5
    queue.backoff_base_ms = 5000
    queue.backoff_max_ms = 900000
    queue.batch_exchanges = 3
    queue.crashes_max = 3
    queue.debounce_ms = 2000
    queue.lease_ms = 15000
    queue.max_wait_ms = 120000
    queue.poll_ms = 1000
    queue.reconcile_ms = 300000
    queue.revive_after_ms = 600000
    schedule.ageing = "0 3 * * *"
    schedule.journal_keep_hours = 24
    schedule.prune = "30 3 * * *"
    schedule.runs_keep_days = 90
    schedule.versions_keep = 50
    session.idle_gap_minutes = 240
    summary.ageing = "age"
    summary.append_below = 0.8
    summary.max_tokens = 10000
    summary.merge_below = 0.95
    summary.session_hours = 24
    summary.week_hours = 336
    summary.yesterday_hours = 168
    window.budget_tokens = 100000
    window.low_water = 0.8
    window.model = "gpt-5"
    window.provider = "openai"
    worker.batch_exchanges_max = 200
    worker.concurrency = 4
    worker.drain_ms = 30000
    worker.input_tokens_max = 24000
    worker.said_chars_max = 6000
    worker.tool_chars_max = 1200
    "#);
}

#[test]
fn defaults_that_stand_elsewhere_too_agree() {
    let config = Config::default();
    assert_eq!(
        config.queue.retry_policy(),
        crate::domain::work::RetryPolicy::default()
    );
    assert_eq!(config.window.budget().low_water_tokens(), 80_000);
    assert_eq!(config.worker.drain(), std::time::Duration::from_secs(30));
}

#[test]
fn every_key_has_a_comment_of_one_to_three_lines() {
    let documented = documented();
    let entries = load(None, &[], &[]).unwrap().entries();
    assert_eq!(documented.len(), entries.len());
    for (key, comment) in documented {
        assert!(
            comment.ends_with('.') && comment.len() <= 3 * 120,
            "{key}: {comment}"
        );
    }
}

#[test]
fn the_limits_in_the_comments_are_the_limits() {
    let values: Value = toml::from_str(DEFAULT_TOML).unwrap();
    let limits_of = |key: &str| INTEGER_LIMITS.iter().find(|(name, ..)| *name == key);
    for (key, comment) in documented() {
        let (section, name) = key.split_once('.').unwrap();
        if !values[section][name].is_integer() {
            assert_eq!(limits_of(&key), None, "{key}");
            continue;
        }
        let (_, min, max) = limits_of(&key).unwrap_or_else(|| panic!("{key} has no limits"));
        let said = comment
            .split_once("From ")
            .and_then(|(_, rest)| rest.split_once(" to "))
            .unwrap();
        let number = |text: &str| -> i64 {
            let digits: String = text
                .chars()
                .take_while(|c| c.is_ascii_digit() || *c == '_')
                .collect();
            digits.replace('_', "").parse().unwrap()
        };
        assert_eq!((number(said.0), number(said.1)), (*min, *max), "{key}");

        let refused = format!("--set: {key} must be from {min} to {max}, not");
        for (value, fits) in [(min - 1, false), (*min, true), (*max, true), (max + 1, false)] {
            let text = load(None, &[], &[&format!("{key}={value}")])
                .err()
                .unwrap_or_default();
            assert_eq!(text.contains(&refused), !fits, "{key}={value}: {text}");
        }
    }
}

#[test]
fn every_value_in_the_comments_is_accepted_and_no_other() {
    let mut choices = 0;
    for (key, comment) in documented() {
        let Some((_, list)) = comment.split_once("One of ") else {
            continue;
        };
        choices += 1;
        // Of `max_tokens` and the like, only what stands between backticks is a value.
        for value in list.split('`').skip(1).step_by(2) {
            let loaded = load(None, &[], &[&format!("{key}={value}")]).unwrap();
            let entry = loaded
                .entries()
                .into_iter()
                .find(|entry| entry.key == key)
                .unwrap();
            assert_eq!(entry.value, format!("\"{value}\""));
        }
        let error = load(None, &[], &[&format!("{key}=sideways")]).unwrap_err();
        for value in list.split('`').skip(1).step_by(2) {
            assert!(error.contains(&format!("`{value}`")), "{error}");
        }
    }
    assert_eq!(choices, 6);
}

#[test]
fn each_source_wins_over_the_one_before() {
    let toml = "[window]\nbudget_tokens = 1_000\n\n[worker]\nconcurrency = 2\n";
    let alias = ("IKIGAI_SLIDING_CONTEXT_TOKENS", "2000");
    let variable = ("RECAPD__WINDOW__BUDGET_TOKENS", "3_000");
    let set = "window.budget_tokens = 4000";
    let cases: [Precedence<'_>; 6] = [
        (None, &[], &[], 100_000, "default"),
        (Some(toml), &[], &[], 1_000, "recapd.toml:2"),
        (
            Some(toml),
            &[alias],
            &[],
            2_000,
            "env IKIGAI_SLIDING_CONTEXT_TOKENS",
        ),
        (
            Some(toml),
            &[variable, alias],
            &[],
            3_000,
            "env RECAPD__WINDOW__BUDGET_TOKENS",
        ),
        (
            Some(toml),
            &[alias, variable],
            &[],
            3_000,
            "env RECAPD__WINDOW__BUDGET_TOKENS",
        ),
        (
            Some(toml),
            &[alias, variable],
            &["window.budget_tokens=9", set],
            4_000,
            "--set",
        ),
    ];
    for (file, environment, sets, tokens, origin) in cases {
        let loaded = load(file, environment, sets).unwrap();
        assert_eq!(loaded.config.window.budget_tokens, tokens);
        let shown = loaded.origin("window.budget_tokens").to_string();
        assert!(shown.ends_with(origin), "{shown}");
        assert_eq!(
            loaded.config.worker.concurrency,
            if file.is_some() { 2 } else { 4 }
        );
    }
}

#[test]
fn the_old_name_of_the_budget_still_disables() {
    let loaded = load(None, &[("IKIGAI_SLIDING_CONTEXT_TOKENS", "0")], &[]).unwrap();
    assert!(!loaded.config.window.budget().is_exceeded_by(i64::MAX));
}

#[test]
fn values_are_read_by_the_type_of_the_key() {
    let toml =
        "[window]\nlow_water = 1\nbudget_tokens = 0x10\nprovider = \"7\"\n[http]\nlisten = \"[::1]:80\"\n";
    let config = load(
        Some(toml),
        &[("RECAPD__WINDOW__MODEL", "1"), ("PATH", "/bin")],
        &["summary.merge_below=1"],
    )
    .unwrap()
    .config;
    assert_eq!((config.window.low_water, config.summary.merge_below), (1.0, 1.0));
    assert_eq!(config.window.budget_tokens, 16);
    assert_eq!(
        (config.window.provider.as_str(), config.window.model.as_str()),
        ("7", "1")
    );
    assert_eq!(config.http.listen.to_string(), "[::1]:80");
}

/// What stands in a file, and what is said about it.
const FILE_ERRORS: &[(&str, &str)] = &[
    (
        "[window]\nbudget_token = 1",
        "recapd.toml:2: unknown key window.budget_token: did you mean window.budget_tokens?",
    ),
    (
        "budget_tokens = 1",
        "recapd.toml:1: unknown key budget_tokens: did you mean window.budget_tokens?",
    ),
    (
        "[queue]\nconcurrency = 1",
        "recapd.toml:2: unknown key queue.concurrency: did you mean worker.concurrency?",
    ),
    (
        "[queue]\nzebra = 1",
        "recapd.toml:2: unknown key queue.zebra: `recapd config show` lists all keys",
    ),
    (
        "\n[windw]\nbudget_tokens = 1",
        "recapd.toml:2: unknown section [windw]: did you mean [window]?",
    ),
    (
        "[zebra]",
        "recapd.toml:1: unknown section [zebra]: `recapd config show` lists all keys",
    ),
    (
        "window.budget_tokens = \"many\"",
        "recapd.toml:1: window.budget_tokens must be an integer, not `many`",
    ),
    (
        "window.budget_tokens = 1.5",
        "recapd.toml:1: window.budget_tokens must be an integer, not 1.5",
    ),
    (
        "window.budget_tokens = [1]",
        "recapd.toml:1: window.budget_tokens must be an integer, not a value of type array",
    ),
    (
        "window.low_water = true",
        "recapd.toml:1: window.low_water must be a number, not true",
    ),
    (
        "window.model = 5",
        "recapd.toml:1: window.model must be a text, not 5",
    ),
    (
        "window.low_water = nan",
        "recapd.toml:1: window.low_water must be above 0 and at most 1, not NaN",
    ),
    (
        "[window]\nlow_water = 0",
        "recapd.toml:2: window.low_water must be above 0 and at most 1, not 0",
    ),
    (
        "window.budget_tokens = -1",
        "recapd.toml:1: window.budget_tokens must be from 0 to 100000000, not -1",
    ),
    (
        "queue.poll_ms = -1",
        "recapd.toml:1: queue.poll_ms must be from 10 to 60000, not -1",
    ),
    (
        "summary.max_tokens = 10001",
        "recapd.toml:1: summary.max_tokens must be from 100 to 10000, not 10001",
    ),
    (
        "[database]\nsynchronous = \"fast\"",
        "recapd.toml:2: database.synchronous: unknown variant `fast`, expected one of `full`, `normal`, `off`",
    ),
    (
        "http.listen = \"localhost\"",
        "recapd.toml:1: http.listen: `localhost` is not an address and a port, such as `127.0.0.1:7411` or `[::1]:7411`",
    ),
    (
        "schedule.prune = \"0 3 * *\"",
        "recapd.toml:1: schedule.prune: expected five fields (minute hour day-of-month month weekday), such as \
             `0 3 * * *`, or @daily",
    ),
    (
        "database.url = \"postgres://me:geheim@host/db\"",
        "recapd.toml:1: database.url names a PostgreSQL database, which is not supported yet: use `sqlite:` and a path",
    ),
    (
        "database.url = \"recapd.db\"",
        "recapd.toml:1: database.url must be `sqlite:` and a path, such as `sqlite:/var/lib/recapd/recapd.db`",
    ),
    (
        "model.base_url = \"https://me:geheim@host/v1\"",
        "recapd.toml:1: model.base_url must not carry a user or a password: put the key into model.api_key_file",
    ),
    (
        "model.base_url = \"host\"",
        "recapd.toml:1: model.base_url must be a URL such as `https://api.openai.com/v1`",
    ),
    (
        "[model]\napi_key = \"geheim\"",
        "recapd.toml:2: model.api_key is not a key: a secret never stands in the configuration, use \
             model.api_key_file or the variable OPENAI_API_KEY",
    ),
    (
        "[model]\nmode = \"openai\"\nmodel = \"\"",
        "recapd.toml:3: model.model must name a model when model.mode is `openai`",
    ),
    (
        "[model]\napi_key = geheim",
        "recapd.toml:2: not TOML: string values must be quoted, expected literal string",
    ),
    (
        "[model]\nmodel = \"a\"\nmodel = \"b\"",
        "recapd.toml:3: not TOML: duplicate key",
    ),
];

#[test]
fn errors_in_a_file_name_line_key_and_cure() {
    for &(toml, text) in FILE_ERRORS {
        let error = load(Some(toml), &[], &[]).unwrap_err();
        assert_eq!(error, text, "{toml}");
        assert!(!error.contains("geheim"));
    }
}

#[test]
fn errors_in_the_environment_and_in_flags_speak_their_language() {
    let cases: [(Pairs<'_>, &[&str], &str); 8] = [
        (
            &[("RECAPD__WINDOW__BUDGET_TOKEN", "1")],
            &[],
            "env RECAPD__WINDOW__BUDGET_TOKEN: unknown key window.budget_token: did you mean RECAPD__WINDOW__BUDGET_TOKENS?",
        ),
        (
            &[("RECAPD__BUDGET_TOKENS", "1")],
            &[],
            "env RECAPD__BUDGET_TOKENS: unknown key budget_tokens: did you mean RECAPD__WINDOW__BUDGET_TOKENS?",
        ),
        (
            &[("RECAPD__MODEL__API_KEY", "geheim")],
            &[],
            "env RECAPD__MODEL__API_KEY: model.api_key is not a key: a secret never stands in the configuration, use \
             model.api_key_file or the variable OPENAI_API_KEY",
        ),
        (
            &[("IKIGAI_SLIDING_CONTEXT_TOKENS", "100k")],
            &[],
            "env IKIGAI_SLIDING_CONTEXT_TOKENS: window.budget_tokens must be an integer, not `100k`",
        ),
        (
            &[],
            &["window.budget_tokens"],
            "--set: expected section.key=value, such as window.budget_tokens=50000",
        ),
        (
            &[],
            &["queue.lease_ms=999"],
            "--set: queue.lease_ms must be from 1000 to 3600000, not 999",
        ),
        (
            &[("RECAPD__SUMMARY__APPEND_BELOW", "0.97")],
            &[],
            "env RECAPD__SUMMARY__APPEND_BELOW: summary.append_below (0.97) must not be more than summary.merge_below (0.95)",
        ),
        (
            &[("RECAPD__SUMMARY__SESSION_HOURS", "168")],
            &["log.level=loud"],
            "--set: log.level: unknown variant `loud`, expected one of `error`, `warn`, `info`, `debug`, `trace`\n\
             env RECAPD__SUMMARY__SESSION_HOURS: summary.session_hours (168) must be less than summary.yesterday_hours (168)",
        ),
    ];
    for (environment, sets, text) in cases {
        assert_eq!(load(None, environment, sets).unwrap_err(), text);
    }
}

#[test]
fn keys_that_must_fit_each_other_do() {
    let cases = [
        (
            "queue.debounce_ms=120001",
            "queue.debounce_ms (120001) must not be more than queue.max_wait_ms (120000)",
        ),
        (
            "queue.backoff_base_ms=900001",
            "queue.backoff_base_ms (900001) must not be more than queue.backoff_max_ms (900000)",
        ),
        (
            "worker.batch_exchanges_max=2",
            "queue.batch_exchanges (3) must not be more than worker.batch_exchanges_max (2)",
        ),
        (
            "model.timeout_ms=4999",
            "model.connect_timeout_ms (5000) must not be more than model.timeout_ms (4999)",
        ),
        (
            "summary.week_hours=100",
            "summary.yesterday_hours (168) must be less than summary.week_hours (100)",
        ),
        (
            "summary.merge_below=0.5",
            "summary.append_below (0.8) must not be more than summary.merge_below (0.5)",
        ),
    ];
    for (set, text) in cases {
        assert_eq!(load(None, &[], &[set]).unwrap_err(), format!("--set: {text}"));
    }
}

#[test]
fn a_configuration_built_by_hand_is_checked_like_a_loaded_one() {
    let mut config = Config::default();
    config.queue.lease_ms = 0;
    config.window.low_water = 0.0;
    let texts: Vec<String> = config
        .validate()
        .into_iter()
        .map(|violation| violation.text)
        .collect();
    assert_eq!(
        texts,
        [
            "queue.lease_ms must be from 1000 to 3600000, not 0",
            "window.low_water must be above 0 and at most 1, not 0",
        ]
    );
}

#[test]
fn a_named_file_must_be_there_and_the_system_file_may() {
    let missing = Path::new("/nonexistent/recapd.toml");
    let error = Loader::new().file(Some(missing)).load().unwrap_err().to_string();
    assert!(
        error.starts_with("the configuration file /nonexistent/recapd.toml can't be read: "),
        "{error}"
    );

    let directory = tempfile::tempdir().unwrap();
    let system = directory.path().join("config.toml");
    fs::write(&system, "[worker]\nconcurrency = 7\n").unwrap();
    let loaded = Loader::new().file_or(None, &system).load().unwrap();
    assert_eq!(loaded.config.worker.concurrency, 7);

    fs::write(&system, "#".repeat(1_048_577)).unwrap();
    let error = Loader::new()
        .file_or(None, &system)
        .load()
        .unwrap_err()
        .to_string();
    assert!(error.ends_with("larger than 1048576 bytes"), "{error}");
}

#[test]
fn the_key_comes_from_credential_then_file_then_variable() {
    let directory = tempfile::tempdir().unwrap();
    let credentials = directory.path().display().to_string();
    let file = directory.path().join("key");
    fs::write(&file, "sk-file\n").unwrap();
    let mut model = Config::default().model;
    let environment: Environment = [
        ("CREDENTIALS_DIRECTORY", credentials.as_str()),
        ("OPENAI_API_KEY", "sk-variable"),
    ]
    .into_iter()
    .collect();
    let key = |model: &ModelConfig, environment: &Environment| {
        api_key(model, environment)
            .unwrap()
            .map(|key| key.expose_secret().to_owned())
    };

    assert_eq!(key(&model, &Environment::default()), None);
    assert_eq!(key(&model, &environment).as_deref(), Some("sk-variable"));
    model.api_key_file = file.display().to_string();
    assert_eq!(key(&model, &environment).as_deref(), Some("sk-file"));
    fs::write(directory.path().join("openai_api_key"), "sk-other\n").unwrap();
    assert_eq!(key(&model, &environment).as_deref(), Some("sk-other"));
    fs::write(directory.path().join("llm-api-key"), "  sk-credential\n").unwrap();
    assert_eq!(key(&model, &environment).as_deref(), Some("sk-credential"));
}

#[test]
fn a_bad_key_is_refused_without_showing_it() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("key");
    let mut model = Config::default().model;
    model.api_key_file = file.display().to_string();
    let refusal = |text: &str| {
        fs::write(&file, text).unwrap();
        api_key(&model, &Environment::default()).unwrap_err().to_string()
    };
    for text in ["", "\n", "geheim geheim", "geheim\ngeheim", "gehéim"] {
        assert_eq!(
            refusal(text),
            format!(
                "{} holds no key: expected one line of printable ASCII without blanks",
                file.display()
            )
        );
    }
    assert!(refusal(&"x".repeat(16_385)).ends_with("larger than 16384 bytes"));
    fs::remove_file(&file).unwrap();
    let error = api_key(&model, &Environment::default()).unwrap_err().to_string();
    assert!(
        error.starts_with("the key file ") && error.contains("can't be read"),
        "{error}"
    );
}

#[test]
fn nothing_prints_a_secret() {
    let environment: Environment = [("OPENAI_API_KEY", "geheim")].into_iter().collect();
    assert_eq!(format!("{environment:?}"), r#"{"OPENAI_API_KEY"}"#);
    let key = api_key(&Config::default().model, &environment).unwrap();
    assert!(key.is_some() && !format!("{key:?}").contains("geheim"));
    let loaded = Loader::new().environment(environment.pairs()).load().unwrap();
    assert!(!format!("{loaded:?}").contains("geheim"));
}

#[test]
fn the_environment_of_the_process_is_read() {
    // Cargo sets this for every test.
    assert_eq!(from_process_environment().get("CARGO_PKG_NAME"), Some("recapd"));
}
