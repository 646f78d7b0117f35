//! Shortening tool results inside one oversized exchange: all to the same length, nearly the greatest that fits.

use serde::Serialize;

use super::{Origin, Turn};
use crate::domain::{
    message::{Message, Part},
    number::{grouped, i64_or_max},
    tokens::{TokenCounter, count_part},
};

/// The most characters per token, as far as the search for the best length looks.
const CHARS_PER_TOKEN_MAX: i64 = 8;
/// What may stay unused of the room for results: one part in so many.
const SLACK: i64 = 64;
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

/// Shortens the longest results in `turns`, which have `excess` tokens too many, until they fit or nothing is left of
/// the results.
pub(super) fn elide(turns: &mut [Turn<'_>], excess: i64, counter: &dyn TokenCounter) -> Vec<Elision> {
    let results = texts(turns, counter);
    let before: i64 = results.iter().map(|result| result.tokens).sum();
    let tokens = |keep: usize| -> i64 {
        let shortened = results.iter().map(|result| {
            let short = cut(result.text, result.chars, keep, result.exchange);
            short.map_or(result.tokens, |(short, _)| counter.count(&short))
        });
        shortened.sum()
    };
    let longest = results.iter().map(|result| result.chars).max().unwrap_or(0);
    let keep = fitting(before - excess, longest, before, tokens);
    apply(turns, keep, counter)
}

/// A length of which `tokens` gives no more than `room`, and hardly less; `whole` is what it gives for the `longest`. Texts
/// are long where they are shortened, so few lengths are tried, and none that is far too long.
fn fitting(room: i64, longest: usize, whole: i64, tokens: impl Fn(usize) -> i64) -> usize {
    let longest = i64_or_max(longest).max(1);
    let most = longest.min(room.saturating_mul(CHARS_PER_TOKEN_MAX));
    // Lengths, and their tokens.
    let mut fits = (0_i64, 0_i64);
    let mut too_much = (most + 1, (whole.saturating_mul(most) / longest).max(room + 1));
    let mut halve = false;
    while room - fits.1 > room / SLACK && fits.0 + 1 < too_much.0 {
        let keep = if halve {
            i64::midpoint(fits.0, too_much.0)
        } else {
            // Tokens grow with characters nearly evenly.
            let wanted = room - room / (2 * SLACK) - fits.1;
            fits.0 + (too_much.0 - fits.0).saturating_mul(wanted) / (too_much.1 - fits.1)
        };
        let keep = keep.clamp(fits.0 + 1, too_much.0 - 1);
        let found = (keep, tokens(usize::try_from(keep).unwrap_or(0)));
        if found.1 <= room {
            fits = found;
        } else {
            too_much = found;
        }
        halve = !halve;
    }
    usize::try_from(fits.0).unwrap_or(0)
}

/// A tool result as it is, counted once however many lengths are tried.
struct Full<'t> {
    exchange: i64,
    text: &'t str,
    chars: usize,
    tokens: i64,
}

