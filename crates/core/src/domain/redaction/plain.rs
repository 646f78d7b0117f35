//! A text as it reads: letters in styles as plain ones (NFKC), and without characters that aren't seen.

use std::ops::Range;

use unicode_normalization::{IsNormalized, UnicodeNormalization as _, is_nfkc_quick};

/// Characters without a width, which may stand anywhere between letters.
const UNSEEN: [char; 9] = [
    '\u{ad}', '\u{200b}', '\u{200c}', '\u{200d}', '\u{2060}', '\u{2061}', '\u{2062}', '\u{2063}', '\u{feff}',
];

/// The plain reading of a text, and where in that its parts stand.
pub(super) struct Plain {
    text: String,
    /// For each byte of `text`, where the character begins of which it was made.
    places: Vec<usize>,
    /// The length of what was read.
    end: usize,
}

impl Plain {
    /// The plain reading of `text`; `None` if it reads as it is written.
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
        // Each character by itself: what is composed of several isn't ASCII, and no rule looks for it.
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

    /// The characters that a part of the plain reading was made of.
    pub(super) fn original(&self, part: &Range<usize>) -> Range<usize> {
        let start = self.places.get(part.start).copied().unwrap_or(self.end);
        let last = part.end.checked_sub(1).and_then(|last| self.places.get(last));
        let after = self.places.get(part.end..).unwrap_or_default();
        // The next character that isn't of the same one: what is unseen behind the part goes with it.
        let next = after.iter().find(|&&place| Some(&place) != last);
        start..next.copied().unwrap_or(self.end).max(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_plain_reading_leads_to_what_is_written() {
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
