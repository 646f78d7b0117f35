//! Clear, mark and rewind: their effects, and that a replay of the messages has the same ones.

use recapd_core::domain::{
    lineage::Step,
    message::Format,
    summary::{
        coverage::items_from,
        item::{ExchangeRange, Importance, ItemDraft, Origin},
    },
    window::Budget,
    work::Lease,
};
use recapd_core::formats;
use recapd_store::{AppendOutcome, AppendRequest, Fence, PreparedMessage, StepOutcome, StoreError};

use super::{clean, the_lease};
use crate::support::{
    backend::{Backend, TABLES, assert_same},
    conversation::{
        ALL, T0, TURN_TOKENS, agent, append, claim, items, minute, numbers, patch, prepared, rules, said,
        turn, turns,
    },
};

/// Returns the message of `step`, said in minute `at`.
pub(super) fn step(step: &Step, at: i64) -> PreparedMessage {
    prepared(step.message(minute(at)), 0, minute(at))
}

fn mark(label: &str, at: i64) -> PreparedMessage {
    step(&Step::Mark(Some(label.to_owned())), at)
}

fn rewind(label: &str, at: i64) -> PreparedMessage {
    step(&Step::Rewind(Some(label.to_owned())), at)
}

async fn say(db: &dyn Backend, messages: Vec<PreparedMessage>) -> AppendOutcome {
    let outcome = db.store().append(append(&agent("a"), messages)).await.unwrap();
    clean(db, &agent("a")).await;
    outcome
}

/// Appends with a window of this many turns.
async fn say_within(db: &dyn Backend, turns: i64, messages: Vec<PreparedMessage>) -> AppendOutcome {
    let mut request = append(&agent("a"), messages);
    request.rules.budget = Budget::new(turns * TURN_TOKENS, 1.0);
    let outcome = db.store().append(request).await.unwrap();
    clean(db, &agent("a")).await;
    outcome
}

/// Describes all exchanges as `number role from-to after tokens`, set-aside ones in brackets.
async fn told(db: &dyn Backend) -> String {
    let sql = "SELECT CASE WHEN e.set_aside_at IS NULL THEN e.told ELSE '(' || e.told || ')' END FROM \
               (SELECT set_aside_at, exchange, '#' || exchange || ' ' || role || ' ' || first_seq || '-' || last_seq \
               || ' after ' || tokens_before AS told FROM exchange_log) e ORDER BY e.exchange";
    db.texts(sql, "; ").await
}

/// Returns the first exchange of the window and the last covered one.
async fn watermarks(db: &dyn Backend) -> (i64, i64) {
    let row = db.store().agent(&agent("a")).await.unwrap().unwrap();
    (row.ledger.first_exchange, row.ledger.summarized_through)
}

pub(crate) async fn a_session_that_may_be_resumed_is_not_urgent(db: &dyn Backend) {
    let payload = r#"{"kind":"clear","data":{"resumable":true}}"#;
    for turn in 1..=2 {
        say_within(db, 9, turns(turn..=turn)).await;
        let clear = formats::parse(Format::Native, payload).unwrap();
        say_within(db, 9, vec![prepared(clear, 0, minute(turn))]).await;
        let leases = db.store().claim(claim("w", 1, T0.plus_ms(1_000))).await.unwrap();
        assert_eq!(leases.len(), 0, "it ends with each turn");
    }
    let later = T0.plus_ms(rules().max_wait_ms);
    let leases = db.store().claim(claim("w", 1, later)).await.unwrap();
    assert_eq!(leases.first().map(Lease::trigger), Some("session_pause"));
    let material = db.store().material(&leases[0], ALL).await.unwrap();
    assert_eq!(material.exchanges.len(), 2, "one update for both");
}

