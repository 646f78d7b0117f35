//! Weighs words: high if they are rare in the batch or look like an identifier, a number or a name; low if they are everyday
//! words.

use std::collections::HashMap;

use unicode_segmentation::UnicodeSegmentation as _;

use super::cues::{COURTESY, FUNCTION_WORDS, TIME_WORDS};

/// Longer words aren't counted, in bytes.
const WORD_BYTES_MAX: usize = 96;

/// The index of a word in a [`Vocabulary`].
pub(super) type Term = usize;

/// The shape of a word. Later shapes weigh more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WordShape {
    Function,
    Polite,
    Short,
    Plain,
    /// A word that dates a fact: yesterday, Friday, next.
    Time,
    /// A word that is capitalised within a sentence.
    Name,
    /// Digits, perhaps with punctuation: an amount, a date, a time.
    Number,
    /// Letters mixed with digits, underscores, slashes or inner capitals: an id, a path, a name in code.
    Identifier,
}

impl WordShape {
    fn weight(self) -> f64 {
        match self {
            Self::Function => 0.0,
            Self::Polite => 0.04,
            Self::Short => 0.45,
            Self::Plain => 1.0,
            Self::Time => 1.2,
            Self::Name | Self::Number => 1.3,
            Self::Identifier => 1.7,
        }
    }

    /// Returns true if `word` is polite or has no content.
    pub(super) fn is_empty_talk(word: &str) -> bool {
        let lower = word.to_lowercase().replace('’', "'");
        Self::of(word, &lower, true) <= Self::Polite
    }

    fn of(word: &str, lower: &str, opens: bool) -> Self {
        if FUNCTION_WORDS.contains(lower) {
            Self::Function
        } else if COURTESY.contains(lower) {
            Self::Polite
        } else if TIME_WORDS.contains(lower) {
            Self::Time
        } else {
            Self::from_characters(word, opens)
        }
    }

    fn from_characters(word: &str, opens: bool) -> Self {
        let has_digits = word.chars().any(|c| c.is_ascii_digit());
        let has_letters = word.chars().any(char::is_alphabetic);
        let has_inner_capital = word.chars().skip(1).any(|c| c.is_ascii_uppercase());
        let has_joints = word.chars().any(|c| "_/\\@=#$".contains(c)) || has_inner_dot(word);
        let is_all_capitals = !word.chars().any(char::is_lowercase);
        if has_letters && (has_digits || has_joints || (has_inner_capital && !is_all_capitals)) {
            Self::Identifier
        } else if has_digits {
            Self::Number
        } else if (!opens || is_all_capitals) && word.starts_with(char::is_uppercase) && has_letters {
            Self::Name
        } else if word.chars().nth(3).is_none() && word.is_ascii() {
            Self::Short
        } else {
            Self::Plain
        }
    }
}

fn has_inner_dot(word: &str) -> bool {
    word.split('.').filter(|part| !part.is_empty()).nth(1).is_some()
}

#[derive(Debug, Default)]
pub(super) struct Vocabulary {
    terms: HashMap<String, Term>,
    entries: Vec<VocabularyEntry>,
    clauses: usize,
}

#[derive(Debug, Default)]
struct VocabularyEntry {
    /// The heaviest shape that the word had, except names.
    other_shape: Option<WordShape>,
    /// How often the word looked like a name, and how often like something else.
    name_count: usize,
    other_count: usize,
    clauses: usize,
    /// How many exchanges contain the word, and the last one that was counted.
    exchanges: usize,
    last_exchange: Option<usize>,
}

impl VocabularyEntry {
    fn add(&mut self, shape: WordShape) {
        if shape == WordShape::Name {
            self.name_count += 1;
        } else {
            self.other_count += 1;
            self.other_shape = self.other_shape.max(Some(shape));
        }
    }

    /// Returns the word's shape. A capital doesn't make a name of a word that is mostly written without one, such as a word in a
    /// title.
    fn shape(&self) -> WordShape {
        match self.other_shape {
            Some(shape) if shape > WordShape::Name || self.name_count <= self.other_count => shape,
            _ => WordShape::Name,
        }
    }
}

impl Vocabulary {
    /// Reads a clause of exchange number `exchange` of the batch. Returns its content words in order, without repetitions.
    pub(super) fn read(&mut self, clause: &str, exchange: usize) -> Vec<Term> {
        self.clauses += 1;
        let mut terms = Vec::new();
        for (index, word) in words(clause).into_iter().enumerate() {
            let lower = word.to_lowercase().replace('’', "'");
            let key = stem(&lower);
            let shape = WordShape::of(word, key, index == 0);
            if shape == WordShape::Function {
                continue;
            }
            let term = self.term(key, shape);
            if !terms.contains(&term) {
                terms.push(term);
            }
        }
        for &term in &terms {
            self.count(term, exchange);
        }
        terms
    }

    fn term(&mut self, key: &str, shape: WordShape) -> Term {
        let next = self.entries.len();
        let term = *self.terms.entry(key.to_owned()).or_insert(next);
        if term == next {
            self.entries.push(VocabularyEntry::default());
        }
        if let Some(entry) = self.entries.get_mut(term) {
            entry.add(shape);
        }
        term
    }

