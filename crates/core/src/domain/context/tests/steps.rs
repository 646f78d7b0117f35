//! Steps that the limit forces, in runs of many rounds.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicU64, Ordering},
};

use proptest::{collection::vec, prelude::*};

use super::{
    run::{AgentRun, Before, REQUEST, RoundOf, round_of, without_users},
    *,
};
use crate::domain::tokens::count_message;

fn flat(context: &Context<'_>) -> Vec<String> {
    let pieces = context.turns.iter().flat_map(|turn| &turn.pieces);
    pieces.map(|piece| format!("{:?} {:?}", piece.origin, piece.parts)).collect()
}

/// The part of a context that a step can change.
fn decided(context: &Context<'_>) -> (Vec<i64>, Vec<Elision>) {
    (context.left_out.clone(), context.elided.clone())
}

fn options(max_tokens: i64) -> ContextOptions {
    ContextOptions { max_tokens, system_in_place: true, ..ContextOptions::default() }
}

fn run(rounds: &[RoundOf], leg_tokens: i64) -> AgentRun {
    AgentRun::new(Format::OpenAiChat, rounds, leg_tokens)
}

/// A message of the model without a call and its next message make one turn, but two rounds.
#[test]
fn a_round_after_words_alone_counts_as_new() {
    let of = |results: Vec<usize>| RoundOf { before: Before::Nothing, said: 10, results };
    let rounds: Vec<RoundOf> =
        (0..60).map(|at| of(if at % 4 == 1 { Vec::new() } else { vec![6_000] })).collect();
    let run = run(&rounds, 10_000);
    let mut shortened = 0;
    for built in 1..=rounds.len() {
        let input = run.input(built, 1);
        let context = build(&input, &options(60_000), &Characters);
        let newest = (1..)
            .zip(&run.messages)
            .find(|(_, stored)| stored.round + 3 >= built)
            .map_or(i64::MAX, |(seq, _)| seq);
        shortened += context.elided.len();
        assert!(
            context.elided.iter().all(|elision| elision.seq < Some(newest)),
            "{built}: {:?}",
            context.elided
        );
    }
    assert!(shortened > 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Legs and rounds are small compared with the limit, as in the daemon: few steps, and new results stay whole.
    #[test]
    fn between_two_steps_a_request_begins_with_the_one_before(
        rounds in vec(round_of(14), 1..160),
        times in 8..14_i64,
        skipped in 0..3_i64,
        with_users in any::<bool>(),
    ) {
        let rounds = if with_users { rounds } else { without_users(rounds) };
        let biggest = run(&rounds, 0).rounds.into_iter().max().unwrap();
        let limit = biggest * times + 2_000;
        let run = run(&rounds, limit / 6);
        let first = 1 + skipped.min(run.messages.last().unwrap().exchange - 1);
        let from = run.messages.iter().find(|stored| stored.exchange == first).unwrap().round + 1;
        let (mut before, mut steps, mut tokens): (Option<Context<'_>>, i64, i64) = (None, 0, 0);
        let mut is_call = false;
        for built in from..=rounds.len() {
            let input = run.input(built, first);
            let context = build(&input, &options(limit), &Characters);
            tokens += run.rounds[built - 1];
            prop_assert!(!context.over_budget, "{} of {limit}", context.tokens);
            let row = &input.exchanges[context.left_out.len()];
            let copies = usize::from(row.first_leg < row.exchange);
            let whole = flat(&context);
            let asked = format!("{REQUEST:?}");
            let asked = asked.trim_matches('"');
            let copied = whole.iter().filter(|piece| piece.contains(asked) && piece.contains("Request")).count();
            let first_stored = run.messages.iter().find(|stored| stored.exchange == row.first_leg).unwrap();
            prop_assert_eq!(copied, copies * usize::from(first_stored.message.text() == REQUEST));
            let newest: BTreeSet<i64> = (1..).zip(&run.messages)
                .filter(|(_, stored)| stored.round < built && stored.round + 3 >= built)
                .map(|(seq, _)| seq)
                .collect();
            prop_assert!(context.elided.iter().all(|elision| !newest.contains(&elision.seq.unwrap())));
            // The model is called after results and after the user's words.
            if let Some(before) = before.as_ref().filter(|_| is_call) {
                let shared = flat(before).iter().zip(&whole).take_while(|(one, other)| one == other).count();
                let is_step = decided(before) != decided(&context);
                steps += i64::from(is_step);
                prop_assert!(is_step || shared == flat(before).len(), "{:.300} {:.300}", flat(before)[shared], whole[shared]);
            }
            is_call = run.is_call_after(built - 1);
            before = Some(context);
        }
        prop_assert!(steps <= tokens * 5 / limit + 1, "{steps} steps in {tokens} tokens, {limit}");
    }

    /// Any limit is kept if possible, and changes happen only at steps.
    #[test]
    fn a_limit_is_kept_if_it_can_be(
        rounds in vec(round_of(14), 1..60),
        bits in 6..17_u32,
        leg_tokens in prop_oneof![Just(i64::MAX), 500..20_000_i64],
    ) {
        let run = run(&rounds, leg_tokens);
        let limit = 1_i64 << bits;
        let mut before: Option<Context<'_>> = None;
        for built in 1..=rounds.len() {
            let input = run.input(built, 1);
            let context = build(&input, &options(limit), &Characters);
            if context.over_budget {
                prop_assert_eq!(context.left_out.len() + 1, input.exchanges.len());
                let mut results = context.turns.iter().flat_map(Turn::parts);
                let is_short = |part: &Part| !matches!(part, Part::ToolResult { text, .. } if text.chars().count() > 60);
                prop_assert!(results.all(is_short));
            }
            let whole = flat(&context);
            let is_same = |before: &&Context<'_>| decided(before) == decided(&context);
            if let Some(before) = before.as_ref().filter(is_same).filter(|_| run.is_call_after(built - 2)) {
                prop_assert!(whole.starts_with(&flat(before)), "{:?} {:?}", flat(before), whole);
            }
            before = Some(context);
        }
    }
}

fn even(rounds: usize, chars: usize) -> Vec<RoundOf> {
    let round = RoundOf { before: Before::Nothing, said: 20, results: vec![chars] };
    vec![round; rounds]
}

#[test]
fn old_results_get_smaller_with_age_and_the_newest_are_whole() {
    let run = run(&even(120, 6_000), 100_000);
    let context_of = |max_tokens| {
        let input = run.input(120, 1);
        let context = build(&input, &options(max_tokens), &Characters);
        let parts = context.turns.iter().flat_map(Turn::parts);
        let lengths: Vec<usize> = parts
            .filter_map(|part| match part {
                Part::ToolResult { text, .. } => Some(text.chars().count() / 250 * 250),
                _ => None,
            })
            .collect();
        (lengths, context.left_out, context.over_budget)
    };
    let (lengths, left_out, over_budget) = context_of(600_000);
    assert_eq!((left_out, over_budget), (vec![], false));
    assert!(lengths.is_sorted() && lengths[117..] == [6_000; 3], "{lengths:?}");
    let sizes: BTreeSet<usize> = lengths.iter().copied().collect();
    assert_eq!(sizes, BTreeSet::from([1_000, 4_000, 6_000]));
    // Then the oldest legs are left out.
    let (lengths, left_out, over_budget) = context_of(60_000);
    assert!(!over_budget && left_out[0] == 1 && lengths.len() < 100, "{left_out:?} {}", lengths.len());
    assert!(lengths.is_sorted() && lengths[lengths.len() - 3..] == [6_000; 3], "{lengths:?}");
}

#[test]
fn one_oversized_result_displaces_nothing_else() {
    let mut rounds = even(20, 500);
    rounds[19].results = vec![400_000];
    let run = run(&rounds, 4_000);
    let input = run.input(20, 1);
    let context = build(&input, &options(50_000), &Characters);
    assert_eq!((context.left_out.len(), context.over_budget), (0, false));
    let chars: Vec<usize> = context.elided.iter().map(|elision| elision.chars).collect();
    assert_eq!(chars, [400_000 - 16_000]);
}

/// A counter for which the ends of a text have ten times as many tokens per character as the middle.
struct DenseEnds(AtomicU64);

impl TokenCounter for DenseEnds {
    fn count(&self, text: &str) -> i64 {
        self.0.fetch_add(1, Ordering::Relaxed);
        let chars = i64_or_max(text.chars().count());
        chars.min(4_000) + (chars - 4_000).max(0) / 10
    }

    fn method(&self) -> &'static str {
        "dense"
    }
}

/// Such ends make the estimate too low. The exact count still keeps the limit.
#[test]
fn a_limit_is_kept_where_the_ends_of_results_are_dense() {
    let run = run(&even(60, 40_000), 30_000);
    for limit in [20_000, 40_000, 80_000] {
        let mut before: Option<Context<'_>> = None;
        let mut steps = 0;
        for built in 4..=60 {
            let mut input = run.input(built, 1);
            let counter = DenseEnds(AtomicU64::new(0));
            for source in input.exchanges.iter_mut().flat_map(|row| &mut row.messages) {
                source.tokens = Some(count_message(&counter, source.message));
            }
            let context = build(&input, &options(limit), &counter);
            assert!(context.tokens <= limit && !context.over_budget, "{}", context.tokens);
            let sum: i64 = context.turns.iter().map(|turn| turn.tokens(&counter)).sum();
            assert_eq!(sum, context.tokens);
            if let Some(before) = &before {
                let is_step = decided(before) != decided(&context);
                steps += i32::from(is_step);
                assert!(is_step || flat(&context).starts_with(&flat(before)));
            }
            before = Some(context);
        }
        assert!(steps < 57, "{steps} at {limit}");
    }
}

/// Texts stored with their tokens aren't counted again, and shortened ones are counted once, however many steps there are.
#[test]
fn texts_of_a_long_history_are_counted_once() {
    let run = run(&even(3_000, 400), 43_000);
    let input = run.input(3_000, 1);
    assert_eq!(input.exchanges.len(), 31);
    for max_tokens in [10_000, 100_000, 1_000_000, 2_000_000] {
        let counter = DenseEnds(AtomicU64::new(0));
        let context = build(&input, &options(max_tokens), &counter);
        let counts = counter.0.load(Ordering::Relaxed);
        // A few counts of the head, for each leg that it could begin with.
        let few = context.elided.len() as u64 + 10 * input.exchanges.len() as u64;
        assert!(!context.over_budget && counts <= few, "{counts} counts, {few}");
    }
}

#[test]
fn thinking_is_dropped_once() {
    let think = |at: usize| {
        let call = serde_json::json!({"type": "tool_use", "id": at.to_string(), "name": "run", "input": {}});
        let thought =
            serde_json::json!({"type": "thinking", "thinking": format!("thought {at}"), "signature": "s"});
        let json = serde_json::json!({"role": "assistant", "content": [thought, call]});
        formats::parse(Format::Anthropic, &json.to_string()).unwrap()
    };
    let result = |at: usize| {
        let block = serde_json::json!({"type": "tool_result", "tool_use_id": at.to_string(), "content": "x".repeat(400)});
        let json = serde_json::json!({"role": "user", "content": [block]});
        formats::parse(Format::Anthropic, &json.to_string()).unwrap()
    };
    let mut messages = vec![message("u go")];
    messages.extend((0..40).flat_map(|at| [think(at), result(at)]));
    let sends = |through: usize| {
        let input = ContextInput {
            exchanges: vec![SourceExchange {
                exchange: 1,
                first_leg: 1,
                is_open: true,
                messages: (1..)
                    .zip(&messages[..through])
                    .map(|(seq, message)| SourceMessage::uncounted(seq, message))
                    .collect(),
            }],
            ..ContextInput::default()
        };
        brief(&build(&input, &options(5_000), &Characters).turns).contains("(thought")
    };
    let sent: Vec<bool> = (1..=40).map(|rounds| sends(1 + 2 * rounds)).collect();
    assert!(sent[0] && !sent[39]);
    assert!(sent.is_sorted_by(|before, next| before >= next), "{sent:?}");
}
