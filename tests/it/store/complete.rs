//! Completion: what one update moves, and what happens to its row.

use recapd_core::domain::{
    summary::item::{ExchangeRange, Item, Origin},
    work::{Lease, Reason, WOKEN_RETRY_MS_MIN},
};
use recapd_store::{AttemptError, CRASHED, JournalledAnswer, Material, MaterialLimits, Patch, StoreError};

use super::{clean, the_lease, with_pending};
use crate::support::{
    backend::Backend,
    conversation::{
        ALL, T0, TURN_TOKENS, agent, append, claim, items, make, minute, numbers, patch, rules, turns,
    },
};

fn at_most(exchanges_max: i64) -> MaterialLimits {
    MaterialLimits { exchanges_max, ..ALL }
}

/// Claims an agent with pending exchanges, and reads the material of at most `exchanges_max` of them.
async fn ready(db: &dyn Backend, pending: i64, exchanges_max: i64) -> (Lease, Material) {
    with_pending(db, "a", pending).await;
    let lease = the_lease(db, minute(10)).await;
    let material = db.store().material(&lease, at_most(exchanges_max)).await.unwrap();
    (lease, material)
}

async fn evict_one_more(db: &dyn Backend, number: i64) {
    db.store().append(append(&agent("a"), turns(number..=number))).await.unwrap();
}

pub(crate) async fn an_update_moves_everything_at_once(db: &dyn Backend) {
    let (lease, material) = ready(db, 4, 100).await;
    let mut update = patch(&material, items(&material), minute(11));
    update.run.provider = Some("openai".to_owned());
    update.run.model = Some("m".to_owned());
    update.run.model_calls = 2;
    update.run.truncated = true;
    let done = db.store().complete(&lease, update.clone()).await.unwrap();
    assert_eq!((done.version, done.rearmed), (1, false));
    let summary = db.store().summary(&agent("a")).await.unwrap().unwrap();
    assert_eq!((summary.version, summary.content), (1, update.content.clone()));
    assert_eq!((summary.token_count, summary.updated_at), (update.token_count, minute(11)));
    assert_eq!((summary.summarized_through, summary.first_exchange), (4, 5));
    assert_eq!((summary.pending_since, summary.pending), (None, Vec::new()));
    let version = "SELECT version || ' ' || covers_after || ' ' || covers_through || ' ' || exchanges || ' ' || path FROM summary_versions";
    assert_eq!(db.text(version).await.as_deref(), Some("1 0 4 4 append"));
    let run = "SELECT outcome || ' ' || path || ' ' || version || ' ' || covers_after || ' ' || covers_through || ' ' \
               || exchanges || ' ' || items_added || ' ' || items_dropped || ' ' || CASE WHEN truncated THEN 1 ELSE 0 END || ' ' || model_calls \
               || ' ' || model || ' ' || trigger_reason FROM update_runs WHERE error IS NULL";
    assert_eq!(db.text(run).await.as_deref(), Some("completed append 1 0 4 4 4 0 1 2 m eviction"));
    assert_eq!(db.number("SELECT count(*) FROM summary_update_queue").await, Some(0));
    assert_eq!(db.number("SELECT last_item FROM agents").await, Some(4));
    clean(db, &agent("a")).await;
    // The items are read back as they were written.
    db.store().enqueue(&agent("a"), Reason::Manual, 0, minute(12)).await.unwrap();
    let lease = the_lease(db, minute(12)).await;
    let read = db.store().material(&lease, ALL).await.unwrap();
    let numbered: Vec<Item> =
        (1..).zip(items(&material)).map(|(number, item)| Item { item: number, ..item }).collect();
    assert_eq!(read.items, numbered);
    assert_eq!((read.version, read.next_ageing_at), (1, update.next_ageing_at));
}

