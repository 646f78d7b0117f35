//! Writes exchanges for a prompt.

use std::collections::HashSet;

use super::{INDENT, LABEL_CHARS_MAX, replace_fence_word};
use crate::domain::{
    summary::line::rounded,
    text::{cut, one_line},
    time::{HOUR_MS, Timestamp},
    transcript::{Line, Transcript, Voice},
};

/// An item's text gets one more point for each of this many tokens.
const POINT_TOKENS: i64 = 3_000;
const POINTS_MAX: i64 = 8;
/// Shorter lines may be equal by chance, so they aren't repetitions.
const REPEATED_CHARS_MIN: usize = 40;
/// Tools whose calls have the whole plan, so that only the last call matters.
const PLAN_TOOLS: [&str; 4] = ["todowrite", "todo_write", "update_plan", "write_todos"];

struct MaterialLine {
    at: Timestamp,
    text: String,
}

/// Writes the exchanges one after the other, with about `chars_max` characters together.
pub(super) fn write_exchanges(transcripts: &[Transcript], chars_max: usize) -> String {
    let exchanges: Vec<Vec<MaterialLine>> = transcripts.iter().map(lines).collect();
    let sizes = exchanges.iter().map(|lines| chars(lines)).collect();
    let chars_max = fair_share(sizes, chars_max);
    let mut material = String::new();
    for (transcript, lines) in transcripts.iter().zip(exchanges) {
        material.push_str(&heading(transcript));
        material.push('\n');
        let mut last_shown = transcript.started_at;
        for line in shorten(lines, chars_max) {
            if is_later(transcript, last_shown, line.at) {
                material.push_str("-- ");
                material.push_str(&clock(transcript, line.at));
                material.push('\n');
                last_shown = line.at;
            }
            material.push_str(&line.text);
            material.push('\n');
        }
    }
    material
}

/// Writes `== 12 · 2023-06-21 14:22 · 16k tokens · up to 5 points`.
fn heading(transcript: &Transcript) -> String {
    let mut parts = vec![format!("== {}", transcript.exchange), clock(transcript, transcript.started_at)];
    let continued = transcript.continues.as_ref();
    parts.extend(continued.map(|continued| format!("continues {}", continued.exchange)));
    if transcript.interrupted {
        parts.push("interrupted by the user".to_owned());
    }
    if !transcript.api_error.is_empty() {
        parts.push("ended by an error of the model's provider".to_owned());
    }
    let points = points(transcript.tokens);
    if points > 1 {
        parts.push(format!("{} tokens", rounded(transcript.tokens, false)));
        parts.push(format!("up to {points} points"));
    }
    parts.join(" · ")
}

/// Returns how many points to ask for in an exchange of `tokens`.
fn points(tokens: i64) -> i64 {
    (tokens.saturating_add(POINT_TOKENS / 2) / POINT_TOKENS).clamp(1, POINTS_MAX)
}

fn clock(transcript: &Transcript, at: Timestamp) -> String {
    transcript.zone.wall(at).format("%Y-%m-%d %H:%M")
}

/// Returns true if a line's time must be shown: it is on another day than the last shown time, or an hour or more away from it.
fn is_later(transcript: &Transcript, last_shown: Timestamp, at: Timestamp) -> bool {
    let zone = transcript.zone;
    at.since_ms(last_shown).abs() >= HOUR_MS || zone.day(at) != zone.day(last_shown)
}

/// Returns the lines of an exchange, without repeated ones.
fn lines(transcript: &Transcript) -> Vec<MaterialLine> {
    let last_plan = transcript.lines.iter().rposition(is_plan);
    let conversation = transcript.lines.iter().enumerate().flat_map(|(index, line)| {
        let is_replaced = is_plan(line) && Some(index) != last_plan;
        material_lines(line, is_replaced)
    });
    without_repeats(request(transcript).chain(conversation))
}

fn is_plan(line: &Line) -> bool {
    line.voice == Voice::Call && PLAN_TOOLS.contains(&line.label.to_lowercase().as_str())
}

/// Returns the request that a later leg works on as lines of material.
fn request(transcript: &Transcript) -> impl Iterator<Item = MaterialLine> {
    let continued = transcript.continues.as_ref();
    let continued = continued.filter(|continued| !continued.request.is_empty());
    let lines = continued.map(|continued| {
        let speaker = format!("REQUEST of exchange {}", continued.exchange);
        speaker_lines(&speaker, &continued.request, transcript.started_at)
    });
    lines.into_iter().flatten()
}

