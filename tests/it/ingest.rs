//! The ingestor: what it adds to a message before the store gets it.

use std::sync::Arc;

use recapd_config::Config;
use recapd_core::{
    domain::{
        message::{Format, Message},
        settings::SettingsPatch,
        time::{DAY_MS, HOUR_MS, Timestamp},
    },
    formats, tokenizer,
};
use recapd_engine::{assembly::Parts, ingest::Ingestor};
use recapd_store::{AppendOutcome, ExchangeQuery, StoreError};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::{
    backend::Backend as _,
    brittle::{Brittle, POISON},
    conversation::{T0, agent, minute, native},
    flaky_store::When,
    rig::{Rig, config},
};

/// Enough text that several threads share the counting.
const WORDS: usize = 4_000;

fn messages() -> Vec<Message> {
    let kinds = ["user", "assistant"].into_iter().cycle();
    let messages = kinds.take(40).enumerate().map(|(n, kind)| {
        let mut message = native(kind, &"word ".repeat(WORDS));
        // One in ten has a time.
        message.at = (n % 10 == 0).then(|| minute(-1_000 + i64::try_from(n).unwrap()));
        message
    });
    messages.collect()
}

/// A message without a time has that of the one before, also across the threads' shares.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn times_do_not_depend_on_how_the_counting_is_shared_out() {
    let mut config = config();
    config.window.budget_tokens = 0;
    let rig = Rig::new(&config).await;
    rig.clock.set(T0.plus_ms(HOUR_MS));
    rig.parts.ingestor.replay(&rig.agent, messages()).await.unwrap();
    let query = ExchangeQuery { from: 1, through: i64::MAX, limit: 100, bytes_max: i64::MAX };
    let stored = rig.parts.store.exchanges(&rig.agent, query).await.unwrap();
    let said_at: Vec<_> =
        stored.iter().flat_map(|stored| stored.messages.iter().map(|message| message.said_at)).collect();
    let expected: Vec<_> = (0..40).map(|n| minute(-1_000 + n / 10 * 10)).collect();
    assert_eq!(said_at, expected);
    assert_eq!(rig.row().await.as_of, Some(minute(-970)));
    let per_message = stored[0].messages[0].tokens;
    let tokens: i64 = stored.iter().map(|stored| stored.exchange.tokens).sum();
    assert_eq!(tokens, 40 * per_message, "each is counted once");
    rig.verify().await;
}

/// Without any time, messages get the current one.
#[tokio::test]
async fn a_message_without_a_time_gets_the_current_one() {
    let rig = Rig::new(&config()).await;
    rig.parts.ingestor.append(&rig.agent, vec![native("user", "Hi")]).await.unwrap();
    let row = rig.row().await;
    assert_eq!((row.ledger.newest.map(|newest| newest.opened_at), row.as_of), (Some(T0), None));
}

/// Transcripts begin with lines that have no time, and so may chunks of them.
#[tokio::test]
async fn a_replayed_message_without_a_time_gets_a_past_one() {
    let rig = Rig::new(&config()).await;
    for minutes in [-900, -800] {
        let mut answer = native("assistant", "Hello.");
        answer.at = Some(minute(minutes));
        let chunk = vec![native("user", "Hi"), answer];
        rig.parts.ingestor.replay(&rig.agent, chunk).await.unwrap();
        let row = rig.row().await;
        let newest = row.ledger.newest.unwrap();
        assert_eq!(newest.opened_at, minute(-900));
        assert_eq!(row.as_of, Some(minute(minutes)));
    }
    rig.verify().await;
}

/// Six turns within the last hour; in one of them the model's clock was wrong.
fn with_a_wrong_clock() -> Vec<Message> {
    let turn = |number: i64| {
        let mut turn = [
            native("user", "Please fix the next of the failing tests"),
            native("assistant", "Fixed, and it was an off-by-one error."),
        ];
        for message in &mut turn {
            message.at = Some(minute(number - 60));
        }
        if number == 1 {
            turn[1].at = Timestamp::parse("2099-01-01T00:00:00Z");
        }
        turn
    };
    (0..6).flat_map(turn).collect()
}

