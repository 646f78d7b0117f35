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
mod points;
#[cfg(test)]
mod tests;

pub(super) use course::Course;

use std::collections::HashSet;

use self::part::{AccountPart, choose};
use super::{compose::Texts, cuts::fit};
use recapd_core::domain::{
    summary::item::{GIST_CHARS_MAX, brief_chars_max, text_chars_max},
    transcript::{Transcript, Voice},
};

/// An exchange with calls and more tokens than this is work, whatever its tools do.
const WORK_TOKENS_MIN: i64 = 5_000;

/// A request's sentence of at least this many characters is included only once.
const REPEATED_CHARS_MIN: usize = 40;
/// How many characters the marks of a headline take: `“` `” → `.
const AROUND_CHARS: usize = 5;

/// Returns true for an exchange whose actions count more than its words: it has effects, runs commands, looks at files, or has
/// calls and is long.
pub(super) fn is_work(transcript: &Transcript) -> bool {
    let has_calls = transcript.lines.iter().any(|line| line.voice == Voice::Call);
    let effects = &transcript.effects;
    !effects.is_empty()
        || effects.runs_commands
        || !effects.looked_at.is_empty()
        || (has_calls && transcript.tokens > WORK_TOKENS_MIN)
}

/// Writes the texts for a run of exchanges with at least one that is work.
pub(super) fn texts(run: &[Transcript]) -> Texts {
    let mut courses: Vec<Course> = run.iter().map(Course::of).collect();
    tell_once(&mut courses);
    for at in 1..courses.len() {
        let (before, after) = courses.split_at_mut(at);
        if let (Some(before), Some(after)) = (before.last(), after.first_mut()) {
            after.undone = before
                .request
                .iter()
                .flatten()
                .next()
                .cloned()
                .unwrap_or_default();
        }
    }
    let parts: Vec<AccountPart> = (0..)
        .zip(&courses)
        .flat_map(|(at, course)| part::of(at, course))
        .collect();
    let tokens = run.iter().fold(0_i64, |sum, one| sum.saturating_add(one.tokens));
    let tell = |chars_max: usize| points::text(&choose(&parts, chars_max));
    Texts {
        text: tell(text_chars_max(tokens)),
        brief: tell(brief_chars_max(tokens)),
        gist: gist(&courses),
    }
}

/// Removes sentences of requests that repeat an earlier request of the run, for example when a prompt is sent again.
fn tell_once(courses: &mut [Course]) {
    let mut told = HashSet::new();
    for paragraph in courses.iter_mut().flat_map(|course| &mut course.request) {
        paragraph.retain(|said| may_recur(said) || told.insert(said.clone()));
    }
}

/// Returns true for short sentences such as "go on", which mean something each time. Returns false for headings.
fn may_recur(said: &str) -> bool {
    said.chars().count() < REPEATED_CHARS_MIN && !said.ends_with(':')
}

/// Joins the first request and the last outcome.
fn gist(courses: &[Course]) -> String {
    let first = |of: fn(&Course) -> Option<&String>| courses.iter().find_map(of);
    let last = |of: fn(&Course) -> Option<&String>| courses.iter().rev().find_map(of);
    let asked = first(|course| course.request.iter().flatten().next());
    let ended = last(|course| course.outcome.iter().flatten().chain(&course.latest).next());
    match (asked, ended) {
        (Some(asked), Some(ended)) => {
            let room = GIST_CHARS_MAX - AROUND_CHARS;
            let asked = fit(asked, room - ended.chars().count().min(room / 2));
            format!("“{asked}” → {}", fit(ended, room - asked.chars().count()))
        }
        (Some(asked), None) => format!("“{}”", fit(asked, GIST_CHARS_MAX - 2)),
        (None, Some(ended)) => fit(ended, GIST_CHARS_MAX),
        (None, None) => {
            let parts = courses.iter().flat_map(|course| part::of(0, course));
            points::text(&choose(&parts.collect::<Vec<_>>(), GIST_CHARS_MAX)).replace('\n', " ")
        }
    }
}
