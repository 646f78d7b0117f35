//! Recognises failures that a result reports in words. Only its beginning and end are examined, because the middle may be a log,
//! a page or source code. In a result that shows a file, only error fields and exit codes count.

use super::cues::{FAILURES, is_zero_count};
use recapd_core::domain::{
    outcome,
    text::{CUT_MARK, ceil_cut, cut, first_line, floor_cut, one_line},
};

const FAILURE_CHARS_MAX: usize = 160;
/// If the first line is shorter than this, in characters, the second line is added.
const FAILURE_CHARS_MIN: usize = 24;
/// How many bytes of the first line are examined.
const HEAD_BYTES: usize = 160;
/// How many bytes and lines at the end are examined.
const TAIL_BYTES: usize = 2_048;
const TAIL_LINES: usize = 12;
/// A line that begins with `error` counts as the final error only among this many last lines.
const LAST_LINES: usize = 3;
const TRACEBACK: &str = "Traceback (most recent call last)";
/// Header lines that Codex writes before the output of a command.
const HEADER: [&str; 4] = ["Chunk ID:", "Wall time:", "Original token count:", "Output:"];
/// Openings of lines that report a failed end, in lower case, without leading punctuation.
const VERDICTS: [&str; 9] = [
    "test result: failed",
    "build failed",
    "build failure",
    "info] build failure",
    "error] build failure",
    "npm err!",
    "npm error",
    "make: ***",
    "make[1]: ***",
];
/// Openings of one of the last lines after an abort, in lower case.
const LAST_WORDS: [&str; 3] = ["error:", "error[", "fatal:"];
/// First words, in capitals, of a line about a failed test or build.
const FAIL: [&str; 4] = ["FAIL", "FAILED", "FAILURE", "FAILURES"];
const COUNTED: [&str; 6] = ["failed", "failing", "failure", "failures", "error", "errors"];
/// A line's label ends within this many words.
const LABEL_WORDS: usize = 3;
/// Beginnings of words. Each line that sums up a test run contains a word with one of them.
const SUMMED_UP: [&str; 4] = ["pass", "test", "example", "spec"];

/// Returns true if `result` reports a failure. If it only shows a file (`is_file`), only error fields and exit codes
/// count.
pub(super) fn reports_failure(result: &str, is_file: bool) -> bool {
    let result = result.trim();
    let is_json = result.starts_with('{') || result.starts_with("[{");
    outcome::is_failure(result)
        || (!is_file && !is_json && (begins_badly(result) || verdict(result).is_some()))
}

/// Returns how a failed result describes its failure.
pub(super) fn description(result: &str) -> Option<String> {
    let reason = outcome::reason(result.trim());
    let result = reason.as_deref().unwrap_or(result).trim();
    // An exit code alone says nothing.
    let is_code = |line: &&str| outcome::exit_code(line).is_some();
    let ending = || verdict(result).filter(|line| !begins_badly(result) && !is_code(line));
    let line = trace(result).or_else(ending).map_or_else(|| opening(result), str::to_owned);
    let line = first_line(&line, FAILURE_CHARS_MAX);
    (!line.is_empty()).then_some(line)
}

/// Returns the first line, and also the second one if the first is too short, such as `Exit code 1`.
fn opening(result: &str) -> String {
    let mut lines = result
        .lines()
        .filter(|line| !HEADER.iter().any(|start| line.starts_with(*start)))
        .map(|line| first_line(line, FAILURE_CHARS_MAX))
        .filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    let more =
        Some(&first).filter(|first| first.chars().count() < FAILURE_CHARS_MIN).and_then(|_| lines.next());
    cut(&one_line(&format!("{first} {}", more.unwrap_or_default())), FAILURE_CHARS_MAX)
}

/// Returns the error that a Python traceback names: the first line that isn't indented, or the last line if the traceback was
/// cut.
fn trace(result: &str) -> Option<&str> {
    let (_, trace) = result.rsplit_once(TRACEBACK)?;
    let (_, trace) = trace.split_once('\n')?;
    let mut lines = trace.lines().filter(|line| !line.trim().is_empty());
    if trace.contains(CUT_MARK.trim_start()) {
        return lines.next_back();
    }
    lines.find(|line| !line.starts_with(char::is_whitespace))
}

fn begins_badly(result: &str) -> bool {
    let first = result.lines().next().unwrap_or_default();
    let first = floor_cut(first, HEAD_BYTES);
    let lower = first.to_lowercase();
    begins_with(&lower, &FAILURES)
        || names_error(first)
        || is_unknown_command(&lower)
        || is_bad_response(&lower)
        || lower.ends_with(": no such file or directory")
}

