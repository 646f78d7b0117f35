//! Queries: their terms, the matches of a text, and the excerpt with the most matches.

use std::ops::Range;

use super::{
    stem::{is_stop_word, stem},
    words::{Word, words},
};
use crate::domain::text::one_line;

/// Limits a query to this many characters.
pub const QUERY_CHARS_MAX: usize = 1_000;
/// Ranks by at most this many terms: the rarest ones of a long question.
pub const TERMS_MAX: usize = 24;
/// If no message has a word of the query, and the word has at least this many characters, every longer word that begins with it matches.
pub const OPEN_CHARS_MIN: usize = 3;
/// Limits an excerpt to this many characters.
pub const EXCERPT_CHARS_MAX: usize = 240;
/// An excerpt has this many characters before its first match.
const LEAD_CHARS: usize = 60;
/// If an apostrophe splits a word, pieces that aren't longer are parts of grammar: `'s`, `n't`, `l'`.
const CLITIC_CHARS_MAX: usize = 2;

/// Why a query is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// It has no word.
    #[error("the query holds no word to look for: give words, or a \"phrase\" in quotation marks")]
    Empty,
    /// It is too long.
    #[error("the query has {0} characters: at most {QUERY_CHARS_MAX} are allowed")]
    TooLong(usize),
}

/// A word in any of its forms, or a phrase: consecutive words that a text must have to the letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    words: Vec<String>,
    stems: Vec<String>,
    is_phrase: bool,
}

impl Term {
    /// Returns the stems that a message with this term has. There is at least one.
    pub fn stems(&self) -> &[String] {
        &self.stems
    }

    /// Returns true for a phrase, whose words a text must have to the letter, one after the other.
    pub fn is_phrase(&self) -> bool {
        self.is_phrase
    }

    /// Returns true if the term matches longer words that begin with it when no message has the word itself.
    pub fn is_open(&self) -> bool {
        !self.is_phrase && self.stem().chars().count() >= OPEN_CHARS_MIN
    }

    /// Returns the stem of a word, or of a phrase's first word.
    pub fn stem(&self) -> &str {
        self.stems.first().map_or("", String::as_str)
    }

    /// Returns the words for people to read.
    pub fn label(&self) -> String {
        self.words.join(" ")
    }

    fn of(text: &str, is_quoted: bool) -> Option<Self> {
        let words: Vec<String> = words(text).map(|word| word.folded).collect();
        let stems: Vec<String> = words.iter().map(|word| stem(word)).collect();
        (!words.is_empty()).then_some(Self { is_phrase: is_quoted || words.len() > 1, words, stems })
    }

    /// Splits a word of a question into terms. Parts joined by a hyphen or an apostrophe are separate words. Parts joined by other
    /// characters, as in a path, are a phrase.
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
            && if self.is_phrase { self.words == other.words } else { self.stems == other.stems }
    }

    fn matches_word(&self, word: &str) -> bool {
        self.words.iter().zip(&self.stems).any(|(term_word, term_stem)| {
            // A word begins like its stem. This saves stemming most words.
            let begins_alike = word.bytes().take(2).eq(term_stem.bytes().take(2));
            word == term_word
                || (self.is_open() && word.starts_with(term_word.as_str()))
                || (begins_alike && stem(word) == *term_stem)
        })
    }

    /// Returns true if a match of the term begins at the first of `words`.
    fn begins(&self, words: &[Word]) -> bool {
        if !self.is_phrase {
            return words.first().is_some_and(|word| self.matches_word(&word.folded));
        }
        self.words.len() <= words.len()
            && self.words.iter().zip(words).all(|(term_word, word)| *term_word == word.folded)
    }
}

/// The terms to search for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    terms: Vec<Term>,
}

