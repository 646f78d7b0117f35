//! The schedules' operations in the store: slots, ageing, pruning, figures.

use recapd_core::domain::{
    settings::SettingsPatch,
    time::{DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, Timestamp},
    work::Reason,
    zone::Zone,
};
use recapd_store::{
    AttemptError, FIRING_MS_MAX, Failure, JournalledAnswer, Prune, Sample, Slot, StoreResult,
};

use super::{clean, the_lease, with_pending};
use crate::support::{
    backend::Backend,
    conversation::{ALL, LEASE_MS, T0, agent, append, claim, items, minute, patch, run, turns},
};

/// Covers everything pending with one update of `name`, at `now`.
async fn updated(db: &dyn Backend, name: &str, now: Timestamp) {
    db.store().enqueue(&agent(name), Reason::Manual, 0, now).await.unwrap();
    let lease = the_lease(db, now).await;
    assert_eq!(lease.agent, agent(name));
    let material = db.store().material(&lease, ALL).await.unwrap();
    db.store().complete(&lease, patch(&material, items(&material), now)).await.unwrap();
}

/// Returns how many of eight simultaneous callers get a slot of the schedule `prune`.
async fn takers(db: &dyn Backend, now: Timestamp) -> usize {
    let store = db.store();
    let rivals = (0..8).map(|_| store.take_slot("prune", T0, now));
    let answers = futures::future::join_all(rivals).await;
    let is_taken = |answer: &StoreResult<Slot>| *answer.as_ref().unwrap() == Slot::Ours;
    answers.iter().filter(|answer| is_taken(answer)).count()
}

pub(crate) async fn a_slot_is_taken_once(db: &dyn Backend) {
    let store = db.store();
    assert_eq!(takers(db, minute(1)).await, 1);
    let take = async |name, slot, now| store.take_slot(name, slot, now).await.unwrap();
    assert_eq!(take("ageing", T0, minute(1)).await, Slot::Ours);
    assert_eq!(take("prune", minute(1), minute(1)).await, Slot::Ours);
    assert_eq!(take("prune", T0, minute(2)).await, Slot::Busy);
    store.finish_slot("prune", T0, minute(3)).await.unwrap();
    assert_eq!(take("prune", T0, minute(4)).await, Slot::Done);
    let fired_at = async |name| db.operator().fired_at(name).await.unwrap();
    assert_eq!(fired_at("prune").await, Some(minute(1)));
    assert_eq!(fired_at("never").await, None);
    // The slot of minute 1 isn't finished.
    let done_at = async |name| db.operator().done_at(name).await.unwrap();
    assert_eq!(done_at("prune").await, Some(minute(3)));
    assert_eq!(done_at("ageing").await, None);
}

/// The daemon that took it was killed, failed, or is of an earlier version, which doesn't report the end.
pub(crate) async fn a_slot_that_is_not_done_is_taken_again(db: &dyn Backend) {
    let store = db.store();
    assert_eq!(takers(db, minute(1)).await, 1);
    let lost = minute(1).plus_ms(FIRING_MS_MAX);
    assert_eq!(takers(db, lost.plus_ms(-1)).await, 0);
    assert_eq!(takers(db, lost).await, 1);
    assert_eq!(takers(db, lost.plus_ms(FIRING_MS_MAX - 1)).await, 0);
    store.finish_slot("prune", T0, lost).await.unwrap();
    assert_eq!(takers(db, lost.plus_ms(DAY_MS)).await, 0);
}

pub(crate) async fn aged_documents_are_enqueued(db: &dyn Backend) {
    for (name, pending) in [("a", 1), ("b", 2), ("c", 3), ("empty", 0)] {
        with_pending(db, name, pending).await;
        if pending > 0 {
            updated(db, name, minute(10)).await;
        }
    }
    let store = db.store();
    // The first exchange ends a second after minute 1, and stays young for a day.
    let due = minute(1).plus_ms(DAY_MS + 1_000);
    assert_eq!(store.enqueue_ageing(due.plus_ms(-1), 100).await.unwrap(), 0);
    let operator = db.operator();
    assert_eq!(operator.ageing_due(due.plus_ms(-1), 9).await.unwrap(), []);
    let told = operator.ageing_due(due, 2).await.unwrap();
    let told: Vec<_> = told.iter().map(|told| (told.agent_id.as_str(), told.due_at)).collect();
    assert_eq!(told, [("a", due), ("b", due)]);
    assert_eq!(store.enqueue_ageing(due, 2).await.unwrap(), 2);
    assert_eq!(
        store.enqueue_ageing(due, 100).await.unwrap(),
        1,
        "those that wait for it already aren't woken again"
    );
    assert_eq!(operator.ageing_due(due, 9).await.unwrap(), []);
    assert_eq!(operator.age(due, 9).await.unwrap(), 0);
    assert_eq!(db.number("SELECT CAST(sum(wake_seq) AS bigint) FROM summary_update_queue").await, Some(3));
    let leases = store.claim(claim("daemon", 9, due)).await.unwrap();
    let told: Vec<_> = leases.iter().map(|lease| (lease.agent.as_str(), lease.trigger())).collect();
    assert_eq!(told, [("a", "aging"), ("b", "aging"), ("c", "aging")]);
    // A leased row stays leased, but counts the wake.
    assert_eq!(store.enqueue_ageing(due, 2).await.unwrap(), 2);
    assert_eq!(store.enqueue_ageing(due, 2).await.unwrap(), 1);
    assert_eq!(store.enqueue_ageing(due, 2).await.unwrap(), 0);
    assert_eq!(store.claim(claim("daemon", 9, due.plus_ms(LEASE_MS - 1))).await.unwrap(), []);
}

