//! The plain form of a text: styled letters become plain ones (NFKC), and invisible characters are removed.

use std::ops::Range;

use unicode_normalization::{IsNormalized, UnicodeNormalization as _, is_nfkc_quick};

/// Characters without a width, which can be between any letters.
const UNSEEN: [char; 9] = [
    '\u{ad}', '\u{200b}', '\u{200c}', '\u{200d}', '\u{2060}', '\u{2061}', '\u{2062}', '\u{2063}', '\u{feff}',
];

/// The plain form of a text, with the positions of its parts in the original.
pub(super) struct Plain {
    text: String,
    /// For each byte of `text`, the start of its character in the original.
    places: Vec<usize>,
    end: usize,
}

impl Plain {
    /// Makes the plain form of `text`; `None` if that is the text itself.
    pub(super) fn of(text: &str) -> Option<Self> {
        if text.is_ascii() {
            return None;
        }
        let is_plain = is_nfkc_quick(text.chars()) == IsNormalized::Yes && !text.contains(UNSEEN);
        if is_plain {
            return None;
        }
        let mut plain = Self {
            text: String::with_capacity(text.len()),
            places: Vec::with_capacity(text.len()),
            end: text.len(),
        };
        // Character by character: compositions of several aren't ASCII, and no rule searches for them.
        for (place, c) in text.char_indices().filter(|(_, c)| !UNSEEN.contains(c)) {
            let before = plain.text.len();
            plain.text.extend(std::iter::once(c).nfkc());
            let bytes = plain.text.len() - before;
            plain.places.extend(std::iter::repeat_n(place, bytes));
        }
        Some(plain)
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The range in the original of a part of the plain form.
    pub(super) fn original(&self, part: &Range<usize>) -> Range<usize> {
        let start = self.places.get(part.start).copied().unwrap_or(self.end);
        let last = part.end.checked_sub(1).and_then(|last| self.places.get(last));
        let after = self.places.get(part.end..).unwrap_or_default();
        // The start of the next visible character: invisible ones after the part belong to it.
        let next = after.iter().find(|&&place| Some(&place) != last);
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
