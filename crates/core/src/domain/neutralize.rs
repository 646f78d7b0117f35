//! Neutralises text: text from a conversation stays readable in a summary, but no program renders it or loads anything from it, and no
//! reader takes it for structure or for an instruction of the system.
//!
//! - Markup is broken up, and its words stay ([`defanged`]): tags, tokens of chat templates, images, links, fences.
//! - Text that addresses the reader as a system prompt would is marked as a quotation ([`quoted`]). Removing it would falsify the
//!   history.
//!
//! Invariant: both operations are idempotent, and take time linear in the text.
//!
//! Fixed rules can't recognise an instruction that is encoded or has none of the known phrases. Such a text is still only one line among
//! notes, with its time and its exchange, inside a fence that declares it untrusted.

mod markup;
mod orders;
#[cfg(test)]
mod tests;

use super::{
    demand::DEMAND_MARK,
    text::{cut, one_line},
};

pub use markup::{defanged, detagged};

/// Begins a quotation that could be taken for an instruction.
pub const QUOTE_MARK: &str = "It was said: ";
/// A quotation gets the mark only if there is room for at least this many characters.
const MARKED_CHARS_MIN: usize = 24;

/// Returns `line`, cut to `chars_max` characters (at least 3). If the line, outside of quotation marks, poses as an instruction or as a
/// demand of the user, returns it as a quotation.
pub fn quoted(line: &str, chars_max: usize) -> String {
    quotation(line, chars_max, &[QUOTE_MARK], |line| {
        orders::poses_as_demand(line) || orders::poses_as_instruction(line)
    })
}

/// Like [`quoted`], for a text that was checked to be the user's demand ([`super::demand`]).
pub fn quoted_after_check(line: &str, chars_max: usize) -> String {
    quotation(line, chars_max, &[DEMAND_MARK, QUOTE_MARK], orders::poses_as_instruction)
}

/// Neutralises each line of a document of another program. The mark that begins a heading or a list item stays. A document that is
/// neutral already stays unchanged.
pub fn neutralize_document(document: &str) -> String {
    let lines: Vec<String> = document.split('\n').map(neutralize_line).collect();
    lines.join("\n")
}

fn neutralize_line(line: &str) -> String {
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
    let uncut = line;
    let line = cut(uncut, chars_max);
    let marked = marks.iter().find_map(|mark| {
        let rest = line.strip_prefix(mark)?;
        rest.starts_with('“').then_some((*mark, rest))
    });
    // The cut may have removed the closing mark.
    let is_open = marked.is_some_and(|(mark, rest)| {
        let is_closed = if mark == DEMAND_MARK { rest.contains('”') } else { rest.ends_with('”') };
        !is_closed
    });
    // The cut part may pose as an instruction, and a cut may open a quotation.
    let poses = poses(uncut) || (line != uncut && !is_open && poses(&line));
    if !is_open && !poses {
        return line;
    }
    // An instruction next to the user's demand isn't the user's.
    let mark = marked.map_or(QUOTE_MARK, |(mark, _)| if poses { QUOTE_MARK } else { mark });
    let text = marked.map_or(line.as_str(), |(found, rest)| if found == mark { rest } else { line.as_str() });
    let room_for_mark = chars_max >= mark.chars().count() + MARKED_CHARS_MIN;
    in_quotation_marks(if room_for_mark { mark } else { "" }, text, chars_max)
}

/// Writes `mark`, and `text` in quotation marks, cut to `chars_max` characters together.
fn in_quotation_marks(mark: &str, text: &str, chars_max: usize) -> String {
    let text = text.strip_prefix('“').unwrap_or(text);
    let text = text.strip_suffix('”').unwrap_or(text);
    // A mark inside must not end the quotation.
    let text = text.replace(['“', '„', '«'], "‘").replace(['”', '»'], "’");
    let room = chars_max.saturating_sub(mark.len() + 2).max(1);
    format!("{mark}“{}”", cut(&text, room))
}
