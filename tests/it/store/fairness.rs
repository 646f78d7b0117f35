//! Fairness between projects: one project's work doesn't hold up another's, however much it is.

use recapd_core::domain::{
    time::{MINUTE_MS, SECOND_MS, Timestamp},
    work::{Lease, ROWS_AHEAD_MAX, Reason},
};
use recapd_store::Postponement;

use super::{queue::failure, with_pending};
use crate::support::{
    backend::Backend,
    conversation::{ALL, T0, agent, claim, items, make, minute, patch, rests, run},
};

const SPACING_MS: i64 = 10 * SECOND_MS;

async fn join(db: &dyn Backend, name: &str, project: Option<&str>) {
    let project = project.map(|name| name.parse().unwrap());
    db.store().set_project(&agent(name), project.as_ref(), T0).await.unwrap();
}

/// Creates agents of a project, each with a row that is due.
async fn crowd(db: &dyn Backend, project: &str, agents: usize, reason: Reason, now: Timestamp) {
    for number in 0..agents {
        let name = format!("{project}-{number:03}");
        make(db, &name).await;
        join(db, &name, Some(project)).await;
        wake(db, &name, reason, now).await;
    }
}

async fn wake(db: &dyn Backend, name: &str, reason: Reason, now: Timestamp) {
    db.store().enqueue(&agent(name), reason, 0, now).await.unwrap();
}

async fn claimed(db: &dyn Backend, limit: i64, now: Timestamp) -> Vec<Lease> {
    db.store().claim(claim("daemon", limit, now)).await.unwrap()
}

/// Returns how far a row stands behind its own time.
async fn behind_ms(db: &dyn Backend, name: &str) -> i64 {
    let sql = format!("SELECT behind_ms FROM summary_update_queue WHERE agent_id = '{name}'");
    db.number(&sql).await.unwrap()
}

/// Returns all rows' names and places, in the order of claiming.
async fn places(db: &dyn Backend) -> String {
    let sql =
        "SELECT agent_id || ' ' || (behind_ms / 1000) FROM summary_update_queue ORDER BY due_at, agent_id";
    db.texts(sql, ", ").await
}

pub(crate) async fn a_flood_of_one_project_holds_nobody_up(db: &dyn Backend) {
    crowd(db, "flood", 500, Reason::Eviction, T0).await;
    crowd(db, "small", 1, Reason::Eviction, T0.plus_ms(SECOND_MS)).await;
    make(db, "lone").await;
    wake(db, "lone", Reason::Eviction, T0.plus_ms(SECOND_MS)).await;
    let first: Vec<String> =
        claimed(db, 3, minute(1)).await.iter().map(|lease| lease.agent.to_string()).collect();
    assert_eq!(first, ["flood-000", "lone", "small-000"]);
    // While nobody else has work, none of it has to wait.
    assert_eq!(claimed(db, 1_000, minute(1)).await.len(), 499);
}

pub(crate) async fn two_floods_share_the_claims(db: &dyn Backend) {
    crowd(db, "left", 60, Reason::Eviction, T0).await;
    crowd(db, "right", 60, Reason::Eviction, T0.plus_ms(SECOND_MS)).await;
    for step in 0..4 {
        let leases = claimed(db, 20, minute(1 + step)).await;
        let left = leases.iter().filter(|lease| lease.agent.as_str().starts_with("left"));
        assert_eq!((left.count(), leases.len()), (10, 20));
        for lease in leases {
            // Done, as far as the queue is concerned.
            db.raw(&format!("DELETE FROM summary_update_queue WHERE agent_id = '{}'", lease.agent)).await;
        }
    }
}

