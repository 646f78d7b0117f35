//! Recall: full-text search in an archive.
//!
//! A text is a sequence of words. A word is a run of letters and digits, in lower case, and without accents on Latin letters. In scripts
//! without blanks between words, each character is a word. A query is a sequence of terms. A term is a word in any of its forms, or a
//! phrase: consecutive words to the letter. The index ([`IndexPart`]) has the stems of words. The ranking ([`Candidates`]) depends on the
//! agent's own archive. Neither depends on a database.

mod filter;
mod index;
mod meaning;
mod query;
mod rank;
mod stem;
mod when;
mod words;

use super::{
    message::{Message, Part},
    own_output::{is_answer, is_tool, without_fences},
    text::{ceil_cut, floor_cut},
};

pub use filter::{ArchiveSearch, Filter, Order, Role, SessionRange, TimeSpan};
pub use index::{BLOCK_MESSAGES, IndexPart, IndexSource, IndexTotals, block_of};
pub use meaning::{
    EMBEDDED_CHARS_MAX, Embedding, NEAREST_MAX, NearExchange, NearestExchanges, QuestionEmbedding, fuse,
    text_to_embed,
};
pub use query::{EXCERPT_CHARS_MAX, OPEN_CHARS_MIN, QUERY_CHARS_MAX, Query, QueryError, TERMS_MAX, Term};
pub use rank::{Candidates, RANKED_MAX, RankedExchange};
pub use stem::STOP_WORDS;
pub use when::{NamedSpan, named_span};
use words::folded_name;

/// Searches this many bytes of a text: half of them from its head, half from its tail.
pub const SEARCHED_BYTES_MAX: usize = 16_384;

/// Returns the searchable text of a message: its texts, the names and arguments of tool calls, and results. Leaves out thinking, blocks
/// that only the provider can read, metadata, and recapd's own output.
pub fn searchable(message: &Message) -> String {
    if !message.kind.is_conversation() {
        return String::new();
    }
    let mut text = String::new();
    for part in &message.parts {
        match part {
            Part::Text(own_text) => push(&mut text, &without_fences(own_text)),
            Part::ToolCall { name, .. } if is_tool(name) => {}
            Part::ToolResult { name, text: result, .. }
                if name.as_deref().is_some_and(is_tool) || is_answer(result) => {}
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
