//! Shortens tool results: keeps head and tail, with a note between them about how much is left out.

use serde::Serialize;

use super::{Piece, Turn};
use crate::domain::{
    message::{Message, Part},
    number::{grouped, i64_or_max},
    tokens::{TokenCounter, count_part},
};

/// The estimate of a shortened result is raised by 1/`ESTIMATE_MARGIN`.
const ESTIMATE_MARGIN: i64 = 8;
/// About the length of the note. A result that exceeds its limit by fewer characters wouldn't get shorter.
const NOTE_CHARS: usize = 60;
/// The number in the note whose tokens stand for those of every note.
const TYPICAL_LEFT_OUT: usize = 9_999_999;
const NOTE_HEAD: &str = "[… ";

/// What was left out of a tool result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Elision {
    /// The number of its exchange: the handle `#n`.
    pub exchange: i64,
    /// The number of its message, if it was stored.
    pub seq: Option<i64>,
    /// How many characters were left out.
    pub chars: usize,
}

/// The lengths of a piece's parts, from which its tokens after a cut are estimated.
#[derive(Debug)]
pub(super) struct Lengths {
    /// Characters of each result.
    results: Vec<usize>,
    /// Bytes of all other text, which are at least its characters.
    text_bytes: usize,
    /// Tokens of the attachments.
    attachment_tokens: i64,
}

impl Lengths {
    /// Measures `piece`; `None` if it has no result.
    pub(super) fn of(piece: &Piece<'_>, counter: &dyn TokenCounter) -> Option<Self> {
        let mut lengths = Self { results: Vec::new(), text_bytes: 0, attachment_tokens: 0 };
        for part in piece.parts.iter() {
            match part {
                Part::ToolResult { text, .. } => lengths.results.push(text.chars().count()),
                Part::Attachment { .. } => lengths.attachment_tokens += count_part(counter, part),
                Part::Text(text) | Part::Opaque { json: text, .. } => lengths.text_bytes += text.len(),
                Part::Thinking(thought) => lengths.text_bytes += thought.text.len(),
                Part::ToolCall { name, arguments, .. } => lengths.text_bytes += name.len() + arguments.len(),
            }
        }
        (!lengths.results.is_empty()).then_some(lengths)
    }

    /// Estimates the tokens of the piece if each result keeps `keep` characters and gets a note of `note_tokens`. The whole piece has
    /// `tokens`.
    pub(super) fn estimate(&self, tokens: i64, keep: usize, note_tokens: i64) -> i64 {
        let all_chars: usize = self.results.iter().sum::<usize>() + self.text_bytes;
        let (mut kept_chars, mut notes) = (self.text_bytes, 0);
        for &chars in &self.results {
            if chars > keep + NOTE_CHARS {
                kept_chars += keep;
                notes += 1;
            } else {
                kept_chars += chars;
            }
        }
        if notes == 0 {
            return tokens;
        }
        let text_tokens = (tokens - self.attachment_tokens).max(0);
        let share = text_tokens.saturating_mul(i64_or_max(kept_chars)) / i64_or_max(all_chars.max(1));
        // Head and tail may have more tokens per character than the middle.
        let expected = self.attachment_tokens + share + share / ESTIMATE_MARGIN + 1 + notes * note_tokens;
        expected.min(tokens)
    }
}

/// Returns the tokens of the note in a shortened result.
pub(super) fn note_tokens(counter: &dyn TokenCounter) -> i64 {
    counter.count(&format!("\n{}\n", note(TYPICAL_LEFT_OUT, i64::from(u16::MAX))))
}

/// Counts the tokens of a piece of `turn` whose results are cut to `keep` characters each. Returns `None` if that saves nothing.
pub(super) fn shortened_tokens(
    turn: &Turn<'_>,
    piece: usize,
    keep: usize,
    counter: &dyn TokenCounter,
) -> Option<i64> {
    let (mut tokens, mut is_shorter) = (0, false);
    for part in turn.pieces[piece].parts.iter() {
        let short = match part {
            Part::ToolResult { text, .. } => shorten(text, keep, turn.exchange),
            _ => None,
        };
        is_shorter |= short.is_some();
        tokens += short.map_or_else(|| count_part(counter, part), |(short, _)| counter.count(&short));
    }
    is_shorter.then_some(tokens)
}

/// Cuts the results of a piece of `turn` to `keep` characters each. The piece then has `tokens` tokens.
pub(super) fn shorten_piece(turn: &mut Turn<'_>, piece: usize, keep: usize, tokens: i64) -> Vec<Elision> {
    let exchange = turn.exchange;
    let piece = &mut turn.pieces[piece];
    let seq = piece.seq();
    let mut elided = Vec::new();
    for index in 0..piece.parts.len() {
        if let Part::ToolResult { text, .. } = &piece.parts[index]
            && let Some((short, chars)) = shorten(text, keep, exchange)
        {
            if let Part::ToolResult { text, .. } = &mut piece.parts.to_mut()[index] {
                *text = short;
            }
            elided.push(Elision { exchange, seq, chars });
        }
    }
    if !elided.is_empty() {
        piece.source = None;
        piece.tokens = Some(tokens);
    }
    elided
}

/// Cuts the results of a message to `keep` characters each, where that saves anything. Returns how many characters were left out.
pub fn shorten_results(message: &mut Message, keep: usize, exchange: i64) -> usize {
    let mut chars = 0;
    for part in &mut message.parts {
        if let Part::ToolResult { text, .. } = part
            && let Some((short, left_out)) = shorten(text, keep, exchange)
        {
            *text = short;
            chars += left_out;
        }
    }
    chars
}

