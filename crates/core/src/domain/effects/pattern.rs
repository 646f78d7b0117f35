//! Regular expressions over bytes, without Unicode tables. Matches begin and end at ASCII characters, so they are valid UTF-8.

use regex::bytes::{Captures, Regex, RegexBuilder};

/// Compiles a pattern, which must be a literal in a module of the effects.
pub(super) fn pattern(pattern: &str) -> Regex {
    let mut builder = RegexBuilder::new(pattern);
    builder.unicode(false).build().expect("a literal, and a test uses it")
}

pub(super) fn group<'t>(found: &Captures<'t>, number: usize) -> Option<&'t str> {
    std::str::from_utf8(found.get(number)?.as_bytes()).ok()
}
