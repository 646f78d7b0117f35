//! Messages: roles, counters, reasons of refusal, similarity of speakers.

use recapd_core::domain::message::Kind;

labels! {
    Role as "role" {
        System = "system",
        User = "user",
        Assistant = "assistant",
        ToolCall = "tool_call",
        ToolResult = "tool_result",
        Metadata = "metadata",
    }
}

impl From<&Kind> for Role {
    fn from(kind: &Kind) -> Self {
        match kind {
            Kind::System => Self::System,
            Kind::User => Self::User,
            Kind::Assistant => Self::Assistant,
            Kind::ToolCall => Self::ToolCall,
            Kind::ToolResult => Self::ToolResult,
            Kind::Metadata(_) => Self::Metadata,
        }
    }
}

labels! {
    /// The provider whose tokenizer counts, as far as the provider affects the accuracy.
    CountProvider as "provider" {
        OpenAi = "openai",
        Anthropic = "anthropic",
        Google = "google",
        /// The user's own server.
        Local = "local",
        Other = "other",
    }
}

impl CountProvider {
    pub fn of(provider: &str) -> Self {
        match provider {
            "gemini" => Self::Google,
            "ollama" | "llama.cpp" | "vllm" => Self::Local,
            name => Self::from_name(name).unwrap_or(Self::Other),
        }
    }
}

labels! {
    /// The reason why a message inserted by SQL was refused.
    InboxRefusal as "reason" {
        /// The agent's id is invalid.
        Agent = "agent",
        /// The message can't be read.
        Message = "message",
        /// The message's client id belongs to another message.
        ClientId = "client_id",
        /// The message alone exceeds the window, and the agent's settings refuse that.
        Overflow = "overflow",
        /// The message pins more than the limit allows.
        Pins = "pins",
        /// The message writes a note that has another version by now, or one note too many.
        Notes = "notes",
        Database = "database",
        /// Reading or counting the message panicked.
        Defect = "defect",
    }
}

labels! {
    /// A threshold that the similarity of two speakers has crossed.
    Convergence as "state" {
        Warn = "warn",
        /// The conversation should end.
        Stop = "stop",
    }
}
