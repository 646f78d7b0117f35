//! Detects a failed tool call from its result: from the fields of its JSON, or from an exit code at its beginning. Many clients report
//! failures in no other way. Words don't count, since they may come from a log, a page or source code.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::text::floor_cut;

/// Fields that are true if the call succeeded.
const SUCCESS_FLAGS: [&str; 2] = ["success", "ok"];
/// Fields that are true if the call failed.
const FAILURE_FLAGS: [&str; 2] = ["isError", "is_error"];
/// Fields with a command's exit code. Codex has them in `metadata`.
const EXIT_CODES: [&str; 5] = ["exit_code", "exitCode", "returncode", "return_code", "exit_status"];
const STATUSES: [&str; 3] = ["statusCode", "status_code", "status"];
/// The HTTP status codes of errors.
const STATUS_ERRORS: std::ops::Range<f64> = 400.0..600.0;
/// Values of a field `error` that report no error.
const NO_ERROR: [&str; 6] = ["null", "false", "0", "\"\"", "[]", "{}"];
/// The only other fields of a result whose `status` is `failed`. With any further field, it may be the status of an object that the tool
/// looked up.
const STATUS_FIELDS: [&str; 8] = ["status", "message", "msg", "reason", "detail", "details", "code", "data"];
const REASONS: [&str; 7] = ["error", "message", "msg", "reason", "detail", "details", "stderr"];
/// Phrases before an exit code.
const EXITS: [&str; 4] = ["exit code", "exit status", "exited with code", "exited with status"];
/// At most this many words stand before such a phrase: `error Command failed with exit code 1.`
const EXIT_WORDS_MAX: usize = 4;
/// The first line of the result of a script that failed (Codex).
const FAILED_SCRIPT: &str = "Script failed";
/// Searches this many lines for the exit code, before the command's output begins.
const HEADER_LINES: usize = 5;
const EXIT_BYTES_MAX: usize = 96;

type OutcomeFields<'a> = BTreeMap<String, &'a RawValue>;

/// Returns true if a result is JSON that reports a failure, or begins with an exit code other than 0, or is that of a failed script.
pub fn is_failure(result: &str) -> bool {
    if let Some(fields) = fields(result) {
        is_failed(&fields)
    } else {
        let mut header = result.trim_start().lines().take(HEADER_LINES).peekable();
        header.peek() == Some(&FAILED_SCRIPT) || header.find_map(exit_code).is_some_and(|code| code != 0)
    }
}

/// Returns the reason of a failure from a result that is JSON.
pub fn reason(result: &str) -> Option<String> {
    let fields = fields(result)?;
    REASONS.iter().find_map(|name| text_of(fields.get(*name)?))
}

/// Returns the exit code from a line that has nothing else: `Exit code: 1`, `Process exited with code 0`.
pub fn exit_code(line: &str) -> Option<i64> {
    let line = floor_cut(line, EXIT_BYTES_MAX).to_lowercase();
    let (head, tail) = EXITS.iter().find_map(|exit| line.rsplit_once(*exit))?;
    let is_alone = head.split_whitespace().count() <= EXIT_WORDS_MAX && !tail.contains(char::is_alphabetic);
    let code = tail.trim_matches(|c: char| c != '-' && !c.is_ascii_digit());
    code.parse().ok().filter(|_| is_alone)
}

fn fields(result: &str) -> Option<OutcomeFields<'_>> {
    let result = result.trim();
    result.starts_with('{').then(|| serde_json::from_str(result).ok()).flatten()
}

/// Returns true if the fields report a failure. Fields that report success or failure explicitly come before hints.
fn is_failed(fields: &OutcomeFields<'_>) -> bool {
    let flag = |names: &[&str]| -> Option<bool> { names.iter().find_map(|name| read(fields.get(*name)?)) };
    flag(&SUCCESS_FLAGS)
        .map(|success| !success)
        .or_else(|| flag(&FAILURE_FLAGS))
        .or_else(|| exit_field(fields).map(|code| code != 0))
        .unwrap_or_else(|| names_error(fields) || has_bad_status(fields))
}

