//! Patterns over the bytes of a text: without tables of Unicode, as everywhere here. They match between ASCII characters, so that
//! what they find is text.

use regex::bytes::{Captures, Regex, RegexBuilder};

/// The pattern, which is a literal of this module's.
pub(super) fn pattern(pattern: &str) -> Regex {
    let mut builder = RegexBuilder::new(pattern);
    builder
        .unicode(false)
        .build()
        .expect("a literal, and a test uses it")
}

/// The text of a group, if it took part.
pub(super) fn group<'t>(found: &Captures<'t>, number: usize) -> Option<&'t str> {
    std::str::from_utf8(found.get(number)?.as_bytes()).ok()
}
