//! Reads a batch for the summariser: the clauses, calls and failures of each exchange, and the words of the whole batch.

use std::collections::HashMap;

use super::{
    calls::{Call, Profiles},
    clauses::{self, Clause, ClauseSource, TextRole},
    dates, failures,
    sentences::leaves_code_open,
    values,
    weigh::{Term, Vocabulary, number},
};
use recapd_core::domain::{
    text::{cut, one_line},
    time::{DAY_MS, Timestamp},
    transcript::{Line, Transcript, Voice},
    user_text,
};

/// Limits the exchanges of a run.
pub(super) const RUN_EXCHANGES_MAX: usize = 12;
/// Limits the time between the beginnings of two neighbours in a run.
pub(super) const RUN_PAUSE_MS_MAX: i64 = DAY_MS;
/// Limits an answer to a question of the model, together with the question, in characters.
const ANSWER_CHARS_MAX: usize = 400;
/// The prior of such an answer. It is high, because the model asked for the answer.
const ANSWER_PRIOR: f64 = 1.8;

/// The exchanges of a request, with what is known about their words and tools.
#[derive(Debug)]
pub(super) struct Corpus {
    pub(super) exchanges: Vec<ExchangeReading>,
    pub(super) vocabulary: Vocabulary,
    pub(super) profiles: Profiles,
}

#[derive(Debug)]
pub(super) struct ExchangeReading {
    pub(super) exchange: i64,
    /// The exchange's number in the batch, from 0.
    pub(super) index: usize,
    pub(super) started_at: Timestamp,
    pub(super) interrupted: bool,
    /// True if named people talk, without tools.
    pub(super) is_talk: bool,
    pub(super) greets: bool,
    /// The sentences and failures, in order.
    pub(super) clauses: Vec<Clause>,
    pub(super) calls: Vec<Call>,
    /// All content words, sorted, without repetitions.
    pub(super) terms: Vec<Term>,
    /// The length of all clauses, in bytes.
    pub(super) text_bytes: usize,
    /// The lines at which the user begins to speak.
    user_begins: Vec<usize>,
}

impl Corpus {
    pub(super) fn read(transcripts: &[Transcript]) -> Self {
        let mut vocabulary = Vocabulary::default();
        let mut exchanges: Vec<ExchangeReading> = transcripts
            .iter()
            .enumerate()
            .map(|(index, transcript)| {
                let begin = run_begin(transcripts.get(..=index).unwrap_or_default());
                ExchangeReading::of(transcript, index, begin, &mut vocabulary)
            })
            .collect();
        discount_repetitions(&mut exchanges);
        forget_lone_names(&mut exchanges);
        Self { exchanges, vocabulary, profiles: Profiles::read(transcripts) }
    }
}

impl ExchangeReading {
    /// Reads an exchange. `begin` is the earliest time at which its run may begin.
    fn of(transcript: &Transcript, index: usize, begin: Timestamp, vocabulary: &mut Vocabulary) -> Self {
        let lines = &transcript.lines;
        let is_talk = is_talk(lines);
        let begin = transcript.zone.wall(begin);
        let dated = |(text, prior): (String, f64), time| {
            let text = dates::with_dates(&text, transcript.zone.wall(time), begin);
            (text.into_owned(), prior)
        };
        let user = lone_user(lines);
        let mut clauses = Vec::new();
        let mut calls = Vec::new();
        let (mut open_code, mut called) = (None, None);
        for (number, line) in lines.iter().enumerate() {
            let origin = (line.label.as_str(), number);
            match line.voice {
                Voice::Call => {
                    called = Some(calls.len());
                    calls.push(call(line, number));
                }
                Voice::Result | Voice::FailedResult => {
                    let call = called.take().and_then(|called| calls.get_mut(called));
                    for (source, sentence) in read_result(line, call) {
                        let (sentence, name) = match source {
                            ClauseSource::User => (dated(sentence, line.at), user),
                            _ => (sentence, ""),
                        };
                        clauses.push(Clause::read(vocabulary, index, source, sentence, (name, number)));
                    }
                }
                Voice::Program => called = None,
                Voice::User | Voice::Assistant => {
                    called = None;
                    let source =
                        if line.voice == Voice::User { ClauseSource::User } else { ClauseSource::Model };
                    let continues = open_code == Some(line.voice);
                    open_code = (leaves_code_open(&line.text) != continues).then_some(line.voice);
                    clauses.extend(
                        clauses::rated_sentences(&line.text, role(lines, number, is_talk), continues)
                            .into_iter()
                            .map(|sentence| dated(sentence, line.at))
                            .map(|sentence| Clause::read(vocabulary, index, source, sentence, origin)),
                    );
                }
            }
        }
        let mut terms: Vec<Term> = clauses.iter().flat_map(|clause| clause.terms.iter().copied()).collect();
        terms.sort_unstable();
        terms.dedup();
        Self {
            exchange: transcript.exchange,
            index,
            started_at: transcript.started_at,
            interrupted: transcript.interrupted,
            is_talk,
            user_begins: user_begins(lines),
            greets: lines.first().is_some_and(|line| clauses::greets(&line.text)),
            text_bytes: clauses.iter().map(|clause| clause.text.len()).sum(),
            clauses,
            calls,
            terms,
        }
    }

    /// Returns the turn of `line`: the exchange's number in the batch, and how often the user had begun to speak in the exchange.
    pub(super) fn turn(&self, line: usize) -> (usize, usize) {
        let turns_begun = self.user_begins.partition_point(|begin| *begin <= line);
        (self.index, turns_begun)
    }
}

