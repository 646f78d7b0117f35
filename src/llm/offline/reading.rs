//! A batch as the summariser sees it: what was said, called and failed in each exchange, and all words of the batch.

use std::collections::HashMap;

use super::{
    calls::{self, Call, Profiles},
    clauses::{self, Clause, Role, Source},
    dates,
    sentences::leaves_code_open,
    values,
    weigh::{Term, Vocabulary, number},
};
use crate::domain::{
    time::Timestamp,
    transcript::{Line, Transcript, Voice},
};

/// The exchanges of a request with all that is known about their words and tools.
#[derive(Debug)]
pub(super) struct Batch {
    /// The exchanges, in order.
    pub(super) exchanges: Vec<Reading>,
    /// The words.
    pub(super) vocabulary: Vocabulary,
    /// The tools.
    pub(super) profiles: Profiles,
}

/// One exchange.
#[derive(Debug)]
pub(super) struct Reading {
    /// Its number.
    pub(super) exchange: i64,
    /// Its place in the batch, from 0.
    pub(super) index: usize,
    /// When it began.
    pub(super) started_at: Timestamp,
    /// The user interrupted it.
    pub(super) interrupted: bool,
    /// Two people with names talk, without tools.
    pub(super) is_talk: bool,
    /// It opens with a greeting.
    pub(super) greets: bool,
    /// What was said and what failed, in order.
    pub(super) clauses: Vec<Clause>,
    /// The calls, in order.
    pub(super) calls: Vec<Call>,
    /// All content words, sorted, each once.
    pub(super) terms: Vec<Term>,
    /// How many characters were said.
    pub(super) said_chars: usize,
}

impl Batch {
    /// Reads the exchanges.
    pub(super) fn read(transcripts: &[Transcript]) -> Self {
        let mut vocabulary = Vocabulary::default();
        let mut exchanges: Vec<Reading> = transcripts
            .iter()
            .enumerate()
            .map(|(index, transcript)| Reading::of(transcript, index, &mut vocabulary))
            .collect();
        discount_repetitions(&mut exchanges);
        Self {
            exchanges,
            vocabulary,
            profiles: Profiles::read(transcripts),
        }
    }
}

impl Reading {
    fn of(transcript: &Transcript, index: usize, vocabulary: &mut Vocabulary) -> Self {
        let lines = &transcript.lines;
        let is_talk = is_talk(lines);
        let mut clauses = Vec::new();
        let mut calls = Vec::new();
        let (mut open_code, mut called) = (None, None);
        for (at, line) in lines.iter().enumerate() {
            let place = (line.label.as_str(), at);
            match line.voice {
                Voice::Call => {
                    called = Some(calls.len());
                    calls.push(call(line, at));
                }
                Voice::Result | Voice::FailedResult => {
                    let told = calls::failure(&line.text, line.voice == Voice::FailedResult);
                    let failed = told.is_some() || line.voice == Voice::FailedResult;
                    if let Some(call) = called.take().and_then(|called| calls.get_mut(called)) {
                        call.failed = failed;
                    }
                    clauses.extend(
                        told.map(|text| Clause::read(vocabulary, index, Source::Failure, (text, 1.0), place)),
                    );
                }
                Voice::User | Voice::Assistant => {
                    called = None;
                    let source = if line.voice == Voice::User {
                        Source::User
                    } else {
                        Source::Model
                    };
                    let continues = open_code == Some(line.voice);
                    open_code = (leaves_code_open(&line.text) != continues).then_some(line.voice);
                    clauses.extend(
                        clauses::of_text(&line.text, role(lines, at, is_talk), continues)
                            .into_iter()
                            .map(|(said, prior)| {
                                (
                                    dates::dated(&said, transcript.zone.wall(line.at)).into_owned(),
                                    prior,
                                )
                            })
                            .map(|said| Clause::read(vocabulary, index, source, said, place)),
                    );
                }
            }
        }
        let mut terms: Vec<Term> = clauses
            .iter()
            .flat_map(|clause| clause.terms.iter().copied())
            .collect();
        terms.sort_unstable();
        terms.dedup();
        Self {
            exchange: transcript.exchange,
            index,
            started_at: transcript.started_at,
            interrupted: transcript.interrupted,
            is_talk,
            greets: lines.first().is_some_and(|line| clauses::greets(&line.text)),
            said_chars: clauses.iter().map(|clause| clause.text.len()).sum(),
            clauses,
            calls,
            terms,
        }
    }
}

fn call(line: &Line, at: usize) -> Call {
    Call {
        name: line.label.clone(),
        values: values::of(&line.text),
        line: at,
        failed: false,
    }
}

fn is_talk(lines: &[Line]) -> bool {
    let named = |voice| {
        lines
            .iter()
            .any(|line| line.voice == voice && !line.label.is_empty())
    };
    let said_only = lines
        .iter()
        .all(|line| matches!(line.voice, Voice::User | Voice::Assistant) && !line.label.is_empty());
    said_only && (named(Voice::User) || named(Voice::Assistant))
}

fn role(lines: &[Line], at: usize, is_talk: bool) -> Role {
    let next = lines.get(at + 1).map(|line| line.voice);
    match lines.get(at).map(|line| line.voice) {
        _ if is_talk => Role::Talk,
        Some(Voice::User) => Role::Request,
        _ if next == Some(Voice::Call) => Role::Narration,
        _ => Role::Answer,
    }
}

/// What is said word for word in several exchanges is a phrase, not news: it counts by its share.
fn discount_repetitions(exchanges: &mut [Reading]) {
    let mut said: HashMap<&str, (usize, usize)> = HashMap::new();
    for reading in exchanges.iter() {
        for clause in &reading.clauses {
            let (count, last) = said.entry(&clause.text).or_insert((0, usize::MAX));
            *count += usize::from(*last != reading.index);
            *last = reading.index;
        }
    }
    let counts: Vec<f64> = exchanges
        .iter()
        .flat_map(|reading| &reading.clauses)
        .map(|clause| {
            said.get(clause.text.as_str())
                .map_or(1.0, |(count, _)| number(*count))
        })
        .collect();
    let clauses = exchanges.iter_mut().flat_map(|reading| &mut reading.clauses);
    for (clause, count) in clauses.zip(counts) {
        clause.prior /= count.powf(1.5);
    }
}
