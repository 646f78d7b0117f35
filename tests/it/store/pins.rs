//! Pins and important messages: what stays in view, and what ends that.

use recapd_core::domain::lineage::Step;
use recapd_store::{AppendOutcome, AppendRequest, PreparedMessage, StepOutcome, StoreError};

use super::{clean, forget::forget, lineage::step};
use crate::support::{
    backend::{Backend, TABLES, assert_same},
    conversation::{TURN_TOKENS, agent, append, important, minute, turns},
};

async fn say(db: &dyn Backend, name: &str, messages: Vec<PreparedMessage>) -> AppendOutcome {
    let outcome = db.store().append(append(&agent(name), messages)).await.unwrap();
    clean(db, &agent(name)).await;
    outcome
}

async fn steps(db: &dyn Backend, name: &str, steps: &[Step]) -> Vec<StepOutcome> {
    let messages = steps.iter().map(|taken| step(taken, 90)).collect();
    say(db, name, messages).await.steps
}

/// Describes what stays in view as `number#exchange`, with `!` for pinned messages.
async fn pins(db: &dyn Backend, name: &str) -> String {
    let found = db.store().pins(&agent(name), 100).await.unwrap();
    assert_eq!(found.oldest_unread, None);
    let shown = found.pins.iter().map(|pin| {
        let mark = if pin.pinned { "!" } else { "" };
        format!("{}#{}{mark}", pin.message.seq, pin.exchange)
    });
    shown.collect::<Vec<_>>().join(" ")
}

/// Returns turns with some important questions: exchange `n` holds the messages `2n - 1` and `2n`.
fn turns_with(important_ones: &[i64], numbers: std::ops::RangeInclusive<i64>) -> Vec<PreparedMessage> {
    let mut messages = turns(numbers.clone());
    for (at, number) in numbers.enumerate() {
        if important_ones.contains(&number) {
            messages[2 * at] = important("user", &format!("Rule {number}"), 40, minute(number));
        }
    }
    messages
}

pub(crate) async fn a_pin_outlives_its_exchange_and_a_clear(db: &dyn Backend) {
    say(db, "a", turns(1..=3)).await;
    let taken = steps(db, "a", &[Step::Pin(2), Step::Pin(2), Step::Pin(5)]).await;
    let pinned = |seq, exchange| StepOutcome::Pinned { seq, exchange };
    assert_eq!(taken, [pinned(2, 1), pinned(2, 1), pinned(5, 3)]);
    assert_eq!(pins(db, "a").await, "2#1! 5#3!");
    steps(db, "a", &[Step::Clear]).await;
    say(db, "a", turns(4..=6)).await;
    assert_eq!(pins(db, "a").await, "2#1! 5#3!");
    let taken = steps(db, "a", &[Step::Unpin(2), Step::Unpin(2)]).await;
    assert_eq!(taken, [StepOutcome::Unpinned { seq: 2 }, StepOutcome::NotThere { seq: 2 }]);
    assert_eq!(pins(db, "a").await, "5#3!");
    let found = db.store().pins(&agent("a"), 1).await.unwrap();
    assert_eq!(found.pins[0].message.message.text(), "Question 3");
}

pub(crate) async fn important_messages_hold_for_their_session(db: &dyn Backend) {
    say(db, "a", turns_with(&[1, 3], 1..=4)).await;
    assert_eq!(pins(db, "a").await, "1#1 5#3");
    // A pin makes it outlive the session; without the pin it is only important again.
    steps(db, "a", &[Step::Pin(1), Step::Pin(5), Step::Unpin(5)]).await;
    assert_eq!(pins(db, "a").await, "1#1! 5#3");
    db.store().end_session(&agent("a"), minute(80)).await.unwrap();
    assert_eq!(pins(db, "a").await, "1#1! 5#3", "until the next one begins");
    say(db, "a", turns_with(&[5], 5..=5)).await;
    assert_eq!(pins(db, "a").await, "1#1! 12#5");
    steps(db, "a", &[Step::Clear]).await;
    assert_eq!(pins(db, "a").await, "1#1!");
    // Metadata can be neither important nor pinned.
    let metadata = important("usage", "much", 0, minute(91));
    say(db, "a", vec![metadata]).await;
    assert_eq!(steps(db, "a", &[Step::Pin(15)]).await, [StepOutcome::NotThere { seq: 15 }]);
    assert_eq!(pins(db, "a").await, "1#1!");
}

pub(crate) async fn a_rewind_to_before_a_message_withdraws_its_pin(db: &dyn Backend) {
    say(db, "a", turns_with(&[1], 1..=2)).await;
    steps(db, "a", &[Step::Mark(None)]).await;
    say(db, "a", turns_with(&[4], 3..=5)).await;
    // Messages 1 to 4, the mark 5, and 6 to 11.
    steps(db, "a", &[Step::Pin(3), Step::Pin(6), Step::Pin(10)]).await;
    assert_eq!(pins(db, "a").await, "1#1 3#2! 6#3! 8#4 10#5!");
    steps(db, "a", &[Step::Rewind(None)]).await;
    assert_eq!(pins(db, "a").await, "1#1 3#2!");
    assert_eq!(steps(db, "a", &[Step::Pin(6)]).await, [StepOutcome::NotThere { seq: 6 }]);
}

