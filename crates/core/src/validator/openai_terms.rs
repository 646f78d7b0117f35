//! Writes errors about parameters in OpenAI's words, for both of its APIs.

use super::{
    findings::quoted,
    request::{Object, type_name},
};
use serde_json::Value;

pub(super) fn missing(parameter: &str) -> String {
    format!("Missing required parameter: '{parameter}'.")
}

/// Writes an error; `expected` is like `a string`.
pub(super) fn wrong_type(parameter: &str, expected: &str, given: &Value) -> String {
    let given = type_name(given);
    let article = if "aio".contains(given.chars().next().unwrap_or_default()) {
        "an "
    } else if given == "null" {
        ""
    } else {
        "a "
    };
    format!("Invalid type for '{parameter}': expected {expected}, but got {article}{given} instead.")
}

/// Writes an error; `supported` has the allowed values.
pub(super) fn wrong_value(given: &str, supported: &[&str]) -> String {
    let listed: Vec<String> = supported.iter().map(|value| format!("'{value}'")).collect();
    let listed = match listed.split_last() {
        Some((last, [first])) => format!("{first} and {last}"),
        Some((last, rest)) if !rest.is_empty() => format!("{}, and {last}", rest.join(", ")),
        _ => listed.concat(),
    };
    format!(
        "Invalid value: '{}'. Supported values are: {listed}.",
        quoted(given)
    )
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

/// Returns the error for a field that must be a string, if it isn't one.
pub(super) fn not_a_string(object: &Object, key: &str, parameter: &str) -> Option<String> {
    match object.get(key) {
        Some(Value::String(_)) => None,
        Some(value) => Some(wrong_type(parameter, "a string", value)),
        None => Some(missing(parameter)),
    }
}

/// Returns true for a valid function name: `^[a-zA-Z0-9_-]+$`.
pub(super) fn is_function_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}
