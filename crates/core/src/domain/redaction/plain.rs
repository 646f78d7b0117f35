//! The plain form of a text: without styled letters (NFKC) and without invisible characters.

use std::ops::Range;

use unicode_normalization::{IsNormalized, UnicodeNormalization as _, is_nfkc_quick};

/// Characters without a width, which can stand between any letters.
const INVISIBLE: [char; 9] = [
    '\u{ad}', '\u{200b}', '\u{200c}', '\u{200d}', '\u{2060}', '\u{2061}', '\u{2062}', '\u{2063}', '\u{feff}',
];

/// The plain form of a text, and the positions of its characters in the original.
pub(super) struct Plain {
    text: String,
    /// For each byte of `text`, where its character begins in the original.
    starts: Vec<usize>,
    end: usize,
}

impl Plain {
    /// Makes the plain form of `text`; `None` if that is the text itself.
    pub(super) fn of(text: &str) -> Option<Self> {
        if text.is_ascii() {
            return None;
        }
        let is_plain = is_nfkc_quick(text.chars()) == IsNormalized::Yes && !text.contains(INVISIBLE);
        if is_plain {
            return None;
        }
        let mut plain = Self {
            text: String::with_capacity(text.len()),
            starts: Vec::with_capacity(text.len()),
            end: text.len(),
        };
        // Converts each character alone: compositions of several aren't ASCII, and no rule searches for them.
        for (start, c) in text.char_indices().filter(|(_, c)| !INVISIBLE.contains(c)) {
            let old_length = plain.text.len();
            plain.text.extend(std::iter::once(c).nfkc());
            let bytes = plain.text.len() - old_length;
            plain.starts.extend(std::iter::repeat_n(start, bytes));
        }
        Some(plain)
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns where a part of the plain form is in the original.
    pub(super) fn original(&self, part: &Range<usize>) -> Range<usize> {
        let start = self.starts.get(part.start).copied().unwrap_or(self.end);
        let last = part.end.checked_sub(1).and_then(|last| self.starts.get(last));
        let later_starts = self.starts.get(part.end..).unwrap_or_default();
        // The part ends where the next visible character begins, so it includes invisible ones.
        let next = later_starts.iter().find(|&&start| Some(&start) != last);
        start..next.copied().unwrap_or(self.end).max(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_part_maps_to_the_original() {
        assert!(Plain::of("plain").is_none());
        assert!(Plain::of("schlüssel 密码").is_none());
        let written = "é ｋ\u{200b}ｅｙ ㎏!";
        let plain = Plain::of(written).unwrap();
        assert_eq!(plain.text(), "é key kg!");
        let part = |word: &str| {
            let start = plain.text().find(word).unwrap();
            written.get(plain.original(&(start..start + word.len()))).unwrap()
        };
        assert_eq!(part("key"), "ｋ\u{200b}ｅｙ");
        assert_eq!((part("kg"), part("!"), part("g")), ("㎏", "!", "㎏"));
        assert_eq!(part("é"), "é");
    }
}
