//! The seed's example and the other cases of a router, through the context builder.

use std::sync::Arc;

use super::*;
use crate::domain::{
    context::{
        Alternation, ContextInput, ContextOptions, PieceOrigin, SourceExchange, SourceMessage, Turn, build,
    },
    message::Metadata,
    time::Timestamp,
    tokens::TokenCounter,
    window::{Budget, Window},
};

/// Pidgin's estimate: 3.5 characters a token.
struct Estimate;

impl TokenCounter for Estimate {
    fn count(&self, text: &str) -> i64 {
        i64::try_from(text.chars().count()).unwrap() * 2 / 7
    }

    fn method(&self) -> &'static str {
        "estimate"
    }
}

fn message(kind: Kind, speaker: Option<&str>, text: &str) -> Message {
    Message {
        speaker: speaker.map(str::to_owned),
        payload: "{}".to_owned(),
        ..Message::new(kind, vec![Part::Text(text.to_owned())])
    }
}

fn system(text: &str) -> Message {
    message(Kind::System, None, text)
}

fn says(speaker: &str, text: &str) -> Message {
    message(Kind::Assistant, Some(speaker), text)
}

fn human(text: &str) -> Message {
    message(Kind::User, None, text)
}

fn calls(speaker: &str, name: &str) -> Message {
    let call = Part::ToolCall { id: None, name: name.to_owned(), arguments: "{}".to_owned() };
    Message {
        parts: vec![Part::Thinking("hm".to_owned().into()), call],
        ..message(Kind::ToolCall, Some(speaker), "")
    }
}

fn result(text: &str) -> Message {
    let result = Part::ToolResult { call_id: None, name: None, text: text.to_owned(), is_error: false };
    Message { parts: vec![result], ..message(Kind::ToolResult, None, "") }
}

fn style(mode: Mode) -> PerspectiveStyle {
    PerspectiveStyle {
        participants: vec!["a".to_owned(), "b".to_owned()],
        mode,
        ..PerspectiveStyle::default()
    }
}

fn view_in(speaker: &str, style: PerspectiveStyle) -> Perspective {
    Perspective::new(speaker, style, Vec::new()).unwrap()
}

fn view(speaker: &str) -> Perspective {
    view_in(speaker, style(Mode::Talk))
}

