//! Checks that function calls follow a user or response turn, and that the next turn has as many responses.

use serde_json::Value;

use super::{CALL_POSITION, RESPONSE_COUNT, RESPONSE_NAME, RESPONSE_ORPHAN, content::ContentTurn};
use crate::validator::findings::{Findings, shorten};

pub(super) fn check(turns: &[ContentTurn<'_>], findings: &mut Findings) {
    for (position, turn) in turns.iter().enumerate() {
        let previous = position.checked_sub(1).and_then(|position| turns.get(position));
        if turn.calls().next().is_some() {
            check_position(previous, turn, findings);
            check_count(turn, turns.get(position + 1), findings);
        }
        let follows_calls = previous.is_some_and(|previous| previous.calls().next().is_some());
        if !follows_calls && turn.responses().next().is_some() {
            let text =
                "Please ensure that function response turn comes immediately after a function call turn.";
            findings.add(&RESPONSE_ORPHAN, turn.pointer(), text);
        }
    }
}

fn check_position(previous: Option<&ContentTurn<'_>>, turn: &ContentTurn<'_>, findings: &mut Findings) {
    if previous.is_none_or(ContentTurn::is_of_model) {
        let text = "Please ensure that function call turn comes immediately after a user turn or after a function \
                    response turn.";
        findings.add(&CALL_POSITION, turn.pointer(), text);
    }
}

fn check_count(turn: &ContentTurn<'_>, next: Option<&ContentTurn<'_>>, findings: &mut Findings) {
    let calls: Vec<&Value> = turn.calls().map(|(_, call)| call).collect();
    let responses: Vec<&Value> =
        next.into_iter().flat_map(ContentTurn::responses).map(|(_, response)| response).collect();
    if calls.len() != responses.len() {
        let text = "Please ensure that the number of function response parts is equal to the number of function call \
                    parts of the function call turn.";
        return findings.add(&RESPONSE_COUNT, turn.pointer(), text);
    }
    for key in ["id", "name"] {
        if let Some((call, response)) = mismatch(&calls, &responses, key) {
            let text = format!(
                "the calls of contents[{}] and the responses to them differ: {key} '{}' against '{}'",
                turn.index,
                shorten(call),
                shorten(response)
            );
            findings.add(&RESPONSE_NAME, format_args!("/{}", turn.index + 1), text);
            return;
        }
    }
}

/// Returns a call's value of `key` and a response's, if calls and responses don't have the same values in some order. Returns `None` if a
/// call or response lacks `key`, since ids are optional.
fn mismatch<'a>(calls: &[&'a Value], responses: &[&'a Value], key: &str) -> Option<(&'a str, &'a str)> {
    let texts = |functions: &[&'a Value]| -> Option<Vec<&'a str>> {
        functions.iter().map(|function| function[key].as_str()).collect()
    };
    let (call_texts, response_texts) = (texts(calls)?, texts(responses)?);
    let sorted = |texts: &[&'a str]| {
        let mut texts = texts.to_vec();
        texts.sort_unstable();
        texts
    };
    let mut pairs = sorted(&call_texts).into_iter().zip(sorted(&response_texts));
    pairs.find(|(call, response)| call != response)
}