pub(crate) async fn a_clear_closes_the_session(db: &dyn Backend) {
    let mut messages = vec![said("system", "Be brief", 5, minute(0))];
    messages.extend(turns(1..=2));
    say_within(db, 9, messages).await;
    let outcome = say_within(db, 9, vec![step(&Step::Clear, 3)]).await;
    assert_eq!(outcome.steps, [StepOutcome::Cleared { session: 2 }]);
    assert_eq!((outcome.first_exchange, outcome.window_tokens), (3, 0));
    let [left] = outcome.evictions.try_into().unwrap();
    assert_eq!((left.from_exchange, left.through_exchange, left.tokens), (1, 2, 200));
    // Cleared exchanges are urgent: they are in neither window nor summary.
    let lease = the_lease(db, minute(0)).await;
    assert_eq!(lease.trigger(), "session_end");
    let sessions = "SELECT session || ' from ' || first_exchange || ' ' || coalesce(end_reason, 'runs') FROM sessions ORDER BY session";
    assert_eq!(db.texts(sessions, "; ").await, "1 from 1 clear; 2 from 3 runs");
    let report = clean(db, &agent("a")).await;
    assert_eq!((report.pending, report.in_window), (2, 0));

    let mut messages = vec![said("system", "Be loud", 7, minute(4)), said("system", "Very", 1, minute(4))];
    messages.extend(turns(5..=6));
    let outcome = say_within(db, 9, messages).await;
    assert_eq!((outcome.exchange, outcome.window_tokens), (5, 208));
    assert_eq!(
        told(db).await,
        "#0 preamble 1-1 after 0; #1 exchange 2-3 after 0; #2 exchange 4-6 after 100; #3 preamble 7-8 after 0; \
         #4 exchange 9-10 after 200; #5 exchange 11-12 after 300"
    );
    let material = db.store().material(&lease, ALL).await.unwrap();
    assert_eq!((material.lo, material.hi, material.exchanges.len()), (0, 2, 2));
    let update = patch(&material, items(&material), minute(7));
    db.store().complete(&lease, update).await.unwrap();
    clean(db, &agent("a")).await;
}

/// The second preamble takes an exchange's number, but isn't one.
pub(crate) async fn a_later_preamble_is_never_summarised(db: &dyn Backend) {
    say(db, turns(1..=1)).await;
    say(db, vec![step(&Step::Clear, 2), said("system", "Be loud", 7, minute(3))]).await;
    let outcome = say(db, turns(4..=6)).await;
    assert_eq!((outcome.first_exchange, outcome.window_tokens), (5, 107));
    let lease = the_lease(db, minute(9)).await;
    let material = db.store().material(&lease, ALL).await.unwrap();
    let numbers = numbers(&material);
    assert_eq!((numbers, material.hi), (vec![1, 3, 4], 4));
    let update = patch(&material, items(&material), minute(9));
    db.store().complete(&lease, update).await.unwrap();
    let report = clean(db, &agent("a")).await;
    assert_eq!((report.exchanges, report.covered, report.in_window), (4, 3, 1));
}

pub(crate) async fn a_clear_of_nothing_leaves_nothing(db: &dyn Backend) {
    let outcome = say(db, vec![step(&Step::Clear, 0), step(&Step::Clear, 1)]).await;
    assert_eq!((outcome.evictions.as_slice(), outcome.enqueued), ([].as_slice(), None));
    let outcome = say(db, turns(1..=1)).await;
    assert_eq!(outcome.window_tokens, 100);
    let report = clean(db, &agent("a")).await;
    assert_eq!((report.exchanges, report.pending), (1, 0));
}

