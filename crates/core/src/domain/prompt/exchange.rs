//! The exchanges as a prompt shows them.

use std::collections::HashSet;

use super::{INDENT, LABEL_CHARS_MAX, neutral};
use crate::domain::{
    summary::line::rounded,
    text::{cut, one_line},
    time::{HOUR_MS, Timestamp},
    transcript::{Line, Transcript, Voice},
};

/// A text of an item gets one point for this many tokens.
const POINT_TOKENS: i64 = 3_000;
const POINTS_MAX: i64 = 8;
/// Shorter lines may be equal by chance.
const REPEATED_CHARS_MIN: usize = 40;
/// Tools whose calls contain the whole plan, so that only the last call matters.
const PLAN_TOOLS: [&str; 4] = ["todowrite", "todo_write", "update_plan", "write_todos"];

struct MaterialLine {
    at: Timestamp,
    line: String,
}

/// Writes the exchanges one after the other, in about `chars_max` characters.
pub(super) fn shown(transcripts: &[Transcript], chars_max: usize) -> String {
    let exchanges: Vec<Vec<MaterialLine>> = transcripts.iter().map(lines).collect();
    let sizes = exchanges.iter().map(|lines| chars(lines)).collect();
    let chars_max = fair_share(sizes, chars_max);
    let mut material = String::new();
    for (transcript, lines) in transcripts.iter().zip(exchanges) {
        material.push_str(&heading(transcript));
        material.push('\n');
        let mut shown_at = transcript.started_at;
        for said in shorten(lines, chars_max) {
            if is_later(transcript, shown_at, said.at) {
                material.push_str("-- ");
                material.push_str(&clock(transcript, said.at));
                material.push('\n');
                shown_at = said.at;
            }
            material.push_str(&said.line);
            material.push('\n');
        }
    }
    material
}

/// Writes `== 12 · 2023-06-21 14:22 · 16k tokens · up to 5 points`.
fn heading(transcript: &Transcript) -> String {
    let mut parts = vec![
        format!("== {}", transcript.exchange),
        clock(transcript, transcript.started_at),
    ];
    let continued = transcript.continues.as_ref();
    parts.extend(continued.map(|continued| format!("continues {}", continued.exchange)));
    if transcript.interrupted {
        parts.push("interrupted by the user".to_owned());
    }
    let points = points(transcript.tokens);
    if points > 1 {
        parts.push(format!("{} tokens", rounded(transcript.tokens, false)));
        parts.push(format!("up to {points} points"));
    }
    parts.join(" · ")
}

/// Returns how many points to ask for, given the tokens of an exchange.
fn points(tokens: i64) -> i64 {
    (tokens.saturating_add(POINT_TOKENS / 2) / POINT_TOKENS).clamp(1, POINTS_MAX)
}

fn clock(transcript: &Transcript, at: Timestamp) -> String {
    transcript.zone.wall(at).format("%Y-%m-%d %H:%M")
}

/// Returns true if a line's time must be shown: it is an hour or more from the last time shown, or on another day.
fn is_later(transcript: &Transcript, shown: Timestamp, at: Timestamp) -> bool {
    let zone = transcript.zone;
    at.since_ms(shown).abs() >= HOUR_MS || zone.day(at) != zone.day(shown)
}

/// Returns all lines of an exchange, without repeated ones.
fn lines(transcript: &Transcript) -> Vec<MaterialLine> {
    let last_plan = transcript.lines.iter().rposition(is_plan);
    let told = transcript.lines.iter().enumerate().flat_map(|(at, line)| {
        let is_replaced = is_plan(line) && Some(at) != last_plan;
        said(line, is_replaced)
    });
    without_repeats(request(transcript).chain(told))
}

fn is_plan(line: &Line) -> bool {
    line.voice == Voice::Call && PLAN_TOOLS.contains(&line.label.to_lowercase().as_str())
}

/// Returns the request that a later leg works on, as lines of material.
fn request(transcript: &Transcript) -> impl Iterator<Item = MaterialLine> {
    let asked = transcript.continues.as_ref();
    let asked = asked.filter(|continued| !continued.request.is_empty());
    let lines = asked.map(|continued| {
        let who = format!("REQUEST of exchange {}", continued.exchange);
        spoken(&who, &continued.request, transcript.started_at)
    });
    lines.into_iter().flatten()
}

