//! Exchanges as a summariser reads them: who said what, tool calls and results included, long texts cut head and
//! tail, thinking left out (provider documentation: never feed reasoning to a summariser).

use super::{
    exchange::Exchange,
    message::{Kind, Message, Part},
    text::{head_tail, one_line},
    time::Timestamp,
};

/// Who or what a line of a transcript comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voice {
    /// The user.
    User,
    /// The model.
    Assistant,
    /// A tool call: the line's `label` is the tool's name, its text the arguments.
    Call,
    /// A tool result: the line's `label` is the tool's name if known.
    Result,
    /// A tool result that reports a failure.
    FailedResult,
}

/// One line of a transcript; may hold line feeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Who.
    pub voice: Voice,
    /// The speaker's or the tool's name; empty if unknown.
    pub label: String,
    /// What.
    pub text: String,
    /// When.
    pub at: Timestamp,
}

/// One exchange for a summariser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transcript {
    /// Its number.
    pub exchange: i64,
    /// When it began.
    pub started_at: Timestamp,
    /// The user interrupted it.
    pub interrupted: bool,
    /// Its lines, in order. Instructions (kind `system`) and metadata are left out.
    pub lines: Vec<Line>,
}

#[cfg(test)]
impl Transcript {
    /// An uninterrupted exchange of voices, labels and texts, for tests.
    pub(crate) fn of_lines(exchange: i64, started_at: Timestamp, lines: &[(Voice, &str, &str)]) -> Self {
        Self {
            exchange,
            started_at,
            interrupted: false,
            lines: lines
                .iter()
                .map(|&(voice, label, text)| Line {
                    voice,
                    label: label.to_owned(),
                    text: text.to_owned(),
                    at: started_at,
                })
                .collect(),
        }
    }
}

/// How much of each text a transcript keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TranscriptLimits {
    /// Characters kept of what a user or a model says: two thirds from its head, one third from its tail.
    pub said_chars_max: usize,
    /// Characters kept of a tool call's arguments and of a tool's result, likewise.
    pub tool_chars_max: usize,
}

impl Default for TranscriptLimits {
    fn default() -> Self {
        Self {
            said_chars_max: 6_000,
            tool_chars_max: 1_200,
        }
    }
}

impl Transcript {
    /// Renders an exchange and its messages.
    pub fn new(exchange: &Exchange, messages: &[Message], limits: TranscriptLimits) -> Self {
        Self {
            exchange: exchange.exchange,
            started_at: exchange.opened_at,
            interrupted: exchange.state == super::exchange::ExchangeState::Interrupted,
            lines: messages
                .iter()
                .filter(|message| message.kind.is_conversation() && message.kind != Kind::System)
                .flat_map(|message| {
                    message
                        .parts
                        .iter()
                        .filter_map(move |part| line(message, part, limits, exchange.opened_at))
                })
                .collect(),
        }
    }

    /// The characters of all lines.
    pub fn chars(&self) -> usize {
        self.lines
            .iter()
            .map(|line| line.text.len() + line.label.len())
            .sum()
    }
}

fn line(message: &Message, part: &Part, limits: TranscriptLimits, opened_at: Timestamp) -> Option<Line> {
    let said = if message.kind == Kind::User {
        Voice::User
    } else {
        Voice::Assistant
    };
    let said = if message.kind == Kind::ToolResult {
        Voice::User
    } else {
        said
    };
    let (voice, label, text, chars_max) = match part {
        Part::Text(text) => (
            said,
            message.speaker.clone(),
            text.as_str(),
            limits.said_chars_max,
        ),
        Part::ToolCall { name, arguments, .. } => (
            Voice::Call,
            Some(name.clone()),
            arguments.as_str(),
            limits.tool_chars_max,
        ),
        Part::ToolResult {
            name, text, is_error, ..
        } => {
            let voice = if *is_error {
                Voice::FailedResult
            } else {
                Voice::Result
            };
            (voice, name.clone(), text.as_str(), limits.tool_chars_max)
        }
        Part::Attachment(media) => (
            said,
            message.speaker.clone(),
            media.as_str(),
            limits.tool_chars_max,
        ),
        Part::Thinking(_) => return None,
    };
    let text = head_tail(text.trim(), chars_max * 2 / 3, chars_max / 3);
    (!text.is_empty() || voice == Voice::Call).then(|| Line {
        voice,
        label: one_line(&label.unwrap_or_default()),
        text,
        at: message.at.unwrap_or(opened_at),
    })
}
