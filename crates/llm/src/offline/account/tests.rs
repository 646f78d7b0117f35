use super::*;
use recapd_core::domain::{
    effects::{Commit, Effects, PlanEntry, PlanStatus, TestVerdict},
    time::Timestamp,
};

fn work(tokens: i64, lines: &[(Voice, &str, &str)]) -> Transcript {
    Transcript {
        tokens,
        effects: Effects {
            files: vec!["src/gate.rs".to_owned()],
            commits: vec![Commit { hash: "1a2b3c4".to_owned(), subject: "Fix the gate".to_owned() }],
            verdicts: vec![TestVerdict {
                command: "cargo test".to_owned(),
                has_passed: true,
                summary: "12 passed".to_owned(),
                is_outdated: false,
            }],
            plan: vec![PlanEntry { number: None, text: "Paint it".to_owned(), status: PlanStatus::Open }],
            ..Effects::default()
        },
        ..Transcript::of_lines(4, Timestamp(0), lines)
    }
}

fn texts_of(run: &[Transcript]) -> Texts {
    let tokens = run.iter().map(|transcript| transcript.tokens).sum();
    texts(&courses(&[run]).concat(), tokens)
}

const LINES: [(Voice, &str, &str); 8] = [
    (
        Voice::User,
        "",
        "The gate of the garden squeaks when it is opened. Never use grease.\n\nLook at src/gate.rs.",
    ),
    (Voice::Assistant, "", "Let me look."),
    (Voice::Call, "Read", "{}"),
    (Voice::Result, "Read", "fn gate() {}"),
    (Voice::Assistant, "", "The hinge is dry because nobody oils it."),
    (Voice::Call, "Edit", "{}"),
    (Voice::Result, "Edit", "ok"),
    (
        Voice::Assistant,
        "",
        "The gate is quiet now.\n\n- The hinge is oiled\n- A test opens it\n\nShall I paint it, too?",
    ),
];

