//! Reads an item in any form whose meaning is clear: numbers in quotes, a range as `1-5` or `[1, 5]`, a text as a list of points.

use serde_json::{Map, Value};

use crate::domain::summary::item::{ExchangeRange, Importance, ItemDraft};

/// Names that models give to the first and the last exchange.
const FIRST: [&str; 3] = ["first", "from", "start"];
const LAST: [&str; 5] = ["last", "to", "through", "until", "end"];
/// Names that models give to the range. Without a range, the item itself may name its first and last exchange.
const RANGE: [&str; 3] = ["exchanges", "exchange", "range"];

/// Returns true for an item: it names exchanges and has a text.
pub(super) fn is_item(value: &Value) -> bool {
    draft(value).is_some()
}

/// Reads an item. A missing text is empty. Returns `None` if the item names no exchanges or has no text at all.
pub(super) fn draft(item: &Value) -> Option<ItemDraft> {
    let item = item.as_object()?;
    if !["text", "brief", "gist"].iter().any(|name| item.contains_key(*name)) {
        return None;
    }
    let range_field = RANGE.iter().find_map(|name| item.get(*name));
    let exchanges = range_field.map_or_else(|| ends(item), range)?;
    let text = |name| item.get(name).map(text).unwrap_or_default();
    Some(ItemDraft {
        exchanges,
        // If the importance is unknown, the item is dropped neither early nor late.
        importance: item.get("importance").and_then(importance).unwrap_or(Importance::Fix),
        text: text("text"),
        brief: text("brief"),
        gist: text("gist"),
    })
}

/// Reads a number, also in quotes or with a mark: `#12`, `f7`.
pub(super) fn number(value: &Value) -> Option<i64> {
    match value {
        // Some models write every number with a decimal point.
        Value::Number(number) => {
            number.as_i64().or_else(|| number.to_string().strip_suffix(".0")?.parse().ok())
        }
        Value::String(text) => text.trim().trim_start_matches(['#', 'f']).parse().ok(),
        _ => None,
    }
}

/// Reads an importance, either the prompt's word for it or its stored name.
fn importance(value: &Value) -> Option<Importance> {
    let name = value.as_str()?.trim().to_lowercase();
    Importance::from_word(&name)
}

fn range(value: &Value) -> Option<ExchangeRange> {
    match value {
        Value::Object(fields) => ends(fields),
        Value::Array(numbers) => between(&numbers.iter().map(number).collect::<Option<Vec<i64>>>()?),
        Value::String(text) => between(&numbers_in(text)),
        one => number(one).and_then(|one| between(&[one])),
    }
}

fn ends(fields: &Map<String, Value>) -> Option<ExchangeRange> {
    let end = |names: &[&str]| names.iter().find_map(|name| fields.get(*name)).map(number);
    let first = end(&FIRST)??;
    let last = end(&LAST).unwrap_or(Some(first))?;
    between(&[first, last])
}

/// Returns the range from the least to the greatest number.
fn between(numbers: &[i64]) -> Option<ExchangeRange> {
    let first = numbers.iter().min().copied()?;
    let last = numbers.iter().max().copied()?;
    Some(ExchangeRange { first, last })
}

/// Returns the numbers in a text such as `#1–#5`. A hyphen separates numbers; it isn't a sign.
fn numbers_in(text: &str) -> Vec<i64> {
    let digits = text.split(|c: char| !c.is_ascii_digit());
    digits.filter_map(|digits| digits.parse().ok()).collect()
}

/// Reads a text, or joins a list of points.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(points) => {
            let points: Vec<&str> = points.iter().filter_map(Value::as_str).collect();
            points.join("\n")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ranges_are_read_in_every_plain_form() {
        for exchanges in [
            json!({"first": 1, "last": 5}),
            json!({"first": "1", "last": "#5"}),
            json!({"from": 1.0, "to": 5}),
            json!({"first": 5, "last": 1}),
            json!([1, 5]),
            json!(["1", 2, 3, 4, 5]),
            json!("1-5"),
            json!("#1–#5"),
            json!("1 to 5"),
        ] {
            let read = draft(&json!({"exchanges": exchanges, "text": "a"})).unwrap();
            assert_eq!(read.exchanges, ExchangeRange { first: 1, last: 5 }, "{exchanges}");
        }
        let one = ExchangeRange { first: 3, last: 3 };
        for item in [
            json!({"exchanges": 3, "gist": "a"}),
            json!({"exchange": "3", "gist": "a"}),
            json!({"exchanges": {"first": 3}, "gist": "a"}),
            json!({"first": 3, "last": 3, "gist": "a"}),
        ] {
            assert_eq!(draft(&item).unwrap().exchanges, one, "{item}");
        }
        for none in [
            json!({"exchanges": "all", "text": "a"}),
            json!({"exchanges": [1, "x"], "text": "a"}),
            json!({"exchanges": {"first": "one", "last": 2}, "text": "a"}),
            json!({"exchanges": null, "text": "a"}),
            json!({"text": "a"}),
            json!({"exchanges": 3}),
            json!("3"),
        ] {
            assert_eq!(draft(&none), None, "{none}");
        }
    }

    #[test]
    fn importance_and_texts_are_read_leniently() {
        let read = |importance: Value, text: Value| {
            draft(&json!({"exchanges": 1, "importance": importance, "text": text})).unwrap()
        };
        for (word, importance) in [
            ("demand", Importance::Constraint),
            (" Decision", Importance::Decision),
            ("result", Importance::Feature),
            ("fact", Importance::Fix),
            ("attempt", Importance::Debugging),
            ("chat", Importance::Trivial),
            ("debugging", Importance::Debugging),
            ("huge", Importance::Fix),
        ] {
            assert_eq!(read(json!(word), json!("a")).importance, importance, "{word}");
        }
        assert_eq!(read(json!(7), json!(["a", 1, "b"])).text, "a\nb");
        assert_eq!(read(json!(7), json!({"a": 1})).text, "");
    }
}
