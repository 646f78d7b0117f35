//! Batches from end to end: questions that may wait are asked together, urgent ones directly, and whatever fails, each exchange is covered
//! once and paid for at most twice.

mod faults;
mod lost;
mod spend;

use std::sync::Arc;

use recapd_config::{Config, ModelMode};
use recapd_core::domain::{
    agent::AgentId,
    time::{HOUR_MS, MINUTE_MS},
    work::Reason,
};
use recapd_engine::{
    assembly,
    worker::{BatchPoller, Outcome},
};
use recapd_llm::batch::BatchModel;
use recapd_platform::clock::{Clock, ManualClock};
use recapd_store::batch::BatchFigures;

use crate::{
    llm,
    support::{
        backend::Backend as _,
        conversation::{T0, agent, native},
        fake_provider::{FakeProvider, Planned, Shape, Trouble, Wait, batches::Fate},
        flaky_batches::FlakyBatches,
        rig::{self, Rig},
        scripted::Reply,
    },
};

const SHAPES: [Shape; 4] = [Shape::Anthropic, Shape::OpenAi, Shape::Responses, Shape::Gemini];

/// A daemon with batches, and a provider for them. The scripted model answers direct questions.
struct BatchRig {
    rig: Rig,
    fake: FakeProvider,
    batch_poller: BatchPoller,
    config: Config,
}

fn config(shape: Shape, fake: &FakeProvider) -> Config {
    let mut config = rig::config();
    config.model.mode = match shape {
        Shape::Anthropic => ModelMode::Anthropic,
        Shape::OpenAi => ModelMode::OpenAi,
        Shape::Responses => ModelMode::OpenAiResponses,
        Shape::Gemini => ModelMode::Gemini,
        Shape::Ollama => ModelMode::Ollama,
    };
    config.model.base_url = fake.base_url(shape);
    "small-model".clone_into(&mut config.model.model);
    config.model.batch = true;
    config
}

fn model(config: &Config) -> Option<Arc<dyn BatchModel>> {
    models(config).batch
}

fn models(config: &Config) -> assembly::Models {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(T0));
    assembly::models(config, [Some("a-key".into()), None], &clock).unwrap()
}

impl BatchRig {
    async fn new(shape: Shape) -> Self {
        let fake = FakeProvider::start();
        let config = config(shape, &fake);
        Self::with(config, fake).await
    }

    async fn with(config: Config, fake: FakeProvider) -> Self {
        let mut rig = Rig::new(&config).await;
        let store = Arc::new(FlakyBatches { inner: rig.db.batches(), plan: Arc::clone(&rig.flaky) });
        rig.parts = rig.parts.with_batches(&config, store, model(&config));
        let batch_poller = rig.parts.worker.batch_poller().unwrap();
        Self { rig, fake, batch_poller, config }
    }

    /// Sends enough messages for an update, and has it deferred.
    async fn deferred(shape: Shape) -> Self {
        let one = Box::pin(Self::new(shape)).await;
        one.rig.say(6).await;
        assert_eq!(one.rig.drain().await, [Outcome::Deferred]);
        assert!(one.rig.verify().await.pending >= 3);
        one
    }

    /// As [`Self::deferred`], and has the batch sent.
    async fn sent(shape: Shape) -> Self {
        let one = Box::pin(Self::deferred(shape)).await;
        one.look().await;
        assert_eq!(one.fake.batches().sizes(), [1]);
        one
    }

    /// Advances the clock until every look is due, and looks.
    async fn look(&self) {
        self.rig.clock.advance_ms(11 * MINUTE_MS);
        self.fake.batches().set_clock(self.rig.clock.now());
        self.batch_poller.step().await.unwrap();
    }

    /// As [`Self::look`], and ignores errors.
    async fn try_look(&self) {
        self.rig.clock.advance_ms(11 * MINUTE_MS);
        self.fake.batches().set_clock(self.rig.clock.now());
        drop(self.batch_poller.step().await);
    }

    async fn number(&self, sql: &str) -> i64 {
        self.rig.db.number(sql).await.unwrap_or_default()
    }

    async fn figures(&self) -> BatchFigures {
        let now = self.rig.clock.now();
        self.rig.db.store().sample(now, HOUR_MS).await.unwrap().batches
    }

    /// Everything that was paid for: direct calls, and answers in batches.
    fn paid(&self) -> usize {
        self.rig.model.calls() + self.fake.batches().billed()
    }

    async fn questions(&self, state: &str) -> i64 {
        self.number(&format!("SELECT count(*) FROM batch_requests WHERE state = '{state}'")).await
    }
}

