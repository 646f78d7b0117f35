//! Converts conversations that other programs store to messages of the formats that recapd stores.
//!
//! An entry is a line of a file, an element of a list, or a document. Its content shows which program wrote it. The program's reader
//! writes messages of OpenAI's chat or of Gemini, with their ids and times, and counts what it leaves out, by name.

mod ai_sdk;
mod atif;
mod autogen;
mod branch;
mod chatgpt;
mod claude_ai;
mod cline;
mod content;
mod converse;
mod copilot;
mod cursor;
mod gemini_cli;
mod gemini_contents;
mod langchain;
mod opencode;
mod openhands;
mod pi;
mod pydantic_ai;
mod transcription;
mod turn;

use serde_json::value::RawValue;

use super::json::{self, Fields};
pub(super) use transcription::Transcription;
use turn::quoted;

/// Fields with a list of messages, in a document of several fields. A dot leads into an object.
const LISTS: [&str; 11] = [
    "messages",
    "history",
    "events",
    "kwargs.messages",
    "channel_values.messages",
    "checkpoint.channel_values.messages",
    "values.messages",
    "state.messages",
    "llm_context.messages",
    "agent_state.llm_context.messages",
    "message_thread",
];
/// Fields with the system prompt of such a document.
const PROMPTS: [&str; 2] = ["system", "system_prompt"];
/// Fields that may name such a document's conversation.
const NAMES: [&str; 5] = ["id", "thread_id", "session_id", "conversation_id", "instance_id"];

/// Looks at this many entries of a file, and of each list in it, to recognise a format.
const ENTRIES_LOOKED_AT: usize = 1_000;

/// How a program stores conversations.
pub(super) struct ForeignFormat {
    /// The name for people.
    pub(super) name: &'static str,
    /// Returns true for an entry that only this program writes.
    is_entry: fn(&Fields<'_>) -> bool,
    /// Reads the entries of one file or list.
    read: fn(&[&RawValue], &mut Transcription),
}

/// All formats. The first format that recognises an entry of a file reads the file.
const FORMATS: [ForeignFormat; 20] = [
    gemini_cli::SESSION,
    gemini_cli::STREAM,
    gemini_contents::QWEN,
    gemini_contents::ADK,
    copilot::EVENTS,
    opencode::EXPORT,
    ai_sdk::UI,
    ai_sdk::MODEL,
    langchain::MESSAGES,
    converse::MESSAGES,
    pydantic_ai::MESSAGES,
    chatgpt::EXPORT,
    claude_ai::EXPORT,
    openhands::ACTIONS,
    openhands::EVENTS,
    pi::SESSION,
    atif::TRAJECTORY,
    autogen::MESSAGES,
    cursor::TRANSCRIPT,
    cline::HISTORY,
];

/// Where the entries of a format are.
#[derive(Clone, Copy)]
enum EntryDepth {
    /// In the file itself.
    Top,
    /// In lists within the file's entries. Each list is a conversation.
    Within,
}

/// Reads the lines of a file, or the elements of a document. Returns `None` if none of them is an entry of a known format.
pub(super) fn read(entries: &[&RawValue]) -> Option<Transcription> {
    let (format, depth) = find(entries)?;
    let mut transcription = Transcription::new(format.name);
    match depth {
        EntryDepth::Top => (format.read)(entries, &mut transcription),
        EntryDepth::Within => {
            let is_one = entries.len() == 1;
            let name =
                |entry: &Fields<'_>| NAMES.iter().find_map(|name| entry.label(name)).filter(|_| !is_one);
            for raw in entries {
                transcription.begin(Fields::of(raw).as_ref().and_then(name));
                read_within(raw, format, &mut transcription);
            }
        }
    }
    Some(transcription)
}

/// Returns true if `text`, a line of a file, is an entry of a known format or has a list of such entries.
pub(super) fn is_known(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok_and(|raw| find(&[raw]).is_some())
}

fn find(entries: &[&RawValue]) -> Option<(&'static ForeignFormat, EntryDepth)> {
    let format_among = |entries: &[&RawValue]| {
        let mut looked_at = entries.iter().take(ENTRIES_LOOKED_AT);
        looked_at.find_map(|raw| format_of(raw))
    };
    let nested = || {
        let mut lists = entries.iter().take(ENTRIES_LOOKED_AT).filter_map(|raw| list_within(raw));
        lists.find_map(|list| format_among(&list))
    };
    let top = format_among(entries).map(|format| (format, EntryDepth::Top));
    top.or_else(|| Some((nested()?, EntryDepth::Within)))
}

fn format_of(raw: &RawValue) -> Option<&'static ForeignFormat> {
    let entry = Fields::of(raw)?;
    FORMATS.iter().find(|format| (format.is_entry)(&entry))
}

fn read_within(raw: &RawValue, format: &ForeignFormat, transcription: &mut Transcription) {
    let Some(list) = list_within(raw) else {
        transcription.leave_out("entry without messages");
        return;
    };
    let fields = Fields::of(raw);
    let prompt = |name: &&str| fields.as_ref()?.raw(name);
    if let Some(system) = PROMPTS.iter().find_map(prompt) {
        let text = json::string(system).unwrap_or_else(|| texts(system));
        transcription.push(turn::TurnWriter::new("system").saying(&text));
    }
    (format.read)(&list, transcription);
}

/// Returns the list of messages in a document, or the elements of a list.
fn list_within(raw: &RawValue) -> Option<Vec<&RawValue>> {
    let Some(entry) = Fields::of(raw) else {
        return json::list(raw);
    };
    if let Some(thread) = autogen::team_thread(&entry) {
        return Some(thread);
    }
    LISTS.iter().find_map(|path| {
        let mut value = entry.raw(path.split('.').next()?)?;
        for name in path.split('.').skip(1) {
            value = Fields::of(value)?.raw(name)?;
        }
        json::list(value)
    })
}

/// Returns the texts of a list of blocks, or of one block.
fn texts(raw: &RawValue) -> String {
    let blocks = json::list(raw).unwrap_or_else(|| vec![raw]);
    let texts = blocks
        .into_iter()
        .filter_map(|block| json::string(block).or_else(|| Fields::of(block)?.text("text")));
    texts.collect::<Vec<_>>().join("\n")
}

/// Returns the objects in the list `name`.
fn objects<'a>(fields: &Fields<'a>, name: &str) -> Vec<Fields<'a>> {
    let list = fields.list(name).unwrap_or_default();
    list.into_iter().filter_map(Fields::of).collect()
}
