//! The daemon, the database and the provider fail at every step, once.

use recapd_engine::worker::Outcome;
use recapd_store::batch::BatchFigures;

use super::{BatchRig, config};
use crate::support::{
    conversation::{agent, native},
    fake_provider::{
        FakeProvider, Shape,
        batches::{BatchCall, Fate, Hitch},
    },
    flaky_store::When,
};

/// Any single failure is overcome within this many looks.
const LOOKS_MAX: usize = 12;

#[derive(Clone, Copy, Debug)]
enum Trouble {
    /// The nth call of this operation of the database.
    Store(&'static str, usize, When),
    Provider(BatchCall, Hitch),
}

impl Trouble {
    fn of_store() -> impl Iterator<Item = Self> {
        let methods = [
            "defer",
            "batched_answer",
            "has_waiting",
            "withdraw_outdated",
            "gather",
            "due_batches",
            "batch_lines",
            "move_batch",
            "close_batch",
            "resume",
            "known_batches",
            "material",
            "complete",
            "claim",
        ];
        let nth = |method| {
            [1, 2]
                .into_iter()
                .flat_map(move |nth| [When::Before, When::After].map(|when| Self::Store(method, nth, when)))
        };
        methods.into_iter().flat_map(nth)
    }

    fn of_provider() -> impl Iterator<Item = Self> {
        let calls =
            [BatchCall::Upload, BatchCall::Create, BatchCall::List, BatchCall::Look, BatchCall::Results];
        calls.into_iter().flat_map(|call| {
            [Hitch::Refused(500), Hitch::Refused(429), Hitch::Lost].map(|hitch| Self::Provider(call, hitch))
        })
    }

    fn prepare(self, one: &BatchRig) {
        // The list and the known batches are read only after an answer was lost.
        if matches!(self, Self::Provider(BatchCall::List, _) | Self::Store("known_batches", ..)) {
            one.fake.batches().hitch(BatchCall::Create, Hitch::Lost);
        }
        match self {
            Self::Store(method, nth, when) => one.rig.flaky.fail(method, nth, when),
            Self::Provider(call, hitch) => one.fake.batches().hitch(call, hitch),
        }
    }
}

/// The daemon, the database or the provider fails at every step: a new batch poller continues where the old one stopped.
#[tokio::test]
async fn no_failure_loses_or_repeats_an_update() {
    for trouble in Trouble::of_store().chain(Trouble::of_provider()) {
        Box::pin(survives(Shape::Anthropic, trouble)).await;
    }
    for shape in [Shape::Responses, Shape::Gemini] {
        for trouble in Trouble::of_provider() {
            Box::pin(survives(shape, trouble)).await;
        }
    }
}

async fn survives(shape: Shape, trouble: Trouble) {
    let mut one = BatchRig::new(shape).await;
    one.rig.say(6).await;
    trouble.prepare(&one);
    for _ in 0..LOOKS_MAX {
        drop(one.rig.parts.worker.drain().await);
        one.try_look().await;
        one.fake.batches().end(&[Fate::Good]);
        one.batch_poller = one.rig.parts.worker.batch_poller().unwrap();
    }
    let report = one.rig.verify().await;
    assert_eq!(report.pending, 0, "{shape:?} {trouble:?}");
    assert!(one.paid() <= 2, "{shape:?} {trouble:?}: paid for {} times", one.paid());
    assert_eq!(one.figures().await, BatchFigures::default(), "{shape:?} {trouble:?}");
    let told = "SELECT count(*) FROM update_runs WHERE batched = 1 AND input_tokens > 0";
    let billed = i64::try_from(one.fake.batches().billed()).unwrap();
    assert!(one.number(told).await <= billed, "{shape:?} {trouble:?}: told once");
    if let Trouble::Store(_, 1, _) = trouble {
        assert_eq!(one.rig.flaky.met(), 1, "{trouble:?} happened");
    }
}

/// The resumption is retried later; the other answers are used now.
#[tokio::test]
async fn a_failed_resumption_holds_up_no_other_batch() {
    let fake = FakeProvider::start();
    let mut config = config(Shape::Anthropic, &fake);
    config.batch.requests_max = 1;
    config.batch.open_max = 2;
    let one = BatchRig::with(config, fake).await;
    one.rig.say(6).await;
    for _ in 0..6 {
        let turn = vec![
            native("user", "Please fix the next of the failing tests"),
            native("assistant", "Fixed it."),
        ];
        one.rig.parts.ingestor.append(&agent("b"), turn).await.unwrap();
    }
    assert_eq!(one.rig.drain().await, [Outcome::Deferred; 2]);
    one.look().await;
    assert_eq!(one.fake.batches().sizes(), [1, 1]);
    one.fake.batches().end(&[Fate::Good]);
    one.rig.flaky.fail("resume", 1, When::Before);
    one.look().await;
    assert_eq!(one.rig.flaky.met(), 1);
    assert_eq!(one.figures().await, BatchFigures::default());
    assert_eq!(one.rig.drain().await, [Outcome::Completed; 2]);
    assert_eq!(one.rig.model.calls(), 0);
}
