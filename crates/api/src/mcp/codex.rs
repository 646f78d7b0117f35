//! The tools for history and notes that Codex' newest models know, with their arguments and answers.
//!
//! In these tools, a window is an exchange or a leg, and an item is one of its messages. The path of a note is
//! `<agent>/notes/<name>`. Any other path is the name of one of the agent's own notes.

use std::cmp::Reverse;

use rmcp::model::JsonObject;
use serde_json::{Value, json};

use super::{
    arguments::{ArgumentError, Arguments},
    notes::{line_number, required},
    source::Source,
    tools::{ToolCall, ToolRefusal},
};
use crate::recall::{ExpandQuery, ShownMessage, content};
use recapd_core::{
    domain::{
        agent::AgentId,
        message::{Format, Kind, Message, Part},
        note::{Note, NoteFault, NoteName},
        number::usize_or_max,
    },
    formats,
};
use recapd_engine::ingest::NoteRequest;

/// One call reads at most this many exchanges.
const EXCHANGES_READ_MAX: usize = 60;
/// One call reads at most this many messages of each exchange.
const MESSAGES_READ_MAX: i64 = 1_000;
const LIMIT_MAX: i64 = 100;
const LIMIT: i64 = 10;
const ITEM_CHARS: i64 = 500;
const ITEM_CHARS_MAX: i64 = 20_000;
const WINDOW: &str = "exchange-";

/// A message in the form of these tools.
struct HistoryItem {
    window: i64,
    seq: i64,
    role: &'static str,
    tool: Option<String>,
    content: String,
}

/// Selects items.
struct HistoryFilter<'a> {
    role: Option<&'a str>,
    tool: Option<&'a str>,
    namespace: Option<&'a str>,
    query: Option<&'a str>,
}

/// The path of a note: the agent if the path names one, and the note's name or its beginning.
struct NotePath {
    agent: Option<AgentId>,
    name: String,
}

