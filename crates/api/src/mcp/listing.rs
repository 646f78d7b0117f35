//! Lists the tools. Hosts put this list into each prompt, or let models search it: Claude Code by words of names, hints
//! and descriptions, Codex by BM25 over names, titles, descriptions and arguments. So the list is short, and uses the
//! words that people use for memory.

use rmcp::model::{JsonObject, MetaObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

mod sets;

use super::{
    CLAUDE_CODE_BYTES_MAX,
    tool_set::ToolSet,
    tools::{FOUND_MAX, SUMMARY_TOKENS_MAX, SUMMARY_TOKENS_MIN},
};

/// Returns the tools in an order that never changes, because hosts keep the list in the cached beginning of each
/// prompt.
pub(super) fn list(sets: &[ToolSet]) -> Vec<Tool> {
    let mut tools = vec![summary_get(), recall(), expand(), status()];
    tools.extend(sets.iter().flat_map(|set| sets::tools(*set)));
    tools
}

fn summary_get() -> Tool {
    let description = "Memory in short: notes and conversation history of this and each previous session. Project memory: \
        what did we decide, do, leave open? Lines name exchanges (#n).";
    let arguments = json!({
        "max_tokens": { "type": "integer", "minimum": SUMMARY_TOKENS_MIN, "maximum": SUMMARY_TOKENS_MAX },
    });
    tool("summary_get", description, arguments, &[])
        .with_search_hint("memory: what did we decide, previous session")
}

fn recall() -> Tool {
    let description = "Memory: search past messages, to remember notes from last time, what was said or done earlier in this \
        conversation, or to recall context. Finds exchanges (#n) by a question or words.";
    let arguments = json!({
        "query": { "type": "string", "description": "A question, words, \"phrases\", times such as last week" },
        "role": { "type": "string", "enum": ["user", "assistant", "tool", "system"] },
        "tool": { "type": "string" },
        "since": { "type": "string" },
        "until": { "type": "string" },
        "session": { "type": "integer" },
        "order": { "type": "string", "enum": ["best", "recent"] },
        "limit": { "type": "integer", "minimum": 1, "maximum": FOUND_MAX },
    });
    tool("recall", description, arguments, &["query"])
        .with_search_hint("memory: remember, search past messages, conversation history")
}

fn expand() -> Tool {
    let description =
        "Read past messages whole: exchanges of the conversation history, by their numbers (#n).";
    let arguments = json!({
        "exchanges": { "type": "string", "description": "\"38\" or \"#12–#14, #20\"" },
        "after": { "type": "string", "description": "Where the answer before ended" },
    });
    tool("expand", description, arguments, &["exchanges"]).with_search_hint("memory: read past messages")
}

fn status() -> Tool {
    let description = "How full the context window is, how fresh the summary, and which agents there are.";
    tool("status", description, json!({}), &[]).0
}

/// A tool. Hosts that can search tools may leave it out of the prompt.
struct ToolListing(Tool);

impl ToolListing {
    /// Puts the tool into each prompt of Claude Code, which otherwise shows only the names of tools. If Claude Code
    /// still leaves the tool out, it searches `hint`.
    fn with_search_hint(self, hint: &str) -> Tool {
        let meta = json!({
            "anthropic/alwaysLoad": true,
            "anthropic/searchHint": hint,
            "anthropic/maxResultSizeChars": CLAUDE_CODE_BYTES_MAX,
        });
        self.0.with_meta(MetaObject(map(meta)))
    }
}

/// Returns a tool with these arguments and `agent`. The `required` arguments must be given.
fn tool(
    name: &'static str,
    description: &'static str,
    mut arguments: Value,
    required: &[&str],
) -> ToolListing {
    arguments["agent"] = json!({ "type": "string" });
    let mut schema = json!({ "type": "object", "additionalProperties": false });
    schema["properties"] = arguments;
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    let hints = ToolAnnotations::new().read_only(true).open_world(false);
    ToolListing(Tool::new(name, description, map(schema)).with_annotations(hints))
}

fn map(value: Value) -> JsonObject {
    match value {
        Value::Object(map) => map,
        _ => JsonObject::new(),
    }
}

#[cfg(test)]
mod tests;