pub(crate) async fn a_rewind_sets_later_exchanges_aside(db: &dyn Backend) {
    say_within(db, 9, turns(1..=2)).await;
    say_within(db, 9, vec![mark("here", 3)]).await;
    say_within(db, 9, turns(4..=6)).await;
    let outcome = say_within(db, 9, vec![rewind("here", 7)]).await;
    let rewound = StepOutcome::Rewound { exchange: 2, set_aside: 3, version: None };
    assert_eq!(outcome.steps, [rewound]);
    assert_eq!((outcome.exchange, outcome.window_tokens, outcome.enqueued), (2, 200, None));
    // Numbers continue, totals count live exchanges, and nothing joins an exchange across set-aside ones.
    say_within(db, 9, vec![said("assistant", "Late", 5, minute(8))]).await;
    say_within(db, 9, turns(9..=9)).await;
    assert_eq!(
        told(db).await,
        "#1 exchange 1-2 after 0; #2 exchange 3-5 after 100; (#3 exchange 6-7 after 200); (#4 exchange 8-9 after 300); \
         (#5 exchange 10-12 after 400); #6 exchange 13-13 after 200; #7 exchange 14-15 after 205"
    );
    let report = clean(db, &agent("a")).await;
    assert_eq!((report.messages, report.exchanges, report.set_aside), (15, 4, 3));
    let count = async |from, through| db.store().count_exchanges(&agent("a"), from, through).await.unwrap();
    assert_eq!((count(0, i64::MAX).await, count(2, 6).await, count(3, 5).await), (4, 2, 0));
    // Going back again leads to the same place.
    let outcome = say_within(db, 9, vec![rewind("here", 10)]).await;
    let rewound = StepOutcome::Rewound { exchange: 2, set_aside: 2, version: None };
    assert_eq!((outcome.steps, outcome.window_tokens), (vec![rewound], 200));
}

pub(crate) async fn the_exchange_with_the_mark_stays_whole(db: &dyn Backend) {
    let messages = vec![
        said("user", "Do it", 10, minute(1)),
        mark("inside", 2),
        said("assistant", "Done", 90, minute(3)),
    ];
    say_within(db, 9, messages).await;
    say_within(db, 9, turns(4..=4)).await;
    let outcome = say_within(db, 9, vec![rewind("inside", 5)]).await;
    assert_eq!(outcome.window_tokens, 100);
    assert_eq!(told(db).await, "#1 exchange 1-3 after 0; (#2 exchange 4-6 after 100)");
}

pub(crate) async fn a_mark_in_the_preamble_leads_to_the_beginning(db: &dyn Backend) {
    say_within(db, 9, vec![said("system", "Be brief", 5, minute(0)), mark("start", 0)]).await;
    say_within(db, 9, turns(1..=2)).await;
    let outcome = say_within(db, 9, vec![rewind("start", 3)]).await;
    assert_eq!((outcome.exchange, outcome.window_tokens), (0, 5));
    let outcome = say_within(db, 9, turns(4..=4)).await;
    assert_eq!((outcome.exchange, outcome.window_tokens), (3, 105));
}

pub(crate) async fn marks_are_found_by_name_or_the_newest(db: &dyn Backend) {
    let turn_and_mark = |number: i64, label: &str| {
        let mut messages = turn(number).to_vec();
        messages.push(mark(label, number));
        messages
    };
    for (number, label) in [(1, "x"), (2, "y"), (3, "x"), (4, "\"quoted\\\"")] {
        say_within(db, 9, turn_and_mark(number, label)).await;
    }
    let at = async |message: PreparedMessage| say_within(db, 9, vec![message]).await.steps;
    let rewound = |exchange, set_aside| [StepOutcome::Rewound { exchange, set_aside, version: None }];
    assert_eq!(at(rewind("\"quoted\\\"", 5)).await, rewound(4, 0));
    assert_eq!(at(step(&Step::Rewind(None), 5)).await, rewound(4, 0));
    // The newest with that label; later marks are gone.
    assert_eq!(at(rewind("x", 6)).await, rewound(3, 1));
    // The message of a rewind right after another one is in an exchange of its own. That is set aside with the rest, but it has no
    // content.
    assert_eq!(at(rewind("y", 7)).await, rewound(2, 1));
    assert_eq!(at(rewind("x", 8)).await, rewound(1, 1));
    let gone = [StepOutcome::Ignored { label: Some("y".to_owned()) }];
    assert_eq!(at(rewind("y", 9)).await, gone);
    // A clear removes all marks.
    at(step(&Step::Clear, 10)).await;
    assert_eq!(at(step(&Step::Rewind(None), 11)).await, [StepOutcome::Ignored { label: None }]);
}