#[tokio::test]
async fn batched_questions_are_answered_and_applied_once() {
    for shape in SHAPES {
        let one = BatchRig::deferred(shape).await;
        let leased =
            "SELECT count(*) FROM summary_update_queue WHERE lease_token IS NOT NULL OR attempts > 0";
        assert_eq!(one.number(leased).await, 0, "nobody holds anything");
        assert_eq!(one.figures().await.waiting, 1);
        one.look().await;
        let figures = one.figures().await;
        assert_eq!((figures.intents, figures.submitted, figures.out), (0, 1, 1), "{shape:?}");
        assert_eq!(one.number("SELECT sum(length(body)) FROM batch_requests").await, 0);
        one.look().await;
        assert_eq!(one.rig.drain().await, [], "it isn't there yet");
        one.fake.batches().end(&[Fate::Good]);
        one.look().await;
        assert_eq!(one.rig.drain().await, [Outcome::Completed], "{shape:?}");
        assert_eq!((one.rig.verify().await.pending, one.rig.model.calls()), (0, 0));
        assert!(one.rig.content().await.contains("Exchange 1 was served"));
        let run = "SELECT count(*) FROM update_runs WHERE outcome = 'completed' AND batched = 1 AND model_calls = 1 \
                   AND input_tokens > 0 AND output_tokens > 0 AND model = 'small-model'";
        assert_eq!(one.number(run).await, 1, "{shape:?}");
        assert_eq!(one.figures().await, BatchFigures::default());
        one.fake.batches().assert_well_formed();
    }
}

#[tokio::test]
async fn many_agents_share_a_batch_and_get_their_own_answers() {
    for shape in SHAPES {
        let one = BatchRig::new(shape).await;
        let agents: Vec<AgentId> = ["a", "b", "c"].map(agent).into();
        for who in &agents {
            for _ in 0..6 {
                let turn = vec![
                    native("user", &format!("Please help {who}, and do it thoroughly this time")),
                    native("assistant", "It is done, and it was an off-by-one error."),
                ];
                one.rig.parts.ingestor.append(who, turn).await.unwrap();
            }
        }
        assert_eq!(one.rig.drain().await, [Outcome::Deferred; 3]);
        one.look().await;
        assert_eq!(one.fake.batches().sizes(), [3]);
        one.fake.batches().end(&[Fate::Good, Fate::Errored, Fate::Good]);
        one.look().await;
        assert_eq!(one.rig.drain().await, [Outcome::Completed; 3], "{shape:?}");
        assert_eq!(one.rig.model.calls(), 1, "the one that failed");
        for who in &agents {
            let report = one.rig.db.store().verify(who).await.unwrap();
            assert_eq!((report.pending, report.breaches.len()), (0, 0), "{shape:?}");
        }
    }
}

#[tokio::test]
async fn a_question_without_an_answer_is_asked_directly() {
    for shape in SHAPES {
        for fate in [Fate::Garbage, Fate::Errored, Fate::Expired, Fate::Canceled, Fate::Missing] {
            let one = BatchRig::sent(shape).await;
            one.fake.batches().end(&[fate]);
            one.look().await;
            assert_eq!(one.questions("failed").await, 1, "{shape:?} {fate:?}");
            assert_eq!(one.rig.drain().await, [Outcome::Completed]);
            assert_eq!((one.rig.verify().await.pending, one.rig.model.calls()), (0, 1));
            let paid = i64::from(fate == Fate::Garbage);
            let runs = "SELECT count(*) FROM update_runs WHERE batched = 1 AND outcome = 'superseded'";
            assert_eq!(one.number(runs).await, paid, "{fate:?}");
        }
    }
}

#[tokio::test]
async fn urgent_work_does_not_wait_and_the_late_answer_is_dropped() {
    for shape in SHAPES {
        let one = BatchRig::sent(shape).await;
        let now = one.rig.clock.now();
        one.rig.parts.store.end_session(&one.rig.agent, now).await.unwrap();
        assert_eq!(one.rig.drain().await, [Outcome::Completed]);
        assert_eq!((one.rig.verify().await.pending, one.rig.model.calls()), (0, 1));
        let before = one.rig.content().await;
        one.fake.batches().end(&[Fate::Good]);
        one.look().await;
        assert_eq!(one.questions("late").await, 1, "{shape:?}");
        assert_eq!(one.rig.drain().await, []);
        assert_eq!(one.rig.content().await, before);
        assert_eq!(one.number("SELECT count(*) FROM model_answers WHERE answer LIKE '%served%'").await, 0);
        let paid = "SELECT count(*) FROM update_runs WHERE outcome = 'superseded' AND batched = 1 AND input_tokens > 0";
        assert_eq!(one.number(paid).await, 1, "what was paid is told");
        let (_, metrics) = one.rig.parts.metrics.encode(None);
        assert!(metrics.contains("recapd_batch_questions_total{outcome=\"late\"} 1"), "{metrics}");
    }
}

