//! Names of speakers, in conversations of several.

use super::*;

fn said(name: &str, text: &str) -> Message {
    let json = serde_json::json!({"role": "user", "name": name, "content": text});
    formats::parse(Format::OpenAiChat, &json.to_string()).unwrap()
}

fn brief_context(input: &ContextInput<'_>, alternation: Alternation, names_speakers: bool) -> String {
    let options = ContextOptions { names_speakers, ..with_alternation(alternation) };
    let context = build(input, &options, &Characters);
    let counted: i64 = context.turns.iter().map(|turn| turn.tokens(&Characters)).sum();
    assert_eq!(context.tokens, counted);
    brief(&context.turns)
}

#[test]
fn the_words_of_several_speakers_stay_distinct() {
    let messages = [
        said("ida", "Postgres."),
        said("ida", "Please."),
        said("omar", "MySQL."),
        message("a Both?"),
        said("ida", "One."),
    ];
    let built =
        |alternation, names_speakers| brief_context(&one_by_one(&messages), alternation, names_speakers);
    assert_eq!(
        built(Alternation::Merge, false),
        "u [ida:] + Postgres. + Please. + [omar:] + MySQL. | a Both? | u One."
    );
    assert_eq!(built(Alternation::Merge, true), "u Postgres. + Please. | u MySQL. | a Both? | u One.");
    assert_eq!(built(Alternation::Keep, false), "u Postgres. | u Please. | u MySQL. | a Both? | u One.");
}

/// The anchor has a speaker, too, and is merged with the window's first words.
#[test]
fn the_speaker_of_the_anchor_stays_named() {
    let (task, answer) = (said("ida", "The task."), message("a Done."));
    let built = |speaker, alternation, names_speakers| {
        let next = said(speaker, "Go on.");
        let input = ContextInput {
            anchor: Some(SourceMessage::uncounted(1, &task)),
            summary: Some("S".to_owned()),
            exchanges: vec![SourceExchange {
                exchange: 2,
                first_leg: 2,
                is_open: false,
                messages: vec![SourceMessage::uncounted(2, &next), SourceMessage::uncounted(3, &answer)],
            }],
            evicted: true,
            ..ContextInput::default()
        };
        brief_context(&input, alternation, names_speakers)
    };
    assert_eq!(
        built("omar", Alternation::Merge, false),
        "u [ida:] + The task. + [S] + [omar:] + Go on. | a Done."
    );
    assert_eq!(built("omar", Alternation::Merge, true), "u [ida:] + The task. + [S] | u Go on. | a Done.");
    // A turn without a name is still merged with the anchor.
    assert_eq!(
        built("", Alternation::Merge, true),
        "u [ida:] + The task. + [S] + [user:] + Go on. | a Done."
    );
    assert_eq!(
        built("omar", Alternation::Ack, false),
        "u The task. + [S] | a [Understood.] | u Go on. | a Done."
    );
    assert_eq!(built("ida", Alternation::Merge, false), "u The task. + [S] + Go on. | a Done.");
}
