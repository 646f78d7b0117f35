//! Checks calls and their outputs, which are matched by `call_id`, and that no item is repeated.

use std::collections::{HashMap, HashSet};

use super::{CALL_ID_TWICE, CALL_UNANSWERED, ITEM_ID_TWICE, InputItem, RESULT_ORPHAN, RESULT_TWICE};
use crate::validator::findings::{Findings, quoted};

/// Calls whose outputs have their `call_id`, and the names of these calls in the API's errors.
const CALLS: [(&str, &str); 5] = [
    ("function_call", "function call"),
    ("custom_tool_call", "custom tool call"),
    ("shell_call", "shell call"),
    ("apply_patch_call", "apply patch call"),
    ("computer_call", "computer call"),
];

/// The calls so far of one kind and `call_id`.
#[derive(Default)]
struct Calls {
    /// Items that no output has answered yet, oldest first.
    open: Vec<usize>,
    answered: usize,
}

/// Checks the items. If the provider stores the conversation, it may have calls that the request lacks.
pub(super) fn check(items: &[InputItem<'_>], is_continued: bool, findings: &mut Findings) {
    check_item_ids(items, findings);
    // A reference may point to a call that the provider stores.
    let may_be_stored = is_continued || items.iter().any(|item| item.kind == "item_reference");
    for (call_kind, call_name) in CALLS {
        let output_kind = format!("{call_kind}_output");
        let mut calls: HashMap<&str, Calls> = HashMap::new();
        for item in items {
            let Some(id) = item.text("call_id") else { continue };
            let of_id = calls.entry(id).or_default();
            if item.kind == call_kind {
                of_id.call(item, id, findings);
            } else if item.kind == output_kind {
                of_id.answer(item, id, call_name, may_be_stored, findings);
            }
        }
        report_open(calls, call_name, findings);
    }
}

impl Calls {
    fn call(&mut self, item: &InputItem<'_>, id: &str, findings: &mut Findings) {
        if !self.open.is_empty() || self.answered > 0 {
            let text = format!("Duplicate 'call_id': {}", quoted(id));
            findings.add(&CALL_ID_TWICE, item.place(), text);
        }
        self.open.push(item.index);
    }

    fn answer(
        &mut self,
        item: &InputItem<'_>,
        id: &str,
        call_name: &str,
        may_be_stored: bool,
        findings: &mut Findings,
    ) {
        if self.open.pop().is_some() {
            self.answered += 1;
        } else if self.answered > 0 {
            let text = format!("Duplicate {} for call_id {}", item.kind, quoted(id));
            findings.add(&RESULT_TWICE, item.place(), text);
        } else if !may_be_stored {
            let text = format!(
                "No tool call found for {call_name} output with call_id {}.",
                quoted(id)
            );
            findings.add(&RESULT_ORPHAN, item.place(), text);
        }
    }
}

fn report_open(calls: HashMap<&str, Calls>, call_name: &str, findings: &mut Findings) {
    let mut open: Vec<(usize, &str)> = calls
        .into_iter()
        .flat_map(|(id, calls)| calls.open.into_iter().map(move |index| (index, id)))
        .collect();
    open.sort_unstable();
    for (index, id) in open {
        let text = format!("No tool output found for {call_name} {}.", quoted(id));
        findings.add(&CALL_UNANSWERED, format_args!("/{index}"), text);
    }
}

fn check_item_ids(items: &[InputItem<'_>], findings: &mut Findings) {
    let mut seen = HashSet::new();
    for item in items {
        // An output of the local shell has the id of its call.
        let is_own = item.kind != "local_shell_call_output";
        if let Some(id) = item.id().filter(|_| is_own)
            && !seen.insert(id)
        {
            let text = format!(
                "Duplicate item found with id {}. Remove duplicate items from your input and try again.",
                quoted(id)
            );
            findings.add(&ITEM_ID_TWICE, item.place(), text);
        }
    }
}
