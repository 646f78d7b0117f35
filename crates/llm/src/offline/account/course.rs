//! The course of an exchange in sentences: request, answers, steps, outcome.

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

/// Limits the sentences of a request, and of an outcome.
const SENTENCES_MAX: usize = 120;
const STEPS_MAX: usize = 200;
/// A sentence with fewer words isn't kept as a step.
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
/// Openings of sentences that announce a list, in lower case.
const LEAD_INS: [&str; 5] = ["here's ", "here is ", "here are ", "let me ", "below is "];
const FAILURES: [&str; 4] = ["fail", "error", "crash", "traceback"];
/// How Claude Code records, on behalf of the user, that the user interrupted the model.
const INTERRUPTED: &str = "[Request interrupted";
/// How a transcript marks a block of an unknown kind.
const UNREAD: &str = "[block: ";
/// Limits an answer to a question of the model, together with the question, in characters.
const ANSWER_CHARS_MAX: usize = 300;

/// An exchange in its order of events.
#[derive(Debug)]
pub(crate) struct Course {
    /// The request in whole sentences, by paragraph.
    pub(crate) request: Vec<Vec<String>>,
    /// The user's answers to the model's questions, and the user's reasons for refusing calls.
    pub(crate) answers: Vec<String>,
    /// The model's last text, by paragraph.
    pub(crate) outcome: Vec<Vec<String>>,
    /// The model's earlier texts: the first informative sentence of each.
    pub(crate) steps: Vec<String>,
    /// The model's text before its last calls, if no text follows them: progress, not an answer.
    pub(crate) latest: Vec<String>,
    /// True if calls come last: the exchange was broken off, or a later leg continues it.
    pub(crate) goes_on: bool,
    pub(crate) effects: Effects,
    /// The request of the previous exchange, which `/undo` takes back; empty if unknown.
    pub(crate) undone: String,
    pub(crate) interrupted: bool,
}

impl Course {
    pub(crate) fn of(transcript: &Transcript) -> Self {
        let lines = &transcript.lines;
        let last = lines.iter().rposition(is_said_by_model);
        let outcome = last
            .and_then(|at| lines.get(at))
            .map(|line| split_sentences(&line.text));
        let outcome = outcome.filter(|outcome| !announces(outcome));
        let mut outcome = without_fillers(outcome.unwrap_or_default());
        let mut latest = Vec::new();
        let goes_on = lines.iter().rposition(|line| line.voice == Voice::Call) > last;
        if goes_on {
            // The text before the last calls isn't an answer, and these calls may have fixed the failures so far.
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

/// Splits a text into sentences by paragraph, at most [`SENTENCES_MAX`].
fn split_sentences(text: &str) -> Vec<Vec<String>> {
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

/// Returns true for one or two sentences that only announce the next action. Such an exchange was broken off and has no outcome.
fn announces(outcome: &[Vec<String>]) -> bool {
    let mut sentences = outcome.iter().flatten();
    let last = sentences.next_back();
    last.is_some_and(|said| said.ends_with(':')) && sentences.count() < 2
}

/// Removes an opening such as “Perfect!”, so that the first sentence says what was done, and lead-ins such as “Here's what I did:”.
fn without_fillers(mut told: Vec<Vec<String>>) -> Vec<Vec<String>> {
    let applauds =
        |said: &String| said.ends_with('!') && said.split_whitespace().count() <= APPLAUSE_WORDS_MAX;
    let has_more = told.iter().flatten().nth(1).is_some();
    if let Some(first) = told
        .first_mut()
        .filter(|first| has_more && first.first().is_some_and(applauds))
    {
        first.remove(0);
    }
    for sentences in &mut told {
        sentences.retain(|said| !leads_in(said));
    }
    told.retain(|sentences| !sentences.is_empty());
    told
}

/// Returns true for a sentence that only announces a list, such as “Here's a summary of the changes:”.
fn leads_in(said: &str) -> bool {
    let lower = said.to_lowercase().replace('’', "'");
    said.ends_with(':') && LEAD_INS.iter().any(|opening| lower.starts_with(opening))
}

fn request(lines: &[Line]) -> Vec<Vec<String>> {
    let is_told = |line: &&Line| line.voice == Voice::User && !line.text.starts_with(INTERRUPTED);
    let said = lines.iter().filter(is_told);
    said.flat_map(|line| split_sentences(&line.text)).collect()
}

fn steps(lines: &[Line]) -> Vec<String> {
    let said = lines.iter().filter(|line| is_said_by_model(line));
    let telling = said.filter_map(|line| {
        split_sentences(&line.text)
            .into_iter()
            .flatten()
            .find(|said| is_telling(said))
    });
    let mut steps: Vec<String> = telling.collect();
    steps.dedup();
    steps.truncate(STEPS_MAX);
    steps
}

/// Returns true for words of the model. A block of an unknown kind has none.
fn is_said_by_model(line: &Line) -> bool {
    line.voice == Voice::Assistant && !line.text.starts_with(UNREAD)
}

fn tells_failure(said: &str) -> bool {
    let lower = said.to_lowercase();
    FAILURES.iter().any(|word| lower.contains(word))
}

/// Returns true if a sentence reports a finding or an action, and isn't applause or an announcement.
fn is_telling(said: &str) -> bool {
    let lower = said.to_lowercase();
    let is_plan = ANNOUNCEMENTS.iter().any(|opening| lower.starts_with(opening));
    // Most intermediate failures are fixed later, and the others appear among the checks.
    !is_plan
        && !tells_failure(said)
        && !said.ends_with(':')
        && said.split_whitespace().count() >= STEP_WORDS_MIN
}

/// Collects the user's words from results: answers to questions that a tool asked, and reasons for refusing a call.
fn answers(lines: &[Line]) -> Vec<String> {
    let mut found = Vec::new();
    let mut called = "";
    for line in lines {
        match line.voice {
            Voice::Call => called = &line.label,
            Voice::Result => found.extend(answers_in_result(called, &line.text)),
            Voice::FailedResult => found.extend(refusals_in_result(&line.text)),
            Voice::User | Voice::Assistant | Voice::Program => called = "",
        }
    }
    found
}

fn answers_in_result(tool: &str, result: &str) -> Vec<String> {
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

fn refusals_in_result(result: &str) -> Vec<String> {
    let words = user_text::refusal(result).into_iter();
    words
        .flat_map(|words| of_text(words, TextRole::Request, false))
        .map(|(said, _)| said)
        .collect()
}
