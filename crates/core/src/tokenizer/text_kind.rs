//! The kinds of text for which tokenizers differ.

/// A kind of text. Tokenizers give similar counts for English prose and different ones for the other kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TextKind {
    /// Sentences in the Latin alphabet.
    Prose,
    /// JSON, code, logs, tables: texts with much punctuation and many digits.
    Dense,
    /// Chinese, Japanese, Korean.
    Cjk,
    /// Any other script, and emoji.
    OtherScript,
}

/// A text with a larger percentage of punctuation and digits is dense. English prose has about 4, code about 15, compact JSON about 30.
const DENSE_PERCENT: usize = 12;
/// A text with a larger percentage of characters beyond the Latin alphabet is of another script.
const SCRIPT_PERCENT: usize = 25;

impl TextKind {
    /// Classifies `text` in one pass.
    pub fn of(text: &str) -> Self {
        let (mut chars, mut dense, mut cjk, mut other) = (0_usize, 0_usize, 0_usize, 0_usize);
        for c in text.chars() {
            chars += 1;
            dense += usize::from(c.is_ascii_punctuation() || c.is_ascii_digit());
            cjk += usize::from(is_cjk(c));
            other += usize::from(is_beyond_latin(c));
        }
        let exceeds = |count: usize, percent: usize| count * 100 > chars * percent;
        if exceeds(cjk, SCRIPT_PERCENT) {
            Self::Cjk
        } else if exceeds(other, SCRIPT_PERCENT) {
            Self::OtherScript
        } else if exceeds(dense, DENSE_PERCENT) {
            Self::Dense
        } else {
            Self::Prose
        }
    }
}

/// Returns true for Han, kana and Hangul, with their punctuation and full-width forms.
pub(super) fn is_cjk(c: char) -> bool {
    matches!(c, '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7ff}' | '\u{f900}'..='\u{faff}'
        | '\u{ff00}'..='\u{ffef}' | '\u{20000}'..='\u{3ffff}')
}

/// Returns true for a character that is not Latin (with accents), typographic punctuation or box drawing.
fn is_beyond_latin(c: char) -> bool {
    c > '\u{24f}' && !matches!(c, '\u{300}'..='\u{36f}' | '\u{1e00}'..='\u{1eff}' | '\u{2000}'..='\u{2bff}')
}
