//! Checks that the next turn answers every call, and that every result has its call.

use std::collections::HashSet;

use super::{
    CALL_UNANSWERED, ID_TWICE, RESULT_NOT_FIRST, RESULT_ORPHAN, RESULT_TWICE,
    turn::{Block, RoleTurn, TurnRole},
};
use crate::validator::findings::{Findings, join, shorten};

pub(super) fn check(turns: &[RoleTurn<'_>], findings: &mut Findings) {
    check_ids(turns, findings);
    for (position, turn) in turns.iter().enumerate() {
        if turn.role == TurnRole::Assistant {
            check_answered(turn, turns.get(position + 1), findings);
        } else {
            let previous = position.checked_sub(1).and_then(|position| turns.get(position));
            check_results(previous, turn, findings);
        }
    }
}

/// Returns the values of `key` in a turn's blocks of one kind.
fn ids<'a>(turn: Option<&RoleTurn<'a>>, kind: &str, key: &str) -> HashSet<&'a str> {
    turn.into_iter()
        .flat_map(|turn| &turn.blocks)
        .filter(|block| block.kind == kind)
        .filter_map(|block| block.text_of(key))
        .collect()
}

fn calls<'a, 'b>(turn: &'b RoleTurn<'a>) -> impl Iterator<Item = &'b Block<'a>> {
    let is_call = |block: &&Block<'_>| turn.role == TurnRole::Assistant && block.kind == "tool_use";
    turn.blocks.iter().filter(is_call)
}

fn check_ids(turns: &[RoleTurn<'_>], findings: &mut Findings) {
    let mut ids = HashSet::new();
    for call in turns.iter().flat_map(calls) {
        if call.text_of("id").is_some_and(|id| !ids.insert(id)) {
            let text = format!("{}: `tool_use` ids must be unique", call.name());
            findings.add(&ID_TWICE, call.pointer(), text);
        }
    }
}

fn text_of_unanswered(message: usize, ids: &[&str]) -> String {
    format!(
        "messages.{message}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each \
         `tool_use` block must have a corresponding `tool_result` block in the next message.",
        join(ids)
    )
}

fn check_answered(turn: &RoleTurn<'_>, next: Option<&RoleTurn<'_>>, findings: &mut Findings) {
    let answered_ids = ids(next, "tool_result", "tool_use_id");
    let unanswered: Vec<(usize, &str)> = calls(turn)
        .filter_map(|call| Some((call.message, call.text_of("id")?)))
        .filter(|(_, id)| !answered_ids.contains(id))
        .collect();
    for calls in unanswered.chunk_by(|a, b| a.0 == b.0) {
        let message = calls.first().map_or(0, |call| call.0);
        let ids: Vec<&str> = calls.iter().map(|call| call.1).collect();
        findings.add(&CALL_UNANSWERED, format_args!("/{message}"), text_of_unanswered(message, &ids));
    }
}

fn check_results(previous: Option<&RoleTurn<'_>>, turn: &RoleTurn<'_>, findings: &mut Findings) {
    let call_ids = ids(previous, "tool_use", "id");
    let call_message = previous.map_or(0, RoleTurn::last_message);
    let mut answered_ids = HashSet::new();
    let mut is_after_other_block = false;
    for block in &turn.blocks {
        let Some(id) = block.text_of("tool_use_id").filter(|_| block.kind == "tool_result") else {
            is_after_other_block |= block.kind != "tool_result";
            continue;
        };
        if !call_ids.contains(id) {
            findings.add(&RESULT_ORPHAN, block.pointer(), text_of_orphan(block, id));
        } else if !answered_ids.insert(id) {
            let text = format!(
                "{}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: {}",
                block.name(),
                shorten(id)
            );
            findings.add(&RESULT_TWICE, block.pointer(), text);
        } else if is_after_other_block {
            findings.add(&RESULT_NOT_FIRST, block.pointer(), text_of_unanswered(call_message, &[id]));
        }
    }
}

fn text_of_orphan(block: &Block<'_>, id: &str) -> String {
    format!(
        "{}: unexpected `tool_use_id` found in `tool_result` blocks: {}. Each `tool_result` block must have a \
         corresponding `tool_use` block in the previous message.",
        block.name(),
        shorten(id)
    )
}
