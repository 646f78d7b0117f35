//! Messages: whose they are, who counts them, why one is refused, how alike their speakers sound.

use recapd_core::domain::message::Kind;

labels! {
    /// Whose message it is.
    Role {
        /// Instructions.
        System = "system",
        User = "user",
        /// The model.
        Assistant = "assistant",
        /// The model, calling tools.
        ToolCall = "tool_call",
        ToolResult = "tool_result",
        /// Nobody's: metadata.
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
    /// Whose tokenizer counts, as far as it matters to how well.
    CountProvider {
        OpenAi = "openai",
        Anthropic = "anthropic",
        Google = "google",
        /// A server of one's own.
        Local = "local",
        Other = "other",
    }
}

impl CountProvider {
    /// The provider of that name.
    pub fn of(provider: &str) -> Self {
        match provider {
            "gemini" => Self::Google,
            "ollama" | "llama.cpp" | "vllm" => Self::Local,
            name => Self::from_name(name).unwrap_or(Self::Other),
        }
    }
}

labels! {
    /// Why a message that was inserted by SQL was refused.
    InboxRefusal {
        /// The agent's id is none.
        Agent = "agent",
        /// It can't be read.
        Message = "message",
        /// Its client id was used for another one.
        ClientId = "client_id",
        /// It alone is too big for the window, and the agent wants that refused.
        Overflow = "overflow",
        /// It pins more than fits.
        Pins = "pins",
        /// The database refuses it.
        Database = "database",
        /// Reading it or counting it panics.
        Defect = "defect",
    }
}

labels! {
    /// What the likeness of two speakers has begun to call for.
    Convergence {
        /// Somebody should know.
        Warn = "warn",
        /// The conversation should end.
        Stop = "stop",
    }
}
