//! The account of work, as points: the request, the changes, the outcome, and what is left open.
//!
//! ```text
//! transcript ──► course (request, answers, outcome, steps, effects) ──► parts by rank ──► as many as fit ──► points
//! ```
//!
//! Requests and outcomes are quoted in whole sentences, and effects exactly. The first sentences of the request and of the
//! outcome have priority; intermediate steps are included only if there is room.

mod course;
mod part;
mod pasted;
mod points;
#[cfg(test)]
mod tests;

pub(super) use course::Course;

use std::collections::HashSet;

use self::part::{AccountPart, choose};
use super::{compose::Texts, cuts::fit, reading::is_talk};
use recapd_core::domain::{
    summary::item::{GIST_CHARS_MAX, brief_chars_max, text_chars_max},
    transcript::{Line, Transcript, Voice},
    user_text::asks_user,
};

/// An exchange with calls and more tokens than this is work, whatever its tools do.
const WORK_TOKENS_MIN: i64 = 5_000;

/// An exchange without calls has an account if its answers have more bytes than this.
const ANSWER_BYTES_MIN: usize = 1_500;
/// A sentence of at least this many characters is included only once.
const REPEATED_CHARS_MIN: usize = 40;
/// How many characters the marks of a headline take: `“` `” → `.
const AROUND_CHARS: usize = 5;

/// Returns true for an exchange that has an account. It has effects, runs commands, looks at files, has calls and is long, or a
/// provider's error ended it. An exchange without calls has an account if its answers are long and no named people talk. Questions to
/// the user don't count as calls.
pub(super) fn applies_to(transcript: &Transcript) -> bool {
    let is_call = |line: &Line| line.voice == Voice::Call && !asks_user(&line.label);
    let has_calls = transcript.lines.iter().any(is_call);
    let effects = &transcript.effects;
    !effects.is_empty()
        || effects.runs_commands
        || !effects.looked_at.is_empty()
        || !transcript.api_error.is_empty()
        || (has_calls && transcript.tokens > WORK_TOKENS_MIN)
        || (!has_calls && answer_bytes(transcript) > ANSWER_BYTES_MIN && !is_talk(&transcript.lines))
}

fn answer_bytes(transcript: &Transcript) -> usize {
    let answers = transcript.lines.iter().filter(|line| line.voice == Voice::Assistant);
    answers.map(|line| line.text.len()).sum()
}

/// Reads the courses of a batch, by run. Leaves out what another of them tells as well: sentences of a request
/// that an earlier request has, and what a later answer or plan replaces.
pub(super) fn courses(runs: &[&[Transcript]]) -> Vec<Vec<Course>> {
    let mut courses: Vec<Vec<Course>> = runs.iter().map(|run| run.iter().map(Course::of).collect()).collect();
    for run in &mut courses {
        name_undone_requests(run);
    }
    let mut all: Vec<&mut Course> = courses.iter_mut().flatten().collect();
    remove_repeated_requests(&mut all);
    remove_replaced_answers(&mut all);
    let last_plan = all.iter().rposition(|course| !course.effects.plan.is_empty());
    for course in all.iter_mut().take(last_plan.unwrap_or_default()) {
        course.effects.plan.clear();
    }
    courses
}

fn name_undone_requests(run: &mut [Course]) {
    for index in 1..run.len() {
        let (previous, current) = run.split_at_mut(index);
        if let (Some(previous), Some(current)) = (previous.last(), current.first_mut()) {
            current.undone = previous.request.iter().flatten().next().cloned().unwrap_or_default();
        }
    }
}

/// Writes the texts for the courses of a run of `tokens` tokens, of which at least one is work.
pub(super) fn texts(courses: &[Course], tokens: i64) -> Texts {
    let parts: Vec<AccountPart> =
        (0..).zip(courses).flat_map(|(exchange, course)| part::of(exchange, course)).collect();
    let write = |chars_max: usize| points::text(&choose(&parts, chars_max));
    Texts { text: write(text_chars_max(tokens)), brief: write(brief_chars_max(tokens)), gist: gist(courses) }
}

/// Removes sentences that repeat an earlier request, for example when a prompt is sent again. Of a request that says nothing new, the
/// first sentence stays.
fn remove_repeated_requests(courses: &mut [&mut Course]) {
    let mut earlier = HashSet::new();
    for course in courses {
        let first = course.request.iter().flatten().next().cloned();
        for paragraph in &mut course.request {
            paragraph.retain(|sentence| may_recur(sentence) || earlier.insert(sentence.clone()));
        }
        let is_empty = course.request.iter().all(Vec::is_empty);
        course.request.extend(first.filter(|_| is_empty).map(|first| vec![first]));
    }
}

/// Removes sentences of answers that a later answer repeats.
fn remove_replaced_answers(courses: &mut [&mut Course]) {
    let mut later = HashSet::new();
    for course in courses.iter_mut().rev() {
        for paragraph in course.reports.iter_mut().chain(&mut course.outcome).rev() {
            paragraph.retain(|sentence| may_recur(sentence) || later.insert(words_of(sentence)));
        }
    }
}

/// Returns the words of a sentence in lower case, without punctuation.
fn words_of(sentence: &str) -> String {
    let words = sentence.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect::<Vec<_>>().join(" ")
}

/// Returns true for short sentences such as "go on", which mean something each time. Returns false for headings.
fn may_recur(sentence: &str) -> bool {
    sentence.chars().count() < REPEATED_CHARS_MIN && !sentence.ends_with(':')
}

/// Joins the first request and the last outcome.
fn gist(courses: &[Course]) -> String {
    let first = |text_of: fn(&Course) -> Option<&String>| courses.iter().find_map(text_of);
    let last = |text_of: fn(&Course) -> Option<&String>| courses.iter().rev().find_map(text_of);
    let request = first(|course| course.request.iter().flatten().next());
    let outcome = last(|course| course.outcome.iter().flatten().chain(&course.latest).next());
    match (request, outcome) {
        (Some(request), Some(outcome)) => {
            let room = GIST_CHARS_MAX - AROUND_CHARS;
            let request = fit(request, room - outcome.chars().count().min(room / 2));
            format!("“{request}” → {}", fit(outcome, room - request.chars().count()))
        }
        (Some(request), None) => format!("“{}”", fit(request, GIST_CHARS_MAX - 2)),
        (None, Some(outcome)) => fit(outcome, GIST_CHARS_MAX),
        (None, None) => {
            let parts = courses.iter().flat_map(|course| part::of(0, course));
            points::text(&choose(&parts.collect::<Vec<_>>(), GIST_CHARS_MAX)).replace('\n', " ")
        }
    }
}
