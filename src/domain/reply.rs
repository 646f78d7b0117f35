//! The answers that a model may give: the schema, and the checks that an answer must pass before it is used.
//!
//! Invariant: whatever the text, the checked items cover only exchanges that were asked about, each at most once, in
//! order; and the exchanges that no item covers are named.
//!
//! Whether a text is true isn't checked here, only that there is one, and that it can't do harm in a summary.

mod clean;
mod coverage;
mod json;
mod operations;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use coverage::{ITEM_EXCHANGES_MAX, RangeFault, runs};
pub use operations::{OPERATIONS, parse_operations};

use super::{
    redaction::Redactor,
    summary::item::{BRIEF_CHARS_MAX, GIST_CHARS_MAX, ItemDraft, TEXT_CHARS_MAX},
};

/// The longest answer that is read, in bytes: some 60,000 tokens, six times what a summary may hold.
pub const ANSWER_BYTES_MAX: usize = 256 * 1024;

/// The JSON schema of an answer, as it is given to a provider: in strict modes the model writes the fields in the
/// schema's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schema {
    /// Its name, for providers that want one.
    pub name: &'static str,
    /// The schema.
    pub json: &'static str,
}

impl Schema {
    /// The schema as a value.
    pub fn value(self) -> Value {
        serde_json::from_str(self.json).expect("a literal, and a test reads it")
    }
}

/// The schema of an [`Answer`]: the detailed text comes first, so that the shorter ones are made from it.
pub const ITEMS: Schema = Schema {
    name: "summary_items",
    json: r#"{
  "type": "object",
  "properties": {
    "items": {
      "type": "array",
      "items": {
        "type": "object",
        "properties": {
          "exchanges": {
            "type": "object",
            "properties": {"first": {"type": "integer"}, "last": {"type": "integer"}},
            "required": ["first", "last"],
            "additionalProperties": false
          },
          "importance": {
            "type": "string",
            "enum": ["trivial", "debugging", "fix", "feature", "constraint", "decision"]
          },
          "text": {"type": "string"},
          "brief": {"type": "string"},
          "gist": {"type": "string"}
        },
        "required": ["exchanges", "importance", "text", "brief", "gist"],
        "additionalProperties": false
      }
    }
  },
  "required": ["items"],
  "additionalProperties": false
}"#,
};

/// A model's answer: `{"items": [{"exchanges": {"first": 3, "last": 5}, "importance": "fix", "text": …, "brief": …,
/// "gist": …}]}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Items, oldest first.
    pub items: Vec<ItemDraft>,
}

/// An answer that passed the checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Items with clean texts, oldest first. Their ranges are disjoint and begin and end with exchanges that were
    /// asked about; [`runs`] tells which of these lie in a range.
    pub drafts: Vec<ItemDraft>,
    /// The exchanges asked about that no item covers, ascending.
    pub missing: Vec<i64>,
}

/// Why an answer can't be used, by what to do next. The messages hold nothing of the answer but numbers, so they may be
/// logged, and shown to the model ([`super::prompt::Prompt::again`]).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// It isn't the JSON that was asked for: ask once more and say so.
    #[error("the answer is not the JSON that was asked for: {0}")]
    Unreadable(String),
    /// An item's exchanges are wrong: ask once more and say which.
    #[error("the answer puts an item to the wrong exchanges: {0}")]
    Misattributed(#[from] RangeFault),
    /// Its texts say nothing: the model isn't up to the task, and digests serve better than asking it again.
    #[error("the answer says nothing: {0}")]
    Worthless(String),
}

impl ReplyError {
    /// The name for metrics and the runs table: `bad_output`.
    pub fn class(&self) -> &'static str {
        "bad_output"
    }

    /// Whether asking the same model once more, with this error as advice, may help.
    pub fn is_worth_asking_again(&self) -> bool {
        !matches!(self, Self::Worthless(_))
    }
}

/// Reads and checks a model's answer to the question about `exchanges` (ascending, may have holes). Accepts the JSON
/// object also when it is wrapped in a code fence or in prose. Secrets are redacted by the rules of `redactor`. An item that
/// says nothing is left out, so that one of many doesn't spoil them all; if none is left, the answer is worthless.
pub fn parse(text: &str, exchanges: &[i64], redactor: &Redactor) -> Result<Checked, ReplyError> {
    let items = json::items(text)?;
    let mut worthless = ReplyError::Worthless("there are no items".to_owned());
    let mut drafts = Vec::with_capacity(items.len());
    for (item, number) in items.into_iter().zip(1..) {
        match cleaned(&json::draft(item, number)?, number, redactor) {
            Ok(draft) => drafts.push(draft),
            Err(fault) if number == 1 => worthless = fault,
            Err(_) => {}
        }
    }
    if drafts.is_empty() {
        return Err(worthless);
    }
    Ok(coverage::place(drafts, exchanges)?)
}

