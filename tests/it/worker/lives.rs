//! Random lives of a daemon: appends, updates, ends of sessions, crashes, and everything that can fail.

use std::sync::Arc;

use proptest::{prelude::*, test_runner::TestRunner};
use recapd_config::Config;
use recapd_core::domain::{
    summary::coverage::digest_items,
    time::{MINUTE_MS, SECOND_MS},
    work::{Lease, Reason},
};
use recapd_engine::worker::Outcome;
use recapd_llm::{
    breaker::{Breaker, BreakerSettings},
    chain::Chain,
    limits::{LimitedModel, MinuteLimits},
    offline::OfflineModel,
};
use recapd_platform::clock::Clock as _;
use recapd_store::Material;

use crate::support::{
    backend::Backend as _,
    cases::cases,
    conversation::{ALL, claim, patch},
    flaky_store::When,
    rig::{Rig, config},
    scripted::Reply,
};

const CASES: u32 = 40;

#[derive(Clone, Debug)]
enum Step {
    /// This many turns are sent.
    Say(usize),
    /// The queue is drained while the model gives the replies of the list, and then always the other one.
    Drain(Vec<Reply>, Reply),
    Wait(i64),
    End,
    /// A lease is claimed, and its holder vanishes.
    Crash,
    /// A lease is claimed and its material read; [`Step::Zombie`] will finish it, however late.
    Stall,
    /// The stalled holder goes on.
    Zombie,
    Ask,
    Age,
    Empty,
    Reconcile,
    /// A call of the store will fail.
    Fail(&'static str, usize, When),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let reply = prop_oneof![2 => Just(Reply::Good), 5 => prop::sample::select(Reply::ALL.to_vec())];
    let method = prop::sample::select(vec![
        "claim",
        "material",
        "journalled",
        "journalled_among",
        "journal",
        "complete",
        "age_document",
        "settle",
        "fail",
        "release",
        "postpone",
        "spending",
        "record_run",
        "enqueue_revisits",
    ]);
    let when = prop_oneof![Just(When::Before), Just(When::After)];
    let step = prop_oneof![
        6 => (1_usize..5).prop_map(Step::Say),
        6 => (prop::collection::vec(reply.clone(), 0..6), reply).prop_map(|(first, then)| Step::Drain(first, then)),
        3 => (1_i64..1_000).prop_map(Step::Wait),
        1 => Just(Step::Wait(3 * 24 * 3_600)),
        1 => Just(Step::End),
        2 => Just(Step::Crash),
        1 => Just(Step::Stall),
        1 => Just(Step::Zombie),
        1 => Just(Step::Ask),
        1 => Just(Step::Age),
        1 => Just(Step::Empty),
        1 => Just(Step::Reconcile),
        3 => (method, 1_usize..3, when).prop_map(|(method, nth, when)| Step::Fail(method, nth, when)),
    ];
    prop::collection::vec(step, 1..25)
}

/// A daemon and its stalled holder.
struct Life {
    rig: Rig,
    stalled: Option<(Lease, Material)>,
}

impl Life {
    async fn step(&mut self, step: &Step) {
        let (rig, now) = (&self.rig, self.rig.clock.now());
        let store = rig.db.store();
        match step {
            Step::Say(turns) => rig.say(*turns).await,
            Step::Drain(replies, then) => self.drain(replies, *then).await,
            Step::Wait(seconds) => rig.clock.advance_ms(seconds * SECOND_MS),
            Step::End => drop(rig.parts.ingestor.end_session(&rig.agent).await.unwrap()),
            Step::Crash => {
                store.claim(claim("doomed", 1, now)).await.unwrap();
                rig.clock.advance_ms(MINUTE_MS);
            }
            Step::Stall => {
                if let Some(lease) = store.claim(claim("stalled", 1, now)).await.unwrap().pop() {
                    let material = store.material(&lease, ALL).await.unwrap();
                    self.stalled = Some((lease, material));
                }
            }
            Step::Zombie => {
                if let Some((lease, material)) = self.stalled.take() {
                    let rows: Vec<_> =
                        material.exchanges.iter().map(|stored| stored.exchange.clone()).collect();
                    // Either it still holds the lease, or it is fenced off.
                    drop(store.complete(&lease, patch(&material, digest_items(&rows), now)).await);
                }
            }
            Step::Ask => drop(store.enqueue(&rig.agent, Reason::Manual, 0, now).await.unwrap()),
            Step::Age => drop(rig.parts.schedule.age().await.unwrap()),
            Step::Empty => drop(rig.db.raw("DELETE FROM summary_update_queue").await),
            Step::Reconcile => {
                store.reconcile(now, now).await.unwrap();
                store.enqueue_revisits(now, 9).await.unwrap();
            }
            Step::Fail(method, nth, when) => rig.flaky.fail(method, *nth, *when),
        }
    }

