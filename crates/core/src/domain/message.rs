//! A message as recapd keeps it: the client's bytes verbatim, and what the rules need to know about them.
//!
//! Invariant: a message is immutable. `payload` is what came in; everything else is read from it by `formats` and
//! can be read again.

use serde::{Deserialize, Serialize};

use super::{attachment::Extent, outcome, thought::Thought, time::Timestamp};

/// The kind of a message, as far as windows and exchanges care (seed 001, "Message Kinds").
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Instructions. Leading ones are the preamble; later ones stay where they are.
    System,
    /// The user's words, without tool results: opens an exchange.
    User,
    /// The model's words, without a tool call: a final answer, completes the exchange.
    Assistant,
    /// The model calls one or more tools; may carry text too.
    ToolCall,
    /// Results of tool calls, whatever role the provider gives them (Anthropic: `user`).
    ToolResult,
    /// Never sent to a model and free of cost; belongs to the exchange it stands in.
    Metadata(Metadata),
}

/// Kinds that are never sent to a model (seed 001, and the ones ikigai added later).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Metadata {
    /// The context was wiped.
    Clear,
    /// A named checkpoint.
    Mark,
    /// Navigation back to a checkpoint.
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
    /// The turn is over, said explicitly.
    TurnEnd,
    /// A message is to stay in view.
    Pin,
    /// A pin is taken back.
    Unpin,
    /// Anything recapd doesn't know; kept under its own name.
    Other(String),
}

impl Kind {
    /// The name under which the kind is stored and read in the native format.
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

    /// The kind of that name. An unknown name is metadata (seed 001: not sent).
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

    /// Whether messages of this kind are sent to a model.
    pub fn is_conversation(&self) -> bool {
        !matches!(self, Self::Metadata(_))
    }
}

impl Metadata {
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
            other => Self::Other(other.to_owned()),
        }
    }
}

/// One piece of a message's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Text.
    Text(String),
    /// A call of a tool. `arguments` is JSON text, or whatever the model wrote.
    ToolCall {
        /// The provider's id of the call. Repeats in real data: never a key.
        id: Option<String>,
        /// The tool's name.
        name: String,
        /// Its arguments, as JSON text where the client gave JSON.
        arguments: String,
    },
    /// The result of a tool call.
    ToolResult {
        /// The id of the call it answers, if the client said so.
        call_id: Option<String>,
        /// The tool's name, if the client said so.
        name: Option<String>,
        /// What the tool returned, as text.
        text: String,
        /// Whether the tool reported a failure.
        is_error: bool,
    },
    /// The model's reasoning. Kept, but never shown to a summariser.
    Thinking(Thought),
    /// An image or a document.
    Attachment {
        /// Its media type.
        media: String,
        /// How large it is.
        extent: Extent,
    },
    /// A block that only its provider reads, such as the result of a search that ran on its side. It costs what it is
    /// long, goes back to that provider as it came, and is only named to others.
    Opaque {
        /// Its type, as its provider calls it.
        kind: String,
        /// The block, as compact JSON.
        json: String,
    },
}

impl Part {
    /// Whether it is a result that reports a failure: the client says so, or the result does.
    pub fn is_failed(&self) -> bool {
        matches!(self, Self::ToolResult { text, is_error, .. } if *is_error || outcome::is_failure(text))
    }

    /// The provider's id that ties a call and its result together.
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
    /// OpenAI chat completions messages.
    #[serde(rename = "openai")]
    OpenAiChat,
    /// Items of OpenAI's Responses API.
    #[serde(rename = "openai-responses")]
    OpenAiResponses,
    /// Anthropic messages.
    Anthropic,
    /// Gemini contents.
    Gemini,
    /// Lines of a Claude Code transcript.
    ClaudeCode,
    /// Lines of a Codex rollout.
    Codex,
    /// Events of a Pidgin conversation.
    Pidgin,
    /// Blocks of an aider chat history: the file is Markdown, its messages are written as native ones.
    Aider,
}

impl Format {
    /// All formats, in the order in which they are listed to people. This is the one place that knows them all.
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

    /// The name used on the command line, in HTTP queries and in the database.
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

    /// The names of all formats, for people: `a, b or c`.
    pub fn names() -> String {
        let names = Self::ALL.map(Self::name);
        match names.split_last() {
            Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
            None => String::new(),
        }
    }

    /// The format of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }
}

/// Who wrote a message of the user's role, as its host says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Author {
    /// The user.
    User,
    /// Another agent or person: it asks for something, though not in the user's words.
    Agent,
    /// A program, such as one that tells of a task that has ended: it asks for nothing.
    Program,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its kind.
    pub kind: Kind,
    /// The speaker's name, in a shared conversation.
    pub speaker: Option<String>,
    /// Its content, in order.
    pub parts: Vec<Part>,
    /// The client's own id: a second message of the same agent with it is a duplicate.
    pub client_id: Option<String>,
    /// The provider's id of the model's answer of which it is a part, where its format tells.
    pub response_id: Option<String>,
    /// When it was said, if the client said so.
    pub at: Option<Timestamp>,
    /// Whether it ends the open exchange as interrupted; then it opens none, even if it is the user's.
    pub interrupts: bool,
    /// Whether it stays in view for its session, as a copy, when its exchange has left the window (lecture 7.2).
    pub important: bool,
    /// Who wrote it, where its host says so; otherwise its words tell ([`super::user_text`]).
    pub author: Option<Author>,
    /// The format of `payload`.
    pub format: Format,
    /// What the client sent: one JSON value, verbatim.
    pub payload: String,
}

/// The beginning of every tombstone's payload.
const TOMBSTONE: &str = r#"{"forgotten":true,"#;

/// The payload that replaces that of a forgotten message of that kind: a native message without content.
pub fn tombstone(kind: &Kind) -> String {
    format!("{TOMBSTONE}\"kind\":{}}}", serde_json::json!(kind.name()))
}

/// The payload that replaces that of a forgotten mark or rewind, with another label in place of its own.
pub fn step_tombstone(kind: &Kind, label: &str) -> String {
    let (kind, data) = (
        serde_json::json!(kind.name()),
        serde_json::json!({ "label": label }),
    );
    format!("{TOMBSTONE}\"kind\":{kind},\"data\":{data}}}")
}

/// Whether a payload is that of a forgotten message.
pub fn is_tombstone(payload: &str) -> bool {
    payload.starts_with(TOMBSTONE)
}

impl Message {
    /// A native message of that kind and content. Nothing else is known of it, and it has no payload yet.
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

    /// Whether it was forgotten, so that only its number, kind and time are left.
    pub fn is_forgotten(&self) -> bool {
        is_tombstone(&self.payload)
    }

    /// The message's text parts, joined by a line feed.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self
            .parts
            .iter()
            .filter_map(|part| {
                if let Part::Text(text) = part {
                    Some(text.as_str())
                } else {
                    None
                }
            })
            .collect();
        texts.join("\n")
    }

    /// The names of the tools it calls, in order.
    pub fn tool_names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| {
            if let Part::ToolCall { name, .. } = part {
                Some(name.as_str())
            } else {
                None
            }
        })
    }
}