#[tokio::test]
async fn a_future_time_ages_nothing() {
    for is_replay in [false, true] {
        let rig = Rig::new(&config()).await;
        let (ingestor, messages) = (&rig.parts.ingestor, with_a_wrong_clock());
        let stored = if is_replay {
            ingestor.replay(&rig.agent, messages).await
        } else {
            ingestor.append(&rig.agent, messages).await
        };
        assert!(!stored.unwrap().evictions.is_empty());
        assert_eq!(rig.row().await.as_of, is_replay.then(|| minute(-55)));
        let latest = if is_replay { minute(-55) } else { T0 };
        let found = rig.db.number("SELECT max(last_at) FROM exchange_log").await;
        assert_eq!(found, Some(latest.0));
        rig.drain_later().await;
        let is_of_today = rig.content().await.contains("Previously in This Session");
        assert!(is_of_today, "replayed: {is_replay}: {}", rig.content().await);
        // Live messages age like any others.
        rig.clock.advance_ms(2 * DAY_MS);
        rig.parts.schedule.age().await.unwrap();
        rig.drain().await;
        let content = rig.content().await;
        let is_of_today = content.contains("Previously in This Session");
        assert_eq!(is_of_today, is_replay, "{content}");
        assert_eq!(content.contains("Yesterday"), !is_replay, "{content}");
        rig.verify().await;
    }
}

/// Agents of a model that can't be counted exactly.
fn claude() -> Config {
    let mut config = config();
    "anthropic".clone_into(&mut config.window.provider);
    "claude-opus-5".clone_into(&mut config.window.model);
    config.window.budget_tokens = 1_000_000;
    config
}

fn anthropic(message: &Value) -> Message {
    formats::parse(Format::Anthropic, &message.to_string()).unwrap()
}

fn question(words: usize) -> Message {
    anthropic(&json!({"role": "user", "content": "word ".repeat(words)}))
}

/// An answer to a prompt of this many tokens, by the provider's count.
fn answer(prompt_tokens: i64) -> Message {
    anthropic(&json!({"role": "assistant", "content": "Well done.", "model": "claude-opus-5-20260801",
        "usage": {"input_tokens": 5, "cache_read_input_tokens": prompt_tokens - 5, "output_tokens": 4}}))
}

/// Appends turns whose prompts grow by twice the estimate. Returns the last count method.
async fn report_twice(ingestor: &Ingestor, rig: &Rig, turns: i64) -> String {
    let plain = tokenizer::counter_for("anthropic", "claude-opus-5");
    let count = |message: &Message| recapd_core::domain::tokens::count_message(plain.as_ref(), message);
    let mut prompt = 10_000;
    for _ in 0..turns {
        let question = question(1_000);
        prompt += 2 * count(&question);
        let answer = answer(prompt);
        prompt += 2 * count(&answer);
        for message in [question, answer] {
            ingestor.append(&rig.agent, vec![message]).await.unwrap();
        }
    }
    let sql = "SELECT count_method FROM message_log ORDER BY id DESC LIMIT 1";
    rig.db.text(sql).await.unwrap()
}

#[tokio::test]
async fn usage_reports_calibrate_estimates() {
    let rig = Rig::new(&claude()).await;
    let ingestor = &rig.parts.ingestor;
    assert_eq!(report_twice(ingestor, &rig, 2).await, "o200k*claude-4.7");
    // The third answer closes the second, whose prompt is compared with the first one's.
    assert_eq!(report_twice(ingestor, &rig, 2).await, "o200k*claude-4.7×2.00");
    rig.verify().await;
    let factor = ingestor.counter_of(&rig.agent).await.unwrap();
    assert_eq!(factor.method(), "o200k*claude-4.7×2.00");
    // Other models aren't affected, and a replay is counted uncorrected.
    let replayed = "replayed".parse().unwrap();
    ingestor.replay(&replayed, vec![question(10)]).await.unwrap();
    let sql = "SELECT count_method FROM message_log WHERE agent_id = 'replayed'";
    assert_eq!(rig.db.text(sql).await.unwrap(), "o200k*claude-4.7");
    let (_, metrics) = rig.parts.metrics.encode(None);
    let line = "recapd_token_count_error_ratio_count{provider=\"anthropic\"} ";
    let seen = metrics.lines().find_map(|found| found.strip_prefix(line)).unwrap();
    assert!(seen.parse::<i64>().unwrap() >= 1, "{seen}");
}

#[tokio::test]
async fn what_was_learned_survives_a_restart() {
    let rig = Rig::new(&claude()).await;
    report_twice(&rig.parts.ingestor, &rig, 4).await;
    rig.parts.ingestor.keep_calibrations().await.unwrap();
    rig.parts.ingestor.keep_calibrations().await.unwrap();
    let (model, clock) = (Arc::clone(&rig.model) as _, Arc::clone(&rig.clock) as _);
    let prices = claude().spend.prices().unwrap();
    let again = Parts::new((&claude(), prices), rig.db.store(), model, clock, "daemon", 7);
    let method = async || again.ingestor.counter_of(&rig.agent).await.unwrap().method().to_owned();
    assert_eq!(method().await, "o200k*claude-4.7");
    again.ingestor.load_calibrations().await.unwrap();
    assert_eq!(method().await, "o200k*claude-4.7×2.00");
}

