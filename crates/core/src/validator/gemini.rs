//! Checks requests for Gemini's `generateContent`.
//!
//! Calls and responses are matched by their number and order, turn by turn, since ids are optional. Field names may have both spellings
//! that protocol buffers accept in JSON: `functionCall` and `function_call`.

mod calls;
mod content;
mod signature;

use super::{
    Evidence::{Reported, Schema, Unverified},
    Findings, Rule,
    request::RequestToCheck,
};
use content::ContentTurn;

// Each comment says what breaks the rule.
/// The request has no contents.
const CONTENTS_MISSING: Rule = Rule::refused("contents_missing", Unverified);
/// A part is no object.
const CONTENT_SHAPE: Rule = Rule::refused("content_shape", Schema);
/// A content has an unknown role.
const ROLE: Rule = Rule::refused("role", Reported);
/// One of several contents has no role.
const ROLE_MISSING: Rule = Rule::risky("role_missing", Reported);
/// A content has no parts.
const PARTS_EMPTY: Rule = Rule::refused("parts_empty", Unverified);
/// A part has no data.
const PART_EMPTY: Rule = Rule::refused("part_empty", Reported);
/// A part has two kinds of data.
const PART_AMBIGUOUS: Rule = Rule::refused("part_ambiguous", Schema);
/// A call or response lacks its name, a response lacks its data, or the data is no object.
const FIELD_MISSING: Rule = Rule::refused("field_missing", Schema);
/// A turn that isn't the model's has a call.
const CALL_ROLE: Rule = Rule::risky("call_role", Unverified);
/// A turn with calls is the first one, or follows a turn of the model.
const CALL_POSITION: Rule = Rule::refused("call_position", Reported);
/// The turn after calls has more or fewer responses than there are calls.
const RESPONSE_COUNT: Rule = Rule::refused("response_count", Reported);
/// A turn with responses doesn't follow a turn with calls.
const RESPONSE_ORPHAN: Rule = Rule::refused("response_orphan", Reported);
/// The names or ids of the responses aren't those of the calls.
const RESPONSE_NAME: Rule = Rule::risky("response_name", Unverified);
/// A call after the user's last words has no thought signature, which the model requires.
const SIGNATURE_MISSING: Rule = Rule::refused("signature_missing", Reported);
/// The last turn is the model's.
const LAST_TURN: Rule = Rule::refused("last_turn", Reported);

pub(super) const RULES: &[Rule] = &[
    CONTENTS_MISSING,
    CONTENT_SHAPE,
    ROLE,
    ROLE_MISSING,
    PARTS_EMPTY,
    PART_EMPTY,
    PART_AMBIGUOUS,
    FIELD_MISSING,
    CALL_ROLE,
    CALL_POSITION,
    RESPONSE_COUNT,
    RESPONSE_ORPHAN,
    RESPONSE_NAME,
    SIGNATURE_MISSING,
    LAST_TURN,
];

pub(super) fn check(request: &RequestToCheck<'_>, findings: &mut Findings) {
    let contents = request.messages().unwrap_or_default();
    if contents.is_empty() {
        let text = "* GenerateContentRequest.contents: contents is not specified";
        return findings.add_to_messages(&CONTENTS_MISSING, text);
    }
    let read = contents.iter().enumerate();
    let turns: Vec<ContentTurn<'_>> =
        read.filter_map(|(index, content)| ContentTurn::read(index, content, findings)).collect();
    for turn in &turns {
        content::check(turn, turns.len(), findings);
    }
    calls::check(&turns, findings);
    signature::check(request, &turns, findings);
    if let Some(last) = turns.last().filter(|turn| turn.is_of_model()) {
        let text = "Please ensure that multiturn requests ends with a user role or a function response.";
        findings.add(&LAST_TURN, last.pointer(), text);
    }
}