pub(crate) async fn a_low_row_of_a_project_is_not_starved(db: &dyn Backend) {
    crowd(db, "p", 3, Reason::Ageing, T0).await;
    let mut served = Vec::new();
    // Each minute another agent of the project becomes urgent, and there is time for just one.
    for minutes in 0..20 {
        let name = format!("p-urgent-{minutes}");
        make(db, &name).await;
        join(db, &name, Some("p")).await;
        wake(db, &name, Reason::Manual, minute(minutes)).await;
        for lease in claimed(db, 1, minute(minutes)).await {
            db.raw(&format!("DELETE FROM summary_update_queue WHERE agent_id = '{}'", lease.agent)).await;
            served.push(lease.agent.to_string());
        }
    }
    let places: Vec<usize> = (0..3)
        .map(|number| served.iter().position(|name| *name == format!("p-{number:03}")).unwrap())
        .collect();
    assert_eq!(places, [10, 12, 13], "after their slack of ten minutes: {served:?}");
}

pub(crate) async fn a_row_keeps_its_place(db: &dyn Backend) {
    crowd(db, "p", 4, Reason::Eviction, T0).await;
    assert_eq!(places(db).await, "p-000 0, p-001 10, p-002 20, p-003 30");
    // Wakes neither push it back nor bring it forward.
    for seconds in 1..=3 {
        wake(db, "p-001", Reason::Eviction, T0.plus_ms(seconds * SECOND_MS)).await;
        wake(db, "p-003", Reason::Ageing, T0.plus_ms(seconds * SECOND_MS)).await;
    }
    assert_eq!(places(db).await, "p-000 0, p-001 10, p-002 20, p-003 30");
    // A row that becomes urgent stands behind the urgent rows only: `p-002` moves up to `p-001`.
    wake(db, "p-003", Reason::Manual, minute(1)).await;
    wake(db, "p-002", Reason::Manual, minute(1)).await;
    assert_eq!(behind_ms(db, "p-003").await, 0);
    assert_eq!(behind_ms(db, "p-002").await, SPACING_MS);
    assert_eq!(places(db).await, "p-000 0, p-003 0, p-001 10, p-002 10");
}

pub(crate) async fn failures_and_waits_keep_the_place(db: &dyn Backend) {
    crowd(db, "p", 2, Reason::Eviction, T0).await;
    // The distance of `due_at` from `visible_at` plus this slack.
    let place = async |slack_ms: i64| {
        let expected = db.later("visible_at", slack_ms + SPACING_MS);
        let sql = format!(
            "SELECT behind_ms FROM summary_update_queue WHERE agent_id = 'p-001' AND due_at = {expected}"
        );
        assert_eq!(db.number(&sql).await, Some(SPACING_MS));
    };
    place(MINUTE_MS).await;
    let lease = claimed(db, 2, minute(1)).await.pop().unwrap();
    let postponement = Postponement { until: minute(5), limit: None, why: rests(), run: run(minute(1)) };
    db.store().postpone(&lease, postponement).await.unwrap();
    place(MINUTE_MS).await;
    let lease = claimed(db, 2, minute(5)).await.pop().unwrap();
    db.store().fail(&lease, failure(minute(5), MINUTE_MS, false)).await.unwrap();
    place(10 * MINUTE_MS).await;
    let lease = claimed(db, 2, minute(6)).await.pop().unwrap();
    db.store().fail(&lease, failure(minute(6), 0, true)).await.unwrap();
    assert_eq!(db.store().probe_parked(minute(7), 5, minute(60)).await.unwrap(), 1);
    place(10 * MINUTE_MS).await;
    let lease = claimed(db, 1, minute(60)).await.pop().unwrap();
    assert_eq!(lease.agent, agent("p-000"), "its lease ran out, and it was due first");
    let lease = claimed(db, 1, minute(60)).await.pop().unwrap();
    db.store().fail(&lease, failure(minute(60), 0, true)).await.unwrap();
    wake(db, "p-001", Reason::Eviction, minute(61)).await;
    place(MINUTE_MS).await;
}

