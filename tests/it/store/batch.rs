//! Questions in batches: deferred, sent together, answered.

use std::slice;

use recapd_core::domain::{
    agent::AgentId,
    batch::BatchState,
    redaction::Redactor,
    summary::{compaction::SummaryPolicy, edit::ItemEdit},
    time::{HOUR_MS, MINUTE_MS, Timestamp},
    work::{Lease, Reason},
};
use recapd_store::{
    EditRequest, Fence, Forget, Forgettable, Prune, StoreError,
    batch::{BatchClosed, BatchEnd, BatchFigures, BatchMove, BatchQuestion, BatchReply, Gather, OpenBatch},
};

use super::{clean, the_lease, with_pending};
use crate::support::{
    backend::{Backend, PostgresBackend},
    conversation::{ALL, agent, append, claim, items, minute, numbers, patch, rules, turns},
    postgres::execute,
};

/// When rows that wait for a batch may be claimed again.
const UNTIL: Timestamp = minute_of(600);

const fn minute_of(minutes: i64) -> Timestamp {
    Timestamp(1_795_000_000_000 + minutes * MINUTE_MS)
}

async fn question(db: &dyn Backend, lease: &Lease) -> BatchQuestion {
    let material = db.store().material(lease, ALL).await.unwrap();
    BatchQuestion {
        key: format!("key-{}-{}", lease.agent, material.version),
        version: material.version,
        lo: material.lo,
        hi: material.hi,
        exchanges: numbers(&material),
        revisited: vec![4],
        provider: "anthropic".to_owned(),
        model: "m".to_owned(),
        body: "{\"x\":\"é\"}".to_owned(),
        tokens: 1_000,
        cost_microusd: Some(50),
    }
}

/// Creates an agent whose pending exchanges are the subject of a question for a batch.
pub(super) async fn deferred(db: &dyn Backend, name: &str, at: Timestamp) -> AgentId {
    let agent = with_pending(db, name, 3).await;
    let lease = the_lease(db, at).await;
    let question = question(db, &lease).await;
    assert!(db.batches().defer(&lease, question, UNTIL, at).await.unwrap());
    agent
}

fn gather_at(now: Timestamp) -> Gather {
    Gather {
        name: format!("recapd-{}", now.0),
        provider: "anthropic".to_owned(),
        model: "m".to_owned(),
        requests_max: 10,
        bytes_max: 1_000,
        open_max: 2,
        waiting_before: now,
        now,
        next_at: now.plus_ms(MINUTE_MS),
    }
}

pub(super) async fn gathered(db: &dyn Backend, now: Timestamp) -> OpenBatch {
    db.batches().gather(gather_at(now)).await.unwrap().unwrap()
}

pub(super) fn reply(key: &str, answer: Result<&str, &str>) -> BatchReply {
    BatchReply {
        key: key.to_owned(),
        answer: answer.map(str::to_owned).map_err(str::to_owned),
        input_tokens: 100,
        output_tokens: 10,
        cost_microusd: Some(7),
    }
}

pub(super) fn end(results: Vec<BatchReply>, now: Timestamp) -> BatchEnd {
    BatchEnd { results, otherwise: "missing".to_owned(), now }
}

async fn states(db: &dyn Backend) -> String {
    let sql = "SELECT state FROM batch_requests ORDER BY agent_id, version";
    db.texts(sql, " ").await
}

pub(crate) async fn a_question_waits_without_a_lease(db: &dyn Backend) {
    let agent = deferred(db, "a", minute(1)).await;
    let row = "SELECT lease_token IS NULL AND lease_owner IS NULL AND leased_at IS NULL AND attempts = 0 \
               FROM summary_update_queue";
    assert_eq!(db.number(row).await, Some(1));
    assert_eq!(db.store().claim(claim("d", 9, minute(599))).await.unwrap(), []);
    assert_eq!(db.store().reconcile(minute(9), minute(9)).await.unwrap(), 0);
    let lease = the_lease(db, UNTIL).await;
    assert_eq!((&lease.agent, lease.attempt, lease.crashes), (&agent, 1, 0));
    let is_over = "SELECT deferred_at IS NULL FROM summary_update_queue";
    assert_eq!(db.number(is_over).await, Some(1));
    clean(db, &agent).await;
}

