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

use super::{
    demand::DEMAND_MARK,
    text::{cut, one_line},
};

pub use markup::{defanged, detagged};

/// What is put before a quotation that could be taken for an instruction.
pub const QUOTE_MARK: &str = "It was said: ";
/// The least characters of a quotation that gets the mark before it.
const MARKED_CHARS_MIN: usize = 24;

/// `line` as it is, or as a quotation when something in it, outside of quotation marks, poses as an instruction, or as what the
/// user demanded. At most `chars_max` characters (at least 3), cut where it doesn't fit.
pub fn quoted(line: &str, chars_max: usize) -> String {
    quotation(line, chars_max, &[QUOTE_MARK], |line| {
        orders::poses_as_demand(line) || orders::poses_as_instruction(line)
    })
}

/// As [`quoted`], for a text of which it was checked that the user demanded what it says ([`super::demand`]).
pub fn quoted_after_check(line: &str, chars_max: usize) -> String {
    quotation(
        line,
        chars_max,
        &[DEMAND_MARK, QUOTE_MARK],
        orders::poses_as_instruction,
    )
}

/// A document as another program gives it, each line made inert again: one that holds the invariant stays as it is. What
/// its lines begin with, as headings and list items do, stays, too.
pub fn neutralize_document(document: &str) -> String {
    let lines: Vec<String> = document.split('\n').map(inert_line).collect();
    lines.join("\n")
}

fn inert_line(line: &str) -> String {
    let text = line.trim_start_matches([' ', '#', '-']);
    let (opening, _) = line.split_at(line.len() - text.len());
    let text = detagged(&one_line(text));
    if orders::gives_instruction(&text) {
        let chars_max = text.chars().count() + QUOTE_MARK.len() + 2;
        return format!("{opening}{}", in_quotation_marks(QUOTE_MARK, &text, chars_max));
    }
    format!("{opening}{text}")
}

fn quotation(line: &str, chars_max: usize, marks: &[&str], poses: impl Fn(&str) -> bool) -> String {
    let whole = line;
    let line = cut(whole, chars_max);
    let marked = marks.iter().find_map(|mark| {
        let said = line.strip_prefix(mark)?;
        said.starts_with('“').then_some((*mark, said))
    });
    // Cutting may have removed the closing mark.
    let is_open = marked.is_some_and(|(mark, said)| {
        let is_closed = if mark == DEMAND_MARK {
            said.contains('”')
        } else {
            said.ends_with('”')
        };
        !is_closed
    });
    // What is cut off may be what posed as an instruction; and cutting may open a quotation.
    let poses = poses(whole) || (line != whole && !is_open && poses(&line));
    if !is_open && !poses {
        return line;
    }
    // An instruction beside what the user demanded isn't the user's.
    let mark = marked.map_or(QUOTE_MARK, |(mark, _)| if poses { QUOTE_MARK } else { mark });
    let said = marked.map_or(
        line.as_str(),
        |(found, said)| if found == mark { said } else { line.as_str() },
    );
    let room_for_mark = chars_max >= mark.chars().count() + MARKED_CHARS_MIN;
    in_quotation_marks(if room_for_mark { mark } else { "" }, said, chars_max)
}

/// `mark` and `said` in quotation marks, of at most `chars_max` characters.
fn in_quotation_marks(mark: &str, said: &str, chars_max: usize) -> String {
    let said = said.strip_prefix('“').unwrap_or(said);
    let said = said.strip_suffix('”').unwrap_or(said);
    // No mark within may end the quotation.
    let said = said.replace(['“', '„', '«'], "‘").replace(['”', '»'], "’");
    let room = chars_max.saturating_sub(mark.len() + 2).max(1);
    format!("{mark}“{}”", cut(&said, room))
}
