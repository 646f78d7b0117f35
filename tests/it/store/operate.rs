//! Operators' view of the updates, and their actions.

use recapd_core::domain::{
    agent::AgentId,
    spend::SpendLimit,
    time::Timestamp,
    work::{Lease, Reason},
};
use recapd_store::{
    AttemptError, Failure, Fence, Material, Postponement, Resume, RunRecord, StoreError,
    operate::{OperatorOutcome, QueueRow, QueueState, QueueWait, Run, RunHour, RunOutcome, RunQuery},
};

use super::{the_lease, with_pending};
use crate::support::{
    backend::Backend,
    conversation::{ALL, LEASE_MS, T0, agent, claim, items, make, minute, patch, rests, run},
};

async fn row(db: &dyn Backend, name: &str, now: Timestamp) -> QueueRow {
    db.operator().queue_row(&agent(name), now).await.unwrap().unwrap()
}

async fn queued(db: &dyn Backend, name: &str, delay_ms: i64) {
    make(db, name).await;
    let store = db.store();
    store.enqueue(&agent(name), Reason::Eviction, delay_ms, T0).await.unwrap();
}

async fn claims(db: &dyn Backend, now: Timestamp) -> usize {
    db.store().claim(claim("other", 9, now)).await.unwrap().len()
}

async fn fail(db: &dyn Backend, now: Timestamp, park: bool) {
    let lease = the_lease(db, now).await;
    let error = AttemptError { class: "timeout".to_owned(), message: "no answer".to_owned() };
    let failure = Failure { error, backoff_ms: 60_000, park, run: run(now) };
    db.store().fail(&lease, failure).await.unwrap();
}

/// Claims an update of `a`, and reads its material.
async fn under_way(db: &dyn Backend, now: Timestamp) -> (Lease, Material) {
    with_pending(db, "a", 4).await;
    let lease = the_lease(db, now).await;
    let material = db.store().material(&lease, ALL).await.unwrap();
    (lease, material)
}

fn stands(row: &QueueRow) -> (QueueState, Option<QueueWait>, Option<Timestamp>) {
    (row.state, row.waits_for, row.next_at)
}

pub(crate) async fn a_row_shows_its_state_and_what_it_waits_for(db: &dyn Backend) {
    assert_eq!(db.operator().queue_row(&agent("a"), T0).await.unwrap(), None);
    queued(db, "a", 5_000).await;
    let waiting = row(db, "a", T0).await;
    let until = T0.plus_ms(5_000);
    assert_eq!(stands(&waiting), (QueueState::Scheduled, Some(QueueWait::Batching), Some(until)));
    assert_eq!((waiting.reason.as_str(), waiting.attempts, waiting.queued_at), ("eviction", 0, T0));
    let ready = row(db, "a", minute(1)).await;
    assert_eq!((ready.state, ready.waits_for, ready.age_ms), (QueueState::Ready, None, 60_000));

    fail(db, minute(1), false).await;
    let failed = row(db, "a", minute(1)).await;
    assert_eq!(stands(&failed), (QueueState::Scheduled, Some(QueueWait::Backoff), Some(minute(2))));
    assert_eq!(failed.last_error.as_deref(), Some("timeout: no answer"));

    let lease = the_lease(db, minute(2)).await;
    let running = row(db, "a", minute(2)).await;
    let end = minute(2).plus_ms(LEASE_MS);
    assert_eq!(stands(&running), (QueueState::Running, None, Some(end)));
    assert_eq!((running.owner.is_some(), running.leased_at, running.attempts), (true, Some(minute(2)), 2));
    assert_eq!(row(db, "a", end).await.state, QueueState::Ready);
    let postponement = |until, limit, at| Postponement { until, limit, why: rests(), run: run(at) };
    let used_up = postponement(minute(60), Some(SpendLimit::Calls), minute(2));
    db.store().postpone(&lease, used_up).await.unwrap();
    let paused = row(db, "a", minute(3)).await;
    assert_eq!(stands(&paused), (QueueState::Paused, Some(QueueWait::Limit), Some(minute(60))));
    assert_eq!(paused.paused_for.as_deref(), Some("calls"));

    let lease = the_lease(db, minute(60)).await;
    let rest = postponement(minute(70), None, minute(60));
    db.store().postpone(&lease, rest).await.unwrap();
    let resting = row(db, "a", minute(61)).await;
    assert_eq!(stands(&resting), (QueueState::Scheduled, Some(QueueWait::Provider), Some(minute(70))));
    assert_eq!(resting.paused_for, None, "no limit is used up");
    assert_eq!(db.store().paused(&agent("a")).await.unwrap(), None);
    assert_eq!(row(db, "a", minute(70)).await.state, QueueState::Ready);
    let resumed = db.store().resume(Resume::Paused, minute(62)).await.unwrap();
    assert_eq!(resumed, 0, "it isn't paused");

    fail(db, minute(70), true).await;
    let parked = row(db, "a", minute(71)).await;
    assert_eq!(stands(&parked), (QueueState::Parked, Some(QueueWait::Operator), None));
    assert_eq!(parked.parked_at, Some(minute(70)));
}

