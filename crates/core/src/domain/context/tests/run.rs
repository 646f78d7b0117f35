//! Runs of many rounds, as clients of several formats store them, and the contexts requested in between.

use std::collections::BTreeMap;

use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};

use super::super::{ContextInput, SourceExchange, SourceMessage, SourceRequest};
use crate::{
    domain::{
        message::{Format, Kind, Message},
        round::{ResponsePart, Round},
        tokens::{Characters, count_message},
    },
    formats,
};

pub(crate) const REQUEST: &str = "Port the whole of it,\n\n\tand test each part.";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    Nothing,
    Instructions,
    User,
}

/// A round: the message before it, the length of the model's words, and the length of each call's result, 0 for none.
#[derive(Clone, Debug)]
pub(crate) struct RoundOf {
    pub(crate) before: Before,
    pub(crate) said: usize,
    pub(crate) results: Vec<usize>,
}

pub(crate) struct StoredMessage {
    pub(crate) message: Message,
    tokens: i64,
    pub(crate) round: usize,
    pub(crate) exchange: i64,
    pub(crate) first_leg: i64,
}

/// A run, with one token per character.
pub(crate) struct AgentRun {
    pub(crate) messages: Vec<StoredMessage>,
    /// The tokens of each round.
    pub(crate) rounds: Vec<i64>,
    leg_tokens: i64,
    newest_tokens: i64,
    newest_round: Option<Round>,
}

impl AgentRun {
    /// The run of `rounds` on one request, in legs of `leg_tokens`, as a client of `format` stores it.
    pub(crate) fn new(format: Format, rounds: &[RoundOf], leg_tokens: i64) -> Self {
        let mut run = Self {
            messages: Vec::new(),
            rounds: vec![0; rounds.len()],
            leg_tokens,
            newest_tokens: 0,
            newest_round: None,
        };
        run.push(user(format, REQUEST), 0);
        for (at, round) in rounds.iter().enumerate() {
            match round.before {
                Before::Nothing => {}
                Before::Instructions => run.push(instructions(format), at),
                Before::User => run.push(user(format, "And the docs, too."), at),
            }
            for message in answer(format, at, round).into_iter().chain(results(format, at, round)) {
                run.push((format, message), at);
            }
        }
        run
    }

    fn push(&mut self, (format, json): (Format, Value), round: usize) {
        let message = formats::parse(format, &json.to_string()).unwrap();
        let tokens = count_message(&Characters, &message);
        self.rounds[round] += tokens;
        let last = self.messages.last();
        let (mut exchange, mut first_leg) = last.map_or((0, 0), |last| (last.exchange, last.first_leg));
        let part = ResponsePart::of(&message);
        let is_begun = Round::is_begun_by(self.newest_round.as_ref(), &message.kind, &part);
        if message.kind == Kind::User {
            (exchange, first_leg) = (exchange + 1, exchange + 1);
            (self.newest_tokens, self.newest_round) = (0, None);
        } else if is_begun && self.newest_tokens >= self.leg_tokens {
            exchange += 1;
            self.newest_tokens = 0;
        }
        self.newest_tokens += tokens;
        self.newest_round = Round::after(self.newest_round.take(), &message.kind, &part);
        self.messages.push(StoredMessage { message, tokens, round, exchange, first_leg });
    }

    /// Returns true if the model is called after that round: there is a message to answer.
    pub(crate) fn is_call_after(&self, round: usize) -> bool {
        let last = self.messages.iter().rfind(|stored| stored.round == round);
        last.is_some_and(|last| last.message.kind == Kind::ToolResult)
    }

    /// The window of the first `rounds` rounds, from the exchange or leg `first` on.
    pub(crate) fn input(&self, rounds: usize, first: i64) -> ContextInput<'_> {
        let mut input = ContextInput { evicted: first > 1, ..ContextInput::default() };
        let mut rows: BTreeMap<i64, SourceExchange<'_>> = BTreeMap::new();
        let known = (1..).zip(&self.messages).take_while(|(_, stored)| stored.round < rounds);
        for (seq, stored) in known {
            let message = SourceMessage { seq, message: &stored.message, tokens: Some(stored.tokens) };
            let exchange = stored.exchange;
            if exchange >= first {
                let row = rows.entry(exchange).or_insert_with(|| SourceExchange {
                    exchange,
                    first_leg: stored.first_leg,
                    is_open: true,
                    messages: Vec::new(),
                });
                row.messages.push(message);
            } else if stored.message.kind == Kind::User {
                input.request = Some(SourceRequest { exchange, message });
            }
        }
        input.exchanges = rows.into_values().collect();
        input
    }
}

