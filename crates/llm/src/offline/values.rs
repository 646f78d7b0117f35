//! Picks the informative values among a tool call's arguments. Ids and paths come first, long prose last.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use recapd_core::domain::text::{CUT_MARK, first_line, floor_cut};

const VALUE_CHARS_MAX: usize = 64;
/// A path up to this length is shown whole, in bytes. Of a longer one only the end is shown.
const PATH_BYTES_MAX: usize = 48;
/// Limits a text that may be a path, in bytes.
const PATH_BYTES_LONGEST: usize = 1_024;
/// Numbers with fractions are exact below this.
const EXACT_MAX: f64 = 1e15;
const VALUES_MAX: usize = 64;

/// Commands that show files, or logs.
const SHOWING: [&str; 18] = [
    "cat ",
    "head ",
    "tail ",
    "less ",
    "bat ",
    "nl ",
    "grep ",
    "egrep ",
    "rg ",
    "sed ",
    "awk ",
    "jq ",
    "git show",
    "git diff",
    "git log",
    "git blame",
    "docker logs",
    "journalctl",
];

pub(super) const WORD_SCORE: f64 = 0.7;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct ShownValue {
    pub(super) text: String,
    /// How informative the value is, from 0 to 3.
    pub(super) score: f64,
    /// True if the whole value is a command that shows files.
    pub(super) shows_files: bool,
}

/// Returns the values of a call's `arguments` in order, without repetitions.
pub(super) fn of(arguments: &str) -> Vec<ShownValue> {
    let mut leaves = Leaves(Vec::new());
    if arguments.starts_with(['{', '[']) {
        // Long arguments arrive cut and aren't valid JSON. The values before the cut are enough.
        let mut json = serde_json::Deserializer::from_str(before_cut(arguments));
        drop((&mut leaves).deserialize(&mut json));
    } else {
        push(&mut leaves.0, arguments);
    }
    leaves.0
}

/// Returns the text before the mark of a cut. Removes a number at its end, which may be incomplete.
fn before_cut(arguments: &str) -> &str {
    arguments.split_once(CUT_MARK).map_or(arguments, |(head, _)| {
        head.trim_end_matches(|c: char| c.is_ascii_digit() || "+-.eE".contains(c))
    })
}

/// Collects the strings and numbers of any JSON in order. A `serde_json::Value` would lose the order.
struct Leaves(Vec<ShownValue>);

impl<'de> DeserializeSeed<'de> for &mut Leaves {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Leaves {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        push(&mut self.0, text);
        Ok(())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.visit_str(&number.to_string())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        // A longer number was rounded.
        if number.abs() < EXACT_MAX { self.visit_str(&number.to_string()) } else { Ok(()) }
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(&mut *self)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while fields.next_key::<IgnoredAny>()?.is_some() {
            fields.next_value_seed(&mut *self)?;
        }
        Ok(())
    }
}

fn push(values: &mut Vec<ShownValue>, text: &str) {
    if values.len() >= VALUES_MAX {
        return;
    }
    let (score, shows_files) = (score(text), shows_files(text));
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let goes_on = lines.nth(1).is_some();
    let mut text = first_line(path_tail(text), VALUE_CHARS_MAX);
    if goes_on && !text.is_empty() && !text.ends_with('…') {
        text.push('…');
    }
    if !text.is_empty() && values.iter().all(|value| value.text != text) {
        values.push(ShownValue { text, score, shows_files });
    }
}

/// Returns true if a command shows files. Skips a leading `cd`.
fn shows_files(command: &str) -> bool {
    command
        .split("&&")
        .map(str::trim_start)
        .find(|part| !part.starts_with("cd "))
        .is_some_and(|part| SHOWING.iter().any(|start| part.starts_with(start)))
}

/// Returns the end of a long path, after a slash: the name instead of the common folder. Returns other texts unchanged.
fn path_tail(text: &str) -> &str {
    let bytes_over = text.len().saturating_sub(PATH_BYTES_MAX);
    if bytes_over == 0 || text.len() > PATH_BYTES_LONGEST || text.contains(char::is_whitespace) {
        return text;
    }
    let slash = text.match_indices('/').map(|(index, _)| index).find(|index| *index >= bytes_over);
    slash.and_then(|index| text.get(index + 1..)).filter(|tail| !tail.is_empty()).unwrap_or(text)
}

fn score(text: &str) -> f64 {
    let text = floor_cut(text.trim(), VALUE_CHARS_MAX * 4);
    let has = |test: fn(char) -> bool| text.chars().any(test);
    let digits = has(|c| c.is_ascii_digit());
    let letters = has(char::is_alphabetic);
    if text.contains(char::is_whitespace) {
        return if text.contains('\n') || text.len() > VALUE_CHARS_MAX { 0.3 } else { 0.8 };
    }
    // Code, patterns and formulas: the text around them describes them.
    if !text.chars().all(|c| c.is_alphanumeric() || "_./\\@:~+-#$%".contains(c)) {
        return 0.6;
    }
    let is_word = text.chars().all(|c| c.is_lowercase() || c == '_');
    match (letters, digits) {
        (true, true) => 3.0,
        (true, false) if text.contains(['/', '\\', '.', '@']) => 3.0,
        (true, false) if is_word => WORD_SCORE,
        (true, false) => 1.2,
        (false, true) if text.len() >= 6 => 2.0,
        (false, true) => 0.5,
        (false, false) => 0.1,
    }
}

/// Returns true if a value names one thing (an id, a path, a date), and isn't an everyday word or prose.
pub(super) fn is_identifier(value: &ShownValue) -> bool {
    value.score >= 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_without_their_keys() {
        let cases: [(&str, &[&str]); 9] = [
            ("{\"n\": 7, \"amount\": 12\n[… 30 characters left out …]\n50}", &["7"]),
            (r#"{"tracking": 12345678901234567890123, "n": 2.5}"#, &["2.5"]),
            (r#"{"reservation_id": "NQNU5R"}"#, &["NQNU5R"]),
            (r#"{"z": [{"id": "X1", "n": 3}, {"id": "X1"}], "b": true, "a": -2.5}"#, &["X1", "3", "-2.5"]),
            (r#"{"path": "src/a.rs", "new": "fn [… left"#, &["src/a.rs"]),
            ("cargo test\nmore", &["cargo test…"]),
            ("", &[]),
            ("{}", &[]),
            (
                r#"{"file": "/home/kim/work/projects/reading-room/catalogue/src/shelf/label.rs"}"#,
                &["reading-room/catalogue/src/shelf/label.rs"],
            ),
        ];
        for (arguments, expected) in cases {
            let texts: Vec<String> = of(arguments).into_iter().map(|value| value.text).collect();
            assert_eq!(texts, expected, "{arguments}");
        }
    }

    #[test]
    fn ids_and_paths_tell_more_than_words_and_prose() {
        let scores: Vec<f64> =
            ["NQNU5R", "src/a.rs", "order it", "a long story about a flight that goes on and on and on…"]
                .iter()
                .map(|text| score(text))
                .collect();
        assert!(scores.windows(2).all(|pair| pair[0] >= pair[1]), "{scores:?}");
        assert!(scores[1] > scores[2]);
    }
}
