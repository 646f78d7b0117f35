//! Writes the turns of a context as the content of a provider's request.
//!
//! Invariant: a message that the target's own provider wrote, and that needed no repair, is sent as it came, with its unknown blocks. Only
//! these are removed: a transcript's envelope, fields that no request may have, prompt cache markers (they belong to one request), and the
//! ids of reasoning and items of OpenAI's Responses API. Ids and names that the target would refuse are respelled ([`spelling`]).
//! [`Outgoing::notes`] names everything that can't be sent.

mod anthropic;
mod calls;
mod chat;
mod gemini;
mod original;
mod responses;
mod spelling;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::domain::{
    context::Turn,
    message::{Part, Role},
};
use calls::{Names, TurnCalls, arguments_text};

/// The text of a failed result without a text, where the format can't mark failures.
const FAILED: &str = "(failed)";
/// Separates texts that are joined into one.
const TEXT_SEPARATOR: &str = "\n\n";

/// The API that a request is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum RequestFormat {
    /// Anthropic Messages: `{system, messages}`.
    Anthropic,
    /// OpenAI Chat Completions: `{messages}`.
    #[serde(rename = "openai")]
    OpenAiChat,
    /// OpenAI Responses: `{instructions, input}`.
    #[serde(rename = "openai-responses")]
    OpenAiResponses,
    /// Gemini: `{systemInstruction, contents}`.
    Gemini,
}

impl RequestFormat {
    /// All request formats.
    pub const ALL: [Self; 4] = [Self::Anthropic, Self::OpenAiChat, Self::OpenAiResponses, Self::Gemini];

    /// The name on the command line and in HTTP queries.
    pub fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAiChat => "openai",
            Self::OpenAiResponses => "openai-responses",
            Self::Gemini => "gemini",
        }
    }

    /// Returns the format of that name, if there is one.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// Returns true if a request must end with the user's words or with tool results.
    pub fn ends_with_user(self) -> bool {
        self == Self::Gemini
    }

    /// Returns true if a request may have the thinking of the open exchange even if messages before it have changed. OpenAI ignores
    /// thinking that it can't use any more.
    pub fn keeps_open_thinking(self) -> bool {
        self == Self::OpenAiResponses
    }

    /// Returns true if messages can name their speaker, and user messages may follow each other.
    pub fn names_speakers(self) -> bool {
        self == Self::OpenAiChat
    }

    /// Returns true if every model accepts instructions in the middle of a conversation.
    pub fn takes_system_in_place(self) -> bool {
        matches!(self, Self::OpenAiChat | Self::OpenAiResponses)
    }
}

/// The content of a request.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outgoing {
    /// The fields of the provider's request that have the conversation.
    pub body: Value,
    /// What the request leaves out or replaces, without duplicates.
    pub notes: Vec<String>,
}

/// Writes `turns` for `target`.
pub fn render(target: RequestFormat, turns: &[Turn<'_>]) -> Outgoing {
    let names = calls::names(target, turns);
    let mut notes = Notes::default();
    let body = match target {
        RequestFormat::Anthropic => anthropic::body(turns, &names, &mut notes),
        RequestFormat::OpenAiChat => chat::body(turns, &names, &mut notes),
        RequestFormat::OpenAiResponses => responses::body(turns, &names, &mut notes),
        RequestFormat::Gemini => gemini::body(turns, &names, &mut notes),
    };
    Outgoing { body, notes: notes.0 }
}

#[derive(Default)]
struct Notes(Vec<String>);

impl Notes {
    fn add(&mut self, note: &str) {
        if !self.0.iter().any(|other| other == note) {
            self.0.push(note.to_owned());
        }
    }

    fn thinking(&mut self) {
        self.add("thinking is left out: only the provider that wrote it can read it, and only unchanged");
    }

    fn failed_result(&mut self) {
        self.add("failed tool results are not marked as failed: this format has no mark for it");
    }

    /// Returns the text that replaces an image or a document whose media type alone is known.
    fn attachment(&mut self, media: &str) -> String {
        self.add(&format!(
            "attachments of type {media} are named, not sent: recapd can't give their data in this format"
        ));
        format!("[attachment: {media}]")
    }

    /// Returns the text that replaces another provider's block. Without it, a turn of such blocks would be empty.
    fn opaque(&mut self, kind: &str) -> String {
        self.add(&format!(
            "blocks of type {kind} are named, not sent: only the provider that wrote them can read them, and only unchanged"
        ));
        format!("[block: {kind}]")
    }
}

/// Pairs each turn with the names of its calls, or of the calls that its results answer.
fn with_calls<'t, 'a>(
    turns: &'t [Turn<'a>],
    names: &'t [Vec<Names>],
) -> impl Iterator<Item = (&'t Turn<'a>, TurnCalls<'t>)> {
    turns.iter().zip(names).map(|(turn, names)| (turn, TurnCalls::new(names)))
}

/// Returns the texts of a turn, without its calls and results. Attachments are named.
fn texts(turn: &Turn<'_>, notes: &mut Notes) -> Vec<String> {
    turn.parts().filter_map(|part| text(part, notes)).collect()
}

/// Returns a part as text; `None` for a call or a result.
fn text(part: &Part, notes: &mut Notes) -> Option<String> {
    match part {
        Part::Text(text) => Some(text.clone()),
        Part::Attachment { media, .. } => Some(notes.attachment(media)),
        Part::Opaque { kind, .. } => Some(notes.opaque(kind)),
        Part::Thinking(_) => {
            notes.thinking();
            None
        }
        Part::ToolCall { .. } | Part::ToolResult { .. } => None,
    }
}

/// Returns a result's text for a format that can't mark failures. A failed result without a text would look like a success, so it gets the
/// text [`FAILED`].
fn unmarked_text<'t>(text: &'t str, is_error: bool, notes: &mut Notes) -> &'t str {
    if is_error {
        notes.failed_result();
    }
    if is_error && text.trim().is_empty() { FAILED } else { text }
}

/// Returns a call's arguments as an object, as Anthropic and Gemini require.
fn arguments_object(arguments: &str, notes: &mut Notes) -> Map<String, Value> {
    match serde_json::from_str(arguments) {
        Ok(Value::Object(object)) => object,
        _ if arguments.trim().is_empty() => Map::new(),
        other => {
            notes.add("arguments that aren't a JSON object are wrapped in one, in the field `arguments`");
            let value = other.unwrap_or_else(|_| Value::String(arguments.to_owned()));
            Map::from_iter([("arguments".to_owned(), value)])
        }
    }
}

fn instructions<'t, 'a>(turns: &'t [Turn<'a>]) -> impl Iterator<Item = &'t Turn<'a>> {
    turns.iter().filter(|turn| turn.role == Role::System)
}
