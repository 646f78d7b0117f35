//! Counting tokens: the seam to a tokenizer, and what a message costs.

use super::message::{Kind, Message, Part};

/// Tokens that each message costs beside its content: role and separators (OpenAI's chat format, 3 and the role).
pub const MESSAGE_OVERHEAD_TOKENS: i64 = 4;
/// Tokens that a tool call costs beside its name and arguments.
pub const TOOL_CALL_OVERHEAD_TOKENS: i64 = 3;
/// Tokens assumed for an image or a document: the cap of older Claude models (provider documentation, "Vision").
pub const ATTACHMENT_TOKENS: i64 = 1_568;

/// Counts the tokens of a text. Implementations are linear in the text's length, also on adversarial input.
pub trait TokenCounter: Send + Sync {
    /// Tokens of `text`.
    fn count(&self, text: &str) -> i64;

    /// How this counter counts, as stored beside each count: `o200k`, `o200k*claude`, `bytes/3`, and with the factor of
    /// a guard `o200k*claude×1.12`.
    fn method(&self) -> &str;

    /// Whether it counts as the provider does, so that nothing has to be learned about it.
    fn is_exact(&self) -> bool {
        false
    }

    /// `tokens` of its own without the factor of a guard: the estimate that calibration learns about.
    fn plain(&self, tokens: i64) -> i64 {
        tokens
    }
}

/// Tokens of a message, by its content and not by its wire bytes: ids, timestamps and braces that no model sees
/// are free, and so is metadata.
pub fn count_message(counter: &dyn TokenCounter, message: &Message) -> i64 {
    if let Kind::Metadata(_) = message.kind {
        return 0;
    }
    message
        .parts
        .iter()
        .map(|part| count_part(counter, part))
        .sum::<i64>()
        + MESSAGE_OVERHEAD_TOKENS
}

/// Tokens of one piece of a message's content.
pub fn count_part(counter: &dyn TokenCounter, part: &Part) -> i64 {
    match part {
        Part::Text(text) | Part::Thinking(text) | Part::ToolResult { text, .. } => counter.count(text),
        Part::ToolCall { name, arguments, .. } => {
            counter.count(name) + counter.count(arguments) + TOOL_CALL_OVERHEAD_TOKENS
        }
        Part::Attachment(_) => ATTACHMENT_TOKENS,
    }
}
