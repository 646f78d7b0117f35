//! Judges the importance of a run by its structure and a few cues.

use super::{
    candidates::INFLUENCE_TELLING,
    clauses::{Clause, ClauseSource},
    cues::{DECISIONS, FIXES, demands, holds},
    reading::{Corpus, ExchangeReading},
};
use recapd_core::domain::summary::item::Importance;

/// A run without calls whose words weigh less than this is small talk.
const TRIVIAL_WEIGHT: f64 = 3.0;
/// Longer sentences are stories, logs or pasted text rather than demands or decisions. In bytes.
const CUE_SENTENCE_BYTES_MAX: usize = 240;

pub(super) fn of(batch: &Corpus, run: &[ExchangeReading]) -> Importance {
    let changes = changes(batch, run);
    if is_trivial(batch, run) {
        Importance::Trivial
    } else if user_sentences(run).any(|(is_talk, text)| !is_talk && demands(text)) {
        Importance::Constraint
    } else if user_sentences(run).any(|(_, text)| holds(text, &DECISIONS)) {
        Importance::Decision
    } else if is_fruitless(run, changes) {
        Importance::Debugging
    } else if user_sentences(run).any(|(is_talk, text)| !is_talk && holds(text, &FIXES)) {
        Importance::Fix
    } else {
        Importance::Feature
    }
}

fn user_sentences(run: &[ExchangeReading]) -> impl Iterator<Item = (bool, &str)> {
    run.iter().flat_map(|reading| {
        let is_user_sentence = |clause: &&Clause| {
            clause.source == ClauseSource::User && clause.text.len() <= CUE_SENTENCE_BYTES_MAX
        };
        reading.clauses.iter().filter(is_user_sentence).map(|clause| (reading.is_talk, clause.text.as_str()))
    })
}

fn is_trivial(batch: &Corpus, run: &[ExchangeReading]) -> bool {
    let has_calls = run.iter().any(|reading| !reading.calls.is_empty());
    let weight: f64 = run
        .iter()
        .flat_map(|reading| &reading.clauses)
        .map(|clause| {
            let share = if clause.source == ClauseSource::User { 1.0 } else { 0.5 };
            share * clause.prior.min(1.0) * batch.vocabulary.weight_of(&clause.terms)
        })
        .sum();
    !has_calls && weight < TRIVIAL_WEIGHT
}

/// Counts the successful calls of the run that change something.
fn changes(batch: &Corpus, run: &[ExchangeReading]) -> usize {
    run.iter()
        .flat_map(|reading| &reading.calls)
        .filter(|call| !call.failed && batch.profiles.influence(&call.name) >= INFLUENCE_TELLING)
        .count()
}

/// Returns true if a run only looks things up and has at least one failure.
fn is_fruitless(run: &[ExchangeReading], changes: usize) -> bool {
    let has_failed = |reading: &ExchangeReading| {
        let is_failure = |clause: &Clause| clause.source == ClauseSource::Failure;
        reading.calls.iter().any(|call| call.failed) || reading.clauses.iter().any(is_failure)
    };
    changes == 0 && run.iter().any(has_failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use recapd_core::domain::{
        time::Timestamp,
        transcript::{Transcript, Voice},
    };

    fn importance_of(lines: &[(Voice, &str, &str)]) -> Importance {
        let transcript = Transcript::of_lines(1, Timestamp(0), lines);
        let batch = Corpus::read(&[transcript]);
        of(&batch, &batch.exchanges)
    }

    #[test]
    fn importance_follows_cues_in_several_languages() {
        use Importance::{Constraint, Decision, Feature, Fix, Trivial};
        let cases = [
            ("Never commit to the release branch without a review.", Constraint),
            ("Bitte immer deutsche Variablennamen im Modul verwenden.", Constraint),
            ("The export must keep the column order of the ledger.", Constraint),
            ("必须保留原始文件的顺序和格式。", Constraint),
            ("Let's use PostgreSQL for the archive tables then.", Decision),
            ("Wir haben uns für den blauen Entwurf entschieden.", Decision),
            ("Fix the crash in the scheduler when the queue is empty.", Fix),
            ("Add a progress bar to the nightly import command.", Feature),
            ("I don't know where the export of the ledger goes.", Feature),
            ("thanks, great!", Trivial),
            ("", Trivial),
        ];
        for (said, expected) in cases {
            assert_eq!(importance_of(&[(Voice::User, "", said)]), expected, "{said}");
        }
    }

    #[test]
    fn lookups_that_only_fail_are_debugging() {
        let lines = [
            (Voice::User, "", "Where does the nightly import write its report?"),
            (Voice::Call, "grep", r#"{"pattern": "report"}"#),
            (
                Voice::Result,
                "grep",
                "import.rs:10 let report = Report::new(path, options, clock, counter, sink, retry, limits, names)",
            ),
            (Voice::Call, "grep", r#"{"pattern": "nightly"}"#),
            (
                Voice::FailedResult,
                "grep",
                "Error: pattern too broad, more than 10000 matches in vendor/, build/, target/, node/, cache/",
            ),
        ];
        assert_eq!(importance_of(&lines), Importance::Debugging);
    }

    #[test]
    fn two_people_who_talk_demand_nothing() {
        let lines = [
            (Voice::User, "Ida", "You must see the glass museum in Bergen, never miss it."),
            (Voice::Assistant, "Omar", "I will go there on Sunday with my brother."),
        ];
        assert_eq!(importance_of(&lines), Importance::Feature);
    }
}