/// Cuts a text to its head and tail, `keep` characters together. Puts a note between them that says how much is left out, earlier cuts
/// included, and where to find it. Returns `None` if that saves nothing.
fn shorten(text: &str, keep: usize, exchange: i64) -> Option<(String, usize)> {
    if text.len() <= keep {
        return None;
    }
    cut(text, text.chars().count(), keep, exchange)
}

fn cut(text: &str, chars: usize, keep: usize, exchange: i64) -> Option<(String, usize)> {
    let left_out = chars.checked_sub(keep).filter(|&left_out| left_out > 0)?;
    let tail = keep / 3;
    let (head, rest) = text.split_at(end_of_first(text, keep - tail));
    let (middle, tail) = rest.split_at(start_of_last(rest, tail));
    let left_out = match read_note(middle, exchange) {
        // A tool's own text may look like such a note, with any number in it, so the sum may overflow.
        Some(earlier) => {
            left_out.saturating_add(earlier).saturating_sub(note(earlier, exchange).chars().count())
        }
        None => left_out,
    };
    let note = note(left_out, exchange);
    let lines: Vec<&str> = [head, &note, tail].into_iter().filter(|line| !line.is_empty()).collect();
    let short = lines.join("\n");
    (short.chars().count() < chars).then_some((short, left_out))
}

fn end_of_first(text: &str, chars: usize) -> usize {
    text.char_indices().nth(chars).map_or(text.len(), |(index, _)| index)
}

fn start_of_last(text: &str, chars: usize) -> usize {
    match chars.checked_sub(1) {
        Some(skipped) => text.char_indices().nth_back(skipped).map_or(0, |(index, _)| index),
        None => text.len(),
    }
}

/// Returns the text that replaces characters that are left out.
pub(super) fn note(left_out: usize, exchange: i64) -> String {
    format!("{NOTE_HEAD}{}{}", grouped(left_out), note_end(exchange))
}

fn note_end(exchange: i64) -> String {
    format!(" characters left out of exchange #{exchange} …]")
}

/// Returns the number of left-out characters that an earlier note in `text` states.
fn read_note(text: &str, exchange: i64) -> Option<usize> {
    let (head, _) = text.split_once(&note_end(exchange))?;
    let (_, number) = head.rsplit_once(NOTE_HEAD)?;
    let left_out: usize = number.replace(',', "").parse().ok()?;
    (grouped(left_out) == number).then_some(left_out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{context::Reason, message::Role, tokens::Characters};

    /// An estimate is at least the count, and at most the tokens of the whole piece.
    #[test]
    fn an_estimate_scales_with_the_kept_characters() {
        let result = |chars: usize| Part::ToolResult {
            call_id: None,
            name: None,
            text: "x".repeat(chars),
            is_error: false,
        };
        let note = note_tokens(&Characters);
        for (results, keep) in [
            (vec![10_000], 1_000),
            (vec![10_000, 20, 300], 250),
            (vec![270], 250),
            (vec![300], 0),
            (vec![5_000], 5_000),
        ] {
            let parts: Vec<Part> = results.into_iter().map(result).collect();
            let tokens: i64 = parts.iter().map(|part| count_part(&Characters, part)).sum();
            let piece = Piece { parts: parts.into(), ..Piece::text(Reason::MissingResult, "") };
            let turn = Turn::new(Role::Tool, 7, vec![piece]);
            let lengths = Lengths::of(&turn.pieces[0], &Characters).unwrap();
            let counted = shortened_tokens(&turn, 0, keep, &Characters).unwrap_or(tokens);
            let expected = lengths.estimate(tokens, keep, note);
            assert!((counted..=tokens).contains(&expected), "{keep}: {expected} for {counted}");
            assert!(expected <= counted + counted / 8 + 3 * note, "{keep}: {expected} for {counted}");
        }
    }

    #[test]
    fn a_text_is_cut_between_its_characters() {
        let text = "äöü".repeat(100);
        let (short, left_out) = shorten(&text, 4, 7).unwrap();
        assert_eq!((short.as_str(), left_out), ("äöü\n[… 296 characters left out of exchange #7 …]\nü", 296));
        let (short, _) = shorten(&text, 0, 7).unwrap();
        assert_eq!(short, "[… 300 characters left out of exchange #7 …]");
        assert_eq!(shorten(&text, 300, 7), None);
    }

    #[test]
    fn a_second_cut_includes_the_first_in_its_count() {
        let text = "x".repeat(12_345);
        let (once, left_out) = shorten(&text, 3_000, 7).unwrap();
        assert_eq!(left_out, 9_345);
        assert!(once.contains("\n[… 9,345 characters left out of exchange #7 …]\n"), "{once}");
        let (twice, left_out) = shorten(&once, 300, 7).unwrap();
        // The line feeds around the note aren't characters of the result.
        assert_eq!(left_out, 12_345 - 300 + 2);
        assert_eq!(twice.matches('…').count(), 2, "{twice}");
        let forged = format!("{}{}{}", "x".repeat(4_000), note(usize::MAX, 7), "y".repeat(4_000));
        assert!(shorten(&forged, 300, 7).is_some());
        // A text that only resembles a note is plain text.
        for text in
            ["[… 1 2 characters left out of exchange #7 …]", "[… 12 characters left out of exchange #8 …]"]
        {
            assert_eq!(read_note(text, 7), None, "{text}");
        }
    }
}
