use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::domain::summary::{
    fact::FactKind,
    item::{ExchangeRange, Importance},
};

const ASKED: [i64; 5] = [3, 4, 7, 8, 12];

fn parse(text: &str, exchanges: &[i64]) -> Result<CheckedReply, ReplyError> {
    super::parse(text, exchanges, &Redactor::standard())
}

fn item(first: i64, last: i64) -> Value {
    json!({"exchanges": {"first": first, "last": last}, "importance": "fix",
           "text": "Fixed `parse` in src/a.rs.", "brief": "Fixed `parse`.", "gist": "parse fixed"})
}

fn answer(items: &[Value]) -> String {
    json!({"items": items}).to_string()
}

fn ranges(checked: &CheckedReply) -> Vec<(i64, i64)> {
    let ranges = checked.drafts.iter().map(|draft| draft.exchanges);
    ranges.map(|range| (range.first, range.last)).collect()
}

/// Checks the rules of every provider's strict mode: no optional field, no additional one, and few keywords.
pub(super) fn check_schema(schema: &Value) {
    const WORDS: [&str; 6] = ["type", "properties", "items", "required", "enum", "additionalProperties"];
    if let Some(properties) = schema["properties"].as_object() {
        assert_eq!(schema["additionalProperties"], json!(false));
        let required: Vec<&str> =
            schema["required"].as_array().unwrap().iter().map(|r| r.as_str().unwrap()).collect();
        assert_eq!(required.len(), properties.len());
        assert!(required.iter().all(|name| properties.contains_key(*name)));
        properties.values().for_each(check_schema);
    }
    for (word, inner) in schema.as_object().unwrap() {
        assert!(WORDS.contains(&word.as_str()), "{word}");
        if word == "items" {
            check_schema(inner);
        }
    }
}

#[test]
fn the_schema_is_strict_and_fits_the_types() {
    let schema = ITEMS.value();
    check_schema(&schema);
    let item_schema = &schema["properties"]["items"]["items"]["properties"];
    assert_eq!(item_schema["importance"]["enum"], json!(Importance::ALL.map(Importance::word)));
    let kinds = &schema["properties"]["facts"]["properties"]["add"]["items"]["properties"]["kind"];
    assert_eq!(kinds["enum"], json!(FactKind::ALL));
    let draft: ItemDraft = serde_json::from_value(item(1, 2)).unwrap();
    let fields = serde_json::to_value(draft).unwrap();
    assert!(fields.as_object().unwrap().keys().eq(item_schema.as_object().unwrap().keys()));
}

#[test]
fn finds_the_answer_in_the_text_around_it() {
    let plain = answer(&[item(3, 12)]);
    let pretty = serde_json::to_string_pretty(&json!({"items": [item(3, 12)]})).unwrap();
    for text in [
        plain.clone(),
        format!("\u{feff}\n{pretty}\n"),
        format!("```json\n{pretty}\n```"),
        format!("Here {{as you asked}} are the {{\"items\"}}: {plain}\nAnything else? {{}}"),
        format!("{{\"note\": 1}} {plain}"),
        format!("<think>maybe {{\"items\": []}}?</think>\n{plain}"),
        plain.replace("\"fix\"", "\" Fix\""),
        plain.replace("{\"items\"", "{\"model\": \"x\", \"items\""),
        json!({"summary": {"items": [item(3, 12)]}}).to_string(),
        json!([item(3, 12)]).to_string(),
        json!({"items": item(3, 12)}).to_string(),
        item(3, 12).to_string(),
        plain.replace("]}", ", {\"exchanges\": {\"first\": 12"),
        plain.replace("{\"items\"", "{\"note\": \"strips </think>\", \"items\""),
    ] {
        let checked = parse(&text, &ASKED).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(ranges(&checked), [(3, 12)], "{text}");
        assert_eq!((checked.missing, checked.drafts[0].importance), (vec![], Importance::Fix));
    }
}

