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
    request::CheckedRequest,
};
use content::ContentTurn;

const CONTENTS_MISSING: Rule = Rule::refused("contents_missing", Unverified);
const CONTENT_SHAPE: Rule = Rule::refused("content_shape", Schema);
const ROLE: Rule = Rule::refused("role", Reported);
const ROLE_MISSING: Rule = Rule::risky("role_missing", Reported);
const PARTS_EMPTY: Rule = Rule::refused("parts_empty", Unverified);
const PART_EMPTY: Rule = Rule::refused("part_empty", Reported);
const PART_AMBIGUOUS: Rule = Rule::refused("part_ambiguous", Schema);
const FIELD_MISSING: Rule = Rule::refused("field_missing", Schema);
const CALL_ROLE: Rule = Rule::risky("call_role", Unverified);
const CALL_POSITION: Rule = Rule::refused("call_position", Reported);
const RESPONSE_COUNT: Rule = Rule::refused("response_count", Reported);
const RESPONSE_ORPHAN: Rule = Rule::refused("response_orphan", Reported);
const RESPONSE_NAME: Rule = Rule::risky("response_name", Unverified);
const SIGNATURE_MISSING: Rule = Rule::refused("signature_missing", Reported);
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

pub(super) fn check(request: &CheckedRequest<'_>, findings: &mut Findings) {
    let contents = request.items().unwrap_or_default();
    if contents.is_empty() {
        let text = "* GenerateContentRequest.contents: contents is not specified";
        return findings.add(&CONTENTS_MISSING, "", text);
    }
    let read = contents.iter().enumerate();
    let turns: Vec<ContentTurn<'_>> = read
        .filter_map(|(index, content)| ContentTurn::read(index, content, findings))
        .collect();
    for turn in &turns {
        content::check(turn, turns.len(), findings);
    }
    calls::check(&turns, findings);
    signature::check(request, &turns, findings);
    if let Some(last) = turns.last().filter(|turn| turn.is_of_model()) {
        let text = "Please ensure that multiturn requests ends with a user role or a function response.";
        findings.add(&LAST_TURN, last.place(), text);
    }
}