pub(crate) async fn the_same_state_is_asked_about_once(db: &dyn Backend) {
    deferred(db, "a", minute(1)).await;
    let lease = the_lease(db, UNTIL).await;
    let mut again = question(db, &lease).await;
    again.key.push_str("-again");
    assert!(!db.batches().defer(&lease, again, UNTIL, UNTIL).await.unwrap());
    assert_eq!(
        db.store().renew(slice::from_ref(&lease), UNTIL, 1).await.unwrap(),
        [lease.token],
        "the lease is still held"
    );
}

pub(crate) async fn an_urgent_row_is_not_deferred(db: &dyn Backend) {
    with_pending(db, "a", 3).await;
    let lease = the_lease(db, minute(1)).await;
    // The session ends while the question is being written.
    db.store().end_session(&agent("a"), minute(1)).await.unwrap();
    let question = question(db, &lease).await;
    assert!(!db.batches().defer(&lease, question, UNTIL, minute(1)).await.unwrap());
    assert_eq!(states(db).await, "");
}

pub(crate) async fn only_urgency_ends_the_wait(db: &dyn Backend) {
    let agent = deferred(db, "a", minute(1)).await;
    db.store().append(append(&agent, turns(5..=9))).await.unwrap();
    db.store().enqueue(&agent, Reason::Ageing, 0, minute(2)).await.unwrap();
    assert_eq!(db.store().claim(claim("d", 9, minute(30))).await.unwrap(), []);
    db.store().enqueue(&agent, Reason::Manual, 0, minute(31)).await.unwrap();
    let lease = the_lease(db, minute(31)).await;
    let material = db.store().material(&lease, ALL).await.unwrap();
    db.store().complete(&lease, patch(&material, items(&material), minute(31))).await.unwrap();
    assert_eq!(clean(db, &agent).await.pending, 0, "what came meanwhile is there too");
}

pub(crate) async fn a_lost_lease_defers_nothing(db: &dyn Backend) {
    with_pending(db, "a", 3).await;
    let lease = the_lease(db, minute(1)).await;
    let question = question(db, &lease).await;
    db.store().release(slice::from_ref(&lease), minute(1)).await.unwrap();
    let lost = db.batches().defer(&lease, question, UNTIL, minute(1)).await;
    assert!(matches!(lost, Err(StoreError::Fenced(Fence::Lease))));
    assert_eq!(states(db).await, "");
}

pub(crate) async fn a_question_can_be_withdrawn(db: &dyn Backend) {
    let agent = deferred(db, "a", minute(1)).await;
    assert!(db.batches().withdraw_question(&agent, minute(2)).await.unwrap());
    assert!(!db.batches().withdraw_question(&agent, minute(2)).await.unwrap());
    assert_eq!(states(db).await, "withdrawn");
    assert_eq!(db.batches().gather(gather_at(minute(9))).await.unwrap(), None);
}

pub(crate) async fn forgotten_text_is_not_sent(db: &dyn Backend) {
    let (a, b) = (deferred(db, "a", minute(1)).await, deferred(db, "b", minute(1)).await);
    let forget = |agent: &AgentId| Forget {
        agent: agent.clone(),
        what: Forgettable::Exchanges(vec![2]),
        rules: rules(),
        redactor: Redactor::standard(),
        now: minute(5),
    };
    db.store().forget(forget(&a)).await.unwrap();
    assert_eq!(states(db).await, "withdrawn waiting");
    // The batch is recorded, but perhaps not sent yet.
    gathered(db, minute(4)).await;
    db.store().forget(forget(&b)).await.unwrap();
    assert_eq!(states(db).await, "withdrawn withdrawn");
    let bodies = "SELECT CAST(sum(length(body)) AS bigint) FROM batch_requests";
    assert_eq!(db.number(bodies).await, Some(0));
    // No row waits for the answers any more.
    let leases = db.store().claim(claim("d", 9, minute(6))).await.unwrap();
    assert_eq!(leases.len(), 2);
    clean(db, &a).await;
}

