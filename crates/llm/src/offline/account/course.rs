//! The course of an exchange, as sentences.

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

/// The most sentences of a request, or of an outcome.
const SENTENCES_MAX: usize = 120;
/// The most steps that are told.
const STEPS_MAX: usize = 200;
/// A step of fewer words tells nothing.
const STEP_WORDS_MIN: usize = 5;
/// The longest opening that only applauds, in words.
const APPLAUSE_WORDS_MAX: usize = 3;
/// How sentences begin that announce what comes next, in lower case.
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
/// Parts of words that tell a failure, in lower case.
const FAILURES: [&str; 4] = ["fail", "error", "crash", "traceback"];
/// How Claude Code says in the user's place that the user interrupted the model.
const INTERRUPTED: &str = "[Request interrupted";
/// How a block of a kind that isn't known is named in a transcript.
const UNREAD: &str = "[block: ";
/// The longest answer to a question of the model's, with the question, in characters.
const ANSWER_CHARS_MAX: usize = 300;

/// An exchange in the order in which it went.
#[derive(Debug)]
pub(crate) struct Course {
    /// What the user asked, paragraph by paragraph, in whole sentences.
    pub(crate) request: Vec<Vec<String>>,
    /// What the user answered to questions, or said on refusing a call.
    pub(crate) answers: Vec<String>,
    /// What the model said in the end, paragraph by paragraph.
    pub(crate) outcome: Vec<Vec<String>>,
    /// What the model said on the way: the first sentence of each text.
    pub(crate) steps: Vec<String>,
    /// What the model said before its last calls, if it said nothing after them: no answer, but how far it has come.
    pub(crate) latest: Vec<String>,
    /// Calls come last: it was broken off, or a later leg goes on with it.
    pub(crate) goes_on: bool,
    /// What was changed.
    pub(crate) effects: Effects,
    /// What the user asked for in the exchange before, which `/undo` takes back; empty if that isn't known.
    pub(crate) undone: String,
    /// The user interrupted it.
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
            // It is no answer, and what failed so far may be cured by what was called then.
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

    /// What the model asked the user in the end.
    pub(crate) fn question(&self) -> Option<&String> {
        let last = self.outcome.iter().flatten().next_back()?;
        let ends = last.trim_end_matches(['*', '_', '`', ')', '”', '"', ' ']);
        Some(last).filter(|_| ends.ends_with(['?', '？']))
    }
}

/// The sentences of a text.
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

/// Whether it only announces what comes next: an exchange that was broken off has no outcome.
fn announces(outcome: &[Vec<String>]) -> bool {
    let mut sentences = outcome.iter().flatten();
    let last = sentences.next_back();
    last.is_some_and(|said| said.ends_with(':')) && sentences.count() < 2
}

/// Removes an opening such as “Perfect!”, so that the first sentence says what was done.
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

/// Whether the model said it in words: a block of an unknown kind has none.
fn is_said_by_model(line: &Line) -> bool {
    line.voice == Voice::Assistant && !line.text.starts_with(UNREAD)
}

fn tells_failure(said: &str) -> bool {
    let lower = said.to_lowercase();
    FAILURES.iter().any(|word| lower.contains(word))
}

/// Whether a sentence tells what was found or done: applause and announcements don't.
fn is_telling(said: &str) -> bool {
    let lower = said.to_lowercase();
    let is_plan = ANNOUNCEMENTS.iter().any(|opening| lower.starts_with(opening));
    // Most of what fails on the way is cured further on, and what isn't stands among the checks.
    !is_plan
        && !tells_failure(said)
        && !said.ends_with(':')
        && said.split_whitespace().count() >= STEP_WORDS_MIN
}

/// The user's words in results: answers to questions that the model asked by a tool, and reasons for refusing a call.
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
