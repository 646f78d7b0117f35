//! Reads commits from commands and from Git's output: subject and hash.

use std::sync::LazyLock;

use regex::bytes::Regex;

use super::pattern::{group, pattern};
use crate::domain::text::{cut, one_line};

const SUBJECT_CHARS_MAX: usize = 120;
/// The digits of a hash that are kept; a shorter number isn't a hash.
pub(super) const HASH_DIGITS: usize = 7;

/// A commit made in an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The first 7 digits; empty if Git's output doesn't show the hash.
    pub hash: String,
    /// The first line of the message.
    pub subject: String,
}

impl Commit {
    /// Shortens the hash, and the subject to one line.
    pub(super) fn new(hash: &str, subject: &str) -> Self {
        let subject = cut(&one_line(subject), SUBJECT_CHARS_MAX);
        Self { hash: hash.get(..HASH_DIGITS).unwrap_or(hash).to_owned(), subject }
    }
}

/// The message of a commit, in a here-document, in double quotes or in single quotes.
static MESSAGE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"git\b[^\n|;&]*?\scommit\b[^\n]*?(?:-\w*m|--message)[\s=]*(?:"\$\(cat <<-?\s*['"]?\w+['"]?\s*\n\s*([^\n]+)|"((?:[^"\\\n]|\\.)+)|'([^'\n]+))"#,
    )
});
/// What Git prints about a commit: `[main 1a2b3c4] Add dates`.
static REPORT: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?m)^\[[^\]\n]*?\b([0-9a-f]{7,40})\]\s"));

/// Adds the commits that `command` makes, each subject once: a commit with the subject of an earlier one is taken for its amendment.
pub(super) fn add(commits: &mut Vec<Commit>, command: &str, result: &str) {
    let mut reports = REPORT.captures_iter(result.as_bytes());
    for message in MESSAGE.captures_iter(command.as_bytes()) {
        let subject = (1..=3).find_map(|number| group(&message, number)).unwrap_or_default();
        let report = reports.next();
        let hash = report.as_ref().and_then(|report| group(report, 1)).unwrap_or_default();
        let commit = Commit::new(hash, &subject.replace("\\\"", "\""));
        if commit.subject.is_empty() {
            continue;
        }
        commits.retain(|other| other.subject != commit.subject);
        commits.push(commit);
    }
}
