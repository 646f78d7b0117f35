//! The request before later legs.

use super::*;

const WHY: &str = "why=\"the user's request that the following messages work on\"";

/// Rows numbered from `first`. A row that begins with the user's words begins an exchange, any other is a later leg. A later leg at the
/// start of the window continues number `first - 1`.
fn legs(first: i64, rows: &[Vec<Message>]) -> ContextInput<'_> {
    let (mut seq, mut first_leg) = (100, first - 1);
    let mut input = ContextInput::default();
    for (exchange, row) in (first..).zip(rows) {
        if is_safe_boundary(&row[0]) {
            first_leg = exchange;
        }
        let sources = (seq..).zip(row);
        let messages: Vec<SourceMessage<'_>> =
            sources.map(|(seq, message)| SourceMessage::uncounted(seq, message)).collect();
        seq += i64_or_max(row.len());
        input.exchanges.push(SourceExchange { exchange, first_leg, is_open: false, messages });
    }
    input
}

fn scripted(scripts: &[&str]) -> Vec<Vec<Message>> {
    scripts.iter().map(|script| messages(script)).collect()
}

const LATER: [&str; 2] = ["c 1 x | r 1 A | c 2 x | r 2 B", "c 3 x | r 3 C"];

fn request(message: &Message) -> SourceRequest<'_> {
    SourceRequest { exchange: 14, message: SourceMessage::uncounted(8, message) }
}

#[test]
fn the_request_comes_verbatim_before_later_legs() {
    let said = "  Port it:\n\n  fn main() {}  <copy>  \n\tand </copy> ends  ";
    let json = serde_json::json!({"kind": "user", "content": said}).to_string();
    let asked = formats::parse(Format::Native, &json).unwrap();
    let task = message("u the task");
    let rows = scripted(&LATER);
    let mut input = legs(15, &rows);
    input.request = Some(request(&asked));
    input.anchor = Some(SourceMessage::uncounted(1, &task));
    input.summary = Some("S".to_owned());
    input.evicted = true;
    let context = build(&input, &ContextOptions::default(), &Characters);
    let head = &context.turns[0];
    assert_eq!(head.pieces[1].origin, PieceOrigin::Synthetic(Reason::Request));
    let said = said.replace("<copy", "‹copy").replace("</copy", "‹/copy");
    let Part::Text(text) = &head.pieces[1].parts[0] else { panic!("{head:?}") };
    assert_eq!(text, &format!("<copy of=\"message 8\" exchange=\"#14\" by=\"user\" {WHY}>\n{said}\n</copy>"));
    // Between anchor and summary; the legs follow.
    let whole = brief(&context.turns);
    assert!(whole.starts_with("u the task + [<copy") && whole.contains("</copy>] + [S] | a 1:x"), "{whole}");
    let counted: i64 = context.turns.iter().map(|turn| turn.tokens(&Characters)).sum();
    assert_eq!(context.tokens, counted);
}

#[test]
fn a_request_is_sent_once() {
    let asked = message("u Port it all.");
    let sent = |input: &ContextInput<'_>| {
        let options = ContextOptions { anchor: input.anchor.is_some(), ..ContextOptions::default() };
        let context = build(input, &options, &Characters);
        (brief(&context.turns[..1]), context.copied)
    };
    let rows = scripted(&LATER);
    let mut input = legs(15, &rows);
    input.request = Some(request(&asked));
    // The request is pinned as well.
    input.copies =
        vec![SourceCopy { exchange: 14, pinned: true, message: SourceMessage::uncounted(8, &asked) }];
    let (head, copied) = sent(&input);
    assert_eq!((head.matches("Port it all.").count(), copied), (1, vec![]));
    assert!(head.contains(WHY), "{head}");
    // The anchor is the request.
    input.anchor = Some(SourceMessage::uncounted(8, &asked));
    assert_eq!(sent(&input), ("u Port it all.".to_owned(), vec![]));
    // The first leg is in view, or the visible legs belong to a visible request.
    let later = scripted(&["u Port it all. | c 1 x | r 1 A", "c 2 x | r 2 B"]);
    let input = legs(15, &later);
    assert_eq!(sent(&input).0, "u Port it all.");
    // There is no request.
    let rows = scripted(&LATER);
    let input = legs(15, &rows);
    assert_eq!(sent(&input).0, "u [Continue.]");
}

