//! What models cost, and updates that wait without having failed.

use recapd_core::domain::{
    agent::AgentId,
    batch::LIFE_MAX_MS,
    settings::SettingsPatch,
    spend::{SpendLimit, SpendTotal},
    time::Timestamp,
    work::{Lease, Reason},
};
use recapd_store::{
    AttemptError, Failure, Fence, LastRun, Postponement, Resume, RunRecord, SpendPause, Spending, StoreError,
};
use serde_json::json;

use super::{
    batch::{deferred, end, gathered, reply},
    clean, the_lease, with_pending,
};
use crate::support::{
    backend::Backend,
    conversation::{ALL, LEASE_MS, T0, agent, claim, items, make, minute, patch, rests, run},
};

fn paid(finished_at: Timestamp, model_calls: i64, cost_microusd: Option<i64>) -> RunRecord {
    RunRecord {
        provider: Some("anthropic".to_owned()),
        model: Some("small".to_owned()),
        model_calls,
        input_tokens: 100 * model_calls,
        output_tokens: 10 * model_calls,
        cost_microusd,
        ..run(finished_at)
    }
}

fn postponement(until: Timestamp, limit: Option<SpendLimit>, run: RunRecord) -> Postponement {
    Postponement { until, limit, why: rests(), run }
}

async fn leased(db: &dyn Backend, name: &str, now: Timestamp) -> Lease {
    make(db, name).await;
    let store = db.store();
    store.enqueue(&agent(name), Reason::Manual, 0, now).await.unwrap();
    the_lease(db, now).await
}

pub(crate) async fn a_postponed_update_counts_no_attempt(db: &dyn Backend) {
    let store = db.store();
    let mut lease = leased(db, "a", T0).await;
    let mut now = T0;
    for _ in 0..3 {
        assert_eq!((lease.attempt, lease.crashes), (1, 0));
        let until = now.plus_ms(60_000);
        let waits = postponement(until, None, run(now));
        store.postpone(&lease, waits.clone()).await.unwrap();
        assert_eq!(store.paused(&agent("a")).await.unwrap(), None);
        let lost = store.postpone(&lease, waits).await;
        assert!(matches!(lost, Err(StoreError::Fenced(Fence::Lease))), "{lost:?}");
        assert_eq!(store.claim(claim("other", 9, until.plus_ms(-1))).await.unwrap(), []);
        now = until;
        lease = the_lease(db, now).await;
    }
    let runs = "SELECT count(*) FROM update_runs";
    assert_eq!(db.number(runs).await, Some(0), "nothing was asked, so nothing ran");
    store.postpone(&lease, postponement(now, None, paid(now, 2, Some(7)))).await.unwrap();
    let superseded = "SELECT CAST(sum(model_calls) AS bigint) FROM update_runs WHERE outcome = 'superseded' AND cost_microusd = 7";
    assert_eq!(db.number(superseded).await, Some(2), "what it cost is kept");
}

pub(crate) async fn a_paused_update_says_why_until_it_is_claimed(db: &dyn Backend) {
    let store = db.store();
    let until = minute(60);
    let paused = Some(SpendPause { limit: SpendLimit::AgentUsd, until });
    for name in ["a", "b"] {
        let lease = leased(db, name, T0).await;
        let waits = postponement(until, Some(SpendLimit::AgentUsd), run(T0));
        store.postpone(&lease, waits).await.unwrap();
        assert_eq!(store.paused(&agent(name)).await.unwrap(), paused);
    }
    let sample = store.sample(minute(1), 60_000).await.unwrap();
    assert_eq!((sample.paused, sample.paused_until, sample.scheduled, sample.parked), (2, Some(until), 2, 0));
    assert_eq!(store.claim(claim("other", 9, until.plus_ms(-1))).await.unwrap(), []);
    // Later requests wait, too.
    store.enqueue(&agent("a"), Reason::Manual, 0, minute(1)).await.unwrap();
    assert_eq!(store.claim(claim("other", 9, until.plus_ms(-1))).await.unwrap(), []);

    // Other settings may set other limits.
    let patch = SettingsPatch::parse(json!({"usd_per_day": 9})).unwrap();
    store.change_settings(&agent("a"), &patch, minute(2)).await.unwrap();
    assert_eq!(the_lease(db, minute(2)).await.agent, agent("a"));
    assert_eq!(store.paused(&agent("a")).await.unwrap(), None);
    // So may another configuration.
    assert_eq!(store.resume(Resume::Paused, minute(3)).await.unwrap(), 1);
    assert_eq!(store.resume(Resume::Paused, minute(3)).await.unwrap(), 0);
    let leases = store.claim(claim("daemon", 9, minute(3))).await.unwrap();
    let sample = store.sample(minute(3), 60_000).await.unwrap();
    assert_eq!((sample.paused, sample.paused_until), (0, None));

    let lease = leases.into_iter().find(|lease| lease.agent == agent("b")).unwrap();
    let waits = postponement(until, Some(SpendLimit::Calls), run(minute(3)));
    store.postpone(&lease, waits).await.unwrap();
    db.raw("UPDATE summary_update_queue SET paused_for = 'nonsense' WHERE agent_id = 'b'").await;
    let unknown = store.paused(&agent("b")).await;
    assert!(matches!(unknown, Err(StoreError::Inconsistent { column: "paused_for", .. })), "{unknown:?}");
}

