//! Pieces put together to one clean line: the user's words in quotes, arrows towards what came of them, names before
//! what people say to each other. No word of any language is added but `failed` and `interrupted`.

use unicode_segmentation::UnicodeSegmentation as _;

use crate::domain::text::one_line;

/// What marks an item with an interrupted exchange.
pub(super) const INTERRUPTED: &str = " (interrupted)";
const FAILED: &str = "failed: ";
/// A cut looks this many characters back for a blank.
const WORD_CHARS_MAX: usize = 24;

/// What a line must not begin with, lest it be read as a heading, a list, a quote or a table.
const MARKS: [char; 8] = ['#', '-', '>', '*', '+', '=', '|', ' '];

/// Who tells a piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Voice {
    /// The user, in a task.
    User,
    /// The model, in a task.
    Model,
    /// One of two people who talk, by name.
    Speaker(String),
    /// A tool call.
    Call,
    /// A failed result.
    Failure,
}

/// A piece of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Exchange, line and sentence: the order in which pieces are told.
    pub(super) place: (usize, usize, usize),
    /// Who tells it.
    pub(super) voice: Voice,
    /// The piece's words.
    pub(super) text: String,
}

impl Piece {
    /// Its length in characters, with what goes around it.
    pub(super) fn chars(&self) -> usize {
        let around = match &self.voice {
            Voice::User => 2,
            Voice::Speaker(name) => name.chars().count() + 2,
            Voice::Failure => FAILED.len(),
            Voice::Model | Voice::Call => 0,
        };
        self.text.chars().count() + around
    }

    /// The piece cut to at most `chars_max` characters with what goes around it; empty if nothing is left.
    pub(super) fn fitted(&self, chars_max: usize) -> Self {
        let around = self.chars() - self.text.chars().count();
        Self {
            text: fit(&self.text, chars_max.saturating_sub(around)),
            ..self.clone()
        }
    }
}

/// The pieces as one line of at most `chars_max` characters, in their order.
pub(super) fn line(pieces: &[Piece], chars_max: usize) -> String {
    let mut ordered: Vec<&Piece> = pieces.iter().collect();
    ordered.sort_by_key(|piece| piece.place);
    let mut line = String::new();
    let mut before: Option<&Piece> = None;
    for piece in ordered {
        append(&mut line, before, piece);
        before = Some(piece);
    }
    if matches!(
        before,
        Some(Piece {
            voice: Voice::User,
            ..
        })
    ) {
        line.push('”');
    }
    let line = one_line(&line);
    fit(line.trim_start_matches(MARKS), chars_max)
}

fn append(line: &mut String, before: Option<&Piece>, piece: &Piece) {
    let same_voice = before.is_some_and(|before| before.voice == piece.voice);
    if let Some(before) = before {
        if before.voice == Voice::User && !same_voice {
            line.push('”');
        }
        line.push_str(joint(&before.voice, &piece.voice, line));
    }
    match &piece.voice {
        Voice::User if !same_voice => line.push('“'),
        Voice::Speaker(name) if !same_voice && !name.is_empty() => {
            line.push_str(name);
            line.push_str(": ");
        }
        Voice::Failure => line.push_str(FAILED),
        _ => {}
    }
    line.push_str(&piece.text);
}

/// What stands between two pieces: an arrow towards what came of the first, otherwise a pause.
fn joint(before: &Voice, after: &Voice, line: &str) -> &'static str {
    use Voice::{Call, Failure, Model, User};
    let ended = line.ends_with(['.', '!', '?', '…', '。', '！', '？', ';', ':', ',']);
    match (before, after) {
        (Call, Call) => ", ",
        (User | Call | Failure, Model)
        | (User | Model, Call | Failure)
        | (Call, Failure)
        | (Failure, Call) => " → ",
        _ if ended => " ",
        _ => "; ",
    }
}

/// At most `chars_max` characters of `text`, cut between words where there are any, never within a grapheme; a cut is
/// marked by an ellipsis, which counts.
pub(super) fn fit(text: &str, chars_max: usize) -> String {
    let text = text.trim();
    if text.len() <= chars_max || text.chars().count() <= chars_max {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut chars = 0;
    for grapheme in text.graphemes(true) {
        chars += grapheme.chars().count();
        if chars + 1 > chars_max {
            break;
        }
        kept.push_str(grapheme);
    }
    let back = kept
        .chars()
        .rev()
        .take(WORD_CHARS_MAX)
        .position(char::is_whitespace);
    let whole = back.map_or(kept.as_str(), |back| {
        let end = kept.char_indices().rev().nth(back).map_or(0, |(at, _)| at);
        kept.get(..end).unwrap_or_default()
    });
    let whole = whole.trim_end_matches(|c: char| c.is_whitespace() || ",;:–—-(".contains(c));
    if whole.is_empty() {
        String::new()
    } else {
        format!("{whole}…")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(at: usize, voice: Voice, text: &str) -> Piece {
        Piece {
            place: (at, 0, 0),
            voice,
            text: text.to_owned(),
        }
    }

    #[test]
    fn a_task_reads_from_wish_to_outcome_and_talk_by_names() {
        let task = [
            piece(3, Voice::Failure, "Error: locked"),
            piece(1, Voice::User, "Move the shelf"),
            piece(2, Voice::Call, "move(S7)"),
            piece(4, Voice::Model, "It is locked."),
            piece(5, Voice::User, "leave it"),
        ];
        insta::assert_snapshot!(line(&task, 200), @"“Move the shelf” → move(S7) → failed: Error: locked → It is locked. “leave it”");
        let people = [
            piece(1, Voice::Speaker("Ida".to_owned()), "I moved to Bergen."),
            piece(2, Voice::Speaker("Ida".to_owned()), "In May"),
            piece(3, Voice::Speaker("Omar".to_owned()), "# so far away"),
        ];
        insta::assert_snapshot!(line(&people, 200), @"Ida: I moved to Bergen. In May; Omar: # so far away");
        assert_eq!(
            line(&[piece(0, Voice::Model, "## Heading\u{1b}[1m!\n")], 200),
            "Heading!"
        );
        assert_eq!(line(&[], 200), "");
    }

    #[test]
    fn cuts_fall_between_words_and_never_within_a_grapheme() {
        let cases = [
            ("one two three", 13, "one two three"),
            ("one two three", 10, "one two…"),
            ("one, two three", 6, "one…"),
            ("unbreakable", 6, "unbre…"),
            ("今天天气很好", 4, "今天天…"),
            ("👩‍👩‍👧👩‍👩‍👧", 7, "👩‍👩‍👧…"),
            ("👩‍👩‍👧", 3, ""),
            ("text", 0, ""),
        ];
        for (text, chars_max, expected) in cases {
            assert_eq!(fit(text, chars_max), expected, "{text} {chars_max}");
        }
    }
}
