//! A request to check: a whole body, or only its array of messages. For OpenAI Responses, the messages are items; for Gemini, contents.

use std::io::{self, Write};

use serde_json::{Map, Value};

use super::model::Model;

pub(super) type Object = Map<String, Value>;

#[derive(Debug)]
pub(super) struct RequestToCheck<'a> {
    /// The body, or only the array of messages.
    value: &'a Value,
    /// The field of a body that has the messages.
    messages_key: &'static str,
    pub(super) model: Model,
}

impl<'a> RequestToCheck<'a> {
    /// `value` is a body with its messages under `messages_key`, or only the array of messages. `model` overrides the model of the body.
    pub(super) fn new(value: &'a Value, messages_key: &'static str, model: Option<&str>) -> Self {
        let body_model = value.get("model").and_then(Value::as_str);
        Self { value, messages_key, model: Model::from_name(model.or(body_model).unwrap_or_default()) }
    }

    /// Returns the JSON pointer to the array of messages; empty if the request is only that array.
    pub(super) fn messages_pointer(&self) -> String {
        if self.value.is_array() { String::new() } else { format!("/{}", self.messages_key) }
    }

    /// Returns the body; `None` if only the array of messages is known.
    pub(super) fn body(&self) -> Option<&'a Object> {
        self.value.as_object()
    }

    /// Returns the size of the request as compact JSON, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let mut counter = ByteCounter(0);
        // Neither the counter nor the serialisation of a JSON value fails. 0 bytes would break no limit.
        match serde_json::to_writer(&mut counter, self.value) {
            Ok(()) => counter.0,
            Err(_) => 0,
        }
    }

    /// Returns the value that should be the array of messages, whatever its type is.
    pub(super) fn messages_value(&self) -> Option<&'a Value> {
        if self.value.is_array() { Some(self.value) } else { self.value.get(self.messages_key) }
    }

    /// Returns the messages; `None` if they are missing or aren't an array.
    pub(super) fn messages(&self) -> Option<&'a [Value]> {
        self.messages_value().and_then(Value::as_array).map(Vec::as_slice)
    }
}

struct ByteCounter(usize);

impl Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(super) fn text<'a>(object: &'a Object, key: &str) -> Option<&'a str> {
    object.get(key).and_then(Value::as_str)
}
