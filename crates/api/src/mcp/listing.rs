//! The tools as hosts list them: descriptions for models, schemas of arguments and answers.

use rmcp::model::{JsonObject, MetaObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use super::{
    RESULT_CHARS_MAX, SUMMARY_TOKENS,
    tools::{FOUND, FOUND_MAX, SUMMARY_TOKENS_MAX, SUMMARY_TOKENS_MIN},
};

/// Returns the tools in an order that never changes: hosts keep the list in the cached head of each prompt.
pub(super) fn list() -> Vec<Tool> {
    vec![summary_get(), recall(), expand(), status()]
}

fn summary_get() -> Tool {
    tool(
        "summary_get",
        "Summary of an agent",
        "The summary of everything that left an agent's context window: decisions, constraints, work done and open, \
             each line with its time and the numbers of its exchanges (#n).",
        &json!({
            "type": "object",
            "properties": {
                "agent": agent_schema(),
                "max_tokens": {
                    "type": "integer", "minimum": SUMMARY_TOKENS_MIN, "maximum": SUMMARY_TOKENS_MAX,
                    "default": SUMMARY_TOKENS, "description": "The longest summary; what is oldest gives way",
                },
            },
            "required": ["agent"],
            "additionalProperties": false,
        }),
        &object(
            &json!({
                "agent_id": { "type": "string" },
                "content": { "type": "string", "description": "Markdown; empty while nothing has left the window" },
                "tokens": { "type": "integer" },
                "version": { "type": "integer" },
                "updated_at": time_schema(),
                "covers_through": { "type": "integer", "description": "The last exchange it covers" },
                "first_exchange": { "type": "integer", "description": "The first exchange in the window" },
                "pending_exchanges": { "type": "integer" },
                "pending_since": time_schema(),
                "stale_since": time_schema(),
                "shortened": { "type": "boolean", "description": "There is more than max_tokens allows" },
            }),
            &["agent_id", "content", "tokens", "version", "shortened"],
        ),
    )
}

fn recall() -> Tool {
    tool(
        "recall",
        "Search an archive",
        "Searches all that was ever said to and by an agent, its tools included, also what has long left its window. \
             Answers with exchanges and excerpts, best first.",
        &json!({
            "type": "object",
            "properties": {
                "agent": agent_schema(),
                "query": {
                    "type": "string",
                    "description": "Words, and phrases in quotation marks; a word of three letters or more finds \
                                    every word that begins with it",
                },
                "limit": {
                    "type": "integer", "minimum": 1, "maximum": FOUND_MAX, "default": FOUND,
                    "description": "Exchanges to show",
                },
            },
            "required": ["agent", "query"],
            "additionalProperties": false,
        }),
        &object(
            &json!({
                "agent_id": { "type": "string" },
                "terms": { "type": "array", "items": { "type": "string" } },
                "found": { "type": "array", "items": { "type": "object" } },
                "has_more": { "type": "boolean" },
                "unsearched_messages": { "type": "integer" },
            }),
            &["agent_id", "terms", "found", "has_more"],
        ),
    )
}

fn expand() -> Tool {
    tool(
        "expand",
        "Read exchanges",
        "Exchanges as they were, verbatim: those that a line of a summary or of recall names behind a #. A long exchange has \
             several numbers, its legs; each says which one comes next.",
        &json!({
            "type": "object",
            "properties": {
                "agent": agent_schema(),
                "exchanges": {
                    "type": "string", "description": "Their numbers, such as \"38\" or \"#12–#14, #20\"",
                },
                "after": {
                    "type": "integer", "minimum": 0, "default": 0,
                    "description": "To go on in a long exchange: the number of the last message that was shown",
                },
            },
            "required": ["agent", "exchanges"],
            "additionalProperties": false,
        }),
        &object(
            &json!({
                "agent_id": { "type": "string" },
                "exchanges": { "type": "array", "items": { "type": "object" } },
                "left_out": { "type": "array", "items": { "type": "integer" } },
                "unknown": { "type": "array", "items": { "type": "integer" } },
            }),
            &["agent_id", "exchanges", "left_out", "unknown"],
        ),
    )
}

fn status() -> Tool {
    tool(
        "status",
        "Status",
        "How full an agent's window is and how fresh its summary. Without an agent: which agents there are, and how \
             the updates are doing.",
        &json!({
            "type": "object",
            "properties": { "agent": agent_schema() },
            "additionalProperties": false,
        }),
        &object(
            &json!({
                "agent_id": { "type": "string" },
                "summary": { "type": "object" },
                "window": { "type": "object" },
                "running_exchange": { "type": ["integer", "null"] },
                "archived_exchanges": { "type": ["integer", "null"] },
                "pending_exchanges": { "type": "integer" },
                "pending_since": time_schema(),
                "agents": { "type": "array", "items": { "type": "object" } },
                "has_more_agents": { "type": "boolean" },
                "queue": { "type": "object" },
                "updates": { "type": "object" },
            }),
            &[],
        ),
    )
}

fn agent_schema() -> Value {
    json!({ "type": "string", "description": "The id under which the agent's messages are stored" })
}

fn time_schema() -> Value {
    json!({ "type": ["string", "null"], "description": "RFC 3339" })
}

fn object(properties: &Value, required: &[&str]) -> Value {
    json!({ "type": "object", "properties": properties, "required": required })
}

fn map(value: &Value) -> JsonObject {
    value.as_object().cloned().unwrap_or_default()
}

fn tool(
    name: &'static str,
    title: &'static str,
    description: &'static str,
    input: &Value,
    output: &Value,
) -> Tool {
    let hints = ToolAnnotations::with_title(title)
        .read_only(true)
        .destructive(false)
        .idempotent(true)
        .open_world(false);
    let longest = json!({ "anthropic/maxResultSizeChars": RESULT_CHARS_MAX });
    Tool::new(name, description, map(input))
        .with_title(title)
        .with_raw_output_schema(map(output).into())
        .with_annotations(hints)
        .with_meta(MetaObject(map(&longest)))
}