pub(crate) async fn the_queue_comes_in_pages(db: &dyn Backend) {
    for name in ["c", "a", "b"] {
        queued(db, name, 0).await;
    }
    let names =
        |rows: Vec<QueueRow>| -> Vec<String> { rows.iter().map(|row| row.agent_id.to_string()).collect() };
    let operator = db.operator();
    assert_eq!(names(operator.queue_rows(None, 2, T0).await.unwrap()), ["a", "b"]);
    let after: AgentId = agent("b");
    assert_eq!(names(operator.queue_rows(Some(&after), 2, T0).await.unwrap()), ["c"]);
}

pub(crate) async fn an_operator_hastens_waiting_rows(db: &dyn Backend) {
    let operator = db.operator();
    let unknown = operator.refresh(&agent("a"), T0).await;
    assert!(matches!(unknown, Err(StoreError::UnknownAgent(_))), "{unknown:?}");
    assert_eq!(operator.retry(&agent("a"), T0).await.unwrap(), OperatorOutcome::NoRow);
    make(db, "a").await;
    assert!(operator.refresh(&agent("a"), T0).await.unwrap().is_new);
    assert_eq!(row(db, "a", T0).await.reason, "manual");
    // A refresh ends a backoff.
    fail(db, T0, false).await;
    assert_eq!(claims(db, T0).await, 0);
    let enqueued = operator.refresh(&agent("a"), T0).await.unwrap();
    assert_eq!((enqueued.is_new, enqueued.visible_at), (false, T0));
    // A running update continues.
    let lease = the_lease(db, T0).await;
    let running = OperatorOutcome::Running(Box::new(row(db, "a", T0).await));
    assert_eq!(operator.retry(&agent("a"), T0).await.unwrap(), running);
    operator.refresh(&agent("a"), T0).await.unwrap();
    let held = db.store().renew(std::slice::from_ref(&lease), T0, LEASE_MS).await.unwrap();
    assert_eq!(held, [lease.token]);
    db.store().release(&[lease], T0).await.unwrap();
    // A retry revives a parked row, with all attempts.
    fail(db, T0, true).await;
    assert_eq!(claims(db, minute(5)).await, 0);
    // The retry returns the row as it left it, even if a worker takes it a moment later.
    let OperatorOutcome::Done(left) = operator.retry(&agent("a"), minute(5)).await.unwrap() else {
        panic!("it was parked");
    };
    assert_eq!(stands(&left), (QueueState::Ready, None, Some(minute(5))));
    assert_eq!(the_lease(db, minute(5)).await.attempt, 1);
}

