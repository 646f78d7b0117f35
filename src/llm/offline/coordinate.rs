//! A sentence of talk taken apart where another main clause begins: one of them may tell something while the other
//! doesn't.

use super::cues::{COORDINATORS, SUBJECTS};

/// A clause has at least this many words.
const WORDS_MIN: usize = 3;

/// The main clauses of a sentence, in order: `I ran, and my knee hurt` gives `I ran` and `my knee hurt`. Where none can
/// be told apart, the sentence.
pub(super) fn clauses(said: &str) -> Vec<&str> {
    let words: Vec<&str> = said.split(' ').collect();
    let mut clauses = Vec::new();
    // Bytes and words of the clause in the making.
    let (mut from, mut length, mut at) = (0, 0, 0);
    for (index, word) in words.iter().enumerate() {
        let next = words.get(index + 1).copied().unwrap_or_default();
        let skipped = boundary(
            words.get(index.wrapping_sub(1)).copied().unwrap_or_default(),
            word,
            next,
        );
        let left = words.len() - index;
        if let Some(skipped) = skipped
            && length >= WORDS_MIN
            && left >= WORDS_MIN + skipped
        {
            clauses.push(trimmed(said.get(from..at).unwrap_or_default()));
            from = at + if skipped > 0 { word.len() + 1 } else { 0 };
            length = 0;
        }
        length += 1;
        at += word.len() + 1;
    }
    clauses.push(said.get(from..).unwrap_or_default().trim());
    clauses
}

/// Whether a clause begins at `word`, and how many words are left out of it then: the joint itself.
fn boundary(before: &str, word: &str, next: &str) -> Option<usize> {
    if before.is_empty() {
        None
    } else if matches!(word, "-" | "–" | "—") || (COORDINATORS.contains(word) && is_subject(next)) {
        Some(1)
    } else if before.ends_with([',', ';']) && is_subject(word) {
        Some(0)
    } else {
        None
    }
}

fn is_subject(word: &str) -> bool {
    let head = word.split(['\'', '’']).next().unwrap_or_default();
    SUBJECTS.contains(head.to_lowercase().as_str())
}

fn trimmed(clause: &str) -> &str {
    clause.trim().trim_end_matches([',', ';'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn main_clauses_are_told_apart_and_nothing_else() {
        let cases: [(&str, &[&str]); 8] = [
            (
                "I went running, and my knee hurt.",
                &["I went running", "my knee hurt."],
            ),
            (
                "We sold the car but I'm keeping the bike",
                &["We sold the car", "I'm keeping the bike"],
            ),
            (
                "The trip was great - we saw two whales!",
                &["The trip was great", "we saw two whales!"],
            ),
            (
                "After the war, they moved to Oslo.",
                &["After the war", "they moved to Oslo."],
            ),
            ("Ida and I went home", &["Ida and I went home"]),
            ("bread and butter and cheese", &["bread and butter and cheese"]),
            (
                "Ich koche gern, aber ich esse wenig.",
                &["Ich koche gern", "ich esse wenig."],
            ),
            ("", &[""]),
        ];
        for (said, expected) in cases {
            assert_eq!(clauses(said), expected, "{said}");
        }
    }
}
