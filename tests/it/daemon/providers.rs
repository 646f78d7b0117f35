//! Whole updates through each provider, and secrets that must not show while they fail.

use std::{
    fs::{self, File},
    process::Stdio,
    time::Duration,
};

use super::{AGENT, Daemon, IMPATIENT};
use crate::{
    llm,
    support::fake_provider::{FakeProvider, Planned, Shape, Trouble, Wait},
};

/// Must never be seen.
const KEY: &str = "sk-very-secret-key";
/// How long to wait for a call to the model before adding another agent.
const PAUSE: Duration = Duration::from_millis(500);
/// The most agents added while waiting for a call.
const AGENTS_MAX: usize = 500;

/// The settings that make a daemon use `fake` in that shape.
fn mode(shape: Shape, fake: &FakeProvider) -> [String; 3] {
    [
        format!("model.mode={}", shape.name()),
        format!("model.base_url={}", fake.base_url(shape)),
        "model.model=small-model".to_owned(),
    ]
}

fn key_variable(shape: Shape) -> &'static str {
    match shape {
        Shape::Anthropic => "ANTHROPIC_API_KEY",
        Shape::OpenAi | Shape::Responses => "OPENAI_API_KEY",
        Shape::Gemini => "GEMINI_API_KEY",
        Shape::Ollama => "OLLAMA_API_KEY",
    }
}

#[tokio::test]
async fn every_provider_writes_a_summary_and_recovers() {
    futures::future::join_all(Shape::ALL.map(writes_and_recovers)).await;
}

async fn writes_and_recovers(shape: Shape) {
    let fake = FakeProvider::start();
    let mode = mode(shape, &fake);
    let daemon = super::started(&fake, &mode.each_ref().map(String::as_str)).await;
    daemon.turn(1).await;
    daemon.turn(2).await;
    daemon.until_version(1).await;
    let first = daemon.summary().await;
    assert!(first["content"].as_str().unwrap().contains("Exchange 1 was served"), "{first}");

    fake.plan([
        Planned::Trouble(Trouble::RateLimited, Wait::Millis(30)),
        Planned::Trouble(Trouble::Overloaded, Wait::Unsaid),
        Planned::CutConnection,
        Planned::Length,
    ]);
    daemon.turn(3).await;
    daemon.until_version(2).await;
    let provider = shape.name();
    let metric = async |rest: &str| {
        daemon.metric(&format!("recapd_provider_{rest}").replace("PROVIDER", provider)).await
    };
    for class in ["rate_limited", "overloaded", "network"] {
        let count = metric(&format!("errors_total{{provider=\"PROVIDER\",class=\"{class}\"}}")).await;
        assert_eq!(count, 1, "{provider} {class}");
    }
    let tokens = async |kind: &str| {
        metric(&format!("tokens_total{{provider=\"PROVIDER\",model=\"small-model\",type=\"{kind}\"}}")).await
    };
    let kinds = [tokens("input").await, tokens("cache_read").await, tokens("output").await];
    assert!(kinds[0] > 100 && kinds[2] > 10, "{provider}: {kinds:?}");
    assert_eq!(kinds[1] > 100, shape != Shape::Ollama, "{provider}: {kinds:?}");
    assert_eq!(daemon.summary().await["pending_exchanges"], 0);
    fake.assert_well_formed();
}

/// At the finest log level, with the provider failing in every way and echoing what it was sent.
#[tokio::test]
async fn no_failure_shows_a_key_or_a_prompt_in_log_or_database() {
    futures::future::join_all(Shape::ALL.map(shows_nothing)).await;
}

/// Pushes a new agent's first exchange out of its window.
async fn evict_one(daemon: &Daemon, agent: &str) {
    for number in 1..=2 {
        daemon.turn_of(agent, number).await;
    }
}

async fn shows_nothing(shape: Shape) {
    let fake = FakeProvider::start();
    let log_folder = tempfile::tempdir().unwrap();
    let log = log_folder.path().join("log");
    let mode = mode(shape, &fake);
    let mut settings: Vec<&str> = mode.iter().map(String::as_str).collect();
    settings.extend(IMPATIENT);
    settings.extend(["queue.attempts_max=100", "queue.revive_after_ms=0"]);
    let environment = [(key_variable(shape), KEY), ("RUST_LOG", "trace")];
    let daemon = Daemon::start_with(&fake, &settings, &environment, Stdio::from(File::create(&log).unwrap()));
    daemon.until_ready().await;
    let prompt = "Question 1 about src/module_1.rs: why does it fail with E1?";
    let planned: Vec<Planned> = llm::failures(shape)
        .into_iter()
        .map(|(planned, _)| planned)
        .chain(llm::echoes(KEY, prompt))
        .chain([Planned::Hang, Planned::Stall, Planned::Garbage, Planned::Garbage])
        .collect();
    let count = planned.len();
    fake.plan(planned);
    // Final failures are retried after a minute, all others soon, so a new agent causes the next call.
    for number in 1.. {
        let before = fake.requests().len();
        if before >= count {
            break;
        }
        assert!(number <= AGENTS_MAX, "{shape:?}: {before} of {count} calls");
        evict_one(&daemon, &format!("agent-{number}")).await;
        drop(tokio::time::timeout(PAUSE, fake.arrived(before + 1)).await);
    }
    evict_one(&daemon, AGENT).await;
    daemon
        .until("the last one is summarised", async |daemon: &Daemon| {
            daemon.summary().await["pending_exchanges"] == 0
        })
        .await;
    fake.assert_well_formed();
    for request in fake.requests() {
        assert!(request.header(shape.key_header()).ends_with(KEY));
    }

    let log = fs::read_to_string(&log).unwrap();
    assert!(log.contains("llm.failed") && log.contains("TRACE"), "{shape:?} logs finely");
    assert_eq!(shape.request_id_header().is_some(), log.contains("req_fake"));
    for secret in [KEY, "very-secret", "fail with E1"] {
        let found = log.lines().find(|line| line.contains(secret));
        assert_eq!(found, None, "{shape:?}: {secret} is logged");
    }
    let mut files = 0;
    for file in fs::read_dir(daemon.folder.path()).unwrap() {
        let bytes = fs::read(file.unwrap().path()).unwrap();
        let holds_key = bytes.windows(KEY.len()).any(|window| window == KEY.as_bytes());
        assert!(!holds_key, "{shape:?}: the database holds the key");
        files += 1;
    }
    assert!(files >= 1, "there is a database");
}
