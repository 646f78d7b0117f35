//! Pairs calls with their results.

use crate::domain::message::{Message, Part};

#[derive(Clone, Copy, Debug)]
pub(super) struct FinishedCall<'m> {
    pub(super) name: &'m str,
    /// JSON or plain text.
    pub(super) arguments: &'m str,
    /// The result; empty if there is none.
    pub(super) result: &'m str,
    pub(super) failed: bool,
    id: Option<&'m str>,
    is_answered: bool,
}

/// Returns the calls in order. A result belongs to the last unanswered call with its id. A result without an id belongs to the first
/// unanswered call.
pub(super) fn of(messages: &[Message]) -> Vec<FinishedCall<'_>> {
    let mut calls: Vec<FinishedCall<'_>> = Vec::new();
    for part in messages.iter().flat_map(|message| &message.parts) {
        match part {
            Part::ToolCall { id, name, arguments } => calls.push(FinishedCall {
                name,
                arguments,
                result: "",
                failed: false,
                id: id.as_deref(),
                is_answered: false,
            }),
            Part::ToolResult { call_id, text, .. } => {
                let index = match call_id.as_deref() {
                    Some(id) => calls.iter().rposition(|call| !call.is_answered && call.id == Some(id)),
                    None => calls.iter().position(|call| !call.is_answered),
                };
                if let Some(call) = index.and_then(|index| calls.get_mut(index)) {
                    (call.result, call.failed, call.is_answered) = (text, part.is_failed(), true);
                }
            }
            _ => {}
        }
    }
    calls
}
