//! Checks where thinking blocks stand. One request can't show whether a block was changed.

use super::{
    THINKING_FIRST, THINKING_LAST,
    turn::{Block, RoleTurn, TurnRole},
};
use crate::validator::{findings::Findings, request::RequestToCheck};

/// The last version that requires a thinking block in the open tool round when manual thinking is on.
const REQUIRES_THINKING_UP_TO: (u32, u32) = (4, 5);

pub(super) fn check(request: &RequestToCheck<'_>, turns: &[RoleTurn<'_>], findings: &mut Findings) {
    for turn in turns.iter().filter(|turn| turn.role == TurnRole::Assistant) {
        if turn.blocks.last().is_some_and(Block::is_thinking) {
            let message = turn.last_message();
            let text =
                format!("messages.{message}: The final block in an assistant message cannot be `thinking`.");
            findings.add(&THINKING_LAST, format_args!("/{message}"), text);
        }
    }
    let mode = request.body().and_then(|body| body.get("thinking"));
    if mode.is_some_and(|mode| mode["type"] == "enabled") {
        check_open_round(request, turns, findings);
    }
}

/// Returns the assistant turns of the open tool round, newest first: the calls and results at the end of the request, and an assistant
/// turn after them.
fn open_round<'a, 'b>(turns: &'b [RoleTurn<'a>]) -> impl Iterator<Item = &'b RoleTurn<'a>> {
    let answers = |turn: &RoleTurn<'_>| turn.blocks.iter().any(|block| block.kind == "tool_result");
    turns
        .iter()
        .rev()
        .take_while(move |turn| turn.role == TurnRole::Assistant || answers(turn))
        .filter(|turn| turn.role == TurnRole::Assistant)
}

/// Checks that a turn of the open round starts with thinking. One such turn is enough, since a model that doesn't think between calls
/// thinks only at the start of the round.
fn check_open_round(request: &RequestToCheck<'_>, turns: &[RoleTurn<'_>], findings: &mut Findings) {
    let starts_thinking = |turn: &RoleTurn<'_>| turn.blocks.first().is_some_and(Block::is_thinking);
    let Some(first) = open_round(turns).next().and_then(|turn| turn.blocks.first()) else {
        return;
    };
    if open_round(turns).any(starts_thinking) {
        return;
    }
    let requires_thinking = request.model.claude().map(|version| version <= REQUIRES_THINKING_UP_TO);
    let text = format!(
        "{}.type: Expected `thinking` or `redacted_thinking`, but found `{}`. When `thinking` is enabled, a final \
         `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and \
         `tool_result` blocks).",
        first.name(),
        first.kind
    );
    findings.add_if(requires_thinking, &THINKING_FIRST, format_args!("/{}", first.message), text);
}