pub(crate) async fn a_cancelled_update_waits_for_an_operator(db: &dyn Backend) {
    let operator = db.operator();
    assert_eq!(operator.cancel(&agent("a"), T0).await.unwrap(), OperatorOutcome::NoRow);
    let now = minute(1_000);
    let (lease, material) = under_way(db, now).await;
    let cancelled = operator.cancel(&agent("a"), now).await.unwrap();
    assert_eq!(cancelled, OperatorOutcome::Done(Box::new(row(db, "a", now).await)));
    let patch = patch(&material, items(&material), now);
    let lost = db.store().complete(&lease, patch).await;
    assert!(matches!(lost, Err(StoreError::Fenced(Fence::Lease))), "{lost:?}");
    let parked = row(db, "a", now).await;
    assert_eq!(
        (parked.state, parked.last_error.as_deref()),
        (QueueState::Parked, Some("cancelled: by an operator"))
    );
    let tomorrow = now.plus_ms(24 * 3_600_000);
    let probed = db.store().probe_parked(tomorrow, 5, tomorrow).await.unwrap();
    assert_eq!(probed, 0, "a probe is for what failed");
    assert_eq!(claims(db, tomorrow).await, 0);
    assert_eq!(operator.retry(&agent("a"), now).await.unwrap().name(), "done");
    assert_eq!(claims(db, now).await, 1);
}

pub(crate) async fn an_agent_is_paused_until_it_is_resumed(db: &dyn Backend) {
    let operator = db.operator();
    let unknown = operator.pause_agent(&agent("a"), T0).await;
    assert!(matches!(unknown, Err(StoreError::UnknownAgent(_))), "{unknown:?}");
    let unknown = operator.resume_agent(&agent("a"), T0).await;
    assert!(matches!(unknown, Err(StoreError::UnknownAgent(_))), "{unknown:?}");
    make(db, "a").await;
    operator.pause_agent(&agent("a"), T0).await.unwrap();
    let store = db.store();
    // No wake, no new day and no new setting ends it, and it isn't a spending limit.
    for reason in Reason::ALL {
        store.enqueue(&agent("a"), reason, 0, T0).await.unwrap();
    }
    operator.refresh(&agent("a"), T0).await.unwrap();
    store.resume(Resume::Paused, T0).await.unwrap();
    let far = minute(60 * 24 * 365);
    assert_eq!(claims(db, far).await, 0);
    assert_eq!(store.paused(&agent("a")).await.unwrap(), None);
    let sample = store.sample(T0, 1).await.unwrap();
    assert_eq!((sample.paused, sample.paused_until), (0, None));
    let paused = row(db, "a", T0).await;
    assert_eq!(stands(&paused), (QueueState::Paused, Some(QueueWait::Operator), None));
    assert_eq!(paused.paused_for, None);
    assert!(operator.resume_agent(&agent("a"), T0).await.unwrap());
    assert!(!operator.resume_agent(&agent("a"), T0).await.unwrap());
    let lease = the_lease(db, T0).await;
    // It stops an update in progress.
    operator.pause_agent(&agent("a"), T0).await.unwrap();
    assert_eq!(store.renew(&[lease], T0, LEASE_MS).await.unwrap(), [0; 0]);
}

pub(crate) async fn a_resumed_row_gets_no_priority(db: &dyn Backend) {
    let operator = db.operator();
    for name in ["a", "b", "c"] {
        queued(db, name, 0).await;
    }
    operator.pause_agent(&agent("a"), T0).await.unwrap();
    assert!(operator.resume_agent(&agent("a"), T0).await.unwrap());
    let later = T0.plus_ms(1);
    db.store().enqueue(&agent("c"), Reason::Manual, 0, later).await.unwrap();
    let leases = db.store().claim(claim("other", 9, later)).await.unwrap();
    let order: Vec<&str> = leases.iter().map(|lease| lease.agent.as_str()).collect();
    assert_eq!(order, ["c", "a", "b"], "an urgent one, then two by their names");
}

pub(crate) async fn one_agents_row_is_claimed_and_no_other(db: &dyn Backend) {
    let operator = db.operator();
    let one = async |name: &str, now| {
        let claimed = operator.claim_one(&agent(name), claim("me", 1, now)).await;
        claimed.unwrap()
    };
    assert_eq!(one("a", T0).await, None, "there is no such row");
    queued(db, "a", 0).await;
    queued(db, "b", 60_000).await;
    assert_eq!(one("b", T0).await, None, "it waits");
    operator.pause_queue(T0).await.unwrap();
    assert_eq!(one("b", minute(2)).await, None, "all updates are paused");
    operator.resume_queue().await.unwrap();
    let lease = one("b", minute(2)).await.unwrap();
    assert_eq!((lease.agent.as_str(), lease.attempt, lease.crashes), ("b", 1, 0));
    assert_eq!(lease.ready_at, minute(1));
    assert_eq!(one("b", minute(2)).await, None, "somebody has it");
    let held = db.store().renew(std::slice::from_ref(&lease), minute(2), LEASE_MS).await;
    assert_eq!(held.unwrap(), [lease.token]);
    // The holder that vanished counts as a crash, and the next token differs.
    let again = one("b", minute(9)).await.unwrap();
    assert_eq!((again.attempt, again.crashes), (2, 1));
    assert!(again.token > lease.token);
    assert_eq!(row(db, "a", minute(9)).await.attempts, 0);
}

