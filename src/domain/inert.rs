//! Making text inert: what was said in a conversation stays readable in a summary, but it isn't rendered or loaded,
//! doesn't pass for structure, and doesn't read like an instruction of the system.
//!
//! - Markup is broken up, with its words kept ([`defanged`]): tags, tokens of chat templates, images, links, fences.
//! - What addresses the reader as a system prompt does is marked as what it is, a quotation ([`quoted`]): leaving it
//!   out would make the history untrue.
//!
//! Invariant: doing either twice changes nothing more; both are linear in the text.
//!
//! What no fixed rule can do: recognise an instruction that uses none of the known phrases, or is encoded. Such a text
//! still stands as one line among notes, with its time and its exchange, inside a fence that says what it is.

mod markup;
mod orders;
#[cfg(test)]
mod tests;

use super::text::cut;

pub use markup::defanged;

/// What is put before a quotation that could be taken for an instruction.
pub const QUOTE_MARK: &str = "It was said: ";
/// The least characters of a quotation that gets the mark before it.
const MARKED_CHARS_MIN: usize = 24;

/// `line` as it is, or as a quotation when something in it, outside of quotation marks, poses as an instruction. At
/// most `chars_max` characters (at least 3), cut where it doesn't fit.
pub fn quoted(line: &str, chars_max: usize) -> String {
    let whole = line;
    let line = cut(whole, chars_max);
    let said = line.strip_prefix(QUOTE_MARK).filter(|said| said.starts_with('“'));
    // Cutting may have removed the closing mark.
    let is_open = said.is_some_and(|said| !said.ends_with('”'));
    // What is cut off may be what posed as an instruction; and cutting may open a quotation.
    let poses = orders::poses_as_instruction(whole) || (line != whole && orders::poses_as_instruction(&line));
    if !is_open && !poses {
        return line;
    }
    let mark_chars = QUOTE_MARK.chars().count();
    let mark = if chars_max >= mark_chars + MARKED_CHARS_MIN {
        QUOTE_MARK
    } else {
        ""
    };
    let said = said.unwrap_or(&line);
    let said = said.strip_prefix('“').unwrap_or(said);
    let said = said.strip_suffix('”').unwrap_or(said);
    // No mark within may end the quotation.
    let said = said.replace(['“', '„', '«'], "‘").replace(['”', '»'], "’");
    let room = chars_max.saturating_sub(mark.len() + 2).max(1);
    format!("{mark}“{}”", cut(&said, room))
}
