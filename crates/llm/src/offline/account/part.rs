//! The ranked parts of an account. As many as fit are included.

use super::{
    super::{clauses::is_code, cues},
    course::Course,
};
use recapd_core::domain::{
    effects::{Effects, TestVerdict},
    summary::label::PointLabel,
};

/// Returns true for a label of somebody's words, which are quoted.
pub(super) fn is_quoted(label: PointLabel) -> bool {
    use PointLabel::{Decision, Given, Question, Request};
    matches!(label, Request | Given | Decision | Question)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AccountPart {
    /// Exchange in the run, label, paragraph, position in the paragraph: parts are written in this order.
    pub(super) position: (usize, PointLabel, usize, usize),
    /// Parts with a low rank are included first.
    rank: usize,
    pub(super) text: String,
}

/// Ranks in this order: the essentials; effects; demands; other sentences one by one; steps; files that were read.
const FIRST: usize = 0;
const EFFECTS: usize = 1;
const DEMANDS: usize = 2;
const SENTENCES: usize = 3;
const STEPS: usize = 1_000;
const LOOKED: usize = 2_000;
/// Files that were read are grouped in lists of about this many characters. As many lists as fit are included.
const LIST_CHARS: usize = 200;
/// How many characters a point takes besides its words.
const AROUND_CHARS: usize = 4;
/// A part isn't cut to less than this many characters.
const ROOM_CHARS_MIN: usize = 40;
/// A part ranked before [`SENTENCES`] may take at most 1/`SHARE` of all characters, so that request and outcome both fit.
const SHARE: usize = 3;

/// Returns the parts of exchange number `exchange` of the run.
pub(super) fn of(exchange: usize, course: &Course) -> Vec<AccountPart> {
    let mut parts = Vec::new();
    let mut push = |label, (paragraph, index), rank, text: String| {
        if !text.is_empty() {
            parts.push(AccountPart { position: (exchange, label, paragraph, index), rank, text });
        }
    };
    for (number, (position, sentence)) in numbered(&course.request) {
        let (label, rank) = label_of_sentence(number, sentence);
        push(label, position, rank, sentence.clone());
    }
    for (index, answer) in course.answers.iter().enumerate() {
        push(PointLabel::Decision, (0, index), DEMANDS, answer.clone());
    }
    let question = course.question();
    for (number, (position, sentence)) in numbered(&course.outcome) {
        if Some(sentence) != question {
            let rank = if number == 0 { FIRST } else { SENTENCES + number };
            push(PointLabel::Outcome, position, rank, sentence.clone());
        }
    }
    push(PointLabel::Question, (0, 0), EFFECTS, question.cloned().unwrap_or_default());
    for (index, step) in course.steps.iter().enumerate() {
        push(PointLabel::Step, (index, 0), STEPS + index, step.clone());
    }
    for (number, sentence) in course.latest.iter().enumerate() {
        let rank = if number == 0 { FIRST } else { SENTENCES + number };
        push(PointLabel::Progress, (0, number), rank, sentence.clone());
    }
    for (index, files) in lists(&course.effects.looked_at).into_iter().enumerate() {
        push(PointLabel::Looked, (index, 0), LOOKED + index, files);
    }
    for (label, rank, text) in effects(&course.effects) {
        // The exchange continues, so these results and open entries aren't final.
        let is_provisional = course.goes_on && matches!(label, PointLabel::Left | PointLabel::Checks);
        push(label, (0, 0), if is_provisional { STEPS } else { rank }, text);
    }
    if course.effects.undoes {
        let undone = format!("the user took back (/undo) what was done before: {}", course.undone);
        push(PointLabel::End, (0, 1), FIRST, undone.trim_end_matches([':', ' ']).to_owned());
    }
    let end = if course.interrupted { "interrupted by the user" } else { "" };
    push(PointLabel::End, (0, 0), FIRST, end.to_owned());
    if !course.api_error.is_empty() {
        let error = format!("the provider's error ended it: “{}”", course.api_error);
        push(PointLabel::End, (0, 2), FIRST, error);
    }
    parts
}

/// Returns the label and the rank of a sentence of a request.
fn label_of_sentence(number: usize, sentence: &str) -> (PointLabel, usize) {
    if number == 0 {
        (PointLabel::Request, FIRST)
    } else if is_code(sentence) && !sentence.starts_with(char::is_uppercase) {
        (PointLabel::Given, STEPS + number)
    } else if cues::demands(sentence) {
        (PointLabel::Request, DEMANDS)
    } else {
        (PointLabel::Request, SENTENCES + number)
    }
}

fn numbered(paragraphs: &[Vec<String>]) -> impl Iterator<Item = (usize, ((usize, usize), &String))> {
    let all = (0..).zip(paragraphs).flat_map(|(paragraph, sentences)| {
        let position = move |(index, sentence)| ((paragraph, index), sentence);
        (0..).zip(sentences).map(position)
    });
    all.enumerate()
}

/// Joins names with commas into lists of limited length.
fn lists(names: &[String]) -> Vec<String> {
    let mut lists: Vec<String> = Vec::new();
    for name in names {
        match lists.last_mut().filter(|list| list.len() + name.len() < LIST_CHARS) {
            Some(list) => {
                list.push_str(", ");
                list.push_str(name);
            }
            None => lists.push(name.clone()),
        }
    }
    lists
}

fn effects(effects: &Effects) -> Vec<(PointLabel, usize, String)> {
    let commits: Vec<String> = effects
        .commits
        .iter()
        .map(|commit| format!("{} {}", commit.hash, commit.subject).trim().to_owned())
        .collect();
    let checks: Vec<String> = effects.verdicts.iter().map(verdict).collect();
    let unfinished: Vec<&str> =
        effects.plan.iter().filter(|entry| entry.is_left()).map(|entry| entry.text.as_str()).collect();
    vec![
        (PointLabel::Files, EFFECTS, effects.files.join(", ")),
        (PointLabel::Unchanged, SENTENCES, effects.unchanged.join(", ")),
        (PointLabel::Commits, EFFECTS, commits.join("; ")),
        (PointLabel::Links, EFFECTS, effects.links.join(", ")),
        (PointLabel::Checks, DEMANDS, checks.join("; ")),
        (PointLabel::Left, DEMANDS, unfinished.join("; ")),
    ]
}

fn verdict(verdict: &TestVerdict) -> String {
    let outcome = if verdict.has_passed { "passed" } else { "failed" };
    let details = if verdict.summary.is_empty() { String::new() } else { format!(" ({})", verdict.summary) };
    format!("{} {outcome}{details}", verdict.command)
}

/// Picks the parts that fit into `chars_max` characters, by rank. Returns them in the order of writing.
pub(super) fn choose(parts: &[AccountPart], chars_max: usize) -> Vec<AccountPart> {
    let mut ranked: Vec<&AccountPart> = parts.iter().collect();
    ranked.sort_by_key(|part| (part.rank, part.position));
    let mut remaining = chars_max;
    let mut chosen = Vec::new();
    for part in ranked {
        let around_chars = part.position.1.text().len() + AROUND_CHARS;
        let room = remaining.saturating_sub(around_chars);
        let share = if part.rank < SENTENCES {
            room.min(chars_max.div_ceil(SHARE).max(ROOM_CHARS_MIN))
        } else {
            room
        };
        let chars = part.text.chars().count();
        // Unless it is essential, a sentence is included whole or not at all.
        if chars > share && (part.rank >= SENTENCES || share < ROOM_CHARS_MIN) {
            continue;
        }
        let text = super::fit(&part.text, share);
        if text.is_empty() {
            continue;
        }
        remaining = remaining.saturating_sub(around_chars + text.chars().count());
        chosen.push(AccountPart { text, ..part.clone() });
    }
    chosen.sort_by_key(|part| part.position);
    chosen
}