pub(crate) async fn while_the_queue_is_paused_nothing_is_claimed(db: &dyn Backend) {
    queued(db, "a", 0).await;
    queued(db, "b", 0).await;
    let operator = db.operator();
    let lease = db.store().claim(claim("one", 1, T0)).await.unwrap();
    assert_eq!(operator.queue_paused_since().await.unwrap(), None);
    assert_eq!(operator.pause_queue(T0).await.unwrap(), T0);
    assert_eq!(operator.pause_queue(minute(1)).await.unwrap(), T0);
    assert_eq!(operator.queue_paused_since().await.unwrap(), Some(T0));
    assert_eq!(claims(db, T0).await, 0);
    // A running update continues.
    assert_eq!(db.store().renew(&lease, T0, LEASE_MS).await.unwrap().len(), 1);
    assert!(operator.resume_queue().await.unwrap());
    assert!(!operator.resume_queue().await.unwrap());
    assert_eq!(claims(db, T0).await, 1);
}

pub(crate) async fn the_longest_waiting_agents_come_first(db: &dyn Backend) {
    let now = minute(1_000);
    let (lease, material) = under_way(db, now).await;
    let operator = db.operator();
    let waiting = operator.stalest(5).await.unwrap();
    let agents = db.store().agents(None, 9).await.unwrap();
    let pending = agents.iter().filter_map(|row| {
        let since = row.pending_since?;
        Some((row.agent.clone(), since, row.ledger.pending_numbers()))
    });
    let mut pending: Vec<_> = pending.collect();
    pending.sort_by_key(|(_, since, _)| *since);
    assert_eq!(waiting, pending);
    assert!(!waiting.is_empty());
    assert_eq!(operator.stalest(1).await.unwrap(), waiting[..1]);
    let completed = patch(&material, items(&material), now);
    db.store().complete(&lease, completed).await.unwrap();
    assert_eq!(operator.stalest(5).await.unwrap(), []);
}

pub(crate) async fn runs_are_listed_newest_first_and_summed_up(db: &dyn Backend) {
    let now = minute(1_000);
    let (lease, material) = under_way(db, now).await;
    let operator = db.operator();
    let completed = patch(&material, items(&material), now);
    db.store().complete(&lease, completed).await.unwrap();
    queued(db, "b", 0).await;
    fail(db, now, false).await;
    let query = |agent_name: Option<&str>, outcome, before| RunQuery {
        agent: agent_name.map(agent),
        outcome,
        before,
        limit: 9,
        ..RunQuery::default()
    };
    let all: Vec<Run> = operator.runs(query(None, None, None)).await.unwrap();
    let told: Vec<(&str, RunOutcome)> = all.iter().map(|run| (run.agent_id.as_str(), run.outcome)).collect();
    assert_eq!(told, [("b", RunOutcome::Failed), ("a", RunOutcome::Completed)]);
    let [failed, done] = all.as_slice() else { panic!("{all:?}") };
    assert_eq!(
        (failed.error_class.as_deref(), failed.error.as_deref()),
        (Some("timeout"), Some("no answer"))
    );
    assert_eq!((done.version, done.duration_ms, done.exchanges > 0), (Some(1), 1_000, true));
    assert_eq!(operator.run(done.run).await.unwrap().as_ref(), Some(done));
    assert_eq!(operator.run(done.run + 1_000).await.unwrap(), None);
    let older = operator.runs(query(None, None, Some(failed.run))).await.unwrap();
    assert_eq!(older, std::slice::from_ref(done));
    let of_agent = operator.runs(query(Some("b"), None, None)).await.unwrap();
    assert_eq!(of_agent, std::slice::from_ref(failed));
    let of_outcome = operator.runs(query(None, Some(RunOutcome::Completed), None)).await.unwrap();
    assert_eq!(of_outcome, std::slice::from_ref(done));
    for (since, until, expected) in
        [(Some(now), Some(now.plus_ms(1)), 2), (Some(now.plus_ms(1)), None, 0), (None, Some(now), 0)]
    {
        let query = RunQuery { since, until, ..query(None, None, None) };
        assert_eq!(operator.runs(query).await.unwrap().len(), expected, "{since:?} {until:?}");
    }
    let figures = operator.run_figures(now).await.unwrap();
    assert_eq!((figures.completed, figures.failed, figures.superseded), (1, 1, 0));
    assert_eq!((figures.mean_duration_ms, figures.max_duration_ms), (1_000, 1_000));
    assert_eq!(operator.run_figures(now.plus_ms(1)).await.unwrap().completed, 0);
    assert_eq!(figures.spent.calls, 0);
    assert_hours(db, now).await;
}