/// One item may cover an old item's exchanges together with new ones, and the coverage is checked.
pub(crate) async fn old_and_new_exchanges_may_share_an_item(db: &dyn Backend) {
    let (lease, material) = ready(db, 5, 3).await;
    db.store().complete(&lease, patch(&material, items(&material), minute(10))).await.unwrap();
    let lease = the_lease(db, minute(20)).await;
    let material = db.store().material(&lease, ALL).await.unwrap();
    assert_eq!((material.lo, material.hi, material.fixed.len()), (3, 5, 0));
    let [fourth, fifth] = <[Item; 2]>::try_from(items(&material)).unwrap();
    let old = material.items.last().unwrap();
    let merged = Item {
        ranges: vec![ExchangeRange { first: 3, last: 4 }],
        started_at: old.started_at,
        source_tokens: old.source_tokens + fourth.source_tokens,
        ..fourth
    };
    let mut update = patch(&material, vec![merged.clone(), fifth], minute(20));
    let without = update.clone();
    update.removed = vec![old.item];
    assert!(
        matches!(db.store().complete(&lease, without).await, Err(StoreError::Inconsistent { .. })),
        "exchange 3 would stand twice"
    );
    db.store().complete(&lease, update).await.unwrap();
    assert_eq!(clean(db, &agent("a")).await.pending, 0);
    let replaced = "SELECT count(*) FROM summary_items o JOIN summary_items n ON n.added_version = o.removed_version \
                    JOIN summary_item_ranges r ON r.item = n.item AND r.first_exchange = 3 AND r.last_exchange = 4";
    assert_eq!(db.number(replaced).await, Some(1));
}

pub(crate) async fn a_partial_batch_rearms(db: &dyn Backend) {
    let (lease, material) = ready(db, 7, 3).await;
    assert_eq!((material.lo, material.hi, material.exchanges.len()), (0, 3, 3));
    let done = db.store().complete(&lease, patch(&material, items(&material), minute(10))).await.unwrap();
    assert!(done.rearmed);
    assert_eq!(clean(db, &agent("a")).await.pending, 4);
    // Four more are a batch, so the row is due at once, and counts as a new one.
    let lease = the_lease(db, minute(10)).await;
    assert_eq!((lease.attempt, lease.crashes), (1, 0));
    let summary = db.store().summary(&agent("a")).await.unwrap().unwrap();
    assert_eq!(summary.pending_since, Some(minute(10)));
}

pub(crate) async fn a_rest_waits_for_more(db: &dyn Backend) {
    let (lease, material) = ready(db, 5, 3).await;
    db.store().complete(&lease, patch(&material, items(&material), minute(10))).await.unwrap();
    let wait = minute(10).plus_ms(rules().max_wait_ms);
    assert_eq!(db.store().claim(claim("daemon", 1, wait.plus_ms(-1))).await.unwrap(), []);
    assert_eq!(the_lease(db, wait).await.attempt, 1);
}

/// Four exchanges, one token short of a batch.
pub(crate) async fn a_rest_of_few_tokens_waits_for_more(db: &dyn Backend) {
    let (lease, material) = ready(db, 7, 3).await;
    let mut patch = patch(&material, items(&material), minute(10));
    patch.batch_tokens_min = 4 * TURN_TOKENS + 1;
    assert!(db.store().complete(&lease, patch).await.unwrap().rearmed);
    let wait = minute(10).plus_ms(rules().max_wait_ms);
    let early = claim("daemon", 1, wait.plus_ms(-1));
    assert_eq!(db.store().claim(early).await.unwrap(), []);
    assert_eq!(the_lease(db, wait).await.attempt, 1);
}

pub(crate) async fn a_rest_of_enough_tokens_is_due(db: &dyn Backend) {
    let (lease, material) = ready(db, 7, 3).await;
    let mut patch = patch(&material, items(&material), minute(10));
    patch.batch_tokens_min = 4 * TURN_TOKENS;
    assert!(db.store().complete(&lease, patch).await.unwrap().rearmed);
    assert_eq!(the_lease(db, minute(10)).await.attempt, 1);
}