fn texts<'t>(turns: &'t [Turn<'_>], counter: &dyn TokenCounter) -> Vec<Full<'t>> {
    let mut results = Vec::new();
    for turn in turns {
        for piece in &turn.pieces {
            // What is all of a piece has been counted with it.
            let known = piece.tokens.filter(|_| piece.parts.len() == 1);
            let texts = piece.parts.iter().filter_map(|part| match part {
                Part::ToolResult { text, .. } => Some(text),
                _ => None,
            });
            results.extend(texts.map(|text| Full {
                exchange: turn.exchange,
                text,
                chars: text.chars().count(),
                tokens: known.unwrap_or_else(|| counter.count(text)),
            }));
        }
    }
    results
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

/// Shortens the results in a message to `keep` characters each, where that saves anything. Returns how many characters
/// were left out.
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

/// The head and the tail of a text, `keep` characters together, with a note between them of how much is left out
/// (earlier cuts included) and where to find it. `None` if that saves nothing.
fn shorten(text: &str, keep: usize, exchange: i64) -> Option<(String, usize)> {
    if text.len() <= keep {
        return None;
    }
    cut(text, text.chars().count(), keep, exchange)
}

/// As [`shorten`], of a text of so many characters.
fn cut(text: &str, chars: usize, keep: usize, exchange: i64) -> Option<(String, usize)> {
    let left_out = chars.checked_sub(keep).filter(|&left_out| left_out > 0)?;
    let tail = keep / 3;
    let (head, rest) = text.split_at(end_of_first(text, keep - tail));
    let (middle, tail) = rest.split_at(start_of_last(rest, tail));
    let left_out = match noted(middle, exchange) {
        // A tool may have written what only looks like a note of ours, with any number in it.
        Some(before) => left_out
            .saturating_add(before)
            .saturating_sub(note(before, exchange).chars().count()),
        None => left_out,
    };
    let note = note(left_out, exchange);
    let lines: Vec<&str> = [head, &note, tail]
        .into_iter()
        .filter(|line| !line.is_empty())
        .collect();
    let short = lines.join("\n");
    (short.chars().count() < chars).then_some((short, left_out))
}

/// Where the first so many characters end.
fn end_of_first(text: &str, chars: usize) -> usize {
    text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at)
}

/// Where the last so many characters begin.
fn start_of_last(text: &str, chars: usize) -> usize {
    match chars.checked_sub(1) {
        Some(before) => text.char_indices().nth_back(before).map_or(0, |(at, _)| at),
        None => text.len(),
    }
}

/// What stands in place of so many characters.
fn note(left_out: usize, exchange: i64) -> String {
    format!("{NOTE_HEAD}{}{}", grouped(left_out), note_end(exchange))
}

fn note_end(exchange: i64) -> String {
    format!(" characters left out of exchange #{exchange} …]")
}

/// How many characters an earlier note in `text` says were left out.
fn noted(text: &str, exchange: i64) -> Option<usize> {
    let (before, _) = text.split_once(&note_end(exchange))?;
    let (_, number) = before.rsplit_once(NOTE_HEAD)?;
    let left_out: usize = number.replace(',', "").parse().ok()?;
    (grouped(left_out) == number).then_some(left_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_that_fits_is_found_in_few_tries() {
        // Of one text, of many short ones beside a long one, and of one that is dense at its ends.
        let even = |keep: usize| keep.min(10_000_000) / 4;
        let mixed = |keep: usize| 900 * keep.min(500) / 4 + keep.min(8_000_000) / 4;
        let dense = |keep: usize| keep.min(200_000) + keep.saturating_sub(200_000) / 8;
        let curves: [(&dyn Fn(usize) -> usize, usize); 3] =
            [(&even, 10_000_000), (&mixed, 8_000_000), (&dense, 10_000_000)];
        for (curve, longest) in curves {
            for room in [0_i64, 1, 40, 2_000, 150_000, 1_000_000] {
                let tries = std::cell::Cell::new(0);
                let tokens = |keep: usize| {
                    tries.set(tries.get() + 1);
                    i64::try_from(curve(keep)).unwrap()
                };
                let keep = fitting(room, longest, tokens(longest), tokens);
                let (tries, found, next) = (tries.get(), tokens(keep), tokens(keep + 1));
                assert!(found <= room, "{keep}: {found} of {room}");
                assert!(
                    next > room || room - found <= room / SLACK,
                    "{keep}: {found} of {room}"
                );
                assert!(tries <= 24, "{tries} for {room}");
            }
        }
    }

    #[test]
    fn a_text_is_cut_between_its_characters() {
        let text = "äöü".repeat(100);
        let (short, left_out) = shorten(&text, 4, 7).unwrap();
        assert_eq!(
            (short.as_str(), left_out),
            ("äöü\n[… 296 characters left out of exchange #7 …]\nü", 296)
        );
        let (short, _) = shorten(&text, 0, 7).unwrap();
        assert_eq!(short, "[… 300 characters left out of exchange #7 …]");
        assert_eq!(shorten(&text, 300, 7), None);
    }

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
