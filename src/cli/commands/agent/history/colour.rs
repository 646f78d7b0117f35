//! Colours a history on a terminal. The archive is dim, the separator line is bold, and exchanges that are over budget,
//! interrupted or open are coloured.

use crate::cli::terminal::colour::{BOLD, DIM, END, GREEN, RED, YELLOW};

/// Adds colours to a history. Doesn't change its words.
pub(super) fn colour_text(text: &str) -> String {
    let mut is_archive = false;
    let lines = text.lines().map(|line| {
        is_archive = match line.trim_start() {
            head if head.starts_with("ARCHIVE") => true,
            _ if is_rule(line) => false,
            _ => is_archive,
        };
        match style(line, is_archive) {
            Some(style) if !line.trim().is_empty() => format!("{style}{line}{END}\n"),
            _ => format!("{line}\n"),
        }
    });
    lines.collect()
}

fn is_rule(line: &str) -> bool {
    line.starts_with("────") || line.starts_with("----")
}

fn style(line: &str, is_archive: bool) -> Option<&'static str> {
    let is_exchange = line.trim_start().starts_with('#');
    match line {
        line if is_rule(line) => Some(BOLD),
        line if is_exchange && line.contains("over budget") => Some(RED),
        line if is_exchange && line.ends_with("interrupted") => Some(YELLOW),
        line if is_exchange && line.ends_with("open") => Some(GREEN),
        _ => is_archive.then_some(DIM),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_change_no_words_and_highlight_the_rule() {
        let text = "a   budget 90k\n\n  ARCHIVE\n  #38  Implement auth\n\n──── the model sees from here ────\n\n  WINDOW\n  \
                    #40  Big one   8.5k   over budget\n  #41  Stopped   1.0k   interrupted\n  #42  Add logging   2.1k   open\n";
        let painted = colour_text(text);
        let plain = [END, BOLD, DIM, RED, GREEN, YELLOW]
            .iter()
            .fold(painted.clone(), |text, style| text.replace(style, ""));
        assert_eq!(plain, text);
        for styled in [
            format!("{DIM}  #38  Implement auth{END}"),
            format!("{BOLD}──── the model sees from here ────{END}"),
            format!("{RED}  #40"),
            format!("{YELLOW}  #41"),
            format!("{GREEN}  #42"),
        ] {
            assert!(painted.contains(&styled), "{painted}");
        }
        assert!(!painted.contains(&format!("{DIM}  WINDOW")));
    }
}
