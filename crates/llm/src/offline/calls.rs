//! Recognises tools that change something, from the batch alone. A call with long arguments and few new words in its result
//! changes something; a call with short arguments and many new words in its result looks something up. Only tools that show files
//! are recognised by name, because their results may quote other failures.

use std::collections::{HashMap, HashSet};

use super::{
    values::{self, ShownValue},
    weigh::number,
};
use recapd_core::domain::transcript::{Transcript, Voice};

/// Is added to the length of a call's arguments, because even a call without arguments does something.
const CALL_CHARS: f64 = 24.0;
/// The share of its influence that a tool keeps if its arguments name nothing, such as a tool for arithmetic or for notes to
/// oneself.
const NAMELESS_FACTOR: f64 = 0.45;

/// Words in the names of tools that show files.
const READERS: [&str; 7] = ["read", "cat", "grep", "rg", "view", "head", "tail"];

#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) values: Vec<ShownValue>,
    /// The call's line in the transcript.
    pub(super) line: usize,
    /// True if the result reports a failure, so that nothing was done.
    pub(super) failed: bool,
}

impl Call {
    /// Returns true if the call shows files. Its result may then quote anything.
    pub(super) fn shows_files(&self) -> bool {
        let spaced = self.name.chars().flat_map(|c| {
            let blank = c.is_uppercase().then_some(' ');
            blank.into_iter().chain(c.to_lowercase())
        });
        let name: String = spaced.collect();
        name.split(|c: char| !c.is_alphanumeric()).any(|word| READERS.contains(&word))
            || self.values.iter().any(|value| value.shows_files)
    }
}

#[derive(Debug, Default)]
pub(super) struct Profiles {
    profiles: HashMap<String, Profile>,
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
    pub(super) fn read(transcripts: &[Transcript]) -> Self {
        let mut profiles = Self::default();
        let mut known_words = HashSet::new();
        for transcript in transcripts {
            profiles.read_one(transcript, &mut known_words);
        }
        profiles
    }

    fn read_one<'a>(&mut self, transcript: &'a Transcript, known_words: &mut HashSet<&'a str>) {
        let mut tool = None;
        for line in &transcript.lines {
            match line.voice {
                Voice::Call => {
                    tool = Some(&line.label);
                    let profile = self.profiles.entry(line.label.clone()).or_default();
                    profile.calls += 1;
                    profile.argument_chars += line.text.len();
                    profile.naming_calls +=
                        usize::from(values::of(&line.text).iter().any(values::is_identifier));
                    news(&line.text, known_words);
                }
                Voice::Result | Voice::FailedResult => {
                    let name = tool.take().unwrap_or(&line.label);
                    let profile = self.profiles.entry(name.to_owned()).or_default();
                    profile.results += 1;
                    profile.news_chars += news(&line.text, known_words);
                }
                Voice::User | Voice::Assistant | Voice::Program => tool = None,
            }
        }
    }

    /// Estimates how likely a tool changes something: 0 for pure look-ups, up to 1 for pure changes.
    pub(super) fn influence(&self, name: &str) -> f64 {
        let Some(profile) = self.profiles.get(name) else {
            return 0.0;
        };
        let calls = number(profile.calls.max(1));
        let brought = number(profile.argument_chars) / calls + CALL_CHARS;
        let fetched = number(profile.news_chars) / number(profile.results.max(1));
        let naming = number(profile.naming_calls) / calls;
        brought / (brought + fetched) * (NAMELESS_FACTOR + (1.0 - NAMELESS_FACTOR) * naming)
    }
}

/// Counts the bytes of `text` in words that occur for the first time. Adds these words to `known_words`.
fn news<'a>(text: &'a str, known_words: &mut HashSet<&'a str>) -> usize {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty() && known_words.insert(word))
        .map(str::len)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use recapd_core::domain::time::Timestamp;

    fn transcript(lines: &[(Voice, &str, &str)]) -> Transcript {
        Transcript::of_lines(1, Timestamp(0), lines)
    }

    #[test]
    fn changes_and_lookups_differ_in_arguments_and_results() {
        let record = r#"{"id": "AB12CD", "user": "kim_9", "from": "OSL", "to": "LIS", "legs": ["XX100", "XX200"], "class": "economy", "paid": 4711}"#;
        let profiles = Profiles::read(&[transcript(&[
            (Voice::Call, "order_lookup", r#"{"id": "AB12CD"}"#),
            (Voice::Result, "order_lookup", record),
            (Voice::Call, "ponder", r#"{"thought": "It may be changed, because the class allows it."}"#),
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
    fn tools_that_show_files_are_known_by_name_or_command() {
        let call = |name: &str, arguments: &str| Call {
            name: name.to_owned(),
            values: values::of(arguments),
            line: 0,
            failed: false,
        };
        for (name, arguments) in [
            ("Read", r#"{"file_path": "server.log"}"#),
            ("mcp__files__read_text_file", "{}"),
            ("NotebookRead", "{}"),
            ("Bash", r#"{"command": "cat build.log | tail -5"}"#),
            ("Bash", r#"{"command": "cd /srv/app && grep -n error *.log"}"#),
            ("shell", r#"{"command": ["bash", "-lc", "git log --oneline"]}"#),
        ] {
            assert!(call(name, arguments).shows_files(), "{name} {arguments}");
        }
        for (name, arguments) in [
            ("Bash", r#"{"command": "cargo test | tail -5"}"#),
            ("get_order", r#"{"id": "W1"}"#),
            ("thread_create", "{}"),
            ("Bash", r#"{"command": "catalogue build"}"#),
        ] {
            assert!(!call(name, arguments).shows_files(), "{name} {arguments}");
        }
    }
}