    fn count(&mut self, term: Term, exchange: usize) {
        if let Some(entry) = self.entries.get_mut(term) {
            entry.clauses += 1;
            if entry.last_exchange != Some(exchange) {
                entry.exchanges += 1;
                entry.last_exchange = Some(exchange);
            }
        }
    }

    /// Returns the weight of `term`, from 0 to about 1.7.
    pub(super) fn weight(&self, term: Term) -> f64 {
        let Some(entry) = self.entries.get(term) else {
            return 0.0;
        };
        let rarity = 1.0 - ratio_of_logs(entry.clauses, self.clauses + 1);
        // An identifier stays informative even if it occurs often.
        let rarity = if entry.shape() >= WordShape::Number { rarity.max(0.5) } else { rarity };
        entry.shape().weight() * rarity
    }

    /// Returns the words of `text` that occur in the batch.
    pub(super) fn terms_in(&self, text: &str) -> Vec<Term> {
        words(text)
            .into_iter()
            .filter_map(|word| self.terms.get(stem(&word.to_lowercase())).copied())
            .collect()
    }

    /// Counts the ordinary words in `terms`, without names, numbers and courtesy.
    pub(super) fn plain_words(&self, terms: &[Term]) -> usize {
        terms.iter().filter(|&&term| self.shape(term) == WordShape::Plain).count()
    }

    pub(super) fn exchanges_with(&self, term: Term) -> usize {
        self.entries.get(term).map_or(0, |entry| entry.exchanges)
    }

    pub(super) fn shape(&self, term: Term) -> WordShape {
        self.entries.get(term).map_or(WordShape::Function, VocabularyEntry::shape)
    }

    pub(super) fn weight_of(&self, terms: &[Term]) -> f64 {
        terms.iter().map(|&term| self.weight(term)).sum()
    }
}

/// ln(a) / ln(b), between 0 and 1.
fn ratio_of_logs(a: usize, b: usize) -> f64 {
    if b <= 1 { 0.0 } else { (number(a.max(1)).ln() / number(b).ln()).min(1.0) }
}

/// Converts a count to a float. Counts above `u32::MAX` become `u32::MAX`.
pub(super) fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Splits a clause into words without surrounding punctuation. Unicode word rules apply to text that isn't ASCII.
fn words(clause: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for chunk in clause.split_whitespace() {
        let word = chunk
            .trim_start_matches(|c: char| !c.is_alphanumeric() && !"_/#$".contains(c))
            .trim_end_matches(|c: char| !c.is_alphanumeric() && !"_/".contains(c));
        if word.is_ascii() {
            words.extend((!word.is_empty() && word.len() <= WORD_BYTES_MAX).then_some(word));
        } else {
            words.extend(word.unicode_words().filter(|word| word.len() <= WORD_BYTES_MAX));
        }
    }
    words
}

/// Removes the marks of possession and plural, so that forms of one word are equal.
fn stem(lower: &str) -> &str {
    let lower = lower.strip_suffix("'s").or_else(|| lower.strip_suffix("’s")).unwrap_or(lower);
    if lower.len() > 4 && !lower.ends_with("ss") { lower.strip_suffix('s').unwrap_or(lower) } else { lower }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_tell_identifiers_names_and_everyday_words_apart() {
        let cases = [
            ("the", true, WordShape::Function),
            ("thanks", true, WordShape::Polite),
            ("fix", false, WordShape::Short),
            ("screenplay", true, WordShape::Plain),
            ("Denver", true, WordShape::Plain),
            ("Denver", false, WordShape::Name),
            ("$1,194", false, WordShape::Number),
            ("2024-05-19", false, WordShape::Number),
            ("NQNU5R", false, WordShape::Identifier),
            ("src/main.rs", false, WordShape::Identifier),
            ("run_install", false, WordShape::Identifier),
            ("sendChat", false, WordShape::Identifier),
        ];
        for (word, opens, expected) in cases {
            assert_eq!(WordShape::of(word, &word.to_lowercase(), opens), expected, "{word}");
        }
    }

    #[test]
    fn rare_words_weigh_more_than_common_ones_and_identifiers_most() {
        let mut vocabulary = Vocabulary::default();
        let read: Vec<Vec<Term>> =
            ["book a flight", "cancel a flight", "the flight K1NW8N", "a flight to Boston"]
                .iter()
                .enumerate()
                .map(|(exchange, clause)| vocabulary.read(clause, exchange))
                .collect();
        let weights: Vec<f64> = read.iter().map(|terms| vocabulary.weight_of(terms)).collect();
        assert!(weights[2] > weights[1], "{weights:?}");
        assert_eq!(vocabulary.exchanges_with(read[0][1]), 4);
        assert!(vocabulary.weight(read[0][1]) < vocabulary.weight(read[0][0]));
    }

    #[test]
    fn words_are_found_in_any_script() {
        assert_eq!(words("“Hello,” she said: 5€!"), ["Hello", "she", "said", "5"]);
        assert_eq!(words("修复错误"), ["修", "复", "错", "误"]);
        assert_eq!(stem("companies"), "companie");
        assert_eq!(stem("ann's"), "ann");
    }
}