#[test]
fn the_request_of_a_leg_that_is_left_out_to_fit_is_sent() {
    let first = format!("u Port it all. | c 1 x | r 1 A | a {}", "z".repeat(400));
    let rows = scripted(&[&first, "c 2 x | r 2 B", "c 3 x | r 3 C | a on"]);
    let input = legs(15, &rows);
    let options = ContextOptions { max_tokens: 400, ..ContextOptions::default() };
    let context = build(&input, &options, &Characters);
    assert_eq!((&context.left_out, context.over_budget), (&vec![15], false));
    let text = brief(&context.turns);
    assert!(text.starts_with("u [<copy of=\"message 100\" exchange=\"#15\" by=\"user\""), "{text}");
    assert!(text.contains("/Port it all./</copy>] + [[exchange #15 is left out"), "{text}");
}

#[test]
fn a_request_is_cut_only_if_it_is_bigger_than_a_step() {
    let asked = message(&format!("u Port {} all.", "x".repeat(1_000)));
    for (max_tokens, step_tokens, is_whole) in [
        (0, 0, true),
        (0, 1_020, true),
        (0, 500, false),
        (2_100, 0, true),
        (2_000, 0, false),
        (9_000, 500, false),
    ] {
        let rows = scripted(&LATER);
        let mut input = legs(15, &rows);
        input.request = Some(request(&asked));
        let options = ContextOptions { max_tokens, step_tokens, ..ContextOptions::default() };
        let context = build(&input, &options, &Characters);
        let head = brief(&context.turns[..1]);
        assert_eq!(head.contains(&asked.text()), is_whole, "{max_tokens} {step_tokens}");
        assert!(head.contains("\nPort xxx") || head.contains("/Port xxx"), "{head}");
        assert!(head.contains("x all./</copy>"), "{head}");
        // An anchor that is the request has the limit of a request, not the smaller one of an anchor.
        input.anchor = Some(SourceMessage::uncounted(8, &asked));
        let head = brief(&build(&input, &options, &Characters).turns[..1]);
        assert_eq!(head.contains(&asked.text()), is_whole, "{max_tokens} {step_tokens}");
    }
}

#[test]
fn a_speaker_sees_only_their_part_of_a_request() {
    let line = |json: &str| formats::parse(Format::Native, json).unwrap();
    let open = line(r#"{"kind":"user","speaker":"ida","content":"Port it."}"#);
    let secret = line(r#"{"kind":"user","speaker":"ida","audience":"b","content":"Port it."}"#);
    let participants = vec!["a".to_owned(), "b".to_owned()];
    let viewer = Perspective::new("a", PerspectiveStyle::default(), participants).unwrap();
    for (asked, is_seen) in [(&open, true), (&secret, false)] {
        let rows = scripted(&LATER);
        let mut input = legs(15, &rows);
        input.request = Some(request(asked));
        input.perspective = Some(&viewer);
        let text = brief(&build(&input, &ContextOptions::default(), &Characters).turns);
        assert_eq!(text.contains("Port it."), is_seen, "{text}");
        assert_eq!(text.contains("by=\"ida\""), is_seen, "{text}");
    }
}

/// All legs of an open exchange are open, wherever the newest one began.
#[test]
fn thinking_of_all_legs_of_the_open_exchange_is_kept() {
    let rows = scripted(&["t hmm | c 1 x | r 1 A", "t aha | c 2 x | r 2 B"]);
    let mut input = legs(15, &rows);
    input.evicted = true;
    input.exchanges[1].is_open = true;
    let options = ContextOptions { keep_open_thinking: true, ..ContextOptions::default() };
    let text = brief(&build(&input, &options, &Characters).turns);
    assert!(text.contains("(hmm)") && text.contains("(aha)"), "{text}");
}