/// As [`BatchRig::sent`], but a direct question failed meanwhile, so that the portion is smaller. Then the batch's answer arrives.
async fn answered_after_a_failure() -> BatchRig {
    let one = Box::pin(BatchRig::sent(Shape::Anthropic)).await;
    let (store, now) = (&one.rig.parts.store, one.rig.clock.now());
    store.end_session(&one.rig.agent, now).await.unwrap();
    one.rig.model.plan([Reply::Late]);
    assert_eq!(one.rig.drain().await, [Outcome::Retried]);
    one.fake.batches().end(&[Fate::Good]);
    one.look().await;
    assert_eq!(one.rig.drain().await, [Outcome::Completed]);
    one
}

#[tokio::test]
async fn an_answer_larger_than_the_portion_is_used_whole() {
    let one = answered_after_a_failure().await;
    assert_eq!((one.rig.verify().await.pending, one.rig.model.calls()), (0, 1));
    let runs = "SELECT count(*) FROM update_runs WHERE outcome = 'completed' AND batched = 1";
    assert_eq!(one.number(runs).await, 1);
}

#[tokio::test]
async fn answers_from_batches_let_the_portion_grow() {
    let one = answered_after_a_failure().await;
    let most = async |since: i64| {
        one.number(&format!(
            "SELECT max(json_array_length(exchanges)) FROM batch_requests WHERE version >= {since}"
        ))
        .await
    };
    let halved = most(0).await / 2;
    for _ in 0..8 {
        one.rig.say(6).await;
        drop(one.rig.drain().await);
        one.look().await;
        one.fake.batches().end(&[Fate::Good]);
        one.look().await;
        drop(one.rig.drain().await);
    }
    assert!(most(1).await > halved, "it stays at {halved}");
    assert_eq!(one.rig.model.calls(), 1, "the one that failed");
}

#[tokio::test]
async fn an_unsent_question_is_withdrawn() {
    let one = BatchRig::deferred(Shape::Anthropic).await;
    let now = one.rig.clock.now();
    let manual = one.rig.parts.store.enqueue(&one.rig.agent, Reason::Manual, 0, now).await.unwrap();
    assert!(!manual.is_new);
    assert_eq!(one.rig.drain().await, [Outcome::Completed]);
    assert_eq!((one.questions("withdrawn").await, one.rig.model.calls()), (1, 1));
    one.look().await;
    assert_eq!(one.fake.batches().made(), 0);
}

#[tokio::test]
async fn an_ordinary_wake_neither_ends_the_wait_nor_is_lost() {
    let one = BatchRig::sent(Shape::Anthropic).await;
    one.rig.say(4).await;
    assert_eq!(one.rig.drain().await, [], "it goes on waiting");
    one.fake.batches().end(&[Fate::Good]);
    one.look().await;
    // The answer is about what was pending then; the rest goes into the next batch.
    assert_eq!(one.rig.drain().await, [Outcome::Completed, Outcome::Deferred]);
    let report = one.rig.verify().await;
    assert!(report.covered > 0 && report.pending > 0, "{report:?}");
    one.look().await;
    one.fake.batches().end(&[Fate::Good]);
    one.look().await;
    assert_eq!(one.rig.drain().await, [Outcome::Completed]);
    assert_eq!((one.rig.verify().await.pending, one.rig.model.calls()), (0, 0));
}

/// Digests are condensed again in a batch, even if other exchanges are pending when its answer arrives.
#[tokio::test]
async fn revisits_may_wait_for_a_batch_too() {
    for turns_meanwhile in [0, 5] {
        let one = BatchRig::new(Shape::Anthropic).await;
        one.rig.say(6).await;
        // The model fails, and digests stand in.
        let (store, now) = (&one.rig.parts.store, one.rig.clock.now());
        store.end_session(&one.rig.agent, now).await.unwrap();
        one.rig.model.plan([Reply::Auth]);
        assert_eq!(one.rig.drain().await, [Outcome::Parked]);
        assert_eq!(store.probe_parked(now.plus_ms(HOUR_MS), 1, now).await.unwrap(), 1);
        one.rig.db.raw("UPDATE summary_update_queue SET priority = 0, attempts = 0, crashes = 0").await;
        assert_eq!(one.rig.drain().await, [Outcome::Deferred]);
        one.look().await;
        one.rig.say(turns_meanwhile).await;
        one.fake.batches().end(&[Fate::Good]);
        one.look().await;
        let outcomes = one.rig.drain().await;
        assert_eq!(outcomes.first(), Some(&Outcome::Completed), "{outcomes:?}");
        let digests = "SELECT count(*) FROM summary_items WHERE provisional = 1 AND removed_version IS NULL";
        assert_eq!((one.number(digests).await, one.rig.model.calls()), (0, 1));
        assert!(one.rig.content().await.contains("Exchange 1 was served"));
        one.rig.verify().await;
    }
}