fn material_lines(line: &Line, is_replaced: bool) -> Vec<MaterialLine> {
    let voice = match line.voice {
        Voice::User => "USER",
        Voice::Assistant => "ASSISTANT",
        Voice::Program => "PROGRAM",
        Voice::Call => "CALL",
        Voice::Result => "RESULT",
        Voice::FailedResult => "FAILED RESULT",
    };
    let label = cut(&replace_fence_word(&one_line(&line.label)), LABEL_CHARS_MAX);
    let blank = if label.is_empty() { "" } else { " " };
    let text = if is_replaced { "[a plan that a later one replaces]" } else { &line.text };
    speaker_lines(&format!("{voice}{blank}{label}"), text, line.at)
}

/// Converts a text to lines of material. The first line begins with the speaker; the others are indented.
fn speaker_lines(speaker: &str, text: &str, at: Timestamp) -> Vec<MaterialLine> {
    let text = text.lines().map(one_line).filter(|line| !line.is_empty());
    let mut lines = text.map(|line| replace_fence_word(&line));
    let opening = format!("{speaker}: {}", lines.next().unwrap_or_default());
    let opening = opening.trim_end().to_owned();
    let rest = lines.map(|line| format!("{INDENT}{line}"));
    std::iter::once(opening).chain(rest).map(|text| MaterialLine { at, text }).collect()
}

/// Removes long lines that repeat an earlier line.
fn without_repeats(lines: impl Iterator<Item = MaterialLine>) -> Vec<MaterialLine> {
    let mut long_lines: HashSet<String> = HashSet::new();
    let mut remaining = Vec::new();
    let mut left_out: usize = 0;
    for line in lines {
        let is_long = line.text.chars().nth(REPEATED_CHARS_MIN).is_some();
        if is_long && !long_lines.insert(line.text.clone()) {
            left_out += 1;
            continue;
        }
        remaining.extend(repeats_note(left_out, line.at));
        left_out = 0;
        remaining.push(line);
    }
    let end = remaining.last().map_or(Timestamp(0), |line| line.at);
    remaining.extend(repeats_note(left_out, end));
    remaining
}

fn repeats_note(left_out: usize, at: Timestamp) -> Option<MaterialLine> {
    let text = format!("{INDENT}[… lines as before: {left_out} …]");
    (left_out > 0).then_some(MaterialLine { at, text })
}

/// Returns how many characters one exchange may have, so that all together have at most `total`.
pub(super) fn fair_share(mut sizes: Vec<usize>, total: usize) -> usize {
    sizes.sort_unstable();
    let mut remaining = total;
    for (index, size) in sizes.iter().enumerate() {
        let share = remaining / (sizes.len() - index);
        if *size > share {
            return share;
        }
        remaining -= size;
    }
    usize::MAX
}

/// Keeps lines from the head (two thirds) and the tail (one third). A note between them says how many lines are left out. A line may lose
/// its end but never its beginning, because its rest could pass for a line of recapd.
fn shorten(mut lines: Vec<MaterialLine>, chars_max: usize) -> Vec<MaterialLine> {
    if chars(&lines) <= chars_max {
        return lines;
    }
    for line in &mut lines {
        line.text = cut(&line.text, chars_max / 4);
    }
    let tail_chars_max = chars_max / 3;
    let head = count_fitting(lines.iter(), chars_max - tail_chars_max);
    let tail = count_fitting(lines.iter().rev(), tail_chars_max).min(lines.len() - head);
    let left_out = lines.len() - head - tail;
    let tail_lines = lines.split_off(head + left_out);
    lines.truncate(head);
    // The note gets the time of the line before it, so that the next line shows its own time.
    let neighbour = lines.last().or(tail_lines.first());
    let at = neighbour.map_or(Timestamp(0), |line| line.at);
    let text = format!("{INDENT}[… lines left out: {left_out} …]");
    lines.push(MaterialLine { at, text });
    lines.extend(tail_lines);
    lines
}

/// Counts how many of `lines` fit, from the first one on.
fn count_fitting<'a>(lines: impl Iterator<Item = &'a MaterialLine>, chars_max: usize) -> usize {
    lines
        .scan(0, |sum, line| {
            *sum += line.text.chars().count();
            Some(*sum)
        })
        .take_while(|sum| *sum <= chars_max)
        .count()
}

fn chars(lines: &[MaterialLine]) -> usize {
    lines.iter().map(|line| line.text.chars().count()).sum()
}
