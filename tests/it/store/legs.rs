//! Reads the legs of an exchange.

use recapd_core::domain::{lineage::Step, window::Budget};
use recapd_store::PreparedMessage;

use super::lineage::step;
use crate::support::{
    backend::Backend,
    conversation::{agent, append, minute, said, turn},
};

/// A round of 50 tokens; a leg of 100 holds two.
fn round(number: i64) -> [PreparedMessage; 2] {
    [
        said("tool_call", &format!("lint_{number}"), 10, minute(number)),
        said("tool_result", &format!("Result {number}"), 40, minute(number)),
    ]
}

fn rounds(numbers: std::ops::RangeInclusive<i64>) -> Vec<PreparedMessage> {
    numbers.flat_map(round).collect()
}

async fn say(db: &dyn Backend, name: &str, messages: Vec<PreparedMessage>) {
    let mut request = append(&agent(name), messages);
    request.rules.budget = Budget::new(1_000_000, 1.0).with_leg_tokens(100);
    db.store().append(request).await.unwrap();
}

/// Returns the numbers of an exchange's legs.
async fn legs(db: &dyn Backend, name: &str, exchange: i64) -> Vec<i64> {
    let rows = db.store().legs(&agent(name), exchange).await.unwrap();
    if let Some(first) = rows.first() {
        assert!(rows.iter().all(|row| row.first_leg() == first.exchange), "{rows:?}");
    }
    rows.iter().map(|row| row.exchange).collect()
}

pub(crate) async fn the_legs_of_an_exchange_are_read(db: &dyn Backend) {
    let mut messages = Vec::from(turn(1));
    messages.push(said("user", "Fix all linting errors", 50, minute(2)));
    messages.extend(rounds(1..=12));
    messages.push(said("assistant", "Fixed them.", 10, minute(20)));
    messages.extend(turn(30));
    say(db, "a", messages).await;
    for number in 2..=8 {
        assert_eq!(legs(db, "a", number).await, [2, 3, 4, 5, 6, 7, 8]);
    }
    assert_eq!(legs(db, "a", 1).await, [1]);
    assert_eq!(legs(db, "a", 9).await, [9]);
    assert_eq!(legs(db, "a", 99).await, [0_i64; 0]);
    assert_eq!(legs(db, "nobody", 1).await, [0_i64; 0]);
    let rows = db.store().legs(&agent("a"), 3).await.unwrap();
    assert_eq!(rows[0].headline.title, "Fix all linting errors");
    assert_eq!(rows[6].headline.answer, "Fixed them.");
}

pub(crate) async fn legs_are_inherited_and_set_aside(db: &dyn Backend) {
    let mark = |at| step(&Step::Mark(Some("here".to_owned())), at);
    say(db, "a", vec![said("user", "Fix all linting errors", 50, minute(1))]).await;
    say(db, "a", rounds(1..=4)).await;
    db.store().fork(&agent("a"), &agent("b"), minute(50)).await.unwrap();
    say(db, "a", rounds(5..=8)).await;
    assert_eq!(legs(db, "a", 1).await, [1, 2, 3, 4, 5]);
    // Later events in the parent don't concern the child.
    assert_eq!(legs(db, "b", 3).await, [1, 2, 3]);
    say(db, "b", vec![mark(51)]).await;
    say(db, "b", rounds(9..=12)).await;
    let grown = legs(db, "b", 1).await;
    assert_eq!(grown[..3], [1, 2, 3]);
    assert!(grown.len() > 4, "{grown:?}");
    say(db, "b", vec![step(&Step::Rewind(Some("here".to_owned())), 60)]).await;
    let back = legs(db, "b", 1).await;
    assert!(back.len() < grown.len() && back[..3] == [1, 2, 3], "{back:?}");
    // Reading a set-aside leg returns the live ones.
    assert_eq!(legs(db, "b", *grown.last().unwrap()).await, back);
    assert_eq!(legs(db, "a", 1).await, [1, 2, 3, 4, 5]);
}
