//! Cuts that keep a text true: between words, marked by an ellipsis, and never right after a negation such as `do not`.

use std::borrow::Cow;

use unicode_segmentation::UnicodeSegmentation as _;

use recapd_core::domain::text::floor_cut;

/// A cut searches this many characters backwards for a blank.
const WORD_CHARS_MAX: usize = 24;
const ELLIPSIS: char = '…';

/// Words that negate what follows, besides `n't`. Those that may follow their verb (`nicht`, `pas`) aren't listed, so cuts keep
/// them.
const NEGATIONS: [&str; 21] = [
    "not",
    "never",
    "no",
    "cannot",
    "without",
    "neither",
    "nor",
    "ne",
    "jamais",
    "sans",
    "nunca",
    "sin",
    "não",
    "sem",
    "non",
    "mai",
    "senza",
    "не",
    "без",
    "никогда",
    "nem",
];
/// Negations in scripts without blanks.
const NEGATION_SIGNS: [char; 9] = ['不', '没', '沒', '未', '别', '別', '勿', '无', '無'];
/// Words that may be between a negation and its verb.
const LEANING: [&str; 8] = ["to", "be", "been", "have", "yet", "even", "ever", "really"];
/// Words that would affirm the statement if a cut removed the negation after them.
const AUXILIARIES: [&str; 23] = [
    "do", "does", "did", "am", "is", "are", "was", "were", "be", "been", "will", "would", "shall", "should",
    "can", "could", "may", "might", "must", "has", "have", "had", "need",
];

/// Cuts `text` to at most `chars_max` characters, including the ellipsis: between words if possible, and never within a grapheme.
pub(super) fn fit(text: &str, chars_max: usize) -> String {
    let text = text.trim();
    if text.len() <= chars_max || text.chars().count() <= chars_max {
        return text.to_owned();
    }
    let mut head = String::new();
    let mut chars = 0;
    for grapheme in text.graphemes(true) {
        chars += grapheme.chars().count();
        if chars + 1 > chars_max {
            break;
        }
        head.push_str(grapheme);
    }
    broken_off(&head)
}

/// Cuts `text` to at most `bytes_max` bytes in the same way.
pub(super) fn fit_bytes(text: &str, bytes_max: usize) -> Cow<'_, str> {
    if text.len() <= bytes_max {
        return Cow::Borrowed(text);
    }
    let room = bytes_max.saturating_sub(ELLIPSIS.len_utf8());
    Cow::Owned(broken_off(floor_cut(text, room)))
}

/// Ends a text that was cut off after `head`: removes the last word, which may be incomplete, and a negation before it, and adds
/// an ellipsis.
pub(super) fn broken_off(head: &str) -> String {
    let back = head.chars().rev().take(WORD_CHARS_MAX).position(char::is_whitespace);
    let whole_words = back.map_or(head, |back| {
        let end = head.char_indices().rev().nth(back).map_or(0, |(index, _)| index);
        head.get(..end).unwrap_or_default()
    });
    let whole_words = without_negation(without_end(whole_words));
    if whole_words.is_empty() { String::new() } else { format!("{whole_words}{ELLIPSIS}") }
}

pub(super) fn negates(word: &str) -> bool {
    let lower = word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase().replace('’', "'");
    lower.ends_with("n't") || NEGATIONS.contains(&lower.as_str())
}

/// Returns `text` without the negation at its end, if there is one.
fn without_negation(text: &str) -> &str {
    let (head, last) = split_last(text);
    let (front, word_before) = split_last(head);
    if negates(last) {
        without_auxiliaries(head)
    } else if LEANING.contains(&last) && negates(word_before) {
        without_auxiliaries(front)
    } else {
        without_end(text.trim_end_matches(NEGATION_SIGNS))
    }
}

fn without_auxiliaries(text: &str) -> &str {
    let mut text = without_end(text);
    loop {
        let (head, last) = split_last(text);
        if !AUXILIARIES.contains(&last.to_lowercase().as_str()) {
            return text;
        }
        text = without_end(head);
    }
}

fn split_last(text: &str) -> (&str, &str) {
    text.rsplit_once(char::is_whitespace).unwrap_or(("", text))
}

fn without_end(text: &str) -> &str {
    text.trim_end_matches(|c: char| c.is_whitespace() || ",;:–—-(".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_fall_between_words_and_never_within_a_grapheme() {
        let cases = [
            ("one two three", 13, "one two three"),
            ("one two three", 10, "one two…"),
            ("one, two three", 6, "one…"),
            ("unbreakable", 6, "unbre…"),
            ("今天天气很好", 4, "今天天…"),
            ("👩‍👩‍👧👩‍👩‍👧", 7, "👩‍👩‍👧…"),
            ("👩‍👩‍👧", 3, ""),
            ("text", 0, ""),
        ];
        for (text, chars_max, expected) in cases {
            assert_eq!(fit(text, chars_max), expected, "{text} {chars_max}");
        }
    }

    #[test]
    fn a_cut_takes_a_negation_along() {
        for (kept, expected) in [
            ("We do not depl", "We…"),
            ("The tests pass, but we don't depl", "The tests pass, but we…"),
            ("The server has never be", "The server…"),
            ("He decided not to mer", "He decided…"),
            ("El servidor no fun", "El servidor…"),
            ("Wir deployen nicht am Fr", "Wir deployen nicht am…"),
            ("We do not deploy on Fri", "We do not deploy on…"),
            ("今天不", "今天…"),
            ("Never depl", ""),
        ] {
            assert_eq!(broken_off(kept), expected, "{kept}");
        }
        assert_eq!(fit_bytes("Never deploy without a review", 20), "Never deploy…");
        assert_eq!(fit_bytes("as it is", 8), "as it is");
    }
}