impl ToolCall<'_> {
    /// Answers a call of one of these tools. A dot or an underscore follows the namespace in the tool's name.
    pub(super) async fn codex(
        &self,
        name: &str,
        arguments: Option<JsonObject>,
    ) -> Result<String, ToolRefusal> {
        let answer = match name {
            "history_list_windows" => {
                self.list_windows(&read(arguments, &["limit", "agent_name", "recent_first"])?).await
            }
            "history_list_items" => self.list_items(&read(arguments, &ITEM_ARGUMENTS)?).await,
            "history_read_item" => {
                let names = ["agent_name", "item_id", "offset_chars", "limit_chars", "window_id"];
                self.read_item(&read(arguments, &names)?).await
            }
            "history_search_contents" => {
                let arguments = read(arguments, &ITEM_ARGUMENTS)?;
                required(&arguments, "query")?;
                self.list_items(&arguments).await
            }
            "notes_list_files_by_prefix" => {
                let names = ["prefix", "max_results", "file_order_by", "file_order"];
                self.list_files(&read(arguments, &names)?).await
            }
            "notes_read_file" => {
                self.read_file(&read(arguments, &["path", "start_line", "stop_line"])?).await
            }
            "notes_search_contents" => {
                let names =
                    ["max_matches_per_file", "query", "recent_file_first", "max_files", "path_prefix"];
                self.search_files(&read(arguments, &names)?).await
            }
            "notes_append_to_file" => {
                self.write_file(&read_with_empty(arguments, &["text", "path"])?, true).await
            }
            _ => self.write_file(&read_with_empty(arguments, &["text", "path"])?, false).await,
        };
        answer.map(|answer| answer.to_string())
    }

    async fn agent_named(&self, arguments: &Arguments) -> Result<AgentId, ToolRefusal> {
        match arguments.text("agent_name")? {
            None => self.agent(arguments).await,
            Some(name) => {
                let id = name.trim_start_matches('/').parse();
                id.map_err(|_| {
                    ArgumentError::new("agent_name", "names no agent", "leave it out for the current one")
                        .into()
                })
            }
        }
    }

    async fn list_windows(&self, arguments: &Arguments) -> Result<Value, ToolRefusal> {
        let agent = self.agent_named(arguments).await?;
        let limit = usize_or_max(limit(arguments, "limit")?);
        let mut numbers = numbers(self.source, &agent).await?;
        if arguments.flag("recent_first")? {
            numbers.reverse();
        }
        let mut windows = Vec::new();
        for number in numbers.into_iter().take(limit.min(EXCHANGES_READ_MAX)) {
            let items = items(self.source, &agent, number).await?;
            windows.push(json!({ "window_id": window_id(number), "item_count": items.len() }));
        }
        Ok(json!({ "windows": windows }))
    }

    async fn list_items(&self, arguments: &Arguments) -> Result<Value, ToolRefusal> {
        let filter = HistoryFilter {
            role: arguments.text("role")?,
            tool: arguments.text("tool_name")?,
            namespace: arguments.text("tool_namespace")?,
            query: arguments.text("query")?,
        };
        let chars = arguments.integer("max_chars_per_item", 1..=i64::MAX)?.unwrap_or(ITEM_CHARS);
        let (limit, chars) =
            (usize_or_max(limit(arguments, "limit")?), usize_or_max(chars.min(ITEM_CHARS_MAX)));
        let agent = self.agent_named(arguments).await?;
        let recent_first = arguments.flag("recent_first")?;
        let mut previews: Vec<Value> = Vec::new();
        let mut bytes = 0;
        for number in self.windows_for(arguments, &agent, recent_first).await? {
            let mut items = items(self.source, &agent, number).await?;
            if recent_first {
                items.reverse();
            }
            for item in items.iter().filter(|item| filter.matches(item)) {
                let preview = item.preview(chars);
                bytes += preview.to_string().len();
                if previews.len() >= limit || (bytes > self.bytes_max && !previews.is_empty()) {
                    return Ok(json!({ "items": previews }));
                }
                previews.push(preview);
            }
        }
        Ok(json!({ "items": previews }))
    }

    /// Returns the windows to search: the one that the arguments name; otherwise the first [`EXCHANGES_READ_MAX`] in the
    /// requested order, and those in which a search finds the query.
    async fn windows_for(
        &self,
        arguments: &Arguments,
        agent: &AgentId,
        recent_first: bool,
    ) -> Result<Vec<i64>, ToolRefusal> {
        if let Some(window) = arguments.text("window_id")? {
            return Ok(window_number(window).into_iter().collect());
        }
        let mut numbers = numbers(self.source, agent).await?;
        if recent_first {
            numbers.reverse();
        }
        numbers.truncate(EXCHANGES_READ_MAX);
        if let Some(query) = arguments.text("query")? {
            let phrase = format!("\"{}\"", query.replace('"', " "));
            // A query without words causes an error here. Then only the first windows are searched.
            if let Ok(found) = self.source.recall(agent, &[("q", &phrase), ("limit", "20")]).await {
                numbers.extend(found.found.iter().map(|found| found.exchange));
            }
            numbers.sort_unstable();
            numbers.dedup();
            if recent_first {
                numbers.reverse();
            }
        }
        Ok(numbers)
    }

    async fn read_item(&self, arguments: &Arguments) -> Result<Value, ToolRefusal> {
        let agent = self.agent_named(arguments).await?;
        let (window, id) = (required(arguments, "window_id")?, required(arguments, "item_id")?);
        let offset = usize_or_max(arguments.integer("offset_chars", 0..=i64::MAX)?.unwrap_or(0));
        let limit = arguments.integer("limit_chars", 1..=i64::MAX)?.unwrap_or(ITEM_CHARS_MAX);
        let chars_max = usize_or_max(limit).min(self.bytes_max / 2);
        let items = match window_number(window) {
            Some(number) => items(self.source, &agent, number).await?,
            None => Vec::new(),
        };
        let Some(item) = items.into_iter().find(|item| item.seq.to_string() == id) else {
            return Ok(json!({ "item": null }));
        };
        let total = item.content.chars().count();
        let content: String = item.content.chars().skip(offset).take(chars_max).collect();
        let next = offset + content.chars().count();
        let mut result = item.metadata();
        result["content"] = content.into();
        result["total_chars"] = total.into();
        if next < total {
            result["next_offset_chars"] = next.into();
        }
        Ok(json!({ "item": result }))
    }

    async fn list_files(&self, arguments: &Arguments) -> Result<Value, ToolRefusal> {
        let (agent, mut notes) = self.files(arguments, "prefix").await?;
        match arguments.text("file_order_by")? {
            Some("created_at") => notes.sort_by_key(|note| note.created_at),
            Some("updated_at") => notes.sort_by_key(|note| note.written_at),
            _ => {}
        }
        if arguments.text("file_order")? == Some("descending") {
            notes.reverse();
        }
        let files_max = usize_or_max(limit(arguments, "max_results")?);
        let files: Vec<Value> = notes.iter().take(files_max).map(|note| file(&agent, note)).collect();
        Ok(json!({ "files": files }))
    }

    async fn read_file(&self, arguments: &Arguments) -> Result<Value, ToolRefusal> {
        let (agent, name) = self.file_named(arguments).await?;
        let notes = self.source.notes(&agent).await?;
        let Some(note) = notes.iter().find(|note| note.name == name) else {
            return Ok(json!({ "file": null }));
        };
        let lines: Vec<&str> = note.text.split('\n').collect();
        let first =
            line_number(arguments.integer("start_line", i64::MIN..=i64::MAX)?.unwrap_or(1), lines.len());
        let last =
            line_number(arguments.integer("stop_line", i64::MIN..=i64::MAX)?.unwrap_or(-1), lines.len());
        let mut result = file(&agent, note);
        let (mut stop, mut bytes) = (first, 0);
        while stop <= last && bytes <= self.bytes_max / 2 {
            bytes += lines.get(stop - 1).map_or(0, |line| line.len());
            stop += 1;
        }
        let content = lines.get(first - 1..(stop - 1).max(first - 1)).unwrap_or_default();
        result["content"] = content.join("\n").into();
        result["start_line"] = first.into();
        result["stop_line"] = (stop - 1).max(first).into();
        result["total_lines"] = lines.len().into();
        Ok(json!({ "file": result }))
    }

    async fn search_files(&self, arguments: &Arguments) -> Result<Value, ToolRefusal> {
        let query = required(arguments, "query")?;
        let (agent, mut notes) = self.files(arguments, "path_prefix").await?;
        if arguments.flag("recent_file_first")? {
            notes.sort_by_key(|note| Reverse(note.created_at));
        }
        let (files_max, matches_max) = (
            usize_or_max(limit(arguments, "max_files")?),
            usize_or_max(limit(arguments, "max_matches_per_file")?),
        );
        let files = notes.iter().filter_map(|note| {
            let lines = note.text.split('\n').enumerate().filter(|(_, line)| line.contains(query));
            let matches: Vec<Value> = lines
                .take(matches_max)
                .map(|(index, line)| json!({ "line_number": index + 1, "line": line.chars().take(1_000).collect::<String>() }))
                .collect();
            (!matches.is_empty()).then(|| json!({ "path": path(&agent, note), "matches": matches }))
        });
        Ok(json!({ "files": files.take(files_max).collect::<Vec<_>>() }))
    }

    async fn write_file(&self, arguments: &Arguments, append: bool) -> Result<Value, ToolRefusal> {
        let (agent, name) = self.file_named(arguments).await?;
        let request = NoteRequest {
            name: name.clone(),
            text: Some(required(arguments, "text")?.to_owned()),
            append,
            replaces: None,
        };
        self.source.write_notes(&agent, &[request]).await?;
        let notes = self.source.notes(&agent).await?;
        let written = notes.iter().find(|note| note.name == name);
        Ok(json!({ "file": written.map(|note| file(&agent, note)) }))
    }

    /// Returns the notes whose paths begin with the argument's value, ordered by name.
    async fn files(&self, arguments: &Arguments, member: &str) -> Result<(AgentId, Vec<Note>), ToolRefusal> {
        let prefix = NotePath::read(arguments.text(member)?.unwrap_or_default());
        let agent = match prefix.agent {
            Some(agent) => agent,
            None => self.agent(arguments).await?,
        };
        let mut notes = self.source.notes(&agent).await?;
        notes.retain(|note| note.name.as_str().starts_with(&prefix.name));
        Ok((agent, notes))
    }

    async fn file_named(&self, arguments: &Arguments) -> Result<(AgentId, NoteName), ToolRefusal> {
        let path = NotePath::read(required(arguments, "path")?);
        let name = path.name.parse();
        let name =
            name.map_err(|fault: NoteFault| ArgumentError::new("path", "can't be used", &fault.to_string()))?;
        Ok(match path.agent {
            Some(agent) => (agent, name),
            None => (self.agent(arguments).await?, name),
        })
    }
}

