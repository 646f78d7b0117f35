//! Splits a text into words, in the form in which they are compared.

use std::ops::Range;

use unicode_normalization::char::{compose, decompose_canonical};

/// Returns a name in the form in which it is compared: its words without what is between them.
pub(super) fn folded_name(name: &str) -> String {
    words(name).map(|word| word.folded).collect()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) span: Range<usize>,
    pub(super) folded: String,
}

pub(super) fn words(text: &str) -> impl Iterator<Item = Word> {
    let mut chars = text.char_indices().peekable();
    std::iter::from_fn(move || {
        let (start, first) = chars.find(|&(_, c)| begins_word(c))?;
        let continues_word =
            |c: char| is_mark(c) || (begins_word(c) && !stands_alone(first) && !stands_alone(c));
        let mut end = start + first.len_utf8();
        while let Some((at, c)) = chars.next_if(|&(_, c)| continues_word(c)) {
            end = at + c.len_utf8();
        }
        Some(Word { span: start..end, folded: folded(text.get(start..end).unwrap_or_default()) })
    })
}

fn begins_word(c: char) -> bool {
    c.is_alphanumeric() && !is_mark(c)
}

/// Returns true if `c` is a mark on the letter before it: an accent, or a voicing mark of Japanese. File names of macOS have such marks.
fn is_mark(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}' | '\u{3099}' | '\u{309a}')
}

/// Returns a word in lower case and without accents on Latin letters, like FTS5's `remove_diacritics 2`. Composes other letters with
/// their marks, so that both spellings are equal.
pub(super) fn folded(word: &str) -> String {
    let mut folded = String::with_capacity(word.len());
    for c in word.to_lowercase().chars() {
        if is_mark(c) {
            let last = folded.pop();
            folded.extend(last.map(|last| compose(last, c).map_or(last, without_accent)));
        } else {
            folded.push(without_accent(c));
        }
    }
    folded
}

fn without_accent(c: char) -> char {
    let mut base = None;
    decompose_canonical(c, |part| {
        base.get_or_insert(part);
    });
    base.filter(char::is_ascii_alphabetic).unwrap_or(c)
}

/// Returns true if the script of `c` has no blanks between words: Chinese, Japanese, Thai, Lao, Khmer, Burmese.
fn stands_alone(c: char) -> bool {
    matches!(u32::from(c),
        0x0E00..=0x0EFF | 0x1000..=0x109F | 0x1780..=0x17FF | 0x3040..=0x30FF | 0x3400..=0x4DBF
        | 0x4E00..=0x9FFF | 0xF900..=0xFAFF | 0x20000..=0x323AF)
}
