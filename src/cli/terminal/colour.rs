//! The colours of output for people.

use super::output;

pub(crate) const END: &str = "\u{1b}[0m";
pub(crate) const BOLD: &str = "\u{1b}[1m";
pub(crate) const DIM: &str = "\u{1b}[2m";
pub(crate) const RED: &str = "\u{1b}[31m";
pub(crate) const GREEN: &str = "\u{1b}[32m";
pub(crate) const YELLOW: &str = "\u{1b}[33m";

/// Returns `text` in this style if the output has colours.
pub(crate) fn paint(style: &str, text: &str) -> String {
    if output::has_colour() && !style.is_empty() { format!("{style}{text}{END}") } else { text.to_owned() }
}
