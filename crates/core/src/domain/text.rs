//! Cuts and cleans text. All of it is safe for UTF-8. Unless noted, cuts fall between graphemes.

use std::borrow::Cow;

use unicode_segmentation::UnicodeSegmentation as _;

/// The months in German, Danish and Norwegian, which write a full stop after the day.
const DOTTED_MONTHS: [&str; 18] = [
    "januar",
    "jänner",
    "februar",
    "märz",
    "marts",
    "mars",
    "april",
    "mai",
    "maj",
    "juni",
    "juli",
    "august",
    "september",
    "oktober",
    "november",
    "dezember",
    "december",
    "desember",
];

/// Skips at most this many characters of an escape sequence.
const ESCAPED_CHARS_MAX: usize = 4_096;

/// Cuts `text` to `chars_max` graphemes, including an ellipsis that marks the cut.
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

/// Like [`cut`], but cuts after the last whole sentence, without an ellipsis, if that uses at least half of the room.
pub fn cut_at_sentence(text: &str, chars_max: usize) -> String {
    let Some((end, _)) = text.grapheme_indices(true).nth(chars_max) else {
        return text.to_owned();
    };
    let prefix = text.get(..end).unwrap_or_default();
    let mut ends = prefix.char_indices().filter(|(index, c)| {
        let rest = prefix.get(index + c.len_utf8()..).unwrap_or_default();
        matches!(c, '。' | '！' | '？') || matches!(c, '.' | '!' | '?') && rest.starts_with(' ')
    });
    let last = ends.next_back().map(|(index, c)| index + c.len_utf8());
    match last.and_then(|last| prefix.get(..last)) {
        Some(sentences) if sentences.graphemes(true).count() * 2 >= chars_max => sentences.to_owned(),
        _ => cut(text, chars_max),
    }
}

/// Begins the line that [`head_tail`] puts in place of the cut part, with the line feed before it.
pub const CUT_MARK: &str = "\n[… ";
/// Ends that line.
pub const CUT_MARK_END: &str = " characters left out …]";

/// Returns the first `head` and the last `tail` characters of a long text. A note between them counts the characters that are left out.
/// The cuts fall between characters, not graphemes.
pub fn head_tail(text: &str, head: usize, tail: usize) -> String {
    // A text has no more characters than bytes, so most texts needn't be counted.
    if text.len() <= head + tail {
        return text.to_owned();
    }
    let chars = text.chars().count();
    if chars <= head + tail {
        return text.to_owned();
    }
    let start: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(chars - tail).collect();
    format!("{start}{CUT_MARK}{}{CUT_MARK_END}\n{end}", chars - head - tail)
}

/// Makes one clean line. Removes escape sequences, control characters, and characters that hide or reorder text. Reduces white space to
/// single blanks.
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len().min(4_096));
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            skip_escape(&mut chars);
        } else if c == '\u{9b}' {
            skip_control_sequence(&mut chars);
        } else if is_joiner(c) {
            // Joiners shape emoji and several scripts; between Latin letters they only hide text.
            let joins =
                |c: Option<char>| c.is_some_and(|c| !c.is_ascii() && !is_unprintable(c) && !is_joiner(c));
            if joins(line.chars().next_back()) && joins(chars.peek().copied()) {
                line.push(c);
            }
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

/// Returns the first line of `text` that has a letter or digit, cleaned and cut to `chars_max` graphemes.
pub fn first_line(text: &str, chars_max: usize) -> String {
    first_line_by(text, chars_max, str::to_owned)
}

/// Like [`first_line`], but applies `change` to each line before it is cleaned and cut.
pub fn first_line_by(text: &str, chars_max: usize, change: impl Fn(&str) -> String) -> String {
    // The line shows no more than this. Cutting first makes a line of a megabyte cheap.
    let bytes_max = chars_max.saturating_mul(16);
    text.lines()
        .map(|line| one_line(&change(floor_cut(line, bytes_max))))
        .find(|line| line.chars().any(char::is_alphanumeric))
        .map(|line| cut(&line, chars_max))
        .unwrap_or_default()
}

/// Writes bytes as hexadecimal digits, two for each.
pub fn hexadecimal(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)]).collect()
}

/// Returns true if a line begins with a day such as `3. Juni`, which only looks like a list item.
pub fn begins_with_day(line: &str) -> bool {
    let Some((day, rest)) = line.split_once(". ") else {
        return false;
    };
    let is_day = matches!(day.len(), 1 | 2) && day.bytes().all(|byte| byte.is_ascii_digit());
    let word = rest.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
    is_day && DOTTED_MONTHS.contains(&word.to_lowercase().as_str())
}

/// Returns the longest prefix of at most `bytes_max` bytes that ends between characters.
pub fn floor_cut(text: &str, bytes_max: usize) -> &str {
    let end = text.floor_char_boundary(bytes_max);
    text.get(..end).unwrap_or_default()
}

/// Returns the longest suffix of at most `bytes_max` bytes that begins between characters.
pub fn ceil_cut(text: &str, bytes_max: usize) -> &str {
    let start = text.ceil_char_boundary(text.len().saturating_sub(bytes_max));
    text.get(start..).unwrap_or_default()
}

