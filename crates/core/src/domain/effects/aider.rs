//! Reads what aider changed: the edit blocks of its answers, and what it reports about them in its history.

use super::{
    Effects,
    commits::{Commit, HASH_DIGITS},
};
use crate::domain::message::{Kind, Message, Metadata};

/// The first line of an edit block. The line before the block and its fence names the file.
const BLOCK: &str = "<<<<<<< SEARCH";
/// The kind of messages that hold aider's reports.
const OUTPUT: &str = "aider_output";
const APPLIED: &str = "Applied edit to ";
const COMMITTED: &str = "Commit ";

/// Adds the files and commits of aider. An edit block changes its file, unless aider's reports don't have it.
pub(super) fn add(effects: &mut Effects, messages: &[Message]) {
    let is_report = |message: &&Message| message.kind == Kind::Metadata(Metadata::Other(OUTPUT.to_owned()));
    let reports: Vec<String> = messages.iter().filter(is_report).map(Message::text).collect();
    let lines = || reports.iter().flat_map(|report| report.lines());
    let applied: Vec<&str> = lines().filter_map(|line| line.strip_prefix(APPLIED)).collect();
    let answers = messages.iter().filter(|message| message.kind == Kind::Assistant);
    for file in answers.flat_map(|message| in_edit_blocks(&message.text())) {
        if reports.is_empty() || applied.iter().any(|path| names(path, &file)) {
            effects.add(file);
        } else {
            effects.unchanged.push(file);
        }
    }
    for file in applied {
        effects.add(file.to_owned());
    }
    effects.commits.extend(lines().filter_map(commit));
}

/// Returns true if `file` is the path, or its end.
fn names(path: &str, file: &str) -> bool {
    path.strip_suffix(file).is_some_and(|folder| folder.is_empty() || folder.ends_with('/'))
}

/// Reads `Commit 1a2b3c4 feat: Oil the gate`.
fn commit(line: &str) -> Option<Commit> {
    let (hash, subject) = line.strip_prefix(COMMITTED)?.split_once(' ')?;
    let is_hash = hash.len() >= HASH_DIGITS && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash.then(|| Commit::new(hash, subject))
}

/// Returns the files that the edit blocks of an answer name.
fn in_edit_blocks(answer: &str) -> Vec<String> {
    if !answer.contains(BLOCK) {
        return Vec::new();
    }
    let mut files = Vec::new();
    let mut name = "";
    for line in answer.lines() {
        if line == BLOCK {
            files.extend(Some(name.to_owned()).filter(|file| !file.is_empty()));
        } else if !line.starts_with("```") {
            let is_file = !line.contains(' ') && line.contains(['.', '/']);
            name = if is_file { line.trim() } else { "" };
        }
    }
    files
}
