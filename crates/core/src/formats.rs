//! Formats: converts messages of providers and lines of transcripts to recapd's messages.
//!
//! Invariant: a message's payload is the text that came in, byte for byte. Everything else is parsed from it and can be parsed again.
//! Parsing is tolerant: unknown content stays in the payload. Only a text that can't be a message of its format is refused, with a reason
//! and a cure. [`parse`] reads one message, [`file`](mod@file) reads whole files, and [`parse_strict`] also refuses unknown roles and
//! blocks.

mod block;
mod chat;
mod claude_code;
mod codex;
mod content;
mod conversation;
mod detect;
pub mod file;
mod foreign;
mod gemini;
mod json;
mod native;
pub mod outgoing;
mod pidgin;
pub mod request;
mod responses;
mod role;
mod row;
mod sameness;
mod spelling;
mod usage;

use crate::domain::{
    message::{Format, Kind, Message, Metadata, Part},
    text::cut,
    time::{SECOND_MS, Timestamp},
};
pub use claude_code::is_copied_line;
pub use conversation::conversation_line;
use json::Fields;
pub use row::{Row, read_row};
pub use sameness::is_same;
pub use usage::{read_usage, reported_usage};

/// Fields that may have a message's time. They are tried in this order.
const TIME_FIELDS: [&str; 3] = ["at", "created_at", "timestamp"];
/// Numbers from here on are milliseconds since 1970, smaller ones are seconds: 1e11 s is the year 5138, 1e11 ms is 1973.
const EPOCH_MS_MIN: f64 = 1e11;

/// The kind of a summary that a host's own compaction made. Models never see it.
const COMPACT_SUMMARY: &str = "compact_summary";
/// Cuts the names of kinds, speakers and conversations to this many characters.
const NAME_CHARS_MAX: usize = 128;
/// Ignores a client's id of a message if the id has more bytes.
const ID_BYTES_MAX: usize = 256;

/// Why a text isn't a message of its format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}; {cure}")]
pub struct FormatError {
    /// What is wrong.
    pub reason: String,
    /// What to do about it.
    pub cure: String,
}

impl FormatError {
    fn new(reason: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { reason: reason.into(), cure: cure.into() }
    }
}

/// Reads one JSON value as a message. `json` becomes its payload, verbatim.
///
/// # Errors
/// When `json` isn't a JSON object, or lacks a field that the format requires.
pub fn parse(format: Format, json: &str) -> Result<Message, FormatError> {
    let message = read(format, &Fields::parse(json)?)?;
    Ok(Message { payload: json.to_owned(), ..message })
}

/// Like [`parse`], for a message that is being sent now: also refuses an unknown role, and a message that has only unknown blocks. A
/// transcript may have such messages. A new one is a mistake: no model would ever see it.
///
/// # Errors
/// Those of [`parse`], and one for an unknown role or unknown blocks.
pub fn parse_strict(format: Format, json: &str) -> Result<Message, FormatError> {
    let fields = Fields::parse(json)?;
    spelling::check(&fields)?;
    let message = read(format, &fields)?;
    check_strict(&message, &fields)?;
    Ok(Message { payload: json.to_owned(), ..message })
}

/// Returns true if a message has a time field, but none of its time fields can be read as a time.
fn has_unreadable_time(message: &Message, fields: &Fields<'_>) -> bool {
    message.at.is_none() && TIME_FIELDS.iter().any(|&name| fields.has(name))
}

fn check_strict(message: &Message, fields: &Fields<'_>) -> Result<(), FormatError> {
    role::check(message, fields)?;
    block::check(message, fields)
}

/// Returns true if `message` is a user line of a Claude Code transcript with nothing for a model in it: no content, or only white space.
/// Such a line would open an empty exchange.
pub fn is_wordless_prompt(message: &Message) -> bool {
    let is_blank = |part: &Part| match part {
        Part::Text(text) => text.trim().is_empty(),
        Part::Thinking(_) => true,
        Part::ToolCall { .. } | Part::ToolResult { .. } | Part::Attachment { .. } | Part::Opaque { .. } => {
            false
        }
    };
    let is_from_user = message.format == Format::ClaudeCode && message.kind == Kind::User;
    is_from_user && message.parts.iter().all(is_blank)
}

/// Returns the id of the sub-agent to which a transcript line belongs; an empty id if the line doesn't name the sub-agent. Returns `None`
/// for a line of the main conversation.
pub fn sub_agent(message: &Message) -> Option<String> {
    if message.format != Format::ClaudeCode {
        return None;
    }
    let fields = Fields::parse(&message.payload).ok()?;
    is_sidechain(message.format, &fields).then(|| fields.text("agentId").unwrap_or_default())
}