#[tokio::test]
async fn a_failing_database_does_not_stop_calibration() {
    let rig = Rig::new(&claude()).await;
    let ingestor = &rig.parts.ingestor;
    report_twice(ingestor, &rig, 4).await;
    rig.flaky.fail("keep_calibrations", 1, When::Before);
    ingestor.keep_calibrations().await.unwrap_err();
    rig.flaky.mend();
    ingestor.keep_calibrations().await.unwrap();
    assert_eq!(rig.db.number("SELECT count(*) FROM calibrations").await, Some(1));
}

async fn set(ingestor: &Ingestor, rig: &Rig, patch: Value) {
    let patch = SettingsPatch::parse(patch).unwrap();
    ingestor.change_settings(&rig.agent, &patch).await.unwrap();
}

async fn methods(rig: &Rig) -> String {
    let sql = "SELECT group_concat(method) FROM (SELECT DISTINCT coalesce(r.count_method, m.count_method) AS method \
               FROM message_log m LEFT JOIN recounts r ON r.agent_id = m.agent_id AND r.seq = m.seq ORDER BY 1)";
    rig.db.text(sql).await.unwrap()
}

#[tokio::test]
async fn a_change_of_model_recounts_before_it_returns() {
    let rig = Rig::new(&claude()).await;
    let ingestor = &rig.parts.ingestor;
    rig.say(10).await;
    assert_eq!(methods(&rig).await, "o200k*claude-4.7");
    set(ingestor, &rig, json!({"provider": "openai", "model": "gpt-5"})).await;
    assert_eq!(methods(&rig).await, "o200k");
    let lived = Rig::new(&{
        let mut config = claude();
        "openai".clone_into(&mut config.window.provider);
        config
    })
    .await;
    lived.say(10).await;
    let tokens = (rig.row().await.ledger.window_tokens(), lived.row().await.ledger.window_tokens());
    assert_eq!(tokens.0, tokens.1);
    rig.verify().await;
}

#[tokio::test]
async fn a_failed_recount_is_repeated() {
    let rig = Rig::new(&claude()).await;
    let ingestor = &rig.parts.ingestor;
    rig.say(4).await;
    rig.flaky.fail("recount", 1, When::After);
    set(ingestor, &rig, json!({"provider": "openai", "model": "gpt-5"})).await;
    rig.flaky.mend();
    ingestor.recount_due().await.unwrap();
    assert_eq!(methods(&rig).await, "o200k");
    // Another program changes it: the next append is counted as before, and later recounted.
    let patch = SettingsPatch::parse(json!({"provider": null, "model": null})).unwrap();
    let store = rig.db.store();
    store.change_settings(&rig.agent, &patch, T0).await.unwrap();
    ingestor.recount_due().await.unwrap();
    set(ingestor, &rig, json!({})).await;
    rig.say(1).await;
    let patch = SettingsPatch::parse(json!({"provider": "google"})).unwrap();
    store.change_settings(&rig.agent, &patch, T0).await.unwrap();
    rig.say(1).await;
    ingestor.recount_due().await.unwrap();
    assert_eq!(methods(&rig).await, "o200k*gemini");
    rig.verify().await;
}

/// The ingestor of `rig`, whose counter panics over one word for agents of `OpenAI` only.
fn brittle(rig: &Rig) -> Ingestor {
    let find = |provider: &str, model: &str| match provider {
        "openai" => Brittle::counter(),
        _ => tokenizer::counter_for(provider, model),
    };
    let ingestor = rig.parts.ingestor.clone();
    ingestor.counting_each("anthropic", "claude-opus-5", Arc::new(find))
}

/// The same as [`brittle`], for all agents.
fn brittle_for_all(rig: &Rig) -> Ingestor {
    let ingestor = rig.parts.ingestor.clone();
    ingestor.counting_each("openai", "gpt-5", Arc::new(|_: &str, _: &str| Brittle::counter()))
}