/// A batch reports a rejected request form only hours later. A direct question learns it at once, for both.
#[tokio::test]
async fn request_forms_learned_directly_are_used_in_batches() {
    for (shape, complaint) in [
        (Shape::Anthropic, "output_config.format: Extra inputs are not permitted"),
        (Shape::OpenAi, "This response_format type is unavailable now"),
        (
            Shape::Responses,
            "Invalid parameter: 'text.format' of type 'json_schema' is not supported with this model.",
        ),
        (
            Shape::Gemini,
            "Invalid JSON payload received. Unknown name \"responseJsonSchema\" at 'generation_config': Cannot find field.",
        ),
    ] {
        let fake = FakeProvider::start();
        let models = models(&config(shape, &fake));
        fake.plan([Planned::Trouble(Trouble::Because(complaint.to_owned()), Wait::Unsaid)]);
        let request = llm::request();
        models.model.answer(&request).await.unwrap();
        let asked = fake.requests().pop().unwrap();
        assert_ne!(asked.format(), "json_schema", "{shape:?}");
        let body = models.batch.unwrap().body(&request).unwrap();
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body, asked.body, "{shape:?}");
    }
}

#[tokio::test]
async fn no_update_waits_for_ever() {
    let one = BatchRig::sent(Shape::Anthropic).await;
    one.rig.clock.advance_ms(one.config.batch.max_wait_ms);
    assert_eq!(one.rig.drain().await, [Outcome::Completed]);
    assert_eq!((one.rig.verify().await.pending, one.rig.model.calls()), (0, 1));
    // A batch that never ends is given up.
    one.rig.clock.advance_ms(50 * HOUR_MS);
    one.batch_poller.step().await.unwrap();
    assert_eq!(one.figures().await, BatchFigures::default());
}

#[tokio::test]
async fn a_rewind_makes_an_answer_late() {
    let one = BatchRig::new(Shape::Anthropic).await;
    one.rig.append(vec![native("mark", "")]).await;
    one.rig.say(6).await;
    assert_eq!(one.rig.drain().await, [Outcome::Deferred]);
    one.look().await;
    one.rig.append(vec![native("rewind", "")]).await;
    one.fake.batches().end(&[Fate::Good]);
    one.look().await;
    one.rig.drain_later().await;
    let report = one.rig.verify().await;
    assert_eq!(report.covered, 0, "{report:?}");
    one.rig.say(6).await;
    one.rig.drain_later().await;
    one.rig.verify().await;
}

/// Mostly nothing waits, and every look asks.
#[tokio::test]
async fn each_look_asks_once_whether_anything_waits() {
    let one = BatchRig::new(Shape::Anthropic).await;
    let asked = || ["has_waiting", "withdraw_outdated", "gather"].map(|method| one.rig.flaky.calls(method));
    one.look().await;
    assert_eq!(asked(), [1, 0, 0]);
    one.rig.say(6).await;
    assert_eq!(one.rig.drain().await, [Outcome::Deferred]);
    one.look().await;
    assert_eq!(one.fake.batches().sizes(), [1]);
    assert_eq!(asked(), [2, 1, 2], "until there is nothing more to send");
}

#[tokio::test]
async fn batches_have_limits() {
    let fake = FakeProvider::start();
    let mut config = config(Shape::Anthropic, &fake);
    config.batch.requests_max = 2;
    config.batch.open_max = 2;
    let one = BatchRig::with(config, fake).await;
    for number in 0..5 {
        let who = agent(&format!("agent-{number}"));
        for _ in 0..6 {
            let turn = vec![
                native("user", "Please fix the next of the failing tests"),
                native("assistant", "Fixed it."),
            ];
            one.rig.parts.ingestor.append(&who, turn).await.unwrap();
        }
    }
    assert_eq!(one.rig.drain().await, [Outcome::Deferred; 5]);
    one.batch_poller.step().await.unwrap();
    assert_eq!(one.fake.batches().sizes(), [2, 2], "full ones go at once, two at a time");
    one.fake.batches().end(&[Fate::Good]);
    one.look().await;
    one.look().await;
    assert_eq!(one.fake.batches().sizes(), [2, 2, 1]);
}