pub(crate) async fn an_unknown_mark_is_refused_when_it_must_be_there(db: &dyn Backend) {
    say(db, turns(1..=2)).await;
    let before = db.dump(&TABLES).await;
    let request = |label| append(&agent("a"), vec![rewind(label, 3)]);
    let refused = db.store().rewind(request("nowhere")).await;
    assert!(matches!(refused, Err(StoreError::UnknownMark(Some(label))) if label == "nowhere"));
    assert_same(&before, &db.dump(&TABLES).await, "refused");
    say(db, vec![mark("here", 3)]).await;
    let outcome = db.store().rewind(request("here")).await.unwrap();
    assert!(matches!(outcome.steps.as_slice(), [StepOutcome::Rewound { exchange: 2, .. }]));
}

/// Turns 1 to 6 in a window of one, with a mark after the third; one item covers 1 to 5.
async fn summarised(db: &dyn Backend) -> Lease {
    let mut messages = turns(1..=3);
    messages.push(mark("third", 3));
    messages.extend(turns(4..=6));
    say(db, messages).await;
    let lease = the_lease(db, minute(9)).await;
    let material = db.store().material(&lease, ALL).await.unwrap();
    let draft = ItemDraft {
        exchanges: ExchangeRange { first: 1, last: 5 },
        importance: Importance::Feature,
        text: "All of it".to_owned(),
        brief: "All".to_owned(),
        gist: "All".to_owned(),
    };
    let rows: Vec<_> = material.exchanges.iter().map(|stored| stored.exchange.clone()).collect();
    let item = items_from(&[draft], &rows, Origin::Model).unwrap();
    db.store().complete(&lease, patch(&material, item, minute(9))).await.unwrap();
    assert_eq!(watermarks(db).await, (6, 5));
    lease
}

pub(crate) async fn a_rewind_withdraws_items_about_set_aside_exchanges(db: &dyn Backend) {
    let lease = summarised(db).await;
    let outcome = say(db, vec![rewind("third", 10)]).await;
    let rewound = StepOutcome::Rewound { exchange: 3, set_aside: 3, version: Some(2) };
    let told = (outcome.steps, outcome.version, outcome.window_tokens);
    assert_eq!(told, (vec![rewound], 2, 100));
    // The window begins where it began at the mark; the first two exchanges are still covered, by digests for now.
    assert_eq!(watermarks(db).await, (3, 2));
    let summary = db.store().summary(&agent("a")).await.unwrap().unwrap();
    assert!(!summary.content.contains("All"), "{}", summary.content);
    assert!(summary.content.contains("Question 1"), "{}", summary.content);
    assert_eq!((summary.version, summary.pending_since), (2, None));
    let version = "SELECT covers_after || ' ' || covers_through || ' ' || exchanges FROM summary_versions WHERE version = 2";
    assert_eq!(db.text(version).await.as_deref(), Some("2 2 0"));
    let token = db.number("SELECT lease_token FROM summary_versions WHERE version = 2").await;
    assert!(token > Some(lease.token), "{token:?} was used before");
    // The digests are condensed again, and later exchanges are summarised as usual.
    let lease = the_lease(db, minute(12)).await;
    let material = db.store().material(&lease, ALL).await.unwrap();
    assert_eq!((material.lo, material.hi, material.revisited.len()), (2, 2, 1));
    db.store().release(&[lease], minute(12)).await.unwrap();
    say(db, turns(13..=14)).await;
    let lease = the_lease(db, minute(15)).await;
    let material = db.store().material(&lease, ALL).await.unwrap();
    let numbers = numbers(&material);
    assert_eq!(numbers, [3, 7]);
    let update = patch(&material, items(&material), minute(15));
    db.store().complete(&lease, update).await.unwrap();
    let report = clean(db, &agent("a")).await;
    assert_eq!((report.exchanges, report.covered, report.set_aside), (5, 4, 3));
}

