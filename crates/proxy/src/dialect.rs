//! The providers' APIs that the proxy knows.

use recapd_core::domain::message::Format;

/// The API that a request is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Anthropic,
    OpenAiChat,
    OpenAiResponses,
    Gemini,
}

impl Dialect {
    /// Returns the format of the dialect's messages.
    pub(crate) fn format(self) -> Format {
        match self {
            Self::Anthropic => Format::Anthropic,
            Self::OpenAiChat => Format::OpenAiChat,
            Self::OpenAiResponses => Format::OpenAiResponses,
            Self::Gemini => Format::Gemini,
        }
    }

    /// Returns the transcript format of the host that writes this dialect, if the proxy knows the host.
    pub(crate) fn host(self, client: &str) -> Option<Format> {
        match (self, client) {
            (Self::Anthropic, "claude-code") => Some(Format::ClaudeCode),
            (Self::OpenAiResponses, "codex") => Some(Format::Codex),
            _ => None,
        }
    }

    /// Returns the field of a request that holds the conversation.
    pub(crate) fn list(self) -> &'static str {
        match self {
            Self::Anthropic | Self::OpenAiChat => "messages",
            Self::OpenAiResponses => "input",
            Self::Gemini => "contents",
        }
    }
}

/// What a request asks the provider for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndpointKind {
    /// The model's next answer in a conversation.
    Conversation(Dialect),
    /// How many tokens a conversation has.
    Count(Dialect),
    /// A compaction of the conversation (OpenAI's `/v1/responses/compact`).
    Compaction,
    /// Anything else. It is forwarded unread.
    Other,
}