const ITEM_ARGUMENTS: [&str; 9] = [
    "limit",
    "max_chars_per_item",
    "query",
    "recent_first",
    "tool_namespace",
    "role",
    "agent_name",
    "tool_name",
    "window_id",
];

impl NotePath {
    fn read(path: &str) -> Self {
        let absolute = path.trim_start_matches('/').split_once('/');
        let agent_and_name = absolute.and_then(|(agent, rest)| {
            let name = rest.strip_prefix("notes")?;
            let is_folder = name.is_empty() || name.starts_with('/');
            is_folder.then(|| Some((agent.parse().ok()?, name.trim_start_matches('/').to_owned())))?
        });
        match agent_and_name {
            Some((agent, name)) => Self { agent: Some(agent), name },
            None => Self { agent: None, name: path.to_owned() },
        }
    }
}

impl HistoryFilter<'_> {
    fn matches(&self, item: &HistoryItem) -> bool {
        let is_in_namespace = |namespace: &str, tool: &str| {
            let name = tool.strip_prefix("mcp__").unwrap_or(tool);
            name.strip_prefix(namespace).is_some_and(|rest| rest.starts_with("__") || rest.starts_with('.'))
        };
        let tool = item.tool.as_deref();
        self.role.is_none_or(|role| role == item.role)
            && self.tool.is_none_or(|name| tool == Some(name))
            && self
                .namespace
                .is_none_or(|namespace| tool.is_some_and(|tool| is_in_namespace(namespace, tool)))
            && self.query.is_none_or(|query| item.content.contains(query))
    }
}

