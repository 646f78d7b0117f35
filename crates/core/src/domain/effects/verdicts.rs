//! Reads the results of tests and builds. The last run of a command counts, since a later run may repair a failure. A run without a
//! result, or one whose exit code and output say nothing, has no verdict.

use std::sync::LazyLock;

use regex::bytes::Regex;

use super::{
    checks::{self, Check},
    pairs::FinishedCall,
    pattern::{group, pattern},
};
use crate::domain::text::{cut, one_line};

/// Stands between the checks of a chain.
const CHAIN: &str = " && ";
/// Follows a failure that may be repaired.
const OUTDATED: &str = "; files were edited since";
const SUMMARY_CHARS_MAX: usize = 120;
/// Searches this many last lines of a result for its summary.
const LAST_LINES: usize = 15;

/// The result of a test or a build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestVerdict {
    /// The program and its subcommand: `cargo test`. For a chain, those of all its checks: `cargo fmt && cargo test`.
    pub command: String,
    /// True if the call succeeded and its summary counts no failure.
    pub has_passed: bool,
    /// The last line that sums up the run; empty if there is none.
    pub summary: String,
    /// True if files were edited after the run, so that a failure may be repaired.
    pub is_outdated: bool,
}

/// Lines that sum up a run.
static SUMS: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)\b\d+ (?:tests? )?(?:passed|failed|passing|failing|errors?|warnings?)\b|test result:|all checks passed|build succeeded|compiled successfully|\bno issues found\b|rated at \d|could not compile|^success\b",
    )
});
/// Lines that only say that nothing ran, such as those of a suite without tests.
static NOTHING_RAN: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b0 passed; 0 failed"));
/// The counts of one suite of several (cargo).
static SUITE: LazyLock<Regex> = LazyLock::new(|| pattern(r"test result: \w+\. (\d+) passed; (\d+) failed"));
/// What a run with failures prints, and the message about an unknown command.
static FAILS: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?im)\b[1-9]\d* (?:tests? )?(?:failed|failing|errors?)\b|test result: failed|\bcommand not found\b|could not compile|^error(?:\[\w+\])?:|\berror TS\d+|^npm err(?:or|!)|^FAILED\b|^Traceback \(most recent|build failed|failed to compile|\bELIFECYCLE\b|\bKeyboardInterrupt\b",
    )
});
/// What a run without failures prints.
static PASSES: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?im)\b[1-9]\d* (?:tests? )?(?:passed|passing)\b|test result: ok|all checks passed|build succeeded|build success|compiled successfully|\bno issues found\b|\bbuilt in \d|\b0 (?:errors|problems|failures)\b|rated at 10|tests passed|^ok\s|^(?:OK|PASS)\b|\bfail 0\b",
    )
});

/// What cargo prints when a build is done. The tests still have to run then.
static BUILT: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?im)^\s*finished `"));

/// Records the result of the checks in `command`. A chain has one verdict, because its exit code doesn't say which check failed.
pub(super) fn add(verdicts: &mut Vec<TestVerdict>, command: &str, call: &FinishedCall<'_>) {
    let checks = checks::of(command);
    let Some(last) = checks.last().filter(|_| call.is_answered()) else {
        return;
    };
    // The exit code is that of the unmasked checks.
    let names =
        checks.iter().filter(|check| check.is_masked == last.is_masked).map(|check| check.name.as_str());
    let command = names.collect::<Vec<_>>().join(CHAIN);
    // A run that says nothing may have repaired an earlier failure.
    remove(verdicts, &command);
    if let Some(has_passed) = outcome(last, call) {
        verdicts.push(TestVerdict { command, has_passed, summary: summary(call.result), is_outdated: false });
    }
}

/// Removes the verdicts of the checks in `command`, and of chains with one of them.
fn remove(verdicts: &mut Vec<TestVerdict>, command: &str) {
    verdicts.retain(|other| !TestVerdict::shares_check(&other.command, command));
}

impl TestVerdict {
    /// Returns the result in words: `passed (12 passed)`.
    pub fn words(&self) -> String {
        let outcome = if self.has_passed { "passed" } else { "failed" };
        let details = if self.summary.is_empty() { String::new() } else { format!(" ({})", self.summary) };
        let since = if self.is_outdated && !self.has_passed { OUTDATED } else { "" };
        format!("{outcome}{details}{since}")
    }

    /// Returns true if both commands, which may be chains, have a check in common.
    pub fn shares_check(one: &str, other: &str) -> bool {
        let mut checks = one.split(CHAIN);
        checks.any(|check| other.split(CHAIN).any(|other| check == other))
    }
}

/// Returns true if the check passed, false if it failed, `None` if the result doesn't say. A run of tests always prints that they passed;
/// other checks may print nothing.
fn outcome(check: &Check, call: &FinishedCall<'_>) -> Option<bool> {
    let result = call.result.as_bytes();
    let is_test = check.name.contains("test");
    let has_success = PASSES.is_match(result) || !is_test && BUILT.is_match(result);
    if check.is_masked || call.is_of_script() {
        let has_failure = call.is_of_script() && call.failed || FAILS.is_match(result);
        return if has_failure { Some(false) } else { has_success.then_some(true) };
    }
    if call.failed || FAILS.is_match(last_sum(call.result).as_bytes()) {
        return Some(false);
    }
    (has_success || !is_test).then_some(true)
}

fn summary(result: &str) -> String {
    let counts: Vec<[u64; 2]> = SUITE
        .captures_iter(result.as_bytes())
        .map(|suite| {
            [1, 2].map(|number| group(&suite, number).and_then(|count| count.parse().ok()).unwrap_or(0))
        })
        .collect();
    if counts.len() > 1 {
        let sum = |index: usize| counts.iter().filter_map(|suite| suite.get(index)).sum::<u64>();
        return format!("{} passed, {} failed", sum(0), sum(1));
    }
    // pytest draws lines as wide as the terminal around it.
    cut(one_line(last_sum(result)).trim_matches(['=', ' ', '-']), SUMMARY_CHARS_MAX)
}

fn last_sum(result: &str) -> &str {
    let mut sums = result.lines().rev().take(LAST_LINES).filter(|line| SUMS.is_match(line.as_bytes()));
    sums.find(|line| !NOTHING_RAN.is_match(line.as_bytes())).unwrap_or_default()
}