fn begins_with(lower: &str, cues: &[&str]) -> bool {
    cues.iter().any(|cue| lower.strip_prefix(cue).is_some_and(|rest| follows(cue, rest)))
}

/// Returns true if a failure word isn't part of a longer word or file name and no zero count follows.
fn follows(cue: &str, rest: &str) -> bool {
    let goes_on = |rest: &str| rest.starts_with(|c: char| c.is_alphanumeric() || "_-/=".contains(c));
    let is_word = !cue.is_ascii() || !(goes_on(rest) || rest.strip_prefix('.').is_some_and(goes_on));
    is_word && !is_zero_count(rest)
}

/// Returns true for lines like `ValueError: no such order` and `java.io.IOException: gone`.
fn names_error(line: &str) -> bool {
    let name = line.split(':').next().unwrap_or_default();
    name.len() < line.len()
        && (name.ends_with("Error") || name.ends_with("Exception"))
        && name.chars().all(|c| c.is_alphanumeric() || "._$".contains(c))
}

fn is_unknown_command(lower: &str) -> bool {
    lower.ends_with(": command not found") || lower.contains(": command not found: ")
}

/// Returns true for lines like `HTTP/1.1 500 Internal Server Error`.
fn is_bad_response(lower: &str) -> bool {
    let status = lower.strip_prefix("http/").and_then(|response| response.split_whitespace().nth(1));
    status.is_some_and(|status| status.len() == 3 && status.starts_with(['4', '5']))
}

/// Returns the line near the end of `result` that reports a failure.
fn verdict(result: &str) -> Option<&str> {
    let lines: Vec<&str> = ceil_cut(result, TAIL_BYTES)
        .lines()
        .rev()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .take(TAIL_LINES)
        .collect();
    let is_last_word = |line: &&&str| {
        let lower = line.to_lowercase();
        LAST_WORDS.iter().any(|word| lower.starts_with(word))
            || is_unknown_command(&lower)
            || outcome::exit_code(line).is_some_and(|code| code != 0)
    };
    let is_end_of_trace = |line: &&&str| names_error(line) && result.contains(TRACEBACK);
    let last = lines.first().filter(|line| is_end_of_trace(line));
    let last = last.or_else(|| lines.iter().rev().find(|line| is_verdict(line)));
    last.or_else(|| lines.iter().take(LAST_LINES).find(is_last_word)).copied()
}

fn is_verdict(line: &str) -> bool {
    let bare = line.trim_start_matches(|c: char| !c.is_alphanumeric());
    let lower = bare.to_lowercase();
    let word = bare.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    let rest = bare.get(word.len()..).unwrap_or_default();
    begins_with(&lower, &VERDICTS) || (FAIL.contains(&word) && follows(word, rest)) || counts_failures(&lower)
}

/// Returns true for a summary that counts failures: `2 failed, 3 passed`, `Tests run: 3, Failures: 1`, `2 errors generated.`
/// Returns false for a sentence.
fn counts_failures(lower: &str) -> bool {
    let tokens: Vec<&str> = lower
        .split(|c: char| c.is_whitespace() || ",;()|".contains(c))
        .filter(|token| !token.is_empty())
        .collect();
    let token = |index: usize| tokens.get(index).copied().unwrap_or_default();
    let is_number = |word: &str| word.starts_with(|c: char| c.is_ascii_digit());
    let is_counted = |word: &str| COUNTED.contains(&word.trim_end_matches(['.', '!']));
    // After a count comes the next count, a duration, or nothing.
    let ends = |index: usize| {
        let next = token(index);
        let is_joint = ["in", "and"].contains(&next) && is_number(token(index + 1));
        next.is_empty() || next == "generated." || is_number(next) || is_joint
    };
    let counts = |index: usize| {
        let (first, second) = (token(index), token(index + 1));
        (is_some(first) && is_counted(second) && ends(index + 2))
            || (first.strip_suffix(':').is_some_and(is_counted) && is_some(second))
    };
    let is_label = tokens.iter().take(LABEL_WORDS).any(|token| token.ends_with(':'));
    let begins = is_label || is_number(token(0)) || token(0).starts_with("test");
    let is_about_tests = tokens.iter().any(|token| {
        let word = token.trim_start_matches(|c: char| !c.is_alphanumeric());
        SUMMED_UP.iter().any(|start| word.starts_with(start))
    });
    counts(0) || (begins && is_about_tests && (1..tokens.len()).any(counts))
}

