//! A message as recapd stores it: the client's bytes verbatim, and the properties that the rules need.
//!
//! Invariant: a message is immutable. `payload` is the client's. `formats` reads all other fields from it and can read them again.

use serde::{Deserialize, Serialize};

use super::{attachment::Extent, outcome, thought::Thought, time::Timestamp};

/// The kind of a message, by what it does to windows and exchanges (seed 001, "Message Kinds").
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Instructions. Leading ones are the preamble; later ones stay in place.
    System,
    /// The user's words, without tool results. Opens an exchange.
    User,
    /// The model's words, without a tool call: a final answer that completes the exchange.
    Assistant,
    /// One or more tool calls of the model, perhaps with text.
    ToolCall,
    /// Results of tool calls, whatever role the provider gives them (Anthropic: `user`).
    ToolResult,
    /// Never sent to a model, and without tokens. Belongs to the exchange in which it stands.
    Metadata(Metadata),
}

/// Who speaks in a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Instructions.
    System,
    /// The user's words, without tool results.
    User,
    /// The model's words or tool calls.
    Assistant,
    /// The results of the calls in the turn before, perhaps followed by words of the user.
    Tool,
}

/// Kinds that are never sent to a model (seed 001, and later ones of ikigai).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Metadata {
    /// The context was wiped.
    Clear,
    /// A checkpoint, perhaps with a name.
    Mark,
    /// A return to a checkpoint.
    Rewind,
    /// The agent was ended.
    AgentKilled,
    /// A slash command.
    Command,
    /// A child agent was forked.
    Fork,
    /// Token usage reported by a provider.
    Usage,
    /// The turn was interrupted.
    Interrupted,
    /// The turn was ended explicitly.
    TurnEnd,
    /// Keeps a message in view.
    Pin,
    /// Undoes a pin.
    Unpin,
    /// Writes a note.
    Note,
    /// An unknown kind, stored under its own name.
    Other(String),
}

impl Kind {
    /// Returns the stored name, which the native format uses as well.
    pub fn name(&self) -> &str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::ToolCall => "tool_call",
            Self::ToolResult => "tool_result",
            Self::Metadata(metadata) => metadata.name(),
        }
    }

    /// Parses a kind's name. An unknown name is metadata (seed 001: not sent).
    pub fn from_name(name: &str) -> Self {
        match name {
            "system" => Self::System,
            "user" => Self::User,
            "assistant" => Self::Assistant,
            "tool_call" => Self::ToolCall,
            "tool_result" | "tool" => Self::ToolResult,
            other => Self::Metadata(Metadata::from_name(other)),
        }
    }

    /// Returns true if messages of this kind are sent to a model.
    pub fn is_conversation(&self) -> bool {
        !matches!(self, Self::Metadata(_))
    }
}

impl Metadata {
    /// The name of an error of the model's provider, which a host wrote in the model's place.
    pub const API_ERROR: &str = "api_error";

    fn name(&self) -> &str {
        match self {
            Self::Clear => "clear",
            Self::Mark => "mark",
            Self::Rewind => "rewind",
            Self::AgentKilled => "agent_killed",
            Self::Command => "command",
            Self::Fork => "fork",
            Self::Usage => "usage",
            Self::Interrupted => "interrupted",
            Self::TurnEnd => "turn_end",
            Self::Pin => "pin",
            Self::Unpin => "unpin",
            Self::Note => "note",
            Self::Other(name) => name,
        }
    }

    fn from_name(name: &str) -> Self {
        match name {
            "clear" => Self::Clear,
            "mark" => Self::Mark,
            "rewind" => Self::Rewind,
            "agent_killed" => Self::AgentKilled,
            "command" => Self::Command,
            "fork" => Self::Fork,
            "usage" => Self::Usage,
            "interrupted" => Self::Interrupted,
            "turn_end" => Self::TurnEnd,
            "pin" => Self::Pin,
            "unpin" => Self::Unpin,
            "note" => Self::Note,
            other => Self::Other(other.to_owned()),
        }
    }
}

/// A part of a message's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Plain text.
    Text(String),
    /// A call of a tool.
    ToolCall {
        /// The provider's id of the call. It isn't unique in real data, so never use it as a key.
        id: Option<String>,
        /// The tool's name.
        name: String,
        /// The arguments, as JSON if the client or the model gave JSON.
        arguments: String,
    },
    /// The result of a tool call.
    ToolResult {
        /// The id of the call that it answers, if given.
        call_id: Option<String>,
        /// The tool's name, if given.
        name: Option<String>,
        /// The tool's output as text.
        text: String,
        /// True if the client reports a failure.
        is_error: bool,
    },
    /// The model's reasoning. It is stored, but no summariser sees it.
    Thinking(Thought),
    /// An image or a document.
    Attachment {
        /// The media type.
        media: String,
        /// The size in pixels or pages, if known.
        extent: Extent,
    },
    /// A block that only its provider can read, such as the result of a search on the provider's side. Its length decides its tokens. It
    /// goes back to that provider unchanged; other providers see only its name.
    Opaque {
        /// The provider's name of its type.
        kind: String,
        /// The block, as compact JSON.
        json: String,
    },
}

