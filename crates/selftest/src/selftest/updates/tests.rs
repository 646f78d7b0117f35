use super::*;
use crate::selftest::{progress::TrialProgress, runner::run};
use recapd_core::tokenizer;

fn updates(updates: u64, seed: u64) -> Updates {
    Updates { updates, seed, counter: tokenizer::counter_for("anthropic", "claude-sonnet-5") }
}

#[test]
fn an_adversarial_model_breaks_nothing() {
    let work = updates(80, 3);
    let found = run(&work, TrialProgress::begin(&work), 2, &|_| ()).unwrap();
    assert!(found.is_clean(), "{found:#?}");
    assert_eq!(found.updates, 80);
    for (what, count) in [
        ("refused answers", found.answers_refused),
        ("facts", found.facts),
        ("refused facts", found.facts_refused),
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
fn a_seed_determines_all_findings() {
    let many = updates(260, 5);
    let sizes = [0, 1, 2].map(|piece| many.size(piece));
    assert_eq!((many.pieces(), sizes), (2, [250, 10, 0]));
    let (one, other) = (updates(20, 5), updates(20, 6));
    let whole = run(&one, TrialProgress::begin(&one), 2, &|_| ()).unwrap();
    assert_eq!(whole, one.try_piece(0));
    assert_ne!(whole, other.try_piece(0));
}