/// Another zone has other days, so the document is checked again, and an update gets the agent's calendar.
pub(crate) async fn another_zone_ages_anew(db: &dyn Backend) {
    with_pending(db, "a", 2).await;
    updated(db, "a", minute(10)).await;
    let (store, a) = (db.store(), agent("a"));
    assert_eq!(store.enqueue_ageing(minute(20), 10).await.unwrap(), 0);
    let patch = SettingsPatch::parse(serde_json::json!({"time_zone": "Asia/Tokyo"})).unwrap();
    store.change_settings(&a, &patch, minute(15)).await.unwrap();
    assert_eq!(store.enqueue_ageing(minute(20), 10).await.unwrap(), 1);
    let lease = the_lease(db, minute(20)).await;
    let time = store.material(&lease, ALL).await.unwrap().time;
    assert_eq!(time.zone, Zone::parse("Asia/Tokyo"));
    let session = time.session.unwrap();
    assert_eq!((session.opened_at, session.last_at), (minute(1), minute(3).plus_ms(SECOND_MS)));
    for row in [store.summary(&a).await, store.summary_of_step(&a).await] {
        assert_eq!(row.unwrap().unwrap().zone, time.zone);
    }
}

pub(crate) async fn ageing_follows_the_replay(db: &dyn Backend) {
    let a = agent("a");
    let mut request = append(&a, turns(1..=2));
    request.replayed = true;
    db.store().append(request).await.unwrap();
    updated(db, "a", minute(10)).await;
    // The clock is a month ahead, but the replayed conversation isn't.
    assert_eq!(db.store().enqueue_ageing(T0.plus_ms(30 * DAY_MS), 10).await.unwrap(), 0);
    db.store().append(append(&a, turns(3..=3))).await.unwrap();
    assert_eq!(db.store().enqueue_ageing(T0.plus_ms(30 * DAY_MS), 10).await.unwrap(), 1);
}

/// Documents of cancelled updates age, too; but no model is asked if an operator has stopped that.
pub(crate) async fn a_parked_row_ages_if_no_model_is_needed(db: &dyn Backend) {
    let (store, operator) = (db.store(), db.operator());
    for name in ["idle", "pending", "provisional"] {
        with_pending(db, name, 2).await;
        updated(db, name, minute(10)).await;
    }
    store.append(append(&agent("pending"), turns(4..=4))).await.unwrap();
    db.raw("UPDATE summary_items SET provisional = true WHERE agent_id = 'provisional'").await;
    let due = minute(1).plus_ms(DAY_MS + 1_000);
    for name in ["idle", "pending", "provisional"] {
        let agent = agent(name);
        store.enqueue(&agent, Reason::Manual, 0, minute(11)).await.unwrap();
        operator.cancel(&agent, minute(12)).await.unwrap();
    }
    assert_eq!(operator.ageing_due(due, 9).await.unwrap().len(), 3);
    assert_eq!(store.enqueue_ageing(due, 9).await.unwrap(), 3);
    assert_eq!(operator.ageing_due(due, 9).await.unwrap(), []);
    assert_eq!(store.enqueue_ageing(due, 9).await.unwrap(), 0, "once");
    let lease = the_lease(db, due).await;
    assert_eq!(lease.agent, agent("idle"));
    let material = store.material(&lease, ALL).await.unwrap();
    store.complete(&lease, patch(&material, Vec::new(), due)).await.unwrap();
    let parked = "SELECT count(*) FROM summary_update_queue WHERE parked_at IS NOT NULL";
    assert_eq!(db.number(parked).await, Some(2));
}