/// Another provider or key may be used now.
pub(crate) async fn an_update_waiting_for_a_provider_is_resumed(db: &dyn Backend) {
    let store = db.store();
    for (name, limit) in [("a", None), ("b", Some(SpendLimit::Usd))] {
        let lease = leased(db, name, T0).await;
        let waits = postponement(minute(60), limit, run(T0));
        store.postpone(&lease, waits).await.unwrap();
    }
    assert_eq!(store.claim(claim("other", 9, minute(1))).await.unwrap(), []);
    let resumed = store.resume(Resume::Waiting, minute(1)).await.unwrap();
    assert_eq!(resumed, 2, "and whoever a limit paused");
    assert_eq!(store.resume(Resume::Waiting, minute(1)).await.unwrap(), 0);
    let leases = store.claim(claim("daemon", 9, minute(1))).await.unwrap();
    assert_eq!(leases.len(), 2);
    assert_eq!(store.paused(&agent("b")).await.unwrap(), None);
}

/// The key may have changed. Rows that failed for other reasons, or that an operator stopped, are left alone.
pub(crate) async fn a_refused_update_is_resumed_with_another_key(db: &dyn Backend) {
    let store = db.store();
    let attempts =
        [("a", "provider_auth", true), ("b", "provider_server", true), ("f", "provider_auth", false)];
    for (name, class, park) in attempts {
        let lease = leased(db, name, T0).await;
        let error = AttemptError { class: class.to_owned(), message: "status 401".to_owned() };
        let failure = Failure { error, backoff_ms: 60 * 60_000, park, run: run(T0) };
        assert_eq!(store.fail(&lease, failure).await.unwrap(), park);
    }
    for name in ["c", "d"] {
        let lease = leased(db, name, T0).await;
        let waits = postponement(minute(60), None, run(T0));
        store.postpone(&lease, waits).await.unwrap();
    }
    db.operator().cancel(&agent("c"), T0).await.unwrap();
    db.operator().pause_agent(&agent("d"), T0).await.unwrap();
    assert_eq!(store.resume(Resume::Waiting, minute(9)).await.unwrap(), 0);
    assert_eq!(store.resume(Resume::Refused, minute(9)).await.unwrap(), 2);
    assert_eq!(store.resume(Resume::Refused, minute(9)).await.unwrap(), 0);
    let mut leases = store.claim(claim("daemon", 10, minute(9))).await.unwrap();
    leases.sort_by(|one, other| one.agent.cmp(&other.agent));
    let claimed = leases.into_iter().map(|lease| (lease.agent, lease.attempt, lease.ready_at));
    assert_eq!(
        claimed.collect::<Vec<_>>(),
        [(agent("a"), 1, minute(9)), (agent("f"), 2, minute(9))],
        "the parked one with all attempts, and it has waited for nobody"
    );
    let lease = leased(db, "e", minute(9)).await;
    let waits = postponement(minute(60), Some(SpendLimit::Usd), run(minute(9)));
    store.postpone(&lease, waits).await.unwrap();
    let resumed = store.resume(Resume::Refused, minute(10)).await.unwrap();
    assert_eq!(resumed, 1, "and whoever waits");
}

