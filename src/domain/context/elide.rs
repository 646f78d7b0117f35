//! Shortening tool results inside one oversized exchange: all to the same length, the greatest that fits.

use serde::Serialize;

use super::{Origin, Turn};
use crate::domain::{
    message::{Message, Part},
    tokens::{TokenCounter, count_part},
};

/// Characters that one token stands for at most, as far as the search for the best length looks.
const CHARS_PER_TOKEN_MAX: i64 = 8;
/// How a note begins that stands for what is left out.
const NOTE_HEAD: &str = "[… ";

/// A tool result that was shortened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "daemon", derive(utoipa::ToSchema))]
pub struct Elision {
    /// The exchange it stands in: its handle, `#n`.
    pub exchange: i64,
    /// Its message, if it was stored.
    pub seq: Option<i64>,
    /// Characters left out.
    pub chars: usize,
}

/// Shortens the longest results in `turns`, whose tokens are `excess` too many, until they fit or nothing is left of
/// them.
pub(super) fn elide(turns: &mut [Turn<'_>], excess: i64, counter: &dyn TokenCounter) -> Vec<Elision> {
    let results = texts(turns, counter);
    let before: i64 = results.iter().map(|result| result.tokens).sum();
    let room = before - excess;
    let tokens = |keep: usize| -> i64 {
        let shortened = results.iter().map(|result| {
            let short = shorten(&result.text, keep, result.exchange);
            short.map_or(result.tokens, |(short, _)| counter.count(&short))
        });
        shortened.sum()
    };
    let longest = results.iter().map(|result| result.text.len()).max().unwrap_or(0);
    let room_chars = room.saturating_mul(CHARS_PER_TOKEN_MAX).max(0);
    let mut fitting = 0;
    let mut too_much = longest.min(usize::try_from(room_chars).unwrap_or(usize::MAX)) + 1;
    while fitting + 1 < too_much {
        let keep = usize::midpoint(fitting, too_much);
        if tokens(keep) <= room {
            fitting = keep;
        } else {
            too_much = keep;
        }
    }
    apply(turns, fitting, counter)
}

/// A tool result as it is, counted once however many lengths are tried.
struct Full {
    exchange: i64,
    text: String,
    tokens: i64,
}

fn texts(turns: &[Turn<'_>], counter: &dyn TokenCounter) -> Vec<Full> {
    let parts = turns
        .iter()
        .flat_map(|turn| turn.parts().map(|part| (turn.exchange, part)));
    parts
        .filter_map(|(exchange, part)| match part {
            Part::ToolResult { text, .. } => Some(Full {
                exchange,
                text: text.clone(),
                tokens: counter.count(text),
            }),
            _ => None,
        })
        .collect()
}

fn apply(turns: &mut [Turn<'_>], keep: usize, counter: &dyn TokenCounter) -> Vec<Elision> {
    let mut elided = Vec::new();
    for turn in turns {
        for piece in &mut turn.pieces {
            let shortened: Vec<(usize, (String, usize))> = piece
                .parts
                .iter()
                .enumerate()
                .filter_map(|(at, part)| match part {
                    Part::ToolResult { text, .. } => Some((at, shorten(text, keep, turn.exchange)?)),
                    _ => None,
                })
                .collect();
            for (at, (short, chars)) in shortened {
                if let Part::ToolResult { text, .. } = &mut piece.parts.to_mut()[at] {
                    *text = short;
                }
                piece.source = None;
                piece.tokens = Some(piece.parts.iter().map(|part| count_part(counter, part)).sum());
                elided.push(Elision {
                    exchange: turn.exchange,
                    seq: match piece.origin {
                        Origin::Stored { seq } => Some(seq),
                        Origin::Synthetic(_) => None,
                    },
                    chars,
                });
            }
        }
    }
    elided
}

/// Shortens the results in a message to `keep` characters each, where that saves anything. Returns how many characters are
/// left out.
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

/// The head and the tail of a text, `keep` characters together, with a note of what is left out and where it is to
/// be found; what was left out of it before counts. `None` if that saves nothing.
fn shorten(text: &str, keep: usize, exchange: i64) -> Option<(String, usize)> {
    if text.len() <= keep {
        return None;
    }
    let chars = text.chars().count();
    let left_out = chars.checked_sub(keep).filter(|&left_out| left_out > 0)?;
    let tail = keep / 3;
    let head: String = text.chars().take(keep - tail).collect();
    let middle: String = text.chars().skip(keep - tail).take(left_out).collect();
    let tail: String = text.chars().skip(chars - tail).collect();
    let left_out = match noted(&middle, exchange) {
        // A tool may have written what only looks like a note of ours, with any number in it.
        Some(before) => left_out
            .saturating_add(before)
            .saturating_sub(note(before, exchange).chars().count()),
        None => left_out,
    };
    let lines = [head, note(left_out, exchange), tail];
    let lines: Vec<&str> = lines
        .iter()
        .map(String::as_str)
        .filter(|line| !line.is_empty())
        .collect();
    let short = lines.join("\n");
    (short.chars().count() < chars).then_some((short, left_out))
}

/// What stands in place of so many characters.
fn note(left_out: usize, exchange: i64) -> String {
    format!("{NOTE_HEAD}{}{}", grouped(left_out), note_end(exchange))
}

fn note_end(exchange: i64) -> String {
    format!(" characters left out of exchange #{exchange} …]")
}

/// How many characters were left out before, as a note in `text` says.
fn noted(text: &str, exchange: i64) -> Option<usize> {
    let (before, _) = text.split_once(&note_end(exchange))?;
    let (_, number) = before.rsplit_once(NOTE_HEAD)?;
    let left_out = number.replace(',', "").parse().ok()?;
    (grouped(left_out) == number).then_some(left_out)
}

/// `12345` as `12,345`.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_out_before_is_counted_again() {
        let text = "x".repeat(12_345);
        let (once, left_out) = shorten(&text, 3_000, 7).unwrap();
        assert_eq!(left_out, 9_345);
        assert!(
            once.contains("\n[… 9,345 characters left out of exchange #7 …]\n"),
            "{once}"
        );
        let (twice, left_out) = shorten(&once, 300, 7).unwrap();
        // The line feeds around the note are no characters of the result.
        assert_eq!(left_out, 12_345 - 300 + 2);
        assert_eq!(twice.matches('…').count(), 2, "{twice}");
        let forged = format!(
            "{}{}{}",
            "x".repeat(4_000),
            note(usize::MAX, 7),
            "y".repeat(4_000)
        );
        assert!(shorten(&forged, 300, 7).is_some());
        // What only looks like a note is text.
        for text in [
            "[… 1 2 characters left out of exchange #7 …]",
            "[… 12 characters left out of exchange #8 …]",
        ] {
            assert_eq!(noted(text, 7), None, "{text}");
        }
    }
}