pub(crate) async fn an_operator_ends_the_wait(db: &dyn Backend) {
    let agent = with_pending(db, "a", 3).await;
    let lease = the_lease(db, minute(1)).await;
    let material = db.store().material(&lease, ALL).await.unwrap();
    let update = patch(&material, items(&material), minute(1));
    db.store().complete(&lease, update).await.unwrap();
    db.store().append(append(&agent, turns(5..=8))).await.unwrap();
    let lease = the_lease(db, minute(200)).await;
    let asked = question(db, &lease).await;
    assert!(db.batches().defer(&lease, asked, UNTIL, minute(200)).await.unwrap());
    let pin = EditRequest {
        agent: agent.clone(),
        item: 1,
        edit: ItemEdit { pinned: Some(true), ..ItemEdit::default() },
        policy: SummaryPolicy::default(),
        now: minute(201),
    };
    db.store().edit_item(pin).await.unwrap();
    assert_eq!(the_lease(db, minute(201)).await.agent, agent);
    clean(db, &agent).await;
}

pub(crate) async fn the_time_of_the_question_counts(db: &dyn Backend) {
    let (a, _) = (deferred(db, "a", minute(20)).await, deferred(db, "b", minute(20)).await);
    db.raw("UPDATE agents SET forgotten_at = created_at WHERE agent_id = 'a'").await;
    db.raw(
        "UPDATE agents SET forgotten_at = (SELECT max(queued_at) FROM batch_requests) WHERE agent_id = 'b'",
    )
    .await;
    let batch = gathered(db, minute(21)).await;
    let results = vec![reply("key-a-0", Ok("{}")), reply("key-b-0", Ok("{}"))];
    let closed = db.batches().close_batch(batch.batch, end(results, minute(30))).await;
    let closed = closed.unwrap();
    assert_eq!((closed.answered, closed.late), (1, 1));
    assert!(db.batches().batched_answer(&a).await.unwrap().is_some());
}

pub(crate) async fn an_answer_ends_a_pause(db: &dyn Backend) {
    deferred(db, "a", minute(1)).await;
    let batch = gathered(db, minute(2)).await;
    db.raw("UPDATE summary_update_queue SET paused_until = visible_at, paused_for = 'spend.calls_per_day', deferred_at = NULL")
        .await;
    let results = vec![reply("key-a-0", Ok("{}"))];
    db.batches().close_batch(batch.batch, end(results, minute(3))).await.unwrap();
    the_lease(db, minute(3)).await;
}

pub(crate) async fn a_batch_takes_the_oldest_within_limits(db: &dyn Backend) {
    for (name, at) in [("c", 1), ("b", 2), ("a", 3)] {
        deferred(db, name, minute(at)).await;
    }
    let batches = db.batches();
    let early = Gather { waiting_before: minute(0), ..gather_at(minute(4)) };
    assert_eq!(batches.gather(early.clone()).await.unwrap(), None, "they wait for others");
    let full = Gather { requests_max: 2, ..early.clone() };
    let first = batches.gather(full).await.unwrap().unwrap();
    assert_eq!((first.state, first.identity.requests), (BatchState::Intent, 2));
    let lines = batches.batch_lines(first.batch).await.unwrap();
    let keys: Vec<&str> = lines.iter().map(|line| line.key.as_str()).collect();
    assert_eq!(keys, ["key-c-0", "key-b-0"]);
    assert_eq!(lines[0].exchanges, [1, 2, 3]);
    let other = Gather { model: "other".to_owned(), ..gather_at(minute(5)) };
    assert_eq!(batches.gather(other).await.unwrap(), None);
    let narrow = Gather { bytes_max: 1, ..gather_at(minute(5)) };
    let narrow = batches.gather(narrow).await.unwrap().unwrap();
    assert_eq!(narrow.identity.requests, 1);
    deferred(db, "d", minute(6)).await;
    assert_eq!(batches.gather(gather_at(minute(7))).await.unwrap(), None, "two are open");
}

pub(crate) async fn a_question_from_the_future_waits_no_longer(db: &dyn Backend) {
    deferred(db, "a", minute(60)).await;
    let mut hurried = gather_at(minute(2));
    hurried.waiting_before = minute(0);
    assert!(db.batches().gather(hurried).await.unwrap().is_some());
}

