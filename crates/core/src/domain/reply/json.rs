//! Finding the answer's JSON in what a model wrote around it.

use serde_json::{Map, Value};

use super::{ANSWER_BYTES_MAX, ReplyError, draft};

/// How many beginnings of an object that turn out to be none are tried; bounds the work on hostile text.
const FAILURES_MAX: usize = 64;
const NO_ITEMS: &str = "no object in it has a list `items`";

/// What an answer consists of, not read yet.
#[derive(Debug)]
pub(super) struct ReplyParts {
    pub(super) items: Vec<Value>,
    pub(super) facts: Option<Value>,
}

/// The lists of the first object that has `items`. Without one, objects that are items themselves: of a bare list, or of an
/// answer that broke off.
pub(super) fn parts(text: &str) -> Result<ReplyParts, ReplyError> {
    first(text, NO_ITEMS, with_items).or_else(|fault| {
        if text.len() > ANSWER_BYTES_MAX {
            return Err(fault);
        }
        let items = Objects::of(answer(text)).map(Value::Object);
        let items: Vec<Value> = items.filter(draft::is_item).collect();
        if items.is_empty() {
            return Err(fault);
        }
        Ok(ReplyParts { items, facts: None })
    })
}

/// The lists of `object`, or of an object that it wraps.
fn with_items(mut object: Map<String, Value>) -> Option<ReplyParts> {
    let items = match object.remove("items") {
        Some(Value::Array(items)) => items,
        Some(item) if draft::is_item(&item) => vec![item],
        Some(_) => return None,
        None => {
            let mut within = object.into_iter().filter_map(|(_, value)| match value {
                Value::Object(within) if within.contains_key("items") => Some(within),
                _ => None,
            });
            // Once: what is wrapped twice has no `items` itself.
            return within.next().and_then(with_items);
        }
    };
    let facts = object.remove("facts");
    Some(ReplyParts { items, facts })
}

/// What `take` returns for the first top-level object for which it returns anything; `missing` is the error if there is
/// none.
pub(super) fn first<T>(
    text: &str,
    missing: &str,
    take: impl Fn(Map<String, Value>) -> Option<T>,
) -> Result<T, ReplyError> {
    let unreadable = |what: &str| Err(ReplyError::Unreadable(what.to_owned()));
    if text.len() > ANSWER_BYTES_MAX {
        return unreadable("it is too long");
    }
    let mut has_object = false;
    let found = Objects::of(answer(text)).find_map(|object| {
        has_object = true;
        take(object)
    });
    match found {
        Some(found) => Ok(found),
        None if has_object => unreadable(missing),
        None => unreadable("there is no JSON object"),
    }
}

/// The objects of a text, those within others left out.
struct Objects<'a> {
    rest: &'a str,
    failures: usize,
}

impl<'a> Objects<'a> {
    fn of(text: &'a str) -> Self {
        Self {
            rest: text,
            failures: 0,
        }
    }
}

impl Iterator for Objects<'_> {
    type Item = Map<String, Value>;

    fn next(&mut self) -> Option<Map<String, Value>> {
        while self.failures < FAILURES_MAX {
            let start = object_start(self.rest)?;
            let mut objects = serde_json::Deserializer::from_str(start).into_iter::<Map<String, Value>>();
            let object = objects.next().and_then(Result::ok);
            let read_bytes = if object.is_some() {
                objects.byte_offset()
            } else {
                1
            };
            self.rest = start.get(read_bytes..).unwrap_or_default();
            if object.is_some() {
                return object;
            }
            self.failures += 1;
        }
        None
    }
}

/// The text after the reasoning that some open models write before their answer. An answer without reasoning may itself
/// hold the mark that ends one.
fn answer(text: &str) -> &str {
    if text.trim_start().starts_with(['{', '[', '`']) {
        return text;
    }
    text.rsplit_once("</think>").map_or(text, |(_, answer)| answer)
}

/// `text` from its first brace that can begin an object with a field; read once, however many braces there are.
fn object_start(text: &str) -> Option<&str> {
    let mut brace = None;
    for (at, c) in text.char_indices() {
        match c {
            '{' => brace = Some(at),
            '"' if brace.is_some() => break,
            c if c.is_whitespace() => {}
            _ => brace = None,
        }
    }
    text.get(brace?..)
}
