//! Estimates o200k's counts without its tables, for builds without the feature `tokenizer`. Each character costs a part of a token, by
//! its class and its position in a run of equal characters.
//!
//! The weights were fitted on the project's own texts (prose, JSON, code, twelve languages). The estimate for each of them is at most 5 %
//! too low or 15 % too high.

use super::text_kind::is_cjk;
use crate::domain::tokens::TokenCounter;

// All costs are in hundredths of a token.
/// The cost of a word's first ASCII letter. Most words are one token.
const WORD_START: i64 = 104;
/// The cost of each letter of a word after the first [`WORD_FREE_CHARS`]: tokenizers split long words.
const WORD_REST: i64 = 22;
/// A word of this many letters costs no more than its first letter.
const WORD_FREE_CHARS: i64 = 7;
/// The cost of a capital letter after a small one, as in `camelCase`.
const HUMP: i64 = 60;
/// The cost of a digit: three make a token.
const DIGIT: i64 = 49;
/// The cost of a punctuation mark at the beginning of a run.
const PUNCTUATION: i64 = 76;
/// The cost of each further punctuation mark of a run.
const RUN_REST: i64 = 25;
/// The cost of a line's end.
const LINE_END: i64 = 60;
/// The cost of a letter with an accent, or of another alphabet.
const OTHER_LETTER: i64 = 30;
/// The cost of a character of Chinese, Japanese or Korean.
const CJK: i64 = 72;
/// The cost of any other character, such as an emoji.
const SYMBOL: i64 = 160;

/// Counts by an estimate of o200k.
#[derive(Clone, Copy, Debug)]
pub struct EstimateCounter;

impl TokenCounter for EstimateCounter {
    fn count(&self, text: &str) -> i64 {
        let mut walk = Walk::default();
        let hundredths: i64 = text.chars().map(|c| walk.cost(c)).sum();
        (hundredths + 99) / 100
    }

    fn method(&self) -> &'static str {
        "estimate"
    }
}

/// A position in a text.
#[derive(Default)]
struct Walk {
    /// The character before.
    last: Option<char>,
    /// The letters so far of the word.
    word_chars: i64,
}

impl Walk {
    /// Returns the cost of the next character.
    fn cost(&mut self, c: char) -> i64 {
        let last = self.last.replace(c);
        if c.is_ascii_alphabetic() {
            return self.letter(c, last);
        }
        self.word_chars = 0;
        match c {
            // A single space belongs to the word after it and costs nothing. Further spaces of a run cost a little.
            ' ' => {
                if last == Some(' ') {
                    RUN_REST / 4
                } else {
                    0
                }
            }
            '\n' if last != Some('\n') => LINE_END,
            '0'..='9' => DIGIT,
            c if c.is_ascii() => {
                if last.is_some_and(|last| last.is_ascii_punctuation() || last == c) {
                    RUN_REST
                } else {
                    PUNCTUATION
                }
            }
            c if is_cjk(c) => CJK,
            c if c.is_alphabetic() => OTHER_LETTER,
            _ => SYMBOL,
        }
    }

    fn letter(&mut self, c: char, last: Option<char>) -> i64 {
        self.word_chars += 1;
        if self.word_chars == 1 {
            return WORD_START;
        }
        let is_hump = c.is_ascii_uppercase() && last.is_some_and(|last| last.is_ascii_lowercase());
        if is_hump {
            HUMP
        } else if self.word_chars > WORD_FREE_CHARS {
            WORD_REST
        } else {
            0
        }
    }
}
