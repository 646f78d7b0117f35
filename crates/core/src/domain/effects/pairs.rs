//! Pairs calls with their results.

use std::{borrow::Cow, ops::Range};

use super::arguments::Arguments;
use crate::domain::{
    message::{Message, Part},
    script,
};

/// Fields of a call that asks for the result of an earlier call that was still running (Codex' `wait` and `write_stdin`).
const RUNNING_IDS: [&str; 2] = ["cell_id", "session_id"];
/// The result of a call that is still running has one of these texts before the id, among its first lines.
const RUNNING: [&str; 2] = ["running with cell ID ", "running with session ID "];
const HEADER_LINES: usize = 5;

#[derive(Clone, Debug)]
pub(super) struct FinishedCall<'m> {
    pub(super) name: Cow<'m, str>,
    /// JSON or plain text.
    pub(super) arguments: Cow<'m, str>,
    /// The result; empty if there is none.
    pub(super) result: &'m str,
    pub(super) failed: bool,
    id: Option<&'m str>,
    is_answered: bool,
    is_of_script: bool,
    /// The indices of the calls that share the result: those of a script.
    script: Range<usize>,
}

impl<'m> FinishedCall<'m> {
    fn new(part: Cow<'m, Part>, id: Option<&'m str>, script: Range<usize>) -> Option<Self> {
        let is_of_script = matches!(part, Cow::Owned(_));
        let (name, arguments) = match part {
            Cow::Borrowed(Part::ToolCall { name, arguments, .. }) => (name.into(), arguments.into()),
            Cow::Owned(Part::ToolCall { name, arguments, .. }) => (name.into(), arguments.into()),
            _ => return None,
        };
        Some(Self {
            name,
            arguments,
            result: "",
            failed: false,
            id,
            is_answered: false,
            is_of_script,
            script,
        })
    }

    /// Returns true if the call has a result.
    pub(super) fn is_answered(&self) -> bool {
        self.is_answered
    }

    /// Returns true if a script made the call, so that the result is the script's.
    pub(super) fn is_of_script(&self) -> bool {
        self.is_of_script
    }

    /// Returns true if the call was still running at the end of the exchange.
    pub(super) fn is_running(&self) -> bool {
        running_id(self.result).is_some()
    }
}

/// Returns the id of the call that has this result, if the call was still running then.
fn running_id(result: &str) -> Option<&str> {
    result.lines().take(HEADER_LINES).find_map(|line| {
        let (_, id) = RUNNING.iter().find_map(|text| line.split_once(text))?;
        id.split_whitespace().next()
    })
}

/// Returns the calls in order, those of scripts one by one. A result belongs to the last unanswered call with its id. A result without
/// an id belongs to the first unanswered call. A call that was still running has the last result that a later call asked for.
pub(super) fn of(messages: &[Message]) -> Vec<FinishedCall<'_>> {
    let mut calls: Vec<FinishedCall<'_>> = Vec::new();
    for part in messages.iter().flat_map(|message| &message.parts) {
        if let Part::ToolResult { call_id, text, .. } = part {
            let index = match call_id.as_deref() {
                Some(id) => calls.iter().rposition(|call| !call.is_answered && call.id == Some(id)),
                None => calls.iter().position(|call| !call.is_answered),
            };
            if let Some(index) = index {
                answer(&mut calls, index, text, part.is_failed());
            }
        } else {
            let parts = script::calls(part);
            let script = calls.len()..calls.len() + parts.len().max(1);
            let parts = if parts.is_empty() {
                vec![Cow::Borrowed(part)]
            } else {
                parts.into_iter().map(Cow::Owned).collect()
            };
            let id = part.call_id();
            calls.extend(parts.into_iter().filter_map(|part| FinishedCall::new(part, id, script.clone())));
        }
    }
    calls
}

/// Gives a result to a call, to the other calls of its script, and to the running call that it asks about.
fn answer<'m>(calls: &mut [FinishedCall<'m>], index: usize, result: &'m str, failed: bool) {
    let Some(script) = calls.get(index).map(|call| call.script.clone()) else {
        return;
    };
    let asked = asked_call(calls, index);
    let scripts = asked.and_then(|asked| calls.get(asked)).map(|call| call.script.clone());
    for script in [Some(script), scripts].into_iter().flatten() {
        for call in calls.get_mut(script).into_iter().flatten() {
            (call.result, call.failed, call.is_answered) = (result, failed, true);
        }
    }
}

/// Returns the running call whose result the call at `index` asks for.
fn asked_call(calls: &[FinishedCall<'_>], index: usize) -> Option<usize> {
    let arguments = &calls.get(index)?.arguments;
    // Few calls ask, and others may have long arguments.
    if !RUNNING_IDS.iter().any(|name| arguments.contains(name)) {
        return None;
    }
    let arguments = Arguments::read(arguments);
    let id = arguments.field(&RUNNING_IDS)?;
    let id = id.as_str().map_or_else(|| id.to_string(), str::to_owned);
    calls.get(..index)?.iter().rposition(|call| running_id(call.result) == Some(&id))
}
