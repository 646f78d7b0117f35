//! Pidgin's limits, its estimate and its truncation (seed 002, "Context Truncation"), but never within an exchange: what
//! is cut away ends before something said to the speaker, so that no answer and no result of a tool loses its question.

use super::{Part, Role, SeenMessage};

/// The most tokens that a provider is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProviderLimit {
    /// Whose.
    pub provider: &'static str,
    /// Tokens of its models' context.
    pub context_tokens: i64,
    /// Tokens that are used of it.
    pub limit_tokens: i64,
}

/// Limits by provider; what is missing between limit and context is the margin for a wrong estimate and the answer.
#[rustfmt::skip]
pub const PIDGIN_LIMITS: [ProviderLimit; 5] = [
    ProviderLimit { provider: "anthropic", context_tokens: 200_000, limit_tokens: 160_000 },
    ProviderLimit { provider: "openai", context_tokens: 128_000, limit_tokens: 100_000 },
    ProviderLimit { provider: "google", context_tokens: 1_000_000, limit_tokens: 800_000 },
    ProviderLimit { provider: "xai", context_tokens: 128_000, limit_tokens: 100_000 },
    ProviderLimit { provider: "local", context_tokens: 4_096, limit_tokens: 4_000 },
];
/// The limit for a provider that isn't listed.
const UNKNOWN_LIMIT_TOKENS: i64 = 8_000;
/// Characters that a message costs beside its content.
const MESSAGE_CHARS: i64 = 20;
/// Seven characters are two tokens.
const CHARS_PER_TWO_TOKENS: i64 = 7;

impl ProviderLimit {
    /// The share of the context that is used.
    #[expect(clippy::cast_precision_loss, reason = "contexts are far below 2^52 tokens")]
    pub fn safety_factor(&self) -> f64 {
        self.limit_tokens as f64 / self.context_tokens as f64
    }
}

/// The limit of a provider, in tokens.
pub fn limit_of(provider: &str) -> i64 {
    let known = PIDGIN_LIMITS.iter().find(|limit| limit.provider == provider);
    known.map_or(UNKNOWN_LIMIT_TOKENS, |limit| limit.limit_tokens)
}

/// What is left of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Truncated {
    /// All instructions, and the newest exchanges, in order.
    pub kept: Vec<SeenMessage>,
    /// How many messages were left out.
    pub dropped: usize,
    /// The estimate of what is kept, in tokens.
    pub tokens: i64,
    /// It is below the limit; else the last exchange alone, with the instructions, is too long.
    pub fits: bool,
}

/// The estimate of messages, in tokens: 3.5 characters each, and 20 characters more per message.
pub fn tokens(messages: &[SeenMessage]) -> i64 {
    tokens_of(messages.iter().map(chars).sum())
}

/// The newest exchanges that are below `limit_tokens` together with all instructions; at least the last one.
pub fn truncate(messages: &[SeenMessage], limit_tokens: i64) -> Truncated {
    let is_pinned = |message: &SeenMessage| message.role == Role::System;
    let pinned: i64 = messages
        .iter()
        .filter(|message| is_pinned(message))
        .map(chars)
        .sum();
    // Where an exchange begins, with the characters from there to the end, which fall.
    let mut behind: i64 = messages.iter().map(chars).sum::<i64>() - pinned;
    let mut starts = Vec::new();
    for (place, message) in messages
        .iter()
        .enumerate()
        .filter(|(_, message)| !is_pinned(message))
    {
        if message.role == Role::User || starts.is_empty() {
            starts.push((place, behind));
        }
        behind -= chars(message);
    }
    let fitting = starts.partition_point(|(_, behind)| tokens_of(pinned + behind) >= limit_tokens);
    let start = starts
        .get(fitting)
        .or(starts.last())
        .map_or(0, |(place, _)| *place);
    let keep = |(place, message): &(usize, &SeenMessage)| *place >= start || is_pinned(message);
    let kept: Vec<SeenMessage> = messages
        .iter()
        .enumerate()
        .filter(keep)
        .map(|(_, message)| message.clone())
        .collect();
    let tokens = tokens(&kept);
    Truncated {
        dropped: messages.len() - kept.len(),
        fits: tokens < limit_tokens,
        tokens,
        kept,
    }
}

fn tokens_of(chars: i64) -> i64 {
    chars * 2 / CHARS_PER_TWO_TOKENS
}

fn chars(message: &SeenMessage) -> i64 {
    let content: usize = message.parts.iter().map(part_chars).sum();
    i64::try_from(content).unwrap_or(i64::MAX - MESSAGE_CHARS) + MESSAGE_CHARS
}

fn part_chars(part: &Part) -> usize {
    let count = |text: &str| text.chars().count();
    match part {
        Part::Text(text) | Part::Thinking(text) | Part::Attachment(text) | Part::ToolResult { text, .. } => {
            count(text)
        }
        Part::ToolCall { name, arguments, .. } => count(name) + count(arguments),
    }
}
