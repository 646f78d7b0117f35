//! Errors name their source, the key and the cure.

use std::fs;

use super::{Pairs, load};
use crate::{Config, ConfigError, ConfigProblem, Loader, LogFormat};

const FILE_ERRORS: &[(&str, &str)] = &[
    (
        "[window]\nbudget_token = 1",
        "recapd.toml:2: unknown key window.budget_token: did you mean window.budget_tokens?",
    ),
    ("budget_tokens = 1", "recapd.toml:1: unknown key budget_tokens: did you mean window.budget_tokens?"),
    (
        "[queue]\nconcurrency = 1",
        "recapd.toml:2: unknown key queue.concurrency: did you mean worker.concurrency?",
    ),
    ("[queue]\nzebra = 1", "recapd.toml:2: unknown key queue.zebra: `recapd config show` lists all keys"),
    ("\n[windw]\nbudget_tokens = 1", "recapd.toml:2: unknown section [windw]: did you mean [window]?"),
    ("[zebra]", "recapd.toml:1: unknown section [zebra]: `recapd config show` lists all keys"),
    ("window.budget_tokens = \"many\"", "recapd.toml:1: window.budget_tokens must be an integer, not `many`"),
    ("window.budget_tokens = 1.5", "recapd.toml:1: window.budget_tokens must be an integer, not 1.5"),
    (
        "window.budget_tokens = [1]",
        "recapd.toml:1: window.budget_tokens must be an integer, not a list with other values",
    ),
    (
        "summary.redact_patterns = 'a'",
        "recapd.toml:1: summary.redact_patterns must be a list of texts such as `['ab+', 'c']`, not `a`",
    ),
    (
        "summary.redact_patterns = ['a', 1]",
        "recapd.toml:1: summary.redact_patterns must be a list of texts such as `['ab+', 'c']`, not a list with other \
         values",
    ),
    (
        "summary.redact_patterns = ['ok', '(']",
        "recapd.toml:1: summary.redact_patterns: pattern 2 is not a regular expression: unclosed group",
    ),
    ("window.low_water = true", "recapd.toml:1: window.low_water must be a number, not true"),
    ("window.model = 5", "recapd.toml:1: window.model must be a text, not 5"),
    ("window.low_water = nan", "recapd.toml:1: window.low_water must be above 0 and at most 1, not NaN"),
    ("[window]\nlow_water = 0", "recapd.toml:2: window.low_water must be above 0 and at most 1, not 0"),
    ("window.budget_tokens = -1", "recapd.toml:1: window.budget_tokens must be from 0 to 100000000, not -1"),
    ("queue.poll_ms = -1", "recapd.toml:1: queue.poll_ms must be from 10 to 60000, not -1"),
    ("summary.max_tokens = 10001", "recapd.toml:1: summary.max_tokens must be from 100 to 10000, not 10001"),
    (
        "[database]\nsynchronous = \"fast\"",
        "recapd.toml:2: database.synchronous: unknown variant `fast`, expected one of `full`, `normal`, `off`",
    ),
    (
        "[database]\nmigrate = \"never\"",
        "recapd.toml:2: database.migrate: unknown variant `never`, expected `auto` or `manual`",
    ),
    (
        "http.listen = \"localhost\"",
        "recapd.toml:1: http.listen: `localhost` is not an address and a port, such as `127.0.0.1:7411` or `[::1]:7411`, nor `unix:` \
         and the path of a socket, from the root and of at most 107 bytes, such as `unix:/run/recapd/recapd.sock`",
    ),
    (
        "schedule.prune = \"0 3 * *\"",
        "recapd.toml:1: schedule.prune: expected five fields (minute hour day-of-month month weekday), such as \
             `0 3 * * *`, or @daily",
    ),
    (
        "database.url = \"postgres://me:geheim@host/db\"",
        "recapd.toml:1: database.url must not hold a password: put it into a file of the form \
             `host:port:database:user:password` and name that in PGPASSFILE, or set PGPASSWORD",
    ),
    (
        "database.url = \"postgres://me@host/db?password=geheim\"",
        "recapd.toml:1: database.url must not hold a password: put it into a file of the form \
             `host:port:database:user:password` and name that in PGPASSFILE, or set PGPASSWORD",
    ),
    (
        "database.read_url = \"postgres://me@host/db\"",
        "recapd.toml:1: database.read_url needs a database.url of PostgreSQL",
    ),
    (
        "database.url = \"recapd.db\"",
        "recapd.toml:1: database.url must be `sqlite:` and a path without `?`, such as `sqlite:/var/lib/recapd/recapd.db`, or \
             `postgres://USER@HOST/DATABASE`",
    ),
    (
        "database.url = \"sqlite:recapd.db?mode=ro\"",
        "recapd.toml:1: database.url must be `sqlite:` and a path without `?`, such as `sqlite:/var/lib/recapd/recapd.db`, or \
             `postgres://USER@HOST/DATABASE`",
    ),
    (
        "model.base_url = \"https://me:geheim@host/v1\"",
        "recapd.toml:1: model.base_url must not carry a user or a password: put the key into model.api_key_file",
    ),
    (
        "model.proxy = \"unix:egress.sock\"",
        "recapd.toml:1: model.proxy must be a proxy such as `http://127.0.0.1:3128`, or a socket such as \
         `unix:/run/recapd-egress.sock`",
    ),
    (
        "fallback.proxy = \"http://me:geheim@host:3128\"",
        "recapd.toml:1: fallback.proxy must not carry a user or a password",
    ),
    (
        "trace.otlp_url = \"localhost:4317\"",
        "recapd.toml:1: trace.otlp_url must be the collector's address, such as `http://127.0.0.1:4318`",
    ),
    (
        "model.base_url = \"host\"",
        "recapd.toml:1: model.base_url must be a URL such as `https://api.openai.com/v1`",
    ),
    (
        "[model]\nmode = \"openai\"\nbase_url = \"http://gateway.example.com/v1\"",
        "recapd.toml:3: model.base_url is `http://` at another host: anyone on the network path can read the key and the \
         messages. Use `https://`, or set model.allow_http = true",
    ),
    (
        "[model]\nallow_http = true\n[fallback]\nmode = \"openai\"\nbase_url = \"http://10.0.0.5:8080\"",
        "recapd.toml:5: fallback.base_url is `http://` at another host: anyone on the network path can read the key and the \
         messages. Use `https://`, or set fallback.allow_http = true",
    ),
    (
        "[recall]\nembeddings = \"http://10.0.0.5:11434\"\nembeddings_model = \"m\"\nembeddings_dimensions = 3",
        "recapd.toml:2: recall.embeddings is `http://` at another host: anyone on the network path can read the key and the \
         messages. Use `https://`, or set recall.embeddings_allow_http = true",
    ),
    (
        "[recall]\nembeddings = \"localhost:11434\"\nembeddings_model = \"m\"\nembeddings_dimensions = 3",
        "recapd.toml:2: recall.embeddings must be a URL such as `https://api.openai.com/v1`",
    ),
    (
        "[recall]\nembeddings_dimensions = 0\nembeddings = \"http://127.0.0.1:11434/v1\"\nembeddings_model = \"m\"",
        "recapd.toml:2: recall.embeddings_dimensions must be the length of the model's vectors when recall.embeddings is set: \
         768 for nomic-embed-text, 1536 for text-embedding-3-small",
    ),
    (
        "[recall]\nembeddings_dimensions = 5000",
        "recapd.toml:2: recall.embeddings_dimensions must be from 0 to 4096, not 5000",
    ),
    (
        "[recall]\nembeddings_model = \"\"\nembeddings_dimensions = 3\nembeddings = \"http://127.0.0.1:11434/v1\"",
        "recapd.toml:2: recall.embeddings_model must name a model when recall.embeddings is set: nomic-embed-text, \
         text-embedding-3-small",
    ),
    (
        "[model]\napi_key = \"geheim\"",
        "recapd.toml:2: model.api_key is not a key: a secret never stands in the configuration, use \
             model.api_key_file or the provider's variable, such as OPENAI_API_KEY",
    ),
    (
        "[model]\nmode = \"openai\"\nmodel = \" \"",
        "recapd.toml:3: model.model must not be blank when model.mode is `openai`: leave it empty for the proposed model",
    ),
    (
        "[model]\nmode = \"ollama\"",
        "recapd.toml:2: model.model must name a model when model.mode is `ollama`: one that `ollama list` shows",
    ),
    (
        "[model]\nmode = \"claude\"",
        "recapd.toml:2: model.mode: unknown variant `claude`, expected one of `offline`, `anthropic`, `openai`, \
             `openai-responses`, `gemini`, `ollama`",
    ),
    (
        "[model]\nanthropic_version = \"2026-10-21\"",
        "recapd.toml:2: model.anthropic_version is no longer a key: the version is 2023-06-01; remove it",
    ),
    (
        "[model]\napi_key = geheim",
        "recapd.toml:2: not TOML: string values must be quoted, expected literal string",
    ),
    ("[model]\nmodel = \"a\"\nmodel = \"b\"", "recapd.toml:3: not TOML: duplicate key"),
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
fn plain_http_to_another_host_needs_explicit_consent() {
    let is_refused = |url: &str, more: &[&str]| {
        let url = format!("model.base_url={url}");
        let sets = [&["model.mode=openai", url.as_str()], more].concat();
        load(None, &[], &sets).is_err_and(|error| error.contains("model.allow_http"))
    };
    for near in [
        "http://127.0.0.1:4000/v1",
        "http://127.9.9.9",
        "http://[::1]:8080/v1",
        "http://[::ffff:127.0.0.1]",
        "http://localhost:1234",
        "http://LocalHost",
        "http://gateway.localhost/v1",
        "https://gateway.example.com",
    ] {
        assert!(!is_refused(near, &[]), "{near}");
    }
    for far in [
        "http://gateway.example.com/v1",
        "http://10.0.0.5:8080",
        "http://localhost.example.com",
        "http://notlocalhost",
        "http://[fd00::1]/v1",
        "http://0.0.0.0:80",
        "http://127.0.0.1.example.com",
    ] {
        assert!(is_refused(far, &[]), "{far}");
        assert!(!is_refused(far, &["model.allow_http=true"]), "{far}");
        assert!(!is_refused(far, &["model.proxy=unix:/run/egress.sock"]), "{far}");
        assert!(is_refused(far, &["model.proxy=http://127.0.0.1:3128"]), "{far}");
        assert!(!is_refused(far, &["model.mode=offline"]), "no request goes to {far}");
    }
}

/// Problems may be shown to others, and a secret may be in the wrong place.
#[test]
fn problems_can_be_shown_without_values() {
    for (key, value) in [
        ("convergence.weights", "content=geheim"),
        ("database.url", "postgres://geheim:geheim@host/db"),
        ("http.allowed_hosts", "['geheim!']"),
        ("http.listen", "geheim"),
        ("http.socket", "geheim"),
        ("http.socket_mode", "ge`heim` geheim"),
        ("http.trusted_proxies", "['geheim']"),
        ("model.base_url", "https://geheim@host"),
        ("model.effort", "geheim"),
        ("model.mode", "geheim"),
        ("model.proxy", "geheim"),
        ("schedule.prune", "0 geheim * * *"),
        ("spend.prices_file", "geheim/prices.toml"),
        ("summary.redact_patterns", "['(geheim']"),
        ("summary.time_zone", "geheim"),
        ("trace.attributes", "geheim"),
        ("trace.otlp_url", "geheim"),
        ("window.budget_tokens", "geheim"),
        ("window.preset", "geheim"),
    ] {
        let loader = Loader::new().set("convergence.profile=custom");
        let Err(ConfigError::Invalid(problems)) = loader.set(format!("{key}={value}")).load() else {
            panic!("{key} may be {value}");
        };
        let texts: Vec<String> = problems.iter().map(ConfigProblem::without_values).collect();
        assert!(texts[0].starts_with(key) && !texts.concat().contains("geheim"), "{texts:?}");
    }
}

#[test]
fn errors_in_the_environment_and_in_flags_use_their_spelling() {
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
             model.api_key_file or the provider's variable, such as OPENAI_API_KEY",
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
        (&[], &["queue.lease_ms=999"], "--set: queue.lease_ms must be from 1000 to 3600000, not 999"),
        (
            &[("RECAPD__SUMMARY__APPEND_BELOW", "0.97")],
            &[],
            "env RECAPD__SUMMARY__APPEND_BELOW: summary.append_below is no longer a key: new items are appended below 80 % of \
             summary.max_tokens; remove it",
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
fn values_that_contradict_each_other_are_refused() {
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
            "summary.week_hours=100",
            "summary.yesterday_hours (168) must be less than summary.week_hours (100)",
        ),
        (
            "convergence.stop_at=0.5",
            "convergence.warn_at (0.8) must not be more than convergence.stop_at (0.5): 0 turns one off",
        ),
        (
            "convergence.warn_at=1.5",
            "convergence.warn_at must be from 0 to 1, not 1.5\n\
             --set: convergence.warn_at (1.5) must not be more than convergence.stop_at (0.95): 0 turns one off",
        ),
        (
            "model.batch=true",
            "model.batch needs a provider that answers batches, not model.mode `offline`: one of `anthropic`, `openai`, \
             `openai-responses`, `gemini`",
        ),
    ];
    for (set, text) in cases {
        assert_eq!(load(None, &[], &[set]).unwrap_err(), format!("--set: {text}"));
    }
}

/// A limit in dollars is refused if some prices are unknown.
#[test]
fn limits_in_dollars_need_known_prices() {
    let unpriced = "--set: spend.usd_per_day can't be kept, since the price of `qwen3` isn't known: put it into a file \
                    that spend.prices_file names, or limit tokens or calls instead";
    for (sets, text) in [
        (&["spend.usd_per_day=-1"][..], "--set: spend.usd_per_day must be from 0 to 1000000, not -1"),
        (
            &["spend.agent_usd_per_day=1e9"],
            "--set: spend.agent_usd_per_day must be from 0 to 1000000, not 1000000000",
        ),
        (&["model.mode=ollama", "model.model=qwen3", "spend.usd_per_day=5"], unpriced),
        (
            &["model.mode=gemini", "fallback.mode=ollama", "fallback.model=qwen3", "spend.usd_per_day=5"],
            unpriced,
        ),
        (
            &["fallback.mode=ollama"],
            "--set: fallback.model must name a model when fallback.mode is `ollama`: one that `ollama list` shows",
        ),
        (
            &["fallback.base_url=https://user@host"],
            "--set: fallback.base_url must not carry a user or a password: put the key into fallback.api_key_file",
        ),
    ] {
        assert_eq!(load(None, &[], sets).unwrap_err(), text, "{sets:?}");
    }
    let missing = load(None, &[], &["spend.prices_file=/nonexistent/prices.toml"]).unwrap_err();
    assert!(
        missing.starts_with("--set: spend.prices_file: `/nonexistent/prices.toml` can't be read"),
        "{missing}"
    );
    for sets in [
        &["model.mode=gemini", "fallback.mode=anthropic", "spend.usd_per_day=5"][..],
        &["model.mode=ollama", "model.model=qwen3", "spend.tokens_per_day=5"],
        &["spend.usd_per_day=5"],
    ] {
        assert!(load(None, &[], sets).is_ok(), "{sets:?}");
    }
}

#[test]
fn a_custom_profile_has_five_weights() {
    let custom = |weights: &str| {
        let weights = format!("convergence.weights={weights}");
        let loaded = load(None, &[], &["convergence.profile=custom", &weights]);
        loaded.map(|loaded| loaded.config.convergence.rules().profile)
    };
    let even = "content=0.2 structure=0.2, sentences=0.2 length=0.2 punctuation=0.2";
    assert!(custom(even).is_ok());
    for (weights, text) in [
        (
            "content=1",
            "--set: convergence.weights: weights must be content=… structure=… sentences=… length=… punctuation=…, \
             each once",
        ),
        (
            "content=1 structure=0 sentences=0 length=0 punctuation=1",
            "--set: convergence.weights: weights must be 0 or more and 1 together, not 2",
        ),
    ] {
        assert_eq!(custom(weights).unwrap_err(), text);
    }
    let long = format!("perspective.human_tag={}", "x".repeat(129));
    assert_eq!(
        load(None, &[], &[&long]).unwrap_err(),
        "--set: perspective.human_tag must have at most 128 bytes, not 129"
    );
}

#[test]
fn a_configuration_built_in_code_is_checked_like_a_loaded_one() {
    let mut config = Config::default();
    config.queue.lease_ms = 0;
    config.window.low_water = 0.0;
    let texts: Vec<String> = config.validate().into_iter().map(|violation| violation.text).collect();
    assert_eq!(
        texts,
        [
            "queue.lease_ms must be from 1000 to 3600000, not 0",
            "window.low_water must be above 0 and at most 1, not 0",
        ]
    );
}

/// The daemon reports in this format why it didn't start.
#[test]
fn an_invalid_configuration_still_gives_the_log_format() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("recapd.toml");
    for (text, variable, expected) in [
        ("[log]\nformat = \"json\"\nlevl = \"info\"\n[worker]\nconcurrency = 0", "", LogFormat::Json),
        ("[log]\nformat = \"json\"", "text", LogFormat::Text),
        ("[log]\nformat = \"json\"", "xml", LogFormat::Json),
        ("no TOML", "json", LogFormat::Json),
        ("[log]\nformat = 1", "", LogFormat::Auto),
    ] {
        fs::write(&file, text).unwrap();
        let variables = [("RECAPD__LOG__FORMAT", variable)];
        let variables = variables.into_iter().filter(|(_, value)| !value.is_empty());
        let loader = Loader::new().file(Some(&file)).environment(variables);
        assert_eq!(loader.log_format(), expected, "{text} {variable}");
    }
}
