//! The simulation keeps every promise; a seed determines the history; and without a guard, the simulation fails.

use super::*;
use crate::selftest::work::WorkFindings as _;

/// Runs that must keep every promise.
const RUNS: u64 = 80;
/// Runs within which a breach must be found.
const RUNS_MAX: u64 = 1_500;

fn without(guards: &[Guard], runs: u64) -> Simulation {
    Simulation { runs, seed: 1, without: guards.iter().copied().collect() }
}

fn simulated(guards: &[Guard], runs: u64) -> SimulationFindings {
    let simulation = without(guards, runs);
    let pieces = 0..simulation.pieces();
    pieces.fold(simulation.beginning(), |mut found, piece| {
        found.add(simulation.try_piece(piece));
        found
    })
}

/// Asserts that each of these promises is broken sooner or later without these guards.
#[track_caller]
fn assert_broken(guards: &[Guard], promises: &[Promise]) {
    assert_broken_from(1, guards, promises);
}

/// As [`assert_broken`], for rare breaches: the first one comes soon after this seed.
#[track_caller]
fn assert_broken_from(first_seed: u64, guards: &[Guard], promises: &[Promise]) {
    let (simulation, surroundings) = (without(guards, RUNS_MAX), Surroundings::new());
    let mut found = simulation.beginning();
    for seed in first_seed..=RUNS_MAX {
        simulation.try_run(seed, &surroundings, &mut found);
        if promises.iter().all(|promise| found.broken(*promise) > 0) {
            let shortest = found.failed.first().unwrap();
            assert!(!shortest.trace.is_empty());
            assert!(found.failed.iter().all(|failed| failed.steps >= shortest.steps));
            return;
        }
    }
    panic!("without {guards:?} only this is broken: {:?}", found.broken);
}

#[test]
fn whatever_happens_to_daemons_every_promise_is_kept() {
    let found = simulated(&[], RUNS);
    assert!(found.is_clean(), "{:#?}", found.failed.first());
    let counts = &found.counts;
    for (what, happened, at_least) in [
        ("updates", counts.updates, 5 * RUNS),
        ("fenced", counts.fenced_by_lease, RUNS / 10),
        ("killed", counts.killed, RUNS),
        ("stalled", counts.stalled, RUNS),
        ("cut", counts.cut, RUNS),
        ("clocks turned", counts.clocks_turned, RUNS / 2),
        ("rows lost", counts.rows_lost, RUNS / 10),
    ] {
        assert!(happened >= at_least, "{what}: {happened}");
    }
}

#[test]
fn the_same_seed_is_the_same_history() {
    let surroundings = Surroundings::new();
    let told = |seed| run::run(seed, &BTreeSet::new(), &surroundings, true);
    for seed in 1..6 {
        let (once, again) = (told(seed), told(seed));
        assert!(once.trace.len() > 20, "{seed}");
        assert_eq!(once.trace, again.trace);
        assert_eq!(once.counts, again.counts);
    }
    assert_ne!(told(1).trace, told(2).trace);
}

#[test]
fn without_the_fencing_check_a_zombie_writes() {
    assert_broken(&[Guard::Lease], &[Promise::Guarded, Promise::HeldByWriter]);
}

/// The lease's token backs up each of these guards, so the guard's own verdict is checked.
#[test]
fn a_guard_that_passes_stale_updates_is_found_even_if_others_refuse_them() {
    for guard in [Guard::Version, Guard::Watermark, Guard::Exchanges, Guard::Void] {
        assert_broken(&[guard], &[Promise::Guarded]);
    }
}

/// An item about set-aside exchanges requires that the lease isn't revoked and nothing else is checked.
#[test]
fn without_the_guards_set_aside_exchanges_are_covered() {
    let without = [Guard::Void, Guard::Version, Guard::Watermark, Guard::Exchanges];
    assert_broken_from(300, &without, &[Promise::SetAsideUntold]);
}

/// Version, watermark and token: any one of them prevents the worst, so only without all three it happens, and restoring
/// one prevents it again.
#[test]
fn without_token_version_and_watermark_exchanges_are_covered_twice() {
    let worst = [Promise::InOrder, Promise::CoveredOnce];
    let all = [Guard::Lease, Guard::Version, Guard::Watermark];
    assert_broken(&all, &worst);
    for kept in all {
        let rest: Vec<Guard> = all.into_iter().filter(|guard| *guard != kept).collect();
        let found = simulated(&rest, RUNS / 4);
        for promise in worst {
            assert_eq!(found.broken(promise), 0, "with {kept}: {:?}", found.broken);
        }
    }
}

#[test]
fn without_the_re_arm_wake_ups_are_lost() {
    assert_broken(&[Guard::Rearm], &[Promise::Woken]);
}

#[test]
fn guards_have_names() {
    for guard in Guard::ALL {
        assert_eq!(guard.name().parse(), Ok(guard));
    }
    let unknown = "locks".parse::<Guard>().unwrap_err().to_string();
    assert_eq!(unknown, "`locks` is no guard; there are lease, version, watermark, exchanges, void, rearm");
}
