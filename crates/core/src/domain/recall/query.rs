//! Queries: their terms, the matches in a text, and the excerpt with the most matches.

use std::ops::Range;

use super::words::{Word, words};
use crate::domain::text::one_line;

/// The most characters of a query.
pub const QUERY_CHARS_MAX: usize = 1_000;
/// The most terms of a query.
pub const TERMS_MAX: usize = 16;
/// A query's word of at least this many characters matches every word that begins with it.
pub const OPEN_CHARS_MIN: usize = 3;
/// The most characters of an excerpt.
pub const EXCERPT_CHARS_MAX: usize = 240;
/// Characters of an excerpt before the first match.
const LEAD_CHARS: usize = 60;

/// The reason why a query is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// It has no word.
    #[error("the query holds no word to look for: give words, or a \"phrase\" in quotation marks")]
    Empty,
    /// It is too long.
    #[error("the query has {0} characters: at most {QUERY_CHARS_MAX} are allowed")]
    TooLong(usize),
    /// It has too many terms.
    #[error("the query has {0} words and phrases: at most {TERMS_MAX} are allowed")]
    TooManyTerms(usize),
}

/// One word, or several consecutive words, to search for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    words: Vec<String>,
    is_open: bool,
}

impl Term {
    /// The words in order; never empty.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Returns true if the last word also matches every word that begins with it.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// The words as shown to people.
    pub fn label(&self) -> String {
        self.words.join(" ")
    }

    fn of(text: &str, is_quoted: bool) -> Option<Self> {
        let words: Vec<String> = words(text).map(|word| word.folded).collect();
        let last = words.last()?;
        let is_long = last.chars().count() >= OPEN_CHARS_MIN;
        let is_open = !is_quoted && is_long;
        Some(Self { words, is_open })
    }

    fn begins(&self, found: &[Word]) -> bool {
        let Some((last, first)) = self.words.split_last() else {
            return false;
        };
        let ends = |word: &Word| {
            if self.is_open {
                word.folded.starts_with(last)
            } else {
                word.folded == *last
            }
        };
        first.len() < found.len()
            && first.iter().zip(found).all(|(word, found)| *word == found.folded)
            && found.get(first.len()).is_some_and(ends)
    }
}

/// The terms to search for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    terms: Vec<Term>,
}

impl Query {
    /// Parses words, and phrases in quotation marks. There is no other syntax, so every text with a word is valid.
    ///
    /// # Errors
    /// [`QueryError`] if it has no word, is too long or has too many terms.
    pub fn parse(text: &str) -> Result<Self, QueryError> {
        let chars = text.chars().count();
        if chars > QUERY_CHARS_MAX {
            return Err(QueryError::TooLong(chars));
        }
        let mut terms: Vec<Term> = Vec::new();
        // Every second piece between quotation marks is quoted; an unclosed one extends to the end.
        for (place, piece) in text.split(['"', '“', '”', '„']).enumerate() {
            if place % 2 == 1 {
                terms.extend(Term::of(piece, true));
            } else {
                terms.extend(piece.split_whitespace().filter_map(|word| Term::of(word, false)));
            }
        }
        let mut unique: Vec<Term> = Vec::new();
        for term in terms {
            if !unique.contains(&term) {
                unique.push(term);
            }
        }
        match unique.len() {
            0 => Err(QueryError::Empty),
            1..=TERMS_MAX => Ok(Self { terms: unique }),
            many => Err(QueryError::TooManyTerms(many)),
        }
    }

    /// The terms to search for; never empty.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// For each term of the query: true if `text` has it.
    pub fn found_in(&self, text: &str) -> Vec<bool> {
        let mut found = vec![false; self.terms.len()];
        for (term, _) in self.spans(text) {
            if let Some(found) = found.get_mut(term) {
                *found = true;
            }
        }
        found
    }

    /// The part of `text` with the most terms, as one clean line of at most [`EXCERPT_CHARS_MAX`] characters. Without any terms, the
    /// beginning.
    pub fn excerpt(&self, text: &str) -> String {
        let spans = self.spans(text);
        let within = |start: usize| {
            let mut seen = vec![false; self.terms.len()];
            let end = start + EXCERPT_CHARS_MAX - LEAD_CHARS;
            for (term, span) in &spans {
                if let Some(seen) = seen
                    .get_mut(*term)
                    .filter(|_| span.start >= start && span.end <= end)
                {
                    *seen = true;
                }
            }
            seen.into_iter().filter(|seen| *seen).count()
        };
        let starts = spans.iter().map(|(_, span)| span.start);
        // Of equally good places, the first.
        let best = starts.rev().max_by_key(|&start| within(start)).unwrap_or(0);
        around(text, best)
    }

    /// The matches in `text`: the term's index in the query, and the range of bytes.
    fn spans(&self, text: &str) -> Vec<(usize, Range<usize>)> {
        let words: Vec<Word> = words(text).collect();
        let mut spans = Vec::new();
        for (place, word) in words.iter().enumerate() {
            let rest = words.get(place..).unwrap_or_default();
            for (number, term) in self.terms.iter().enumerate() {
                if term.begins(rest) {
                    let last = rest.get(term.words.len() - 1);
                    let end = last.map_or(word.span.end, |last| last.span.end);
                    spans.push((number, word.span.start..end));
                }
            }
        }
        spans
    }
}

/// An excerpt of `text` around byte `at`, as one clean line, with an ellipsis at each cut.
fn around(text: &str, at: usize) -> String {
    let (before, behind) = text.split_at(text.floor_char_boundary(at));
    let lead_at = before
        .char_indices()
        .rev()
        .nth(LEAD_CHARS - 1)
        .map_or(0, |(at, _)| at);
    let tail_chars = EXCERPT_CHARS_MAX - LEAD_CHARS;
    let tail_at = behind
        .char_indices()
        .nth(tail_chars)
        .map_or(behind.len(), |(at, _)| at);
    let mut excerpt = String::new();
    if lead_at > 0 {
        excerpt.push('…');
    }
    let lead = before.get(lead_at..).unwrap_or_default();
    let tail = behind.get(..tail_at).unwrap_or_default();
    excerpt.push_str(&one_line(&format!("{lead}{tail}")));
    if tail_at < behind.len() {
        excerpt.push('…');
    }
    excerpt
}
