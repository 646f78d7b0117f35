//! How tests and builds ended: the last run of a command counts, since a failure that a later run cured is no end.

use std::sync::LazyLock;

use regex::bytes::Regex;

use super::{pairs::FinishedCall, pattern::pattern};
use crate::domain::text::{cut, one_line};

/// The longest words of a verdict, in characters.
const WORDS_CHARS_MAX: usize = 120;
/// As many words of a command name it.
const NAME_WORDS: usize = 3;
/// As many of the last lines of a result are looked at for words.
const LAST_LINES: usize = 15;

/// How a test or a build ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestVerdict {
    /// The program and its subcommand: `cargo test`.
    pub command: String,
    /// Whether it went well.
    pub passed: bool,
    /// What it said last of that; empty if nothing.
    pub words: String,
}

/// Commands that test, check or build.
static CHECKS: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^(?:(?:npx|pnpm|npm|yarn|bun|uv|poetry|python3?|\./\S*|make|just|cargo|go|dotnet|mvn|gradle|bundle|composer)\s.*?\b(?:test|tests|build|check|lint|clippy|typecheck|tsc|pytest|jest|vitest|ruff|mypy|compile|verify)\b|(?:pytest|ruff|mypy|tsc|eslint|jest|vitest|tox|ctest|rspec|phpunit|pyright|make|cargo (?:test|build|check|clippy)|go (?:test|build|vet))\b)",
    )
});
/// Lines that sum a run up.
static SUMS: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)\b\d+ (?:tests? )?(?:passed|failed|passing|failing|errors?|warnings?)\b|test result:|all checks passed|build succeeded|compiled successfully|\bno issues found\b|^success\b",
    )
});
/// What counts failures in such a line, or says that a command was broken off.
static FAILS: LazyLock<Regex> = LazyLock::new(|| {
    let pattern =
        r"(?i)\b[1-9]\d* (?:tests? )?(?:failed|failing|errors?)\b|test result: failed|\bcommand not found\b";
    Regex::new(pattern).expect("a literal, and a test uses it")
});

/// Notes how the last check in `command` ended.
pub(super) fn note(verdicts: &mut Vec<TestVerdict>, command: &str, call: &FinishedCall<'_>) {
    let Some(name) = command
        .split(['\n', ';', '|', '&'])
        .filter_map(checked)
        .next_back()
    else {
        return;
    };
    let words = call
        .result
        .lines()
        .rev()
        .take(LAST_LINES)
        .find(|line| SUMS.is_match(line.as_bytes()));
    let words = cut(&one_line(words.unwrap_or_default()), WORDS_CHARS_MAX);
    let verdict = TestVerdict {
        passed: !call.failed && !FAILS.is_match(words.as_bytes()),
        command: name,
        words: words.trim_matches(['=', ' ', '-']).to_owned(),
    };
    verdicts.retain(|other| other.command != verdict.command);
    verdicts.push(verdict);
}

/// The name of a command that checks something.
fn checked(command: &str) -> Option<String> {
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
