//! How many random cases a test runs.

use proptest::test_runner::{Config, RngSeed};

/// Always the same `few` cases; with `PROPTEST_CASES` set as many others, for runs that may take their time.
pub(crate) fn cases(few: u32) -> Config {
    let default = Config {
        failure_persistence: None,
        max_shrink_iters: 300,
        ..Config::default()
    };
    if default.cases != PROPTESTS_OWN {
        return default;
    }
    Config {
        cases: few,
        rng_seed: RngSeed::Fixed(7),
        ..default
    }
}

/// The cases that proptest runs when nobody asks for another number.
const PROPTESTS_OWN: u32 = 256;