/// The context of `messages` in their exchanges, as `perspective` sees it.
fn with_context<T>(
    messages: &[Message],
    perspective: &Perspective,
    options: ContextOptions,
    use_it: impl FnOnce(&[Turn<'_>], &[i64]) -> T,
) -> T {
    let mut window = Window::new(Budget::unlimited(), Arc::new(Estimate));
    for message in messages {
        window.push(message.clone(), Timestamp(0));
    }
    let source = |(seq, message)| SourceMessage::uncounted(seq, message);
    let in_exchanges: usize = window.exchanges().map(|row| row.messages.len()).sum();
    let mut numbered = (1..).zip(window.messages()).map(source);
    let preamble = numbered.by_ref().take(messages.len() - in_exchanges).collect();
    let exchanges = window.exchanges().map(|row| SourceExchange {
        exchange: row.exchange.exchange,
        first_leg: row.exchange.exchange,
        is_open: false,
        messages: numbered.by_ref().take(row.messages.len()).collect(),
    });
    let input = ContextInput {
        preamble,
        exchanges: exchanges.collect(),
        perspective: Some(perspective),
        ..ContextInput::default()
    };
    let context = build(&input, &options, &Estimate);
    use_it(&context.turns, &context.left_out)
}

fn seen_in(messages: &[Message], perspective: &Perspective, alternation: Alternation) -> String {
    let options = ContextOptions { alternation, ..ContextOptions::default() };
    with_context(messages, perspective, options, |turns, _| lines(turns))
}

fn seen(messages: &[Message], perspective: &Perspective) -> String {
    seen_in(messages, perspective, Alternation::Merge)
}

/// One line per turn, `role: text`; synthetic text is in brackets.
fn lines(turns: &[Turn<'_>]) -> String {
    let part = |part: &Part| match part {
        Part::Text(text) => text.clone(),
        Part::ToolCall { name, .. } => format!("<call {name}>"),
        Part::ToolResult { text, .. } => format!("<result {text}>"),
        Part::Thinking(_) => "<thinking>".to_owned(),
        Part::Attachment { media: name, .. } | Part::Opaque { kind: name, .. } => format!("<{name}>"),
    };
    let line = |turn: &Turn<'_>| {
        let pieces = turn.pieces.iter().map(|piece| {
            let parts: Vec<String> = piece.parts.iter().map(part).collect();
            match piece.origin {
                PieceOrigin::Stored { .. } => parts.join(" + "),
                PieceOrigin::Synthetic(_) => format!("({})", parts.join(" + ")),
            }
        });
        let role = format!("{:?}", turn.role).to_lowercase();
        format!("{role}: {}", pieces.collect::<Vec<_>>().join(" + "))
    };
    turns.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn example() -> Vec<Message> {
    vec![
        system("You are Agent A"),
        says("a", "Hello, I'm Alice"),
        says("b", "Hi Alice, I'm Bob"),
        says("a", "Nice to meet you, Bob"),
        says("b", "Likewise!"),
    ]
}

#[test]
fn seed_002_message_transformation() {
    insta::assert_snapshot!(seen(&example(), &view("a")), @r"
    system: You are Agent A
    user: ([Begin])
    assistant: Hello, I'm Alice
    user: Hi Alice, I'm Bob
    assistant: Nice to meet you, Bob
    user: Likewise!
    ");
    insta::assert_snapshot!(seen(&example(), &view("b")), @r"
    system: You are Agent B
    user: Hello, I'm Alice
    assistant: Hi Alice, I'm Bob
    user: Nice to meet you, Bob
    assistant: Likewise!
    ");
}

#[test]
fn instructions_are_adapted_to_the_speaker() {
    let to_b = |text: &str, mode| seen(&[system(text)], &view_in("b", style(mode)));
    for (text, expected) in [
        (
            "You are Agent A. Your conversation partner (Agent B) is kind.",
            "You are Agent B. Your conversation partner (Agent A) is kind.",
        ),
        (
            "You are Sonnet-1. Your conversation partner (Sonnet-2) waits.",
            "You are Sonnet-2. Your conversation partner (Sonnet-1) waits.",
        ),
        ("Agent A and Agent B talk.", "Agent A and Agent B talk."),
        ("You are Agent A. Please choose a short name.", "You are Agent A. Please choose a short name."),
    ] {
        let asked = |text: &str| format!("system: {text}\nuser: ([Begin])");
        assert_eq!(to_b(text, Mode::Talk), asked(expected));
        assert_eq!(to_b(text, Mode::ChooseNames), asked(text));
    }
}

/// Pidgin logs a prompt for each agent.
#[test]
fn instructions_for_one_speaker_are_hidden_from_others() {
    let to = |name: &str, text: &str| message(Kind::System, Some(name), text);
    let messages = [to("a", "You are Agent A, and bold"), to("b", "You are Agent A, and shy"), human("Go")];
    let expected = "system: You are Agent A, and bold\nuser: [HUMAN]: Go";
    assert_eq!(seen(&messages, &view("a")), expected);
    let expected = "system: You are Agent A, and shy\nuser: [HUMAN]: Go";
    assert_eq!(seen(&messages, &view("b")), expected);
}

#[test]
fn a_human_is_marked_once_or_not_at_all() {
    let tag = |tag: &str, text: &str| {
        let style = PerspectiveStyle { human_tag: tag.to_owned(), ..style(Mode::Talk) };
        seen(&[human(text)], &view_in("a", style))
    };
    assert_eq!(tag(HUMAN_TAG, "Stop"), "user: [HUMAN]: Stop");
    assert_eq!(tag(HUMAN_TAG, "[HUMAN]: Stop"), "user: [HUMAN]: Stop");
    assert_eq!(tag("", "Stop"), "user: Stop");
    assert_eq!(tag("Moderator", "[HUMAN] Stop"), "user: Moderator: [HUMAN] Stop");
    assert_eq!(untagged("[HUMAN]: Stop", HUMAN_TAG), "Stop");
    assert_eq!(untagged("[HUMAN] stop", HUMAN_TAG), "[HUMAN] stop");
    assert_eq!(untagged(": stop", ""), ": stop");
}

#[test]
fn two_openings_are_merged_or_acknowledged() {
    // For b, the prompt and a's first message are both the user's.
    let messages = [human("Talk about rivers"), says("a", "Rivers!"), says("b", "Water.")];
    insta::assert_snapshot!(seen(&messages, &view("b")), @r"
    user: [HUMAN]: Talk about rivers + Rivers!
    assistant: Water.
    ");
    insta::assert_snapshot!(seen_in(&messages, &view("b"), Alternation::Ack), @r"
    user: [HUMAN]: Talk about rivers
    assistant: (Understood.)
    user: Rivers!
    assistant: Water.
    ");
    let monologue = [human("Go"), says("b", "One"), says("b", "Two")];
    insta::assert_snapshot!(seen_in(&monologue, &view("b"), Alternation::Ack), @r"
    user: [HUMAN]: Go
    assistant: One
    user: (Continue.)
    assistant: Two
    ");
}

#[test]
fn a_meditation_is_answered_by_silence() {
    let alone = view_in("a", style(Mode::Meditation));
    let messages = [
        system("Look within"),
        says("a", "One"),
        calls("a", "bell"),
        result("gong"),
        says("a", "Two"),
        says("a", "Three"),
    ];
    for mode in [Alternation::Merge, Alternation::Ack, Alternation::Keep] {
        insta::allow_duplicates!(insta::assert_snapshot!(seen_in(&messages, &alone, mode), @r"
        system: Look within
        user: (…)
        assistant: One + <thinking> + <call bell>
        tool: <result gong>
        assistant: Two
        user: (…)
        assistant: Three
        user: (…)
        "));
    }
    // A logged silence isn't doubled.
    let logged = [human("Begin"), says("a", "One"), says("b", SILENCE)];
    assert_eq!(seen(&logged, &alone), "user: [HUMAN]: Begin\nassistant: One\nuser: …");
}

#[test]
fn only_the_caller_of_a_tool_sees_it() {
    let messages = [
        human("Go"),
        calls("a", "read"),
        calls("a", "list"),
        result("text"),
        result("names"),
        says("a", "Done"),
        message(Kind::Metadata(Metadata::Mark), Some("a"), "mark"),
        calls("b", "write"),
        result("ok"),
        says("b", "Mine too"),
        result("of nobody's call"),
    ];
    insta::assert_snapshot!(seen(&messages, &view("a")), @r"
    user: [HUMAN]: Go
    assistant: <thinking> + <call read> + <thinking> + <call list>
    tool: <result text> + <result names>
    assistant: Done
    user: Mine too
    ");
    insta::assert_snapshot!(seen(&messages, &view("b")), @r"
    user: [HUMAN]: Go + Done
    assistant: <thinking> + <call write>
    tool: <result ok>
    assistant: Mine too
    ");
}

#[test]
fn results_go_to_the_caller_even_if_another_spoke_meanwhile() {
    let call = |speaker: &str, id: &str| {
        let mut message = calls(speaker, "look");
        if let Some(Part::ToolCall { id: own, .. }) = message.parts.last_mut() {
            *own = Some(id.to_owned());
        }
        message.parts.insert(0, Part::Text(format!("{speaker} looks")));
        message
    };
    let answer = |id: &str| {
        let mut message = result(id);
        if let Some(Part::ToolResult { call_id, .. }) = message.parts.last_mut() {
            *call_id = Some(id.to_owned());
        }
        message
    };
    let messages = [human("Go"), call("a", "1"), call("b", "2"), answer("2"), answer("1")];
    insta::assert_snapshot!(seen(&messages, &view("a")), @r"
    user: [HUMAN]: Go
    assistant: a looks + <thinking> + <call look>
    tool: <result 1> + b looks
    ");
    insta::assert_snapshot!(seen(&messages, &view("b")), @r"
    user: [HUMAN]: Go + a looks
    assistant: b looks + <thinking> + <call look>
    tool: <result 2>
    ");
}

#[test]
fn a_message_is_seen_by_its_audience() {
    let noted = |text: &str, payload: &str| Message { payload: payload.to_owned(), ..human(text) };
    let messages = [
        noted("for a", r#"{"audience":["a"]}"#),
        noted("for b", r#"{"audience":"b"}"#),
        noted("for nobody", r#"{"audience":[]}"#),
        noted("for both", r#"{"content":"the \"audience\" claps"}"#),
        noted("[API error: 529]", r#"{"is_error":true}"#),
    ];
    let to = |name: &str| format!("user: [HUMAN]: for {name} + [HUMAN]: for both");
    assert_eq!(seen(&messages, &view("a")), to("a"));
    assert_eq!(seen(&messages, &view("b")), to("b"));
}

#[test]
fn participants_are_found_in_messages_or_configured() {
    let messages = [
        message(Kind::System, Some("b"), "You are shy"),
        human("Go"),
        message(Kind::User, Some("human"), "Now"),
        says("a", "One"),
        Message { speaker: Some("shell".to_owned()), ..result("names") },
        says("b", "Two"),
    ];
    assert_eq!(speakers(&messages), ["b", "a"]);
    let of = |speaker: &str, participants: &str| {
        let style = PerspectiveStyle { participants: names(participants), ..PerspectiveStyle::default() };
        Perspective::new(speaker, style, speakers(&messages)).map(|view| seen(&messages[1..], &view))
    };
    assert_eq!(of("a", "").unwrap(), "user: [HUMAN]: Go + [HUMAN]: Now\nassistant: One\nuser: Two");
    // A message without a speaker is from a human who steps in. A participant with the name `human` doesn't step in.
    assert_eq!(of("a", "human, a").unwrap(), "user: [HUMAN]: Go + Now\nassistant: One\nuser: [HUMAN]: Two");
    let unknown = of("c", "").unwrap_err().to_string();
    assert_eq!(unknown, "speaker `c` is unknown; known speakers: b, a");
    let nobody = Perspective::new("a", PerspectiveStyle::default(), Vec::new()).unwrap_err();
    assert!(nobody.to_string().contains("give messages a `speaker`"), "{nobody}");
}

#[test]
fn limits_match_pidgins() {
    for (provider, expected) in [
        ("anthropic", 160_000),
        ("openai", 100_000),
        ("google", 800_000),
        ("xai", 100_000),
        ("local", 4_000),
        ("other", 8_000),
    ] {
        assert_eq!(limit_of(provider), expected, "{provider}");
    }
    assert!(PIDGIN_LIMITS.iter().all(|limit| limit.safety_factor() < 1.0));
}

#[test]
fn seed_002_truncation_keeps_instructions_and_the_last_exchanges() {
    // Fifty messages of 200 tokens, 10,000 in total, for a local model.
    let mut messages = vec![system("You are Agent A")];
    let turns = ["a", "b"].into_iter().cycle().take(50);
    messages.extend(turns.map(|speaker| says(speaker, &"x".repeat(700))));
    let kept = |speaker: &str, max_tokens| {
        let options = ContextOptions { max_tokens, ..ContextOptions::default() };
        with_context(&messages, &view(speaker), options, |turns, left_out| {
            let real = turns.iter().filter(|turn| !turn.is_synthetic());
            let roles: Vec<Role> = real.map(|turn| turn.role).collect();
            (roles, left_out.len())
        })
    };
    for speaker in ["a", "b"] {
        let (roles, left_out) = kept(speaker, limit_of("local"));
        // Whole pairs, whoever asks: seven of them and the instructions. Nine would fit, but a step makes more room.
        assert_eq!((roles.len(), left_out), (15, 18));
        assert_eq!(roles[0], Role::System);
        // A history that fits stays unchanged; of one that never fits the last pair stays.
        assert_eq!(kept(speaker, 100_000).1, 0);
        let (roles, left_out) = kept(speaker, 10);
        assert_eq!((roles.len(), left_out), (3, 24));
    }
}
