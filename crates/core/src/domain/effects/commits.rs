//! Commits: subject and hash, from the command and from what Git says.

use std::sync::LazyLock;

use regex::bytes::Regex;

use super::pattern::{group, pattern};
use crate::domain::text::{cut, one_line};

/// The longest subject that is kept, in characters.
const SUBJECT_CHARS_MAX: usize = 120;

/// A commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The beginning of its hash; empty if Git didn't say it.
    pub hash: String,
    /// The first line of its message.
    pub subject: String,
}

/// The message of a commit: in a here-document, in double or in single quotes.
static MESSAGE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"git\b[^\n|;&]*?\scommit\b[^\n]*?(?:-\w*m|--message)[\s=]*(?:"\$\(cat <<-?\s*['"]?\w+['"]?\s*\n\s*([^\n]+)|"((?:[^"\\\n]|\\.)+)|'([^'\n]+))"#,
    )
});
/// What Git says of a commit: `[main 1a2b3c4] Add dates`.
static MADE: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?m)^\[[^\]\n]*?\b([0-9a-f]{7,40})\]\s"));

/// Adds the commits that `command` makes, each subject once: a commit that is made again was amended.
pub(super) fn note(commits: &mut Vec<Commit>, command: &str, result: &str) {
    let mut made = MADE.captures_iter(result.as_bytes());
    for message in MESSAGE.captures_iter(command.as_bytes()) {
        let subject = (1..=3)
            .find_map(|number| group(&message, number))
            .unwrap_or_default();
        let subject = cut(&one_line(&subject.replace("\\\"", "\"")), SUBJECT_CHARS_MAX);
        let made = made.next();
        let hash = made.as_ref().and_then(|made| group(made, 1)).unwrap_or_default();
        if subject.is_empty() {
            continue;
        }
        commits.retain(|commit| commit.subject != subject);
        commits.push(Commit {
            hash: hash.get(..7).unwrap_or(hash).to_owned(),
            subject,
        });
    }
}
