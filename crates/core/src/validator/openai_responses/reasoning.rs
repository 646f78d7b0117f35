//! Checks that each reasoning item with the provider's id is followed by the item that it led to.

use super::{InputItem, REASONING_ALONE, REASONING_ID_ALONE, REASONING_MISSING};
use crate::validator::findings::{Findings, shorten};

/// The prefix of the provider's ids of function calls.
const CALL_ID_PREFIX: &str = "fc_";

pub(super) fn check(items: &[InputItem<'_>], findings: &mut Findings) {
    for (position, item) in items.iter().enumerate() {
        if item.kind == "reasoning" && item.id().is_some() {
            check_next(item, items.get(position + 1), findings);
        }
    }
    check_missing(items, findings);
}

fn check_next(item: &InputItem<'_>, next: Option<&InputItem<'_>>, findings: &mut Findings) {
    let id = shorten(item.id().unwrap_or_default());
    let text = format!("Item '{id}' of type 'reasoning' was provided without its required following item.");
    match next {
        Some(next) if next.is_said_to_model() || next.is_output() => {
            findings.add(&REASONING_ALONE, item.pointer(), text);
        }
        None => findings.add(&REASONING_ALONE, item.pointer(), text),
        Some(next) if next.id().is_none() => {
            let text = format!("{text} The item after it has lost its id.");
            findings.add(&REASONING_ID_ALONE, item.pointer(), text);
        }
        Some(_) => {}
    }
}

/// Reports a turn that calls tools without reasoning while other turns have reasoning. The turn probably lost its reasoning; one request
/// can't prove it.
fn check_missing(items: &[InputItem<'_>], findings: &mut Findings) {
    let turns = || items.chunk_by(|_, after| !after.is_said_to_model());
    let has_reasoning = |turn: &[InputItem<'_>]| turn.iter().any(|item| item.kind == "reasoning");
    if !turns().any(has_reasoning) {
        return;
    }
    for turn in turns().filter(|turn| !has_reasoning(turn)) {
        let call = turn.iter().find(|item| item.kind == "function_call" && has_provider_id(item));
        if let Some(call) = call {
            let text = format!(
                "Item '{}' of type 'function_call' was provided without its required 'reasoning' item.",
                shorten(call.id().unwrap_or_default())
            );
            findings.add(&REASONING_MISSING, call.pointer(), text);
        }
    }
}

fn has_provider_id(item: &InputItem<'_>) -> bool {
    item.id().is_some_and(|id| id.starts_with(CALL_ID_PREFIX))
}