/// Exchanges that are back in the window aren't shown as evicted or covered.
pub(crate) async fn returned_exchanges_are_in_the_window_again(db: &dyn Backend) {
    summarised(db).await;
    say(db, vec![rewind("third", 10)]).await;
    let query = recapd_store::ExchangeQuery { from: 1, through: i64::MAX, limit: 100, bytes_max: 0 };
    let stored = db.store().exchanges(&agent("a"), query).await.unwrap();
    let told: Vec<_> = stored
        .iter()
        .map(|stored| (stored.exchange.exchange, stored.evicted_at.is_some(), stored.summary_version))
        .collect();
    assert_eq!(told, [(1, true, Some(1)), (2, true, Some(1)), (3, false, None)]);
}

pub(crate) async fn a_rewind_voids_the_lease(db: &dyn Backend) {
    let mut messages = turns(1..=3);
    messages.push(mark("third", 3));
    messages.extend(turns(4..=6));
    say(db, messages).await;
    let lease = the_lease(db, minute(9)).await;
    let material = db.store().material(&lease, ALL).await.unwrap();
    say(db, vec![rewind("third", 10)]).await;
    let update = patch(&material, items(&material), minute(11));
    let late = db.store().complete(&lease, update.clone()).await;
    assert!(matches!(late, Err(StoreError::Fenced(Fence::Lease))), "{late:?}");
    // The next claim finds the present state, and no attempt was counted. Even with the new lease the old answer is fenced.
    let lease = the_lease(db, minute(12)).await;
    assert_eq!((lease.attempt, lease.crashes), (1, 0));
    let stale = db.store().complete(&lease, update).await;
    assert!(matches!(stale, Err(StoreError::Fenced(Fence::Watermark))), "{stale:?}");
    let material = db.store().material(&lease, ALL).await.unwrap();
    assert_eq!((material.lo, material.hi), (0, 2));
    let update = patch(&material, items(&material), minute(12));
    db.store().complete(&lease, update).await.unwrap();
    clean(db, &agent("a")).await;
}

/// The budget has shrunk since the mark: a rewind brings back no more than fits.
pub(crate) async fn a_rewind_keeps_the_budget(db: &dyn Backend) {
    let mut messages = turns(1..=3);
    messages.push(mark("third", 3));
    say_within(db, 9, messages).await;
    say(db, turns(4..=4)).await;
    let outcome = say(db, vec![rewind("third", 5)]).await;
    assert_eq!((outcome.first_exchange, outcome.window_tokens), (3, 100));
}

/// Steps take effect where they stand, in one request or message by message.
pub(crate) async fn steps_in_a_batch_are_steps(db: &dyn Backend) {
    let mut all = turns(1..=2);
    all.push(mark("here", 2));
    all.extend(turns(3..=4));
    all.push(rewind("here", 5));
    all.extend(turns(6..=6));
    all.push(step(&Step::Clear, 7));
    all.push(said("system", "Anew", 5, minute(8)));
    all.extend(turns(9..=9));
    let whole = AppendRequest { replayed: true, ..append(&agent("whole"), all.clone()) };
    let outcome = db.store().append(whole).await.unwrap();
    assert_eq!(outcome.steps.len(), 3);
    for message in all {
        db.store().append(append(&agent("single"), vec![message])).await.unwrap();
    }
    for name in ["whole", "single"] {
        clean(db, &agent(name)).await;
    }
    assert_eq!(
        super::lineage_scripts::state(db, "whole").await,
        super::lineage_scripts::state(db, "single").await
    );
}
