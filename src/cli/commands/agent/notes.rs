//! `recapd notes`: lists, reads, writes and searches the notes of an agent.

use std::{
    io::{IsTerminal as _, Read as _, stdin},
    process::ExitCode,
};

use clap::{Args, Subcommand};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::lineage;
use crate::cli::{
    GlobalOptions,
    backend::{
        api::{Api, escape},
        open,
    },
    exit::CommandFailure,
    list::{ListPage, PageOptions},
    terminal::table::{Align, Table},
};
use recapd_config::Config;
use recapd_core::domain::{
    agent::AgentId,
    note::{NOTE_BYTES_MAX, NoteName, edit::lines_with},
};
use recapd_engine::ingest::{NoteEntry, NotesReply};

#[derive(Debug, Args)]
#[command(after_help = "\
Notes are named texts that an agent keeps, at most 64 KiB each and 200 per agent. They follow forks and rewinds, and every
version is kept. Names may have parts, such as repository/build.md. Examples:
  recapd notes list my-agent
  recapd notes write my-agent plan.md '1. Find the cause'
  cargo test 2>&1 | recapd notes append my-agent log.md
  recapd notes read my-agent plan.md --at 12
  recapd notes search my-agent cause")]
pub(crate) struct NotesCommand {
    #[command(subcommand)]
    action: NotesAction,
}

#[derive(Debug, Subcommand)]
enum NotesAction {
    /// List the notes, by name
    List {
        /// The agent
        agent: AgentId,
        #[command(flatten)]
        page: PageOptions,
    },
    /// Print a note
    Read {
        #[command(flatten)]
        note: NoteArguments,
        /// Print this earlier version; --json lists the versions
        #[arg(long, value_name = "VERSION", value_parser = clap::value_parser!(i64).range(1..))]
        at: Option<i64>,
    },
    /// Write a note
    Write(NoteTextArguments),
    /// Add to the end of a note
    Append(NoteTextArguments),
    /// Print the lines of all notes that contain these words
    Search {
        /// The agent
        agent: AgentId,
        /// The text that the lines contain, in upper or lower case
        words: String,
    },
    /// Delete a note; a rewind restores it
    Delete(NoteArguments),
}

#[derive(Debug, Args)]
struct NoteArguments {
    /// The agent
    agent: AgentId,
    /// The note's name
    name: NoteName,
}

#[derive(Debug, Args)]
struct NoteTextArguments {
    #[command(flatten)]
    note: NoteArguments,
    /// The text [default: standard input]
    text: Option<String>,
    /// Write only if the note has this version; 0: only if the note doesn't exist
    #[arg(long, value_name = "VERSION", value_parser = clap::value_parser!(i64).range(0..))]
    replaces: Option<i64>,
}

impl NotesCommand {
    pub(crate) fn run(self, config: &Config, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        match self.action {
            NotesAction::List { agent, page } => {
                let reply: Value = open::block_on(notes(config, options, &agent, false))?;
                let page: ListPage<NoteEntry> = page.cut(reply, "notes", "name")?;
                page.print(options, &text(&page.rows))
            }
            NotesAction::Read { note, at } => read(config, options, &note, at),
            NotesAction::Write(arguments) => write(config, options, arguments, false),
            NotesAction::Append(arguments) => write(config, options, arguments, true),
            NotesAction::Search { agent, words } => search(config, options, &agent, &words),
            NotesAction::Delete(note) => {
                let change = json!({"name": note.name, "text": null});
                change_note(config, options, &note, &change)
            }
        }
    }
}

async fn notes<T: DeserializeOwned>(
    config: &Config,
    options: &GlobalOptions,
    agent: &AgentId,
    texts: bool,
) -> Result<T, CommandFailure> {
    let path = format!("/v1/agents/{agent}/notes?texts={}", i64::from(texts));
    Api::reading(config, options).await?.read(&path).await
}

fn text(notes: &[NoteEntry]) -> String {
    if notes.is_empty() {
        return "(no notes)".to_owned();
    }
    let mut table = Table::new([
        ("NOTE", Align::Left),
        ("BYTES", Align::Right),
        ("VERSION", Align::Right),
        ("WRITTEN", Align::Left),
        ("BEGINS", Align::Left),
    ]);
    for note in notes {
        table.row([
            note.name.to_string(),
            note.bytes.to_string(),
            note.version.to_string(),
            note.written_at.to_string(),
            note.title.clone(),
        ]);
    }
    table.text()
}

fn read(
    config: &Config,
    options: &GlobalOptions,
    note: &NoteArguments,
    version: Option<i64>,
) -> Result<ExitCode, CommandFailure> {
    let version = version.map_or_else(String::new, |version| format!("?version={version}"));
    let path = format!("/v1/agents/{}/notes/{}{version}", note.agent, escape(note.name.as_str()));
    let reply: Value = open::block_on(async { Api::reading(config, options).await?.read(&path).await })?;
    lineage::print(options, &reply, &|reply| reply["text"].as_str().unwrap_or_default().to_owned())
}

fn write(
    config: &Config,
    options: &GlobalOptions,
    arguments: NoteTextArguments,
    append: bool,
) -> Result<ExitCode, CommandFailure> {
    let NoteTextArguments { note, text, replaces } = arguments;
    let text = text.map_or_else(standard_input, Ok)?;
    let change = json!({"name": note.name, "text": text, "append": append, "replaces": replaces});
    change_note(config, options, &note, &change)
}

/// Reads a text for a note. Reads a little more than a note can have, so that a longer text is refused.
fn standard_input() -> Result<String, CommandFailure> {
    if stdin().is_terminal() {
        return Err(CommandFailure::usage("write the text as an argument, or to standard input".to_owned()));
    }
    let mut text = String::new();
    let bytes_max = u64::try_from(2 * NOTE_BYTES_MAX).unwrap_or(u64::MAX);
    let read = stdin().take(bytes_max).read_to_string(&mut text);
    read.map_err(|error| CommandFailure::usage(format!("standard input: {error}")))?;
    Ok(text)
}

fn change_note(
    config: &Config,
    options: &GlobalOptions,
    note: &NoteArguments,
    change: &Value,
) -> Result<ExitCode, CommandFailure> {
    let NoteArguments { agent, name } = note;
    let reply = lineage::post(config, options, agent, ("notes", json!({"changes": [change]})))?;
    lineage::print(options, &reply, &|reply| {
        let written = &reply["notes"][0];
        if written["deleted"] == true {
            return format!("deleted {name} of {agent}");
        }
        let (version, bytes) = (&written["version"], &written["bytes"]);
        format!("wrote {name} of {agent}: version {version}, {bytes} bytes")
    })
}

fn search(
    config: &Config,
    options: &GlobalOptions,
    agent: &AgentId,
    words: &str,
) -> Result<ExitCode, CommandFailure> {
    let reply: NotesReply = open::block_on(notes(config, options, agent, true))?;
    let mut found = Vec::new();
    for note in &reply.notes {
        let lines = lines_with(note.text.as_deref().unwrap_or_default(), words);
        found.extend(lines.map(|line| json!({"name": note.name, "line": line.number, "text": line.text})));
    }
    lineage::print(options, &json!({"agent_id": agent, "found": found}), &|_| {
        let line = |found: &Value| {
            let text = |member: &str| found[member].as_str().unwrap_or_default().to_owned();
            format!("{}:{}: {}", text("name"), found["line"], text("text"))
        };
        if found.is_empty() {
            return "(nothing found)".to_owned();
        }
        found.iter().map(line).collect::<Vec<_>>().join("\n")
    })
}