impl Part {
    /// Returns true for a result that is a failure, by the client's word or by its text.
    pub fn is_failed(&self) -> bool {
        matches!(self, Self::ToolResult { text, is_error, .. } if *is_error || outcome::is_failure(text))
    }

    /// Returns the provider's id that links a call with its result.
    pub fn call_id(&self) -> Option<&str> {
        match self {
            Self::ToolCall { id, .. } => id.as_deref(),
            Self::ToolResult { call_id, .. } => call_id.as_deref(),
            Self::Text(_) | Self::Thinking(_) | Self::Attachment { .. } | Self::Opaque { .. } => None,
        }
    }
}

/// The format of a message's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// `{"kind": …, "content": …}` (seed 001's kinds).
    Native,
    /// Messages of OpenAI's Chat Completions API.
    #[serde(rename = "openai")]
    OpenAiChat,
    /// Items of OpenAI's Responses API.
    #[serde(rename = "openai-responses")]
    OpenAiResponses,
    /// Messages of Anthropic's API.
    Anthropic,
    /// Contents of Gemini's API.
    Gemini,
    /// Lines of a Claude Code transcript.
    ClaudeCode,
    /// Lines of a Codex rollout.
    Codex,
    /// Events of a Pidgin conversation.
    Pidgin,
    /// Blocks of an aider chat history. The file is Markdown; recapd writes its messages as native ones.
    Aider,
}

impl Format {
    /// All formats, in the order in which people see them. This is the only list of all formats.
    pub const ALL: [Self; 9] = [
        Self::Native,
        Self::OpenAiChat,
        Self::OpenAiResponses,
        Self::Anthropic,
        Self::Gemini,
        Self::ClaudeCode,
        Self::Codex,
        Self::Pidgin,
        Self::Aider,
    ];

    /// Returns the name used on the command line, in HTTP queries and in the database.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::OpenAiChat => "openai",
            Self::OpenAiResponses => "openai-responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Pidgin => "pidgin",
            Self::Aider => "aider",
        }
    }

    /// Writes the names of all formats for people: `a, b or c`.
    pub fn names() -> String {
        let names = Self::ALL.map(Self::name);
        match names.split_last() {
            Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
            None => String::new(),
        }
    }

    /// Parses a format's name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }
}

/// Who wrote a message with the user's role, according to its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Author {
    /// The user.
    User,
    /// Another agent or person: a request, but not in the user's words.
    Agent,
    /// A program, such as one that reports the end of a task. The message is no request.
    Program,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The kind.
    pub kind: Kind,
    /// The speaker's name, in a conversation of several.
    pub speaker: Option<String>,
    /// The content in order.
    pub parts: Vec<Part>,
    /// The client's id. A second message of the same agent with this id is a duplicate.
    pub client_id: Option<String>,
    /// The provider's id of the model's answer that the message belongs to, if the format has one.
    pub response_id: Option<String>,
    /// When the message was written, if the client gives the time.
    pub at: Option<Timestamp>,
    /// True if it interrupts the open exchange. It then opens no exchange, even if it is a user's message.
    pub interrupts: bool,
    /// True if a copy stays in view for the rest of the session after its exchange has left the window (lecture 7.2).
    pub important: bool,
    /// The author, if the host names one. Otherwise the text decides ([`super::user_text`]).
    pub author: Option<Author>,
    /// The format of `payload`.
    pub format: Format,
    /// The client's data: one JSON value, verbatim.
    pub payload: String,
}

const TOMBSTONE: &str = r#"{"forgotten":true,"#;

/// Returns the payload that replaces a forgotten message of this kind: a native message without content.
pub fn tombstone(kind: &Kind) -> String {
    format!("{TOMBSTONE}\"kind\":{}}}", serde_json::json!(kind.name()))
}

/// Returns the payload that replaces a forgotten mark or rewind. `label` replaces the forgotten label.
pub fn step_tombstone(kind: &Kind, label: &str) -> String {
    let (kind, data) = (serde_json::json!(kind.name()), serde_json::json!({ "label": label }));
    format!("{TOMBSTONE}\"kind\":{kind},\"data\":{data}}}")
}

/// Returns true if `payload` is a tombstone.
pub fn is_tombstone(payload: &str) -> bool {
    payload.starts_with(TOMBSTONE)
}

impl Message {
    /// Makes a native message without a payload.
    pub fn new(kind: Kind, parts: Vec<Part>) -> Self {
        Self {
            kind,
            speaker: None,
            parts,
            client_id: None,
            response_id: None,
            at: None,
            interrupts: false,
            important: false,
            author: None,
            format: Format::Native,
            payload: String::new(),
        }
    }

    /// Returns true if the message was forgotten: only its number, kind and time are left.
    pub fn is_forgotten(&self) -> bool {
        is_tombstone(&self.payload)
    }

    /// Returns the text parts, joined by line feeds.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self
            .parts
            .iter()
            .filter_map(|part| if let Part::Text(text) = part { Some(text.as_str()) } else { None })
            .collect();
        texts.join("\n")
    }

    /// Returns the names of the called tools, in order.
    pub fn tool_names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| {
            if let Part::ToolCall { name, .. } = part { Some(name.as_str()) } else { None }
        })
    }
}