pub(crate) async fn an_urgent_wake_during_work_is_served_at_once(db: &dyn Backend) {
    let (lease, material) = ready(db, 3, 3).await;
    evict_one_more(db, 5).await;
    db.store().end_session(&agent("a"), minute(10)).await.unwrap();
    let done = db.store().complete(&lease, patch(&material, items(&material), minute(10))).await.unwrap();
    assert!(done.rearmed);
    // A single exchange would wait for more, but the session has ended, so none will come.
    let lease = the_lease(db, minute(10)).await;
    let material = db.store().material(&lease, ALL).await.unwrap();
    assert_eq!((material.lo, material.hi), (3, 4));
    assert!(
        !db.store().complete(&lease, patch(&material, items(&material), minute(10))).await.unwrap().rearmed
    );
}

pub(crate) async fn a_wake_during_work_is_not_lost(db: &dyn Backend) {
    let (lease, material) = ready(db, 3, 3).await;
    let update = patch(&material, items(&material), minute(10));
    // Nothing more is pending, but an ageing was asked for.
    db.store().enqueue(&agent("a"), Reason::Ageing, 0, minute(10)).await.unwrap();
    assert!(db.store().complete(&lease, update).await.unwrap().rearmed);
    let lease = the_lease(db, minute(10)).await;
    let material = db.store().material(&lease, ALL).await.unwrap();
    assert_eq!((material.lo, material.hi), (3, 3));
    // Exchanges that are evicted during the work wait for more.
    evict_one_more(db, 5).await;
    let update = patch(&material, Vec::new(), minute(10));
    assert!(db.store().complete(&lease, update).await.unwrap().rearmed);
    assert_eq!(db.store().claim(claim("daemon", 1, minute(11))).await.unwrap(), []);
    let lease = the_lease(db, minute(12)).await;
    assert_eq!(db.store().material(&lease, ALL).await.unwrap().hi, 4);
    clean(db, &agent("a")).await;
}

pub(crate) async fn ageing_writes_a_version_over_nothing(db: &dyn Backend) {
    let (lease, material) = ready(db, 3, 3).await;
    db.store().complete(&lease, patch(&material, items(&material), minute(10))).await.unwrap();
    db.store().enqueue(&agent("a"), Reason::Ageing, 0, minute(10)).await.unwrap();
    let lease = the_lease(db, minute(10)).await;
    let material = db.store().material(&lease, ALL).await.unwrap();
    assert_eq!((material.lo, material.hi, material.exchanges.len()), (3, 3, 0));
    let now = minute(60 * 30);
    let done = db.store().complete(&lease, patch(&material, Vec::new(), now)).await.unwrap();
    assert_eq!((done.version, done.rearmed), (2, false));
    let content = db.store().summary(&agent("a")).await.unwrap().unwrap().content;
    assert!(content.contains("Yesterday"), "{content}");
    clean(db, &agent("a")).await;
}

/// The watermark and the row stay as they are, and answers that may still be used keep their value.
pub(crate) async fn ageing_is_written_while_the_rest_waits(db: &dyn Backend) {
    let (lease, material) = ready(db, 4, 2).await;
    let (store, a) = (db.store(), agent("a"));
    let update = patch(&material, items(&material), minute(11));
    store.complete(&lease, update).await.unwrap();
    let lease = the_lease(db, minute(20)).await;
    let read = store.material(&lease, ALL).await.unwrap();
    let waiting = Material { hi: read.lo, exchanges: Vec::new(), ..read };
    let aged = || patch(&waiting, Vec::new(), minute(21));
    let answer = JournalledAnswer { answer: "paid for".to_owned(), input_tokens: 1, output_tokens: 1 };
    store.journal(&a, "k", &answer, minute(20)).await.unwrap();
    assert!(!store.age_document(&lease, aged()).await.unwrap());
    assert_eq!(store.summary(&a).await.unwrap().unwrap().version, 1);
    db.raw("DELETE FROM model_answers").await;
    assert!(store.age_document(&lease, aged()).await.unwrap());
    let again = store.age_document(&lease, aged()).await;
    assert!(matches!(again, Err(StoreError::Fenced(_))), "{again:?}");
    let summary = store.summary(&a).await.unwrap().unwrap();
    assert_eq!((summary.version, summary.summarized_through), (2, 2));
    assert_eq!(summary.pending.len(), 2);
    assert_eq!(
        store.release(std::slice::from_ref(&lease), minute(22)).await.unwrap(),
        1,
        "the lease went on"
    );
    assert!(store.age_document(&lease, aged()).await.is_err());
    clean(db, &a).await;
}

