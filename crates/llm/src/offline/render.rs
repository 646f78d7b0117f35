//! Joins pieces into one clean line, with quotes, arrows and names. It adds no words except `failed` and `interrupted`.
//!
//! Invariant: an arrow joins only pieces of the same turn of the user, so that no question gets the answer to another question.

use super::cuts::fit;
use recapd_core::domain::text::one_line;

/// The suffix of an item with interrupted exchanges.
pub(super) const INTERRUPTED: &str = " (interrupted)";
const FAILED: &str = "failed: ";
/// The suffix of a failed call.
pub(super) const FAILED_CALL: &str = " (failed)";

/// Characters that a line must not begin with, because Markdown reads them as a heading, a list, a quote or a table.
const MARKS: [char; 8] = ['#', '-', '>', '*', '+', '=', '|', ' '];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PieceVoice {
    /// The user, in a task.
    User,
    /// The model, in a task.
    Model,
    /// A speaker in a conversation of people.
    Speaker,
    Call,
    Failure,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TextPiece {
    /// Exchange, line and sentence: pieces are written in this order.
    pub(super) position: (usize, usize, usize),
    /// The exchange, and how often the user had begun to speak in it; `None` for calls of several turns.
    pub(super) turn: Option<(usize, usize)>,
    pub(super) voice: PieceVoice,
    /// The speaker's name; empty if it is clear who speaks.
    pub(super) name: String,
    pub(super) text: String,
}

impl TextPiece {
    /// Returns the length in characters, including quotes, labels and names.
    pub(super) fn chars(&self) -> usize {
        let marks_chars = match self.voice {
            PieceVoice::User => 2,
            PieceVoice::Failure => FAILED.len(),
            PieceVoice::Speaker | PieceVoice::Model | PieceVoice::Call => 0,
        };
        let name_chars = if self.name.is_empty() { 0 } else { self.name.chars().count() + 2 };
        self.text.chars().count() + marks_chars + name_chars
    }

    /// Returns true if both pieces belong to the same turn of the user.
    fn shares_turn(&self, other: &Self) -> bool {
        self.turn.is_some() && self.turn == other.turn
    }

    /// Returns true if this piece continues the quotation of the piece `previous`. A quotation ends when others speak.
    fn continues(&self, previous: &Self) -> bool {
        (previous.voice, &previous.name) == (self.voice, &self.name)
            && (self.voice != PieceVoice::User || self.shares_turn(previous))
    }

    /// Cuts the piece to at most `chars_max` characters, including quotes, labels and names. Returns an empty piece if nothing is
    /// left.
    pub(super) fn fitted(&self, chars_max: usize) -> Self {
        let marks_chars = self.chars() - self.text.chars().count();
        let call_text = self.text.strip_suffix(FAILED_CALL).filter(|_| self.voice == PieceVoice::Call);
        // A failed call keeps its suffix, without which it would read as a successful one.
        let (text, end) = call_text.map_or((self.text.as_str(), ""), |text| (text, FAILED_CALL));
        let mut text = fit(text, chars_max.saturating_sub(marks_chars + end.len()));
        if !text.is_empty() {
            text.push_str(end);
        }
        Self { text, ..self.clone() }
    }
}

/// Writes the pieces in order as one line of at most `chars_max` characters.
pub(super) fn line(pieces: &[TextPiece], chars_max: usize) -> String {
    let mut ordered: Vec<&TextPiece> = pieces.iter().collect();
    ordered.sort_by_key(|piece| piece.position);
    let mut line = String::new();
    let mut previous: Option<&TextPiece> = None;
    for piece in ordered {
        append(&mut line, previous, piece);
        previous = Some(piece);
    }
    if matches!(previous, Some(TextPiece { voice: PieceVoice::User, .. })) {
        line.push('”');
    }
    let line = one_line(&line);
    fit(line.trim_start_matches(MARKS), chars_max)
}

fn append(line: &mut String, previous: Option<&TextPiece>, piece: &TextPiece) {
    let continues = previous.is_some_and(|previous| piece.continues(previous));
    if let Some(previous) = previous {
        if previous.voice == PieceVoice::User && !continues {
            line.push('”');
        }
        line.push_str(joint(previous, piece, line));
    }
    if !continues && !piece.name.is_empty() {
        line.push_str(&piece.name);
        line.push_str(": ");
    }
    match piece.voice {
        PieceVoice::User if !continues => line.push('“'),
        PieceVoice::Failure => line.push_str(FAILED),
        _ => {}
    }
    line.push_str(&piece.text);
}

/// Returns the joint between two pieces: an arrow if the second one results from the first, otherwise a pause.
fn joint(previous: &TextPiece, after: &TextPiece, line: &str) -> &'static str {
    use PieceVoice::{Call, Failure, Model, User};
    let is_closed = line.ends_with(['.', '!', '?', '…', '。', '！', '？', ';', ':', ',']);
    let shares_turn = after.shares_turn(previous);
    match (previous.voice, after.voice) {
        (Call, Call) if shares_turn => ", ",
        // A failure directly after a call is the result of that call; any other failure belongs to another call.
        (Call, Failure) if shares_turn && previous.position.1 + 1 == after.position.1 => " → ",
        (User | Call | Failure, Model) | (User | Model, Call | Failure) | (Failure, Call) if shares_turn => {
            " → "
        }
        // A call that ends in punctuation was cut.
        _ if is_closed && previous.voice != Call => " ",
        _ => "; ",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a piece of the exchange's first turn, or, after line 9, of its second.
    fn piece(line: usize, voice: PieceVoice, text: &str) -> TextPiece {
        TextPiece {
            position: (0, line, 0),
            turn: Some((0, 1 + line / 10)),
            voice,
            name: String::new(),
            text: text.to_owned(),
        }
    }

    fn named(line: usize, name: &str, voice: PieceVoice, text: &str) -> TextPiece {
        TextPiece { name: name.to_owned(), ..piece(line, voice, text) }
    }

    #[test]
    fn a_task_reads_from_wish_to_outcome_and_talk_by_names() {
        let task = [
            piece(3, PieceVoice::Failure, "Error: locked"),
            piece(1, PieceVoice::User, "Move the shelf"),
            piece(2, PieceVoice::Call, "move(S7)"),
            piece(4, PieceVoice::Model, "It is locked."),
            piece(10, PieceVoice::User, "leave it"),
        ];
        insta::assert_snapshot!(line(&task, 200), @"“Move the shelf” → move(S7) → failed: Error: locked → It is locked. “leave it”");
        let people = [
            named(1, "Ida", PieceVoice::Speaker, "I moved to Bergen."),
            named(2, "Ida", PieceVoice::Speaker, "In May"),
            named(3, "Omar", PieceVoice::Speaker, "# so far away"),
        ];
        insta::assert_snapshot!(line(&people, 200), @"Ida: I moved to Bergen. In May; Omar: # so far away");
        assert_eq!(line(&[piece(0, PieceVoice::Model, "## Heading\u{1b}[1m!\n")], 200), "Heading!");
        assert_eq!(line(&[], 200), "");
    }

    /// The answer to the first question and the second question are left out.
    #[test]
    fn no_arrow_leads_to_the_answer_of_another_question() {
        let asked = [
            piece(0, PieceVoice::User, "Which port is it?"),
            piece(11, PieceVoice::Model, "The host is db-7."),
        ];
        assert_eq!(line(&asked, 200), "“Which port is it?”; The host is db-7.");
        let spanning = TextPiece { turn: None, ..piece(1, PieceVoice::Call, "edit ×2(a.rs, b.rs)") };
        let done =
            [piece(0, PieceVoice::User, "Fix a.rs"), spanning, piece(2, PieceVoice::Model, "It is fixed.")];
        assert_eq!(line(&done, 200), "“Fix a.rs”; edit ×2(a.rs, b.rs); It is fixed.");
    }

    #[test]
    fn quotations_and_failures_stay_apart_from_those_of_others() {
        let said = [
            piece(0, PieceVoice::User, "Shall we use Postgres?"),
            piece(10, PieceVoice::User, "Yes."),
            named(12, "Ann", PieceVoice::User, "I live in Oslo."),
            named(13, "Bob", PieceVoice::User, "I don't."),
            piece(14, PieceVoice::Call, "read(a.rs)"),
            piece(18, PieceVoice::Failure, "no such host"),
        ];
        assert_eq!(
            line(&said, 200),
            "“Shall we use Postgres?”; “Yes.”; Ann: “I live in Oslo.”; Bob: “I don't.” → read(a.rs); failed: no such host"
        );
    }
}