fn is_sidechain(format: Format, fields: &Fields<'_>) -> bool {
    format == Format::ClaudeCode && fields.flag("isSidechain") == Some(true)
}

/// Detects the format of one message; [`mod@file`] detects that of a file. Returns `None` if `json` isn't a message, or has only a role
/// and plain text, as messages of both OpenAI and Anthropic have.
pub fn detect(json: &str) -> Option<Format> {
    certain_format(&Fields::parse(json).ok()?)
}

/// Returns the message's own id, by which a repeated message is recognised. Reads it like [`parse`], in the format that [`detect`] finds,
/// or else in OpenAI's.
pub fn own_id(json: &str) -> Option<String> {
    let fields = Fields::parse(json).ok()?;
    id(certain_format(&fields).unwrap_or(Format::OpenAiChat), &fields)
}

fn certain_format(fields: &Fields<'_>) -> Option<Format> {
    match detect::shape(fields) {
        detect::MessageShape::Certain(format) => Some(format),
        detect::MessageShape::Chat | detect::MessageShape::Unknown => None,
    }
}

/// Reads a message without its payload. A caller that needs the payload adds it, so the lines of a file aren't copied twice.
fn read(format: Format, fields: &Fields<'_>) -> Result<Message, FormatError> {
    match format {
        Format::Native | Format::Aider => native::read(format, fields),
        Format::OpenAiChat | Format::Anthropic => chat::read(format, fields),
        Format::OpenAiResponses => responses::read(fields),
        Format::Gemini => gemini::read(fields),
        Format::ClaudeCode => claude_code::read(fields),
        Format::Codex => codex::read(fields),
        Format::Pidgin => pidgin::read(fields),
    }
}

/// Makes a message without a payload, from the fields that a line may have in any format.
fn message(format: Format, fields: &Fields<'_>, kind: Kind, parts: Vec<Part>) -> Message {
    // In a tool's message, `name` is the tool's.
    let is_tool = matches!(kind, Kind::ToolCall | Kind::ToolResult);
    let speaker = fields.text("speaker").or_else(|| fields.text("name").filter(|_| !is_tool));
    let kind = match kind {
        Kind::Assistant if fields.flag("is_error").unwrap_or(false) => unknown_kind(Metadata::API_ERROR),
        kind => kind,
    };
    Message {
        speaker: speaker.map(|name| cut(&name, NAME_CHARS_MAX)),
        client_id: id(format, fields),
        at: TIME_FIELDS.iter().find_map(|&name| time(fields, name)),
        important: fields.flag("important").unwrap_or(false),
        format,
        ..Message::new(kind, parts)
    }
}

fn id(format: Format, fields: &Fields<'_>) -> Option<String> {
    let mut ids = id_fields(format).iter().filter_map(|&name| fields.label(name));
    let id = ids.find(|id| id.len() <= ID_BYTES_MAX)?;
    // PostgreSQL can't store U+0000 in a text.
    Some(id.replace('\0', "\u{fffd}"))
}

/// Returns the fields that hold a message's own id. A provider's `id` isn't among them: in OpenAI-shaped logs it is the call's id,
/// Anthropic repeats it on each line of a streamed message, and a Responses item keeps it when it is sent again.
fn id_fields(format: Format) -> &'static [&'static str] {
    match format {
        Format::Native | Format::Aider => &["id", "client_id", "message_id", "uuid"],
        Format::ClaudeCode => &["uuid", "client_id"],
        _ => &["client_id"],
    }
}

/// Returns the kind for a `name` that recapd doesn't know. Kinds are stored by name, so a name that is also a known kind's gets the prefix
/// `other_`: a transcript's `system` line isn't an instruction, and a role `clear` clears nothing.
fn unknown_kind(name: &str) -> Kind {
    let name = cut(name, NAME_CHARS_MAX);
    match Kind::from_name(&name) {
        kind @ Kind::Metadata(Metadata::Other(_)) => kind,
        _ => Kind::Metadata(Metadata::Other(format!("other_{name}"))),
    }
}

/// Reads a time field. Returns `None` if it isn't a time, or is outside the years 1 to 9999.
fn time(fields: &Fields<'_>, name: &str) -> Option<Timestamp> {
    if let Some(text) = fields.text(name) {
        return Timestamp::parse(&text);
    }
    let epoch = fields.number(name)?;
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "times are far below 2^52 milliseconds, and a float cast saturates"
    )]
    let time_ms = if epoch < EPOCH_MS_MIN { (epoch * SECOND_MS as f64) as i64 } else { epoch as i64 };
    Timestamp(time_ms).in_calendar()
}

#[cfg(test)]
mod tests;
