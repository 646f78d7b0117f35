//! The user's own words, in messages that programs write in, too. Coding agents send their own texts to the model under the user's name;
//! and the user's answer to a tool, or reason for refusing one, comes back as the tool's result.
//!
//! Without the programs' parts, the rest of a message is the request: it opens an exchange, and titles, digests and summaries quote it.
//! The message itself stays unchanged. The request depends only on the message, so it is the same wherever it is read.

mod host;
mod results;
mod table;
mod tags;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use super::message::{Author, Format, Kind, Message, Part};
pub use results::{answers, are_in, refusal};

/// The user's own words in the texts of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnWords<'a> {
    /// The user's words in each text, in order; blank if a program wrote it.
    pub texts: Vec<Cow<'a, str>>,
    /// True for a request, which opens an exchange: it is the user's, and not entirely a program's.
    pub is_request: bool,
}

impl<'a> OwnWords<'a> {
    /// Reads the user's words in `message`. Messages of other kinds keep their texts, and are no request.
    pub fn of(message: &'a Message) -> Self {
        let texts = texts(&message.parts);
        if !matches!(message.kind, Kind::User | Kind::ToolResult) {
            return Self {
                texts: texts.into_iter().map(Cow::Borrowed).collect(),
                is_request: false,
            };
        }
        let mut said = said(&message.parts, message.format);
        let is_blank = said.texts.iter().all(|text| text.trim().is_empty());
        let is_request = match message.author {
            Some(Author::User) if is_blank => {
                said.texts = texts.into_iter().map(Cow::Borrowed).collect();
                true
            }
            Some(Author::User | Author::Agent) => true,
            Some(Author::Program) => {
                said.texts.fill(Cow::Borrowed(""));
                false
            }
            None => !said.is_blank,
        };
        Self {
            texts: said.texts,
            is_request: is_request && message.kind == Kind::User,
        }
    }

    /// All non-blank texts, joined by line feeds.
    pub fn text(&self) -> String {
        let said = self.texts.iter().filter(|text| !text.trim().is_empty());
        said.map(AsRef::as_ref).collect::<Vec<&str>>().join("\n")
    }
}

/// Returns true if a message of the user in that format consists only of text that a program wrote.
pub fn are_programs(parts: &[Part], format: Format) -> bool {
    said(parts, format).is_blank
}

struct RemainingMessage<'a> {
    texts: Vec<Cow<'a, str>>,
    /// True if a program's text was removed, and nothing is left.
    is_blank: bool,
}

fn said(parts: &[Part], format: Format) -> RemainingMessage<'_> {
    let texts = texts(parts);
    let mut left: Vec<Cow<'_, str>> = texts.iter().copied().map(Cow::Borrowed).collect();
    // In a program's reply to the model, the images are the program's, too.
    let mut is_reply = false;
    for host in table::hosts(format) {
        let rest = host.set_aside(&left);
        left = rest.texts;
        is_reply |= rest.is_reply;
    }
    let is_whole = left.iter().zip(&texts).all(|(left, text)| left == text);
    let is_silent = left.iter().all(|text| text.trim().is_empty());
    let has_more = !is_reply
        && parts
            .iter()
            .any(|part| !matches!(part, Part::Text(_) | Part::Thinking(_)));
    RemainingMessage {
        texts: left,
        is_blank: !is_whole && is_silent && !has_more,
    }
}

fn texts(parts: &[Part]) -> Vec<&str> {
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}
