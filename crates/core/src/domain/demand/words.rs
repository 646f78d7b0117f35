//! Compares words: a passage is a list of words that knows where clauses and sentences end.

/// Words that negate what follows them in their sentence, in the most frequent languages. `t` is the end of "don't".
const NEGATIONS: [&str; 50] = [
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

/// What separates a word from the word before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Gap {
    Word,
    Clause,
    Sentence,
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
        let mut gap = Gap::Sentence;
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
                gap = Gap::Word;
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

/// Returns what a punctuation mark separates. A full stop before a letter or digit, as in a name, separates nothing.
fn gap_of(mark: char, next: Option<char>) -> Gap {
    let ends = next.is_none_or(|next| !next.is_alphanumeric());
    match mark {
        '\n' | '。' | '！' | '？' => Gap::Sentence,
        '.' | '!' | '?' if ends => Gap::Sentence,
        ',' | ':' if ends => Gap::Clause,
        ';' | '—' | '–' | '(' | ')' | '，' | '、' | '；' | '：' | '“' | '”' => Gap::Clause,
        _ => Gap::Word,
    }
}

/// Returns true if `wanted` occurs in `passage` up to the end of a clause, and nothing before it in its sentence negates it. If `is_cut`,
/// its last word may be incomplete, and more words may follow.
pub(super) fn is_whole_clause(passage: &Passage, wanted: &Passage, is_cut: bool) -> bool {
    let (said, wanted) = (passage.0.as_slice(), wanted.0.as_slice());
    let compared = wanted.len() - usize::from(is_cut).min(wanted.len());
    let Some(wanted) = wanted.get(..compared).filter(|wanted| !wanted.is_empty()) else {
        return false;
    };
    said.windows(wanted.len()).enumerate().any(|(at, window)| {
        let is_same = window
            .iter()
            .zip(wanted)
            .all(|(one, other)| one.text == other.text);
        is_same
            && (is_cut
                || said
                    .get(at + wanted.len())
                    .is_none_or(|next| next.gap > Gap::Word))
            && !is_negated(said, at)
    })
}

fn is_negated(said: &[DemandWord], at: usize) -> bool {
    let from = said
        .iter()
        .take(at + 1)
        .rposition(|word| word.gap == Gap::Sentence);
    let from = from.unwrap_or_default();
    let before = said.get(from..at).unwrap_or_default().iter();
    let next = said.get(from + 1..).unwrap_or_default().iter();
    // "No, use pnpm" negates what came before it.
    let is_answer = |word: &DemandWord, next: &DemandWord| word.text == "no" && next.gap > Gap::Word;
    before
        .zip(next)
        .any(|(word, next)| NEGATIONS.contains(&word.text.as_str()) && !is_answer(word, next))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(said: &str, wanted: &str) -> bool {
        is_whole_clause(&Passage::of(said), &Passage::of(wanted), false)
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