/// One run is completed and one has failed since `now`.
async fn assert_hours(db: &dyn Backend, now: Timestamp) {
    let operator = db.operator();
    let hours = operator.run_hours(now).await.unwrap();
    let sums = hours.iter().map(|hour| (hour.completed, hour.failed, hour.superseded));
    let sums = sums.fold((0, 0, 0), |sum, hour| (sum.0 + hour.0, sum.1 + hour.1, sum.2 + hour.2));
    assert_eq!(sums, (1, 1, 0));
    for hour in &hours {
        assert_eq!((hour.began_at.0 % 3_600_000, hour.cost_microusd), (0, 0));
        let took = if hour.completed == 0 { 0 } else { 1_000 };
        let told = (hour.mean_duration_ms, hour.p50_duration_ms, hour.p95_duration_ms);
        assert_eq!(told, (took, took, took), "{hour:?}");
    }
    assert_eq!(operator.run_hours(now.plus_ms(1)).await.unwrap(), []);
}

/// Older daemons, which know no other name, see it as superseded.
pub(crate) async fn a_run_that_had_to_wait_is_postponed(db: &dyn Backend) {
    let (store, operator) = (db.store(), db.operator());
    let asked = |now| RunRecord { model_calls: 1, ..run(now) };
    queued(db, "a", 0).await;
    let (now, until) = (minute(1_000), minute(1_060));
    let lease = the_lease(db, now).await;
    let postponement = Postponement { until, limit: None, why: rests(), run: asked(now) };
    store.postpone(&lease, postponement).await.unwrap();
    let lease = the_lease(db, until).await;
    store.record_run(&lease, asked(until)).await.unwrap();

    let told = async |outcome| {
        let query = RunQuery { outcome, limit: 9, ..RunQuery::default() };
        let runs = operator.runs(query).await.unwrap();
        let told = runs.into_iter().map(|run| (run.outcome, run.error_class));
        told.collect::<Vec<_>>()
    };
    let superseded: (_, Option<String>) = (RunOutcome::Superseded, None);
    let postponed = (RunOutcome::Postponed, Some(rests().class));
    assert_eq!(told(None).await, [superseded.clone(), postponed.clone()]);
    assert_eq!(told(Some(RunOutcome::Superseded)).await, [superseded]);
    assert_eq!(told(Some(RunOutcome::Postponed)).await, [postponed]);
    let figures = operator.run_figures(now).await.unwrap();
    assert_eq!((figures.failed, figures.superseded, figures.postponed), (0, 1, 1));
    let hours = operator.run_hours(now).await.unwrap();
    let sum = |of: fn(&RunHour) -> i64| hours.iter().map(of).sum::<i64>();
    assert_eq!((sum(|hour| hour.superseded), sum(|hour| hour.postponed)), (1, 1));
    let stored = "SELECT count(*) FROM update_runs WHERE outcome = 'superseded'";
    assert_eq!(db.number(stored).await, Some(2));
}
