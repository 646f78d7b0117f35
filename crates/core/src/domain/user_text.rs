//! The user's own words, in messages where programs write, too. Coding agents put what they tell the model under the
//! user's name; and what the user answers to a tool, or says on refusing one, comes back as the tool's result.
//!
//! What is left of a message once the programs' parts are set aside is the request: it opens an exchange, and it is what
//! titles, digests and summaries quote. The message itself stays as it is. All this is read from the message alone, so
//! that it comes out the same wherever it is read.

mod host;
mod results;
mod table;
mod tags;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use super::message::{Author, Format, Kind, Message, Part};
pub use results::{answers, are_in, refusal};

/// A message's texts as the user said them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnWords<'a> {
    /// What the user said in each of its texts, in order; blank if a program wrote it.
    pub texts: Vec<Cow<'a, str>>,
    /// Whether it is a request, which opens an exchange: it is the user's, and something is left of it.
    pub is_request: bool,
}

impl<'a> OwnWords<'a> {
    /// The user's words in `message`. What others say is theirs as it is, and no request.
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

    /// All that the user said.
    pub fn text(&self) -> String {
        let said = self.texts.iter().filter(|text| !text.trim().is_empty());
        said.map(AsRef::as_ref).collect::<Vec<&str>>().join("\n")
    }
}

/// Whether in `parts`, of a message of the user's in that format, there is nothing that the user said, but what a program
/// did.
pub fn are_programs(parts: &[Part], format: Format) -> bool {
    said(parts, format).is_blank
}

/// What is left of a message.
struct RemainingMessage<'a> {
    texts: Vec<Cow<'a, str>>,
    /// Whether something was set aside, and nothing is left.
    is_blank: bool,
}

fn said(parts: &[Part], format: Format) -> RemainingMessage<'_> {
    let texts = texts(parts);
    let mut left: Vec<Cow<'_, str>> = texts.iter().copied().map(Cow::Borrowed).collect();
    // Of a program's reply to the model the pictures are the program's, too.
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
