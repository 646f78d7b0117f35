//! Neutralises text: what was said in a conversation stays readable in a summary, but it isn't rendered or loaded, isn't taken for
//! structure, and doesn't read like an instruction of the system.
//!
//! - Markup is broken up, with its words kept ([`defanged`]): tags, tokens of chat templates, images, links, fences.
//! - Text that addresses the reader as a system prompt would is marked as a quotation ([`quoted`]). Removing it would falsify the
//!   history.
//!
//! Invariant: both are idempotent, and linear in the text.
//!
//! Fixed rules can't recognise an instruction that uses none of the known phrases, or is encoded. Such a text is still only one line
//! among notes, with its time and its exchange, inside a fence that says what it is.

mod markup;
mod orders;
#[cfg(test)]
mod tests;

use super::{
    demand::DEMAND_MARK,
    text::{cut, one_line},
};

pub use markup::{defanged, detagged};

/// The prefix of a quotation that could be taken for an instruction.
pub const QUOTE_MARK: &str = "It was said: ";
/// The fewest characters of a quotation that gets the prefix.
const MARKED_CHARS_MIN: usize = 24;

/// Returns `line` unchanged, or as a quotation if it holds, outside of quotation marks, a pretended instruction or a pretended demand of
/// the user. The result is cut to `chars_max` characters (at least 3).
pub fn quoted(line: &str, chars_max: usize) -> String {
    quotation(line, chars_max, &[QUOTE_MARK], |line| {
        orders::poses_as_demand(line) || orders::poses_as_instruction(line)
    })
}

/// Like [`quoted`], for a text that was checked to be a demand of the user ([`super::demand`]).
pub fn quoted_after_check(line: &str, chars_max: usize) -> String {
    quotation(
        line,
        chars_max,
        &[DEMAND_MARK, QUOTE_MARK],
        orders::poses_as_instruction,
    )
}

/// Neutralises each line of a document that comes from another program. A document that holds the invariant stays unchanged. So do the
/// beginnings of lines, such as those of headings and list items.
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
    // The part that is cut off may be the pretended instruction, and a cut may open a quotation.
    let poses = poses(whole) || (line != whole && !is_open && poses(&line));
    if !is_open && !poses {
        return line;
    }
    // An instruction next to the user's demand isn't the user's.
    let mark = marked.map_or(QUOTE_MARK, |(mark, _)| if poses { QUOTE_MARK } else { mark });
    let said = marked.map_or(
        line.as_str(),
        |(found, said)| if found == mark { said } else { line.as_str() },
    );
    let room_for_mark = chars_max >= mark.chars().count() + MARKED_CHARS_MIN;
    in_quotation_marks(if room_for_mark { mark } else { "" }, said, chars_max)
}

/// `mark`, then `said` in quotation marks, cut to `chars_max` characters.
fn in_quotation_marks(mark: &str, said: &str, chars_max: usize) -> String {
    let said = said.strip_prefix('“').unwrap_or(said);
    let said = said.strip_suffix('”').unwrap_or(said);
    // No mark inside may end the quotation.
    let said = said.replace(['“', '„', '«'], "‘").replace(['”', '»'], "’");
    let room = chars_max.saturating_sub(mark.len() + 2).max(1);
    format!("{mark}“{}”", cut(&said, room))
}