#[test]
fn an_account_has_request_effects_outcome_and_question() {
    insta::assert_snapshot!(texts_of(&[work(9_000, &LINES)]).text, @r"
    User: “The gate of the garden squeaks when it is opened. Never use grease. Look at src/gate.rs.”
    Answer: The gate is quiet now. The hinge is oiled; A test opens it
    Files changed: src/gate.rs
    Commits: 1a2b3c4 Fix the gate
    Checks: cargo test passed (12 passed)
    Left to do: Paint it
    Asked the user: “Shall I paint it, too?”
    On the way: The hinge is dry because nobody oils it.
    ");
}

#[test]
fn essentials_come_first() {
    let told = texts_of(&[work(0, &LINES)]);
    assert!(told.brief.chars().count() <= 240, "{}", told.brief);
    for words in [
        "The gate of the garden squeaks",
        "src/gate.rs",
        "Fix the gate",
        "The gate is quiet now",
        "Shall I paint it",
    ] {
        assert!(told.brief.contains(words), "{words}: {}", told.brief);
    }
    assert_eq!(told.gist, "“The gate of the garden squeaks when it is opened.” → The gate is quiet now.");
}

#[test]
fn a_broken_off_exchange_has_no_outcome() {
    let mut broken =
        work(9_000, &[(Voice::User, "", "Fix the gate."), (Voice::Assistant, "", "Now I'll oil it:")]);
    broken.interrupted = true;
    let told = texts_of(&[broken]).text;
    assert!(!told.contains("Answer:") && told.ends_with("Note: interrupted by the user"), "{told}");
}

#[test]
fn an_account_tells_the_providers_error_that_ended_the_exchange() {
    let mut ended = Transcript::of_lines(1, Timestamp(0), &[(Voice::User, "", "Oil the gate.")]);
    ended.api_error = "API Error: 529 Overloaded".to_owned();
    assert!(applies_to(&ended));
    insta::assert_snapshot!(texts_of(&[ended]).text, @r"
    User: “Oil the gate.”
    Note: the provider's error ended it: “API Error: 529 Overloaded”
    ");
}

#[test]
fn an_exchange_with_effects_many_tokens_or_long_answers_has_an_account() {
    let mut looked = Transcript::of_lines(1, Timestamp(0), &LINES);
    assert!(!applies_to(&looked));
    looked.tokens = 5_001;
    assert!(applies_to(&looked));
    assert!(applies_to(&work(0, &LINES)));
    let plan = "Oil the hinge of the gate. ".repeat(60);
    let planned = |names: [&str; 2]| {
        let lines = [(Voice::User, names[0], "Plan it."), (Voice::Assistant, names[1], plan.as_str())];
        Transcript::of_lines(1, Timestamp(0), &lines)
    };
    assert!(applies_to(&planned(["", ""])) && !applies_to(&planned(["Ida", "Omar"])));
}

#[test]
fn a_text_before_the_last_calls_is_no_answer() {
    let leg = texts_of(&[work(9_000, &LINES[..7])]);
    insta::assert_snapshot!(leg.text, @r"
    User: “The gate of the garden squeaks when it is opened. Never use grease. Look at src/gate.rs.”
    So far: The hinge is dry because nobody oils it.
    Files changed: src/gate.rs
    Commits: 1a2b3c4 Fix the gate
    Checks: cargo test passed (12 passed)
    Left to do: Paint it
    ");
    assert_eq!(
        leg.gist,
        "“The gate of the garden squeaks when it is opened.” → The hinge is dry because nobody oils it."
    );
    assert!(!texts_of(&[work(0, &LINES[..7])]).brief.contains("Paint it"));
}

#[test]
fn code_in_a_request_follows_its_words_and_read_files_come_last() {
    let asked =
        "Fix this.\n\ndiff --git a/src/gate.rs b/src/gate.rs index 3f2a..9c1e 100644\n\nThen oil the hinge.";
    let mut read = work(9_000, &[(Voice::User, "", asked), (Voice::Assistant, "", "Done: it is fixed.")]);
    read.effects = Effects {
        looked_at: vec!["src/gate.rs".to_owned(), "src/hinge.rs".to_owned()],
        ..Effects::default()
    };
    insta::assert_snapshot!(texts_of(&[read]).text, @r"
    User: “Fix this. Then oil the hinge.”
    Answer: Done: it is fixed.
    The user gave: “diff --git a/src/gate.rs b/src/gate.rs index 3f2a..9c1e 100644”
    Looked at: src/gate.rs, src/hinge.rs
    ");
}

#[test]
fn a_long_exchange_of_calls_is_told_once() {
    let mut long = work(
        20_000,
        &[
            (Voice::Call, "fetch_url", r#"{"url": "https://example.org/lending-rules"}"#),
            (Voice::Result, "fetch_url", "Loans end after 28 days."),
            (Voice::Assistant, "", "The fetch of the fees failed."),
            (Voice::Call, "fetch_url", r#"{"url": "https://example.org/fees"}"#),
            (Voice::FailedResult, "fetch_url", "HTTP 503"),
        ],
    );
    long.effects = Effects::default();
    let items = crate::offline::summarise(&[long]);
    assert_eq!(items.len(), 1);
    assert_eq!(items[0].text.matches("lending-rules").count(), 1, "{}", items[0].text);
}

#[test]
fn a_prompt_that_is_sent_again_is_told_once() {
    let prompt = "Paint the gate in the colours of the design.\n\nWhat to keep in mind:\n\ngo on";
    let run = [work(100, &[(Voice::User, "", prompt)]), work(100, &[(Voice::User, "", prompt)])];
    let told = texts_of(&run).text;
    for (said, times) in [("Paint the gate", 1), ("What to keep in mind", 1), ("go on", 2)] {
        assert_eq!(told.matches(said).count(), times, "{said}: {told}");
    }
}

#[test]
fn an_exchange_that_only_runs_commands_has_an_account() {
    let mut talk = work(100, &[(Voice::User, "", "again"), (Voice::Call, "bash", "{}")]);
    talk.effects = Effects::default();
    assert!(!applies_to(&talk));
    talk.effects.runs_commands = true;
    assert!(applies_to(&talk));
}

fn said(texts: &[&str]) -> Transcript {
    let user = [(Voice::User, "", "Look after the garden.")];
    let model = texts.iter().flat_map(|&text| {
        [(Voice::Assistant, "", text), (Voice::Call, "Bash", "{}"), (Voice::Result, "Bash", "ok")]
    });
    let mut lines: Vec<_> = user.into_iter().chain(model).collect();
    lines.truncate(lines.len() - 2);
    Transcript { tokens: 9_000, ..Transcript::of_lines(4, Timestamp(0), &lines) }
}

#[test]
fn steps_with_a_failure_or_a_cure_after_them_are_left_out() {
    let told = texts_of(&[said(&[
        "The hinge of the gate was dry.",
        "The first compile reached the code. There is one error in the gate.",
        "I left a stray key in the map. Removing it:",
        "Now the beds are watered by me.",
        "All is well now.",
    ])]);
    assert!(told.text.contains("On the way: The hinge of the gate was dry."), "{}", told.text);
    for word in ["compile", "stray", "watered"] {
        assert!(!told.text.contains(word), "{}", told.text);
    }
}

#[test]
fn a_report_before_the_last_call_is_told_after_the_answer() {
    let report = format!(
        "# Beds\n\n{}\n\n## Gate\n\nIt squeaks.\n\n## Hedge\n\nIt is cut.",
        "The bed needs water. ".repeat(80)
    );
    let told = texts_of(&[said(&[&report, "The report is written."])]).text;
    let answer = told.find("The report is written.").unwrap();
    assert!(told.find("It squeaks.").unwrap() > answer && told.contains("Hedge: It is cut."), "{told}");
}

#[test]
fn what_a_later_exchange_repeats_is_told_once() {
    let same = "The garden has three beds and a gate, and all of them are watered.";
    let mut first = said(&[&format!("{same} The gate is new.")]);
    let mut second = said(&[&format!("{same} The hedge is cut.")]);
    for transcript in [&mut first, &mut second] {
        transcript.effects.plan =
            vec![PlanEntry { number: None, text: "Paint it".to_owned(), status: PlanStatus::Open }];
    }
    let told = texts_of(&[first, second]).text;
    for words in ["three beds", "Paint it"] {
        assert_eq!(told.matches(words).count(), 1, "{told}");
    }
    assert!(told.find("The gate is new.") < told.find("three beds"), "{told}");
}

#[test]
fn a_heading_needs_its_content_and_a_pointer_its_predecessor() {
    let filler = "The bed needs a lot of water every day. ".repeat(20);
    let answer = format!(
        "It is done.\n\n## Beds\n\n{filler}\n\nThe gate has a very long name, {}. This helps.",
        "x".repeat(420)
    );
    let mut transcript = said(&[&answer]);
    transcript.tokens = 0;
    let told = texts_of(&[transcript]).brief;
    assert!(!told.ends_with("Beds:") && !told.contains("This helps"), "{told}");
}