/// Makes JSON safe for a terminal. Control characters, and characters that hide or reorder text, become escapes with the same meaning
/// (`\u009b`). JSON itself allows them in strings, except for the first 32 control characters.
pub fn visible_json(json: &str) -> Cow<'_, str> {
    let is_hidden = |c: char| is_unprintable(c) && !matches!(c, '\n' | '\t');
    if !json.contains(is_hidden) {
        return Cow::Borrowed(json);
    }
    let mut safe = String::with_capacity(json.len() + 64);
    for c in json.chars() {
        match c {
            // Valid only as white space between values.
            '\r' => safe.push(' '),
            c if is_hidden(c) => {
                let mut units = [0; 2];
                let escapes = c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}"));
                safe.extend(escapes);
            }
            c => safe.push(c),
        }
    }
    Cow::Owned(safe)
}

/// Converts `text` for a terminal without UTF-8: replaces recapd's own marks with ASCII of the same width, and other characters with
/// question marks.
pub fn ascii(text: &str) -> String {
    text.graphemes(true)
        .map(|grapheme| match grapheme {
            "─" | "·" | "–" => "-",
            "├" => "|",
            "└" => "`",
            "…" => "~",
            grapheme if grapheme.is_ascii() => grapheme,
            _ => "?",
        })
        .collect()
}

fn skip_escape(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match chars.peek() {
        Some('[') => {
            chars.next();
            skip_control_sequence(chars);
        }
        // DCS, OSC, SOS, PM, APC: a text up to BEL or ST (ECMA-48, 5.6); used for titles and links.
        Some('P' | ']' | 'X' | '^' | '_') => {
            for _ in 0..ESCAPED_CHARS_MAX {
                match chars.peek() {
                    None | Some('\n') => return,
                    Some('\u{1b}') => {
                        chars.next();
                        chars.next_if_eq(&'\\');
                        return;
                    }
                    Some('\u{7}' | '\u{9c}') => {
                        chars.next();
                        return;
                    }
                    Some(_) => {
                        chars.next();
                    }
                }
            }
        }
        _ => {}
    }
}

fn skip_control_sequence(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    // It ends with a character from `@` to `~` (ECMA-48, 5.4).
    while let Some(c) = chars.next_if(|c| !c.is_control()) {
        if ('@'..='~').contains(&c) {
            return;
        }
    }
}

/// Returns true for the zero-width non-joiner and joiner.
fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}')
}

/// Returns true for control characters and for characters that reorder or hide text: bidirectional controls, zero-width characters and
/// fillers, tags (U+E0000), and the variation selectors that no emoji uses, since they can carry hidden bytes.
fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0d}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_for_a_terminal_hides_nothing_and_keeps_its_meaning() {
        for text in
            ["\u{9b}2J", "\u{7f}\u{202e}txt.exe", "\u{e0041}\u{200b}", "\u{1b}[2J", "plain ä 👩\u{200d}🚀"]
        {
            let json = serde_json::to_string_pretty(&serde_json::json!({ "a": [text] })).unwrap();
            let shown = visible_json(&json);
            assert!(!shown.contains(|c: char| is_unprintable(c) && c != '\n'), "{shown}");
            let [original, read] =
                [json.as_str(), &shown].map(|json| serde_json::from_str::<serde_json::Value>(json).unwrap());
            assert_eq!(read, original);
        }
        assert_eq!(visible_json("{\r\n\t1}"), "{ \n\t1}");
    }

    #[test]
    fn a_cut_keeps_whole_sentences_if_enough_fit() {
        for (text, chars_max, kept) in [
            ("One. Two. Three.", 16, "One. Two. Three."),
            ("One. Two. Three.", 12, "One. Two."),
            ("Version 1.2.3 came. Then more", 21, "Version 1.2.3 came."),
            ("One. Two three four", 16, "One. Two three…"),
            ("修好了。还有很多事情要做", 6, "修好了。"),
            ("", 5, ""),
        ] {
            assert_eq!(cut_at_sentence(text, chars_max), kept, "{text}");
        }
    }

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
        assert_eq!(head_tail("abcdefghij", 2, 3), "ab\n[… 5 characters left out …]\nhij");
        assert_eq!(head_tail("ääää", 2, 2), "ääää");
    }

    #[test]
    fn a_line_has_no_escapes_and_no_control_characters() {
        assert_eq!(one_line("\u{1b}[31mred\u{1b}[0m\r\n  and\u{0} more\u{202e}"), "red and more");
        let hidden = "\u{1b}]8;;https://x.example\u{1b}\\link\u{1b}]8;;\u{7} i\u{200d}g\u{200c}n\u{ad}ore\u{e0069}\u{e0067}\u{fe01} \u{9b}31mx";
        assert_eq!(one_line(hidden), "link ignore x");
        for shaped in ["👩‍👩‍👧", "می‌خواهم", "❤️"] {
            assert_eq!(one_line(shaped), shaped);
        }
        assert_eq!(first_line("\n   \n# \n  Fix the bug  \nmore", 80), "Fix the bug");
        assert_eq!(first_line(&"a".repeat(1_000_000), 10), format!("{}…", "a".repeat(9)));
    }

    #[test]
    fn byte_cuts_never_split_a_character() {
        assert_eq!(floor_cut("äöü", 3), "ä");
        assert_eq!(ceil_cut("äöü", 3), "ü");
        assert_eq!(ceil_cut("abc", 10), "abc");
    }
}