/// However often the job runs: each attempt fails, and each is recorded.
pub(crate) async fn a_row_that_cannot_age_is_tried_once_in_ten_minutes(db: &dyn Backend) {
    let (store, operator) = (db.store(), db.operator());
    with_pending(db, "a", 2).await;
    updated(db, "a", minute(10)).await;
    let due = minute(1).plus_ms(DAY_MS + 1_000);
    assert_eq!(store.enqueue_ageing(due, 9).await.unwrap(), 1);
    let mut parked_at = due;
    for _ in 0..2 {
        let failure = Failure {
            error: AttemptError { class: "internal".to_owned(), message: String::new() },
            backoff_ms: 0,
            park: true,
            run: run(parked_at),
        };
        let lease = the_lease(db, parked_at).await;
        assert!(store.fail(&lease, failure).await.unwrap(), "it is parked");
        let rested = parked_at.plus_ms(10 * MINUTE_MS);
        // A wake that the attempt has seen counts again, but leaves the row parked.
        assert_eq!(store.enqueue_ageing(rested.plus_ms(-1), 9).await.unwrap(), 1);
        assert_eq!(operator.ageing_due(rested.plus_ms(-1), 9).await.unwrap(), []);
        assert_eq!(store.enqueue_ageing(rested.plus_ms(-1), 9).await.unwrap(), 0);
        assert_eq!(store.claim(claim("daemon", 9, rested)).await.unwrap(), []);
        assert_eq!(operator.ageing_due(rested, 9).await.unwrap().len(), 1);
        assert_eq!(store.enqueue_ageing(rested, 9).await.unwrap(), 1);
        parked_at = rested;
    }
}

fn prune(limit: i64) -> Prune {
    Prune { runs_before: minute(60), answers_before: minute(30), versions_keep: 2, limit }
}

pub(crate) async fn old_rows_are_pruned(db: &dyn Backend) {
    with_pending(db, "a", 1).await;
    for n in 0..5 {
        updated(db, "a", minute(50 + n * 5)).await;
    }
    with_pending(db, "b", 1).await;
    updated(db, "b", minute(90)).await;
    let answer = JournalledAnswer { answer: "x".to_owned(), input_tokens: 1, output_tokens: 1 };
    for n in 0..4 {
        db.store().journal(&agent("a"), &format!("k{n}"), &answer, minute(n * 12)).await.unwrap();
    }
    // Deletes runs that ended before the hour, answers before the half hour, all versions but two of each agent.
    let counts = async || {
        let mut counts = Vec::new();
        for table in ["update_runs", "model_answers", "summary_versions"] {
            counts.push(db.number(&format!("SELECT count(*) FROM {table}")).await.unwrap());
        }
        counts
    };
    assert_eq!(counts().await, [6, 4, 6]);
    // However few go at a time, all go in the end.
    assert_eq!(db.store().prune(prune(1)).await.unwrap(), 2 + 3 + 3);
    assert_eq!(counts().await, [4, 1, 3]);
    assert_eq!(db.store().prune(prune(100)).await.unwrap(), 0);
    assert_eq!(db.number("SELECT min(version) FROM summary_versions WHERE agent_id = 'a'").await, Some(4));
    clean(db, &agent("a")).await;
    clean(db, &agent("b")).await;
}

/// More agents than one step looks at, and more versions of each than one step deletes.
pub(crate) async fn versions_of_all_agents_are_pruned(db: &dyn Backend) {
    with_pending(db, "a", 1).await;
    db.raw(
        "INSERT INTO agents (agent_id, created_at, updated_at) \
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 450) \
         SELECT 'agent-' || i, created_at, updated_at FROM n, agents WHERE agent_id = 'a'",
    )
    .await;
    db.raw(
        "INSERT INTO summaries (agent_id, version, updated_at) \
         SELECT agent_id, 7, updated_at FROM agents WHERE agent_id LIKE 'agent-%'",
    )
    .await;
    db.raw(
        "INSERT INTO summary_versions (agent_id, version, lease_token, covers_after, covers_through, exchanges, path, \
         content, token_count, as_of, created_at) \
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 7) \
         SELECT agent_id, i, 10 * CAST(substr(agent_id, 7) AS bigint) + i, 0, 0, 0, 'append', '', 0, updated_at, updated_at \
         FROM n, agents WHERE agent_id LIKE 'agent-%'",
    )
    .await;
    assert_eq!(db.store().prune(prune(100)).await.unwrap(), 5 * 450);
    let left = "SELECT count(*) FROM summary_versions WHERE version IN (6, 7)";
    assert_eq!(db.number(left).await, Some(2 * 450));
}

