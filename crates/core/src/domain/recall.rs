//! Recall: finding what was said in an archive, by words.
//!
//! A text is a row of words: runs of letters and digits, in lower case and without accents on Latin letters; of scripts
//! that don't separate words, each character is one. A query is a row of terms, and a term is one word or several that
//! follow each other. The same words are used for an index, for what isn't indexed yet, and for excerpts, so that all
//! three agree.

mod query;
mod words;

use super::{
    message::{Message, Part},
    text::{ceil_cut, floor_cut},
};

pub use query::{EXCERPT_CHARS_MAX, OPEN_CHARS_MIN, QUERY_CHARS_MAX, Query, QueryError, TERMS_MAX, Term};
pub use words::indexed;

/// How many bytes of a message's text are searched: half of them from the head, half from the tail.
pub const SEARCHED_BYTES_MAX: usize = 16_384;

/// What is searched of a message: its texts, the tools it calls with their arguments, and what tools returned. Not its
/// thinking, no block that only its provider reads, and nothing of metadata.
pub fn searchable(message: &Message) -> String {
    if !message.kind.is_conversation() {
        return String::new();
    }
    let mut text = String::new();
    for part in &message.parts {
        match part {
            Part::Text(said) => push(&mut text, said),
            Part::ToolCall { name, arguments, .. } => {
                push(&mut text, name);
                push(&mut text, arguments);
            }
            Part::ToolResult { text: result, .. } => push(&mut text, result),
            Part::Thinking(_) | Part::Attachment { .. } | Part::Opaque { .. } => {}
        }
    }
    text
}

fn push(text: &mut String, piece: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    if piece.len() <= SEARCHED_BYTES_MAX {
        text.push_str(piece);
    } else {
        text.push_str(floor_cut(piece, SEARCHED_BYTES_MAX / 2));
        text.push_str("\n…\n");
        text.push_str(ceil_cut(piece, SEARCHED_BYTES_MAX / 2));
    }
}

#[cfg(test)]
mod tests;
