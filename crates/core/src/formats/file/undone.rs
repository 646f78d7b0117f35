//! Finds transcript lines that were taken back: edited prompts and rolled-back turns, with everything that followed from them. Together
//! with the other lines, they would make a conversation that never took place.

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    path::Path,
};

use super::{
    super::{claude_code, codex},
    FileReader, Record,
};
use crate::domain::message::{Format, Kind};

/// Returns the numbers of the file's lines that were taken back. Returns none for a pipe, which can't be read twice.
pub(super) fn undone_lines(path: &Path, format: Format) -> HashSet<u64> {
    let is_file_with_undo = matches!(format, Format::ClaudeCode | Format::Codex) && path.is_file();
    let reader = is_file_with_undo.then(|| FileReader::open(path, Some(format)));
    reader.and_then(Result::ok).map_or_else(HashSet::new, undone)
}

pub(super) fn undone(reader: FileReader) -> HashSet<u64> {
    match reader.format() {
        Format::ClaudeCode => find_edited(reader),
        Format::Codex => find_rolled_back(reader),
        _ => HashSet::new(),
    }
}

/// A line of Claude Code in the tree of lines.
struct Node {
    /// The numbers of the line and of its copies.
    lines: Vec<u64>,
    /// The position of the parent among the nodes.
    parent: Option<usize>,
    /// True if the user typed the line.
    is_prompt: bool,
}

/// Finds prompts of Claude Code that were edited, and the lines that follow from them. A prompt was edited if a later prompt has the same
/// parent, unless lines that follow from the earlier prompt come after the later one. All other branches belong to the conversation, such
/// as the results of parallel calls.
fn find_edited(reader: FileReader) -> HashSet<u64> {
    let nodes = nodes(reader.filter_map(Result::ok));
    let order = order(&nodes);
    let mut is_undone = find_replaced_prompts(&nodes, &ends(&nodes, &order));
    for &position in &order {
        let follows = nodes[position].parent.is_some_and(|parent| is_undone[parent]);
        is_undone[position] |= follows;
    }
    let lines = nodes.into_iter().zip(is_undone);
    lines.filter(|(_, is_undone)| *is_undone).flat_map(|(node, _)| node.lines).collect()
}

/// Returns the lines in file order, each with its copies: later lines with the same id.
fn nodes(records: impl Iterator<Item = Record>) -> Vec<Node> {
    let mut links: Vec<(Vec<u64>, Option<String>, bool)> = Vec::new();
    let mut positions: HashMap<String, usize> = HashMap::new();
    for record in records {
        let Some(link) = claude_code::link(&record.message) else {
            continue;
        };
        match positions.entry(link.uuid) {
            Entry::Vacant(entry) => {
                entry.insert(links.len());
                links.push((vec![record.line], link.parent, link.is_prompt));
            }
            Entry::Occupied(first) => links[*first.get()].0.push(record.line),
        }
    }
    let node = |(lines, parent, is_prompt): (Vec<u64>, Option<String>, bool)| Node {
        lines,
        parent: parent.and_then(|parent| positions.get(&parent).copied()),
        is_prompt,
    };
    links.into_iter().map(node).collect()
}

/// Returns the positions of the nodes, parents first, since some lines are written before their parents.
fn order(nodes: &[Node]) -> Vec<usize> {
    let mut children = vec![Vec::new(); nodes.len()];
    let mut order = Vec::with_capacity(nodes.len());
    for (position, node) in nodes.iter().enumerate() {
        match node.parent {
            Some(parent) => children[parent].push(position),
            None => order.push(position),
        }
    }
    let mut next = 0;
    while let Some(&position) = order.get(next) {
        order.append(&mut children[position]);
        next += 1;
    }
    order
}

/// Returns for each node the position of the last node that follows from it.
fn ends(nodes: &[Node], order: &[usize]) -> Vec<usize> {
    let mut ends: Vec<usize> = (0..nodes.len()).collect();
    for &position in order.iter().rev() {
        if let Some(parent) = nodes[position].parent {
            ends[parent] = ends[parent].max(ends[position]);
        }
    }
    ends
}

/// Returns for each node whether it is a prompt that was edited after the last node that follows from it.
fn find_replaced_prompts(nodes: &[Node], ends: &[usize]) -> Vec<bool> {
    let mut is_replaced = vec![false; nodes.len()];
    let mut prompts = HashMap::new();
    for (position, node) in nodes.iter().enumerate().filter(|(_, node)| node.is_prompt) {
        let earlier = node.parent.and_then(|parent| prompts.insert(parent, position));
        if let Some(earlier) = earlier.filter(|&earlier: &usize| ends[earlier] < position) {
            is_replaced[earlier] = true;
        }
    }
    is_replaced
}

/// Returns the lines of rolled-back turns of Codex, each turn from the user's message on.
fn find_rolled_back(reader: FileReader) -> HashSet<u64> {
    let (mut turns, mut lines) = (Vec::new(), HashSet::new());
    for record in reader.filter_map(Result::ok) {
        if let Some(count) = codex::turns_taken_back(&record.message) {
            let kept_turns = turns.len().saturating_sub(count);
            if let Some(&first) = turns.get(kept_turns) {
                lines.extend(first..record.line);
            }
            turns.truncate(kept_turns);
        } else if record.message.kind == Kind::User && !record.message.interrupts {
            turns.push(record.line);
        }
    }
    lines
}
