//! Counts the features of messages, and compares counts and texts.
//!
//! The counts have the quirks of Pidgin's definition, so that scores are comparable with Pidgin's. A single sentence that ends in a full
//! stop counts as no sentence, any digit before a full stop ("3.14") as a list item, a code block as two fences.

use std::{collections::BTreeSet, hash::Hash, iter::Sum, ops::Add};

use super::Components;

/// Shorter texts are compared by letters, longer ones by words.
const SHORT_CHARS: usize = 50;
/// Labels that some models write before their text.
const LABELS: [&str; 2] = ["**Agent A**", "**Agent B**"];
const SENTENCE_ENDS: [char; 3] = ['.', '!', '?'];
const BULLETS: [char; 3] = ['-', '*', '•'];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Features {
    pub(super) chars: usize,
    pub(super) sentences: usize,
    /// Paragraphs, list items, question marks, code fences.
    pub(super) structure: [usize; 4],
    /// Exclamation marks, commas, semicolons, colons, dashes.
    pub(super) punctuation: [usize; 5],
}

impl Features {
    /// Counts the features of a text that is [`clean`].
    pub(super) fn of(text: &str) -> Self {
        let count = |mark: char| text.matches(mark).count();
        Self {
            chars: text.chars().count(),
            sentences: sentences(text),
            structure: [
                text.matches("\n\n").count() + 1,
                list_items(text),
                count('?'),
                text.matches("```").count(),
            ],
            punctuation: [count('!'), count(','), count(';'), count(':'), count('-') + count('—')],
        }
    }

    /// Compares the sums of two speakers' features. Each sum is over `messages` messages. `content` is the likeness of their last texts.
    pub(super) fn likeness(one: &Self, other: &Self, messages: usize, content: f64) -> Components {
        let rates = |features: &Self| features.punctuation.map(|marks| share(marks, features.chars));
        let averages = |features: &Self| features.structure.map(|count| share(count, messages));
        Components {
            content,
            structure: mean_ratio(averages(one), averages(other)),
            sentences: ratio_or_zero(one.sentences, other.sentences),
            length: ratio_or_zero(one.chars, other.chars),
            punctuation: mean_ratio(rates(one), rates(other)),
        }
    }
}

impl Add for Features {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        self.chars += other.chars;
        self.sentences += other.sentences;
        for (sum, more) in self.structure.iter_mut().zip(other.structure) {
            *sum += more;
        }
        for (sum, more) in self.punctuation.iter_mut().zip(other.punctuation) {
            *sum += more;
        }
        self
    }
}

impl Sum for Features {
    fn sum<I: Iterator<Item = Self>>(features: I) -> Self {
        features.fold(Self::default(), Add::add)
    }
}

/// Removes labels, replaces several blank lines with one, and trims.
pub(super) fn clean(text: &str) -> String {
    let text = LABELS.iter().fold(text.to_owned(), |text, label| {
        let mut pieces = text.split(label);
        let first = pieces.next().unwrap_or_default().to_owned();
        pieces.fold(first, |text, piece| text + piece.strip_prefix(':').map_or(piece, str::trim_start))
    });
    collapse_blank_lines(text.trim())
}

/// Replaces white space that begins and ends with a line feed and has at least three of them with two line feeds.
fn collapse_blank_lines(text: &str) -> String {
    let mut collapsed = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('\n') {
        let (head, from_feed) = rest.split_at(start);
        collapsed.push_str(head);
        let end = from_feed.find(|c: char| !c.is_whitespace()).unwrap_or(from_feed.len());
        let (space, next) = from_feed.split_at(end);
        let tail = space.rsplit('\n').next().unwrap_or_default();
        if space.matches('\n').count() >= 3 {
            collapsed.push_str("\n\n");
            collapsed.push_str(tail);
        } else {
            collapsed.push_str(space);
        }
        rest = next;
    }
    collapsed + rest
}

/// Counts sentence ends before white space, and one more if the text doesn't end with a sentence end.
fn sentences(text: &str) -> usize {
    let ends = text
        .chars()
        .zip(text.chars().skip(1))
        .filter(|(end, next)| SENTENCE_ENDS.contains(end) && next.is_whitespace())
        .count();
    let is_open = !text.is_empty() && !text.trim_end().ends_with(SENTENCE_ENDS);
    ends + usize::from(is_open)
}

/// Counts lines that begin with a bullet, and digits before a full stop anywhere.
fn list_items(text: &str) -> usize {
    let bullets = text.split('\n').filter(|line| line.trim_start().starts_with(BULLETS)).count();
    let numbers = text
        .chars()
        .zip(text.chars().skip(1))
        .filter(|(digit, next)| digit.is_ascii_digit() && *next == '.')
        .count();
    bullets + numbers
}

/// Compares two clean texts. They may be equal, or one within the other; otherwise their common letters or words count.
pub(super) fn content_likeness(one: &str, other: &str) -> f64 {
    let (one, other) = (one.to_lowercase(), other.to_lowercase());
    if one == other {
        return 1.0;
    }
    let (one_chars, other_chars) = (one.chars().count(), other.chars().count());
    if one.contains(&other) || other.contains(&one) {
        return share(one_chars.min(other_chars), one_chars.max(other_chars));
    }
    if one_chars < SHORT_CHARS && other_chars < SHORT_CHARS {
        jaccard(&one.chars().collect(), &other.chars().collect())
    } else {
        jaccard(&one.split_whitespace().collect(), &other.split_whitespace().collect())
    }
}

fn jaccard<T: Ord + Hash>(one: &BTreeSet<T>, other: &BTreeSet<T>) -> f64 {
    share(one.intersection(other).count(), one.union(other).count())
}

#[expect(clippy::cast_precision_loss, reason = "counts of characters are far below 2^52")]
fn share(part: usize, total: usize) -> f64 {
    if total == 0 { 0.0 } else { part as f64 / total as f64 }
}

/// Divides the smaller number by the larger; 0 if either is 0.
fn ratio_or_zero(one: usize, other: usize) -> f64 {
    share(one.min(other), one.max(other))
}

/// Returns the mean, over all features, of the smaller value divided by the larger: 1 where both are 0, 0 where only one is.
fn mean_ratio<const N: usize>(one: [f64; N], other: [f64; N]) -> f64 {
    let ratios = one.into_iter().zip(other).map(|(one, other)| {
        let larger = one.max(other);
        if larger > 0.0 { one.min(other) / larger } else { 1.0 }
    });
    #[expect(clippy::cast_precision_loss, reason = "there are five features at most")]
    let count = N as f64;
    ratios.sum::<f64>() / count
}
