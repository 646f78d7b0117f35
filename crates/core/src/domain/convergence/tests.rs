//! Each component computed by hand, the scores that follow, and properties of any conversation.

use proptest::prelude::*;

use super::*;

fn features(one: &[&str], other: &[&str]) -> Components {
    let sum = |texts: &[&str]| texts.iter().map(|text| Features::of(&clean(text))).sum::<Features>();
    Features::likeness(&sum(one), &sum(other), one.len(), 0.0)
}

#[track_caller]
fn assert_near(found: f64, expected: f64, what: &str) {
    assert!((found - expected).abs() < 1e-12, "{what}: {found}, not {expected}");
}

#[test]
fn content_by_hand() {
    let long = "one two three four five six seven eight nine ten eleven twelve";
    for (one, other, expected) in [
        ("Hello", "hello", 1.0),
        ("", "", 1.0),
        ("", "abc", 0.0),
        ("ab", "abcd", 0.5),
        // {a, b, c} and {b, c, d}.
        ("abc", "bdc", 2.0 / 4.0),
        ("äö", "öü", 1.0 / 3.0),
        // 11 of 12 words, and one new word.
        (long, "one two three four five six seven eight nine ten eleven thirteen", 11.0 / 13.0),
        // One text is short, the other isn't: compared by words.
        ("one zero", &long.replace("one two", "two one"), 1.0 / 13.0),
    ] {
        assert_near(content_likeness(one, other), expected, &format!("{one:?} {other:?}"));
    }
}

#[test]
fn sentences_by_hand() {
    for (text, expected) in [
        ("", 0),
        // A quirk: a single complete sentence counts as none.
        ("A sentence.", 0),
        ("A beginning", 1),
        ("One. Two.", 1),
        ("One. Two", 2),
        ("What?! Really... yes!\nSo", 4),
        ("3.14 is no end", 1),
    ] {
        assert_eq!(Features::of(text).sentences, expected, "{text:?}");
    }
    assert_near(features(&["a. b. c"], &["a. b"]).sentences, 2.0 / 3.0, "ratio");
    assert_near(features(&["a."], &["a. b"]).sentences, 0.0, "none on one side");
    assert_near(features(&["a."], &["a."]).sentences, 0.0, "none on both sides");
}

#[test]
fn structure_by_hand() {
    for (text, expected) in [
        ("", [1, 0, 0, 0]),
        ("a\n\nb\n\nc?", [3, 0, 1, 0]),
        ("- a\n  * b\n• c\n1. d\na - b", [1, 4, 0, 0]),
        // Quirks: a number is a list item, a block has two fences.
        ("3.14", [1, 1, 0, 0]),
        ("```\ncode\n```", [1, 0, 0, 2]),
    ] {
        assert_eq!(Features::of(text).structure, expected, "{text:?}");
    }
    // Paragraphs 1/2, lists none and one, questions none and none, fences 2/2.
    let found = features(&["```a``` b"], &["- a ```b```\n\nc"]).structure;
    assert_near(found, (0.5 + 0.0 + 1.0 + 1.0) / 4.0, "structure");
}

#[test]
fn punctuation_and_length_by_hand() {
    // Ten and twenty characters. Marks per character: "!" .1/.1, "," .1/.05, dashes none and .05.
    let found = features(&["Abcdefgh!,"], &["Abcdefgh!, Abcdefg!—"]);
    assert_near(found.punctuation, (1.0 + 0.5 + 1.0 + 1.0 + 0.0) / 5.0, "punctuation");
    assert_near(found.length, 0.5, "length");
    assert_near(features(&[""], &["a"]).length, 0.0, "empty");
    // Averages: 3 and 4 characters per message.
    assert_near(features(&["ab", "abcd"], &["abcd", "abcd"]).length, 0.75, "average");
}

#[test]
fn texts_are_cleaned() {
    for (text, cleaned) in [
        ("**Agent A**: Hello **Agent B**!", "Hello !"),
        ("**Agent B**:\n\n Hi", "Hi"),
        ("a\n\nb", "a\n\nb"),
        ("a\n\n\nb", "a\n\nb"),
        ("a \n \n\t\n\n  b", "a \n\n  b"),
        ("\n\n\n a \n\n\n", "a"),
    ] {
        assert_eq!(clean(text), cleaned, "{text:?}");
    }
}

