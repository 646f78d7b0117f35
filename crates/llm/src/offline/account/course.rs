//! The course of an exchange, as sentences: request, answers, steps, outcome.

use super::super::{
    clauses::{TextRole, of_text},
    sentences::paragraphs,
};
use recapd_core::domain::{
    effects::Effects,
    text::{cut, one_line},
    transcript::{Line, Transcript, Voice},
    user_text,
};

/// Most sentences of a request, or of an outcome.
const SENTENCES_MAX: usize = 120;
const STEPS_MAX: usize = 200;
/// A sentence of fewer words is not kept as a step.
const STEP_WORDS_MIN: usize = 5;
const APPLAUSE_WORDS_MAX: usize = 3;
/// Openings of sentences that announce the next action, in lower case.
const ANNOUNCEMENTS: [&str; 12] = [
    "let me",
    "let's",
    "now let",
    "now i'll",
    "now i need",
    "i'll ",
    "i need to",
    "i will",
    "i'm going to",
    "next,",
    "first,",
    "you're ",
];
const FAILURES: [&str; 4] = ["fail", "error", "crash", "traceback"];
/// How Claude Code writes, in the user's place, that the user interrupted the model.
const INTERRUPTED: &str = "[Request interrupted";
/// How a transcript names a block of an unknown kind.
const UNREAD: &str = "[block: ";
/// Longest answer to a question of the model, with the question, in characters.
const ANSWER_CHARS_MAX: usize = 300;

/// An exchange, in the order in which it went.
#[derive(Debug)]
pub(crate) struct Course {
    /// The request by paragraph, in whole sentences.
    pub(crate) request: Vec<Vec<String>>,
    /// The user's answers to the model's questions, and the user's reasons for refusing calls.
    pub(crate) answers: Vec<String>,
    /// The model's last text, by paragraph.
    pub(crate) outcome: Vec<Vec<String>>,
    /// Texts of the model before the last one: the first informative sentence of each.
    pub(crate) steps: Vec<String>,
    /// The model's text before its last calls, if none follows them: progress, not an answer.
    pub(crate) latest: Vec<String>,
    /// Calls come last: the exchange was broken off, or a later leg continues it.
    pub(crate) goes_on: bool,
    pub(crate) effects: Effects,
    /// The request of the exchange before, which `/undo` takes back; empty if unknown.
    pub(crate) undone: String,
    pub(crate) interrupted: bool,
}

impl Course {
    pub(crate) fn of(transcript: &Transcript) -> Self {
        let lines = &transcript.lines;
        let last = lines.iter().rposition(is_said_by_model);
        let outcome = last.and_then(|at| lines.get(at)).map(|line| told(&line.text));
        let outcome = outcome.filter(|outcome| !announces(outcome));
        let mut outcome = without_applause(outcome.unwrap_or_default());
        let mut latest = Vec::new();
        let goes_on = lines.iter().rposition(|line| line.voice == Voice::Call) > last;
        if goes_on {
            // The text before the last calls is no answer, and those calls may have cured the failures so far.
            latest = std::mem::take(&mut outcome).into_iter().flatten().collect();
            latest.retain(|said| is_telling(said));
        }
        let before_last = lines.get(..last.unwrap_or_default()).unwrap_or_default();
        Self {
            request: request(lines),
            answers: answers(lines),
            outcome,
            steps: steps(before_last),
            latest,
            goes_on,
            effects: transcript.effects.clone(),
            undone: String::new(),
            interrupted: transcript.interrupted,
        }
    }

    /// Returns the question to the user that ends the outcome, if there is one.
    pub(crate) fn question(&self) -> Option<&String> {
        let last = self.outcome.iter().flatten().next_back()?;
        let ends = last.trim_end_matches(['*', '_', '`', ')', '”', '"', ' ']);
        Some(last).filter(|_| ends.ends_with(['?', '？']))
    }
}