pub(crate) async fn the_latest_slot_is_kept(db: &dyn Backend) {
    let store = db.store();
    let take = async |name, slot, now| store.take_slot(name, slot, now).await.unwrap();
    for (name, minutes) in [("yearly", 1), ("daily", 1), ("daily", 2), ("daily", 3)] {
        let slot = minute(minutes);
        assert_eq!(take(name, slot, slot).await, Slot::Ours);
        store.finish_slot(name, slot, slot).await.unwrap();
    }
    assert_eq!(store.prune(prune(100)).await.unwrap(), 2);
    // Without the last slot the schedule would fire again.
    for (name, minutes) in [("yearly", 1), ("daily", 3)] {
        assert_eq!(take(name, minute(minutes), minute(99)).await, Slot::Done);
    }
    // Without this slot nobody would know when it last succeeded, if all later ones failed.
    for minutes in 4..=6 {
        assert_eq!(take("daily", minute(minutes), minute(minutes)).await, Slot::Ours);
    }
    assert_eq!(store.prune(prune(100)).await.unwrap(), 0);
    let done_at = db.operator().done_at("daily").await.unwrap();
    assert_eq!(done_at, Some(minute(3)));
}

pub(crate) async fn a_sample_counts_everything(db: &dyn Backend) {
    let store = db.store();
    assert_eq!(store.sample(T0, HOUR_MS).await.unwrap(), Sample::default());
    for (name, pending) in [("done", 2), ("ready", 3), ("waiting", 1), ("leased", 4), ("parked", 5)] {
        with_pending(db, name, pending).await;
        match name {
            "done" => updated(db, name, minute(1)).await,
            "leased" | "parked" => {
                store.enqueue(&agent(name), Reason::Manual, 0, T0).await.unwrap();
                let leases = store.claim(claim("daemon", 1, T0.plus_ms(2_000))).await.unwrap();
                if name == "parked" {
                    let failure = Failure {
                        error: AttemptError { class: "x".to_owned(), message: String::new() },
                        backoff_ms: 0,
                        park: true,
                        run: run(minute(1)),
                    };
                    let parked = leases.iter().find(|lease| lease.agent == agent(name)).unwrap();
                    store.fail(parked, failure).await.unwrap();
                }
            }
            _ => {}
        }
    }
    db.raw("UPDATE update_runs SET input_tokens = 50, output_tokens = 20, model_calls = 2, truncated = true WHERE outcome = 'completed'").await;
    let held = store.sample(T0.plus_ms(LEASE_MS), HOUR_MS).await.unwrap();
    assert_eq!((held.ready, held.running), (1, 1));
    // The lease has expired by then: its holder is gone.
    let sample = store.sample(minute(1), HOUR_MS).await.unwrap();
    let tokens = db.number("SELECT token_count FROM summaries WHERE version = 1").await.unwrap();
    let expected = Sample {
        agents: 5,
        ready: 2,
        scheduled: 1,
        parked: 1,
        oldest_ready_at: Some(T0.plus_ms(2_000)),
        oldest_pending_at: Some(T0),
        documents: 1,
        documents_tokens: tokens,
        completed: 1,
        failed: 1,
        mean_duration_ms: 1_000,
        mean_document_tokens: tokens,
        truncated: 1,
        input_tokens: 50,
        output_tokens: 20,
        model_calls: 2,
        today: sample.today,
        last_run: sample.last_run.clone(),
        ..Sample::default()
    };
    assert_eq!(sample, expected);
    // Events before the window of time no longer count.
    let later = store.sample(minute(10), 5 * MINUTE_MS).await.unwrap();
    assert_eq!((later.completed, later.failed, later.model_calls, later.documents), (0, 0, 0, 1));
    assert_eq!((later.ready, later.scheduled), (3, 0));
}

/// More than are counted: rows on SQLite, pages on PostgreSQL.
pub(crate) async fn a_sample_of_very_many_agents_is_an_estimate(db: &dyn Backend) {
    let store = db.store();
    with_pending(db, "a", 1).await;
    assert!(!store.sample(T0, HOUR_MS).await.unwrap().stock_is_estimated);
    let note = "x".repeat(500);
    db.raw(&format!(
        "INSERT INTO agents (agent_id, settings, created_at, updated_at) \
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12000) \
         SELECT 'agent-' || i, '{{\"note\":\"{note}\"}}', created_at, updated_at FROM n, agents WHERE agent_id = 'a'"
    ))
    .await;
    db.raw(&format!(
        "INSERT INTO summaries (agent_id, version, content, token_count, updated_at) \
         SELECT agent_id, 1, '{note}', 10, updated_at FROM agents WHERE agent_id LIKE 'agent-%'"
    ))
    .await;
    let sample = store.sample(T0, HOUR_MS).await.unwrap();
    assert!(sample.stock_is_estimated);
    for counted in [sample.agents, sample.documents, sample.documents_tokens / 10] {
        assert!((9_999..14_000).contains(&counted), "{sample:?}");
    }
    assert_eq!(sample.oldest_pending_at, Some(T0));
}