/// Completed, failed, postponed or lost: all costs count, from the given moment on.
pub(crate) async fn every_cost_counts_as_spent(db: &dyn Backend) {
    let store = db.store();
    with_pending(db, "a", 1).await;
    store.enqueue(&agent("a"), Reason::Manual, 0, T0).await.unwrap();
    let lease = the_lease(db, minute(1)).await;
    let material = store.material(&lease, ALL).await.unwrap();
    let mut update = patch(&material, items(&material), minute(1));
    update.run = paid(minute(1), 1, Some(500));
    store.complete(&lease, update).await.unwrap();
    // It is recorded already, even if the caller doesn't know.
    store.record_run(&lease, paid(minute(1), 1, Some(500))).await.unwrap();

    let lease = leased(db, "b", minute(1)).await;
    let error = AttemptError { class: "provider_timeout".to_owned(), message: String::new() };
    let failure = Failure { error, backoff_ms: 0, park: false, run: paid(minute(2), 2, None) };
    store.fail(&lease, failure).await.unwrap();
    let lease = the_lease(db, minute(2)).await;
    store.record_run(&lease, paid(minute(3), 4, Some(2_000))).await.unwrap();
    // No model was asked.
    store.record_run(&leased(db, "c", minute(2)).await, run(minute(3))).await.unwrap();

    let spent = |calls, cost_microusd, unpriced_calls| SpendTotal {
        calls,
        tokens: 110 * calls,
        cost_microusd,
        unpriced_calls,
    };
    let spending = async |name, since| store.spending(&agent(name), since).await.unwrap();
    let expected = Spending { agent: spent(1, 500, 0), all: spent(7, 2_500, 2), ..Spending::default() };
    assert_eq!(spending("a", minute(1)).await, expected);
    assert_eq!(spending("b", minute(1)).await.agent, spent(6, 2_000, 2));
    assert_eq!(spending("c", minute(1)).await.agent, SpendTotal::default());
    let since = minute(2).plus_ms(1);
    assert_eq!(spending("b", since).await.all, spent(4, 2_000, 0));
    assert_eq!(spending("b", minute(4)).await, Spending::default());
    let agents = [agent("b"), agent("nobody"), agent("a")];
    assert_eq!(
        db.operator().spent(&agents, minute(1)).await.unwrap(),
        [spent(6, 2_000, 2), SpendTotal::default(), spent(1, 500, 0)]
    );
    let nobody = store.spending(&agent("nobody"), T0).await;
    assert!(matches!(nobody, Err(StoreError::UnknownAgent(_))), "{nobody:?}");

    let sample = store.sample(minute(4), 60_000).await.unwrap();
    assert_eq!(sample.today, spent(7, 2_500, 2), "since the day began");
    let last = LastRun {
        provider: "anthropic".to_owned(),
        model: "small".to_owned(),
        error_class: None,
        at: minute(3),
    };
    assert_eq!(sample.last_run, Some(last));
}

/// Returns what an agent, and all agents, have spent since the first minute.
async fn spent_by(db: &dyn Backend, agent: &AgentId) -> [SpendTotal; 2] {
    let spending = db.store().spending(agent, minute(0)).await.unwrap();
    [spending.agent, spending.all]
}

const fn of_calls(calls: i64, tokens: i64, cost_microusd: i64) -> SpendTotal {
    SpendTotal { calls, tokens, cost_microusd, unpriced_calls: 0 }
}

/// A question's expected cost counts until there is an answer; then the billed cost counts, once.
pub(crate) async fn questions_in_batches_count_as_spent(db: &dyn Backend) {
    let nothing = SpendTotal::default();
    let (a, b) = (deferred(db, "a", minute(1)).await, deferred(db, "b", minute(1)).await);
    let of_others = [nothing, of_calls(1, 1_000, 50)];
    assert_eq!(spent_by(db, &a).await, of_others, "its own can be taken back");
    let out = [of_calls(1, 1_000, 50), of_calls(2, 2_000, 100)];
    let batch = gathered(db, minute(2)).await;
    assert_eq!(spent_by(db, &a).await, out, "they are on their way");

    let results = vec![reply("key-a-0", Ok("{}")), reply("key-b-0", Err("bad_output"))];
    let closed = db.batches().close_batch(batch.batch, end(results, minute(3))).await;
    closed.unwrap();
    let (one, two) = (of_calls(1, 110, 7), of_calls(2, 220, 14));
    assert_eq!(spent_by(db, &b).await, [one, two], "as billed");
    assert_eq!(spent_by(db, &a).await, [nothing, one], "its update tells the rest");

    let leases = db.store().claim(claim("d", 9, minute(3))).await.unwrap();
    let lease = leases.iter().find(|lease| lease.agent == a).unwrap();
    let material = db.store().material(lease, ALL).await.unwrap();
    let mut update = patch(&material, items(&material), minute(3));
    update.run = RunRecord {
        model_calls: 1,
        input_tokens: 100,
        output_tokens: 10,
        cost_microusd: Some(7),
        batched: Some("key-a-0".to_owned()),
        ..update.run
    };
    db.store().complete(lease, update).await.unwrap();
    assert_eq!(spent_by(db, &a).await, [one, two]);
    assert_eq!(spent_by(db, &b).await, [one, two]);
}

