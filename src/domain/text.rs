//! Cutting and cleaning text. Everything here is safe for UTF-8: cuts fall on grapheme boundaries.

use unicode_segmentation::UnicodeSegmentation as _;

/// At most `chars_max` graphemes of `text`; a cut is marked by an ellipsis, which counts.
pub fn cut(text: &str, chars_max: usize) -> String {
    let mut graphemes = text.grapheme_indices(true);
    let Some((last, _)) = graphemes.by_ref().nth(chars_max.saturating_sub(1)) else {
        return text.to_owned();
    };
    if graphemes.next().is_none() {
        return text.to_owned();
    }
    let head = text.get(..last).unwrap_or_default().trim_end();
    format!("{head}…")
}

/// The first `head` and the last `tail` characters of a long text, with a note of what is left out between them.
pub fn head_tail(text: &str, head: usize, tail: usize) -> String {
    // Bytes bound characters from above, so most texts need no second look.
    if text.len() <= head + tail {
        return text.to_owned();
    }
    let chars = text.chars().count();
    if chars <= head + tail {
        return text.to_owned();
    }
    let start: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(chars - tail).collect();
    format!(
        "{start}\n[… {} characters left out …]\n{end}",
        chars - head - tail
    )
}

/// One clean line: escape sequences and control characters gone, white space folded to single blanks.
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len().min(4_096));
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            skip_escape(&mut chars);
        } else if c.is_whitespace() {
            if !line.ends_with(' ') {
                line.push(' ');
            }
        } else if !is_unprintable(c) {
            line.push(c);
        }
    }
    line.trim().to_owned()
}

/// The first line of `text` that says something, cleaned, of at most `chars_max` graphemes.
pub fn first_line(text: &str, chars_max: usize) -> String {
    // A line longer than this says no more in its title; cutting first keeps a line of a megabyte cheap.
    let bytes_max = chars_max.saturating_mul(16);
    text.lines()
        .map(|line| one_line(floor_cut(line, bytes_max)))
        .find(|line| line.chars().any(char::is_alphanumeric))
        .map(|line| cut(&line, chars_max))
        .unwrap_or_default()
}

/// The longest prefix of at most `bytes_max` bytes that ends on a character boundary.
pub fn floor_cut(text: &str, bytes_max: usize) -> &str {
    let end = text.floor_char_boundary(bytes_max);
    text.get(..end).unwrap_or_default()
}

/// The longest suffix of at most `bytes_max` bytes that begins on a character boundary.
pub fn ceil_cut(text: &str, bytes_max: usize) -> &str {
    let start = text.ceil_char_boundary(text.len().saturating_sub(bytes_max));
    text.get(start..).unwrap_or_default()
}

fn skip_escape(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    if chars.next_if_eq(&'[').is_none() {
        return;
    }
    // A CSI sequence ends with a byte from `@` to `~` (ECMA-48, 5.4).
    while let Some(c) = chars.next_if(|c| !c.is_control()) {
        if ('@'..='~').contains(&c) {
            return;
        }
    }
}

/// Control characters, and marks that reorder or hide text (bidirectional overrides, zero-width).
fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_between_graphemes() {
        assert_eq!(cut("short", 10), "short");
        assert_eq!(cut("exact", 5), "exact");
        assert_eq!(cut("too long", 5), "too…");
        assert_eq!(cut("👩‍👩‍👧 family and 👩‍👩‍👧", 3), "👩‍👩‍👧…");
    }

    #[test]
    fn keeps_head_and_tail() {
        assert_eq!(head_tail("abcdef", 3, 3), "abcdef");
        assert_eq!(
            head_tail("abcdefghij", 2, 3),
            "ab\n[… 5 characters left out …]\nhij"
        );
        assert_eq!(head_tail("ääää", 2, 2), "ääää");
    }

    #[test]
    fn a_line_has_no_escapes_and_no_control_characters() {
        assert_eq!(
            one_line("\u{1b}[31mred\u{1b}[0m\r\n  and\u{0} more\u{202e}"),
            "red and more"
        );
        assert_eq!(first_line("\n   \n# \n  Fix the bug  \nmore", 80), "Fix the bug");
        assert_eq!(
            first_line(&"a".repeat(1_000_000), 10),
            format!("{}…", "a".repeat(9))
        );
    }

    #[test]
    fn byte_cuts_never_split_a_character() {
        assert_eq!(floor_cut("äöü", 3), "ä");
        assert_eq!(ceil_cut("äöü", 3), "ü");
        assert_eq!(ceil_cut("abc", 10), "abc");
    }
}