fn exit_field(fields: &OutcomeFields<'_>) -> Option<i64> {
    let code = |fields: &OutcomeFields<'_>| -> Option<i64> {
        EXIT_CODES.iter().find_map(|name| read(fields.get(*name)?))
    };
    code(fields).or_else(|| code(&self::fields(fields.get("metadata")?.get())?))
}

fn names_error(fields: &OutcomeFields<'_>) -> bool {
    fields.get("error").is_some_and(|error| !NO_ERROR.contains(&error.get()))
}

fn has_bad_status(fields: &OutcomeFields<'_>) -> bool {
    let number = STATUSES.iter().find_map(|name| read::<f64>(fields.get(*name)?));
    let word = fields.get("status").and_then(|status| read::<String>(status));
    let has_only_status_fields = || fields.keys().all(|name| STATUS_FIELDS.contains(&name.as_str()));
    number.is_some_and(|status| STATUS_ERRORS.contains(&status))
        || word.is_some_and(|word| {
            word == "error" || ((word == "failed" || word == "failure") && has_only_status_fields())
        })
}

/// Returns a string, or the `message` of an object.
fn text_of(raw: &RawValue) -> Option<String> {
    let nested = || read::<String>(fields(raw.get())?.get("message")?);
    read::<String>(raw).or_else(nested).filter(|text| text.contains(char::is_alphanumeric))
}

fn read<'a, T: serde::Deserialize<'a>>(raw: &'a RawValue) -> Option<T> {
    serde_json::from_str(raw.get()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_detected_by_fields_and_exit_codes() {
        for result in [
            r#"{"success":false,"data":null}"#,
            r#"{"ok": false}"#,
            r#"{"isError":true,"content":[]}"#,
            r#"{"error":"no such order"}"#,
            r#"{"error":{"code":5,"message":"gone"},"id":7}"#,
            r#"{"status":"error","id":7}"#,
            r#"{"status":"failed","message":"gone"}"#,
            r#"{"stdout":"","exit_code":1}"#,
            r#"{"exitCode":2}"#,
            r#"{"returncode":-9,"stdout":"ok"}"#,
            r#"{"output":"gone","metadata":{"exit_code":1,"duration_seconds":0.1}}"#,
            r#"{"statusCode":404}"#,
            r#"{"status":500,"body":""}"#,
            "Exit code: 1\nWall time: 0.1 seconds\nOutput:\ngone",
            "Exit code 101\nrunning 3 tests",
            "Chunk ID: a1\nWall time: 0.1 seconds\nProcess exited with code 2\nOutput:\n",
            "exited with code 2",
            "[exit status 1]",
        ] {
            assert!(is_failure(result), "{result}");
        }
    }

    #[test]
    fn words_about_failures_are_no_failure() {
        for result in [
            "",
            "{}",
            r#"{"success":true,"error":"none left"}"#,
            r#"{"success":3,"failed":0}"#,
            r#"{"error":null}"#,
            r#"{"error":"","errors":0}"#,
            r#"{"exit_code":0,"error":"deprecated","metadata":{"exit_code":1}}"#,
            r#"{"id":"job-7","status":"failed","branch":"main"}"#,
            r#"{"status":200}"#,
            r#"{"status":"open"}"#,
            r#"[{"success":false}]"#,
            r#"{"success":false"#,
            "Exit code: 0\nWall time: 0.1 seconds\nOutput:\nExit code: 1",
            "An exit code of 1 tells that the command failed",
            "A build on the old machine ends with exit code 1",
            "1\n2\n3\n4\n5\nexit code 1",
            "error: gone",
        ] {
            assert!(!is_failure(result), "{result}");
        }
    }

    #[test]
    fn the_reason_is_readable_text() {
        let cases = [
            (r#"{"ok":false,"error":"no such order"}"#, Some("no such order")),
            (r#"{"error":{"message":"gone","code":5}}"#, Some("gone")),
            (r#"{"error":true,"message":"too late"}"#, Some("too late")),
            (r#"{"exit_code":1}"#, None),
            ("gone", None),
        ];
        for (result, expected) in cases {
            assert_eq!(reason(result).as_deref(), expected, "{result}");
        }
    }
}