fn said(line: &Line, is_replaced: bool) -> Vec<MaterialLine> {
    let who = match line.voice {
        Voice::User => "USER",
        Voice::Assistant => "ASSISTANT",
        Voice::Program => "PROGRAM",
        Voice::Call => "CALL",
        Voice::Result => "RESULT",
        Voice::FailedResult => "FAILED RESULT",
    };
    let label = cut(&neutral(&one_line(&line.label)), LABEL_CHARS_MAX);
    let blank = if label.is_empty() { "" } else { " " };
    let text = if is_replaced {
        "[a plan that a later one replaces]"
    } else {
        &line.text
    };
    spoken(&format!("{who}{blank}{label}"), text, line.at)
}

/// Converts a text to lines of material: the speaker with the first line, the rest indented.
fn spoken(who: &str, text: &str, at: Timestamp) -> Vec<MaterialLine> {
    let text = text.lines().map(one_line).filter(|line| !line.is_empty());
    let mut lines = text.map(|line| neutral(&line));
    let opening = format!("{who}: {}", lines.next().unwrap_or_default());
    let opening = opening.trim_end().to_owned();
    let rest = lines.map(|line| format!("{INDENT}{line}"));
    std::iter::once(opening)
        .chain(rest)
        .map(|line| MaterialLine { at, line })
        .collect()
}

/// Removes long lines that repeat an earlier one.
fn without_repeats(lines: impl Iterator<Item = MaterialLine>) -> Vec<MaterialLine> {
    let mut seen: HashSet<String> = HashSet::new();
    let mut left = Vec::new();
    let mut left_out: usize = 0;
    for said in lines {
        let is_long = said.line.chars().nth(REPEATED_CHARS_MIN).is_some();
        if is_long && !seen.insert(said.line.clone()) {
            left_out += 1;
            continue;
        }
        left.extend(repeats(left_out, said.at));
        left_out = 0;
        left.push(said);
    }
    let end = left.last().map_or(Timestamp(0), |said| said.at);
    left.extend(repeats(left_out, end));
    left
}

fn repeats(left_out: usize, at: Timestamp) -> Option<MaterialLine> {
    let line = format!("{INDENT}[… lines as before: {left_out} …]");
    (left_out > 0).then_some(MaterialLine { at, line })
}

/// Returns the most characters that one exchange may have, so that all together have at most `total`.
pub(super) fn fair_share(mut sizes: Vec<usize>, total: usize) -> usize {
    sizes.sort_unstable();
    let mut left = total;
    for (index, size) in sizes.iter().enumerate() {
        let share = left / (sizes.len() - index);
        if *size > share {
            return share;
        }
        left -= size;
    }
    usize::MAX
}

/// Keeps lines from the head (two thirds) and the tail (one third), with a note between them of how many are left out. A line may lose
/// its end but never its beginning: otherwise its rest could pass for a line of recapd.
fn shorten(mut lines: Vec<MaterialLine>, chars_max: usize) -> Vec<MaterialLine> {
    if chars(&lines) <= chars_max {
        return lines;
    }
    for said in &mut lines {
        said.line = cut(&said.line, chars_max / 4);
    }
    let tail_chars_max = chars_max / 3;
    let head = fitting(lines.iter(), chars_max - tail_chars_max);
    let tail = fitting(lines.iter().rev(), tail_chars_max).min(lines.len() - head);
    let left_out = lines.len() - head - tail;
    let kept_tail = lines.split_off(head + left_out);
    lines.truncate(head);
    // The note gets the time of the line before it, so that the lines after it show their own.
    let beside = lines.last().or(kept_tail.first());
    let at = beside.map_or(Timestamp(0), |said| said.at);
    let line = format!("{INDENT}[… lines left out: {left_out} …]");
    lines.push(MaterialLine { at, line });
    lines.extend(kept_tail);
    lines
}

/// Counts how many of `lines` fit, from the first one on.
fn fitting<'a>(lines: impl Iterator<Item = &'a MaterialLine>, chars_max: usize) -> usize {
    lines
        .scan(0, |sum, said| {
            *sum += said.line.chars().count();
            Some(*sum)
        })
        .take_while(|sum| *sum <= chars_max)
        .count()
}

fn chars(lines: &[MaterialLine]) -> usize {
    lines.iter().map(|said| said.line.chars().count()).sum()
}
