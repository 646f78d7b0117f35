//! Checks that tool messages follow the assistant message whose calls they answer, and answer all of them.

use serde_json::Value;

use super::{CALL_ID_TWICE, CALL_UNANSWERED, RESULT_ORPHAN, RESULT_TWICE, RESULT_UNKNOWN};
use crate::validator::{
    findings::{Findings, join, shorten},
    request::{Object, text},
};

/// A call, and the index of the message that answers it, if there is one.
struct CallOfRound<'a> {
    id: &'a str,
    answer: Option<usize>,
}

/// The calls of the latest assistant message, until a message follows that isn't a tool's.
#[derive(Default)]
struct Round<'a> {
    /// The index of the assistant message.
    message: usize,
    calls: Vec<CallOfRound<'a>>,
}

pub(super) fn check(messages: &[(usize, &Object)], findings: &mut Findings) {
    let mut round = Round::default();
    for &(index, message) in messages {
        match text(message, "role") {
            Some("tool") => round.answer(index, message, findings),
            role => {
                round.close(findings);
                round = Round::default();
                if role == Some("assistant") {
                    round = Round::open(index, message, findings);
                }
            }
        }
    }
    round.close(findings);
}

impl<'a> Round<'a> {
    fn open(index: usize, message: &'a Object, findings: &mut Findings) -> Self {
        let mut round = Self { message: index, calls: Vec::new() };
        let calls = message.get("tool_calls").and_then(Value::as_array);
        for (position, call) in calls.into_iter().flatten().enumerate() {
            let Some(id) = call["id"].as_str() else { continue };
            if round.calls.iter().any(|call| call.id == id) {
                let text = format!(
                    "two calls of messages[{index}] have the id '{}': their results can't be told apart",
                    shorten(id)
                );
                findings.add(&CALL_ID_TWICE, format_args!("/{index}/tool_calls/{position}"), text);
            }
            round.calls.push(CallOfRound { id, answer: None });
        }
        round
    }

    fn answer(&mut self, index: usize, message: &Object, findings: &mut Findings) {
        let pointer = format!("/{index}");
        if self.calls.is_empty() {
            let text = "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with \
                        'tool_calls'.";
            return findings.add(&RESULT_ORPHAN, pointer, text);
        }
        let Some(id) = text(message, "tool_call_id") else {
            return;
        };
        let mut calls_of_id: Vec<&mut CallOfRound<'a>> =
            self.calls.iter_mut().filter(|call| call.id == id).collect();
        if let Some(open) = calls_of_id.iter_mut().find(|call| call.answer.is_none()) {
            open.answer = Some(index);
            return;
        }
        let id = shorten(id);
        if let Some(answer) = calls_of_id.last().and_then(|call| call.answer) {
            let text = format!(
                "Invalid parameter: Duplicate value for 'tool_call_id' of '{id}', in messages[{answer}] and \
                 messages[{index}]."
            );
            findings.add(&RESULT_TWICE, pointer, text);
        } else {
            let text = format!(
                "Invalid parameter: 'tool_call_id' of '{id}' not found in 'tool_calls' of previous message."
            );
            findings.add(&RESULT_UNKNOWN, pointer, text);
        }
    }

    fn close(&self, findings: &mut Findings) {
        let unanswered: Vec<&str> =
            self.calls.iter().filter(|call| call.answer.is_none()).map(|call| call.id).collect();
        if !unanswered.is_empty() {
            let text = format!(
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each \
                 'tool_call_id'. The following tool_call_ids did not have response messages: {}",
                join(&unanswered)
            );
            findings.add(&CALL_UNANSWERED, format_args!("/{}", self.message), text);
        }
    }
}
