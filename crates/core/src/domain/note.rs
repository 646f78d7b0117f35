//! Notes: named texts that an agent keeps, such as a plan or what it learned about a repository.
//!
//! A version of a note is a message (kind `note`), and the version's number is the message's number. So notes follow forks, rewinds,
//! journals and forgetting as every message does, and a replay ends with the same notes. A deletion is a version without a text.

pub mod edit;
pub mod memory;

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    checked_text::checked_text,
    message::{Kind, Message, Metadata},
    neutralize::neutralize_document,
    number::i64_or_max,
    text::{cut, first_line},
    time::Timestamp,
};

/// Limits the text of a note to this many bytes.
pub const NOTE_BYTES_MAX: usize = 64 * 1_024;
/// Limits an agent to this many notes.
pub const NOTES_MAX: i64 = 200;
/// Limits the name of a note to this many bytes.
pub const NOTE_NAME_BYTES_MAX: usize = 256;
/// Lists at most this many versions of a note.
pub const NOTE_VERSIONS_MAX: i64 = 100;
/// A brief and a context name at most this many notes.
pub const NOTES_LISTED_MAX: usize = 20;
/// Limits the line that names the notes to this many bytes.
pub const LISTING_BYTES_MAX: usize = 1_200;
/// The line that names the notes shows this many characters of each title.
const LISTED_TITLE_CHARS_MAX: usize = 60;
/// Limits the title of a note to this many characters.
pub const NOTE_TITLE_CHARS_MAX: usize = 120;

/// The name of a note: parts separated by slashes, such as `repository/build.md`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NoteName(String);

/// Why a note can't have this name or text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoteFault {
    /// The name breaks the rule.
    #[error(
        "note name `{0}` must be 1 to {NOTE_NAME_BYTES_MAX} bytes, in parts between slashes that are neither empty nor `.` or `..`, \
         without control characters, backslashes, and spaces at the ends"
    )]
    Name(String),
    /// The text would have this many bytes.
    #[error("the note would have {0} bytes: a note may have {NOTE_BYTES_MAX}")]
    TooLong(usize),
}

impl FromStr for NoteName {
    type Err = NoteFault;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_part = |part: &str| !matches!(part, "" | "." | "..") && part.trim() == part;
        let is_char = |c: char| !c.is_control() && c != '\\';
        if text.len() <= NOTE_NAME_BYTES_MAX && text.split('/').all(is_part) && text.chars().all(is_char) {
            Ok(Self(text.to_owned()))
        } else {
            Err(NoteFault::Name(first_line(text, NOTE_TITLE_CHARS_MAX)))
        }
    }
}

checked_text!(NoteName, NoteFault);

/// The next version of a note.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoteChange {
    /// The note's name.
    pub name: NoteName,
    /// The text; `None` deletes the note. A payload without this field isn't a change.
    #[serde(deserialize_with = "Option::deserialize")]
    pub text: Option<String>,
    /// The version that it replaces; 0 if the note must be new. `None` replaces any version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<i64>,
}

impl NoteChange {
    /// Reads the change in `message`; `None` if it is another message, or if no note can be made from it.
    pub fn of(message: &Message) -> Option<Self> {
        if message.kind != Kind::Metadata(Metadata::Note) {
            return None;
        }
        Self::of_payload(&message.payload)
    }

    /// Like [`Self::of`], for the payload of a message of that kind.
    pub fn of_payload(payload: &str) -> Option<Self> {
        let mut payload: Value = serde_json::from_str(payload).ok()?;
        let fields = payload.get_mut("data").map(Value::take).unwrap_or(payload);
        let change: Self = serde_json::from_value(fields).ok()?;
        change.check().ok().map(|()| change)
    }

    /// Fails if the text is too long.
    ///
    /// # Errors
    /// [`NoteFault::TooLong`].
    pub fn check(&self) -> Result<(), NoteFault> {
        match self.text.as_ref().map_or(0, String::len) {
            bytes if bytes > NOTE_BYTES_MAX => Err(NoteFault::TooLong(bytes)),
            _ => Ok(()),
        }
    }

    /// Writes the change as a message with the time `at`. Reading the message returns the same change.
    pub fn message(&self, at: Timestamp) -> Message {
        let kind = Kind::Metadata(Metadata::Note);
        Message {
            payload: json!({"kind": kind.name(), "data": self, "at": at}).to_string(),
            at: Some(at),
            ..Message::new(kind, Vec::new())
        }
    }

    /// Returns the length of the text in bytes.
    pub fn bytes(&self) -> i64 {
        i64_or_max(self.text.as_ref().map_or(0, String::len))
    }

    /// Returns the first line of the text.
    pub fn title(&self) -> String {
        first_line(self.text.as_deref().unwrap_or_default(), NOTE_TITLE_CHARS_MAX)
    }
}