/// Returns the beginning of the earliest run that may contain the last of `transcripts`.
fn run_begin(transcripts: &[Transcript]) -> Timestamp {
    let mut run = transcripts.iter().rev().take(RUN_EXCHANGES_MAX);
    let mut begin = run.next().map_or_else(Timestamp::default, |last| last.started_at);
    for transcript in run {
        if begin.since_ms(transcript.started_at) > RUN_PAUSE_MS_MAX {
            break;
        }
        begin = transcript.started_at;
    }
    begin
}

/// Returns the lines at which the user begins to speak, or speaks again after others.
fn user_begins(lines: &[Line]) -> Vec<usize> {
    let is_user = |index: usize| lines.get(index).is_some_and(|line| line.voice == Voice::User);
    (0..lines.len()).filter(|&index| is_user(index) && !index.checked_sub(1).is_some_and(is_user)).collect()
}

/// Returns the user's name if only one user speaks; empty otherwise.
fn lone_user(lines: &[Line]) -> &str {
    let user_lines = lines.iter().filter(|line| line.voice == Voice::User);
    let mut names = user_lines.map(|line| line.label.as_str());
    let first = names.next().unwrap_or_default();
    if names.all(|name| name == first) { first } else { "" }
}

fn call(line: &Line, index: usize) -> Call {
    Call { name: line.label.clone(), values: values::of(&line.text), line: index, failed: false }
}

/// Returns the user's words in a result, otherwise its description of a failure. Sets the call's `failed`.
fn read_result(line: &Line, call: Option<&mut Call>) -> Vec<(ClauseSource, (String, f64))> {
    let is_file = call.as_deref().is_some_and(Call::shows_files);
    let user_texts = user_texts_in(line, call.as_deref());
    let failed = line.voice == Voice::FailedResult
        || (user_texts.is_empty() && failures::reports_failure(&line.text, is_file));
    if let Some(call) = call {
        call.failed = failed;
    }
    if user_texts.is_empty() {
        let failure = failed.then(|| failures::description(&line.text)).flatten();
        return failure.map(|text| (ClauseSource::Failure, (text, 1.0))).into_iter().collect();
    }
    user_texts.into_iter().map(|text| (ClauseSource::User, text)).collect()
}

/// Returns the user's reason for refusing a call, or the user's answer to a tool's question. Results of other tools may quote
/// anybody.
fn user_texts_in(line: &Line, call: Option<&Call>) -> Vec<(String, f64)> {
    let refusal = user_text::refusal(&line.text).filter(|_| line.voice == Voice::FailedResult);
    if let Some(reason) = refusal {
        return clauses::rated_sentences(reason, TextRole::Request, false);
    }
    let tool = call.map_or("", |call| call.name.as_str());
    answers(tool, &line.text).into_iter().map(|answer| (answer, ANSWER_PRIOR)).collect()
}

/// Returns the user's answers in the result of `tool`, each with its question, if the tool asks the user.
pub(super) fn answers(tool: &str, result: &str) -> Vec<String> {
    if !user_text::asks_user(tool) {
        return Vec::new();
    }
    let answers = user_text::answers_of_asking_tool(result).into_iter();
    answers.map(|answer| cut(&one_line(&answer.with_question()), ANSWER_CHARS_MAX)).collect()
}

/// Returns true if all lines are speech with a speaker's name: people talk, without tools.
pub(super) fn is_talk(lines: &[Line]) -> bool {
    let has_names = |voice| lines.iter().any(|line| line.voice == voice && !line.label.is_empty());
    let is_all_speech = lines
        .iter()
        .all(|line| matches!(line.voice, Voice::User | Voice::Assistant) && !line.label.is_empty());
    is_all_speech && (has_names(Voice::User) || has_names(Voice::Assistant))
}

fn role(lines: &[Line], index: usize, is_talk: bool) -> TextRole {
    let next = lines.get(index + 1).map(|line| line.voice);
    match lines.get(index).map(|line| line.voice) {
        _ if is_talk => TextRole::Talk,
        Some(Voice::User) => TextRole::Request,
        _ if next == Some(Voice::Call) => TextRole::Narration,
        _ => TextRole::Answer,
    }
}

/// Reduces the prior of a sentence that is repeated word for word in several exchanges, because it says nothing new.
fn discount_repetitions(exchanges: &mut [ExchangeReading]) {
    let mut repetitions: HashMap<&str, (usize, usize)> = HashMap::new();
    for reading in exchanges.iter() {
        for clause in &reading.clauses {
            let (count, last) = repetitions.entry(&clause.text).or_insert((0, usize::MAX));
            *count += usize::from(*last != reading.index);
            *last = reading.index;
        }
    }
    let counts: Vec<f64> = exchanges
        .iter()
        .flat_map(|reading| &reading.clauses)
        .map(|clause| repetitions.get(clause.text.as_str()).map_or(1.0, |(count, _)| number(*count)))
        .collect();
    let clauses = exchanges.iter_mut().flat_map(|reading| &mut reading.clauses);
    for (clause, count) in clauses.zip(counts) {
        clause.prior /= count.powf(1.5);
    }
}

/// Clears the names of the user and the model in tasks in which each has only one name.
fn forget_lone_names(exchanges: &mut [ExchangeReading]) {
    for source in [ClauseSource::User, ClauseSource::Model] {
        let is_from_source = |clause: &Clause| clause.source == source;
        let mut names = exchanges
            .iter()
            .filter(|reading| !reading.is_talk)
            .flat_map(|reading| &reading.clauses)
            .filter(|clause| is_from_source(clause))
            .map(|clause| clause.speaker.as_str());
        let first = names.next().unwrap_or_default();
        if names.any(|name| name != first) {
            continue;
        }
        exchanges
            .iter_mut()
            .filter(|reading| !reading.is_talk)
            .flat_map(|reading| &mut reading.clauses)
            .filter(|clause| is_from_source(clause))
            .for_each(|clause| clause.speaker.clear());
    }
}
