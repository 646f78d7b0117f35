//! Checks requests for Anthropic Messages.
//!
//! Anthropic joins consecutive messages of one role. So calls and results are matched by *turn*, a run of messages of one role. A system
//! message in the middle of a conversation belongs to no turn.

mod blocks;
mod caching;
mod calls;
mod order;
mod parameters;
mod server_tools;
mod system;
mod thinking;
mod turn;

use super::{
    Evidence::{Documented, Reported, Schema, Unverified},
    Findings, Rule,
    request::CheckedRequest,
};
use turn::Conversation;

const MESSAGES_MAX: usize = 100_000;
/// 32 MB.
const BODY_BYTES_MAX: usize = 32 * 1024 * 1024;

const MESSAGES_MISSING: Rule = Rule::refused("messages_missing", Schema);
const MESSAGES_TOO_MANY: Rule = Rule::refused("messages_too_many", Documented);
const BODY_TOO_LARGE: Rule = Rule::refused("body_too_large", Documented);
const ROLE: Rule = Rule::refused("role", Schema);
const CONTENT_SHAPE: Rule = Rule::refused("content_shape", Schema);
const CONTENT_EMPTY: Rule = Rule::refused("content_empty", Reported);
const TEXT_EMPTY: Rule = Rule::refused("text_empty", Reported);
const RESULT_TEXT_EMPTY: Rule = Rule::risky("result_text_empty", Unverified);
const FIELD_MISSING: Rule = Rule::refused("field_missing", Schema);
const ID_PATTERN: Rule = Rule::refused("id_pattern", Reported);
const BLOCK_ROLE: Rule = Rule::refused("block_role", Reported);
const DOCUMENT_IN_ASSISTANT: Rule = Rule::risky("document_in_assistant", Documented);
const FIRST_MESSAGE: Rule = Rule::refused("first_message", Reported);
const PREFILL: Rule = Rule::refused("prefill", Documented);
const TRAILING_WHITESPACE: Rule = Rule::refused("trailing_whitespace", Reported);
const ROLES_ALTERNATE: Rule = Rule::risky("roles_alternate", Schema);
const SYSTEM_SHAPE: Rule = Rule::refused("system_shape", Schema);
const SYSTEM_FIRST: Rule = Rule::refused("system_first", Documented);
const SYSTEM_POSITION: Rule = Rule::refused("system_position", Documented);
const SYSTEM_TEXT_ONLY: Rule = Rule::refused("system_text_only", Documented);
const SYSTEM_MODEL: Rule = Rule::risky("system_model", Documented);
const CALL_UNANSWERED: Rule = Rule::refused("call_unanswered", Documented);
const RESULT_ORPHAN: Rule = Rule::refused("result_orphan", Reported);
const RESULT_NOT_FIRST: Rule = Rule::refused("result_not_first", Documented);
const RESULT_TWICE: Rule = Rule::refused("result_twice", Unverified);
const RESULTS_SPLIT: Rule = Rule::risky("results_split", Documented);
const ID_TWICE: Rule = Rule::refused("id_twice", Reported);
const SERVER_CALL_UNANSWERED: Rule = Rule::refused("server_call_unanswered", Documented);
const SERVER_RESULT_ORPHAN: Rule = Rule::refused("server_result_orphan", Reported);
const SERVER_TOOL_GONE: Rule = Rule::refused("server_tool_gone", Documented);
const SIGNATURE: Rule = Rule::refused("signature", Documented);
const THINKING_LAST: Rule = Rule::refused("thinking_last", Reported);
const THINKING_FIRST: Rule = Rule::refused("thinking_first", Reported);
const THINKING_MODE: Rule = Rule::refused("thinking_mode", Documented);
const SAMPLING: Rule = Rule::refused("sampling", Documented);
const FORCED_TOOL: Rule = Rule::refused("forced_tool", Documented);
const CACHE_MARKERS: Rule = Rule::refused("cache_markers", Documented);

pub(super) const RULES: &[Rule] = &[
    MESSAGES_MISSING,
    MESSAGES_TOO_MANY,
    BODY_TOO_LARGE,
    ROLE,
    CONTENT_SHAPE,
    CONTENT_EMPTY,
    TEXT_EMPTY,
    RESULT_TEXT_EMPTY,
    FIELD_MISSING,
    ID_PATTERN,
    BLOCK_ROLE,
    DOCUMENT_IN_ASSISTANT,
    FIRST_MESSAGE,
    PREFILL,
    TRAILING_WHITESPACE,
    ROLES_ALTERNATE,
    SYSTEM_SHAPE,
    SYSTEM_FIRST,
    SYSTEM_POSITION,
    SYSTEM_TEXT_ONLY,
    SYSTEM_MODEL,
    CALL_UNANSWERED,
    RESULT_ORPHAN,
    RESULT_NOT_FIRST,
    RESULT_TWICE,
    RESULTS_SPLIT,
    ID_TWICE,
    SERVER_CALL_UNANSWERED,
    SERVER_RESULT_ORPHAN,
    SERVER_TOOL_GONE,
    SIGNATURE,
    THINKING_LAST,
    THINKING_FIRST,
    THINKING_MODE,
    SAMPLING,
    FORCED_TOOL,
    CACHE_MARKERS,
];

pub(super) fn check(request: &CheckedRequest<'_>, findings: &mut Findings) {
    check_size(request, findings);
    parameters::check(request, findings);
    let Some(messages) = request.items() else {
        findings.add(&MESSAGES_MISSING, "", "messages: Field required");
        return;
    };
    if messages.is_empty() {
        findings.add(
            &MESSAGES_MISSING,
            "",
            "messages: at least one message is required",
        );
        return;
    }
    let conversation = Conversation::read(messages, findings);
    blocks::check(&conversation, findings);
    caching::check(request, &conversation, findings);
    order::check(request, &conversation, findings);
    system::check(request, &conversation, findings);
    let turns = conversation.turns();
    calls::check(&turns, findings);
    server_tools::check(request, &turns, findings);
    thinking::check(request, &turns, findings);
}

fn check_size(request: &CheckedRequest<'_>, findings: &mut Findings) {
    let messages = request.items().map_or(0, <[_]>::len);
    if messages > MESSAGES_MAX {
        let message = format!("messages: {messages} messages, more than the {MESSAGES_MAX} allowed");
        findings.add(&MESSAGES_TOO_MANY, "", message);
    }
    let bytes = request.bytes();
    if bytes > BODY_BYTES_MAX {
        let message = format!("request_too_large: the body is {bytes} bytes, more than 32 MB");
        findings.add_in_body(&BODY_TOO_LARGE, "", message);
    }
}