pub(crate) async fn a_fork_inherits_pins_and_changes_only_its_own(db: &dyn Backend) {
    say(db, "a", turns_with(&[2, 5], 1..=6)).await;
    steps(db, "a", &[Step::Pin(1)]).await;
    super::lineage_scripts::summarise(db, &agent("a")).await;
    db.store().fork(&agent("a"), &agent("b"), minute(99)).await.unwrap();
    clean(db, &agent("b")).await;
    assert_eq!(pins(db, "b").await, "1#1! 3#2 9#5");
    // The child can pin messages in its rows, also its parent's, and unpins only for itself.
    let taken = steps(db, "b", &[Step::Pin(11), Step::Pin(2), Step::Unpin(1)]).await;
    let first = StepOutcome::Pinned { seq: 11, exchange: 6 };
    assert_eq!(taken, [first, StepOutcome::NotThere { seq: 2 }, StepOutcome::Unpinned { seq: 1 }]);
    assert_eq!(pins(db, "b").await, "3#2 9#5 11#6!");
    assert_eq!(pins(db, "a").await, "1#1! 3#2 9#5");
    db.store().fork(&agent("b"), &agent("c"), minute(99)).await.unwrap();
    steps(db, "a", &[Step::Clear]).await;
    say(db, "c", turns(7..=8)).await;
    assert_eq!(pins(db, "c").await, "3#2 9#5 11#6!");
}

/// A list of pins doesn't show forgotten messages, so nobody could tell which to unpin.
pub(crate) async fn forgotten_messages_take_no_place_among_the_pins(db: &dyn Backend) {
    say(db, "a", turns(1..=3)).await;
    let pin = |seq| {
        let mut request = append(&agent("a"), vec![step(&Step::Pin(seq), 90)]);
        request.rules.context.pins_max_tokens = TURN_TOKENS;
        request
    };
    db.store().append(pin(1)).await.unwrap();
    db.store().append(pin(2)).await.unwrap();
    let full = db.store().append(pin(3)).await;
    assert!(matches!(full, Err(StoreError::PinsFull { .. })), "{full:?}");
    forget(db, "a", &[1]).await;
    db.store().append(pin(3)).await.unwrap();
    assert_eq!(pins(db, "a").await, "3#2!");
}

pub(crate) async fn a_pin_that_does_not_fit_is_refused(db: &dyn Backend) {
    say(db, "a", turns(1..=4)).await;
    let pin = |seqs: &[i64]| {
        let messages = seqs.iter().map(|&seq| step(&Step::Pin(seq), 90)).collect();
        let mut request = append(&agent("a"), messages);
        request.rules.context.pins_max_tokens = TURN_TOKENS;
        request
    };
    db.store().append(pin(&[1])).await.unwrap();
    let before = db.dump(&TABLES).await;
    let refused = db.store().append(pin(&[2, 3])).await;
    assert!(
        matches!(refused, Err(StoreError::PinsFull { pinned: 2, tokens: 140, max_tokens: TURN_TOKENS })),
        "{refused:?}"
    );
    assert_same(&before, &db.dump(&TABLES).await, "refused");
    db.store().append(pin(&[2, 1])).await.unwrap();
    assert_eq!(pins(db, "a").await, "1#1! 2#1!");
    // Pins get at most a quarter of the agent's requests.
    let mut small = pin(&[3]);
    small.rules.context.pins_max_tokens = 10_000;
    small.rules.context.max_tokens = 500;
    let refused = db.store().append(small).await;
    assert!(matches!(refused, Err(StoreError::PinsFull { max_tokens: 125, .. })), "{refused:?}");
    // A replay accepts what was accepted once.
    let replayed = AppendRequest { replayed: true, ..pin(&[3]) };
    db.store().append(replayed).await.unwrap();
    assert_eq!(pins(db, "a").await, "1#1! 2#1! 3#2!");
    clean(db, &agent("a")).await;
}

pub(crate) async fn unknown_messages_cannot_be_pinned(db: &dyn Backend) {
    say(db, "a", turns(1..=2)).await;
    for unknown in [Step::Pin(0), Step::Pin(5), Step::Pin(99), Step::Unpin(1)] {
        let asked = append(&agent("a"), vec![step(&unknown, 90)]);
        let before = db.dump(&TABLES).await;
        let refused = db.store().rewind(asked).await;
        assert!(matches!(refused, Err(StoreError::UnknownMessage(_))), "{refused:?}");
        assert_same(&before, &db.dump(&TABLES).await, "refused");
    }
    // In a stream of messages it does nothing.
    let stepped = steps(db, "a", &[Step::Pin(99)]).await;
    assert_eq!(stepped, [StepOutcome::NotThere { seq: 99 }]);
    assert_eq!(pins(db, "a").await, "");
}

pub(crate) async fn the_oldest_important_ones_are_left_out_first(db: &dyn Backend) {
    let messages = (1..=9).map(|at| important("user", "Rule", 10, minute(at)));
    say(db, "a", messages.collect()).await;
    steps(db, "a", &[Step::Pin(1)]).await;
    let found = db.store().pins(&agent("a"), 4).await.unwrap();
    let seqs: Vec<i64> = found.pins.iter().map(|pin| pin.message.seq).collect();
    assert_eq!((seqs, found.oldest_unread), (vec![1, 7, 8, 9], Some(2)));
}

pub(crate) async fn pins_of_missing_messages_are_found(db: &dyn Backend) {
    say(db, "a", turns(1..=2)).await;
    steps(db, "a", &[Step::Pin(1)]).await;
    db.raw("UPDATE pins SET seq = 77").await;
    let report = db.store().verify(&agent("a")).await.unwrap();
    assert_eq!(report.breaches[0].found, "1 pins name messages that don't exist");
}
