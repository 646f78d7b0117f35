//! Finds the JSON of an answer within the text that a model wrote around it.

use serde_json::{Map, Value};

use super::{ANSWER_BYTES_MAX, ReplyError, draft};

/// Stops after this many failed attempts to parse an object. This bounds the work on hostile text.
const FAILURES_MAX: usize = 64;
const NO_ITEMS: &str = "it has no object with an `items` list";

/// The lists of an answer, before any check.
#[derive(Debug)]
pub(super) struct ReplyParts {
    pub(super) items: Vec<Value>,
    pub(super) facts: Option<Value>,
}

/// Returns the lists of the first object with `items`. Without such an object, returns all objects that are items themselves, as in an
/// answer that is a bare list or breaks off.
pub(super) fn parts(text: &str) -> Result<ReplyParts, ReplyError> {
    first_object(text, NO_ITEMS, with_items).or_else(|fault| {
        if text.len() > ANSWER_BYTES_MAX {
            return Err(fault);
        }
        let items = Objects::of(without_reasoning(text)).map(Value::Object);
        let items: Vec<Value> = items.filter(draft::is_item).collect();
        if items.is_empty() {
            return Err(fault);
        }
        Ok(ReplyParts { items, facts: None })
    })
}

/// Takes the lists from `object`, or from an object directly within it.
fn with_items(mut object: Map<String, Value>) -> Option<ReplyParts> {
    let items = match object.remove("items") {
        Some(Value::Array(items)) => items,
        Some(item) if draft::is_item(&item) => vec![item],
        Some(_) => return None,
        None => {
            let mut inner = object.into_iter().filter_map(|(_, value)| match value {
                Value::Object(inner) if inner.contains_key("items") => Some(inner),
                _ => None,
            });
            // Looks one level deep: an object within two others isn't found.
            return inner.next().and_then(with_items);
        }
    };
    let facts = object.remove("facts");
    Some(ReplyParts { items, facts })
}

/// Returns the first result of `take` for an outermost object. If `take` accepts no object, the error's text is `if_none`.
pub(super) fn first_object<T>(
    text: &str,
    if_none: &str,
    take: impl Fn(Map<String, Value>) -> Option<T>,
) -> Result<T, ReplyError> {
    let unreadable = |reason: &str| Err(ReplyError::Unreadable(reason.to_owned()));
    if text.len() > ANSWER_BYTES_MAX {
        return unreadable("it is too long");
    }
    let mut has_object = false;
    let found = Objects::of(without_reasoning(text)).find_map(|object| {
        has_object = true;
        take(object)
    });
    match found {
        Some(found) => Ok(found),
        None if has_object => unreadable(if_none),
        None => unreadable("there is no JSON object"),
    }
}

/// Iterates over the outermost objects of a text.
struct Objects<'a> {
    rest: &'a str,
    failures: usize,
}

impl<'a> Objects<'a> {
    fn of(text: &'a str) -> Self {
        Self { rest: text, failures: 0 }
    }
}

impl Iterator for Objects<'_> {
    type Item = Map<String, Value>;

    fn next(&mut self) -> Option<Map<String, Value>> {
        while self.failures < FAILURES_MAX {
            let start = object_start(self.rest)?;
            let mut objects = serde_json::Deserializer::from_str(start).into_iter::<Map<String, Value>>();
            let object = objects.next().and_then(Result::ok);
            let read_bytes = if object.is_some() { objects.byte_offset() } else { 1 };
            self.rest = start.get(read_bytes..).unwrap_or_default();
            if object.is_some() {
                return object;
            }
            self.failures += 1;
        }
        None
    }
}

/// Returns the text after the reasoning that some open models write before their answer. An answer that begins with JSON may itself
/// contain the mark that ends reasoning.
fn without_reasoning(text: &str) -> &str {
    if text.trim_start().starts_with(['{', '[', '`']) {
        return text;
    }
    text.rsplit_once("</think>").map_or(text, |(_, answer)| answer)
}

/// Returns `text` from the first brace that can begin an object with a field. Reads the text once, however many braces it has.
fn object_start(text: &str) -> Option<&str> {
    let mut brace = None;
    for (index, c) in text.char_indices() {
        match c {
            '{' => brace = Some(index),
            '"' if brace.is_some() => break,
            c if c.is_whitespace() => {}
            _ => brace = None,
        }
    }
    text.get(brace?..)
}