pub(crate) async fn outdated_questions_are_withdrawn(db: &dyn Backend) {
    let agent = deferred(db, "a", minute(1)).await;
    let lease = the_lease(db, UNTIL).await;
    let material = db.store().material(&lease, ALL).await.unwrap();
    db.store().complete(&lease, patch(&material, items(&material), UNTIL)).await.unwrap();
    assert_eq!(db.batches().gather(gather_at(UNTIL)).await.unwrap(), None);
    assert_eq!(db.batches().withdraw_outdated(UNTIL).await.unwrap(), 1);
    assert_eq!(states(db).await, "withdrawn");
    assert_eq!(db.batches().withdraw_outdated(UNTIL).await.unwrap(), 0);
    clean(db, &agent).await;
}

pub(crate) async fn one_caller_looks_at_a_batch(db: &dyn Backend) {
    deferred(db, "a", minute(1)).await;
    let batch = gathered(db, minute(2)).await;
    let batches = db.batches();
    let look = |now: Timestamp| {
        let batches = db.batches();
        async move { batches.due_batches(now, now.plus_ms(HOUR_MS), 9).await.unwrap() }
    };
    assert_eq!(look(minute(2)).await, []);
    let seen = OpenBatch { held_until: minute(4).plus_ms(HOUR_MS), ..batch.clone() };
    assert_eq!(look(minute(4)).await, slice::from_ref(&seen));
    assert_eq!(look(minute(4)).await, [], "it was taken");
    let step = BatchMove {
        from: BatchState::Intent,
        held_until: seen.held_until,
        submitted_as: None,
        next_at: minute(5),
    };
    assert!(batches.move_batch(batch.batch, step).await.unwrap());
    let again = look(minute(5)).await;
    assert_eq!(again.first().map(|batch| batch.looks), Some(1));
}

pub(crate) async fn a_batch_moves_only_from_its_present_state(db: &dyn Backend) {
    deferred(db, "a", minute(1)).await;
    let batch = gathered(db, minute(2)).await;
    let batches = db.batches();
    let submitted = BatchMove {
        from: BatchState::Intent,
        held_until: batch.held_until,
        submitted_as: Some("msgbatch_1".to_owned()),
        next_at: minute(3),
    };
    assert!(batches.move_batch(batch.batch, submitted.clone()).await.unwrap());
    assert!(!batches.move_batch(batch.batch, submitted).await.unwrap());
    assert_eq!(batches.batch_lines(batch.batch).await.unwrap()[0].body, "", "the provider has it");
    let seen = batches.due_batches(minute(3), minute(9), 9).await.unwrap();
    assert_eq!(seen[0].provider_id.as_deref(), Some("msgbatch_1"));
    assert_eq!(batches.known_batches("anthropic", 9).await.unwrap(), ["msgbatch_1"]);
    assert_eq!(batches.known_batches("openai", 9).await.unwrap(), [""; 0]);
}

/// A daemon whose look took so long that another one took over the batch leaves it to that one.
pub(crate) async fn only_the_holder_moves_a_batch(db: &dyn Backend) {
    deferred(db, "a", minute(1)).await;
    let slow = gathered(db, minute(2)).await;
    let batches = db.batches();
    let seen = batches.due_batches(minute(4), minute(15), 9).await.unwrap();
    let wait = |batch: &OpenBatch| BatchMove {
        from: BatchState::Intent,
        held_until: batch.held_until,
        submitted_as: None,
        next_at: minute(30),
    };
    assert!(!batches.move_batch(slow.batch, wait(&slow)).await.unwrap());
    assert_eq!(batches.due_batches(minute(14), minute(15), 9).await.unwrap(), []);
    assert!(batches.move_batch(slow.batch, wait(&seen[0])).await.unwrap());
    // The provider has the batch, whichever daemon it told.
    let submitted = BatchMove { submitted_as: Some("msgbatch_1".to_owned()), ..wait(&slow) };
    assert!(batches.move_batch(slow.batch, submitted).await.unwrap());
}