#[test]
fn a_turn_is_scored_by_its_profile() {
    // Letters 2/4, sentences 1/1, structure and punctuation alike, length 3/3.
    let components = [0.5, 1.0, 1.0, 1.0, 1.0];
    for (name, profile, content) in [
        ("balanced", Profile::BALANCED, 0.4),
        ("structural", Profile::STRUCTURAL, 0.25),
        ("semantic", Profile::SEMANTIC, 0.6),
        ("strict", Profile::STRICT, 0.5),
    ] {
        let mut talk = Convergence::new(["a", "b"], profile, WINDOW_MESSAGES);
        assert_eq!(talk.push("a", "abc"), None);
        assert_eq!(talk.push("human", "abc"), None);
        let score = talk.push("b", "bcd").unwrap();
        for (found, expected) in score.components.all().into_iter().zip(components) {
            assert_near(found, expected, name);
        }
        assert_near(score.score, rounded(1.0 - content / 2.0), name);
    }
}

#[test]
fn equal_content_decides_alone() {
    let mut talk = Convergence::new(["a", "b"], Profile::BALANCED, WINDOW_MESSAGES);
    talk.push("a", "first things first, shall we? - yes");
    talk.push("b", "no");
    talk.push("a", "Yes!");
    let score = talk.push("b", " yes! ").unwrap();
    assert_near(score.score, 1.0, "score");
    assert_eq!(score.state, ConvergenceState::Stop);
    assert!(score.components.length < 0.2);
}

#[test]
fn custom_weights_are_checked() {
    let of = |content, length| Components { content, length, ..Profile::of([0.0; 5]).0 };
    for (weights, is_valid) in [
        (of(0.5, 0.5), true),
        (of(0.5, 0.5009), true),
        (of(0.5, 0.502), false),
        (of(1.5, -0.5), false),
        (of(f64::NAN, 1.0), false),
    ] {
        assert_eq!(Profile::custom(weights).is_ok(), is_valid, "{weights:?}");
    }
}

#[test]
fn weights_are_parsed_by_name_in_any_order() {
    let balanced = "punctuation=.1 length=0.15, content=0.4 structure=0.15 sentences=0.2";
    assert_eq!(Profile::parse(balanced), Ok(Profile::BALANCED));
    for (text, error) in [
        ("", InvalidWeights::Names),
        ("content=1", InvalidWeights::Names),
        ("content=1 content=0 structure=0 sentences=0 length=0 punctuation=0", InvalidWeights::Names),
        ("content=much", InvalidWeights::Names),
        ("words=1", InvalidWeights::Names),
        ("content=1 structure=1 sentences=0 length=0 punctuation=0", InvalidWeights::Sum { sum: 2.0 }),
    ] {
        assert_eq!(Profile::parse(text), Err(error), "{text}");
    }
}

/// The turns of a and b, two messages an exchange.
fn pairs(texts: &[String]) -> Vec<SpeakerMessage> {
    let speakers = ["a", "b"].into_iter().cycle();
    let said = texts.iter().zip(speakers).enumerate();
    said.map(|(place, (text, speaker))| SpeakerMessage {
        exchange: i64::try_from(place / 2).unwrap(),
        speaker: speaker.to_owned(),
        text: text.clone(),
    })
    .collect()
}

