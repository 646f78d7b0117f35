//! The course of an exchange in sentences: request, answers, steps, outcome.

use super::{
    super::{
        clauses::{TextRole, rated_sentences},
        reading,
        sentences::paragraphs,
    },
    ANSWER_BYTES_MIN,
};
use recapd_core::domain::{
    effects::Effects,
    transcript::{Line, Transcript, Voice},
    user_text,
};

/// Limits the sentences of a request, and of an outcome.
const SENTENCES_MAX: usize = 120;
const STEPS_MAX: usize = 200;
/// A report has at least this many headings.
const REPORT_HEADINGS_MIN: usize = 3;
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
/// Openings of sentences that only accompany the next action, in lower case.
const COMMENTS: [&str; 11] = [
    "now ",
    "good ",
    "adding ",
    "checking ",
    "continuing ",
    "fixing ",
    "re-running ",
    "removing ",
    "running ",
    "updating ",
    "writing ",
];
/// Parts of sentences that announce the next action after something else.
const LATER_ANNOUNCEMENTS: [&str; 4] = [", let me ", ", i'll ", ", i will ", "; let me "];
/// Words that show that an announced action repairs what the previous sentence reports.
const CURES: [&str; 8] = ["fix", "correct", "remov", "re-run", "rerun", "revert", "adjust", "instead"];
/// Openings of sentences that announce a list, in lower case.
const LEAD_INS: [&str; 5] = ["here's ", "here is ", "here are ", "let me ", "below is "];
const FAILURES: [&str; 4] = ["fail", "error", "crash", "traceback"];
/// How Claude Code records, on behalf of the user, that the user interrupted the model.
const INTERRUPTED: &str = "[Request interrupted";
/// How a transcript marks a block of an unknown kind.
const UNREAD: &str = "[block: ";

/// An exchange in its order of events.
#[derive(Clone, Debug)]
pub(crate) struct Course {
    /// The request in whole sentences, by paragraph.
    pub(crate) request: Vec<Vec<String>>,
    /// The user's answers to the model's questions, and the user's reasons for refusing calls.
    pub(crate) answers: Vec<String>,
    /// The model's earlier long texts, by paragraph: reports and plans.
    pub(crate) reports: Vec<Vec<String>>,
    /// The model's last text, by paragraph.
    pub(crate) outcome: Vec<Vec<String>>,
    /// The model's other texts: the first informative sentence of each.
    pub(crate) steps: Vec<String>,
    /// The model's text before its last calls, if no text follows them: progress, not an answer.
    pub(crate) latest: Vec<String>,
    /// True if calls come last: the exchange was broken off, or a later leg continues it.
    pub(crate) goes_on: bool,
    pub(crate) effects: Effects,
    /// The request of the previous exchange, which `/undo` takes back; empty if unknown.
    pub(crate) undone: String,
    pub(crate) interrupted: bool,
    /// The error of the provider that ended the exchange; empty if it ended otherwise.
    pub(crate) api_error: String,
}

