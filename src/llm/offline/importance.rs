//! How much a run matters, from its structure and a few cues.

use super::{
    clauses::{Clause, Source},
    compose::INFLUENCE_TELLING,
    cues::{DECISIONS, DEMANDS, DEMANDS_FIRST, FIXES},
    reading::{Batch, Reading},
};
use crate::domain::summary::item::Importance;

/// Runs whose words weigh less than this are small talk.
const TRIVIAL_WEIGHT: f64 = 3.0;
/// Longer sentences are stories, logs or pasted text rather than a demand or a decision, in bytes.
const CUE_SENTENCE_BYTES_MAX: usize = 240;

/// The importance of a run of exchanges.
pub(super) fn of(batch: &Batch, run: &[Reading]) -> Importance {
    let changes = changes(batch, run);
    if is_trivial(batch, run) {
        Importance::Trivial
    } else if user_sentences(run).any(|(talk, said)| !talk && demands(said)) {
        Importance::Constraint
    } else if user_sentences(run).any(|(_, said)| holds(said, &DECISIONS)) {
        Importance::Decision
    } else if is_fruitless(run, changes) {
        Importance::Debugging
    } else if user_sentences(run).any(|(talk, said)| !talk && holds(said, &FIXES)) {
        Importance::Fix
    } else {
        Importance::Feature
    }
}

fn user_sentences(run: &[Reading]) -> impl Iterator<Item = (bool, &str)> {
    run.iter().flat_map(|reading| {
        let by_user =
            |clause: &&Clause| clause.source == Source::User && clause.text.len() <= CUE_SENTENCE_BYTES_MAX;
        reading
            .clauses
            .iter()
            .filter(by_user)
            .map(|clause| (reading.is_talk, clause.text.as_str()))
    })
}

fn is_trivial(batch: &Batch, run: &[Reading]) -> bool {
    let calls = run.iter().any(|reading| !reading.calls.is_empty());
    let weight: f64 = run
        .iter()
        .flat_map(|reading| &reading.clauses)
        .map(|clause| {
            let share = if clause.source == Source::User { 1.0 } else { 0.5 };
            share * clause.prior.min(1.0) * batch.vocabulary.weight_of(&clause.terms)
        })
        .sum();
    !calls && weight < TRIVIAL_WEIGHT
}

/// How many calls of the run change something.
fn changes(batch: &Batch, run: &[Reading]) -> usize {
    run.iter()
        .flat_map(|reading| &reading.calls)
        .filter(|call| batch.profiles.influence(&call.name) >= INFLUENCE_TELLING)
        .count()
}

/// Only look-ups, and at least one failure among them.
fn is_fruitless(run: &[Reading], changes: usize) -> bool {
    let failed = run
        .iter()
        .flat_map(|reading| &reading.clauses)
        .any(|clause| clause.source == Source::Failure);
    failed && changes == 0
}

fn demands(said: &str) -> bool {
    let lower = said.to_lowercase();
    holds(said, &DEMANDS) || DEMANDS_FIRST.iter().any(|cue| begins(&lower, cue))
}

fn begins(text: &str, cue: &str) -> bool {
    text.strip_prefix(cue).is_some_and(ends_word)
}

/// Whether a word ends before `rest`; scripts without blanks have no such thing, so there it always does.
fn ends_word(rest: &str) -> bool {
    !rest.starts_with(|c: char| c.is_alphanumeric() && c < '\u{2e80}')
}

/// Whether one of `cues` stands in `said` as whole words.
fn holds(said: &str, cues: &[&str]) -> bool {
    let lower = said.to_lowercase();
    cues.iter().any(|cue| {
        lower.match_indices(cue).any(|(at, _)| {
            let before = lower.get(..at).unwrap_or_default();
            let after = lower.get(at + cue.len()..).unwrap_or_default();
            !before.ends_with(|c: char| c.is_alphanumeric() && c < '\u{2e80}') && ends_word(after)
        })
    })
}
