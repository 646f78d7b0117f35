//! Notes, Anthropic's memory tool and the tools that Codex' models know, held to what their vendors publish.

use serde_json::{Value, json};

use super::{LATER, ask, call, later_by, meta, text};
use crate::{
    http::security,
    support::server::{Reply, Server},
};

async fn tell(server: &Server, tool: &str, arguments: Value) -> String {
    let answer = call(server, tool, arguments).await;
    assert_eq!(answer["isError"], false, "{tool}: {answer}");
    text(&answer).to_owned()
}

async fn refusal(server: &Server, tool: &str, arguments: Value) -> String {
    let answer = call(server, tool, arguments).await;
    assert_eq!(answer["isError"], true, "{tool}: {answer}");
    text(&answer).to_owned()
}

async fn listed(server: &Server, path: &str, client: &str) -> Vec<Value> {
    let mut params = json!({});
    params["_meta"] = meta(LATER);
    params["_meta"]["io.modelcontextprotocol/clientInfo"]["name"] = client.into();
    let request = server
        .request(reqwest::Method::POST, path)
        .header("accept", "application/json, text/event-stream")
        .header("content-type", "application/json")
        .header("mcp-protocol-version", LATER)
        .header("mcp-method", "tools/list");
    let body = super::message("tools/list", params).to_string();
    let answer = super::answered(&Reply::of(request.body(body)).await);
    answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("{answer}")).clone()
}