impl Course {
    pub(crate) fn of(transcript: &Transcript) -> Self {
        let lines = &transcript.lines;
        let last = lines.iter().rposition(is_model_text);
        let outcome = last.and_then(|index| lines.get(index)).map(|line| split_sentences(&line.text));
        let outcome = outcome.filter(|outcome| !announces(outcome));
        let mut outcome = without_fillers(outcome.unwrap_or_default());
        let mut latest = Vec::new();
        let goes_on = lines.iter().rposition(|line| line.voice == Voice::Call) > last;
        if goes_on {
            // The text before the last calls isn't an answer, and these calls may have fixed the failures so far.
            latest = std::mem::take(&mut outcome).into_iter().flatten().collect();
            latest.retain(|sentence| is_informative(sentence));
        }
        let before_last = lines.get(..last.unwrap_or_default()).unwrap_or_default();
        let earlier = before_last.iter().filter(|line| is_model_text(line));
        let (long_texts, short_texts): (Vec<&Line>, Vec<&Line>) =
            earlier.partition(|line| is_report(&line.text));
        Self {
            request: request(lines),
            answers: answers(lines),
            reports: reports(&long_texts),
            outcome,
            steps: steps(&short_texts),
            latest,
            goes_on,
            effects: transcript.effects.clone(),
            undone: String::new(),
            interrupted: transcript.interrupted,
            api_error: transcript.api_error.clone(),
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
    let mut remaining = SENTENCES_MAX;
    let mut text_paragraphs: Vec<Vec<String>> = Vec::new();
    for paragraph in paragraphs(text, false) {
        let sentences: Vec<String> =
            paragraph.into_iter().take(remaining).map(|sentence| sentence.text).collect();
        remaining -= sentences.len();
        if !sentences.is_empty() {
            text_paragraphs.push(sentences);
        }
    }
    text_paragraphs
}

/// Returns true for one or two sentences that only announce the next action. Such an exchange was broken off and has no outcome.
fn announces(outcome: &[Vec<String>]) -> bool {
    let mut sentences = outcome.iter().flatten();
    let last = sentences.next_back();
    last.is_some_and(|sentence| sentence.ends_with(':')) && sentences.count() < 2
}

/// Removes an opening such as “Perfect!”, so that the first sentence says what was done, and lead-ins such as “Here's what I did:”.
fn without_fillers(mut text_paragraphs: Vec<Vec<String>>) -> Vec<Vec<String>> {
    let applauds = |sentence: &String| {
        sentence.ends_with('!') && sentence.split_whitespace().count() <= APPLAUSE_WORDS_MAX
    };
    let has_more = text_paragraphs.iter().flatten().nth(1).is_some();
    if let Some(first) =
        text_paragraphs.first_mut().filter(|first| has_more && first.first().is_some_and(applauds))
    {
        first.remove(0);
    }
    for sentences in &mut text_paragraphs {
        sentences.retain(|sentence| !leads_in(sentence));
    }
    text_paragraphs.retain(|sentences| !sentences.is_empty());
    text_paragraphs
}

/// Returns true for a sentence that only announces a list, such as “Here's a summary of the changes:”.
fn leads_in(sentence: &str) -> bool {
    let lower = sentence.to_lowercase().replace('’', "'");
    sentence.ends_with(':') && LEAD_INS.iter().any(|opening| lower.starts_with(opening))
}

fn request(lines: &[Line]) -> Vec<Vec<String>> {
    let is_request = |line: &&Line| line.voice == Voice::User && !line.text.starts_with(INTERRUPTED);
    let requests = lines.iter().filter(is_request);
    requests.flat_map(|line| split_sentences(&line.text)).collect()
}

fn reports(lines: &[&Line]) -> Vec<Vec<String>> {
    lines.iter().flat_map(|line| without_fillers(split_sentences(&line.text))).collect()
}

/// Returns true for a long text with headings. Code doesn't count.
fn is_report(text: &str) -> bool {
    if text.len() <= ANSWER_BYTES_MIN {
        return false;
    }
    let sentences = paragraphs(text, false).concat();
    let bytes: usize = sentences.iter().map(|sentence| sentence.text.len()).sum();
    let headings = sentences.iter().filter(|sentence| sentence.is_heading).count();
    bytes > ANSWER_BYTES_MIN && headings >= REPORT_HEADINGS_MIN
}

fn steps(lines: &[&Line]) -> Vec<String> {
    let informative = lines.iter().filter_map(|line| step(split_sentences(&line.text).concat()));
    let mut steps: Vec<String> = informative.collect();
    steps.dedup();
    steps.truncate(STEPS_MAX);
    steps
}

/// Returns the first informative sentence, unless the text goes on with a failure or with the cure of what the sentence reports.
fn step(mut sentences: Vec<String>) -> Option<String> {
    let index = sentences.iter().position(|sentence| is_sound(sentence) && !is_comment(sentence))?;
    let rest = sentences.split_off(index + 1);
    let is_cured = rest.first().is_some_and(|next| announces_cure(next));
    let is_contradicted = rest.iter().any(|sentence| reports_failure(sentence));
    sentences.pop().filter(|_| !is_cured && !is_contradicted)
}

fn announces_cure(sentence: &str) -> bool {
    let lower = sentence.to_lowercase();
    let begins = |openings: &[&str]| openings.iter().any(|opening| lower.starts_with(opening));
    let announces = sentence.ends_with(':') || begins(&ANNOUNCEMENTS) || begins(&COMMENTS);
    announces && CURES.iter().any(|word| lower.contains(word))
}

/// Returns true for words of the model. A block of an unknown kind has none.
fn is_model_text(line: &Line) -> bool {
    line.voice == Voice::Assistant && !line.text.starts_with(UNREAD)
}

fn reports_failure(sentence: &str) -> bool {
    let lower = sentence.to_lowercase();
    FAILURES.iter().any(|word| lower.contains(word))
}

/// Returns true if a sentence reports a finding or an action, and isn't applause or an announcement.
fn is_informative(sentence: &str) -> bool {
    let lower = sentence.to_lowercase();
    let is_plan = ANNOUNCEMENTS.iter().any(|opening| lower.starts_with(opening));
    !is_plan && is_sound(sentence)
}

/// Returns true for a sentence that says what the model does next, after whatever else it says.
fn is_comment(sentence: &str) -> bool {
    let lower = sentence.to_lowercase().replace('’', "'");
    COMMENTS.iter().chain(&ANNOUNCEMENTS).any(|opening| lower.starts_with(opening))
        || LATER_ANNOUNCEMENTS.iter().any(|part| lower.contains(part))
}

/// Returns true for a whole sentence that reports no failure. Most intermediate failures are fixed later, and the others appear among the
/// checks.
fn is_sound(sentence: &str) -> bool {
    !reports_failure(sentence)
        && !sentence.ends_with(':')
        && sentence.split_whitespace().count() >= STEP_WORDS_MIN
}

/// Collects the user's words from results: answers to questions that a tool asked, and reasons for refusing a call.
fn answers(lines: &[Line]) -> Vec<String> {
    let mut answers = Vec::new();
    let mut tool = "";
    for line in lines {
        match line.voice {
            Voice::Call => tool = &line.label,
            Voice::Result => answers.extend(reading::answers(tool, &line.text)),
            Voice::FailedResult => answers.extend(refusals_in_result(&line.text)),
            Voice::User | Voice::Assistant | Voice::Program => tool = "",
        }
    }
    answers
}

fn refusals_in_result(result: &str) -> Vec<String> {
    let reason = user_text::refusal(result).into_iter();
    reason
        .flat_map(|reason| rated_sentences(reason, TextRole::Request, false))
        .map(|(sentence, _)| sentence)
        .collect()
}