impl HistoryItem {
    /// Returns the item for a message; `None` for messages that no model gets.
    fn from_message(window: i64, message: &ShownMessage) -> Option<Self> {
        let role = match Kind::from_name(&message.kind) {
            Kind::System => "system",
            Kind::User => "user",
            Kind::Assistant | Kind::ToolCall => "assistant",
            Kind::ToolResult => "tool",
            Kind::Metadata(_) => return None,
        };
        Some(Self { window, seq: message.seq, role, tool: tool_name(message), content: content(message) })
    }

    fn metadata(&self) -> Value {
        let mut metadata = json!({
            "window_id": window_id(self.window),
            "item_id": self.seq.to_string(),
            "role": self.role,
        });
        if let Some(tool) = &self.tool {
            metadata["tool_name"] = tool.as_str().into();
        }
        metadata
    }

    fn preview(&self, chars: usize) -> Value {
        let mut preview = self.metadata();
        preview["truncated_content"] = self.content.chars().take(chars).collect::<String>().into();
        preview["content_chars"] = self.content.chars().count().into();
        preview
    }
}

/// Returns the name of the tool that the message calls, or whose result it is.
fn tool_name(message: &ShownMessage) -> Option<String> {
    let format = Format::from_name(&message.format)?;
    let message: Message = formats::parse(format, message.payload.get()).ok()?;
    message.parts.into_iter().find_map(|part| match part {
        Part::ToolCall { name, .. } => Some(name),
        Part::ToolResult { name, .. } => name,
        _ => None,
    })
}

/// Returns the numbers of an agent's exchanges in ascending order.
async fn numbers(source: &dyn Source, agent: &AgentId) -> Result<Vec<i64>, ToolRefusal> {
    let view = source.window(agent, true).await?;
    let exchanges = view["exchanges"].as_array().map(Vec::as_slice).unwrap_or_default();
    let live = exchanges.iter().filter(|exchange| exchange["state"] != "set_aside");
    Ok(live.filter_map(|exchange| exchange["n"].as_i64()).collect())
}

async fn items(source: &dyn Source, agent: &AgentId, number: i64) -> Result<Vec<HistoryItem>, ToolRefusal> {
    let query = ExpandQuery { limit: MESSAGES_READ_MAX, ..ExpandQuery::default() };
    let expanded = source.expand(agent, number, query).await?;
    Ok(expanded.messages.iter().filter_map(|message| HistoryItem::from_message(number, message)).collect())
}

fn window_id(number: i64) -> String {
    format!("{WINDOW}{number}")
}

fn window_number(id: &str) -> Option<i64> {
    id.strip_prefix(WINDOW)?.parse().ok()
}

fn path(agent: &AgentId, note: &Note) -> String {
    format!("{agent}/notes/{}", note.name)
}

fn file(agent: &AgentId, note: &Note) -> Value {
    json!({
        "path": path(agent, note),
        "bytes": note.bytes,
        "created_at": note.created_at.to_string(),
        "updated_at": note.written_at.to_string(),
    })
}

fn limit(arguments: &Arguments, member: &str) -> Result<i64, ArgumentError> {
    let limit = arguments.integer(member, 1..=i64::MAX)?;
    Ok(limit.unwrap_or(LIMIT).min(LIMIT_MAX))
}

fn read(arguments: Option<JsonObject>, names: &[&str]) -> Result<Arguments, ArgumentError> {
    Arguments::read(arguments, &[names, &["agent"]].concat())
}

fn read_with_empty(arguments: Option<JsonObject>, names: &[&str]) -> Result<Arguments, ArgumentError> {
    Arguments::read_with_empty(arguments, &[names, &["agent"]].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_absolute_or_of_the_agents_own_notes() {
        for (path, agent, name) in [
            ("plan.md", None, "plan.md"),
            ("a/b.md", None, "a/b.md"),
            ("coder/notes/a/b.md", Some("coder"), "a/b.md"),
            ("/coder/notes/plan.md", Some("coder"), "plan.md"),
            ("coder/notes", Some("coder"), ""),
            ("coder/notesx", None, "coder/notesx"),
            ("", None, ""),
        ] {
            let read = NotePath::read(path);
            assert_eq!(
                (read.agent.as_ref().map(AgentId::as_str), read.name.as_str()),
                (agent, name),
                "{path}"
            );
        }
        assert_eq!(window_number("exchange-12"), Some(12));
        assert_eq!(window_number("12"), None);
        let lines =
            [(1, 3), (-1, 3), (-3, 3), (9, 3), (0, 0)].map(|(number, lines)| line_number(number, lines));
        assert_eq!(lines, [1, 3, 1, 3, 1]);
    }
}
