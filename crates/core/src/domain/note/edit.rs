//! Edits of notes, and searches in them.

use super::{Note, NoteChange, NoteFault, NoteName};

/// What to do with a note's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoteEdit {
    /// Replaces the text; begins the note if there is none.
    Write(String),
    /// Adds to the end of the text; begins the note if there is none.
    Append(String),
    /// Removes the note.
    Delete,
}

impl NoteEdit {
    /// Makes the next version of the note `name`. `current` is the present version; `replaces` is the version that the caller expects
    /// ([`NoteChange::replaces`]).
    ///
    /// # Errors
    /// [`NoteFault::TooLong`].
    pub fn change(
        &self,
        name: &NoteName,
        current: Option<&Note>,
        replaces: Option<i64>,
    ) -> Result<NoteChange, NoteFault> {
        let version = current.map_or(0, |note| note.version);
        let (text, replaces) = match self {
            Self::Write(text) => (Some(text.clone()), replaces),
            Self::Append(text) => {
                let old_text = current.map_or("", |note| note.text.as_str());
                (Some([old_text, text].concat()), Some(replaces.unwrap_or(version)))
            }
            Self::Delete => (None, replaces),
        };
        let change = NoteChange { name: name.clone(), text, replaces };
        change.check().map(|()| change)
    }
}

/// A line in which a search found something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoteLine<'a> {
    /// Its number, from 1.
    pub number: usize,
    /// The whole line.
    pub text: &'a str,
}

/// Returns the lines of `text` that contain `phrase`, in upper or lower case.
pub fn lines_with<'a>(text: &'a str, phrase: &str) -> impl Iterator<Item = NoteLine<'a>> {
    let phrase = phrase.to_lowercase();
    let numbered = text.lines().enumerate().map(|(index, text)| NoteLine { number: index + 1, text });
    numbered.filter(move |line| line.text.to_lowercase().contains(&phrase))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{note::NOTE_BYTES_MAX, time::Timestamp};

    #[test]
    fn an_edit_makes_the_next_version() {
        let name: NoteName = "plan".parse().unwrap();
        let note = Note {
            name: name.clone(),
            version: 7,
            exchange: 1,
            written_at: Timestamp(0),
            created_at: Timestamp(0),
            bytes: 2,
            title: String::new(),
            deleted: false,
            text: "a\n".to_owned(),
        };
        let after = |edit: NoteEdit, current| {
            edit.change(&name, current, None).map(|change| (change.text, change.replaces))
        };
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(after(NoteEdit::Append("b".to_owned()), Some(&note)), Ok((text("a\nb"), Some(7))));
        assert_eq!(after(NoteEdit::Append("b".to_owned()), None), Ok((text("b"), Some(0))));
        assert_eq!(after(NoteEdit::Write("b".to_owned()), Some(&note)), Ok((text("b"), None)));
        assert_eq!(after(NoteEdit::Delete, Some(&note)), Ok((None, None)));
        let long = "x".repeat(NOTE_BYTES_MAX - 1);
        assert_eq!(after(NoteEdit::Append(long), Some(&note)), Err(NoteFault::TooLong(NOTE_BYTES_MAX + 1)));
        let found: Vec<usize> = lines_with("An Apple\nb\napple", "apple").map(|line| line.number).collect();
        assert_eq!(found, [1, 3]);
    }
}
