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
    request::RequestToCheck,
};
use turn::Conversation;

/// The most messages that Anthropic accepts in a request.
const MESSAGES_MAX: usize = 100_000;
/// The largest body that Anthropic accepts: 32 MB.
const BODY_BYTES_MAX: usize = 32 * 1024 * 1024;

// Each comment says what breaks the rule.
/// The request has no messages.
const MESSAGES_MISSING: Rule = Rule::refused("messages_missing", Schema);
/// There are more messages than [`MESSAGES_MAX`].
const MESSAGES_TOO_MANY: Rule = Rule::refused("messages_too_many", Documented);
/// The body is larger than [`BODY_BYTES_MAX`].
const BODY_TOO_LARGE: Rule = Rule::refused("body_too_large", Documented);
/// A message has no role, or an unknown one.
const ROLE: Rule = Rule::refused("role", Schema);
/// A message is no object, its content is neither a string nor a list, or a block has no type.
const CONTENT_SHAPE: Rule = Rule::refused("content_shape", Schema);
/// A message has no content and isn't the assistant's last one.
const CONTENT_EMPTY: Rule = Rule::refused("content_empty", Reported);
/// A text block has no text, or only white space.
const TEXT_EMPTY: Rule = Rule::refused("text_empty", Reported);
/// A text block inside a result has no text.
const RESULT_TEXT_EMPTY: Rule = Rule::risky("result_text_empty", Unverified);
/// A block lacks a required field, or the field has the wrong type.
const FIELD_MISSING: Rule = Rule::refused("field_missing", Schema);
/// The id of a call or result has a character that ids can't have.
const ID_PATTERN: Rule = Rule::refused("id_pattern", Reported);
/// A message has a block that its role can't have, such as a call in a user message.
const BLOCK_ROLE: Rule = Rule::refused("block_role", Reported);
/// An assistant message has a document. Newer versions of the API refuse that.
const DOCUMENT_IN_ASSISTANT: Rule = Rule::risky("document_in_assistant", Documented);
/// The first message is the assistant's.
const FIRST_MESSAGE: Rule = Rule::refused("first_message", Reported);
/// The last message is the assistant's, and the model doesn't continue such a message.
const PREFILL: Rule = Rule::refused("prefill", Documented);
/// The last message is the assistant's and ends with white space.
const TRAILING_WHITESPACE: Rule = Rule::refused("trailing_whitespace", Reported);
/// Two consecutive messages have the same role.
const ROLES_ALTERNATE: Rule = Rule::risky("roles_alternate", Schema);
/// The `system` field is neither a string nor a list of text blocks.
const SYSTEM_SHAPE: Rule = Rule::refused("system_shape", Schema);
/// The first message is a system message.
const SYSTEM_FIRST: Rule = Rule::refused("system_first", Documented);
/// A system message is where none may be, such as between a call and its result.
const SYSTEM_POSITION: Rule = Rule::refused("system_position", Documented);
/// A system message has a block that isn't text.
const SYSTEM_TEXT_ONLY: Rule = Rule::refused("system_text_only", Documented);
/// There is a system message, which only some models accept.
const SYSTEM_MODEL: Rule = Rule::risky("system_model", Documented);
/// The turn after a call has no result of it.
const CALL_UNANSWERED: Rule = Rule::refused("call_unanswered", Documented);
/// The turn before a result has no call with its id.
const RESULT_ORPHAN: Rule = Rule::refused("result_orphan", Reported);
/// Another block precedes a result in its turn.
const RESULT_NOT_FIRST: Rule = Rule::refused("result_not_first", Documented);
/// A call has two results.
const RESULT_TWICE: Rule = Rule::refused("result_twice", Unverified);
/// Several messages have the results of parallel calls.
const RESULTS_SPLIT: Rule = Rule::risky("results_split", Documented);
/// Two calls have the same id.
const ID_TWICE: Rule = Rule::refused("id_twice", Reported);
/// A call of a tool that Anthropic runs has no result, although the conversation goes on.
const SERVER_CALL_UNANSWERED: Rule = Rule::refused("server_call_unanswered", Documented);
/// A result of a tool that Anthropic runs has no call before it.
const SERVER_RESULT_ORPHAN: Rule = Rule::refused("server_result_orphan", Reported);
/// `tools` doesn't define a tool that the request needs: one that Anthropic must still run, or the advisor if a turn has its result.
const SERVER_TOOL_GONE: Rule = Rule::refused("server_tool_gone", Documented);
/// A thinking block has no signature, or one that can't be Anthropic's.
const SIGNATURE: Rule = Rule::refused("signature", Documented);
/// A thinking block is the last block of an assistant turn.
const THINKING_LAST: Rule = Rule::refused("thinking_last", Reported);
/// No thinking block begins the open tool round, although manual thinking is on.
const THINKING_FIRST: Rule = Rule::refused("thinking_first", Reported);
/// The model doesn't have the requested thinking mode.
const THINKING_MODE: Rule = Rule::refused("thinking_mode", Documented);
/// The request sets a sampling parameter, which the model doesn't have.
const SAMPLING: Rule = Rule::refused("sampling", Documented);
/// The request forces a tool call, which the model refuses.
const FORCED_TOOL: Rule = Rule::refused("forced_tool", Documented);
/// There are more prompt cache markers than the API allows.
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

pub(super) fn check(request: &RequestToCheck<'_>, findings: &mut Findings) {
    check_size(request, findings);
    parameters::check(request, findings);
    let Some(messages) = request.messages() else {
        findings.add_to_messages(&MESSAGES_MISSING, "messages: Field required");
        return;
    };
    if messages.is_empty() {
        findings.add_to_messages(&MESSAGES_MISSING, "messages: at least one message is required");
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

fn check_size(request: &RequestToCheck<'_>, findings: &mut Findings) {
    let messages = request.messages().map_or(0, <[_]>::len);
    if messages > MESSAGES_MAX {
        let message = format!("messages: {messages} messages, more than the {MESSAGES_MAX} allowed");
        findings.add_to_messages(&MESSAGES_TOO_MANY, message);
    }
    let bytes = request.bytes();
    if bytes > BODY_BYTES_MAX {
        let message = format!("request_too_large: the body is {bytes} bytes, more than 32 MB");
        findings.add_to_body(&BODY_TOO_LARGE, message);
    }
}