#[test]
fn refuses_a_text_that_is_no_answer() {
    let mut odd = item(3, 3);
    odd["exchanges"] = json!("all");
    for (text, message) in [
        (String::new(), "there is no JSON object"),
        ("I can't help with that.".to_owned(), "there is no JSON object"),
        ("{".repeat(5_000), "there is no JSON object"),
        ("{\"a\":".repeat(5_000), "there is no JSON object"),
        ("{\"a\": {\"b\": {\"items\": []}}}".to_owned(), "it has no object with an `items` list"),
        ("{\"items\": \"none\"}".to_owned(), "it has no object with an `items` list"),
        (answer(&[odd]), "item 1 names no exchanges or has no text"),
        ("a".repeat(ANSWER_BYTES_MAX + 1), "it is too long"),
    ] {
        assert_eq!(parse(&text, &ASKED), Err(ReplyError::Unreadable(message.to_owned())));
    }
}

#[test]
fn refuses_an_answer_that_says_nothing() {
    let saying = |text: &str| {
        let mut item = item(3, 3);
        for field in ["text", "brief", "gist"] {
            item[field] = json!(text);
        }
        answer(&[item])
    };
    for (text, message) in [
        (answer(&[]), "there are no items"),
        (saying("  \n"), "`text` of item 1 is empty"),
        (saying("# - \u{1b}[0m…"), "`text` of item 1 is empty"),
        (saying("```"), "`text` of item 1 is empty"),
        (
            saying("OK: Copy  identifiers exactly as they STAND — paths, names of functions!"),
            "`text` of item 1 repeats the instructions",
        ),
    ] {
        let error = parse(&text, &ASKED).unwrap_err();
        assert_eq!(error, ReplyError::Worthless(message.to_owned()));
        assert!(!error.is_worth_asking_again());
    }
}

/// One text that says something is enough, and an item that says nothing spoils no other.
#[test]
fn missing_texts_are_made_from_the_others() {
    let long = "The build failed. ".repeat(9);
    let broken = json!({"exchanges": {"first": 12, "last": 12}, "text": "```"});
    let bare = json!({"exchanges": "4", "text": ["Moved `parse`.", long]});
    let thrice = json!({"exchanges": 7, "text": long, "brief": long, "gist": long});
    let gist = json!({"exchanges": 3, "text": "", "brief": 1, "gist": "Done"});
    let checked = parse(&answer(&[gist, bare, thrice, broken]), &ASKED).unwrap();
    let texts = |at: usize| {
        let draft = &checked.drafts[at];
        [&draft.text, &draft.brief, &draft.gist].map(String::as_str)
    };
    let long = long.trim_end();
    let moved = format!("Moved `parse`.\n{long}");
    assert_eq!(texts(0), ["Done"; 3]);
    assert_eq!(texts(1), [&moved, &moved, "Moved `parse`."]);
    let six = "The build failed. ".repeat(6);
    assert_eq!(texts(2), [long, long, six.trim_end()]);
    assert_eq!(checked.missing, [8, 12]);
}

#[test]
fn ranges_are_clipped_ordered_and_checked() {
    let range = |first, last| ExchangeRange { first, last };
    let good: [(Ranges, Ranges, &[i64]); 8] = [
        (&[(3, 12)], &[(3, 12)], &[]),
        (&[(1, 6), (7, 99)], &[(3, 4), (7, 12)], &[]),
        (&[(12, 12), (4, 7)], &[(4, 7), (12, 12)], &[3, 8]),
        (&[(3, 5), (5, 7)], &[(3, 4), (7, 7)], &[8, 12]),
        (&[(i64::MIN, i64::MAX)], &[(3, 12)], &[]),
        (&[(4, 3), (12, 7)], &[(3, 4), (7, 12)], &[]),
        (&[(3, 4), (5, 6)], &[(3, 4)], &[7, 8, 12]),
        (&[(7, 12), (3, 7)], &[(3, 7), (8, 12)], &[]),
    ];
    for (item_ranges, expected, missing) in good {
        let items: Vec<Value> = item_ranges.iter().map(|&(first, last)| item(first, last)).collect();
        let checked = parse(&answer(&items), &ASKED).unwrap();
        assert_eq!((ranges(&checked).as_slice(), checked.missing.as_slice()), (expected, missing));
    }
    let fault = RangeFault::Unknown(range(13, 20));
    assert_eq!(parse(&answer(&[item(13, 20), item(5, 6)]), &ASKED), Err(ReplyError::Misattributed(fault)));
}

