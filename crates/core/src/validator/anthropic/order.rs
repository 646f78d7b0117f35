//! Checks the first message, the last one, and the alternation of roles.

use super::{
    FIRST_MESSAGE, PREFILL, RESULTS_SPLIT, ROLES_ALTERNATE, TRAILING_WHITESPACE,
    turn::{Conversation, RoleMessage, TurnRole},
};
use crate::validator::{findings::Findings, request::RequestToCheck};

/// The first version that refuses an assistant message at the end, a *prefill*, which older versions continue.
const NO_PREFILL_FROM: (u32, u32) = (4, 6);

pub(super) fn check(request: &RequestToCheck<'_>, conversation: &Conversation<'_>, findings: &mut Findings) {
    check_first(conversation, findings);
    check_alternation(conversation, findings);
    check_last(request, conversation, findings);
}

fn check_first(conversation: &Conversation<'_>, findings: &mut Findings) {
    let Some(first) = conversation.messages.first().filter(|message| message.role == TurnRole::Assistant)
    else {
        return;
    };
    // Anthropic's own compaction may come first: it replaces the messages that it summarises.
    let is_compaction = first.blocks.first().is_some_and(|block| block.kind == "compaction");
    if !is_compaction {
        let text = "messages: first message must use the \"user\" role";
        findings.add(&FIRST_MESSAGE, format_args!("/{}", first.index), text);
    }
}

fn check_alternation(conversation: &Conversation<'_>, findings: &mut Findings) {
    let has_results =
        |message: &RoleMessage<'_>| message.blocks.iter().any(|block| block.kind == "tool_result");
    for pair in conversation.messages.windows(2) {
        let [before, after] = pair else { continue };
        if before.role != after.role || before.role == TurnRole::System {
            continue;
        }
        let pointer = format!("/{}", after.index);
        if has_results(before) && has_results(after) {
            let text = "results of parallel calls belong in one user message; separate ones are joined, but teach \
                        the model not to call in parallel";
            findings.add(&RESULTS_SPLIT, pointer, text);
        } else {
            let text = "messages: roles must alternate between \"user\" and \"assistant\" (the API joins them, \
                        compatible servers may refuse)";
            findings.add(&ROLES_ALTERNATE, pointer, text);
        }
    }
}

fn check_last(request: &RequestToCheck<'_>, conversation: &Conversation<'_>, findings: &mut Findings) {
    let Some(last) = conversation.messages.last().filter(|message| message.role == TurnRole::Assistant)
    else {
        return;
    };
    // A turn that paused while Anthropic ran a tool is sent back as it came.
    let is_paused = last.blocks.iter().any(|block| block.is_server_call() || block.is_server_result());
    if is_paused {
        return;
    }
    let pointer = format!("/{}", last.index);
    let refuses_prefill = request.model.claude().map(|version| version >= NO_PREFILL_FROM);
    let text = "This model does not support assistant message prefill. The conversation must end with a user \
                message.";
    findings.add_if(refuses_prefill, &PREFILL, &pointer, text);
    let end = last.blocks.last().and_then(|block| block.text);
    if end.is_some_and(|text| text.trim_end().len() < text.len()) {
        let text = "messages: final assistant content cannot end with trailing whitespace";
        findings.add(&TRAILING_WHITESPACE, pointer, text);
    }
}
