//! The thinking that is sent.

use super::*;

#[test]
fn thinking_is_dropped_when_anything_has_left() {
    let script = "u one | t hmm | u two | t aha";
    let options = ContextOptions::default();
    assert_eq!(built(script, &options), "u one | a (hmm) said | u two | a (aha) said");
    let evicted = |options: &ContextOptions| {
        with_input(script, |input| {
            input.anchor = None;
            input.evicted = true;
            input.exchanges[1].is_open = true;
            brief(&build(input, options, &Characters).turns)
        })
    };
    assert_eq!(evicted(&options), "u one | a said | u two | a said");
    let open = ContextOptions { keep_open_thinking: true, ..options };
    assert_eq!(evicted(&open), "u one | a said | u two | a (aha) said");
    let tight = ContextOptions { max_tokens: 100, ..options };
    let long = format!("u {} | t hmm | u two | t aha", "x".repeat(80));
    assert_eq!(
        built(&long, &tight),
        "u [[exchange #1 is left out here, to keep within the budget]] + two | a said"
    );
}

#[test]
fn thinking_is_dropped_when_later_instructions_come_before_it() {
    let options = ContextOptions::default();
    let hoisting = ContextOptions { system_in_place: false, ..options };
    let later = "u one | t hmm | s rules | u two";
    assert_eq!(built(later, &hoisting), "s rules | u one | a said | u two");
    let before = "u one | s rules | t hmm | u two";
    assert_eq!(built(before, &hoisting), "s rules | u one | a (hmm) said | u two");
    let in_place = ContextOptions { system_in_place: true, ..options };
    assert!(built(later, &in_place).contains("(hmm)"));
}

/// A late result was elsewhere, or missing, when the model thought the thoughts that now come after it.
#[test]
fn thinking_is_dropped_when_a_late_result_comes_before_it() {
    let options = ContextOptions::default();
    for (script, expected) in [
        ("u one | c 1 x | u two | t hmm | r 1 y", "u one | a 1:x | r 1=y + two | a said | u [Continue.]"),
        ("u one | c 1 x | u two | r 1 y | t hmm", "u one | a 1:x | r 1=y + two | a (hmm) said"),
        (
            "u one | t hmm | c 1 x | u two | a B | r 1 y",
            "u one | a (hmm) said + 1:x | r 1=y + two | a B | u [Continue.]",
        ),
    ] {
        assert_eq!(built(script, &options), expected, "{script}");
    }
}

#[test]
fn thinking_is_dropped_when_something_before_it_was_forgotten() {
    let forgotten = |kind: &Kind| formats::parse(Format::Native, &tombstone(kind)).unwrap();
    let [one, hmm, two, aha] = ["u one", "t hmm", "u two", "t aha"].map(message);
    let sent = |messages: &[&Message]| {
        let input = one_by_one(messages.iter().copied());
        brief(&build(&input, &ContextOptions::default(), &Characters).turns)
    };
    let (user, usage) = (forgotten(&Kind::User), forgotten(&Kind::from_name("usage")));
    assert_eq!(sent(&[&one, &hmm, &user, &two, &aha]), "u one | a said | u two | a said");
    // Thoughts before the forgotten message stay, and a forgotten message that no model saw removes none.
    assert_eq!(sent(&[&one, &hmm, &two, &user]), "u one | a (hmm) said | u two");
    assert_eq!(sent(&[&one, &usage, &hmm]), "u one | a (hmm) said");
}
