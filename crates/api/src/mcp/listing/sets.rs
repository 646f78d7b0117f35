//! The tools that are listed only on request. A vendor's tools have the vendor's arguments, because its models know
//! these.

use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Value, json};

use super::{map, tool};
use crate::mcp::{
    tool_set::{CODEX_TOOLS, ToolSet},
    tools::HANDOFF_TOKENS_MIN,
};

pub(super) fn tools(set: ToolSet) -> Vec<Tool> {
    match set {
        ToolSet::Notes => notes(),
        ToolSet::Memory => vec![memory()],
        ToolSet::Codex => codex(),
        // `for_client` has already replaced this set.
        ToolSet::Client => Vec::new(),
    }
}

fn notes() -> Vec<Tool> {
    let name = || json!({ "type": "string", "description": "Such as plan.md or repository/build.md" });
    let replaces = json!({ "type": "integer", "description": "The version read before; 0 if there is none" });
    let reads = [
        ("notes_list", "The notes that you keep: names, sizes, first lines.", json!({}), vec![]),
        (
            "notes_read",
            "Read a note.",
            json!({ "name": name(), "after": { "type": "integer", "description": "Where the answer before ended" } }),
            vec!["name"],
        ),
        ("notes_search", "Find lines of notes by words.", json!({ "query": text() }), vec!["query"]),
        (
            "handoff",
            "One document to go on with elsewhere: the summary, and the newest part as it was said.",
            json!({ "max_tokens": { "type": "integer", "minimum": HANDOFF_TOKENS_MIN } }),
            vec![],
        ),
    ];
    let writes = [
        (
            "notes_write",
            "Write a note that outlives this context window: a plan, findings, what to do next. At most 64 KiB.",
            json!({ "name": name(), "text": text(), "replaces": replaces }),
            vec!["name", "text"],
        ),
        (
            "notes_append",
            "Add to the end of a note.",
            json!({ "name": name(), "text": text() }),
            vec!["name", "text"],
        ),
        ("notes_delete", "Delete a note.", json!({ "name": name() }), vec!["name"]),
    ];
    let reads =
        reads.map(|(name, description, arguments, required)| tool(name, description, arguments, &required).0);
    let writes = writes.map(|(name, description, arguments, required)| {
        writing(tool(name, description, arguments, &required).0)
    });
    reads.into_iter().chain(writes).collect()
}

/// Returns Anthropic's memory tool, with the arguments of `memory_20250818`.
fn memory() -> Tool {
    let description = "Memory: files below /memories that outlive this conversation. Look there first, and keep progress there.";
    let path = json!({ "type": "string", "description": "Below /memories" });
    let arguments = json!({
        "command": { "type": "string", "enum": ["view", "create", "str_replace", "insert", "delete", "rename"] },
        "path": path,
        "view_range": { "type": "array", "items": { "type": "integer" }, "minItems": 2, "maxItems": 2 },
        "file_text": text(),
        "old_str": text(),
        "new_str": text(),
        "insert_line": { "type": "integer", "minimum": 0 },
        "insert_text": text(),
        "old_path": text(),
        "new_path": text(),
    });
    writing(tool("memory", description, arguments, &["command"]).0)
}

fn codex() -> Vec<Tool> {
    CODEX_TOOLS.map(codex_tool).into()
}

/// A tool's description, its arguments, and which of them are required.
struct ToolSketch(&'static str, Value, &'static [&'static str]);

fn codex_tool(name: &'static str) -> Tool {
    let ToolSketch(description, properties, required) =
        if name.starts_with("history") { history_tool(name) } else { notes_tool(name) };
    let mut schema = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    let is_read = !matches!(name, "notes_append_to_file" | "notes_write_file");
    let hints = ToolAnnotations::new().read_only(is_read).open_world(false);
    Tool::new(name, description, map(schema)).with_annotations(hints)
}

fn history_tool(name: &str) -> ToolSketch {
    let agent = optional("string");
    match name {
        "history_list_windows" => ToolSketch(
            "List context windows as window ID and item count.",
            json!({ "limit": limit(), "agent_name": agent, "recent_first": { "type": "boolean" } }),
            &[],
        ),
        "history_list_items" => {
            let mut items = items();
            items["max_chars_per_item"] = limit();
            ToolSketch("List history items, by window, role and tool.", items, &[])
        }
        "history_read_item" => ToolSketch(
            "Read a range of a history item.",
            json!({
                "agent_name": agent, "item_id": text(), "offset_chars": { "type": "integer", "minimum": 0 },
                "limit_chars": limit(), "window_id": text(),
            }),
            &["item_id", "window_id"],
        ),
        _ => {
            let mut items = items();
            items["query"] = text();
            ToolSketch("Search history for a literal, case-sensitive text.", items, &["query"])
        }
    }
}

fn notes_tool(name: &str) -> ToolSketch {
    match name {
        "notes_list_files_by_prefix" => ToolSketch(
            "List notes by the beginning of their paths.",
            json!({
                "prefix": optional("string"), "max_results": limit(),
                "file_order_by": { "type": "string", "enum": ["name", "created_at", "updated_at"] },
                "file_order": { "type": "string", "enum": ["ascending", "descending"] },
            }),
            &[],
        ),
        "notes_read_file" => ToolSketch(
            "Read a note, or some of its lines; negative numbers count from the end.",
            json!({ "path": text(), "start_line": optional("integer"), "stop_line": optional("integer") }),
            &["path"],
        ),
        "notes_search_contents" => ToolSketch(
            "Search lines of notes for a literal, case-sensitive text.",
            json!({
                "max_matches_per_file": limit(), "query": text(), "recent_file_first": { "type": "boolean" },
                "max_files": limit(), "path_prefix": optional("string"),
            }),
            &["query"],
        ),
        "notes_append_to_file" => {
            ToolSketch("Add text to a note.", json!({ "text": text(), "path": text() }), &["text", "path"])
        }
        _ => ToolSketch(
            "Write a note, in place of what it was.",
            json!({ "text": text(), "path": text() }),
            &["text", "path"],
        ),
    }
}

/// Returns the arguments that select items.
fn items() -> Value {
    let roles = ["user", "assistant", "tool", "system", "developer"];
    json!({
        "limit": limit(), "recent_first": { "type": "boolean" }, "tool_namespace": optional("string"),
        "role": { "anyOf": [{ "type": "string", "enum": roles }, { "type": "null" }] },
        "agent_name": optional("string"), "tool_name": optional("string"), "window_id": optional("string"),
    })
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn limit() -> Value {
    json!({ "type": "integer", "minimum": 1 })
}

fn optional(kind: &str) -> Value {
    json!({ "anyOf": [{ "type": kind }, { "type": "null" }] })
}

/// Marks a tool as one that changes notes. It isn't destructive, because replaced texts stay as earlier versions.
fn writing(tool: Tool) -> Tool {
    tool.with_annotations(ToolAnnotations::new().read_only(false).destructive(false).open_world(false))
}
