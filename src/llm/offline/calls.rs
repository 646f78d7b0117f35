//! Which tools matter, learnt from the batch: a call that brings much into the world and little news back changes
//! something; one that brings little and fetches much looks something up. No tool is known by name.

use std::collections::{HashMap, HashSet};

use super::{
    cues::FAILURES,
    values::{self, Telling},
    weigh::number,
};
use crate::domain::{
    text::{floor_cut, one_line},
    transcript::{Transcript, Voice},
};

/// The longest account of a failure, in bytes.
const FAILURE_BYTES_MAX: usize = 160;
/// A shorter first line is followed by the second one, in bytes.
const FAILURE_BYTES_MIN: usize = 24;
/// How much of a result is searched for the words of a failure, in bytes.
const FAILURE_HEAD_BYTES: usize = 64;
/// A call counts for this many characters more than its arguments have: even one without arguments does something.
const CALL_CHARS: f64 = 24.0;
/// What is left of the influence of a tool whose arguments name nothing: arithmetic, notes to oneself.
const NAMELESS_FACTOR: f64 = 0.45;

/// One tool call.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// The tool.
    pub(super) name: String,
    /// Its telling arguments.
    pub(super) values: Vec<Telling>,
    /// The line of the transcript in which it stands.
    pub(super) line: usize,
    /// Its result reports a failure: nothing was done.
    pub(super) failed: bool,
}

/// What the batch shows about each tool.
#[derive(Debug, Default)]
pub(super) struct Profiles {
    by_name: HashMap<String, Profile>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Profile {
    calls: usize,
    results: usize,
    naming_calls: usize,
    argument_chars: usize,
    news_chars: usize,
}

impl Profiles {
    /// Reads all calls and results of a batch.
    pub(super) fn read(transcripts: &[Transcript]) -> Self {
        let mut profiles = Self::default();
        let mut known = HashSet::new();
        for transcript in transcripts {
            profiles.read_one(transcript, &mut known);
        }
        profiles
    }

    fn read_one<'a>(&mut self, transcript: &'a Transcript, known: &mut HashSet<&'a str>) {
        let mut called = None;
        for line in &transcript.lines {
            match line.voice {
                Voice::Call => {
                    called = Some(&line.label);
                    let profile = self.by_name.entry(line.label.clone()).or_default();
                    profile.calls += 1;
                    profile.argument_chars += line.text.len();
                    profile.naming_calls +=
                        usize::from(values::of(&line.text).iter().any(values::is_identifier));
                    news(&line.text, known);
                }
                Voice::Result | Voice::FailedResult => {
                    let name = called.take().unwrap_or(&line.label);
                    let profile = self.by_name.entry(name.to_owned()).or_default();
                    profile.results += 1;
                    profile.news_chars += news(&line.text, known);
                }
                Voice::User | Voice::Assistant => called = None,
            }
        }
    }

    /// How likely a tool changes something: 0 for pure look-ups, towards 1 for pure changes.
    pub(super) fn influence(&self, name: &str) -> f64 {
        let Some(profile) = self.by_name.get(name) else {
            return 0.0;
        };
        let calls = number(profile.calls.max(1));
        let brought = number(profile.argument_chars) / calls + CALL_CHARS;
        let fetched = number(profile.news_chars) / number(profile.results.max(1));
        let naming = number(profile.naming_calls) / calls;
        brought / (brought + fetched) * (NAMELESS_FACTOR + (1.0 - NAMELESS_FACTOR) * naming)
    }
}

/// How many characters of `text` stand in words that nobody has said before.
fn news<'a>(text: &'a str, known: &mut HashSet<&'a str>) -> usize {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty() && known.insert(word))
        .map(str::len)
        .sum()
}

/// What a result says of a failure, if it reports one.
pub(super) fn failure(text: &str, is_marked: bool) -> Option<String> {
    let head = floor_cut(text.trim_start(), FAILURE_HEAD_BYTES).to_lowercase();
    let begins = FAILURES.iter().any(|cue| head.starts_with(cue));
    if !is_marked && !begins {
        return None;
    }
    let mut lines = text
        .lines()
        .filter(|line| line.chars().any(char::is_alphanumeric));
    let told = if head.contains("traceback") {
        // The last line of a trace names the error.
        lines.next_back().unwrap_or_default().to_owned()
    } else {
        let first = floor_cut(lines.next().unwrap_or_default(), FAILURE_BYTES_MAX);
        // `Exit code 1` alone says nothing.
        let more = if first.len() < FAILURE_BYTES_MIN {
            lines.next()
        } else {
            None
        };
        format!(
            "{first} {}",
            floor_cut(more.unwrap_or_default(), FAILURE_BYTES_MAX)
        )
    };
    let told = one_line(floor_cut(&told, FAILURE_BYTES_MAX));
    (!told.is_empty()).then_some(told)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::time::Timestamp;

    fn transcript(lines: &[(Voice, &str, &str)]) -> Transcript {
        Transcript::of_lines(1, Timestamp(0), lines)
    }

    #[test]
    fn changes_are_told_from_lookups_by_what_goes_in_and_what_comes_out() {
        let record = r#"{"id": "AB12CD", "user": "kim_9", "from": "OSL", "to": "LIS", "legs": ["XX100", "XX200"], "class": "economy", "paid": 4711}"#;
        let profiles = Profiles::read(&[transcript(&[
            (Voice::Call, "order_lookup", r#"{"id": "AB12CD"}"#),
            (Voice::Result, "order_lookup", record),
            (
                Voice::Call,
                "ponder",
                r#"{"thought": "It may be changed, because the class allows it."}"#,
            ),
            (Voice::Call, "order_void", r#"{"id": "AB12CD"}"#),
            (Voice::Result, "order_void", record),
        ])]);
        let lookup = profiles.influence("order_lookup");
        let change = profiles.influence("order_void");
        assert!(change > 2.0 * lookup, "{change} {lookup}");
        assert!(profiles.influence("ponder") < change);
        assert!(profiles.influence("unheard of").abs() < f64::EPSILON);
    }

    #[test]
    fn failures_are_recognised_by_their_mark_or_their_first_words() {
        let cases = [
            (
                "Error: amount does not add up",
                false,
                Some("Error: amount does not add up"),
            ),
            (
                "Traceback (most recent call last):\n  File x\nKeyError: 'a'",
                false,
                Some("KeyError: 'a'"),
            ),
            ("exit 1\nmore", true, Some("exit 1 more")),
            ("All clear, no error", false, None),
            ("", true, None),
        ];
        for (text, marked, expected) in cases {
            assert_eq!(failure(text, marked).as_deref(), expected, "{text}");
        }
    }
}
