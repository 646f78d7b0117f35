//! A request to check: a whole body, or only the array of messages.

use std::io::{self, Write};

use serde_json::{Map, Value};

use super::model::Model;

pub(super) type Object = Map<String, Value>;

#[derive(Debug)]
pub(super) struct CheckedRequest<'a> {
    given: &'a Value,
    key: &'static str,
    pub(super) model: Model,
}

impl<'a> CheckedRequest<'a> {
    /// `given` is a body with its messages under `key`, or only their array.
    pub(super) fn new(given: &'a Value, key: &'static str, model: Option<&str>) -> Self {
        let own = given.get("model").and_then(Value::as_str);
        Self {
            given,
            key,
            model: Model::named(model.or(own).unwrap_or_default()),
        }
    }

    pub(super) fn root(&self) -> String {
        if self.given.is_array() {
            String::new()
        } else {
            format!("/{}", self.key)
        }
    }

    pub(super) fn body(&self) -> Option<&'a Object> {
        self.given.as_object()
    }

    /// Returns the size of the body as compact JSON, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let mut counter = ByteCounter(0);
        // Counting can't fail, and a body that can't be serialised can't be sent either.
        match serde_json::to_writer(&mut counter, self.given) {
            Ok(()) => counter.0,
            Err(_) => 0,
        }
    }

    /// Returns the value that should be the array of messages, of whatever type it is.
    pub(super) fn field(&self) -> Option<&'a Value> {
        if self.given.is_array() {
            Some(self.given)
        } else {
            self.given.get(self.key)
        }
    }

    pub(super) fn items(&self) -> Option<&'a [Value]> {
        self.field().and_then(Value::as_array).map(Vec::as_slice)
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

/// Returns the type of a value, in the words of JSON Schema.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "decimal",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