#[tokio::test]
async fn a_panic_while_counting_is_not_reported_as_a_database_failure() {
    let rig = Rig::new(&config()).await;
    let ingestor = brittle_for_all(&rig);
    // Once counted on the same thread, once on other threads.
    for words in [1, WORDS * 10] {
        let text = format!("{}{POISON}", "word ".repeat(words));
        let appended = ingestor.append(&rig.agent, vec![native("user", &text)]).await;
        assert!(matches!(appended, Err(StoreError::Panicked(_))), "{appended:?}");
    }
    assert!(rig.db.store().agent(&rig.agent).await.unwrap().is_none());
    ingestor.append(&rig.agent, vec![native("user", "Hi")]).await.unwrap();
    rig.verify().await;
}

/// A message that takes long to count, always with the same id.
fn long(word: &str) -> Message {
    Message {
        client_id: Some("m".to_owned()),
        ..native("user", &format!("{}{word}", "word ".repeat(1 << 18)))
    }
}

#[tokio::test]
async fn a_long_duplicate_is_not_counted_again() {
    let rig = Rig::new(&config()).await;
    let (ingestor, brittle) = (&rig.parts.ingestor, brittle_for_all(&rig));
    let counted = ingestor.append(&rig.agent, vec![long(POISON)]).await.unwrap();
    let again = brittle.append(&rig.agent, vec![long(POISON)]).await.unwrap();
    assert_eq!((counted.accepted, counted.duplicates), (1, 0));
    assert_eq!((again.accepted, again.duplicates), (0, 1));
    let figures = |outcome: &AppendOutcome| (outcome.exchange, outcome.window_tokens, outcome.created_at);
    assert_eq!(figures(&again), figures(&counted));
    // Another message with this id is refused; a duplicate doesn't prevent storing the rest.
    let other = ingestor.append(&rig.agent, vec![long("other")]).await;
    assert!(matches!(other, Err(StoreError::ClientIdReused(_))), "{other:?}");
    let both = vec![long(POISON), native("user", "And this")];
    let both = ingestor.append(&rig.agent, both).await.unwrap();
    assert_eq!((both.accepted, both.duplicates), (1, 1));
    rig.verify().await;
}

#[tokio::test]
async fn an_inserted_message_that_cannot_be_counted_is_set_aside() {
    let rig = Rig::new(&config()).await;
    let inserted = [("a", "one"), ("a", POISON), ("a", "two"), ("b", POISON), ("c", POISON), ("d", "three")];
    for (agent, content) in inserted {
        let sql =
            format!("INSERT INTO messages (agent_id, role, content) VALUES ('{agent}', 'user', '{content}')");
        rig.db.speak(&sql).await.unwrap();
    }
    let stop = CancellationToken::new();
    let ingestor = brittle_for_all(&rig);
    ingestor.empty_inbox(&rig.db.inbox(), &stop).await.unwrap();
    let text = async |sql: &str| rig.db.text(sql).await.unwrap();
    let taken = "SELECT group_concat(agent_id || ' ' || content, ', ') FROM (SELECT * FROM messages ORDER BY agent_id, id)";
    assert_eq!(text(taken).await, "a one, a two, d three");
    let refused = "SELECT group_concat(agent_id) FROM (SELECT * FROM refused_messages ORDER BY id)";
    assert_eq!(text(refused).await, "a,b,c");
    let reason = text("SELECT DISTINCT reason FROM refused_messages").await;
    assert!(reason.starts_with("counting tokens panicked"), "{reason}");
    let (_, metrics) = rig.parts.metrics.encode(None);
    let counted = "recapd_inbox_refused_total{reason=\"defect\"} 3";
    assert!(metrics.contains(counted), "{metrics}");
}

#[tokio::test]
async fn an_agent_that_cannot_be_recounted_does_not_block_others() {
    let rig = Rig::new(&claude()).await;
    let (ingestor, store, last) = (brittle(&rig), rig.db.store(), agent("b"));
    let patch = SettingsPatch::parse(json!({"provider": "openai", "model": "gpt-5"})).unwrap();
    for (agent, content) in [(&rig.agent, POISON), (&last, "Hi")] {
        ingestor.append(agent, vec![native("user", content)]).await.unwrap();
        store.change_settings(agent, &patch, T0).await.unwrap();
    }
    assert_eq!(methods(&rig).await, "o200k*claude-4.7");
    ingestor.recount_due().await.unwrap();
    assert_eq!(methods(&rig).await, "o200k,o200k*claude-4.7");
    assert_eq!(
        store.recounts_due(10).await.unwrap(),
        std::slice::from_ref(&rig.agent),
        "the other one has its new counts"
    );
}
