use proptest::prelude::*;

use super::*;
use crate::domain::{
    exchange::ExchangeState,
    redaction::Redactor,
    summary::{fixtures::exchange, render::archived},
    time::Timestamp,
    zone::Zone,
};

struct Bytes;

impl TokenCounter for Bytes {
    fn count(&self, text: &str) -> i64 {
        i64::try_from(text.len().div_ceil(3)).unwrap()
    }

    fn method(&self) -> &'static str {
        "bytes/3"
    }
}

const CLOSING: &str = "*The whole: `recapd summary coder`.*";
const DOCUMENT: &str = "\
## Previously in This Session (8–9 May 2023)
### Mon 8 May
- Asked for X (08:00, #5)
- Did Y (09:00, #6)
  - in two steps
### Tue 9 May
- Found Z (07:00, #7)

## Yesterday (5 May 2023)
- Chose SQLite (#3)
- Chose WAL (#4)

## Just Left the Window (9 May 2023, 08:00–08:10)
- Asked for tests (08:00, #8)
- Ran them (08:10, #9)

*Older history is archived: look up any #n with recall.*
";

#[test]
fn the_newest_lines_come_first() {
    insta::assert_snapshot!(brief(DOCUMENT, CLOSING, &Bytes), @r"
    ## Just Left the Window (9 May 2023, 08:00–08:10)
    - Ran them (08:10, #9)
    - Asked for tests (08:00, #8)

    ## Previously in This Session (8–9 May 2023)
    ### Tue 9 May
    - Found Z (07:00, #7)
    ### Mon 8 May
    - Did Y (09:00, #6)
      - in two steps
    - Asked for X (08:00, #5)

    ## Yesterday (5 May 2023)
    - Chose WAL (#4)
    - Chose SQLite (#3)

    *The whole: `recapd summary coder`.*
    ");
}

#[test]
fn facts_come_first_and_are_dropped_last() {
    let document =
        format!("## Where Things Stand\n- Goal (#1): ship it\n- Open (#2): who reviews it\n\n{DOCUMENT}");
    let head = "## Where Things Stand\n- Goal (#1): ship it\n- Open (#2): who reviews it\n\n## Just Left the Window (9 May 2023, 08:00–08:10)\n";
    let brief = brief(&document, CLOSING, &Bytes);
    assert!(brief.starts_with(head), "{brief}");
    for order in [Order::Document, Order::NewestFirst] {
        let limits = Limits { chars_max: 140, tokens_max: 1_000 };
        let text = excerpt(&document, CLOSING, order, limits, &Bytes);
        assert_eq!(
            text,
            format!(
                "## Where Things Stand\n- Goal (#1): ship it\n- Open (#2): who reviews it\n\n{CLOSING}\n"
            )
        );
    }
}

#[test]
fn an_excerpt_says_whether_lines_are_missing() {
    let agent: AgentId = "coder".parse().unwrap();
    assert_eq!(BriefOptions::new(false, None, None), None);
    let of = |is_brief, chars_max| {
        let wanted = BriefOptions::new(is_brief, chars_max, Some(1_000)).unwrap();
        let excerpt = wanted.of(&agent, DOCUMENT, &Bytes);
        assert_eq!(excerpt.tokens, Bytes.count(&excerpt.text));
        (excerpt.text == DOCUMENT, excerpt.truncated)
    };
    assert_eq!(of(false, None), (true, false));
    assert_eq!(of(true, None), (false, false), "all lines, in another order");
    for chars_max in [250, 150, 100, 1] {
        assert_eq!(of(false, Some(chars_max)), (false, true), "{chars_max}");
        assert_eq!(of(true, Some(chars_max)), (false, true), "{chars_max}");
    }
}

#[test]
fn a_document_is_read_in_sections() {
    let described = |document: &str| {
        let sections = sections(document).into_iter();
        sections
            .map(|section| {
                format!(
                    "{} [{}]: {}",
                    section.title,
                    section.span.unwrap_or(""),
                    section.content.replace('\n', " / ")
                )
            })
            .collect::<Vec<_>>()
    };
    let expected = [
        "Previously in This Session [8–9 May 2023]: ### Mon 8 May / - Asked for X (08:00, #5) / - Did Y (09:00, #6) / \
         \u{20} - in two steps / ### Tue 9 May / - Found Z (07:00, #7)",
        "Yesterday [5 May 2023]: - Chose SQLite (#3) / - Chose WAL (#4)",
        "Just Left the Window [9 May 2023, 08:00–08:10]: - Asked for tests (08:00, #8) / - Ran them (08:10, #9)",
    ];
    assert_eq!(described(DOCUMENT), expected);
    assert_eq!(described(""), Vec::<String>::new());
    let short =
        excerpt(DOCUMENT, CLOSING, Order::Document, Limits { chars_max: 120, tokens_max: 1_000 }, &Bytes);
    assert_eq!(described(&short).len(), 1, "{short}");
    assert!(!described(&short)[0].contains("The whole"), "{short}");
}

#[test]
fn a_document_without_lines_is_its_own_brief() {
    let document = archived(101);
    assert_eq!(brief(&document, CLOSING, &Bytes), document);
    assert_eq!(sections(&document), []);
    let agent: AgentId = "coder".parse().unwrap();
    let wanted = |tokens_max| BriefOptions::new(true, None, Some(tokens_max)).unwrap();
    assert!(!wanted(1_000).of(&agent, &document, &Bytes).truncated);
    let none = wanted(5).of(&agent, &document, &Bytes);
    assert_eq!((none.text.as_str(), none.truncated), ("", true));
}

#[test]
fn a_shorter_document_keeps_its_order() {
    let limits = Limits { chars_max: 200, tokens_max: 1_000 };
    insta::assert_snapshot!(excerpt(DOCUMENT, CLOSING, Order::Document, limits, &Bytes), @r"
    ## Just Left the Window (9 May 2023, 08:00–08:10)
    - Asked for tests (08:00, #8)
    - Ran them (08:10, #9)

    *The whole: `recapd summary coder`.*
    ");
    let enough = Limits::BRIEF;
    assert_eq!(excerpt(DOCUMENT, CLOSING, Order::Document, enough, &Bytes), DOCUMENT);
    assert_eq!(brief("", CLOSING, &Bytes), "");
}

#[test]
fn a_line_that_is_too_long_is_cut() {
    let document = format!("## Yesterday\n1. {}\n", "word ".repeat(5_000));
    let text = brief(&document, CLOSING, &Bytes);
    assert!(text.contains("word…") && text.ends_with(&format!("{CLOSING}\n")), "{text}");
}

fn running() -> RunningExchange {
    let mut row = exchange(14, Timestamp(1_767_604_320_000));
    row.state = ExchangeState::Open;
    row.headline.title = "Port the shop to Rust".to_owned();
    RunningExchange::of(&[row], Zone::UTC, &Redactor::standard()).unwrap()
}

#[test]
fn the_running_exchange_comes_first() {
    let agent: AgentId = "coder".parse().unwrap();
    let of = |chars_max| {
        let wanted = BriefOptions::new(true, Some(chars_max), None).unwrap();
        (
            wanted.with_head(Some(&running()), "", &agent, DOCUMENT, &Bytes).text,
            wanted.of(&agent, DOCUMENT, &Bytes).text,
        )
    };
    let (with_head, plain) = of(9_000);
    let head = "Running: exchange #14 since 09:12: \"Port the shop to Rust\"\n\n";
    assert_eq!(with_head, format!("{head}{plain}"));
    let (with_head, plain) = of(250);
    assert!(with_head.starts_with(head) && with_head.chars().count() <= 250, "{with_head}");
    assert!(with_head.len() - head.len() < plain.len(), "{with_head}");
    // With little room, the document counts more than the running exchange.
    let (with_head, plain) = of(100);
    assert_eq!(with_head, plain);
    let wanted = BriefOptions::new(true, None, None).unwrap();
    assert_eq!(wanted.with_head(Some(&running()), "", &agent, "", &Bytes).text, "");
}

fn any_document() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        4 => "- [a-zé ]{1,200}",
        2 => "[1-9]\\. [a-z😀 ]{1,900}",
        1 => Just("## Yesterday".to_owned()),
        1 => Just(format!("## {PENDING_HEADING}")),
        1 => "### [0-9]{1,2} May",
        1 => Just(String::new()),
    ];
    proptest::collection::vec(line, 0..120).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #[test]
    fn no_text_exceeds_its_limits(document in any_document(), chars_max in 1_usize..12_000, tokens_max in 1_i64..3_000) {
        for order in [Order::Document, Order::NewestFirst] {
            let limits = Limits { chars_max, tokens_max };
            let text = excerpt(&document, CLOSING, order, limits, &Bytes);
            prop_assert!(document.trim().is_empty() || text.chars().count() <= chars_max);
            prop_assert!(document.trim().is_empty() || Bytes.count(&text) <= tokens_max);
        }
    }

    #[test]
    fn a_running_exchange_keeps_the_limits(document in any_document(), chars_max in 1_usize..3_000, tokens_max in 1_i64..3_000) {
        let wanted = BriefOptions::new(true, Some(chars_max), Some(tokens_max)).unwrap();
        let agent: AgentId = "coder".parse().unwrap();
        let excerpt = wanted.with_head(Some(&running()), "", &agent, &document, &Bytes);
        prop_assert!(document.trim().is_empty() || excerpt.text.chars().count() <= chars_max);
        prop_assert!(document.trim().is_empty() || excerpt.tokens <= tokens_max);
        prop_assert_eq!(excerpt.tokens, Bytes.count(&excerpt.text));
    }

    #[test]
    fn a_brief_ends_with_the_closing_line(document in any_document()) {
        let text = brief(&document, CLOSING, &Bytes);
        let last = format!("{CLOSING}\n");
        prop_assert!(text.trim().is_empty() || text.ends_with(&last));
        prop_assert!(text.chars().count() <= BRIEF_DOCUMENT_CHARS_MAX);
    }
}
