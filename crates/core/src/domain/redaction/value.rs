//! Checks whether a value after `password =`, or a number with as many digits as a card's, is a secret. The value may also be code or a
//! placeholder, and the number may be any other number.

use std::ops::Range;

const PLACEHOLDERS: [&str; 28] = [
    "password",
    "passwd",
    "pass",
    "pwd",
    "secret",
    "token",
    "changeme",
    "change_me",
    "change-me",
    "placeholder",
    "example",
    "redacted",
    "hidden",
    "none",
    "null",
    "nil",
    "true",
    "false",
    "undefined",
    "required",
    "string",
    "optional",
    "str",
    "bool",
    "dummy",
    "todo",
    "empty",
    // The beginning of a mark, up to a blank.
    "[redacted:",
];
const TEMPLATES: [&str; 12] =
    ["${", "$(", "{{", "<", "%(", "%s", "%{", "your", "my_", "my-", "insert", "replace"];
/// Random letters and digits have nearly 6 bits per character, identifiers 2 to 3.5.
const BITS_PER_CHAR_MIN: f64 = 3.0;

/// Returns true if the value of a key such as `password`, in quotes or in an env file, isn't a placeholder.
pub(super) fn is_no_placeholder(text: &str, span: &Range<usize>) -> bool {
    text.get(span.clone()).is_some_and(|value| !is_placeholder(value))
}

/// Returns true if a value without quotes is neither a placeholder nor code: it has letters and digits, and nothing calls it.
pub(super) fn is_bare_secret(text: &str, span: &Range<usize>) -> bool {
    let Some(value) = text.get(span.clone()) else {
        return false;
    };
    let has = |kind: fn(&u8) -> bool| value.as_bytes().iter().any(kind);
    let next = text.as_bytes().get(span.end);
    !is_placeholder(value)
        && has(u8::is_ascii_alphabetic)
        && has(u8::is_ascii_digit)
        && !matches!(next, Some(b'(' | b'['))
        && !value.contains("::")
        && !value.contains("//")
}

/// Returns true if the value looks random: it has digits among letters, and is neither a placeholder nor a word.
pub(super) fn is_random(text: &str, span: &Range<usize>) -> bool {
    let Some(value) = text.get(span.clone()) else {
        return false;
    };
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    let letters = value.bytes().filter(u8::is_ascii_alphabetic).count();
    digits >= 2
        && letters >= 2
        && !is_placeholder(value)
        && bits_per_char(value) >= BITS_PER_CHAR_MIN
        && !matches!(text.as_bytes().get(span.end), Some(b'(' | b'['))
}

/// Returns true if the value may be a credential, such as the base64 of `user:password`: it isn't a placeholder and has a digit, a
/// capital letter or `=`.
pub(super) fn is_credential(text: &str, span: &Range<usize>) -> bool {
    let Some(value) = text.get(span.clone()) else {
        return false;
    };
    !is_placeholder(value) && value.bytes().any(|b| b.is_ascii_digit() || b.is_ascii_uppercase() || b == b'=')
}

/// Returns true for the number of a payment card: its check digit is right, and it isn't a part of a longer number.
pub(super) fn is_card(text: &str, span: &Range<usize>) -> bool {
    let bytes = text.as_bytes();
    let previous = span.start.checked_sub(1).and_then(|at| bytes.get(at));
    let next = bytes.get(span.end);
    let joins = |byte: Option<&u8>| matches!(byte, Some(b'.' | b'-' | b'/' | b'_' | b'='));
    let digits: Vec<u32> =
        text.get(span.clone()).unwrap_or_default().chars().filter_map(|c| c.to_digit(10)).collect();
    // A sentence may end after a number; a fraction continues.
    let is_fraction = next == Some(&b'.') && bytes.get(span.end + 1).is_some_and(u8::is_ascii_digit);
    !joins(previous)
        && !matches!(next, Some(b'-' | b'/' | b'_'))
        && !is_fraction
        && digits.iter().any(|digit| Some(digit) != digits.first())
        && luhn(&digits)
}

/// Verifies the check digit by ISO/IEC 7812-1, annex B.
fn luhn(digits: &[u32]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(index, &digit)| match index % 2 {
            0 => digit,
            _ if digit > 4 => digit * 2 - 9,
            _ => digit * 2,
        })
        .sum();
    sum.is_multiple_of(10)
}

fn is_placeholder(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let lower = lower.trim_matches(|c: char| matches!(c, '"' | '\'' | '`' | '.' | '!' | '?'));
    let first = lower.chars().next();
    PLACEHOLDERS.contains(&lower)
        || TEMPLATES.iter().any(|template| lower.starts_with(template))
        || (lower.starts_with('$') && !lower.contains(['/', '.']))
        // xxxxxxxx, ********, ........
        || lower.chars().all(|c| Some(c) == first)
        || lower.chars().all(|c| matches!(c, '*' | '.' | '…' | 'x' | '-' | '_'))
}

#[expect(clippy::cast_precision_loss, reason = "a value has a few hundred bytes")]
fn bits_per_char(value: &str) -> f64 {
    let mut counts = [0_usize; 256];
    for byte in value.bytes() {
        if let Some(count) = counts.get_mut(usize::from(byte)) {
            *count += 1;
        }
    }
    let total = value.len() as f64;
    counts
        .into_iter()
        .filter(|&count| count > 0)
        .map(|count| {
            let share = count as f64 / total;
            -share * share.log2()
        })
        .sum()
}