fn is_some(count: &str) -> bool {
    count.trim_end_matches('.').parse::<u64>().is_ok_and(|count| count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_found_at_the_beginning_or_the_end() {
        for result in [
            "Error: amount does not add up",
            "Traceback (most recent call last):\n  File x\nKeyError: 'a'",
            "ValueError: no such order",
            "bash: foo: command not found",
            "fatal: not a git repository",
            "HTTP/1.1 500 Internal Server Error\nserver: x",
            "   Compiling a\nerror[E0308]: mismatched types\nerror: could not compile `a`",
            "running 2 tests\ntest result: FAILED. 1 passed; 1 failed; 0 ignored",
            "==== 2 failed, 3 passed in 0.12s ====",
            "Tests:       1 failed, 5 passed, 6 total\nTime: 1 s\nRan all test suites.",
            "Tests run: 3, Failures: 1, Errors: 0",
            "Tests  1 failed | 2 passed (3)\nDuration 1 s",
            "3 errors and 2 warnings generated.",
            "FAILED tests/test_a.py::test_b - AssertionError\n1 error in 0.1s",
            "--- FAIL: TestSum (0.00s)\nFAIL\texample/sum",
            "> lint\nnpm ERR! code ELIFECYCLE\nnpm ERR! errno 1",
            "BUILD FAILED in 3s\n3 actionable tasks: 1 executed",
            "[INFO] BUILD FAILURE\n[INFO] Total time: 1 s",
            "cc -c a.c\nmake: *** [Makefile:2: all] Error 1",
            "sorting\nProcess exited with code 2",
            "starting\nTraceback (most recent call last):\n  File x\nValueError: x",
            r#"{"success":false,"id":7}"#,
        ] {
            assert!(reports_failure(result, false), "{result}");
        }
    }

    #[test]
    fn text_about_failures_is_no_failure() {
        for result in [
            "",
            "All clear, no error",
            "Failed: 0",
            "errors: 0",
            "0 failed",
            "error.rs\nlib.rs",
            "errors/mod.rs",
            "invalidated 3 entries",
            "HTTP/1.1 200 OK",
            "test result: ok. 3 passed; 0 failed; 1 ignored",
            "Tests run: 3, Failures: 0, Errors: 0",
            "Passed!  - Failed:     0, Passed:    12",
            "12 tests passed, 0 failures",
            "uploaded 10 files, 2 failed",
            "All tests pass: I fixed 2 failing tests and 1 failure in the specs.",
            "2 failing tests pass now.",
            "Failed: 0, then fixed",
            "Exit code: 0\nOutput:\nfine",
            "a\nb\nerror: in the middle\nc\nd\ne",
            r#"{"log":"error: gone","failed":3}"#,
        ] {
            assert!(!reports_failure(result, false), "{result}");
        }
        for result in ["error: gone\n2 failed", "fatal: x", "FAIL", "ValueError: x"] {
            assert!(!reports_failure(result, true), "{result}");
        }
        assert!(reports_failure("Exit code: 1\nOutput:\ngrep: x: No such file", true));
    }

    #[test]
    fn the_words_name_the_failure() {
        let long = format!("Error: {}", "far too many words ".repeat(20));
        let cases = [
            ("exit 1\nmore", Some("exit 1 more")),
            ("", None),
            ("Error: amount does not add up\nmore", Some("Error: amount does not add up")),
            ("Traceback (most recent call last):\n  File x\nKeyError: 'a'\nbye", Some("KeyError: 'a'")),
            (
                r#"{"exit_code":1,"stderr":"Traceback (most recent call last):\n  File x\nKeyError: 'a'"}"#,
                Some("KeyError: 'a'"),
            ),
            (r#"{"success":false,"error":"no such order"}"#, Some("no such order")),
            (
                "running 2 tests\ntest result: FAILED. 1 passed; 1 failed",
                Some("test result: FAILED. 1 passed; 1 failed"),
            ),
            ("Exit code: 1\nWall time: 1 s\nOutput:\nno such shelf", Some("Exit code: 1 no such shelf")),
        ];
        for (result, expected) in cases {
            assert_eq!(description(result).as_deref(), expected, "{result}");
        }
        let line = description(&long).unwrap();
        assert!(line.ends_with('…') && line.chars().count() <= FAILURE_CHARS_MAX, "{line}");
    }
}
