//! The ranked parts of an account. As many as fit are included.

use super::{super::cues, course::Course, pasted};
use recapd_core::domain::summary::label::PointLabel;

/// Where a part stands. Parts are written in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    /// The exchange in the run.
    pub(super) exchange: usize,
    pub(super) label: PointLabel,
    /// The paragraph of the text.
    paragraph: usize,
    /// The place in the paragraph.
    index: usize,
}

impl Position {
    /// Returns true if both stand in the texts with the same label.
    pub(super) fn is_beside(self, other: Self) -> bool {
        (self.exchange, self.label) == (other.exchange, other.label)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AccountPart {
    pub(super) position: Position,
    /// Parts with a low rank are included first.
    rank: usize,
    pub(super) text: String,
}

/// Ranks in this order: the essentials; effects; demands; other sentences one by one; steps; files that were read.
const FIRST: usize = 0;
const EFFECTS: usize = 1;
const DEMANDS: usize = 2;
const SENTENCES: usize = 3;
/// Sentences of reports follow those of the outcome and the request.
const REPORTS: usize = 300;
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
/// Words that point to the sentence before.
const POINTERS: [&str; 6] = ["That", "This", "These", "Those", "Otherwise", "However"];

/// Returns the parts of exchange number `exchange` of the run.
pub(super) fn of(exchange: usize, course: &Course) -> Vec<AccountPart> {
    let mut parts = Vec::new();
    let mut push = |label, (paragraph, index), rank, text: String| {
        if !text.is_empty() {
            parts.push(AccountPart { position: Position { exchange, label, paragraph, index }, rank, text });
        }
    };
    let is_pasted = |number: usize, sentence: &str| number > 0 && pasted::is_pasted(sentence);
    let (given, asked): (Vec<_>, Vec<_>) =
        numbered(&course.request).partition(|(number, (_, sentence))| is_pasted(*number, sentence));
    for (number, (position, sentence)) in asked {
        push(PointLabel::Request, position, rank_of_request(number, sentence), sentence.clone());
    }
    let sentences: Vec<&String> = given.iter().map(|(_, (_, sentence))| *sentence).collect();
    for index in pasted::choose(&sentences) {
        if let Some((number, (position, sentence))) = given.get(index) {
            push(PointLabel::Given, *position, STEPS + number, (*sentence).clone());
        }
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
    // The final answer says most, so that earlier reports follow it.
    let paragraphs = course.outcome.len();
    for (number, ((paragraph, index), sentence)) in numbered(&course.reports) {
        push(PointLabel::Outcome, (paragraphs + paragraph, index), REPORTS + number, sentence.clone());
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
    for (label, rank, text) in effects(course) {
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

/// Returns the rank of a sentence of a request.
fn rank_of_request(number: usize, sentence: &str) -> usize {
    if number == 0 {
        FIRST
    } else if cues::demands(sentence) {
        DEMANDS
    } else {
        SENTENCES + number
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

fn effects(course: &Course) -> Vec<(PointLabel, usize, String)> {
    let effects = &course.effects;
    let commits: Vec<String> = effects
        .commits
        .iter()
        .map(|commit| format!("{} {}", commit.hash, commit.subject).trim().to_owned())
        .collect();
    // A failure before more calls is being repaired.
    let verdicts = effects.verdicts.iter().filter(|verdict| verdict.has_passed || !course.goes_on);
    let checks: Vec<String> =
        verdicts.map(|verdict| format!("{} {}", verdict.command, verdict.words())).collect();
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

/// Picks the parts that fit into `chars_max` characters, by rank. Returns them in the order of writing.
pub(super) fn choose(parts: &[AccountPart], chars_max: usize) -> Vec<AccountPart> {
    let mut ranked: Vec<&AccountPart> = parts.iter().collect();
    ranked.sort_by_key(|part| (part.rank, part.position));
    let mut remaining = chars_max;
    let mut chosen = Vec::new();
    for part in ranked {
        let around_chars = part.position.label.text().len() + AROUND_CHARS;
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
    without_gaps(chosen, parts)
}

/// Drops a heading whose content was left out, and a sentence such as “This helps” whose predecessor was left out. `all` has all parts.
fn without_gaps(chosen: Vec<AccountPart>, all: &[AccountPart]) -> Vec<AccountPart> {
    let mut positions: Vec<Position> = all.iter().map(|part| part.position).collect();
    positions.sort_unstable();
    let order = |part: &AccountPart| positions.binary_search(&part.position).unwrap_or_default();
    let is_next = |one: &AccountPart, next: &AccountPart| {
        order(one) + 1 == order(next) && one.position.is_beside(next.position)
    };
    let mut kept: Vec<AccountPart> = Vec::with_capacity(chosen.len());
    for part in chosen {
        let previous = kept.last();
        if !points_back(&part) || previous.is_some_and(|previous| is_next(previous, &part)) {
            kept.push(part);
        }
    }
    let mut shown: Vec<AccountPart> = Vec::with_capacity(kept.len());
    for part in kept.into_iter().rev() {
        if !is_heading(&part) || shown.last().is_some_and(|next| is_next(&part, next)) {
            shown.push(part);
        }
    }
    shown.reverse();
    shown
}

fn is_heading(part: &AccountPart) -> bool {
    part.rank != FIRST && part.text.ends_with(':')
}

/// Returns true for a sentence, but not the first one of its paragraph, that begins with a word for something said before.
fn points_back(part: &AccountPart) -> bool {
    let first = part.text.split(' ').next().unwrap_or_default().trim_end_matches(',');
    part.rank != FIRST && part.position.index > 0 && POINTERS.contains(&first)
}
