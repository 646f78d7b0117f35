//! The parts of an account, by rank: which of them are told in the room that there is.

use super::{
    super::{clauses::is_code, cues},
    course::Course,
};
use recapd_core::domain::effects::{Effects, TestVerdict};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Slot {
    /// A sentence of what the user asked.
    Request,
    /// The user's answer to a question.
    Answer,
    /// A sentence of how it ended.
    Outcome,
    /// What the model said before its last calls.
    SoFar,
    Files,
    /// Files of which a change was refused or failed, and none went through.
    Unchanged,
    Commits,
    /// Pull requests and issues.
    Links,
    /// How tests and builds ended.
    Checks,
    /// The entries of the plan that are left.
    Left,
    /// What the model asked in the end.
    Question,
    /// It was broken off, or taken back.
    End,
    /// What the model said on the way.
    Step,
    /// What else the user gave: code, a patch, a log.
    Given,
    /// Files that were read.
    Looked,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AccountPart {
    /// Exchange of the run, slot, paragraph and place in it: the order in which parts are told.
    pub(super) place: (usize, Slot, usize, usize),
    /// The lower, the sooner it is told.
    rank: usize,
    /// Its words.
    pub(super) text: String,
}

/// Ranks: what must be known first; then effects; then demands; then sentence by sentence; then steps, and what was read.
const FIRST: usize = 0;
const EFFECTS: usize = 1;
const DEMANDS: usize = 2;
const SENTENCES: usize = 3;
const STEPS: usize = 1_000;
const LOOKED: usize = 2_000;
/// Files that were read stand in lists of about this many characters, as many as there is room for.
const LIST_CHARS: usize = 200;
/// A point costs this many characters beyond its words.
const AROUND_CHARS: usize = 4;
/// Room below this many characters isn't worth the beginning of a part.
const ROOM_CHARS_MIN: usize = 40;
/// Of the first parts one may take at most this share of the room, so that request and outcome are both told.
const SHARE: usize = 3;

/// The parts of the exchange `at` of the run.
pub(super) fn of(at: usize, course: &Course) -> Vec<AccountPart> {
    let mut parts = Vec::new();
    let mut push = |slot, (paragraph, place), rank, text: String| {
        if !text.is_empty() {
            parts.push(AccountPart {
                place: (at, slot, paragraph, place),
                rank,
                text,
            });
        }
    };
    for (number, (place, said)) in numbered(&course.request) {
        let (slot, rank) = asked(number, said);
        push(slot, place, rank, said.clone());
    }
    for (place, said) in course.answers.iter().enumerate() {
        push(Slot::Answer, (0, place), DEMANDS, said.clone());
    }
    let question = course.question();
    for (number, (place, said)) in numbered(&course.outcome) {
        if Some(said) != question {
            let rank = if number == 0 { FIRST } else { SENTENCES + number };
            push(Slot::Outcome, place, rank, said.clone());
        }
    }
    push(
        Slot::Question,
        (0, 0),
        EFFECTS,
        question.cloned().unwrap_or_default(),
    );
    for (place, said) in course.steps.iter().enumerate() {
        push(Slot::Step, (place, 0), STEPS + place, said.clone());
    }
    for (number, said) in course.latest.iter().enumerate() {
        let rank = if number == 0 { FIRST } else { SENTENCES + number };
        push(Slot::SoFar, (0, number), rank, said.clone());
    }
    for (place, files) in lists(&course.effects.looked_at).into_iter().enumerate() {
        push(Slot::Looked, (place, 0), LOOKED + place, files);
    }
    for (slot, rank, text) in effects(&course.effects) {
        // What is left, and how checks ended, is settled by what goes on.
        let is_passing = course.goes_on && matches!(slot, Slot::Left | Slot::Checks);
        push(slot, (0, 0), if is_passing { STEPS } else { rank }, text);
    }
    if course.effects.undoes {
        let undone = format!(
            "the user took back (/undo) what was done before: {}",
            course.undone
        );
        push(
            Slot::End,
            (0, 1),
            FIRST,
            undone.trim_end_matches([':', ' ']).to_owned(),
        );
    }
    let end = if course.interrupted {
        "interrupted by the user"
    } else {
        ""
    };
    push(Slot::End, (0, 0), FIRST, end.to_owned());
    parts
}

/// What a sentence of a request is, by its number and its words.
fn asked(number: usize, said: &str) -> (Slot, usize) {
    if number == 0 {
        (Slot::Request, FIRST)
    } else if is_code(said) && !said.starts_with(char::is_uppercase) {
        (Slot::Given, STEPS + number)
    } else if cues::demands(said) {
        (Slot::Request, DEMANDS)
    } else {
        (Slot::Request, SENTENCES + number)
    }
}

/// Sentences with their number, paragraph and place.
fn numbered(paragraphs: &[Vec<String>]) -> impl Iterator<Item = (usize, ((usize, usize), &String))> {
    let all = (0..).zip(paragraphs).flat_map(|(paragraph, sentences)| {
        let place = move |(place, said)| ((paragraph, place), said);
        (0..).zip(sentences).map(place)
    });
    all.enumerate()
}

/// Names, with commas between them, in lists of a limited length.
fn lists(names: &[String]) -> Vec<String> {
    let mut lists: Vec<String> = Vec::new();
    for name in names {
        match lists
            .last_mut()
            .filter(|list| list.len() + name.len() < LIST_CHARS)
        {
            Some(list) => {
                list.push_str(", ");
                list.push_str(name);
            }
            None => lists.push(name.clone()),
        }
    }
    lists
}

fn effects(effects: &Effects) -> Vec<(Slot, usize, String)> {
    let commits: Vec<String> = effects
        .commits
        .iter()
        .map(|commit| format!("{} {}", commit.hash, commit.subject).trim().to_owned())
        .collect();
    let checks: Vec<String> = effects.verdicts.iter().map(verdict).collect();
    let left: Vec<&str> = effects
        .plan
        .iter()
        .filter(|entry| entry.is_left())
        .map(|entry| entry.text.as_str())
        .collect();
    vec![
        (Slot::Files, EFFECTS, effects.files.join(", ")),
        (Slot::Unchanged, SENTENCES, effects.unchanged.join(", ")),
        (Slot::Commits, EFFECTS, commits.join("; ")),
        (Slot::Links, EFFECTS, effects.links.join(", ")),
        (Slot::Checks, DEMANDS, checks.join("; ")),
        (Slot::Left, DEMANDS, left.join("; ")),
    ]
}

fn verdict(verdict: &TestVerdict) -> String {
    let ended = if verdict.passed { "passed" } else { "failed" };
    let words = if verdict.words.is_empty() {
        String::new()
    } else {
        format!(" ({})", verdict.words)
    };
    format!("{} {ended}{words}", verdict.command)
}

/// The parts that are told in `chars_max` characters, in their order.
pub(super) fn chosen(parts: &[AccountPart], chars_max: usize) -> Vec<AccountPart> {
    let mut ranked: Vec<&AccountPart> = parts.iter().collect();
    ranked.sort_by_key(|part| (part.rank, part.place));
    let mut left = chars_max;
    let mut chosen = Vec::new();
    for part in ranked {
        let around = super::points::label(part.place.1).len() + AROUND_CHARS;
        let room = left.saturating_sub(around);
        let share = if part.rank < SENTENCES {
            room.min(chars_max.div_ceil(SHARE).max(ROOM_CHARS_MIN))
        } else {
            room
        };
        let chars = part.text.chars().count();
        // A sentence is told whole or not at all, but for what must be known.
        if chars > share && (part.rank >= SENTENCES || share < ROOM_CHARS_MIN) {
            continue;
        }
        let text = super::fit(&part.text, share);
        if text.is_empty() {
            continue;
        }
        left = left.saturating_sub(around + text.chars().count());
        chosen.push(AccountPart { text, ..part.clone() });
    }
    chosen.sort_by_key(|part| part.place);
    chosen
}
