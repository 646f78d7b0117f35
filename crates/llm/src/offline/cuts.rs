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
    let mut kept = String::new();
    let mut chars = 0;
    for grapheme in text.graphemes(true) {
        chars += grapheme.chars().count();
        if chars + 1 > chars_max {
            break;
        }
        kept.push_str(grapheme);
    }
    broken_off(&kept)
}

/// Cuts `text` to at most `bytes_max` bytes in the same way.
pub(super) fn within(text: &str, bytes_max: usize) -> Cow<'_, str> {
    if text.len() <= bytes_max {
        return Cow::Borrowed(text);
    }
    let room = bytes_max.saturating_sub(ELLIPSIS.len_utf8());
    Cow::Owned(broken_off(floor_cut(text, room)))
}

/// Ends a text that was cut off after `kept`: removes the last word, which may be incomplete, and a negation before it, and adds
/// an ellipsis.
pub(super) fn broken_off(kept: &str) -> String {
    let back = kept
        .chars()
        .rev()
        .take(WORD_CHARS_MAX)
        .position(char::is_whitespace);
    let whole = back.map_or(kept, |back| {
        let end = kept.char_indices().rev().nth(back).map_or(0, |(at, _)| at);
        kept.get(..end).unwrap_or_default()
    });
    let whole = before_negation(without_end(whole));
    if whole.is_empty() {
        String::new()
    } else {
        format!("{whole}{ELLIPSIS}")
    }
}

pub(super) fn negates(word: &str) -> bool {
    let lower = word
        .trim_matches(|c: char| !c.is_alphanumeric())
        .to_lowercase()
        .replace('’', "'");
    lower.ends_with("n't") || NEGATIONS.contains(&lower.as_str())
}

/// Returns `said` without the negation at its end, if there is one.
fn before_negation(said: &str) -> &str {
    let (head, last) = split_last(said);
    let (front, before) = split_last(head);
    if negates(last) {
        before_auxiliaries(head)
    } else if LEANING.contains(&last) && negates(before) {
        before_auxiliaries(front)
    } else {
        without_end(said.trim_end_matches(NEGATION_SIGNS))
    }
}

fn before_auxiliaries(said: &str) -> &str {
    let mut said = without_end(said);
    loop {
        let (head, last) = split_last(said);
        if !AUXILIARIES.contains(&last.to_lowercase().as_str()) {
            return said;
        }
        said = without_end(head);
    }
}

fn split_last(said: &str) -> (&str, &str) {
    said.rsplit_once(char::is_whitespace).unwrap_or(("", said))
}

fn without_end(said: &str) -> &str {
    said.trim_end_matches(|c: char| c.is_whitespace() || ",;:–—-(".contains(c))
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
        assert_eq!(within("Never deploy without a review", 20), "Never deploy…");
        assert_eq!(within("as it is", 8), "as it is");
    }
}
