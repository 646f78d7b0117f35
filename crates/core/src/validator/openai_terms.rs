//! Writes errors about parameters in OpenAI's words, for both of its APIs.

use super::{findings::shorten, request::Object};
use serde_json::Value;

pub(super) fn missing(parameter: &str) -> String {
    format!("Missing required parameter: '{parameter}'.")
}

/// Writes the error for a value of the wrong type. `expected` has its article: `a string`.
pub(super) fn wrong_type(parameter: &str, expected: &str, value: &Value) -> String {
    let got = type_with_article(value);
    format!("Invalid type for '{parameter}': expected {expected}, but got {got} instead.")
}

/// Returns the type of a value as OpenAI's errors name it.
fn type_with_article(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() => "a decimal",
        Value::Number(_) => "an integer",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// Writes the error for a value that isn't among `supported`.
pub(super) fn wrong_value(value: &str, supported: &[&str]) -> String {
    let supported: Vec<String> = supported.iter().map(|value| format!("'{value}'")).collect();
    let list = match supported.split_last() {
        Some((last, [first])) => format!("{first} and {last}"),
        Some((last, rest)) if !rest.is_empty() => format!("{}, and {last}", rest.join(", ")),
        _ => supported.concat(),
    };
    format!("Invalid value: '{}'. Supported values are: {list}.", shorten(value))
}

pub(super) fn empty_array(parameter: &str) -> String {
    format!(
        "Invalid '{parameter}': empty array. Expected an array with minimum length 1, but got an empty array instead."
    )
}

pub(super) fn too_long(parameter: &str, chars_max: usize, chars: usize) -> String {
    format!(
        "Invalid '{parameter}': string too long. Expected a string with maximum length {chars_max}, but got a string \
         with length {chars} instead."
    )
}

pub(super) fn wrong_pattern(parameter: &str, pattern: &str) -> String {
    format!(
        "Invalid '{parameter}': string does not match pattern. Expected a string that matches the pattern '{pattern}'."
    )
}

/// Returns the error for the required string `key` of `object`, if it is missing or no string.
pub(super) fn not_a_string(object: &Object, key: &str, parameter: &str) -> Option<String> {
    match object.get(key) {
        Some(Value::String(_)) => None,
        Some(value) => Some(wrong_type(parameter, "a string", value)),
        None => Some(missing(parameter)),
    }
}

/// Returns true for a valid function name: `^[a-zA-Z0-9_-]+$`.
pub(super) fn is_function_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}
