//! Checks tools that Anthropic runs: each call has its result, and each result its call.

use std::collections::HashSet;

use serde_json::Value;

use super::{
    SERVER_CALL_UNANSWERED, SERVER_RESULT_ORPHAN, SERVER_TOOL_GONE,
    turn::{Block, RoleTurn, TurnRole},
};
use crate::validator::{
    findings::{Findings, shorten},
    request::RequestToCheck,
};

pub(super) fn check(request: &RequestToCheck<'_>, turns: &[RoleTurn<'_>], findings: &mut Findings) {
    let mut called = HashSet::new();
    for (position, turn) in turns.iter().enumerate() {
        if turn.role != TurnRole::Assistant {
            continue;
        }
        for block in &turn.blocks {
            if block.is_server_call() {
                called.insert(block.text_of("id").unwrap_or_default());
                check_call(request, turns, position, block, findings);
            } else if block.is_server_result() {
                check_result(&called, block, findings);
            }
        }
    }
    check_advisor(request, turns, findings);
}

/// Returns true if Anthropic may still run the calls of the turn at `position`: the turn ends the request, or only one turn follows, in
/// which the user answers the client's own calls.
fn is_open(turns: &[RoleTurn<'_>], position: usize) -> bool {
    match turns.get(position + 1..) {
        None | Some([]) => true,
        Some([next]) => next.is_only_results(),
        Some(_) => false,
    }
}

/// Returns true if the turn at `position` has a result of the call `id`, or the model's next turn has it and the user only answered the
/// client's own calls in between.
fn is_answered(turns: &[RoleTurn<'_>], position: usize, id: &str) -> bool {
    let answers = |turn: &RoleTurn<'_>| {
        let mut results = turn.blocks.iter().filter(|block| block.is_server_result());
        results.any(|block| block.text_of("tool_use_id") == Some(id))
    };
    let continues = turns.get(position + 1).is_some_and(RoleTurn::is_only_results);
    turns.get(position).is_some_and(answers) || continues && turns.get(position + 2).is_some_and(answers)
}

fn check_call(
    request: &RequestToCheck<'_>,
    turns: &[RoleTurn<'_>],
    position: usize,
    call: &Block<'_>,
    findings: &mut Findings,
) {
    let id = call.text_of("id").unwrap_or_default();
    if is_answered(turns, position, id) {
        return;
    }
    let name = shorten(call.text_of("name").unwrap_or_default());
    let text = format!(
        "messages.{}: `{name}` tool use with id `{}` was found without a corresponding `{name}_tool_result` block",
        call.message,
        shorten(id)
    );
    if !is_open(turns, position) {
        findings.add(&SERVER_CALL_UNANSWERED, call.pointer(), text);
    } else if call.kind == "server_tool_use" && is_undefined(request, &name) {
        let text = format!("{text}, but no {name} tool was provided");
        findings.add(&SERVER_TOOL_GONE, call.pointer(), text);
    }
}

/// Returns true if the body is known and doesn't define the tool `name`. The definition of `code_execution` also defines
/// `bash_code_execution`.
fn is_undefined(request: &RequestToCheck<'_>, name: &str) -> bool {
    let Some(body) = request.body() else { return false };
    let tools = body.get("tools").and_then(Value::as_array).into_iter().flatten();
    let defines = |tool: &Value| {
        let has_name = tool["name"].as_str().is_some_and(|tool| !tool.is_empty() && name.contains(tool));
        has_name || tool["type"].as_str().is_some_and(|kind| kind.starts_with(name))
    };
    !tools.into_iter().any(defines)
}

fn check_result(called: &HashSet<&str>, result: &Block<'_>, findings: &mut Findings) {
    let Some(id) = result.text_of("tool_use_id") else {
        return;
    };
    if !called.contains(id) {
        let call = if result.kind == "mcp_tool_result" { "mcp_tool_use" } else { "server_tool_use" };
        let kind = shorten(result.kind);
        let text = format!(
            "{}: unexpected `tool_use_id` found in `{kind}` blocks: {}. Each `{kind}` block must have a corresponding \
             `{call}` block before it.",
            result.name(),
            shorten(id)
        );
        findings.add(&SERVER_RESULT_ORPHAN, result.pointer(), text);
    }
}

/// Checks that the request defines the advisor tool if any turn, however old, has an advisor's result.
fn check_advisor(request: &RequestToCheck<'_>, turns: &[RoleTurn<'_>], findings: &mut Findings) {
    let mut blocks = turns.iter().flat_map(|turn| &turn.blocks);
    let advice = blocks.find(|block| block.kind == "advisor_tool_result");
    if let Some(advice) = advice.filter(|_| is_undefined(request, "advisor")) {
        let text = format!("{}: `advisor_tool_result` without the advisor tool in `tools`", advice.name());
        findings.add(&SERVER_TOOL_GONE, advice.pointer(), text);
    }
}