fn names(tools: &[Value]) -> Vec<&str> {
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn sets_of_tools_are_listed_when_they_are_asked_for() {
    let server = Server::small().await;
    assert_eq!(listed(&server, "/mcp", "claude-code").await.len(), 4);
    assert_eq!(names(&listed(&server, "/mcp?tools=memory", "x").await)[4..], ["memory"]);
    assert_eq!(names(&listed(&server, "/mcp?tools=client", "claude-code").await)[4..], ["memory"]);
    let codex = listed(&server, "/mcp?tools=client", "codex-mcp-client").await;
    assert_eq!((codex.len(), codex[4]["name"].as_str()), (13, Some("history_list_windows")));
    let notes = listed(&server, "/mcp?tools=notes,codex", "x").await;
    assert_eq!(notes.len(), 4 + 7 + 9);
    for tool in &notes[4..] {
        let name = tool["name"].as_str().unwrap();
        let writes = ["write", "append", "delete"].iter().any(|word| name.contains(word));
        assert_eq!(tool["annotations"]["readOnlyHint"], !writes, "{tool}");
    }
}

#[tokio::test]
async fn an_agent_keeps_notes() {
    let server = Server::small().await;
    server.converse("coder", 1..=1).await;
    assert_eq!(tell(&server, "notes_list", json!({})).await, "(no notes)");
    let wrote = tell(&server, "notes_write", json!({"name": "a/plan.md", "text": "Plan\n1. Find"})).await;
    assert_eq!(wrote, "wrote a/plan.md: version 3, 12 bytes");
    tell(&server, "notes_append", json!({"name": "a/plan.md", "text": "\n2. Fix"})).await;
    assert_eq!(
        tell(&server, "notes_read", json!({"name": "a/plan.md"})).await,
        "Plan\n1. Find\n2. Fix\n(version 4)"
    );
    let list = tell(&server, "notes_list", json!({})).await;
    assert!(list.starts_with("a/plan.md (19 bytes, version 4 of 2"), "{list}");
    assert!(list.ends_with("): Plan"), "{list}");
    assert_eq!(tell(&server, "notes_search", json!({"query": "FIX"})).await, "a/plan.md:3: 2. Fix\n");
    let old = json!({"name": "a/plan.md", "text": "x", "replaces": 3});
    assert_eq!(
        refusal(&server, "notes_write", old).await,
        "note `a/plan.md` is at version 4 now; nothing was changed"
    );
    let bad = refusal(&server, "notes_write", json!({"name": "../x", "text": "x"})).await;
    assert!(bad.starts_with("`name` can't be used: note name `../x` must be"), "{bad}");
    let unknown = refusal(&server, "notes_read", json!({"name": "b"})).await;
    assert!(unknown.starts_with("`name` names no note (`b`)"), "{unknown}");
    let long = "x".repeat(60_000);
    tell(&server, "notes_write", json!({"name": "long", "text": long})).await;
    let first = tell(&server, "notes_read", json!({"name": "long"})).await;
    let (shown, hint) = first.split_once("\n(more follows: notes_read \"long\" after ").unwrap();
    let after: usize = hint.trim_end_matches(')').parse().unwrap();
    assert_eq!(shown.len(), after);
    let rest = tell(&server, "notes_read", json!({"name": "long", "after": after})).await;
    assert_eq!(rest.split_once('\n').unwrap().0.len(), 60_000 - after);
    assert_eq!(tell(&server, "notes_delete", json!({"name": "long"})).await, "deleted long");
    let handoff = tell(&server, "handoff", json!({"max_tokens": 2_000})).await;
    assert!(handoff.starts_with("# Continue coder"), "{handoff}");
    let prompt = ask(&server, "prompts/get", json!({"name": "handoff"})).await;
    let prompt = prompt["messages"][0]["content"]["text"].as_str().unwrap();
    assert!(prompt.contains("Continue coder"), "{prompt}");
}

/// The commands' members as Anthropic's SDKs declare them: `BetaMemoryTool20250818…Command`.
const MEMORY_COMMANDS: [(&str, &[&str]); 6] = [
    ("view", &["path", "view_range"]),
    ("create", &["file_text", "path"]),
    ("str_replace", &["new_str", "old_str", "path"]),
    ("insert", &["insert_line", "insert_text", "path"]),
    ("delete", &["path"]),
    ("rename", &["new_path", "old_path"]),
];

#[tokio::test]
async fn the_memory_tool_answers_as_anthropic_documents_it() {
    let server = Server::small().await;
    server.converse("coder", 1..=1).await;
    let tools = listed(&server, "/mcp?tools=memory", "x").await;
    let schema = &tools[4]["inputSchema"];
    for (command, members) in MEMORY_COMMANDS {
        assert!(schema["properties"]["command"]["enum"].as_array().unwrap().contains(&command.into()));
        for member in members {
            assert!(schema["properties"][member].is_object(), "{member}");
        }
    }
    for (command, told) in [
        (
            json!({"command": "create", "path": "/memories/p/notes.md", "file_text": "one\ntwo\n"}),
            "File created successfully at: /memories/p/notes.md",
        ),
        (
            json!({"command": "str_replace", "path": "/memories/p/notes.md", "old_str": "two", "new_str": "2"}),
            "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n     1\tone\n     2\t2\n     3\t",
        ),
        (
            json!({"command": "insert", "path": "/memories/p/notes.md", "insert_line": 2, "insert_text": "3\n"}),
            "The file /memories/p/notes.md has been edited.",
        ),
        (
            json!({"command": "view", "path": "/memories/p/notes.md", "view_range": [2, 3]}),
            "Here's the content of /memories/p/notes.md with line numbers:\n     2\t2\n     3\t3",
        ),
        (
            json!({"command": "rename", "old_path": "/memories/p", "new_path": "/memories/q"}),
            "Successfully renamed /memories/p to /memories/q",
        ),
        (
            json!({"command": "view", "path": "/memories"}),
            "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:\n8B\t/memories\n8B\t/memories/q/\n8B\t/memories/q/notes.md",
        ),
        (
            json!({"command": "delete", "path": "/memories/q/notes.md"}),
            "Successfully deleted /memories/q/notes.md",
        ),
    ] {
        assert_eq!(tell(&server, "memory", command.clone()).await, told, "{command}");
    }
    let gone = refusal(&server, "memory", json!({"command": "view", "path": "/memories/q"})).await;
    assert_eq!(gone, "The path /memories/q does not exist. Please provide a valid path.");
    let outside = refusal(&server, "memory", json!({"command": "view", "path": "/memories/../etc"})).await;
    assert_eq!(outside, "Path /memories/../etc would escape /memories directory");
    let odd = refusal(&server, "memory", json!({"command": "list", "path": "/memories"})).await;
    assert!(odd.starts_with("Error: unknown variant `list`"), "{odd}");
}

/// The arguments as Codex declares them (`codex-rs/ext/history-notes/src/tools.rs`), and the required ones.
const CODEX: [(&str, &[&str], &[&str]); 9] = [
    ("history_list_windows", &["limit", "agent_name", "recent_first"], &[]),
    (
        "history_list_items",
        &[
            "limit",
            "recent_first",
            "tool_namespace",
            "role",
            "agent_name",
            "tool_name",
            "window_id",
            "max_chars_per_item",
        ],
        &[],
    ),
    (
        "history_read_item",
        &["agent_name", "item_id", "offset_chars", "limit_chars", "window_id"],
        &["item_id", "window_id"],
    ),
    (
        "history_search_contents",
        &["limit", "query", "recent_first", "tool_namespace", "role", "agent_name", "tool_name", "window_id"],
        &["query"],
    ),
    ("notes_list_files_by_prefix", &["prefix", "max_results", "file_order_by", "file_order"], &[]),
    ("notes_read_file", &["path", "start_line", "stop_line"], &["path"]),
    (
        "notes_search_contents",
        &["max_matches_per_file", "query", "recent_file_first", "max_files", "path_prefix"],
        &["query"],
    ),
    ("notes_append_to_file", &["text", "path"], &["text", "path"]),
    ("notes_write_file", &["text", "path"], &["text", "path"]),
];

async fn codex(server: &Server, tool: &str, arguments: Value) -> Value {
    serde_json::from_str(&tell(server, tool, arguments).await).unwrap()
}

#[tokio::test]
async fn the_nine_tools_take_what_codex_declares() {
    let server = Server::small().await;
    let tools = listed(&server, "/mcp?tools=codex", "x").await;
    for (tool, (name, arguments, required)) in tools[4..].iter().zip(CODEX) {
        assert_eq!(tool["name"], name);
        let declared = tool["inputSchema"]["properties"].as_object().unwrap();
        let mut declared: Vec<&str> = declared.keys().map(String::as_str).collect();
        let mut arguments = arguments.to_vec();
        arguments.sort_unstable();
        declared.sort_unstable();
        assert_eq!(declared, arguments, "{name}");
        let expected = if required.is_empty() { Value::Null } else { json!(required) };
        assert_eq!(tool["inputSchema"]["required"], expected, "{name}");
    }
}

#[tokio::test]
async fn history_is_read_by_windows_and_items() {
    let server = Server::small().await;
    server.converse("coder", 1..=4).await;
    let windows =
        codex(&server, "history_list_windows", json!({"limit": 2, "recent_first": true, "agent_name": null}))
            .await;
    assert_eq!(
        windows,
        json!({"windows": [{"window_id": "exchange-4", "item_count": 2}, {"window_id": "exchange-3", "item_count": 2}]})
    );
    let items = codex(
        &server,
        "history.list_items",
        json!({"window_id": "exchange-2", "role": "user", "max_chars_per_item": 9}),
    )
    .await;
    assert_eq!(items["items"].as_array().unwrap().len(), 1, "{items}");
    let item = &items["items"][0];
    assert_eq!(
        (&item["item_id"], &item["role"], &item["truncated_content"]),
        (&json!("3"), &json!("user"), &json!("Fix bug 2"))
    );
    let read = json!({"window_id": "exchange-2", "item_id": "3", "offset_chars": 4, "limit_chars": 5});
    let read = codex(&server, "history_read_item", read).await;
    assert_eq!(
        (&read["item"]["content"], &read["item"]["next_offset_chars"]),
        (&json!("bug 2"), &json!(9)),
        "{read}"
    );
    let found = codex(&server, "history_search_contents", json!({"query": "Fixed bug 3"})).await;
    assert_eq!(found["items"][0]["item_id"], "6", "{found}");
    assert_eq!(
        codex(&server, "history_search_contents", json!({"query": "fixed BUG 3"})).await,
        json!({"items": []})
    );
    assert_eq!(
        codex(&server, "history_list_items", json!({"window_id": "other"})).await,
        json!({"items": []})
    );
}

#[tokio::test]
async fn notes_are_files_for_codex() {
    let server = Server::small().await;
    server.converse("coder", 1..=1).await;
    let written = codex(&server, "notes_write_file", json!({"path": "plan.md", "text": "One\nTwo"})).await;
    assert_eq!(
        (&written["file"]["path"], &written["file"]["bytes"]),
        (&json!("coder/notes/plan.md"), &json!(7))
    );
    codex(&server, "notes.append_to_file", json!({"path": "coder/notes/plan.md", "text": "\nThree"})).await;
    codex(&server, "notes_write_file", json!({"path": "empty", "text": ""})).await;
    let file =
        codex(&server, "notes_read_file", json!({"path": "plan.md", "start_line": -2, "stop_line": null}))
            .await;
    assert_eq!(
        (&file["file"]["content"], &file["file"]["total_lines"]),
        (&json!("Two\nThree"), &json!(3)),
        "{file}"
    );
    let files =
        codex(&server, "notes_list_files_by_prefix", json!({"prefix": null, "file_order": "descending"}))
            .await;
    let paths: Vec<&Value> = files["files"].as_array().unwrap().iter().map(|file| &file["path"]).collect();
    assert_eq!(paths, ["coder/notes/plan.md", "coder/notes/empty"]);
    let found =
        codex(&server, "notes_search_contents", json!({"query": "T", "path_prefix": "coder/notes/p"})).await;
    let matches = json!([{"line_number": 2, "line": "Two"}, {"line_number": 3, "line": "Three"}]);
    assert_eq!(found, json!({"files": [{"path": "coder/notes/plan.md", "matches": matches}]}));
    assert_eq!(codex(&server, "notes_read_file", json!({"path": "none"})).await, json!({"file": null}));
}

#[tokio::test]
async fn a_token_writes_the_notes_of_its_agents_if_it_may_write() {
    let server = security::server().await;
    let write = async |token: &str, agent: &str| {
        let arguments = json!({"agent": agent, "name": "plan", "text": "x"});
        let params = json!({"name": "notes_write", "arguments": arguments});
        let answer = super::answered(&Reply::of(later_by(&server, Some(token), "tools/call", params)).await);
        text(&answer["result"]).to_owned()
    };
    assert!(write("coder-admin", "coder").await.starts_with("wrote plan: version "));
    assert_eq!(write("coder-read", "coder").await, "this token may only read");
    assert!(write("coder-admin", "victim").await.starts_with("`agent`: agent `victim` is unknown"));
}