pub(crate) async fn items_leave_the_document(db: &dyn Backend) {
    let (lease, material) = ready(db, 3, 3).await;
    let mut update = patch(&material, items(&material), minute(10));
    update.added[1].1 = true;
    db.store().complete(&lease, update).await.unwrap();
    db.store().enqueue(&agent("a"), Reason::Ageing, 0, minute(10)).await.unwrap();
    let lease = the_lease(db, minute(10)).await;
    let material = db.store().material(&lease, ALL).await.unwrap();
    let shown = |material: &Material| material.items.iter().map(|item| item.item).collect::<Vec<_>>();
    assert_eq!(shown(&material), [1, 3]);
    let mut update = patch(&material, Vec::new(), minute(10));
    update.dropped = vec![3];
    db.store().complete(&lease, update).await.unwrap();
    db.store().enqueue(&agent("a"), Reason::Manual, 0, minute(10)).await.unwrap();
    let lease = the_lease(db, minute(10)).await;
    assert_eq!(shown(&db.store().material(&lease, ALL).await.unwrap()), [1]);
    assert_eq!(db.number("SELECT CAST(sum(items_dropped) AS bigint) FROM update_runs").await, Some(2));
    // They still cover their exchanges.
    assert_eq!(clean(db, &agent("a")).await.covered, 3);
}

pub(crate) async fn replaced_items_cover_no_more(db: &dyn Backend) {
    let (lease, material) = ready(db, 3, 2).await;
    db.store().complete(&lease, patch(&material, items(&material), minute(10))).await.unwrap();
    let lease = the_lease(db, minute(12)).await;
    let second = db.store().material(&lease, ALL).await.unwrap();
    // New items replace the first two, next to the one for the third exchange.
    let anew = items(&material).into_iter().chain(items(&second)).collect();
    let mut update = patch(&second, anew, minute(12));
    update.removed = vec![1, 2];
    db.store().complete(&lease, update).await.unwrap();
    assert_eq!(clean(db, &agent("a")).await.covered, 3);
    assert_eq!(db.number("SELECT count(*) FROM summary_items WHERE removed_version = 2").await, Some(2));
}

pub(crate) async fn exchanges_evicted_during_the_last_attempt_get_another(db: &dyn Backend) {
    let (lease, material) = ready(db, 4, 3).await;
    db.store().enqueue(&agent("a"), Reason::Eviction, 0, minute(9)).await.unwrap();
    let update = Patch {
        park: Some(AttemptError { class: "provider_auth".to_owned(), message: "no such key".to_owned() }),
        ..patch(&material, items(&material), minute(10))
    };
    let wait_ms = update.rearm_wait_ms.max(WOKEN_RETRY_MS_MIN);
    db.store().complete(&lease, update).await.unwrap();
    let again_at = minute(10).plus_ms(wait_ms);
    let early = db.store().claim(claim("daemon", 1, again_at.plus_ms(-1))).await;
    assert_eq!(early.unwrap(), []);
    let again = the_lease(db, again_at).await;
    assert_eq!(again.attempt, lease.attempt + 1);
    let material = db.store().material(&again, ALL).await.unwrap();
    assert_eq!((material.lo, material.hi), (3, 4));
}

