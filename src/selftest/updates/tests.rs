use super::*;
use crate::{
    selftest::{progress::Progress, runner::run},
    tokenizer,
};

fn updates(updates: u64, seed: u64) -> Updates {
    Updates {
        updates,
        seed,
        counter: tokenizer::counter_for("anthropic", "claude-sonnet-5"),
    }
}

#[test]
fn a_model_that_does_its_worst_breaks_nothing() {
    let work = updates(300, 1);
    let found = run(&work, Progress::begin(&work), 2, &|_| ()).unwrap();
    assert!(found.is_clean(), "{found:#?}");
    assert_eq!(found.updates, 300);
    for (what, count) in [
        ("refused answers", found.answers_refused),
        ("compactions", found.compactions),
        ("refused compactions", found.compactions_refused),
        ("refused operations", found.operations_refused),
        ("merged", found.merged),
        ("condensed", found.condensed),
        ("dropped", found.dropped),
    ] {
        assert!(count > 2, "{what}: {found:#?}");
    }
}

#[test]
fn a_seed_tells_all_that_happens() {
    let (one, other) = (updates(260, 5), updates(260, 6));
    assert_eq!(
        (one.pieces(), one.size(0), one.size(1), one.size(2)),
        (2, 250, 10, 0)
    );
    let whole = run(&one, Progress::begin(&one), 2, &|_| ()).unwrap();
    let mut again = UpdateFindings::default();
    for piece in [1, 0] {
        crate::selftest::work::Found::add(&mut again, one.try_piece(piece));
    }
    assert_eq!(whole, again);
    assert_ne!(run(&other, Progress::begin(&other), 1, &|_| ()).unwrap(), whole);
}
