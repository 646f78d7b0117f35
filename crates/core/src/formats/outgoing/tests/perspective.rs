//! Conversations of several speakers, from the perspective of each: requests are valid, and no speaker sees another's thoughts.

use std::sync::Arc;

use proptest::{collection::vec, option, prelude::*};
use serde_json::{Value, json};

use super::{Characters, RequestFormat, checker::check, render};
use crate::{
    domain::{
        context::{Alternation, Context, ContextInput, ContextOptions, SourceExchange, SourceMessage, build},
        message::{Format, Kind, Message, Part, Role},
        perspective::{Mode, Perspective, PerspectiveStyle},
        text::cut,
        time::Timestamp,
        window::{Budget, HeldExchange, Window},
    },
    formats,
    validator::{Severity, Target, validate},
};

/// A message with a unique word, so that it is recognised wherever it turns up.
#[derive(Clone, Debug)]
struct Utterance {
    /// Selects the role and the blocks, see [`message`].
    kind: u8,
    speaker: Option<&'static str>,
    /// The id of its calls and results.
    id: Option<&'static str>,
    /// The length of its text.
    chars: usize,
    /// The only speaker who may see it; `None` for all.
    audience: Option<&'static str>,
}

fn events() -> impl Strategy<Value = Vec<Utterance>> {
    let speaker =
        prop_oneof![4 => Just(Some("a")), 4 => Just(Some("b")), 1 => Just(Some("human")), 1 => Just(None)];
    let id = option::weighted(0.8, prop_oneof![Just("x"), Just("y")]);
    let audience = option::weighted(0.1, prop_oneof![Just("a"), Just("b")]);
    let event = (0..9_u8, speaker, id, 0..200_usize, audience);
    vec(
        event.prop_map(|(kind, speaker, id, chars, audience)| Utterance {
            kind,
            speaker,
            id,
            chars,
            audience,
        }),
        0..24,
    )
}

fn message(place: usize, event: &Utterance) -> Message {
    let Utterance { kind, speaker, id, chars, audience } = event;
    let text = format!("word{place}. {}", "x".repeat(*chars));
    let thinking = json!({"type": "thinking", "thinking": format!("thought{place}."), "signature": "s"});
    let call =
        json!({"type": "tool_use", "id": id, "name": "ls", "input": {"path": format!("call{place}.")}});
    let result = json!({"type": "tool_result", "tool_use_id": id, "content": format!("result{place}. {}", "y".repeat(*chars))});
    let said = json!({"type": "text", "text": text});
    let payload = match kind {
        0 => json!({"kind": "system", "content": text}),
        1 => json!({"role": "user", "content": text}),
        2 | 3 => json!({"role": "assistant", "content": text}),
        4 => json!({"role": "assistant", "content": [thinking, said, call]}),
        5 => json!({"role": "assistant", "content": [call, call]}),
        6 => json!({"role": "user", "content": [result]}),
        7 => json!({"role": "user", "content": [result, said]}),
        _ => json!({"kind": "mark"}),
    };
    let format = if payload.get("kind").is_some() {
        Format::Native
    } else if matches!(kind, 1..=3) {
        Format::OpenAiChat
    } else {
        Format::Anthropic
    };
    let mut payload: Value = payload;
    if let Some(audience) = audience {
        payload["audience"] = json!([audience]);
    }
    if let Some(speaker) = speaker {
        payload["speaker"] = json!(speaker);
    }
    formats::parse(format, &payload.to_string()).unwrap()
}