/// Splits a text into sentences, by paragraph; at most [`SENTENCES_MAX`].
fn told(text: &str) -> Vec<Vec<String>> {
    let mut left = SENTENCES_MAX;
    let mut told: Vec<Vec<String>> = Vec::new();
    for paragraph in paragraphs(text, false) {
        let sentences: Vec<String> = paragraph.into_iter().take(left).map(|said| said.text).collect();
        left -= sentences.len();
        if !sentences.is_empty() {
            told.push(sentences);
        }
    }
    told
}

/// Returns true for one or two sentences that only announce the next action: a broken-off exchange has no outcome.
fn announces(outcome: &[Vec<String>]) -> bool {
    let mut sentences = outcome.iter().flatten();
    let last = sentences.next_back();
    last.is_some_and(|said| said.ends_with(':')) && sentences.count() < 2
}

/// Removes an opening such as “Perfect!”, so that the first sentence reports what was done.
fn without_applause(mut told: Vec<Vec<String>>) -> Vec<Vec<String>> {
    let applauds =
        |said: &String| said.ends_with('!') && said.split_whitespace().count() <= APPLAUSE_WORDS_MAX;
    let has_more = told.iter().flatten().nth(1).is_some();
    if let Some(first) = told
        .first_mut()
        .filter(|first| has_more && first.first().is_some_and(applauds))
    {
        first.remove(0);
    }
    told.retain(|sentences| !sentences.is_empty());
    told
}

fn request(lines: &[Line]) -> Vec<Vec<String>> {
    let is_told = |line: &&Line| line.voice == Voice::User && !line.text.starts_with(INTERRUPTED);
    let said = lines.iter().filter(is_told);
    said.flat_map(|line| told(&line.text)).collect()
}

fn steps(lines: &[Line]) -> Vec<String> {
    let said = lines.iter().filter(|line| is_said_by_model(line));
    let telling = said.filter_map(|line| {
        told(&line.text)
            .into_iter()
            .flatten()
            .find(|said| is_telling(said))
    });
    let mut steps: Vec<String> = telling.collect();
    steps.dedup();
    steps.truncate(STEPS_MAX);
    steps
}

/// Returns true for words of the model; a block of an unknown kind has none.
fn is_said_by_model(line: &Line) -> bool {
    line.voice == Voice::Assistant && !line.text.starts_with(UNREAD)
}

fn tells_failure(said: &str) -> bool {
    let lower = said.to_lowercase();
    FAILURES.iter().any(|word| lower.contains(word))
}

/// Returns true if a sentence reports a finding or an action, rather than applause or an announcement.
fn is_telling(said: &str) -> bool {
    let lower = said.to_lowercase();
    let is_plan = ANNOUNCEMENTS.iter().any(|opening| lower.starts_with(opening));
    // Most intermediate failures are cured later, and the others appear among the checks.
    !is_plan
        && !tells_failure(said)
        && !said.ends_with(':')
        && said.split_whitespace().count() >= STEP_WORDS_MIN
}

/// Collects the user's words in results: answers to questions that a tool asked, and reasons for refusing a call.
fn answers(lines: &[Line]) -> Vec<String> {
    let mut found = Vec::new();
    let mut called = "";
    for line in lines {
        match line.voice {
            Voice::Call => called = &line.label,
            Voice::Result => found.extend(answered(called, &line.text)),
            Voice::FailedResult => found.extend(refused(&line.text)),
            Voice::User | Voice::Assistant | Voice::Program => called = "",
        }
    }
    found
}

fn answered(tool: &str, result: &str) -> Vec<String> {
    let tool = tool.to_lowercase();
    if !tool.starts_with("ask") && !tool.contains("question") {
        return Vec::new();
    }
    let answers = user_text::answers(result).into_iter();
    let said = answers.map(|(question, answer)| match question {
        Some(question) => format!("{question} → {answer}"),
        None => answer.to_owned(),
    });
    said.map(|said| cut(&one_line(&said), ANSWER_CHARS_MAX)).collect()
}

fn refused(result: &str) -> Vec<String> {
    let words = user_text::refusal(result).into_iter();
    words
        .flat_map(|words| of_text(words, TextRole::Request, false))
        .map(|(said, _)| said)
        .collect()
}