pub(crate) async fn a_rearmed_row_stands_behind_the_others(db: &dyn Backend) {
    for name in ["a", "b", "c"] {
        with_pending(db, name, 4).await;
        join(db, name, Some("p")).await;
    }
    // They had rows before they joined the project.
    assert_eq!(places(db).await, "a 0, b 0, c 0");
    let mut leases = claimed(db, 1, minute(1)).await;
    for _ in 0..3 {
        let lease = leases.pop().unwrap();
        let material = db.store().material(&lease, ALL).await.unwrap();
        let mut update = patch(&material, items(&material), minute(1));
        update.has_more = true;
        assert!(db.store().complete(&lease, update).await.unwrap().rearmed);
        assert_eq!(behind_ms(db, lease.agent.as_str()).await, 2 * SPACING_MS);
        leases = claimed(db, 1, minute(1)).await;
    }
    assert_eq!(leases.pop().unwrap().agent, agent("a"), "each had one turn");
    // An agent that leaves the project no longer counts.
    join(db, "b", None).await;
    make(db, "d").await;
    join(db, "d", Some("p")).await;
    wake(db, "d", Reason::Eviction, minute(1)).await;
    assert_eq!(behind_ms(db, "d").await, 2 * SPACING_MS);
}

pub(crate) async fn rows_made_together_stand_behind_each_other(db: &dyn Backend) {
    for (name, project) in
        [("a", Some("p")), ("b", None), ("c", Some("p")), ("d", Some("q")), ("e", Some("p"))]
    {
        with_pending(db, name, 4).await;
        join(db, name, project).await;
    }
    db.raw("DELETE FROM summary_update_queue WHERE agent_id <> 'c'").await;
    assert_eq!(db.store().reconcile(minute(1), minute(9)).await.unwrap(), 4);
    let places = db
        .texts(
            "SELECT agent_id || ' ' || (behind_ms / 1000) FROM summary_update_queue ORDER BY agent_id",
            ", ",
        )
        .await;
    assert_eq!(places, "a 10, b 0, c 0, d 0, e 20");
}

pub(crate) async fn a_crowd_delays_a_row_only_up_to_a_limit(db: &dyn Backend) {
    crowd(db, "p", 1, Reason::Eviction, T0).await;
    let more = "INSERT INTO summary_update_queue (agent_id, project_id, queued_at, visible_at, due_at) \
                SELECT 'x' || n, 'p', queued_at, visible_at, due_at FROM summary_update_queue, \
                (WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1200) \
                SELECT n FROM numbers) AS many";
    assert_eq!(db.raw(more).await, 1_200);
    crowd(db, "p", 2, Reason::Eviction, T0).await;
    assert_eq!(behind_ms(db, "p-001").await, ROWS_AHEAD_MAX * SPACING_MS);
    // Parked rows are in nobody's way.
    db.raw("UPDATE summary_update_queue SET parked_at = queued_at WHERE agent_id LIKE 'x%'").await;
    crowd(db, "p", 3, Reason::Eviction, T0).await;
    assert_eq!(behind_ms(db, "p-002").await, 2 * SPACING_MS);
}

pub(crate) async fn rows_that_do_not_compete_delay_no_others(db: &dyn Backend) {
    crowd(db, "p", 3, Reason::Eviction, T0).await;
    let (operator, now) = (db.operator(), minute(1));
    operator.pause_agent(&agent("p-000"), T0).await.unwrap();
    // Another row waits for the next day, and one for a batch's answer.
    let rows = db
        .raw("UPDATE summary_update_queue SET paused_until = visible_at, paused_for = 'calls_per_day' WHERE agent_id = 'p-001'")
        .await;
    assert_eq!(rows, 1);
    db.raw("UPDATE summary_update_queue SET deferred_at = visible_at WHERE agent_id = 'p-002'").await;
    make(db, "p-new").await;
    join(db, "p-new", Some("p")).await;
    wake(db, "p-new", Reason::Eviction, now).await;
    assert_eq!(behind_ms(db, "p-new").await, 0);
    // Rows that are created together count the same.
    make(db, "p-other").await;
    join(db, "p-other", Some("p")).await;
    wake(db, "p-other", Reason::Eviction, now).await;
    assert_eq!(behind_ms(db, "p-other").await, SPACING_MS);
}