    /// Drains the queue, and compares the summary before and after with the reported outcomes.
    async fn drain(&self, replies: &[Reply], then: Reply) {
        let rig = &self.rig;
        let (before, content) = (rig.row().await, rig.content().await);
        let met = rig.flaky.met();
        let due = "SELECT count(*) FROM summaries WHERE next_ageing_at <= ";
        let due = format!("{due}{}", rig.clock.now().0);
        let is_due = rig.db.number(&due).await == Some(1);
        rig.model.plan_then(replies.iter().copied(), then);
        let drained = rig.parts.worker.drain().await;
        let after = rig.row().await;
        if after.version == before.version {
            assert_eq!(rig.content().await, content, "the old summary stays");
        }
        if let Ok(outcomes) = drained {
            let applied = outcomes
                .iter()
                .filter(|o| matches!(o, Outcome::Completed | Outcome::Parked | Outcome::StoodIn))
                .count();
            // An update whose result was lost may have been applied; if the database then fails again, the worker reports it as retried.
            // An update that waits may have written a version in which only time changed.
            let is_unheard = |o: &&Outcome| match o {
                Outcome::Superseded => true,
                Outcome::Retried => is_due || rig.flaky.met() >= met + 2,
                Outcome::Postponed => is_due,
                _ => false,
            };
            let unheard = outcomes.iter().filter(is_unheard).count();
            let versions = usize::try_from(after.version - before.version).unwrap();
            assert!((applied..=applied + unheard).contains(&versions), "{outcomes:?}: {versions} versions");
        }
    }

    /// Ends all trouble, and checks that everything that left the window gets into the summary.
    async fn recover(&self) {
        let rig = &self.rig;
        rig.flaky.mend();
        rig.model.plan([]);
        rig.say(3).await;
        for _ in 0..12 {
            rig.clock.advance_ms(20 * MINUTE_MS);
            let now = rig.clock.now();
            rig.db.store().enqueue(&rig.agent, Reason::Manual, 0, now).await.unwrap();
            rig.drain().await;
        }
        let report = rig.verify().await;
        assert_eq!((report.pending, report.covered + report.in_window), (0, report.exchanges));
        assert_eq!(rig.db.number("SELECT count(*) FROM summary_update_queue").await, Some(0));
        let standing_in = "SELECT count(*) FROM summary_items WHERE provisional = 1 AND removed_version IS NULL \
                           AND dropped_version IS NULL";
        assert_eq!(rig.db.number(standing_in).await, Some(0), "a model has told of everything");
    }
}

/// A daemon that asks the model directly, or with limits, a breaker, and the built-in summariser as a fallback.
async fn rig(config: &Config, is_guarded: bool) -> Rig {
    Rig::asking(config, |model, clock| {
        if !is_guarded {
            return model;
        }
        let limits = MinuteLimits { requests: 6, tokens: 0 };
        let limited = LimitedModel::new(model, 2, limits, Arc::clone(&clock));
        let settings = BreakerSettings { failures: 2, rest_ms: 30_000 };
        let breaker = Breaker::new(Arc::new(limited), settings, clock);
        Arc::new(Chain::new(Arc::new(breaker), vec![Arc::new(OfflineModel)]))
    })
    .await
}

async fn live(is_guarded: bool, steps: &[Step], max_tokens: i64) {
    let mut config = config();
    config.summary.max_tokens = max_tokens;
    let mut life = Life { rig: rig(&config, is_guarded).await, stalled: None };
    life.rig.say(1).await;
    let mut last_version = 0;
    for step in steps {
        life.step(step).await;
        let rig = &life.rig;
        rig.verify().await;
        let version = rig.row().await.version;
        assert!(version >= last_version);
        last_version = version;
        let parked_without_reason = "SELECT count(*) FROM summary_update_queue WHERE parked_at IS NOT NULL \
                                     AND (last_error IS NULL OR lease_token IS NOT NULL)";
        assert_eq!(rig.db.number(parked_without_reason).await, Some(0));
    }
    life.recover().await;
}

#[test]
fn each_exchange_is_covered_once_in_any_life() {
    let mut runner = TestRunner::new(cases(CASES));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // With little room a model is asked to compact the document again and again.
    let room = prop_oneof![Just(10_000_i64), 150_i64..500];
    let lived = runner.run(&(any::<bool>(), steps(), room), |(is_guarded, steps, max_tokens)| {
        runtime.block_on(live(is_guarded, &steps, max_tokens));
        Ok(())
    });
    lived.unwrap();
}