#[test]
fn a_result_shows_the_change_of_the_last_turn() {
    let texts = ["one thing", "another", "Same.", "Same."].map(str::to_owned);
    let whole = compare_last_speakers(&pairs(&texts), true, &Rules::default()).unwrap();
    assert_eq!(whole.speakers, ["a", "b"]);
    assert_eq!((whole.before, whole.score.state), (Some(ConvergenceState::Ok), ConvergenceState::Stop));
    assert!(whole.is_fresh);
    // Half a turn changes nothing.
    let more = [texts.as_slice(), &["Same.".to_owned()]].concat();
    let half = compare_last_speakers(&pairs(&more), true, &Rules::default()).unwrap();
    assert_eq!((half.score, half.is_fresh), (whole.score, false));
    assert_eq!(compare_last_speakers(&pairs(&texts[..1]), true, &Rules::default()), None);
    // Of three speakers, the two that spoke last.
    let mut three = pairs(&texts);
    three[0].speaker = "c".to_owned();
    three[1].speaker = "c".to_owned();
    let last_two = compare_last_speakers(&three, true, &Rules::default()).unwrap();
    assert_eq!((last_two.speakers, last_two.before), (["a", "b"].map(str::to_owned), None));
}

#[test]
fn trends_and_states() {
    for (scores, expected) in [
        (&[0.1, 0.2][..], Trend::InsufficientData),
        (&[0.1, 0.2, 0.3], Trend::Increasing),
        (&[0.3, 0.2, 0.1], Trend::Decreasing),
        (&[0.3, 0.35, 0.3], Trend::Stable),
        (&[0.3, 0.3, 0.3], Trend::Stable),
        (&[0.3, 0.5, 0.3], Trend::Fluctuating),
    ] {
        assert_eq!(trend(scores), expected, "{scores:?}");
    }
    let thresholds = Thresholds::default();
    for (score, expected) in [
        (0.79, ConvergenceState::Ok),
        (0.80, ConvergenceState::Warn),
        (0.94, ConvergenceState::Warn),
        (0.95, ConvergenceState::Stop),
    ] {
        assert_eq!(thresholds.state(score), expected);
    }
    let never = Thresholds { warn_at: None, stop_at: None };
    assert_eq!(never.state(1.0), ConvergenceState::Ok);
}

proptest! {
    #[test]
    fn scores_are_bounded_and_do_not_depend_on_who_is_who(
        said in proptest::collection::vec((any::<bool>(), "[a-c.!?,\\-\\n 1`*]{0,60}|.{0,60}"), 0..40),
        window in 0..14_usize,
    ) {
        let mut one = Convergence::new(["a", "b"], Profile::BALANCED, window);
        let mut other = Convergence::new(["b", "a"], Profile::BALANCED, window);
        for (is_a, text) in said {
            let speaker = if is_a { "a" } else { "b" };
            let score = one.push(speaker, &text);
            prop_assert!(one.messages_in_memory() <= window);
            if let Some(score) = score {
                for value in score.components.all().into_iter().chain([score.score]) {
                    prop_assert!((0.0..=1.0).contains(&value), "{score:?}");
                }
            }
            let mirrored = other.push(speaker, &text);
            prop_assert_eq!(score.map(|score| score.score), mirrored.map(|score| score.score));
        }
    }

    #[test]
    fn the_needed_messages_give_the_score_of_all_messages(
        texts in proptest::collection::vec("[a-d ?.]{0,12}", 2..60),
        window_messages in 2..8_usize,
    ) {
        let rules = Rules { window_messages, ..Rules::default() };
        let all = pairs(&texts);
        let needed = usize::try_from(rules.messages_needed()).unwrap();
        let last = &all[all.len().saturating_sub(needed)..];
        let (whole, end) = (compare_last_speakers(&all, true, &rules), compare_last_speakers(last, all.len() <= needed, &rules));
        prop_assert_eq!(whole, end);
    }

    #[test]
    fn messages_outside_of_the_window_are_forgotten(
        past in proptest::collection::vec(".{0,40}", 0..30),
        recent in proptest::collection::vec(".{0,40}", 10),
    ) {
        let talk = |texts: &[String]| {
            let mut talk = Convergence::new(["a", "b"], Profile::STRICT, WINDOW_MESSAGES);
            let speakers = ["a", "b"].into_iter().cycle();
            let scores = texts.iter().zip(speakers).map(|(text, speaker)| talk.push(speaker, text));
            scores.last().flatten().map(|score| score.components)
        };
        let whole: Vec<String> = past.iter().chain(past.iter()).chain(&recent).cloned().collect();
        prop_assert_eq!(talk(&whole), talk(&recent));
    }
}
