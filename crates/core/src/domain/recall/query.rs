//! Queries: their terms, the matches in a text, and the excerpt with the most matches.

use std::ops::Range;

use super::{
    stem::{is_stop_word, stem},
    words::{Word, words},
};
use crate::domain::text::one_line;

/// The most characters of a query.
pub const QUERY_CHARS_MAX: usize = 1_000;
/// The most terms that are used for ranking: the rarest ones of a long question.
pub const TERMS_MAX: usize = 24;
/// A query's word of at least this many characters matches every word that begins with it, if no message has the word itself.
pub const OPEN_CHARS_MIN: usize = 3;
/// The most characters of an excerpt.
pub const EXCERPT_CHARS_MAX: usize = 240;
/// Characters of an excerpt before the first match.
const LEAD_CHARS: usize = 60;
/// Pieces of a word with an apostrophe that aren't longer are parts of grammar: `'s`, `n't`, `l'`.
const CLITIC_CHARS_MAX: usize = 2;

/// The reason why a query is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// It has no word.
    #[error("the query holds no word to look for: give words, or a \"phrase\" in quotation marks")]
    Empty,
    /// It is too long.
    #[error("the query has {0} characters: at most {QUERY_CHARS_MAX} are allowed")]
    TooLong(usize),
}

/// A word in any of its forms, or several consecutive words to the letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    words: Vec<String>,
    stems: Vec<String>,
    is_phrase: bool,
}

impl Term {
    /// The stems that a message with this term has; never empty.
    pub fn stems(&self) -> &[String] {
        &self.stems
    }

    /// True if the words must stand in a text to the letter, one after the other.
    pub fn is_phrase(&self) -> bool {
        self.is_phrase
    }

    /// True if words that begin with it stand for it where no message has the word itself.
    pub fn is_open(&self) -> bool {
        !self.is_phrase && self.stem().chars().count() >= OPEN_CHARS_MIN
    }

    /// The stem of a word; the first of a phrase.
    pub fn stem(&self) -> &str {
        self.stems.first().map_or("", String::as_str)
    }

    /// The words as shown to people.
    pub fn label(&self) -> String {
        self.words.join(" ")
    }

    fn of(text: &str, is_quoted: bool) -> Option<Self> {
        let words: Vec<String> = words(text).map(|word| word.folded).collect();
        let stems: Vec<String> = words.iter().map(|word| stem(word)).collect();
        (!words.is_empty()).then_some(Self {
            is_phrase: is_quoted || words.len() > 1,
            words,
            stems,
        })
    }

    /// Splits a word of a question into terms. Parts that a hyphen or an apostrophe joins are words of their own; what other
    /// characters join, such as a path, is a phrase.
    fn of_word(word: &str) -> impl Iterator<Item = Self> {
        let hyphens = ['-', '\u{2010}', '\u{2011}', '\u{2013}', '\u{2014}'];
        word.split(hyphens).flat_map(|part| {
            let pieces: Vec<&str> = part.split(['\'', '’']).collect();
            let is_single = pieces.len() == 1;
            pieces
                .into_iter()
                .filter(move |piece| is_single || piece.chars().count() > CLITIC_CHARS_MAX)
                .filter_map(|piece| Self::of(piece, false))
                .collect::<Vec<_>>()
        })
    }

    fn is_stop_word(&self) -> bool {
        !self.is_phrase && self.words.iter().all(|word| is_stop_word(word))
    }

    fn is_same(&self, other: &Self) -> bool {
        self.is_phrase == other.is_phrase
            && if self.is_phrase {
                self.words == other.words
            } else {
                self.stems == other.stems
            }
    }

    fn matches_word(&self, word: &str) -> bool {
        self.words.iter().zip(&self.stems).any(|(own, own_stem)| {
            // A word begins like its stem: most words need no stem of their own.
            let begins_alike = word.bytes().take(2).eq(own_stem.bytes().take(2));
            word == own
                || (self.is_open() && word.starts_with(own.as_str()))
                || (begins_alike && stem(word) == *own_stem)
        })
    }

    fn begins(&self, found: &[Word]) -> bool {
        if !self.is_phrase {
            return found.first().is_some_and(|word| self.matches_word(&word.folded));
        }
        self.words.len() <= found.len()
            && self
                .words
                .iter()
                .zip(found)
                .all(|(word, found)| *word == found.folded)
    }
}

/// The terms to search for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    terms: Vec<Term>,
}

impl Query {
    /// Parses words, and phrases in quotation marks. There is no other syntax, so every text with a word is valid. Words that say
    /// nothing are left out, unless there are no others.
    ///
    /// # Errors
    /// [`QueryError`] if it has no word, or is too long.
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
                terms.extend(piece.split_whitespace().flat_map(Term::of_word));
            }
        }
        if terms.iter().any(|term| !term.is_stop_word()) {
            terms.retain(|term| !term.is_stop_word());
        }
        let mut unique: Vec<Term> = Vec::new();
        for term in terms {
            if !unique.iter().any(|known| known.is_same(&term)) {
                unique.push(term);
            }
        }
        if unique.is_empty() {
            return Err(QueryError::Empty);
        }
        Ok(Self { terms: unique })
    }

    /// Finds everything that a filter admits.
    pub fn everything() -> Self {
        Self { terms: Vec::new() }
    }

    /// True if its words say nothing about what is looked for.
    pub fn is_empty_talk(&self) -> bool {
        self.terms.iter().all(Term::is_stop_word)
    }

    /// The terms to search for.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// The same query with those terms only that `keeps` by their index.
    #[must_use]
    pub fn with(&self, keeps: impl Fn(usize) -> bool) -> Self {
        let kept = self.terms.iter().enumerate().filter(|(index, _)| keeps(*index));
        Self {
            terms: kept.map(|(_, term)| term.clone()).collect(),
        }
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
