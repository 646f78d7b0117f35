//! The seed's example, what else a router does, and what holds for any conversation.

use proptest::prelude::*;

use super::*;
use crate::domain::message::{Format, Metadata};

fn message(kind: Kind, speaker: Option<&str>, text: &str) -> Message {
    Message {
        kind,
        speaker: speaker.map(str::to_owned),
        parts: vec![Part::Text(text.to_owned())],
        client_id: None,
        at: None,
        interrupts: false,
        important: false,
        format: Format::Native,
        payload: "{}".to_owned(),
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
    let call = Part::ToolCall {
        id: None,
        name: name.to_owned(),
        arguments: "{}".to_owned(),
    };
    Message {
        parts: vec![Part::Thinking("hm".to_owned()), call],
        ..message(Kind::ToolCall, Some(speaker), "")
    }
}

fn result(text: &str) -> Message {
    let result = Part::ToolResult {
        call_id: None,
        name: None,
        text: text.to_owned(),
        is_error: false,
    };
    Message {
        parts: vec![result],
        ..message(Kind::ToolResult, None, "")
    }
}

fn view(speaker: &str) -> Perspective {
    Perspective::new(speaker, &["a", "b"])
}

/// One line per message, `role: text`; synthetic ones in brackets.
fn told(seen: &[SeenMessage]) -> String {
    let part = |part: &Part| match part {
        Part::Text(text) => text.clone(),
        Part::ToolCall { name, .. } => format!("<call {name}>"),
        Part::ToolResult { text, .. } => format!("<result {text}>"),
        Part::Thinking(_) => "<thinking>".to_owned(),
        Part::Attachment(name) => format!("<{name}>"),
    };
    let line = |message: &SeenMessage| {
        let role = format!("{:?}", message.role).to_lowercase();
        let text: Vec<String> = message.parts.iter().map(part).collect();
        let line = format!("{role}: {}", text.join(" + "));
        if message.synthetic {
            format!("({line})")
        } else {
            line
        }
    };
    seen.iter().map(line).collect::<Vec<_>>().join("\n")
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
    insta::assert_snapshot!(told(&seen_by(&example(), &view("a"))), @r"
    system: You are Agent A
    (user: [Begin])
    assistant: Hello, I'm Alice
    user: Hi Alice, I'm Bob
    assistant: Nice to meet you, Bob
    user: Likewise!
    ");
    insta::assert_snapshot!(told(&seen_by(&example(), &view("b"))), @r"
    system: You are Agent B
    user: Hello, I'm Alice
    assistant: Hi Alice, I'm Bob
    user: Nice to meet you, Bob
    assistant: Likewise!
    ");
}

#[test]
fn instructions_are_told_to_the_speaker() {
    let to_b = |text: &str, mode| {
        let perspective = Perspective { mode, ..view("b") };
        told(&seen_by(&[system(text)], &perspective))
    };
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
        (
            "You are Agent A. Please choose a short name.",
            "You are Agent A. Please choose a short name.",
        ),
    ] {
        assert_eq!(to_b(text, Mode::Talk), format!("system: {expected}"));
        assert_eq!(to_b(text, Mode::ChooseNames), format!("system: {text}"));
    }
}

#[test]
fn a_human_is_marked_once_or_not_at_all() {
    let tag = |tag: &str, text: &str| {
        let perspective = Perspective {
            human_tag: tag.to_owned(),
            ..view("a")
        };
        told(&seen_by(&[human(text)], &perspective))
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
fn two_openings_become_one_or_are_acknowledged() {
    // Seen by b, the prompt and a's first message are both the user's.
    let messages = [
        human("Talk about rivers"),
        says("a", "Rivers!"),
        says("b", "Water."),
    ];
    insta::assert_snapshot!(told(&seen_by(&messages, &view("b"))), @r"
    user: [HUMAN]: Talk about rivers + Rivers!
    assistant: Water.
    ");
    let acknowledged = Perspective {
        repair: Repair::Ack,
        ..view("b")
    };
    insta::assert_snapshot!(told(&seen_by(&messages, &acknowledged)), @r"
    user: [HUMAN]: Talk about rivers
    (assistant: Understood.)
    user: Rivers!
    assistant: Water.
    ");
    let monologue = [
        human("Go"),
        says("b", "One"),
        system("Be brief"),
        says("b", "Two"),
    ];
    insta::assert_snapshot!(told(&seen_by(&monologue, &acknowledged)), @r"
    user: [HUMAN]: Go
    assistant: One
    system: Be brief
    (user: Please go on.)
    assistant: Two
    ");
}

#[test]
fn a_meditation_is_answered_by_silence() {
    let alone = Perspective {
        mode: Mode::Meditation,
        ..view("a")
    };
    let messages = [system("Look within"), says("a", "One"), says("a", "Two")];
    insta::assert_snapshot!(told(&seen_by(&messages, &alone)), @r"
    system: Look within
    (user: …)
    assistant: One
    (user: …)
    assistant: Two
    (user: …)
    ");
    // A silence that was logged isn't doubled.
    let logged = [human("Begin"), says("a", "One"), says("b", SILENCE)];
    assert_eq!(
        told(&seen_by(&logged, &alone)),
        "user: [HUMAN]: Begin\nassistant: One\nuser: …"
    );
}

#[test]
fn tools_are_seen_by_their_caller_alone() {
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
    ];
    insta::assert_snapshot!(told(&seen_by(&messages, &view("a"))), @r"
    user: [HUMAN]: Go
    assistant: <thinking> + <call read> + <thinking> + <call list>
    tool: <result text>
    tool: <result names>
    assistant: Done
    user: Mine too
    ");
    insta::assert_snapshot!(told(&seen_by(&messages, &view("b"))), @r"
    user: [HUMAN]: Go + Done
    assistant: <thinking> + <call write>
    tool: <result ok>
    assistant: Mine too
    ");
}

#[test]
fn a_message_is_seen_by_its_audience() {
    let noted = |text: &str, payload: &str| Message {
        payload: payload.to_owned(),
        ..human(text)
    };
    let messages = [
        noted("for a", r#"{"audience":["a"]}"#),
        noted("for b", r#"{"audience":"b"}"#),
        noted("for nobody", r#"{"audience":[]}"#),
        noted("for both", r#"{"content":"the \"audience\" claps"}"#),
        noted("[API error: 529]", r#"{"is_error":true}"#),
    ];
    assert_eq!(
        told(&seen_by(&messages, &view("a"))),
        "user: [HUMAN]: for a + [HUMAN]: for both"
    );
    assert_eq!(
        told(&seen_by(&messages, &view("b"))),
        "user: [HUMAN]: for b + [HUMAN]: for both"
    );
}

#[test]
fn limits_are_pidgins() {
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
    // 2 × (8 + 20) characters by 3.5.
    assert_eq!(
        tokens(&seen_by(
            &[human("Go"), says("a", "12345678")],
            &Perspective {
                human_tag: String::new(),
                ..view("a")
            }
        )),
        14
    );
}

#[test]
fn seed_002_truncation_keeps_instructions_and_the_last_exchanges() {
    // Fifty messages of 200 tokens, 10,000 together, for a local model.
    let mut messages = vec![system("You are Agent A")];
    let turns = ["b", "a"].into_iter().cycle().take(50);
    messages.extend(turns.map(|speaker| says(speaker, &"x".repeat(680))));
    let seen = seen_by(&messages, &view("a"));
    let truncated = truncate(&seen, limit_of("local"));
    assert_eq!((truncated.kept.len(), truncated.dropped), (19, 32));
    assert_eq!((truncated.tokens, truncated.fits), (3_610, true));
    let roles: Vec<Role> = truncated
        .kept
        .iter()
        .take(2)
        .map(|message| message.role)
        .collect();
    assert_eq!(roles, [Role::System, Role::User]);
    // What fits is left alone; of what never fits the last exchange stays.
    assert_eq!(truncate(&seen, 100_000).dropped, 0);
    let least = truncate(&seen, 10);
    assert_eq!((least.kept.len(), least.fits), (3, false));
}

fn any_message() -> impl Strategy<Value = Message> {
    (0..7_u8, ".{0,20}").prop_map(|(kind, text)| match kind {
        0 => system(&text),
        1 => human(&text),
        2 | 3 => says("a", &text),
        4 => says("b", &text),
        5 => calls("a", "bash"),
        _ => result(&text),
    })
}

/// Behind the instructions a user comes first, and turns are taken; results follow calls or results.
fn assert_turns(seen: &[SeenMessage]) -> Result<(), TestCaseError> {
    let roles: Vec<Role> = seen
        .iter()
        .map(|message| message.role)
        .filter(|role| *role != Role::System)
        .collect();
    prop_assert!(
        roles.first().is_none_or(|role| *role == Role::User),
        "{:?}",
        roles
    );
    for pair in roles.windows(2) {
        let is_turn = !matches!(
            pair,
            [Role::User, Role::User | Role::Tool] | [Role::Assistant, Role::Assistant]
        );
        prop_assert!(is_turn, "{:?}", roles);
    }
    Ok(())
}

proptest! {
    #[test]
    fn turns_are_taken_and_nothing_is_lost(
        messages in proptest::collection::vec(any_message(), 0..30),
        acknowledges in any::<bool>(),
        limit in 0..200_i64,
    ) {
        let repair = if acknowledges { Repair::Ack } else { Repair::Merge };
        for speaker in ["a", "b"] {
            let perspective = Perspective { repair, ..view(speaker) };
            let seen = seen_by(&messages, &perspective);
            assert_turns(&seen)?;
            let texts = |parts: &[Part]| parts.iter().filter(|part| matches!(part, Part::Text(_))).count();
            let given: usize = messages.iter().map(|message| texts(&message.parts)).sum();
            let real = seen.iter().filter(|message| !message.synthetic);
            prop_assert_eq!(real.map(|message| texts(&message.parts)).sum::<usize>(), given);

            let truncated = truncate(&seen, limit);
            assert_turns(&truncated.kept)?;
            prop_assert_eq!(truncated.dropped + truncated.kept.len(), seen.len());
            prop_assert_eq!(truncated.kept.last(), seen.last());
            prop_assert_eq!(truncated.fits, tokens(&truncated.kept) < limit);
        }
    }
}
