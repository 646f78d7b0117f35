//! Prepares texts for comparison: without case, white space, quotation marks, and punctuation that ends a word.

use crate::domain::{neutralize::defanged, text::one_line};

/// Marks without meaning: quotation marks, apostrophes, and marks of code and emphasis.
const MARKS: [char; 17] =
    ['"', '\'', '`', '*', '“', '”', '„', '‟', '‘', '’', '‚', '‛', '«', '»', '‹', '›', '´'];
const ENDS: [char; 9] = ['.', ',', ';', ':', '!', '?', '…', '。', '！'];
/// Scripts from this character on have no blanks between words.
const UNSPACED_FROM: char = '\u{2e80}';

#[derive(Debug)]
pub(super) struct Words {
    text: String,
    /// True if the text was cut, perhaps within a word.
    is_cut: bool,
}

impl PartialEq for Words {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Words {
    pub(super) fn of(text: &str) -> Self {
        let line = defanged(&one_line(text)).to_lowercase().replace(MARKS, "");
        let words = line.split_whitespace().map(|word| word.trim_end_matches(ENDS));
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        Self { text: words.join(" "), is_cut: line.trim_end().ends_with('…') }
    }

    /// Returns true if these words occur in `line`, one after the other and in this order.
    pub(super) fn occur_in(&self, line: &Self) -> bool {
        if self.text.is_empty() {
            return false;
        }
        line.text.match_indices(&self.text).any(|(index, _)| {
            let (head, rest) = line.text.split_at(index);
            let tail = rest.get(self.text.len()..).unwrap_or_default();
            let begins = !joins(head.chars().next_back(), self.text.chars().next());
            let ends = self.is_cut || !joins(self.text.chars().next_back(), tail.chars().next());
            begins && ends
        })
    }
}

/// Returns true if both neighbours belong to one word.
fn joins(left: Option<char>, right: Option<char>) -> bool {
    let is_letter = |c: char| c.is_alphanumeric() && c < UNSPACED_FROM;
    left.is_some_and(is_letter) && right.is_some_and(is_letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_in_a_line_whatever_their_case_and_marks() {
        let stands = |text: &str, line: &str| Words::of(text).occur_in(&Words::of(line));
        for (text, line) in [
            ("Use pnpm, not npm.", "please use  `pnpm`,\nnot \"npm\"!"),
            ("don't push", "Don’t push to main"),
            ("never touch leg…", "Never touch legacy/ without asking"),
            ("不要使用容器", "我们用systemd，请不要使用容器。"),
            ("git push --force", "no git push --force here"),
            ("<b>stay</b>", "please <b>stay</b>"),
        ] {
            assert!(stands(text, line), "{text:?} in {line:?}");
        }
        for (text, line) in [
            ("use npm", "use pnpm"),
            ("use pnpm, not yarn", "use pnpm, not npm"),
            ("push", "pushed"),
            ("never touch leg", "never touch legacy/"),
            ("", "anything"),
            ("“”", "anything"),
        ] {
            assert!(!stands(text, line), "{text:?} in {line:?}");
        }
    }
}