/// Names an agent's notes and their first lines on one line, the last written first. `rewrite` may alter each name with its first line.
/// Returns an empty text if there are no notes.
pub fn listing(notes: &[Note], rewrite: impl Fn(&str) -> String) -> String {
    let mut newest: Vec<&Note> = notes.iter().collect();
    newest.sort_by_key(|note| std::cmp::Reverse(note.version));
    let mut line = String::new();
    for (index, note) in newest.iter().enumerate() {
        let title = cut(&note.title, LISTED_TITLE_CHARS_MAX);
        let entry = rewrite(&if title.is_empty() {
            note.name.to_string()
        } else {
            format!("{}: {title}", note.name)
        });
        if index >= NOTES_LISTED_MAX || line.len() + entry.len() > LISTING_BYTES_MAX {
            return format!("Notes of the agent: {line}; and {} more", newest.len() - index);
        }
        line.extend([if index == 0 { "" } else { "; " }, &entry]);
    }
    if line.is_empty() { line } else { format!("Notes of the agent: {line}") }
}

/// Puts the [`listing`] above a document. Neutralises everything in it that could be taken for an order or a tag.
pub fn above(notes: &[Note], document: &str) -> String {
    match listing(notes, neutralize_document) {
        line if line.is_empty() => document.to_owned(),
        line => format!("{line}\n\n{document}"),
    }
}

/// A note, or one version of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Its name.
    pub name: NoteName,
    /// The number of the message that wrote it.
    pub version: i64,
    /// The exchange of that message.
    pub exchange: i64,
    /// When it was written.
    pub written_at: Timestamp,
    /// When the note's first known version was written.
    pub created_at: Timestamp,
    /// The length of the text in bytes.
    pub bytes: i64,
    /// The first line of the text.
    pub title: String,
    /// True if this version deleted the note.
    pub deleted: bool,
    /// The text; empty unless requested.
    pub text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_path_without_empty_parts_and_dots() {
        for good in ["plan", "a/b.md", ".hidden", "Größe 1", "a/..b", &"x".repeat(256)] {
            assert_eq!(good.parse::<NoteName>().unwrap().as_str(), good);
        }
        let long = "x".repeat(257);
        for bad in ["", "/a", "a/", "a//b", ".", "..", "a/../b", "a/./b", "a\\b", "a\nb", " a", "a /b", &long]
        {
            let error = bad.parse::<NoteName>().unwrap_err().to_string();
            assert!(error.starts_with("note name `"), "{error}");
        }
    }

    #[test]
    fn a_listing_is_short() {
        let note = |version: i64, title: &str| Note {
            name: format!("n{version}").parse().unwrap(),
            version,
            exchange: 1,
            written_at: Timestamp(0),
            created_at: Timestamp(0),
            bytes: 0,
            title: title.to_owned(),
            deleted: false,
            text: String::new(),
        };
        assert_eq!(listing(&[], str::to_owned), "");
        let two = [note(1, "Plan"), note(2, "")];
        assert_eq!(listing(&two, str::to_uppercase), "Notes of the agent: N2; N1: PLAN");
        let many: Vec<Note> = (1..=200).map(|version| note(version, &"long ".repeat(20))).collect();
        let line = listing(&many, str::to_owned);
        assert!(line.len() < LISTING_BYTES_MAX + 50 && line.contains(" more"), "{line}");
    }

    #[test]
    fn a_change_is_read_back_from_its_message() {
        let name: NoteName = "plan".parse().unwrap();
        for (text, replaces) in [(Some("one\ntwo"), None), (Some(""), Some(0)), (None, Some(7))] {
            let change = NoteChange { name: name.clone(), text: text.map(str::to_owned), replaces };
            let message = change.message(Timestamp(1_795_000_000_123));
            assert_eq!(
                crate::formats::parse(crate::domain::message::Format::Native, &message.payload).unwrap(),
                message
            );
            assert_eq!(NoteChange::of(&message), Some(change));
        }
        let long = NoteChange { name, text: Some("x".repeat(NOTE_BYTES_MAX + 1)), replaces: None };
        assert_eq!(NoteChange::of(&long.message(Timestamp(0))), None);
        for payload in [
            r#"{"kind":"note","content":"x"}"#,
            r#"{"kind":"note","data":{"name":"../x","text":"y"}}"#,
            r#"{"kind":"note","forgotten":true}"#,
        ] {
            assert_eq!(NoteChange::of_payload(payload), None, "{payload}");
        }
        let beside = NoteChange::of_payload(r#"{"kind":"note","name":"plan","text":"x"}"#);
        assert_eq!(beside.unwrap().title(), "x");
    }
}