pub(crate) async fn a_parked_update_is_applied(db: &dyn Backend) {
    let (lease, material) = ready(db, 4, 3).await;
    let digests: Vec<Item> = items(&material)
        .into_iter()
        .map(|item| Item { origin: Origin::Digest, provisional: true, ..item })
        .collect();
    let parked = Patch {
        park: Some(AttemptError { class: "provider_auth".to_owned(), message: "no such key".to_owned() }),
        ..patch(&material, digests, minute(10))
    };
    assert_eq!(db.store().complete(&lease, parked).await.unwrap().version, 1);
    assert_eq!(db.store().claim(claim("daemon", 1, minute(1_000))).await.unwrap(), []);
    let row = db.text(
        "SELECT last_error FROM summary_update_queue WHERE lease_token IS NULL AND parked_at IS NOT NULL",
    );
    assert_eq!(row.await.as_deref(), Some("provider_auth: no such key"));
    let run = db.text("SELECT outcome || ' ' || error_class || ' ' || version FROM update_runs");
    assert_eq!(run.await.as_deref(), Some("failed provider_auth 1"));
    let report = clean(db, &agent("a")).await;
    assert_eq!((report.covered, report.pending), (3, 1));
    // After its revival it continues where it stopped; its items say that they are provisional.
    db.store().enqueue(&agent("a"), Reason::Manual, 0, minute(20)).await.unwrap();
    let lease = the_lease(db, minute(20)).await;
    let material = db.store().material(&lease, ALL).await.unwrap();
    assert_eq!((lease.attempt, material.lo, material.hi), (1, 3, 4));
    assert!(material.items.iter().all(|item| item.provisional && item.origin == Origin::Digest));
}

pub(crate) async fn material_is_limited(db: &dyn Backend) {
    let (lease, material) = ready(db, 6, 1_000).await;
    assert_eq!((material.lo, material.hi, material.pending_since), (0, 6, Some(T0)));
    assert!(material.exchanges.iter().all(|stored| stored.messages.len() == 2));
    for (exchanges_max, tokens_max, hi) in
        [(4, 10_000, 4), (6, 599, 5), (6, 600, 6), (6, 250, 2), (6, 1, 1), (1, 600, 1)]
    {
        let limits = MaterialLimits { exchanges_max, tokens_max };
        let material = db.store().material(&lease, limits).await.unwrap();
        let numbers = numbers(&material);
        assert_eq!((material.hi, numbers), (hi, (1..=hi).collect()), "{limits:?}");
    }
}

pub(crate) async fn material_includes_gaps(db: &dyn Backend) {
    let (lease, _) = ready(db, 6, 1_000).await;
    db.raw("UPDATE exchange_log SET set_aside_at = opened_at WHERE exchange IN (1, 3, 5, 6)").await;
    let material = async |limits| {
        let material = db.store().material(&lease, limits).await.unwrap();
        let numbers = numbers(&material);
        (numbers, material.hi)
    };
    assert_eq!(material(ALL).await, (vec![2, 4], 6));
    assert_eq!(material(at_most(2)).await, (vec![2, 4], 6));
    assert_eq!(material(at_most(1)).await, (vec![2], 2));
    let whole = db.store().material(&lease, ALL).await.unwrap();
    let done = db.store().complete(&lease, patch(&whole, items(&whole), minute(10))).await.unwrap();
    assert!(!done.rearmed);
    assert_eq!(db.number("SELECT summarized_through FROM agents").await, Some(6));
}

pub(crate) async fn an_unknown_agent_has_no_material(db: &dyn Backend) {
    let lease = Lease {
        agent: agent("ghost"),
        token: 1,
        claimed_wake: 1,
        attempt: 1,
        crashes: 0,
        taken_over: false,
        reasons: Reason::Manual.bit(),
        ready_at: T0,
    };
    let nothing = db.store().material(&lease, ALL).await;
    assert!(matches!(nothing, Err(StoreError::UnknownAgent(name)) if name == agent("ghost")));
}

