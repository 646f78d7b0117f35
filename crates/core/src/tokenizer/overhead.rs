//! The tokens that providers add to a request's texts: for roles, for the start of the answer, for the definitions of tools as the model
//! sees them, and for instructions that come with tools.

use serde_json::{Map, Value};

use super::vendor::bare;
use crate::domain::tokens::TokenCounter;

/// The tokens of a message in OpenAI's chat format, besides its role, name and content.
pub(super) const PER_MESSAGE_TOKENS: i64 = 3;
/// The tokens of a name, besides its text.
pub(super) const PER_NAME_TOKENS: i64 = 1;
/// The tokens that tell the model to answer.
pub(super) const PRIMING_TOKENS: i64 = 3;

// The model sees functions as TypeScript declarations, which OpenAI writes. These are the tokens of a declaration besides its texts, from
// OpenAI's cookbook.
/// The tokens of a function.
const FUNCTION_TOKENS: i64 = 7;
/// The tokens of an object's properties, besides those of each property.
const PROPERTIES_TOKENS: i64 = 3;
/// The tokens of a property.
const PROPERTY_TOKENS: i64 = 3;
/// The tokens of an enum, besides those of its values. Negative: the first value costs only its text.
const ENUM_TOKENS: i64 = -3;
/// The tokens of a value of an enum.
const ENUM_VALUE_TOKENS: i64 = 3;
/// The tokens after all functions.
const FUNCTIONS_END_TOKENS: i64 = 12;

/// The tokens of Anthropic's instructions for tools, by the prefix of the model's name (from Anthropic's price list). The first number is
/// for `tool_choice` auto or none, the second for any or tool. The first prefix that matches counts, so a longer prefix precedes a
/// shorter one.
const ANTHROPIC_TOOL_PROMPTS: [(&str, i64, i64); 13] = [
    ("claude-opus-5", 286, 406),
    ("claude-opus-4-8", 290, 410),
    ("claude-opus-4-7", 675, 804),
    ("claude-opus-4-6", 497, 589),
    ("claude-sonnet-4-6", 497, 589),
    ("claude-opus-4-5", 496, 588),
    ("claude-sonnet-4-5", 496, 588),
    ("claude-haiku-4-5", 496, 588),
    ("claude-sonnet-5", 354, 474),
    ("claude-opus-4", 313, 315),
    ("claude-sonnet-4", 313, 315),
    ("claude-3-5-haiku", 264, 355),
    ("claude-haiku-3-5", 264, 355),
];
/// The tokens of Anthropic's instructions for a model that isn't listed: the maximum of all that are.
const ANTHROPIC_TOOL_PROMPT_MAX: (i64, i64) = (675, 804);
/// The tokens of Anthropic's own tools, by the prefix of their type. A request has no definition of these tools.
const ANTHROPIC_BUILT_IN: [(&str, i64); 3] = [("bash_", 325), ("text_editor_", 700), ("computer_", 4_500)];

/// Returns the tokens of Anthropic's hidden instructions in a request with tools.
pub(super) fn anthropic_tool_prompt(model: &str, choice: Option<&str>) -> i64 {
    let listed = ANTHROPIC_TOOL_PROMPTS.iter().find(|(prefix, ..)| bare(model).starts_with(prefix));
    let (free, forced) = listed.map_or(ANTHROPIC_TOOL_PROMPT_MAX, |&(_, free, forced)| (free, forced));
    if matches!(choice, Some("any" | "tool")) { forced } else { free }
}

/// Returns the tokens of Anthropic's own tool of type `kind`; `None` if the tool isn't Anthropic's.
pub(super) fn anthropic_built_in(kind: &str) -> Option<i64> {
    let tool = ANTHROPIC_BUILT_IN.iter().find(|(prefix, _)| kind.starts_with(prefix));
    tool.map(|&(_, tokens)| tokens)
}

/// Returns the tokens of functions as OpenAI declares them. Each function is `{name, description, parameters}`.
pub(super) fn functions(counter: &dyn TokenCounter, functions: &[&Map<String, Value>]) -> i64 {
    if functions.is_empty() {
        return 0;
    }
    let declared: i64 = functions.iter().map(|function| declaration(counter, function)).sum();
    declared + FUNCTIONS_END_TOKENS
}

/// Returns the tokens of one function.
fn declaration(counter: &dyn TokenCounter, function: &Map<String, Value>) -> i64 {
    let text = |name| function.get(name).and_then(Value::as_str).unwrap_or_default();
    let head = format!("{}:{}", text("name"), text("description"));
    let parameters = function.get("parameters").map_or(0, |schema| properties(counter, schema));
    FUNCTION_TOKENS + counter.count(&head) + parameters
}

/// Returns the tokens of the properties of a schema and of the schemas in it.
fn properties(counter: &dyn TokenCounter, schema: &Value) -> i64 {
    let Some(members) = schema.get("properties").and_then(Value::as_object) else {
        return schema.get("items").map_or(0, |items| properties(counter, items));
    };
    if members.is_empty() {
        return 0;
    }
    let each = members.iter().map(|(name, property)| {
        let text = |key| property.get(key).and_then(Value::as_str).unwrap_or_default();
        let line = format!("{name}:{}:{}", text("type"), text("description"));
        PROPERTY_TOKENS + counter.count(&line) + values(counter, property) + properties(counter, property)
    });
    PROPERTIES_TOKENS + each.sum::<i64>()
}

/// Returns the tokens of a property's enum.
fn values(counter: &dyn TokenCounter, property: &Value) -> i64 {
    let Some(values) = property.get("enum").and_then(Value::as_array) else {
        return 0;
    };
    let each = values.iter().map(|value| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        ENUM_VALUE_TOKENS + counter.count(&text)
    });
    ENUM_TOKENS + each.sum::<i64>()
}
