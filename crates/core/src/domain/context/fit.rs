//! Fits a context into its limit.

use super::{
    Context, ContextInput, ContextOptions, Elision, Passes, Thinking,
    passes::Pass,
    plan::{Plan, numbers},
    steps::{self, Decision},
    truncate_results,
};
use crate::domain::tokens::TokenCounter;

/// Builds the context with all thinking. Returns `None` unless the whole window fits unchanged.
pub(super) fn build_complete<'a>(
    input: &ContextInput<'a>,
    options: &ContextOptions,
    counter: &dyn TokenCounter,
    passes: Passes,
) -> Option<Context<'a>> {
    let plan = Plan::new(input, options, Thinking::All, counter, passes);
    let is_whole = input.left_out.is_empty()
        && !limit(&plan, passes).is_some_and(|limit| steps::is_forced(&plan, limit));
    is_whole.then(|| finish(plan, Decision::default()))
}

pub(super) fn fit<'a>(
    input: &ContextInput<'a>,
    options: &ContextOptions,
    thinking: Thinking,
    counter: &dyn TokenCounter,
    passes: Passes,
) -> Context<'a> {
    let plan = Plan::new(input, options, thinking, counter, passes);
    let limit = limit(&plan, passes);
    let decision = limit.map_or_else(Decision::default, |limit| steps::decide(&plan, limit));
    finish(plan, decision)
}

fn limit(plan: &Plan<'_, '_>, passes: Passes) -> Option<i64> {
    plan.options.limit_tokens().filter(|_| passes.has(Pass::Fitting))
}

fn finish<'a>(mut plan: Plan<'_, 'a>, decision: Decision) -> Context<'a> {
    let Decision { start, cuts } = decision;
    let (input, counter) = (plan.input, plan.counter);
    let mut elided: Vec<Elision> = Vec::new();
    for cut in cuts {
        let turn = &mut plan.body[cut.turn];
        elided.extend(truncate_results::shorten_piece(turn, cut.piece, cut.keep, cut.tokens));
    }
    plan.drop_before(start);
    elided.append(&mut plan.own_answers);
    elided.sort_by_key(|elision| elision.exchange);
    let unread = input.left_out.iter().copied();
    let left_out = unread.chain(numbers(&input.exchanges[..start])).collect();
    let selection = plan.choose_copies(start);
    let copied = selection.chosen.iter().map(|&index| plan.copies.seq(index)).collect();
    let limit_tokens = plan.options.limit_tokens();
    let turns = plan.assemble(start);
    let tokens = turns.iter().map(|turn| turn.tokens(counter)).sum();
    Context {
        turns,
        tokens,
        limit_tokens,
        over_budget: limit_tokens.is_some_and(|limit| tokens > limit),
        left_out,
        copied,
        left_copies: selection.left_out,
        elided,
    }
}
