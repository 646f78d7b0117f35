//! Random conversations, budgets, modes and targets: no request is ever invalid.

use std::collections::BTreeSet;

use proptest::{collection::vec, option, prelude::*};
use serde_json::{Value, json};

use super::{Characters, RequestFormat, checker::check, input_of, render};
use crate::{
    domain::{
        context::{
            Alternation, Context, ContextInput, ContextOptions, PieceOrigin, SourceCopy, SourceExchange,
            build,
        },
        message::{Format, Message, Part},
        round::{ResponsePart, Round},
        text::cut,
    },
    formats,
};

fn words() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[a-z]{1,20}( [a-z]{1,12}){0,4}",
        1 => Just(String::new()),
        1 => Just(" \n".to_owned()),
        1 => "\\PC{1,40}",
        1 => (200..3_000_usize).prop_map(|chars| "wörd ".repeat(chars / 5)),
    ]
}

fn id() -> impl Strategy<Value = Option<String>> {
    option::weighted(0.8, prop_oneof![Just("a".to_owned()), Just("b".to_owned()), Just("f/1".to_owned())])
}

/// A signature, or what servers other than Anthropic's write: an empty one or none.
fn signature() -> impl Strategy<Value = Option<&'static str>> {
    prop_oneof![3 => Just(Some("s")), 1 => Just(Some("")), 1 => Just(None)]
}

fn call(id: Option<&str>) -> Value {
    json!({"type": "tool_use", "id": id, "name": "ls", "input": {"path": "."}})
}

fn result(id: Option<&str>, text: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": text})
}

fn payload() -> impl Strategy<Value = (Format, Value)> {
    let anthropic = |value: Value| (Format::Anthropic, value);
    let openai = |value: Value| (Format::OpenAiChat, value);
    let native = |value: Value| (Format::Native, value);
    prop_oneof![
        2 => words().prop_map(move |text| anthropic(json!({"role": "user", "content": text}))),
        2 => words().prop_map(move |text| openai(json!({"role": "user", "content": text}))),
        2 => words().prop_map(move |text| openai(json!({"role": "assistant", "content": text}))),
        2 => (signature(), words(), vec(id(), 0..3)).prop_map(move |(signature, text, ids)| {
            let mut blocks = vec![json!({"type": "thinking", "thinking": "hm", "signature": signature}), json!({"type": "text", "text": text})];
            blocks.extend(ids.iter().map(|id| call(id.as_deref())));
            anthropic(json!({"role": "assistant", "content": blocks}))
        }),
        2 => (words(), vec((id(), words()), 1..3), any::<bool>()).prop_map(move |(text, results, first)| {
            let mut blocks: Vec<Value> = results.iter().map(|(id, text)| result(id.as_deref(), text)).collect();
            blocks.insert(if first { 0 } else { blocks.len() }, json!({"type": "text", "text": text}));
            anthropic(json!({"role": "user", "content": blocks}))
        }),
        2 => (id(), id()).prop_map(move |(one, other)| {
            let calls = [one, other].map(|id| json!({"id": id, "type": "function", "function": {"name": "ls", "arguments": "{}"}}));
            openai(json!({"role": "assistant", "content": null, "tool_calls": calls}))
        }),
        3 => (id(), words()).prop_map(move |(id, text)| openai(json!({"role": "tool", "tool_call_id": id, "content": text}))),
        1 => (id(), words()).prop_map(move |(id, text)| native(json!({"kind": "tool_call", "content": text, "name": "ls", "tool_call_id": id, "arguments": "not json"}))),
        1 => (id(), words()).prop_map(move |(id, text)| native(json!({"kind": "tool_result", "content": text, "name": "ls", "tool_call_id": id}))),
        1 => (words(), any::<bool>()).prop_map(move |(text, calls)| {
            let blocks = if calls { vec![call(None), result(None, &text)] } else { vec![result(None, &text)] };
            native(json!({"kind": if calls { "user" } else { "assistant" }, "content": blocks}))
        }),
        1 => words().prop_map(move |text| native(json!({"kind": "system", "content": text}))),
        1 => Just(native(json!({"kind": "interrupted"}))),
        1 => Just(openai(json!({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}))),
    ]
}

fn conversation() -> impl Strategy<Value = Vec<Message>> {
    vec(payload(), 0..30).prop_map(|payloads| {
        let read = |(format, payload): (Format, Value)| formats::parse(format, &payload.to_string()).unwrap();
        payloads.into_iter().map(read).collect()
    })
}

fn options() -> impl Strategy<Value = ContextOptions> {
    let mode = prop_oneof![Just(Alternation::Merge), Just(Alternation::Ack), Just(Alternation::Keep)];
    let budget = prop_oneof![Just(0), 1..300_i64, 300..6_000_i64];
    (budget, any::<bool>(), any::<bool>(), mode, any::<bool>()).prop_map(
        |(max_tokens, anchor, keep_open_thinking, alternation, system_in_place)| ContextOptions {
            max_tokens,
            output_reserve_tokens: 50,
            anchor,
            alternation,
            system_in_place,
            keep_open_thinking,
            ends_with_user: keep_open_thinking,
            ..ContextOptions::default()
        },
    )
}

/// Copies of every `nth` message outside the preamble, some of them pinned.
fn copies_of<'a>(input: &ContextInput<'a>, nth: i64) -> Vec<SourceCopy<'a>> {
    let of_exchange = |exchange: &SourceExchange<'a>| {
        let number = exchange.exchange;
        let messages = exchange.messages.clone().into_iter();
        messages.map(move |message| SourceCopy { exchange: number, pinned: message.seq % 2 == 0, message })
    };
    let all = input.exchanges.iter().flat_map(of_exchange);
    all.filter(|copy| copy.message.seq % nth == 0).collect()
}

