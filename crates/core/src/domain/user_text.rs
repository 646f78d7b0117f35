//! Finds the user's own words in messages to which programs add text. Coding agents send texts of their own to the model under the user's
//! name. A user's answer to a tool, or reason for refusing it, comes back as the tool's result.
//!
//! What remains of a message without the programs' parts is the request. It opens an exchange; titles, digests and summaries quote it.
//! The message itself stays unchanged. The request depends only on the message, so it is the same wherever it is read.

mod host;
mod results;
mod table;
mod tags;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use super::message::{Author, Format, Kind, Message, Part};
pub use results::{UserAnswer, answers_of_asking_tool, asks_user, has_user_words, refusal};

/// The user's own words in the texts of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnWords<'a> {
    /// The user's words in each text, in order; blank if a program wrote it.
    pub texts: Vec<Cow<'a, str>>,
    /// True for a request, which opens an exchange: the message is the user's, and not all of it is a program's.
    pub is_request: bool,
}

impl<'a> OwnWords<'a> {
    /// Reads the user's words in `message`. Messages of other kinds keep their texts and are no request.
    pub fn of(message: &'a Message) -> Self {
        let texts = texts(&message.parts);
        if !matches!(message.kind, Kind::User | Kind::ToolResult) {
            return Self { texts: texts.into_iter().map(Cow::Borrowed).collect(), is_request: false };
        }
        let mut remaining = without_programs(&message.parts, message.format);
        let is_blank = remaining.texts.iter().all(|text| text.trim().is_empty());
        let is_request = match message.author {
            Some(Author::User) if is_blank => {
                remaining.texts = texts.into_iter().map(Cow::Borrowed).collect();
                true
            }
            Some(Author::User | Author::Agent) => true,
            Some(Author::Program) => {
                remaining.texts.fill(Cow::Borrowed(""));
                false
            }
            None => !remaining.is_blank,
        };
        Self { texts: remaining.texts, is_request: is_request && message.kind == Kind::User }
    }

    /// Returns all texts that aren't blank, joined by line feeds.
    pub fn text(&self) -> String {
        let texts = self.texts.iter().filter(|text| !text.trim().is_empty());
        texts.map(AsRef::as_ref).collect::<Vec<&str>>().join("\n")
    }
}

/// Returns true if a user's message in that format has only text that a program wrote.
pub fn are_programs(parts: &[Part], format: Format) -> bool {
    without_programs(parts, format).is_blank
}

struct RemainingMessage<'a> {
    texts: Vec<Cow<'a, str>>,
    /// True if a program's text was removed and nothing remains.
    is_blank: bool,
}

fn without_programs(parts: &[Part], format: Format) -> RemainingMessage<'_> {
    let texts = texts(parts);
    let mut remaining: Vec<Cow<'_, str>> = texts.iter().copied().map(Cow::Borrowed).collect();
    // If the message is a program's reply to the model, its images are the program's, too.
    let mut is_reply = false;
    for host in table::hosts(format) {
        let rest = host.remove_own(&remaining);
        remaining = rest.texts;
        is_reply |= rest.is_reply;
    }
    let is_unchanged = remaining.iter().zip(&texts).all(|(remaining, text)| remaining == text);
    let is_silent = remaining.iter().all(|text| text.trim().is_empty());
    let has_more = !is_reply && parts.iter().any(|part| !matches!(part, Part::Text(_) | Part::Thinking(_)));
    RemainingMessage { texts: remaining, is_blank: !is_unchanged && is_silent && !has_more }
}

fn texts(parts: &[Part]) -> Vec<&str> {
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}