pub(crate) async fn an_answer_is_journalled_and_wakes(db: &dyn Backend) {
    let agent = deferred(db, "a", minute(1)).await;
    deferred(db, "b", minute(1)).await;
    let batch = gathered(db, minute(2)).await;
    let batches = db.batches();
    assert_eq!(batches.batched_answer(&agent).await.unwrap(), None);
    let results =
        vec![reply("key-b-0", Err("expired")), reply("key-a-0", Ok("{}")), reply("whose", Ok("{}"))];
    let closed = batches.close_batch(batch.batch, end(results, minute(3))).await.unwrap();
    assert_eq!((closed.answered, closed.failed, closed.late), (1, 1, 0));
    assert_eq!(states(db).await, "answered failed");
    let leases = db.store().claim(claim("d", 9, minute(3))).await.unwrap();
    assert_eq!(leases.len(), 2, "who has no answer is woken too");
    let answer = batches.batched_answer(&agent).await.unwrap().unwrap();
    assert_eq!(answer.revisited, [4]);
    assert_eq!((answer.lo, answer.hi, &answer.exchanges[..]), (0, 3, &[1, 2, 3][..]));
    assert_eq!((answer.answer.answer.as_str(), answer.answer.input_tokens), ("{}", 100));
    assert_eq!((answer.cost_microusd, answer.is_accounted), (Some(7), false));
    let lease = leases.iter().find(|lease| lease.agent == agent).unwrap();
    let material = db.store().material(lease, ALL).await.unwrap();
    let mut update = patch(&material, items(&material), minute(3));
    update.run.batched = Some(answer.key);
    db.store().complete(lease, update).await.unwrap();
    assert_eq!(batches.batched_answer(&agent).await.unwrap(), None, "the summary moved on");
    let told = "SELECT count(*) FROM batch_requests r JOIN update_runs u ON u.agent_id = r.agent_id AND u.batched \
                WHERE r.accounted_at = u.finished_at AND u.outcome = 'completed'";
    assert_eq!(db.number(told).await, Some(1));
    clean(db, &agent).await;
}

pub(crate) async fn a_late_answer_is_dropped_and_accounted_for(db: &dyn Backend) {
    let agent = deferred(db, "a", minute(1)).await;
    let batch = gathered(db, minute(2)).await;
    let lease = the_lease(db, UNTIL).await;
    let material = db.store().material(&lease, ALL).await.unwrap();
    db.store().complete(&lease, patch(&material, items(&material), UNTIL)).await.unwrap();
    let results = vec![reply("key-a-0", Ok("{}"))];
    let closed = db.batches().close_batch(batch.batch, end(results, UNTIL)).await.unwrap();
    assert_eq!((closed.answered, closed.failed, closed.late), (0, 0, 1));
    assert_eq!(db.number("SELECT count(*) FROM model_answers").await, Some(0));
    let told = "SELECT input_tokens FROM update_runs WHERE outcome = 'superseded' AND batched";
    assert_eq!(db.number(told).await, Some(100));
    clean(db, &agent).await;
}

pub(crate) async fn an_unused_answer_is_accounted_for(db: &dyn Backend) {
    let agent = deferred(db, "a", minute(1)).await;
    let batch = gathered(db, minute(2)).await;
    let results = vec![reply("key-a-0", Ok("{}"))];
    db.batches().close_batch(batch.batch, end(results, minute(3))).await.unwrap();
    let lease = the_lease(db, minute(3)).await;
    let material = db.store().material(&lease, ALL).await.unwrap();
    let update = patch(&material, items(&material), minute(3));
    db.store().complete(&lease, update).await.unwrap();
    let told = "SELECT cost_microusd FROM update_runs WHERE outcome = 'superseded' AND batched AND input_tokens = 100";
    assert_eq!(db.number(told).await, Some(7));
    let accounted = "SELECT count(*) FROM batch_requests WHERE accounted_at IS NOT NULL";
    assert_eq!(db.number(accounted).await, Some(1));
    clean(db, &agent).await;
}