/// The same window with exchanges stored in legs of at least `messages` messages; with 0, as whole exchanges.
fn in_legs(mut input: ContextInput<'_>, messages: usize) -> ContextInput<'_> {
    if messages == 0 {
        return input;
    }
    let mut legs: Vec<SourceExchange<'_>> = Vec::new();
    for row in std::mem::take(&mut input.exchanges) {
        let first_leg = i64::try_from(legs.len()).unwrap() + 1;
        let mut newest = None;
        for (at, source) in row.messages.into_iter().enumerate() {
            let (kind, part) = (&source.message.kind, ResponsePart::of(source.message));
            let is_full = legs.last().is_some_and(|leg| leg.messages.len() >= messages);
            if at == 0 || (is_full && Round::is_begun_by(newest.as_ref(), kind, &part)) {
                legs.push(SourceExchange {
                    exchange: i64::try_from(legs.len()).unwrap() + 1,
                    first_leg,
                    is_open: row.is_open,
                    messages: Vec::new(),
                });
            }
            newest = Round::after(newest, kind, &part);
            legs.last_mut().unwrap().messages.push(source);
        }
    }
    input.exchanges = legs;
    input
}

/// Returns the numbers of the stored messages that are in the turns.
fn stored(context: &Context<'_>) -> BTreeSet<i64> {
    let pieces = context.turns.iter().flat_map(|turn| &turn.pieces);
    pieces
        .filter_map(|piece| match piece.origin {
            PieceOrigin::Stored { seq } => Some(seq),
            PieceOrigin::Synthetic(_) => None,
        })
        .collect()
}

/// Returns true if a message may leave its place: results move to their calls, and a message with nothing but thinking disappears if
/// thinking is left out.
fn may_move(message: &Message) -> bool {
    let says = |part: &Part| match part {
        Part::Text(text) => !text.trim().is_empty(),
        part => !matches!(part, Part::Thinking(_)),
    };
    let is_result = |part: &Part| matches!(part, Part::ToolResult { .. });
    message.parts.iter().any(is_result) || !message.parts.iter().any(says)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn no_request_is_ever_invalid(
        messages in conversation(),
        options in options(),
        evicted in any::<bool>(),
        summary in option::of(words()),
        pins_max_tokens in 0..300_i64,
        nth in 1..5_i64,
        leg_messages in 0..5_usize,
    ) {
        let mut input = in_legs(input_of(&messages), leg_messages);
        let options = ContextOptions { pins_max_tokens, ..options };
        input.copies = copies_of(&input, nth);
        input.evicted = evicted;
        input.summary = summary.filter(|text| !text.trim().is_empty());
        let context = build(&input, &options, &Characters);
        let counted: i64 = context.turns.iter().map(|turn| turn.tokens(&Characters)).sum();
        prop_assert_eq!(counted, context.tokens);
        let left = context.left_copies.iter().map(|left| left.seq);
        let listed: BTreeSet<i64> = context.copied.iter().copied().chain(left).collect();
        prop_assert_eq!(listed.len(), context.copied.len() + context.left_copies.len());
        let in_request = stored(&context);
        prop_assert!(context.copied.iter().all(|seq| !in_request.contains(seq) || may_move(&messages[usize::try_from(*seq - 1).unwrap()])));
        prop_assert!(context.over_budget || context.limit_tokens.is_none_or(|limit| counted <= limit));
        for target in RequestFormat::ALL {
            let targeted = ContextOptions { system_in_place: target.takes_system_in_place(), ..options };
            let context = build(&input, &targeted, &Characters);
            let out = render(target, &context.turns);
            let alternates = options.alternation != Alternation::Keep;
            let verdict = check(target, &out.body, alternates);
            prop_assert!(verdict.is_ok(), "{:?} {}: {}", targeted, verdict.unwrap_err(), cut(&out.body.to_string(), 4_000));
            let again = render(target, &build(&input, &targeted, &Characters).turns);
            prop_assert_eq!(out.body.to_string(), again.body.to_string());
        }
    }

    #[test]
    fn exchanges_are_sent_whole_or_not_at_all(
        messages in conversation(),
        options in options(),
        leg_messages in 0..5_usize,
    ) {
        let input = in_legs(input_of(&messages), leg_messages);
        let everything = build(&input, &ContextOptions { max_tokens: 0, ..options }, &Characters);
        let whole = stored(&everything);
        prop_assert_eq!(&everything.left_out, &Vec::<i64>::new());
        let context = build(&input, &options, &Characters);
        let sent = stored(&context);
        let anchor = input.anchor.map(|anchor| anchor.seq);
        for (place, exchange) in input.exchanges.iter().enumerate() {
            let seqs: BTreeSet<i64> = exchange.messages.iter().map(|message| message.seq).collect();
            let is_out = context.left_out.contains(&exchange.exchange);
            prop_assert_eq!(is_out, place < context.left_out.len(), "the oldest leave first");
            prop_assert!(!is_out || place + 1 < input.exchanges.len(), "the newest never leaves");
            let expected: BTreeSet<i64> = if is_out { BTreeSet::new() } else { whole.intersection(&seqs).copied().collect() };
            let found: BTreeSet<i64> = sent.intersection(&seqs).copied().collect();
            let found: BTreeSet<i64> = found.into_iter().filter(|seq| !is_out || Some(*seq) != anchor).collect();
            // A late result moves to its call, so it is in the request exactly if its call is.
            let stray: Vec<i64> = found.symmetric_difference(&expected).copied().collect();
            prop_assert!(stray.iter().all(|seq| may_move(&messages[usize::try_from(*seq - 1).unwrap()])), "{:?}", stray);
        }
    }
}
