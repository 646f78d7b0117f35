//! Finds the files that shell commands write: redirections, `tee`, `sed -i`. Patterns search the commands; nothing parses the shell's
//! grammar. A quoted text with blanks isn't a file. The texts of here-documents are skipped.

use std::sync::LazyLock;

use regex::bytes::Regex;

use super::pattern::{group, pattern};

/// A longer command isn't read.
pub(super) const COMMAND_BYTES_MAX: usize = 64 * 1024;

/// Quoted words with a blank or an operator in them.
static QUOTED: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"'[^'\n]*[\s<>|;&][^'\n]*'|"[^"\n]*[\s<>|;&][^"\n]*""#));
/// A redirection of the output, but not of errors alone (`2>`).
static REDIRECTION: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"(?:^|[^0-9&>=-])>{1,2}\s*["']?([^\s"'<>|;&()]+)"#));
static TEE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"\btee\s+(?:-\w+\s+)*["']?([^\s"'<>|;&()-][^\s"'<>|;&()]*)"#));
/// A command that edits files in place, from its beginning to its end.
static IN_PLACE: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b(?:sed|perl)\s[^|;&\n]*?-\w*i\b[^|;&\n]*"));
/// The word that ends a here-document. It stands where the here-document begins.
static DOCUMENT: LazyLock<Regex> = LazyLock::new(|| pattern(r#"<<[-~]?\s*["'\\]?(\w+)"#));

pub(super) fn written_files(command: &str) -> Vec<String> {
    let mut files = Vec::new();
    for line in plain_lines(command) {
        for written in [&REDIRECTION, &TEE] {
            let found = written.captures_iter(&line);
            files.extend(found.filter_map(|found| group(&found, 1).map(str::to_owned)));
        }
        files.extend(edited_in_place(&line));
    }
    files.retain(|file| is_reported(file));
    files
}

/// Returns true if `sed -i` or its like edits a file.
pub(super) fn edits_in_place(command: &str) -> bool {
    plain_lines(command).iter().any(|line| !edited_in_place(line).is_empty())
}

fn edited_in_place(line: &[u8]) -> Vec<String> {
    let in_place = IN_PLACE.captures_iter(line);
    let edited =
        in_place.filter_map(|found| group(&found, 0)?.split_whitespace().next_back().map(str::to_owned));
    edited.map(|file| file.trim_matches(['\'', '"']).to_owned()).collect()
}

/// Returns the lines of `command` without here-documents and quoted texts; none of a command that is too long.
fn plain_lines(command: &str) -> Vec<Vec<u8>> {
    if command.len() > COMMAND_BYTES_MAX {
        return Vec::new();
    }
    let lines = outside_documents(command).into_iter();
    lines.map(|line| QUOTED.replace_all(line.as_bytes(), b"''").into_owned()).collect()
}

/// Returns false for a device, a file in `/tmp`, a variable, an option, or a name without letters.
fn is_reported(file: &str) -> bool {
    !file.starts_with(['&', '$', '-', '*', '\''])
        && !file.starts_with("/dev/")
        && !file.eq_ignore_ascii_case("nul")
        && !file.starts_with("/tmp/")
        && file.contains(char::is_alphabetic)
}

/// Returns the lines of `command`, without the texts of here-documents.
pub(super) fn outside_documents(command: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut end: Option<&str> = None;
    for line in command.lines() {
        match end {
            Some(mark) if line.trim() == mark => end = None,
            Some(_) => {}
            None => {
                let document = DOCUMENT.captures(line.as_bytes());
                end = document.and_then(|found| group(&found, 1));
                lines.push(line);
            }
        }
    }
    lines
}