/// Earlier versions didn't record the expected cost.
pub(crate) async fn a_question_of_an_earlier_version_is_a_call(db: &dyn Backend) {
    let agent = deferred(db, "a", minute(1)).await;
    gathered(db, minute(2)).await;
    db.raw("UPDATE batch_requests SET tokens = NULL, cost_microusd = NULL").await;
    let call = SpendTotal { unpriced_calls: 1, ..of_calls(1, 0, 0) };
    assert_eq!(spent_by(db, &agent).await, [call, call]);
}

/// Its expected cost no longer holds anybody up.
pub(crate) async fn a_withdrawn_question_ends_a_pause(db: &dyn Backend) {
    deferred(db, "a", minute(1)).await;
    let lease = leased(db, "b", minute(1)).await;
    let waits = postponement(minute(600), Some(SpendLimit::Calls), run(minute(1)));
    db.store().postpone(&lease, waits).await.unwrap();
    // As after a rewind.
    db.raw("UPDATE batch_requests SET version = version + 1").await;
    assert_eq!(db.batches().withdraw_outdated(minute(2)).await.unwrap(), 1);
    assert_eq!(db.store().resume(Resume::Paused, minute(2)).await.unwrap(), 1);
    assert_eq!(db.store().paused(&agent("b")).await.unwrap(), None);
    let leases = db.store().claim(claim("d", 9, minute(2))).await.unwrap();
    assert_eq!(leases.len(), 2);
}

/// If batches were switched off, nobody closes them.
pub(crate) async fn questions_older_than_any_batch_do_not_count(db: &dyn Backend) {
    let agent = deferred(db, "a", minute(1)).await;
    gathered(db, minute(2)).await;
    let over = minute(1).plus_ms(LIFE_MAX_MS);
    for (since, calls) in [(over.plus_ms(-1), 1), (over, 0)] {
        let spending = db.store().spending(&agent, since).await.unwrap();
        assert_eq!((spending.agent.calls, spending.all.calls), (calls, calls));
    }
}

pub(crate) async fn provisional_items_are_woken_once(db: &dyn Backend) {
    let store = db.store();
    for name in ["a", "b", "c", "d"] {
        with_pending(db, name, 2).await;
        store.enqueue(&agent(name), Reason::Manual, 0, minute(1)).await.unwrap();
        let lease = the_lease(db, minute(1)).await;
        let material = store.material(&lease, ALL).await.unwrap();
        let mut added = items(&material);
        // The items of `c` come from a model, and those of `d` have left the document.
        for item in &mut added {
            item.provisional = name != "c";
        }
        let mut update = patch(&material, added, minute(1));
        for (_, dropped) in &mut update.added {
            *dropped = name == "d";
        }
        let done = store.complete(&lease, update).await.unwrap();
        assert!(!done.rearmed);
    }
    assert_eq!(store.enqueue_revisits(minute(2), 1).await.unwrap(), 1);
    assert_eq!(store.enqueue_revisits(minute(2), 9).await.unwrap(), 1);
    assert_eq!(store.enqueue_revisits(minute(2), 9).await.unwrap(), 0, "they have rows");
    let leases = store.claim(claim("daemon", 9, minute(2))).await.unwrap();
    let names: Vec<&str> = leases.iter().map(|lease| lease.agent.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    // A lease is left alone.
    assert_eq!(store.enqueue_revisits(minute(2), 9).await.unwrap(), 0);
    let beaten = store.renew(&leases, minute(3), LEASE_MS).await.unwrap();
    assert_eq!(beaten.len(), 2);
    for name in ["a", "b", "c", "d"] {
        clean(db, &agent(name)).await;
    }
}