fn user(format: Format, text: &str) -> (Format, Value) {
    let json = match format {
        Format::Gemini => json!({"role": "user", "parts": [{"text": text}]}),
        _ => json!({"role": "user", "content": text}),
    };
    (format, json)
}

/// In formats without instructions inside of a conversation, the host provides them.
fn instructions(format: Format) -> (Format, Value) {
    const TEXT: &str = "Mind the tests.";
    match format {
        Format::OpenAiChat | Format::OpenAiResponses => (format, json!({"role": "system", "content": TEXT})),
        _ => (Format::Native, json!({"kind": "system", "content": TEXT})),
    }
}

fn ids(at: usize, round: &RoundOf) -> impl Iterator<Item = String> {
    (0..round.results.len()).map(move |call| format!("{at}/{call}"))
}

/// The model's messages in round `at`: thoughts if its provider gives them back, words, and calls.
fn answer(format: Format, at: usize, round: &RoundOf) -> Vec<Value> {
    let said = "w".repeat(round.said);
    match format {
        Format::Anthropic => {
            let thought =
                json!({"type": "thinking", "thinking": format!("thought {at}"), "signature": "c2ln"});
            let calls =
                ids(at, round).map(|id| json!({"type": "tool_use", "id": id, "name": "run", "input": {}}));
            let blocks = [thought, json!({"type": "text", "text": said})];
            let blocks: Vec<Value> = blocks.into_iter().chain(calls).collect();
            vec![json!({"role": "assistant", "content": blocks})]
        }
        Format::Gemini => {
            let thought = json!({"text": format!("thought {at}"), "thought": true});
            let calls = ids(at, round)
                .map(|_| json!({"functionCall": {"name": "run", "args": {}}, "thoughtSignature": "c2ln"}));
            let parts: Vec<Value> = [thought, json!({"text": said})].into_iter().chain(calls).collect();
            vec![json!({"role": "model", "parts": parts})]
        }
        Format::OpenAiResponses => {
            let message = json!({"role": "assistant", "content": [{"type": "output_text", "text": said}]});
            let calls = ids(at, round)
                .map(|id| json!({"type": "function_call", "call_id": id, "name": "run", "arguments": "{}"}));
            std::iter::once(message).chain(calls).collect()
        }
        _ => {
            let calls = ids(at, round).map(
                |id| json!({"id": id, "type": "function", "function": {"name": "run", "arguments": "{}"}}),
            );
            let calls: Vec<Value> = calls.collect();
            vec![json!({"role": "assistant", "content": said, "tool_calls": calls})]
        }
    }
}

fn results(format: Format, at: usize, round: &RoundOf) -> Vec<Value> {
    let recorded = ids(at, round).zip(&round.results).filter(|(_, chars)| **chars > 0);
    let results = recorded.map(|(id, &chars)| match format {
        Format::Anthropic => json!({"type": "tool_result", "tool_use_id": id, "content": "x".repeat(chars)}),
        Format::Gemini => {
            json!({"functionResponse": {"name": "run", "response": {"output": "x".repeat(chars)}}})
        }
        Format::OpenAiResponses => {
            json!({"type": "function_call_output", "call_id": id, "output": "x".repeat(chars)})
        }
        _ => json!({"role": "tool", "tool_call_id": id, "content": "x".repeat(chars)}),
    });
    let results: Vec<Value> = results.collect();
    match format {
        _ if results.is_empty() => Vec::new(),
        Format::Anthropic => vec![json!({"role": "user", "content": results})],
        Format::Gemini => vec![json!({"role": "user", "parts": results})],
        _ => results,
    }
}

/// Lengths below 2^`bits`, whose logarithms are spread evenly.
fn chars(bits: u32) -> impl Strategy<Value = usize> {
    (0..bits, 0..1_024_usize).prop_map(|(bits, rest)| (1 << bits) + (rest << bits) / 1_024)
}

/// A round whose results have fewer than 2^`bits` characters.
pub(crate) fn round_of(bits: u32) -> impl Strategy<Value = RoundOf> {
    let before =
        prop_oneof![20 => Just(Before::Nothing), 1 => Just(Before::Instructions), 1 => Just(Before::User)];
    let results = vec(prop_oneof![9 => chars(bits), 1 => Just(0)], 0..4);
    (before, 0..60_usize, results).prop_map(|(before, said, results)| RoundOf {
        before,
        said: said.max(1),
        results,
    })
}

pub(crate) fn without_users(mut rounds: Vec<RoundOf>) -> Vec<RoundOf> {
    for round in rounds.iter_mut().filter(|round| round.before == Before::User) {
        round.before = Before::Nothing;
    }
    rounds
}
