//! The tools for notes, and Anthropic's memory tool, which works on the same notes.

use rmcp::model::JsonObject;
use serde_json::Value;

use super::{
    arguments::{ArgumentError, Arguments},
    source::SourceError,
    tools::{ToolCall, ToolRefusal},
};
use recapd_core::domain::{
    agent::AgentId,
    note::{Note, NoteChange, NoteFault, NoteName, edit::lines_with, memory::MemoryCommand},
    number::{i64_or_max, usize_or_max},
    text::floor_cut,
};
use recapd_engine::ingest::NoteRequest;

/// A command is tried at most this often. It is tried again if another client changed the notes after they were read.
const TRIES: usize = 4;
/// Reserves room for the last line of an answer, which says how to continue.
const HINT_BYTES: usize = 200;

impl ToolCall<'_> {
    /// Answers a call of one of recapd's own tools for notes.
    pub(super) async fn notes_tool(
        &self,
        name: &str,
        arguments: Option<JsonObject>,
    ) -> Result<String, ToolRefusal> {
        match name {
            "notes_list" => {
                let agent = self.agent(&Arguments::read(arguments, &["agent"])?).await?;
                Ok(note_list(&self.source.notes(&agent).await?))
            }
            "notes_read" => self.read_note(&Arguments::read(arguments, &["agent", "name", "after"])?).await,
            "notes_write" => {
                let arguments =
                    Arguments::read_with_empty(arguments, &["agent", "name", "text", "replaces"])?;
                self.write_note(&arguments, false).await
            }
            "notes_append" => {
                let arguments = Arguments::read_with_empty(arguments, &["agent", "name", "text"])?;
                self.write_note(&arguments, true).await
            }
            "notes_delete" => {
                let arguments = Arguments::read(arguments, &["agent", "name"])?;
                let (agent, name) = (self.agent(&arguments).await?, note_name(&arguments, "name")?);
                let request = NoteRequest { name: name.clone(), text: None, append: false, replaces: None };
                self.source.write_notes(&agent, &[request]).await?;
                Ok(format!("deleted {name}"))
            }
            _ => self.search_notes(&Arguments::read(arguments, &["agent", "query"])?).await,
        }
    }

    async fn read_note(&self, arguments: &Arguments) -> Result<String, ToolRefusal> {
        let name = note_name(arguments, "name")?;
        let after = usize_or_max(arguments.integer("after", 0..=i64::MAX)?.unwrap_or(0));
        let agent = self.agent(arguments).await?;
        let notes = self.source.notes(&agent).await?;
        let note = notes.iter().find(|note| note.name == name);
        let note = note.ok_or_else(|| {
            ArgumentError::new("name", &format!("names no note (`{name}`)"), "notes_list shows the names")
        })?;
        let start = floor_cut(&note.text, after).len();
        let rest = note.text.get(start..).unwrap_or_default();
        let part = floor_cut(rest, self.bytes_max.saturating_sub(HINT_BYTES));
        if part.len() == rest.len() {
            return Ok(format!("{part}\n(version {})", note.version));
        }
        let after = start + part.len();
        Ok(format!("{part}\n(more follows: notes_read \"{name}\" after {after})"))
    }

    async fn write_note(&self, arguments: &Arguments, append: bool) -> Result<String, ToolRefusal> {
        let request = NoteRequest {
            name: note_name(arguments, "name")?,
            text: Some(required(arguments, "text")?.to_owned()),
            append,
            replaces: arguments.integer("replaces", 0..=i64::MAX)?,
        };
        let agent = self.agent(arguments).await?;
        let written = self.source.write_notes(&agent, &[request]).await?;
        let lines = written
            .notes
            .iter()
            .map(|note| format!("wrote {}: version {}, {} bytes", note.name, note.version, note.bytes));
        Ok(lines.collect::<Vec<_>>().join("\n"))
    }

    async fn search_notes(&self, arguments: &Arguments) -> Result<String, ToolRefusal> {
        let query = required(arguments, "query")?.to_owned();
        let agent = self.agent(arguments).await?;
        let mut text = String::new();
        for note in self.source.notes(&agent).await? {
            for line in lines_with(&note.text, &query) {
                let line_text = format!("{}:{}: {}\n", note.name, line.number, line.text);
                if text.len() + line_text.len() > self.bytes_max.saturating_sub(HINT_BYTES) {
                    text.push_str("(there is more: search for rarer words)\n");
                    return Ok(text);
                }
                text.push_str(&line_text);
            }
        }
        Ok(if text.is_empty() { "(nothing found)".to_owned() } else { text })
    }

    /// Answers a call of Anthropic's memory tool.
    pub(super) async fn memory(&self, members: Option<JsonObject>) -> Result<String, ToolRefusal> {
        let mut members = members.unwrap_or_default();
        let agent_member = members.remove("agent").map(|agent| ("agent".to_owned(), agent));
        let arguments = Arguments::read(Some(agent_member.into_iter().collect()), &["agent"])?;
        members.retain(|_, value| !value.is_null());
        let command: MemoryCommand = serde_json::from_value(Value::Object(members))
            .map_err(|error| ToolRefusal::ForModel(format!("Error: {error}")))?;
        let agent = self.agent(&arguments).await?;
        for _ in 1..TRIES {
            match self.run_command(&agent, &command).await {
                // Another client wrote the note after it was read.
                Err(ToolRefusal::Changed) => {}
                result => return result,
            }
        }
        self.run_command(&agent, &command).await
    }

    async fn run_command(&self, agent: &AgentId, command: &MemoryCommand) -> Result<String, ToolRefusal> {
        let notes = self.source.notes(agent).await?;
        let answer = command.answer(&notes).map_err(ToolRefusal::ForModel)?;
        self.change_notes(agent, answer.changes).await?;
        let part = floor_cut(&answer.text, self.bytes_max.saturating_sub(HINT_BYTES));
        if part.len() == answer.text.len() {
            return Ok(answer.text);
        }
        let whole_lines = part.rfind('\n').map_or(part, |end| part.get(..end).unwrap_or(part));
        Ok(format!("{whole_lines}\n(more follows: view it with a later view_range)"))
    }

    async fn change_notes(&self, agent: &AgentId, changes: Vec<NoteChange>) -> Result<(), ToolRefusal> {
        if changes.is_empty() {
            return Ok(());
        }
        let requests: Vec<NoteRequest> = changes.into_iter().map(Into::into).collect();
        match self.source.write_notes(agent, &requests).await {
            Ok(_) => Ok(()),
            Err(SourceError::NoteChanged(_)) => Err(ToolRefusal::Changed),
            Err(error) => Err(error.into()),
        }
    }
}

fn note_list(notes: &[Note]) -> String {
    if notes.is_empty() {
        return "(no notes)".to_owned();
    }
    let lines = notes.iter().map(|note| {
        format!(
            "{} ({} bytes, version {} of {}): {}",
            note.name, note.bytes, note.version, note.written_at, note.title
        )
    });
    lines.collect::<Vec<_>>().join("\n")
}

pub(super) fn note_name(arguments: &Arguments, member: &str) -> Result<NoteName, ArgumentError> {
    let parsed: Result<NoteName, NoteFault> = required(arguments, member)?.parse();
    parsed.map_err(|fault| ArgumentError::new(member, "can't be used", &fault.to_string()))
}

pub(super) fn required<'a>(arguments: &'a Arguments, member: &str) -> Result<&'a str, ArgumentError> {
    let text = arguments.text(member)?;
    text.ok_or_else(|| ArgumentError::new(member, "is missing", "give a text"))
}

/// Returns the line number that `number` means. A negative number counts from the last line.
pub(super) fn line_number(number: i64, lines: usize) -> usize {
    let lines = i64_or_max(lines);
    let number = if number < 0 { lines + 1 + number } else { number };
    usize_or_max(number.clamp(1, lines.max(1)))
}
