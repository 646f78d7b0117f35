//! Finding the answer's JSON in what a model wrote around it.

use serde_json::{Map, Value};

use super::{ANSWER_BYTES_MAX, ReplyError};
use crate::domain::summary::item::ItemDraft;

/// How many beginnings of an object are tried; bounds the work on hostile text.
const OBJECTS_TRIED_MAX: usize = 64;

/// The list `items` of the first top-level object that has one.
pub(super) fn items(text: &str) -> Result<Vec<Value>, ReplyError> {
    first(
        text,
        "no object in it has a list `items`",
        |mut object| match object.remove("items") {
            Some(Value::Array(items)) => Some(items),
            _ => None,
        },
    )
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
    if let Some(found) = first_of(answer(text), &take, &mut has_object) {
        return Ok(found);
    }
    unreadable(if has_object {
        missing
    } else {
        "there is no JSON object"
    })
}

fn first_of<T>(
    mut rest: &str,
    take: &impl Fn(Map<String, Value>) -> Option<T>,
    has_object: &mut bool,
) -> Option<T> {
    for _ in 0..OBJECTS_TRIED_MAX {
        let start = object_start(rest)?;
        let mut objects = serde_json::Deserializer::from_str(start).into_iter::<Map<String, Value>>();
        let read_bytes = match objects.next() {
            Some(Ok(object)) => {
                if let Some(found) = take(object) {
                    return Some(found);
                }
                *has_object = true;
                objects.byte_offset()
            }
            _ => 1,
        };
        rest = start.get(read_bytes..).unwrap_or_default();
    }
    None
}

/// The item of that number (from 1) as a draft.
pub(super) fn draft(mut item: Value, number: usize) -> Result<ItemDraft, ReplyError> {
    // Providers don't guarantee the case of enum values.
    if let Some(Value::String(importance)) = item.get_mut("importance") {
        *importance = importance.trim().to_lowercase();
    }
    serde_json::from_value(item).map_err(|_| {
        ReplyError::Unreadable(format!("item {number} lacks a field or has one of another type"))
    })
}

/// The text after the reasoning that some open models write before their answer. An answer without reasoning may itself
/// hold the mark that ends one.
fn answer(text: &str) -> &str {
    if text.trim_start().starts_with(['{', '`']) {
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