pub(crate) async fn a_batch_closes_once(db: &dyn Backend) {
    deferred(db, "a", minute(1)).await;
    let batch = gathered(db, minute(2)).await;
    let results = vec![reply("key-a-0", Ok("{}"))];
    let batches = db.batches();
    let first = batches.close_batch(batch.batch, end(results.clone(), minute(3))).await.unwrap();
    assert_eq!(first.answered, 1);
    let again = batches.close_batch(batch.batch, end(results, minute(4))).await.unwrap();
    assert_eq!(again, BatchClosed::default());
    let closed = "SELECT count(*) FROM provider_batches WHERE state = 'closed' AND error_class IS NULL";
    assert_eq!(db.number(closed).await, Some(1));
}

pub(crate) async fn ended_batches_are_pruned(db: &dyn Backend) {
    let store = db.store();
    deferred(db, "a", minute(1)).await;
    let batch = gathered(db, minute(2)).await;
    deferred(db, "b", minute(3)).await;
    db.batches().close_batch(batch.batch, end(Vec::new(), minute(4))).await.unwrap();
    let prune =
        |answers_before| Prune { runs_before: Timestamp(0), answers_before, versions_keep: 9, limit: 9 };
    assert_eq!(store.prune(prune(minute(4))).await.unwrap(), 0);
    assert_eq!(store.prune(prune(minute(5))).await.unwrap(), 2, "question and batch");
    assert_eq!(states(db).await, "waiting");
}

pub(crate) async fn batches_are_counted(db: &dyn Backend) {
    let figures = async || db.store().sample(minute(9), HOUR_MS).await.unwrap().batches;
    assert_eq!(figures().await, BatchFigures::default());
    deferred(db, "a", minute(1)).await;
    gathered(db, minute(2)).await;
    deferred(db, "b", minute(3)).await;
    let expected = BatchFigures { intents: 1, submitted: 0, waiting: 1, out: 1, oldest_at: Some(minute(2)) };
    assert_eq!(figures().await, expected);
}

pub(crate) async fn a_clock_set_back_delays_no_look(db: &dyn Backend) {
    deferred(db, "a", minute(1)).await;
    let batch = gathered(db, minute(60)).await;
    let look = |now: Timestamp| {
        let batches = db.batches();
        async move { batches.due_batches(now, now.plus_ms(HOUR_MS), 9).await.unwrap() }
    };
    // The clock goes back an hour: without the repair, nobody would look for an hour and a minute.
    db.store().set_back(Some(HOUR_MS), minute(0)).await.unwrap();
    assert_eq!(look(minute(10)).await, []);
    let held_until = minute(11).plus_ms(HOUR_MS);
    assert_eq!(look(minute(11)).await, [OpenBatch { held_until, ..batch }]);
}

/// The batcher doesn't wait for an agent that is locked for long (by a large `forget`) while it has locked others, which would hold up
/// their appends. The agent's question goes into the next batch, and the next look wakes its row.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_held_agent_holds_up_no_batch() {
    let db = PostgresBackend::fresh().await;
    for name in ["a", "b", "c", "outdated"] {
        deferred(&db, name, minute(1)).await;
    }
    let asked_before = "UPDATE batch_requests SET version = version + 1 WHERE agent_id = 'outdated'";
    db.raw(asked_before).await;
    let mut past = db.connect().await;
    let hold = "BEGIN; SELECT 1 FROM agents WHERE agent_id IN ('b', 'outdated') FOR NO KEY UPDATE";
    execute(&mut past, hold).await;
    assert_eq!(db.batches().withdraw_outdated(minute(2)).await.unwrap(), 0);
    assert_eq!(gathered(&db, minute(2)).await.identity.requests, 2);
    assert_eq!(states(&db).await, "out waiting out waiting");
    execute(&mut past, "ROLLBACK").await;
    assert_eq!(db.batches().withdraw_outdated(minute(3)).await.unwrap(), 1);
    assert_eq!(gathered(&db, minute(3)).await.identity.requests, 1);
    assert_eq!(states(&db).await, "out out out withdrawn");
    let waits = "SELECT count(*) FROM summary_update_queue WHERE deferred_at IS NOT NULL";
    assert_eq!(db.number(waits).await, Some(3));
}