/// Calls `check` with the messages that are left in a window after its evictions.
fn with_window<T>(messages: &[Message], budget: Budget, check: impl FnOnce(&ContextInput<'_>) -> T) -> T {
    let mut window = Window::new(budget, Arc::new(Characters));
    let mut evicted = 0;
    for message in messages {
        evicted += window.push(message.clone(), Timestamp(0)).len();
    }
    let held: Vec<&HeldExchange> = window.exchanges().collect();
    let in_exchanges: usize = held.iter().map(|held| held.messages.len()).sum();
    let in_view = window.messages().count();
    let source = |(seq, message)| SourceMessage::uncounted(seq, message);
    let mut numbered = (100..).zip(window.messages()).map(source);
    let preamble = numbered.by_ref().take(in_view - in_exchanges).collect();
    let exchanges = held.iter().map(|held| SourceExchange {
        exchange: held.exchange.exchange,
        first_leg: held.exchange.exchange,
        is_open: false,
        messages: numbered.by_ref().take(held.messages.len()).collect(),
    });
    let anchor = messages.iter().find(|message| message.kind == Kind::User).filter(|_| evicted > 0);
    check(&ContextInput {
        request: None,
        copies: Vec::new(),
        preamble,
        anchor: anchor.map(|message| source((1, message))),
        summary: (evicted > 0).then(|| "<summary>".to_owned()),
        exchanges: exchanges.collect(),
        left_out: Vec::new(),
        evicted: evicted > 0,
        passed_before: 0,
        perspective: None,
    })
}

fn target(format: RequestFormat) -> (Target, Value) {
    match format {
        RequestFormat::Anthropic => {
            (Target::Anthropic, json!({"model": "claude-sonnet-4-5", "max_tokens": 9}))
        }
        RequestFormat::OpenAiChat => (Target::OpenAiChat, json!({"model": "gpt-5"})),
        RequestFormat::OpenAiResponses => (Target::OpenAiResponses, json!({"model": "gpt-5"})),
        RequestFormat::Gemini => (Target::Gemini, json!({})),
    }
}

/// Returns the numbers after each `word` in a text, in order.
fn numbers(text: &str, word: &str) -> Vec<usize> {
    let behind = text.split(word).skip(1);
    behind.filter_map(|rest| rest.split('.').next()?.parse().ok()).collect()
}

/// Returns the places of the messages whose words are in the turns, in order, except instructions and what precedes the window.
fn words(context: &Context<'_>) -> Vec<usize> {
    let said = context.turns.iter().filter(|turn| turn.role != Role::System && turn.role != Role::Tool);
    let pieces = said.flat_map(|turn| &turn.pieces);
    let from_window = pieces.filter(|piece| match piece.origin {
        crate::domain::context::PieceOrigin::Stored { seq } => seq >= 100,
        crate::domain::context::PieceOrigin::Synthetic(_) => false,
    });
    let parts = from_window.flat_map(|piece| piece.parts.iter());
    parts
        .filter_map(|part| match part {
            Part::Text(text) => Some(numbers(text, "word")),
            _ => None,
        })
        .flatten()
        .collect()
}

fn options_modes_and_windows() -> impl Strategy<Value = (ContextOptions, Mode, i64)> {
    let alternation = prop_oneof![Just(Alternation::Merge), Just(Alternation::Ack), Just(Alternation::Keep)];
    let mode = prop_oneof![3 => Just(Mode::Talk), 1 => Just(Mode::ChooseNames), 1 => Just(Mode::Meditation)];
    let budget = prop_oneof![Just(0), 1..400_i64, 400..4_000_i64];
    (alternation, mode, budget.clone(), budget).prop_map(|(alternation, mode, max_tokens, window)| {
        let options = ContextOptions { max_tokens, alternation, ..ContextOptions::default() };
        (options, mode, window)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn each_speaker_sees_a_valid_request_without_others_thoughts(events in events(), (options, mode, window) in options_modes_and_windows()) {
        let messages: Vec<Message> = events.iter().enumerate().map(|(place, event)| message(place, event)).collect();
        for speaker in ["a", "b"] {
            let style = PerspectiveStyle { participants: vec!["a".to_owned(), "b".to_owned()], mode, ..PerspectiveStyle::default() };
            let perspective = Perspective::new(speaker, style, Vec::new()).unwrap();
            let is_own = |place: &usize| events[*place].speaker == Some(speaker);
            let is_addressed = |place: &usize| events[*place].audience.is_none_or(|audience| audience == speaker);
            for format in RequestFormat::ALL {
                let options = ContextOptions {
                    system_in_place: format.takes_system_in_place(),
                    ends_with_user: format.ends_with_user(),
                    ..options
                };
                let outcome = with_window(&messages, Budget::new(window, 0.8), |input| {
                    let input = ContextInput { perspective: Some(&perspective), ..input.clone() };
                    let context = build(&input, &options, &Characters);
                    let counted: i64 = context.turns.iter().map(|turn| turn.tokens(&Characters)).sum();
                    prop_assert_eq!(counted, context.tokens);
                    prop_assert!(context.over_budget || context.limit_tokens.is_none_or(|limit| counted <= limit));
                    // Over budget, only the newest exchange or the preamble is left.
                    prop_assert!(!context.over_budget || context.left_out.len() + 1 >= input.exchanges.len());
                    let words = words(&context);
                    let body = render(format, &context.turns).body;
                    Ok((words, body))
                });
                let (words, body) = outcome?;
                let text = body.to_string();

                let verdict = check(format, &body, options.alternation != Alternation::Keep);
                prop_assert!(verdict.is_ok(), "{:?} {}: {}", options, verdict.unwrap_err(), cut(&text, 4_000));
                let (target, mut request) = target(format);
                request.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
                let refused = validate(target, &request, None).into_iter().find(|found| found.severity == Severity::Refused);
                prop_assert!(refused.is_none(), "{:?}: {}", refused, cut(&text, 4_000));

                for what in ["thought", "call"] {
                    prop_assert!(numbers(&text, what).iter().all(is_own), "another's {} in {}", what, cut(&text, 4_000));
                }
                for what in ["word", "result"] {
                    prop_assert!(numbers(&text, what).iter().all(is_addressed), "not meant for {}: {}", speaker, cut(&text, 4_000));
                }
                // Text that came with results moves with them; everything else stays in order and appears once.
                let said: Vec<usize> = words.into_iter().filter(|place| events[*place].kind != 7).collect();
                prop_assert!(said.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", said);
            }
        }
    }
}
