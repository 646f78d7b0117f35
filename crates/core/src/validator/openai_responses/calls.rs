//! Checks calls and their outputs, which are matched by `call_id`, and that no item is repeated.

use std::collections::{HashMap, HashSet};

use super::{CALL_ID_TWICE, CALL_UNANSWERED, ITEM_ID_TWICE, InputItem, RESULT_ORPHAN, RESULT_TWICE};
use crate::validator::findings::{Findings, shorten};

/// Kinds of calls whose outputs repeat the `call_id`, each with its name in the API's errors.
const CALLS: [(&str, &str); 5] = [
    ("function_call", "function call"),
    ("custom_tool_call", "custom tool call"),
    ("shell_call", "shell call"),
    ("apply_patch_call", "apply patch call"),
    ("computer_call", "computer call"),
];

/// The calls of one kind and `call_id`, up to the current item.
#[derive(Default)]
struct Calls {
    /// The indices of calls that no output has answered yet, oldest first.
    open_calls: Vec<usize>,
    /// The number of calls that an output has answered.
    answered_count: usize,
}

/// Checks the items. `is_continued` means that the provider stores the conversation, including calls that the request lacks.
pub(super) fn check(items: &[InputItem<'_>], is_continued: bool, findings: &mut Findings) {
    check_item_ids(items, findings);
    // An item reference may stand for a call that the provider stores.
    let may_be_stored = is_continued || items.iter().any(|item| item.kind == "item_reference");
    for (call_kind, call_name) in CALLS {
        let output_kind = format!("{call_kind}_output");
        let mut calls: HashMap<&str, Calls> = HashMap::new();
        for item in items {
            let Some(id) = item.text("call_id") else { continue };
            let calls_of_id = calls.entry(id).or_default();
            if item.kind == call_kind {
                calls_of_id.call(item, id, findings);
            } else if item.kind == output_kind {
                calls_of_id.answer(item, id, call_name, may_be_stored, findings);
            }
        }
        report_open(calls, call_name, findings);
    }
}

impl Calls {
    fn call(&mut self, item: &InputItem<'_>, id: &str, findings: &mut Findings) {
        if !self.open_calls.is_empty() || self.answered_count > 0 {
            let text = format!("Duplicate 'call_id': {}", shorten(id));
            findings.add(&CALL_ID_TWICE, item.pointer(), text);
        }
        self.open_calls.push(item.index);
    }

    fn answer(
        &mut self,
        item: &InputItem<'_>,
        id: &str,
        call_name: &str,
        may_be_stored: bool,
        findings: &mut Findings,
    ) {
        if self.open_calls.pop().is_some() {
            self.answered_count += 1;
        } else if self.answered_count > 0 {
            let text = format!("Duplicate {} for call_id {}", item.kind, shorten(id));
            findings.add(&RESULT_TWICE, item.pointer(), text);
        } else if !may_be_stored {
            let text = format!("No tool call found for {call_name} output with call_id {}.", shorten(id));
            findings.add(&RESULT_ORPHAN, item.pointer(), text);
        }
    }
}

fn report_open(calls: HashMap<&str, Calls>, call_name: &str, findings: &mut Findings) {
    let mut open_calls: Vec<(usize, &str)> = calls
        .into_iter()
        .flat_map(|(id, calls)| calls.open_calls.into_iter().map(move |index| (index, id)))
        .collect();
    open_calls.sort_unstable();
    for (index, id) in open_calls {
        let text = format!("No tool output found for {call_name} {}.", shorten(id));
        findings.add(&CALL_UNANSWERED, format_args!("/{index}"), text);
    }
}

fn check_item_ids(items: &[InputItem<'_>], findings: &mut Findings) {
    let mut ids = HashSet::new();
    for item in items {
        // An output of the local shell has the id of its call.
        let has_own_id = item.kind != "local_shell_call_output";
        if let Some(id) = item.id().filter(|_| has_own_id)
            && !ids.insert(id)
        {
            let text = format!(
                "Duplicate item found with id {}. Remove duplicate items from your input and try again.",
                shorten(id)
            );
            findings.add(&ITEM_ID_TWICE, item.pointer(), text);
        }
    }
}