fn cleaned(draft: &ItemDraft, number: usize, redactor: &Redactor) -> Result<ItemDraft, ReplyError> {
    let text = |field: &str, text: &str, chars_max| {
        cleaned_text(text, chars_max, redactor)
            .map_err(|fault| ReplyError::Worthless(format!("`{field}` of item {number} {fault}")))
    };
    Ok(ItemDraft {
        text: text("text", &draft.text, TEXT_CHARS_MAX)?,
        brief: text("brief", &draft.brief, BRIEF_CHARS_MAX)?,
        gist: text("gist", &draft.gist, GIST_CHARS_MAX)?,
        exchanges: draft.exchanges,
        importance: draft.importance,
    })
}

/// The text as it can stand in a summary, or what is wrong with it.
fn cleaned_text(text: &str, chars_max: usize, redactor: &Redactor) -> Result<String, &'static str> {
    // Before anything is cut: half a secret has no shape.
    let clean = clean::clean(&redactor.redact(text), chars_max);
    if !clean.contains(char::is_alphanumeric) {
        Err("is empty")
    } else if clean::is_echo(&clean) {
        Err("repeats the instructions")
    } else {
        Ok(clean)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::domain::summary::item::{ExchangeRange, Importance};

    const ASKED: [i64; 5] = [3, 4, 7, 8, 12];

    fn parse(text: &str, exchanges: &[i64]) -> Result<Checked, ReplyError> {
        super::parse(text, exchanges, &Redactor::standard())
    }

    fn item(first: i64, last: i64) -> Value {
        json!({"exchanges": {"first": first, "last": last}, "importance": "fix",
               "text": "Fixed `parse` in src/a.rs.", "brief": "Fixed `parse`.", "gist": "parse fixed"})
    }

    fn answer(items: &[Value]) -> String {
        json!({"items": items}).to_string()
    }

    fn ranges(checked: &Checked) -> Vec<(i64, i64)> {
        let ranges = checked.drafts.iter().map(|draft| draft.exchanges);
        ranges.map(|range| (range.first, range.last)).collect()
    }

    /// What the strict mode of every provider takes: no field may be left out, none added, and few words are known.
    pub(super) fn check_schema(schema: &Value) {
        const WORDS: [&str; 6] = [
            "type",
            "properties",
            "items",
            "required",
            "enum",
            "additionalProperties",
        ];
        if let Some(properties) = schema["properties"].as_object() {
            assert_eq!(schema["additionalProperties"], json!(false));
            let required: Vec<&str> = schema["required"]
                .as_array()
                .unwrap()
                .iter()
                .map(|r| r.as_str().unwrap())
                .collect();
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
        assert_eq!(item_schema["importance"]["enum"], json!(Importance::ALL));
        let draft: ItemDraft = serde_json::from_value(item(1, 2)).unwrap();
        let fields = serde_json::to_value(draft).unwrap();
        assert!(
            fields
                .as_object()
                .unwrap()
                .keys()
                .eq(item_schema.as_object().unwrap().keys())
        );
    }

    #[test]
    fn finds_the_answer_in_what_surrounds_it() {
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
            plain.replace("{\"items\"", "{\"note\": \"strips </think>\", \"items\""),
        ] {
            let checked = parse(&text, &ASKED).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(ranges(&checked), [(3, 12)], "{text}");
            assert_eq!(
                (checked.missing, checked.drafts[0].importance),
                (vec![], Importance::Fix)
            );
        }
    }

    #[test]
    fn refuses_what_is_not_an_answer() {
        let mut odd = item(3, 3);
        odd["importance"] = json!("huge");
        let mut bare = item(3, 3);
        bare.as_object_mut().unwrap().remove("gist");
        for (text, message) in [
            (String::new(), "there is no JSON object"),
            ("I can't help with that.".to_owned(), "there is no JSON object"),
            ("{".repeat(5_000), "there is no JSON object"),
            ("{\"a\":".repeat(5_000), "there is no JSON object"),
            (
                "{\"a\": {\"items\": []}}".to_owned(),
                "no object in it has a list `items`",
            ),
            (
                "{\"items\": \"none\"}".to_owned(),
                "no object in it has a list `items`",
            ),
            (
                answer(&[item(3, 3)]).replace("}]}", ""),
                "no object in it has a list `items`",
            ),
            (
                answer(&[item(3, 3), odd]),
                "item 2 lacks a field or has one of another type",
            ),
            (answer(&[bare]), "item 1 lacks a field or has one of another type"),
            ("a".repeat(ANSWER_BYTES_MAX + 1), "it is too long"),
        ] {
            assert_eq!(
                parse(&text, &ASKED),
                Err(ReplyError::Unreadable(message.to_owned()))
            );
        }
    }

    #[test]
    fn refuses_what_says_nothing() {
        let with = |field: &str, text: &str| {
            let mut item = item(3, 3);
            item[field] = json!(text);
            answer(&[item])
        };
        for (text, message) in [
            (answer(&[]), "there are no items"),
            (with("text", "  \n"), "`text` of item 1 is empty"),
            (with("brief", "# - \u{1b}[0m…"), "`brief` of item 1 is empty"),
            (with("gist", "```"), "`gist` of item 1 is empty"),
            (
                with(
                    "text",
                    "OK: Copy  identifiers exactly as they STAND — paths, names of functions!",
                ),
                "`text` of item 1 repeats the instructions",
            ),
        ] {
            let error = parse(&text, &ASKED).unwrap_err();
            assert_eq!(error, ReplyError::Worthless(message.to_owned()));
            assert!(!error.is_worth_asking_again());
        }
    }

    #[test]
    fn ranges_are_clipped_ordered_and_checked() {
        let range = |first, last| ExchangeRange { first, last };
        let good: [(Ranges, Ranges, &[i64]); 5] = [
            (&[(3, 12)], &[(3, 12)], &[]),
            (&[(1, 6), (7, 99)], &[(3, 4), (7, 12)], &[]),
            (&[(12, 12), (4, 7)], &[(4, 7), (12, 12)], &[3, 8]),
            (&[(3, 5), (5, 7)], &[(3, 4), (7, 7)], &[8, 12]),
            (&[(i64::MIN, i64::MAX)], &[(3, 12)], &[]),
        ];
        for (given, expected, missing) in good {
            let items: Vec<Value> = given.iter().map(|&(first, last)| item(first, last)).collect();
            let checked = parse(&answer(&items), &ASKED).unwrap();
            assert_eq!(
                (ranges(&checked).as_slice(), checked.missing.as_slice()),
                (expected, missing)
            );
        }
        let bad: [(Ranges, RangeFault); 4] = [
            (&[(4, 3)], RangeFault::Reversed(range(4, 3))),
            (&[(3, 4), (5, 6)], RangeFault::Unknown(range(5, 6))),
            (&[(13, 20)], RangeFault::Unknown(range(13, 20))),
            (
                &[(7, 12), (3, 7)],
                RangeFault::Overlapping(range(3, 7), range(7, 12)),
            ),
        ];
        for (given, fault) in bad {
            let items: Vec<Value> = given.iter().map(|&(first, last)| item(first, last)).collect();
            assert_eq!(
                parse(&answer(&items), &ASKED),
                Err(ReplyError::Misattributed(fault))
            );
        }
    }

    /// Digests tell more of what it is about, and an answer of nothing else is asked for again.
    #[test]
    fn an_item_about_too_many_exchanges_is_left_out() {
        let (asked, broad): (Vec<i64>, _) = ((1..=40).collect(), item(1, 16));
        let checked = parse(&answer(&[broad.clone(), item(17, 31)]), &asked).unwrap();
        assert_eq!(
            (ranges(&checked), checked.missing.len()),
            (vec![(17, 31)], 16 + 9)
        );
        let error = parse(&answer(&[broad]), &asked).unwrap_err();
        let range = ExchangeRange { first: 1, last: 16 };
        assert_eq!(error, ReplyError::Misattributed(RangeFault::Broad(range)));
        assert!(error.is_worth_asking_again());
    }

    #[test]
    fn errors_say_what_to_do_better() {
        let fault = RangeFault::Overlapping(
            ExchangeRange { first: 3, last: 7 },
            ExchangeRange { first: 7, last: 7 },
        );
        insta::assert_snapshot!(
            ReplyError::from(fault),
            @"the answer puts an item to the wrong exchanges: #3 to #7 and #7 to #7 overlap"
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
        fn what_passes_is_disjoint_ordered_asked_for_and_accounts_for_all(
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
                    prop_assert!(!draft.text.contains(super::super::prompt::FENCE_WORD));
                    prop_assert!(!draft.text.contains(char::is_control));
                }
                prop_assert!(checked.drafts.windows(2).all(|pair| pair[0].exchanges.last < pair[1].exchanges.first));
                prop_assert!(checked.missing.is_sorted());
                seen.sort_unstable();
                prop_assert_eq!(seen, asked);
            }
        }
    }
}
