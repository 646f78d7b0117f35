//! Compares texts word by word: a passage is a list of words, each with the gap before it, which shows where clauses and sentences begin.

/// Words that negate, forbid or make conditional what follows them in their sentence, in the most frequent languages. `t` is the end of
/// "don't".
const REVERSING_WORDS: [&str; 50] = [
    "never",
    "not",
    "no",
    "nobody",
    "none",
    "nothing",
    "neither",
    "nor",
    "without",
    "cannot",
    "t",
    "dont",
    "stop",
    "avoid",
    "unless",
    "if",
    "nie",
    "niemals",
    "nicht",
    "kein",
    "keine",
    "keinen",
    "keinem",
    "ohne",
    "jamais",
    "pas",
    "ne",
    "sans",
    "aucun",
    "nunca",
    "jamás",
    "sin",
    "ningún",
    "mai",
    "non",
    "senza",
    "não",
    "sem",
    "nooit",
    "niet",
    "geen",
    "zonder",
    "aldrig",
    "inte",
    "ikke",
    "не",
    "нет",
    "никогда",
    "нельзя",
    "без",
];

/// The gap between a word and the word before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Gap {
    WithinClause,
    BetweenClauses,
    BetweenSentences,
}

#[derive(Clone, Debug)]
struct DemandWord {
    text: String,
    gap: Gap,
}

/// A text as words in lower case.
#[derive(Clone, Debug)]
pub(super) struct Passage(Vec<DemandWord>);

impl Passage {
    pub(super) fn of(text: &str) -> Self {
        let mut words: Vec<DemandWord> = Vec::new();
        let mut gap = Gap::BetweenSentences;
        let mut word = String::new();
        let lowered = text.to_lowercase();
        let mut chars = lowered.chars().peekable();
        while let Some(c) = chars.next() {
            if c.is_alphanumeric() {
                word.push(c);
                continue;
            }
            if !word.is_empty() {
                let text = std::mem::take(&mut word);
                words.push(DemandWord { text, gap });
                gap = Gap::WithinClause;
            }
            gap = gap.max(gap_of(c, chars.peek().copied()));
        }
        if !word.is_empty() {
            words.push(DemandWord { text: word, gap });
        }
        Self(words)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Returns the gap that the punctuation mark `mark` makes. A mark before a letter or digit, as in a file's name, may be part of a word.
fn gap_of(mark: char, next: Option<char>) -> Gap {
    let ends = next.is_none_or(|next| !next.is_alphanumeric());
    match mark {
        '\n' | '。' | '！' | '？' => Gap::BetweenSentences,
        '.' | '!' | '?' if ends => Gap::BetweenSentences,
        ',' | ':' if ends => Gap::BetweenClauses,
        ';' | '—' | '–' | '(' | ')' | '，' | '、' | '；' | '：' | '“' | '”' => {
            Gap::BetweenClauses
        }
        _ => Gap::WithinClause,
    }
}

/// Returns true if `wanted` occurs in `passage` up to the end of a clause, and no word before it in its sentence negates it. If `is_cut`,
/// the last word of `wanted` may be incomplete, and more words may follow in `passage`.
pub(super) fn has_clause(passage: &Passage, wanted: &Passage, is_cut: bool) -> bool {
    let (words, wanted) = (passage.0.as_slice(), wanted.0.as_slice());
    let compared_words = wanted.len() - usize::from(is_cut).min(wanted.len());
    let Some(wanted) = wanted.get(..compared_words).filter(|wanted| !wanted.is_empty()) else {
        return false;
    };
    words.windows(wanted.len()).enumerate().any(|(start, window)| {
        let is_same = window.iter().zip(wanted).all(|(one, other)| one.text == other.text);
        is_same
            && (is_cut || words.get(start + wanted.len()).is_none_or(|next| next.gap > Gap::WithinClause))
            && !is_negated(words, start)
    })
}

/// Returns true if a word before index `start`, in the same sentence, reverses the meaning of the words from there on.
fn is_negated(words: &[DemandWord], start: usize) -> bool {
    let sentence_start = words.iter().take(start + 1).rposition(|word| word.gap == Gap::BetweenSentences);
    let sentence_start = sentence_start.unwrap_or_default();
    let earlier = words.get(sentence_start..start).unwrap_or_default().iter();
    let next = words.get(sentence_start + 1..).unwrap_or_default().iter();
    // The "no" of "No, use pnpm" rejects what came before it, not the words after it.
    let is_answer = |word: &DemandWord, next: &DemandWord| word.text == "no" && next.gap > Gap::WithinClause;
    earlier
        .zip(next)
        .any(|(word, next)| REVERSING_WORDS.contains(&word.text.as_str()) && !is_answer(word, next))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(said: &str, wanted: &str) -> bool {
        has_clause(&Passage::of(said), &Passage::of(wanted), false)
    }

    #[test]
    fn words_are_compared_clause_by_clause() {
        for (said, wanted) in [
            ("Use pnpm.", "use `pnpm`"),
            ("So: use src/lib.rs, and 3.10!", "Use src/lib.rs"),
            ("Use pnpm, not npm", "pnpm, not npm"),
            ("总是使用 pnpm。谢谢", "总是使用 pnpm"),
            ("No. Use pnpm", "use pnpm"),
            ("No, use pnpm", "use pnpm"),
        ] {
            assert!(holds(said, wanted), "{said}: {wanted}");
        }
        for (said, wanted) in [
            ("Use pnpm only here", "use pnpm"),
            ("Don't use pnpm", "use pnpm"),
            ("Bitte nie npm nehmen", "npm nehmen"),
            ("If it rains, use pnpm", "use pnpm"),
            ("Use src/lib.rs.bak", "use src/lib.rs"),
            ("use", "use pnpm"),
            ("", ""),
        ] {
            assert!(!holds(said, wanted), "{said}: {wanted}");
        }
    }
}
