//! Measures how informative a text is: rare words count more, and so do numbers, names and identifiers.
//!
//! Nothing here depends on a language: the frequent words are learned from the given items. All arithmetic uses integers, so that every
//! machine computes the same.

use std::{
    collections::{HashMap, HashSet},
    hash::Hasher as _,
};

use crate::domain::fnv::Fnv64;

/// Weights of the kinds of words, before their rarity. `SHORT` is for words of up to [`SHORT_CHARS_MAX`] ASCII letters.
const SHORT: i64 = 5;
const PLAIN: i64 = 10;
const NAME: i64 = 17;
const NUMBER: i64 = 20;
const IDENTIFIER: i64 = 20;
const SHORT_CHARS_MAX: usize = 3;
/// From this character on, each character is a word of its own.
const IDEOGRAPHS_FROM: char = '\u{2e80}';
/// The least rarity, so that a text of everyday words counts, too.
const RARITY_MIN: i64 = 1;

/// A hash of a word in lower case.
type WordHash = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TextWord {
    word: WordHash,
    weight: i64,
}

pub(super) struct Rarity {
    texts: u64,
    texts_with: HashMap<WordHash, u32>,
    /// Words of the section about facts, which is above the items. They count least.
    facts_words: HashSet<WordHash>,
}

impl Rarity {
    pub(super) fn among<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut rarity = Self { texts: 0, texts_with: HashMap::new(), facts_words: HashSet::new() };
        for text in texts {
            rarity.texts += 1;
            for text_word in distinct(text) {
                *rarity.texts_with.entry(text_word.word).or_default() += 1;
            }
        }
        rarity
    }

    /// Sets the section about facts, which is above the items. Its words count least.
    pub(super) fn with_facts(mut self, facts_section: &str) -> Self {
        self.facts_words.extend(distinct(facts_section).iter().map(|text_word| text_word.word));
        self
    }

    /// Returns true if all words of `text` occur in the section about facts.
    pub(super) fn is_stated_above(&self, text: &str) -> bool {
        distinct(text).iter().all(|text_word| self.facts_words.contains(&text_word.word))
    }

    /// Returns how informative `text` is: the sum of weight times rarity over its distinct words. Only values of the same `Rarity` are
    /// comparable.
    pub(super) fn information(&self, text: &str) -> i64 {
        distinct(text).iter().map(|text_word| text_word.weight * self.rarity_of(text_word.word)).sum()
    }

    /// Returns a word's rarity in quarter bits: 4 more for a word in half as many texts.
    fn rarity_of(&self, word: WordHash) -> i64 {
        if self.facts_words.contains(&word) {
            return RARITY_MIN;
        }
        let texts_with_word = self.texts_with.get(&word).copied().unwrap_or(1).max(1);
        let times = u128::from(self.texts + 1) * 16 / u128::from(texts_with_word);
        // The factor 16 survives the integer division as 4 bits. To the fourth power these are the 16 bits that are subtracted below.
        let quarter_bits = times.pow(4).max(1).ilog2();
        i64::from(quarter_bits.saturating_sub(16)) + RARITY_MIN
    }
}

/// Returns each word of `text` once, with its highest weight.
fn distinct(text: &str) -> Vec<TextWord> {
    let mut words = words(text);
    words.sort_unstable_by(|one, other| other.cmp(one));
    words.dedup_by_key(|text_word| text_word.word);
    words
}

fn words(text: &str) -> Vec<TextWord> {
    let mut words = Vec::with_capacity(text.len() / 5);
    let mut begins_sentence = true;
    let mut rest = text;
    while let Some(start) = rest.find(is_of_word) {
        let (between, word) = rest.split_at(start);
        begins_sentence |= between.contains(['.', '!', '?', ':', '…', '“', '"']);
        let first = word.chars().next().map_or(0, char::len_utf8);
        let end = match word.chars().next() {
            Some(c) if c >= IDEOGRAPHS_FROM => first,
            _ => word.find(|c| !is_of_word(c) || c >= IDEOGRAPHS_FROM).unwrap_or(word.len()),
        };
        let (word, after) = word.split_at(end);
        words.push(TextWord { word: fingerprint(word), weight: weight(word, begins_sentence) });
        begins_sentence = false;
        rest = after;
    }
    words
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn weight(word: &str, begins_sentence: bool) -> i64 {
    let has = |is: fn(char) -> bool| word.chars().any(is);
    let digits = has(|c| c.is_ascii_digit());
    let letters = has(char::is_alphabetic);
    let capitals = word.chars().filter(|c| c.is_uppercase()).count();
    if letters && (digits || word.contains('_')) {
        IDENTIFIER
    } else if digits {
        NUMBER
    } else if capitals > 1 || (capitals == 1 && !begins_sentence) {
        NAME
    } else if word.chars().nth(SHORT_CHARS_MAX).is_none() && word.is_ascii() {
        SHORT
    } else {
        PLAIN
    }
}

fn fingerprint(word: &str) -> WordHash {
    let mut hasher = Fnv64::default();
    for c in word.chars().flat_map(char::to_lowercase) {
        hasher.write_u32(u32::from(c));
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::summary::fixtures::any_text;

    #[test]
    fn rare_words_names_numbers_and_identifiers_tell_more() {
        let rarity =
            Rarity::among(["the cat sat on the mat", "the dog sat on the rug", "the bird sat on the roof"]);
        let order = ["the", "the cat", "a kestrel", "a Kestrel", "a 4711 Kestrel", "a K4711 and a Kestrel"]
            .map(|text| rarity.information(text));
        assert!(order.is_sorted_by(|one, other| one < other), "{order:?}");
        assert_eq!(rarity.information("cat cat, cat"), rarity.information("cat"));
        assert_eq!(rarity.information(""), 0);
    }

    #[test]
    fn words_from_above_weigh_least() {
        let texts = ["the gate squeaks", "the hinge is oiled"];
        let rarity = Rarity::among(texts).with_facts("Gate, squeaks");
        assert!(rarity.information("gate squeaks") < rarity.information("hinge"));
        assert!(rarity.is_stated_above("squeaks: gate") && !rarity.is_stated_above("the gate"));
        assert!(!Rarity::among(texts).is_stated_above("gate"));
    }

    #[test]
    fn words_of_scripts_without_blanks_are_split() {
        assert_eq!(words("修复 a_1 错误").len(), 5);
        assert_eq!(words("src/main.rs: ok").len(), 4);
    }

    proptest! {
        #[test]
        fn more_words_never_tell_less(texts in prop::collection::vec(any_text(), 0..6), more in any_text()) {
            let rarity = Rarity::among(texts.iter().map(String::as_str));
            for text in &texts {
                prop_assert!(rarity.information(text) >= 0);
                let longer = format!("{text} {more}");
                prop_assert!(distinct(&longer).len() >= distinct(text).len());
            }
        }
    }
}
