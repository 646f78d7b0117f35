//! Shows exchanges in full, in as few answers as the host's limit allows.
//!
//! Invariant: a reader who follows the hints of the answers gets each character of each message once. No answer exceeds
//! its limit.

use std::{fmt, str::FromStr};

use super::source::{Source, SourceError};
use crate::recall::{ExpandQuery, ExpandReply, INDENT, MessageLabels, ShownMessage, content, expanded_head};
use recapd_core::domain::agent::AgentId;
use recapd_store::MessageScope;

/// Reserves this many bytes of an answer for hints, in addition to the numbers that they name.
const HINTS_BYTES: usize = 120;
/// A piece of a message needs at least this much room: for its label and some words.
const PIECE_BYTES_MIN: usize = 200;

/// The position where the first exchange of an answer begins: after a message, and this many characters into the next
/// one. Written as `1240` or `1240+3000`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReadPosition {
    pub(super) after_seq: i64,
    pub(super) chars: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InvalidPosition;

impl FromStr for ReadPosition {
    type Err = InvalidPosition;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (seq, chars) = text.trim().split_once('+').unwrap_or((text.trim(), "0"));
        let after_seq = seq.parse().ok().filter(|seq| *seq >= 0);
        Ok(Self {
            after_seq: after_seq.ok_or(InvalidPosition)?,
            chars: chars.parse().map_err(|_| InvalidPosition)?,
        })
    }
}

impl fmt::Display for ReadPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.chars {
            0 => write!(f, "{}", self.after_seq),
            chars => write!(f, "{}+{chars}", self.after_seq),
        }
    }
}

/// The agent and the exchanges that a call asks for.
pub(super) struct ExpandRequest<'a> {
    pub(super) agent: &'a AgentId,
    pub(super) exchanges: &'a [i64],
    pub(super) from: ReadPosition,
}

/// Writes the exchanges from `request.from` on, as much as fits into `bytes_max` bytes. If something is left, adds a
/// hint that says how to get it.
///
/// # Errors
/// The errors of `source`. [`SourceError::UnknownExchange`] only if the agent has none of the exchanges.
pub(super) async fn answer(
    source: &dyn Source,
    request: &ExpandRequest<'_>,
    bytes_max: usize,
) -> Result<String, SourceError> {
    let hints = 2 * numbers(request.exchanges).len() + request.agent.as_str().len() + HINTS_BYTES;
    let mut page = ExpandAnswer::new(bytes_max.saturating_sub(hints));
    let mut unknown = Vec::new();
    let mut from = request.from;
    let mut remaining = request.exchanges;
    let mut more = String::new();
    while let Some((&exchange, later)) = remaining.split_first() {
        match page.add(source, request.agent, exchange, from).await {
            Ok(None) => {}
            Ok(Some(next)) => {
                more = format!("(more follows: expand \"{}\"{})\n", numbers(remaining), after_hint(next));
                break;
            }
            Err(SourceError::UnknownExchange { .. }) => unknown.push(exchange),
            Err(error) => return Err(error),
        }
        (from, remaining) = (ReadPosition::default(), later);
    }
    if let ("", Some(&exchange)) = (page.text.as_str(), unknown.first()) {
        let agent = request.agent.clone();
        return Err(SourceError::UnknownExchange { agent, exchange });
    }
    if !unknown.is_empty() {
        more = format!("({} has no {})\n{more}", request.agent, numbers(&unknown));
    }
    Ok(page.text + &more)
}

fn after_hint(next: ReadPosition) -> String {
    if next == ReadPosition::default() {
        return String::new();
    }
    format!(" after \"{next}\"")
}

/// Formats numbers as `#3–#5, #9`.
pub(super) fn numbers(numbers: &[i64]) -> String {
    let runs = numbers.chunk_by(|one, next| one + 1 == *next);
    let runs: Vec<String> = runs
        .map(|run| match run {
            [first, .., last] => format!("#{first}–#{last}"),
            one => format!("#{}", one.first().copied().unwrap_or_default()),
        })
        .collect();
    runs.join(", ")
}

/// An answer, as far as it is written.
struct ExpandAnswer {
    text: String,
    bytes_max: usize,
}

impl ExpandAnswer {
    fn new(bytes_max: usize) -> Self {
        Self { text: String::new(), bytes_max }
    }

    fn room(&self) -> usize {
        self.bytes_max.saturating_sub(self.text.len())
    }

    /// Adds an exchange from position `from` on. Returns where to continue if it doesn't fit.
    async fn add(
        &mut self,
        source: &dyn Source,
        agent: &AgentId,
        exchange: i64,
        mut from: ReadPosition,
    ) -> Result<Option<ReadPosition>, SourceError> {
        let mut labels = MessageLabels::default();
        let mut is_begun = false;
        loop {
            let query = ExpandQuery {
                after_seq: from.after_seq,
                scope: MessageScope::Conversation,
                ..ExpandQuery::default()
            };
            let part = source.expand(agent, exchange, query).await?;
            if !is_begun && !self.begin(&part) {
                return Ok(Some(from));
            }
            is_begun = true;
            for message in &part.messages {
                if let Some(chars) = self.add_message(message, &mut labels, from.chars) {
                    return Ok(Some(ReadPosition { chars, ..from }));
                }
                from = ReadPosition { after_seq: message.seq, chars: 0 };
            }
            if part.next_after.is_none() {
                return Ok(None);
            }
        }
    }

    /// Begins an exchange. Returns false if the answer already holds another exchange and has no room for this one.
    fn begin(&mut self, part: &ExpandReply) -> bool {
        let head = expanded_head(part);
        if !self.text.is_empty() && self.room() < head.len() + PIECE_BYTES_MIN {
            return false;
        }
        self.text.push_str(&head);
        true
    }

    /// Adds a message from its character `from` on. Returns the first character that doesn't fit.
    fn add_message(
        &mut self,
        message: &ShownMessage,
        labels: &mut MessageLabels,
        from: usize,
    ) -> Option<usize> {
        if self.room() < PIECE_BYTES_MIN {
            return Some(from);
        }
        let continued = if from > 0 { " continued" } else { "" };
        self.text.extend([&labels.next(message), continued, ": "]);
        for (index, c) in content(message).chars().enumerate().skip(from) {
            if self.room() < c.len_utf8() + INDENT.len() + 1 {
                self.text.push('\n');
                return Some(index);
            }
            self.text.push(c);
            if c == '\n' {
                self.text.push_str(INDENT);
            }
        }
        self.text.push('\n');
        None
    }
}

#[cfg(test)]
mod tests;
