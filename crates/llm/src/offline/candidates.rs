//! The candidates for the text of a run: its clauses, and its calls grouped by tool.

use std::collections::{HashMap, HashSet};

use super::{
    calls::Call,
    clauses::{Clause, ClauseSource},
    reading::{Corpus, ExchangeReading},
    render::{FAILED_CALL, PieceVoice, TextPiece},
    values::{self, ShownValue, WORD_SCORE},
    weigh::Term,
};

/// Limits how many clauses of a run are compared with each other. If there are more, the best are taken.
const CANDIDATES_MAX: usize = 160;
const TOOLS_MAX: usize = 40;
/// A tool with at least this influence counts as one that changes something; its calls are included early.
pub(super) const INFLUENCE_TELLING: f64 = 0.3;
/// The value of a call beyond its words, at full influence.
const CALL_GAIN: f64 = 9.0;
/// The value of a call that only looks something up.
const LOOKUP_GAIN: f64 = 0.4;
/// The value of a failure beyond its words.
const FAILURE_GAIN: f64 = 2.0;

pub(super) struct Candidate {
    pub(super) piece: TextPiece,
    pub(super) terms: Vec<Term>,
    /// Other words that become redundant when this piece is included.
    pub(super) covers: Vec<Term>,
    /// The weight of the position, around 1.
    pub(super) prior: f64,
    /// The value beyond the words.
    pub(super) base_value: f64,
    /// True for a call of a tool that changes something.
    pub(super) is_change: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct CallStyle {
    /// How many arguments are shown of a tool that changes something. A look-up shows half as many.
    pub(super) values_max: usize,
    /// True if a tool's calls are grouped across turns, which takes the least room; otherwise only within a turn.
    pub(super) spans_turns: bool,
}

/// Returns the candidates of a run: the best clauses, in order, then the calls.
pub(super) fn of(batch: &Corpus, run: &[ExchangeReading], style: CallStyle) -> Vec<Candidate> {
    let mut candidates: Vec<Candidate> = run
        .iter()
        .flat_map(|reading| {
            reading
                .clauses
                .iter()
                .enumerate()
                .map(move |(index, clause)| candidate_of_clause(reading, index, clause))
        })
        .collect();
    if candidates.len() > CANDIDATES_MAX {
        let worth = |candidate: &Candidate| {
            candidate.prior * (candidate.base_value + batch.vocabulary.weight_of(&candidate.terms))
        };
        let mut worths: Vec<f64> = candidates.iter().map(worth).collect();
        worths.sort_unstable_by(f64::total_cmp);
        let worth_min = worths.get(worths.len() - CANDIDATES_MAX).copied().unwrap_or_default();
        candidates.retain(|candidate| worth(candidate) >= worth_min);
        candidates.truncate(CANDIDATES_MAX);
    }
    candidates.extend(fold_calls(batch, run, style));
    candidates
}

fn candidate_of_clause(reading: &ExchangeReading, index: usize, clause: &Clause) -> Candidate {
    let voice = match clause.source {
        ClauseSource::Failure => PieceVoice::Failure,
        _ if reading.is_talk => PieceVoice::Speaker,
        ClauseSource::User => PieceVoice::User,
        ClauseSource::Model => PieceVoice::Model,
    };
    Candidate {
        base_value: if clause.source == ClauseSource::Failure { FAILURE_GAIN } else { 0.0 },
        terms: clause.terms.clone(),
        covers: Vec::new(),
        is_change: false,
        prior: clause.prior,
        piece: TextPiece {
            position: (reading.index, clause.line, index),
            turn: Some(reading.turn(clause.line)),
            voice,
            name: clause.speaker.clone(),
            text: clause.text.clone(),
        },
    }
}

/// Groups the calls of a run by tool: `tool ×3 (a, b, c)`.
fn fold_calls(batch: &Corpus, run: &[ExchangeReading], style: CallStyle) -> Vec<Candidate> {
    let mut indices: HashMap<_, usize> = HashMap::new();
    let mut folded: Vec<FoldedCalls<'_>> = Vec::new();
    for reading in run {
        for call in &reading.calls {
            let turn = reading.turn(call.line);
            let key = ((!style.spans_turns).then_some(turn), call.name.as_str(), call.failed);
            let index = *indices.entry(key).or_insert(folded.len());
            if index == folded.len() {
                folded.push(FoldedCalls::new(call, (reading.index, call.line, 0), turn));
            }
            if let Some(tool) = folded.get_mut(index) {
                tool.calls += 1;
                tool.turn = tool.turn.filter(|first| *first == turn);
                tool.values.extend(&call.values);
            }
        }
    }
    let mut calls: Vec<Candidate> =
        folded.into_iter().map(|tool| tool.candidate(batch, style.values_max)).collect();
    calls.sort_by(|a, b| b.base_value.total_cmp(&a.base_value));
    calls.truncate(TOOLS_MAX);
    calls
}

/// Calls of one tool in one or several turns. Failed calls form a separate group.
struct FoldedCalls<'a> {
    name: &'a str,
    failed: bool,
    position: (usize, usize, usize),
    /// `None` if the calls belong to several turns.
    turn: Option<(usize, usize)>,
    calls: usize,
    values: Vec<&'a ShownValue>,
}

impl<'a> FoldedCalls<'a> {
    fn new(call: &'a Call, position: (usize, usize, usize), turn: (usize, usize)) -> Self {
        Self {
            name: &call.name,
            failed: call.failed,
            position,
            turn: Some(turn),
            calls: 0,
            values: Vec::new(),
        }
    }

    fn candidate(&self, batch: &Corpus, values_max: usize) -> Candidate {
        let influence = batch.profiles.influence(self.name);
        // A failed call has changed nothing.
        let is_change = !self.failed && influence >= INFLUENCE_TELLING;
        let values_max = if is_change { values_max } else { values_max / 2 };
        let shown_values = most_informative(&self.values, values_max);
        let times = if self.calls > 1 { format!(" ×{}", self.calls) } else { String::new() };
        let values =
            if shown_values.is_empty() { String::new() } else { format!("({})", shown_values.join(", ")) };
        Candidate {
            is_change,
            base_value: if self.failed {
                FAILURE_GAIN
            } else {
                LOOKUP_GAIN + CALL_GAIN * influence * influence
            },
            terms: Vec::new(),
            covers: batch.vocabulary.terms_in(&format!(
                "{} {}",
                self.name.replace(['_', '-', '.'], " "),
                shown_values.join(" ")
            )),
            prior: 1.0,
            piece: TextPiece {
                position: self.position,
                turn: self.turn,
                voice: PieceVoice::Call,
                name: String::new(),
                text: format!("{}{times}{values}{}", self.name, if self.failed { FAILED_CALL } else { "" }),
            },
        }
    }
}

/// Returns the most informative of `values`, each once, in order.
fn most_informative<'a>(values: &[&'a ShownValue], values_max: usize) -> Vec<&'a str> {
    let mut texts = HashSet::new();
    let mut distinct: Vec<(usize, &ShownValue)> =
        values.iter().copied().enumerate().filter(|(_, value)| texts.insert(value.text.as_str())).collect();
    // Next to an id or a path, prose and code are noise.
    if distinct.iter().any(|(_, value)| values::is_identifier(value)) {
        distinct.retain(|(_, value)| value.score >= WORD_SCORE);
    }
    distinct.sort_by(|(_, a), (_, b)| b.score.total_cmp(&a.score));
    distinct.truncate(values_max);
    distinct.sort_by_key(|(index, _)| *index);
    distinct.into_iter().map(|(_, value)| value.text.as_str()).collect()
}