impl Query {
    /// Parses words, and phrases in quotation marks. There is no other syntax, so every text with a word is valid. Leaves out stop words,
    /// unless there are no other words.
    ///
    /// # Errors
    /// [`QueryError`] if it has no word, or is too long.
    pub fn parse(text: &str) -> Result<Self, QueryError> {
        let chars = text.chars().count();
        if chars > QUERY_CHARS_MAX {
            return Err(QueryError::TooLong(chars));
        }
        let mut terms: Vec<Term> = Vec::new();
        // Every second piece between quotation marks is quoted. A quotation without an end extends to the end of the query.
        for (index, piece) in text.split(['"', '“', '”', '„']).enumerate() {
            if index % 2 == 1 {
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
            if !unique.iter().any(|other| other.is_same(&term)) {
                unique.push(term);
            }
        }
        if unique.is_empty() {
            return Err(QueryError::Empty);
        }
        Ok(Self { terms: unique })
    }

    /// Makes a query that finds everything that a filter admits.
    pub fn everything() -> Self {
        Self { terms: Vec::new() }
    }

    /// Returns true if the query has only stop words.
    pub fn has_only_stop_words(&self) -> bool {
        self.terms.iter().all(Term::is_stop_word)
    }

    /// Returns the terms to search for.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// Returns the query with only those terms for whose index `keeps` is true.
    #[must_use]
    pub fn with_terms(&self, keeps: impl Fn(usize) -> bool) -> Self {
        let terms = self.terms.iter().enumerate().filter(|(index, _)| keeps(*index));
        Self { terms: terms.map(|(_, term)| term.clone()).collect() }
    }

    /// Returns for each term of the query whether `text` has it.
    pub fn find_terms(&self, text: &str) -> Vec<bool> {
        let mut has_term = vec![false; self.terms.len()];
        for (term, _) in self.spans(text) {
            if let Some(has_term) = has_term.get_mut(term) {
                *has_term = true;
            }
        }
        has_term
    }

    /// Returns the part of `text` with the most terms as one clean line of at most [`EXCERPT_CHARS_MAX`] characters. If `text` has no
    /// term, returns its beginning.
    pub fn excerpt(&self, text: &str) -> String {
        let spans = self.spans(text);
        let count_terms_from = |start: usize| {
            let mut found_terms = vec![false; self.terms.len()];
            let end = start + EXCERPT_CHARS_MAX - LEAD_CHARS;
            for (term, span) in &spans {
                if let Some(is_found) =
                    found_terms.get_mut(*term).filter(|_| span.start >= start && span.end <= end)
                {
                    *is_found = true;
                }
            }
            found_terms.into_iter().filter(|is_found| *is_found).count()
        };
        let starts = spans.iter().map(|(_, span)| span.start);
        // Takes the first of equally good starts.
        let best = starts.rev().max_by_key(|&start| count_terms_from(start)).unwrap_or(0);
        around(text, best)
    }

    /// Returns the matches in `text`: for each the term's index in the query, and the range of bytes.
    fn spans(&self, text: &str) -> Vec<(usize, Range<usize>)> {
        let words: Vec<Word> = words(text).collect();
        let mut spans = Vec::new();
        for (start, word) in words.iter().enumerate() {
            let rest = words.get(start..).unwrap_or_default();
            for (index, term) in self.terms.iter().enumerate() {
                if term.begins(rest) {
                    let last = rest.get(term.words.len() - 1);
                    let end = last.map_or(word.span.end, |last| last.span.end);
                    spans.push((index, word.span.start..end));
                }
            }
        }
        spans
    }
}

/// Writes an excerpt of `text` around byte `center` as one clean line, with an ellipsis at each cut.
fn around(text: &str, center: usize) -> String {
    let (head, tail) = text.split_at(text.floor_char_boundary(center));
    let lead_start = head.char_indices().rev().nth(LEAD_CHARS - 1).map_or(0, |(index, _)| index);
    let tail_chars = EXCERPT_CHARS_MAX - LEAD_CHARS;
    let tail_end = tail.char_indices().nth(tail_chars).map_or(tail.len(), |(index, _)| index);
    let mut excerpt = String::new();
    if lead_start > 0 {
        excerpt.push('…');
    }
    let excerpt_head = head.get(lead_start..).unwrap_or_default();
    let excerpt_tail = tail.get(..tail_end).unwrap_or_default();
    excerpt.push_str(&one_line(&format!("{excerpt_head}{excerpt_tail}")));
    if tail_end < tail.len() {
        excerpt.push('…');
    }
    excerpt
}
