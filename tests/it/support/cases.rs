//! How many random cases a test runs.

use proptest::test_runner::{Config, RngSeed};

/// Runs the same `few` cases each time, or `PROPTEST_CASES` random ones if that is set, for longer runs.
pub(crate) fn cases(few: u32) -> Config {
    let default = Config { failure_persistence: None, max_shrink_iters: 300, ..Config::default() };
    if default.cases != PROPTESTS_OWN {
        return default;
    }
    Config { cases: few, rng_seed: RngSeed::Fixed(7), ..default }
}

/// The default number of cases of proptest.
const PROPTESTS_OWN: u32 = 256;