pub(crate) async fn answers_are_journalled(db: &dyn Backend) {
    let (a, b) = (agent("a"), agent("b"));
    let answer = |text: &str| JournalledAnswer { answer: text.to_owned(), input_tokens: 7, output_tokens: 3 };
    let store = db.store();
    // Nothing is kept about an agent that doesn't exist, or no longer does.
    store.journal(&a, "k", &answer("none"), T0).await.unwrap();
    assert_eq!(store.journalled(&a, "k").await.unwrap(), None);
    make(db, "a").await;
    store.journal(&a, "k", &answer("one"), T0).await.unwrap();
    store.journal(&a, "k2", &answer("other"), T0).await.unwrap();
    assert_eq!(store.journalled(&a, "k").await.unwrap(), Some(answer("one")));
    store.journal(&a, "k", &answer("two"), minute(1)).await.unwrap();
    assert_eq!(store.journalled(&a, "k").await.unwrap(), Some(answer("two")));
    assert_eq!(store.journalled(&b, "k").await.unwrap(), None);
    assert_eq!(store.journalled(&a, "k2").await.unwrap(), Some(answer("other")));
    let keys = ["k", "k1", "k2"].map(str::to_owned);
    let mut among = store.journalled_among(&a, &keys).await.unwrap();
    among.sort_unstable();
    assert_eq!(among, ["k", "k2"]);
    assert_eq!(store.journalled_among(&a, &keys[..2]).await.unwrap(), ["k"]);
    assert!(store.journalled_among(&a, &[]).await.unwrap().is_empty());
    assert!(store.journalled_among(&b, &keys).await.unwrap().is_empty());
}

pub(crate) async fn provisional_items_are_condensed_again(db: &dyn Backend) {
    let (lease, material) = ready(db, 5, 100).await;
    let mut added = items(&material);
    added.iter_mut().skip(1).step_by(2).for_each(|item| item.provisional = true);
    let mut update = patch(&material, added, minute(11));
    update.has_more = true;
    let done = db.store().complete(&lease, update).await.unwrap();
    assert!(done.rearmed, "there is more to do, although nothing is pending");

    let lease = the_lease(db, minute(11)).await;
    let material = db.store().material(&lease, ALL).await.unwrap();
    let numbers = numbers(&material);
    assert_eq!((material.lo, material.hi), (5, 5));
    assert_eq!((material.revisited.clone(), numbers), (vec![2, 4], vec![2, 4]));
    for stored in &material.exchanges {
        let texts: Vec<_> = stored.messages.iter().map(|stored| stored.message.text()).collect();
        let number = stored.exchange.exchange;
        assert_eq!(texts, [format!("Question {number}"), format!("Answer {number}")]);
    }
    for few in [MaterialLimits { tokens_max: 1, ..ALL }, at_most(1)] {
        let smallest = db.store().material(&lease, few).await.unwrap();
        assert_eq!(smallest.revisited, [2], "{few:?}");
    }

    let mut again = patch(&material, items(&material), minute(12));
    (again.exchanges, again.removed) = (0, material.revisited.clone());
    let mut short = again.clone();
    short.added.truncate(1);
    let refused = db.store().complete(&lease, short).await;
    assert!(matches!(refused, Err(StoreError::Inconsistent { .. })), "{refused:?}");
    let done = db.store().complete(&lease, again).await.unwrap();
    assert_eq!((done.version, done.rearmed), (2, false));
    let report = clean(db, &agent("a")).await;
    assert_eq!((report.covered, report.pending), (5, 0));
}

/// Digests replace the exchanges that crashed the holders; exchanges that came in since are innocent, and a model is asked about them.
pub(crate) async fn parking_resets_the_crashes(db: &dyn Backend) {
    let (_, _) = ready(db, 4, 3).await;
    let lease = the_lease(db, minute(20)).await;
    assert_eq!(lease.crashes, 1);
    let material = db.store().material(&lease, ALL).await.unwrap();
    db.store().enqueue(&agent("a"), Reason::Eviction, 0, minute(21)).await.unwrap();
    let update = Patch {
        park: Some(AttemptError {
            class: CRASHED.to_owned(),
            message: "this row has crashed 3 workers".to_owned(),
        }),
        ..patch(&material, items(&material), minute(22))
    };
    let parked = db.store().complete(&lease, update).await.unwrap().parked;
    assert!(!parked, "it was woken meanwhile");
    assert_eq!(the_lease(db, minute(1_000)).await.crashes, 0);
}
