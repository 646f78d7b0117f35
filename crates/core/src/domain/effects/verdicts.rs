//! Reads the results of tests and builds. The last run of a command counts, since a later run may repair a failure.

use std::sync::LazyLock;

use regex::bytes::Regex;

use super::{pairs::FinishedCall, pattern::pattern};
use crate::domain::text::{cut, one_line};

const SUMMARY_CHARS_MAX: usize = 120;
/// The name of a command has this many words.
const NAME_WORDS: usize = 3;
/// Searches this many last lines of a result for its summary.
const LAST_LINES: usize = 15;

/// The result of a test or a build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestVerdict {
    /// The program and its subcommand: `cargo test`.
    pub command: String,
    /// True if the call succeeded and its summary counts no failure.
    pub has_passed: bool,
    /// The last line that sums up the run; empty if there is none.
    pub summary: String,
}

/// Commands that run tests, a build or another check.
static CHECKS: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^(?:(?:npx|pnpm|npm|yarn|bun|uv|poetry|python3?|\./\S*|make|just|cargo|go|dotnet|mvn|gradle|bundle|composer)\s.*?\b(?:test|tests|build|check|lint|clippy|typecheck|tsc|pytest|jest|vitest|ruff|mypy|compile|verify)\b|(?:pytest|ruff|mypy|tsc|eslint|jest|vitest|tox|ctest|rspec|phpunit|pyright|make|cargo (?:test|build|check|clippy)|go (?:test|build|vet))\b)",
    )
});
/// Lines that sum up a run.
static SUMS: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)\b\d+ (?:tests? )?(?:passed|failed|passing|failing|errors?|warnings?)\b|test result:|all checks passed|build succeeded|compiled successfully|\bno issues found\b|^success\b",
    )
});
/// Lines that sum up a run with failures, and the message about an unknown command.
static FAILS: LazyLock<Regex> = LazyLock::new(|| {
    let pattern =
        r"(?i)\b[1-9]\d* (?:tests? )?(?:failed|failing|errors?)\b|test result: failed|\bcommand not found\b";
    Regex::new(pattern).expect("a literal, and a test uses it")
});

/// Records the result of the last check in `command`.
pub(super) fn add(verdicts: &mut Vec<TestVerdict>, command: &str, call: &FinishedCall<'_>) {
    let Some(name) = command.split(['\n', ';', '|', '&']).filter_map(check_name).next_back() else {
        return;
    };
    let last_sum = call.result.lines().rev().take(LAST_LINES).find(|line| SUMS.is_match(line.as_bytes()));
    let summary = cut(&one_line(last_sum.unwrap_or_default()), SUMMARY_CHARS_MAX);
    let verdict = TestVerdict {
        has_passed: !call.failed && !FAILS.is_match(summary.as_bytes()),
        command: name,
        summary: summary.trim_matches(['=', ' ', '-']).to_owned(),
    };
    verdicts.retain(|other| other.command != verdict.command);
    verdicts.push(verdict);
}

/// Returns the name of a command that checks something.
fn check_name(command: &str) -> Option<String> {
    let command = command.trim();
    if !CHECKS.is_match(command.as_bytes()) {
        return None;
    }
    let words = command
        .split_whitespace()
        .filter(|word| !word.starts_with('-') && !word.contains(['/', '=', '>', '"', '\'']));
    let name: Vec<&str> = words.take(NAME_WORDS).collect();
    (!name.is_empty()).then(|| name.join(" "))
}