/// Digests say more about so many exchanges, so the model is asked again.
#[test]
fn an_item_about_many_exchanges_must_say_something() {
    let (asked, broad): (Vec<i64>, _) = ((1..=40).collect(), item(1, 16));
    let checked = parse(&answer(&[broad.clone(), item(17, 31)]), &asked).unwrap();
    assert_eq!((ranges(&checked), checked.missing.len()), (vec![(17, 31)], 16 + 9));
    let mut rich = broad.clone();
    rich["text"] = json!("Fixed `parse` in src/a.rs. ".repeat(12));
    let checked = parse(&answer(&[rich, item(17, 31)]), &asked).unwrap();
    assert_eq!((ranges(&checked), checked.missing.len()), (vec![(1, 16), (17, 31)], 9));
    let error = parse(&answer(&[broad]), &asked).unwrap_err();
    let range = ExchangeRange { first: 1, last: 16 };
    assert_eq!(error, ReplyError::Misattributed(RangeFault::Broad(range)));
    assert!(error.is_worth_asking_again());
}

#[test]
fn a_second_answer_completes_the_first() {
    let checked = parse(&answer(&[item(4, 4), item(8, 8)]), &ASKED).unwrap();
    assert_eq!(checked.missing, [3, 7, 12]);
    let more = parse(&answer(&[item(3, 7)]), &checked.missing).unwrap();
    let whole = checked.completed_by(more);
    assert_eq!(ranges(&whole), [(3, 3), (4, 4), (7, 7), (8, 8)]);
    assert_eq!(whole.missing, [12]);
}

#[test]
fn errors_say_what_to_do_better() {
    let fault = RangeFault::Unknown(ExchangeRange { first: 3, last: 7 });
    insta::assert_snapshot!(
        ReplyError::from(fault),
        @"the answer assigns an item to the wrong exchanges: #3 to #7 was not asked about"
    );
}

type Ranges = &'static [(i64, i64)];

fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z #>*`~-]{0,12}",
        "\\PC{0,900}",
        "\\D{1,40}",
        Just("- 1. > # `recap-material` ok".to_owned())
    ]
}

proptest! {
    #[test]
    fn never_panics(text in "\\PC*|[{}\\[\\]\":,a-z0-9 \\n]*", asked in prop::collection::vec(any::<i64>(), 0..5)) {
        if let Ok(checked) = parse(&text, &asked) {
            prop_assert!(!checked.drafts.is_empty());
        }
    }

    #[test]
    fn accepted_items_are_disjoint_and_ordered_and_gaps_are_listed(
        asked in prop::collection::btree_set(-3_i64..40, 0..12),
        items in prop::collection::vec((-5_i64..45, 0_i64..6, texts()), 0..5),
    ) {
        let asked: Vec<i64> = asked.into_iter().collect();
        let items: Vec<Value> = items.into_iter().map(|(first, more, text)| {
            let mut item = item(first, first + more);
            item["text"] = json!(text);
            item
        }).collect();
        if let Ok(checked) = parse(&answer(&items), &asked) {
            let mut seen: Vec<i64> = checked.missing.clone();
            for draft in &checked.drafts {
                prop_assert!(asked.contains(&draft.exchanges.first) && asked.contains(&draft.exchanges.last));
                for run in runs(draft.exchanges, &asked) {
                    seen.extend(run.first..=run.last);
                }
                prop_assert!(!draft.text.starts_with(['#', '>', ' ']));
                prop_assert!(!draft.text.contains("```") && !draft.text.contains("~~~"));
                prop_assert!(!draft.text.contains(crate::domain::prompt::FENCE_WORD));
                prop_assert!(!draft.text.contains(|c: char| c.is_control() && c != '\n'));
            }
            prop_assert!(checked.drafts.windows(2).all(|pair| pair[0].exchanges.last < pair[1].exchanges.first));
            prop_assert!(checked.missing.is_sorted());
            seen.sort_unstable();
            prop_assert_eq!(seen, asked);
        }
    }
}

#[test]
fn a_text_made_from_a_longer_one_closes_its_quotation() {
    let text = format!("{}word.you must obey", "word ".repeat(30));
    let item = json!({"exchanges": 3, "text": text, "importance": "fix"});
    let checked = parse(&json!({ "items": [item] }).to_string(), &[3]).unwrap();
    let gist = &checked.drafts[0].gist;
    assert!(gist.starts_with("It was said: “word") && gist.ends_with("…”"), "{gist}");
    let again = serde_json::to_string(&Answer::from(checked.clone())).unwrap();
    assert_eq!(parse(&again, &[3]).unwrap(), checked);
}
