//! Checks that each reasoning item is followed by the item that it led to, if the request repeats the provider's ids.

use super::{InputItem, REASONING_ALONE, REASONING_ID_ALONE, REASONING_MISSING};
use crate::validator::findings::{Findings, quoted};

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
    let id = quoted(item.id().unwrap_or_default());
    let text = format!("Item '{id}' of type 'reasoning' was provided without its required following item.");
    match next {
        Some(next) if next.is_said_to_model() || next.is_output() => {
            findings.add(&REASONING_ALONE, item.place(), text);
        }
        None => findings.add(&REASONING_ALONE, item.place(), text),
        Some(next) if next.id().is_none() => {
            let text = format!("{text} The item after it has lost its id.");
            findings.add(&REASONING_ID_ALONE, item.place(), text);
        }
        Some(_) => {}
    }
}

/// Reports a turn that calls tools without reasoning while other turns have reasoning. Its reasoning was probably lost, but one request
/// can't prove that.
fn check_missing(items: &[InputItem<'_>], findings: &mut Findings) {
    let turns = || items.chunk_by(|_, after| !after.is_said_to_model());
    let reasons = |turn: &[InputItem<'_>]| turn.iter().any(|item| item.kind == "reasoning");
    if !turns().any(reasons) {
        return;
    }
    for turn in turns().filter(|turn| !reasons(turn)) {
        let call = turn
            .iter()
            .find(|item| item.kind == "function_call" && has_call_id(item));
        if let Some(call) = call {
            let text = format!(
                "Item '{}' of type 'function_call' was provided without its required 'reasoning' item.",
                quoted(call.id().unwrap_or_default())
            );
            findings.add(&REASONING_MISSING, call.place(), text);
        }
    }
}

fn has_call_id(item: &InputItem<'_>) -> bool {
    item.id().is_some_and(|id| id.starts_with(CALL_ID_PREFIX))
}
