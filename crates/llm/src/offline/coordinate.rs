//! Splits a sentence of talk where another main clause begins, because one clause may be informative and the other not. Each
//! clause must be true by itself, so questions, alternatives and conditional statements stay whole.

use super::cues::{CONDITIONS, COORDINATORS, SUBJECTS, says};

const WORDS_MIN: usize = 3;

/// Words that make a whole sentence conditional, wherever they stand.
const SUPPOSITIONS: [&str; 27] = [
    "if",
    "unless",
    "whether",
    "provided",
    "providing",
    "as long as",
    "in case",
    "otherwise",
    "suppose",
    "supposing",
    "assume",
    "assuming",
    "imagine",
    "pretend",
    "let's say",
    "let’s say",
    "dream",
    "dreamed",
    "dreamt",
    "wenn",
    "falls",
    "angenommen",
    "sofern",
    "à condition",
    "au cas où",
    "en caso",
    "a menos que",
];
/// Words that make the clause after them conditional.
const OCCASIONS: [&str; 8] =
    ["when", "whenever", "until", "till", "as soon as", "sobald", "cuando", "quando"];
/// Words like [`OCCASIONS`], but only at the beginning of a clause. Elsewhere they mean something else.
const OCCASIONS_FIRST: [&str; 9] = ["once", "should", "had", "were", "si", "se", "quand", "bis", "solange"];
/// Words of intention or belief, which a following `but` contradicts.
const INTENTIONS: [&str; 31] = [
    "would",
    "wouldn't",
    "could",
    "might",
    "may",
    "should",
    "maybe",
    "perhaps",
    "going to",
    "wanted",
    "planned",
    "meant",
    "hoped",
    "thought",
    "believed",
    "supposed",
    "tried",
    "wish",
    "almost",
    "nearly",
    "würde",
    "könnte",
    "wollte",
    "sollte",
    "dachte",
    "vielleicht",
    "voulais",
    "pensais",
    "quería",
    "pensaba",
    "queria",
];
/// Joints that add to the previous clause and don't contradict it.
const ADDING: [&str; 6] = ["and", "so", "und", "et", "y", "e"];
/// Joints between alternatives, of which only one is true. `o` is *the* in Portuguese.
const ALTERNATIVES: [&str; 4] = ["or", "oder", "ou", "o"];

/// Splits a sentence into its main clauses if possible: `I ran, and my knee hurt` gives `I ran` and `my knee hurt`.
pub(super) fn clauses(sentence: &str) -> Vec<&str> {
    if sentence.ends_with(['?', '？', '؟']) || says(sentence, &SUPPOSITIONS) {
        return vec![sentence.trim()];
    }
    let words: Vec<&str> = sentence.split(' ').collect();
    let mut clauses = Vec::new();
    // The current clause's start in bytes and length in words, and the present position in bytes.
    let (mut from, mut length, mut position) = (0, 0, 0);
    for (index, word) in words.iter().enumerate() {
        let next = words.get(index + 1).copied().unwrap_or_default();
        let joint_words = boundary(words.get(index.wrapping_sub(1)).copied().unwrap_or_default(), word, next);
        let remaining = words.len() - index;
        if let Some(joint_words) = joint_words
            && length >= WORDS_MIN
            && remaining >= WORDS_MIN + joint_words
            && !is_bound(sentence.get(from..position).unwrap_or_default(), word, next)
        {
            clauses.push(trimmed(sentence.get(from..position).unwrap_or_default()));
            from = position + if joint_words > 0 { word.len() + 1 } else { 0 };
            length = 0;
        }
        length += 1;
        position += word.len() + 1;
    }
    clauses.push(sentence.get(from..).unwrap_or_default().trim());
    clauses
}

/// Returns how many words the joint takes if a clause begins at `word`, otherwise `None`. The words of the joint are left out.
fn boundary(previous: &str, word: &str, next: &str) -> Option<usize> {
    if previous.is_empty() {
        None
    } else if is_dash(word) || (COORDINATORS.contains(word) && is_subject(next)) {
        Some(1)
    } else if previous.ends_with([',', ';']) && is_subject(word) {
        Some(0)
    } else {
        None
    }
}

/// Returns true if `clause`, or the clause that begins at `joint`, isn't true without the other one.
fn is_bound(clause: &str, joint: &str, next: &str) -> bool {
    let first = clause.split(' ').next().unwrap_or_default().to_lowercase();
    ALTERNATIVES.contains(&joint)
        || (is_dash(joint) && CONDITIONS.contains(next.to_lowercase().as_str()))
        || OCCASIONS_FIRST.contains(&first.as_str())
        || says(clause, &OCCASIONS)
        || (!ADDING.contains(&joint) && says(clause, &INTENTIONS))
}

fn is_dash(word: &str) -> bool {
    matches!(word, "-" | "–" | "—")
}

fn is_subject(word: &str) -> bool {
    let head = word.split(['\'', '’']).next().unwrap_or_default();
    SUBJECTS.contains(head.to_lowercase().as_str())
}

fn trimmed(clause: &str) -> &str {
    clause.trim_end_matches([',', ';', '-', '–', '—', ' ']).trim_start()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_main_clauses_are_split() {
        let cases: [(&str, &[&str]); 8] = [
            ("I went running, and my knee hurt.", &["I went running", "my knee hurt."]),
            ("We sold the car but I'm keeping the bike", &["We sold the car", "I'm keeping the bike"]),
            ("The trip was great - we saw two whales!", &["The trip was great", "we saw two whales!"]),
            ("After the war, they moved to Oslo.", &["After the war", "they moved to Oslo."]),
            ("Ida and I went home", &["Ida and I went home"]),
            ("bread and butter and cheese", &["bread and butter and cheese"]),
            ("Ich koche gern, aber ich esse wenig.", &["Ich koche gern", "ich esse wenig."]),
            ("", &[""]),
        ];
        for (said, expected) in cases {
            assert_eq!(clauses(said), expected, "{said}");
        }
    }

    #[test]
    fn clauses_that_depend_on_each_other_stay_together() {
        for said in [
            "If the tests fail, we roll back.",
            "We roll back, and I call Ida, if the tests fail.",
            "We sold the car, but if it rains, we take the bus.",
            "When the tests fail, we roll back.",
            "As soon as it rains, we go home.",
            "Should the tests fail, we roll back.",
            "Once it is green, we deploy it.",
            "Let's say we deploy it, and it breaks.",
            "I was going to call her, but I forgot it.",
            "I thought we had sold it - we only tried to.",
            "We stay in Oslo, or we move to Bergen.",
            "You went to Oslo, and you liked it?",
            "We will deploy it - unless the tests fail.",
            "We will deploy it — but not on Friday.",
            "Wenn die Tests scheitern, wir rollen zurück.",
        ] {
            assert_eq!(clauses(said), [said], "{said}");
        }
    }

    #[test]
    fn a_dropped_joint_takes_its_dash_along() {
        assert_eq!(
            clauses("The trip was great - but we missed the whales."),
            ["The trip was great", "we missed the whales."]
        );
    }

    #[test]
    fn a_fact_before_an_occasion_or_next_to_an_intention_counts_alone() {
        assert_eq!(
            clauses("I moved to Oslo, and I was happy when I saw it."),
            ["I moved to Oslo", "I was happy when I saw it."]
        );
        assert_eq!(clauses("I might be late, so I took a taxi."), ["I might be late", "I took a taxi."]);
    }
}
