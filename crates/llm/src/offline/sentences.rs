//! Splits a text into clean sentences, without mark-up, code and patches, except the commands of a shell block.
//!
//! Invariant: a sentence is quoted from its beginning, and ends in an ellipsis if its rest is left out.

use std::borrow::Cow;

use unicode_segmentation::UnicodeSegmentation as _;

use super::{
    cuts::{broken_off, fit_bytes, negates},
    patches::PatchReader,
};
use recapd_core::domain::text::{CUT_MARK, CUT_MARK_END, begins_with_day, floor_cut, one_line};

/// Limits the bytes that are read of a line; the rest of a longer line is left out.
const LINE_BYTES_MAX: usize = 32_768;
/// How many bytes of a line are split into sentences at a time. This limits the look-ahead of the sentence rules.
const PIECE_BYTES_MAX: usize = 1_024;
/// Limits a sentence, in bytes. A longer one is cut, because its beginning says enough.
const SENTENCE_BYTES_MAX: usize = 480;
/// A line of at least this many bytes may have been wrapped.
const WRAPPED_BYTES_MIN: usize = 50;
/// If the longest line of a text has a number of bytes in this range, its lines may have been wrapped at this width.
const FULL_BYTES_MIN: usize = 60;
const FULL_BYTES_MAX: usize = 160;
const COMMAND_BYTES_MAX: usize = 120;
/// A longer shell block is a script rather than commands to type, so that only its first command is kept.
const COMMANDS_MAX: usize = 6;
/// Abbreviations whose full stop ends no sentence, even before a capital.
const ABBREVIATIONS: [&str; 15] =
    ["Mr", "Mrs", "Ms", "Dr", "St", "No", "Nr", "Jr", "Prof", "Sra", "Mme", "vs", "e.g", "i.e", "z.B"];
/// Openings of a sentence that restricts the previous one. Without the restriction, the previous sentence isn't true.
const RESTRICTIONS: [&str; 10] = [
    "unless",
    "except",
    "only if",
    "but only",
    "but not",
    "außer",
    "es sei denn",
    "sauf",
    "salvo",
    "a menos que",
];
/// Languages of code blocks whose first line is a command.
const SHELLS: [&str; 6] = ["sh", "bash", "shell", "console", "zsh", "powershell"];

/// A sentence as one clean line with at least one letter or digit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sentence {
    pub(super) text: String,
    /// True for a heading, which is a line of its own.
    pub(super) is_heading: bool,
    /// True for a heading or a point of a list.
    pub(super) is_listed: bool,
    /// True for a part of a block quotation (`> …`).
    pub(super) is_quoted: bool,
}

/// Returns the sentences of `text` by paragraph. `continues_code` is true if the previous message ended within a block of code.
pub(super) fn paragraphs(text: &str, continues_code: bool) -> Vec<Vec<Sentence>> {
    let mut found = vec![Vec::new()];
    for line in join_wrapped_lines(prose_lines(text, continues_code)) {
        if line.trim().is_empty() {
            found.push(Vec::new());
        } else if let Some(paragraph) = found.last_mut() {
            let line = line.trim();
            let is_heading = line.starts_with('#') || is_strong(line);
            let content = without_marks(line);
            let is_quoted = line.starts_with('>') && content.len() < line.len();
            let (content, is_point) = without_bullet(content);
            let is_listed = is_heading || is_point;
            let sentences = sentences_of_line(content);
            paragraph.extend(sentences.into_iter().map(|text| Sentence {
                text,
                is_heading,
                is_listed,
                is_quoted,
            }));
        }
    }
    found.retain(|paragraph| !paragraph.is_empty());
    add_colons(&mut found);
    found
}

/// Adds a colon to headings that something follows.
fn add_colons(paragraphs: &mut [Vec<Sentence>]) {
    let mut sentences = paragraphs.iter_mut().flatten().peekable();
    while let Some(sentence) = sentences.next() {
        if sentence.is_heading && sentences.peek().is_some() && !ends_sentence(&sentence.text) {
            sentence.text.push(':');
        }
    }
}

/// Returns true for a line in bold type, which stands for a heading.
fn is_strong(line: &str) -> bool {
    let inner = line.strip_prefix("**").and_then(|rest| rest.strip_suffix("**"));
    inner.is_some_and(|inner| !inner.contains("**") && (inner.ends_with(':') || !ends_sentence(inner)))
}

/// Removes the marks of a heading, a quotation or a table row.
fn without_marks(line: &str) -> &str {
    let content = line.trim_start_matches(['#', '>', '|', ' ']).trim_end_matches(['#', '|', ' ']);
    if content.starts_with('=') && line.starts_with('>') {
        return line;
    }
    content
}

/// Returns true if `line` is the mark that a transcript puts where it was cut.
fn is_cut_mark(line: &str) -> bool {
    line.starts_with(CUT_MARK.trim_start()) && line.ends_with(CUT_MARK_END)
}

/// Returns the lines outside of code and patches, and the commands of each shell block. Removes or marks incomplete sentences next to a
/// cut.
fn prose_lines(text: &str, continues_code: bool) -> Vec<Cow<'_, str>> {
    // A message that continues another one may contain the end of its code block. Then the first fence closes the block.
    let begins_with_fence = text.lines().next().is_some_and(is_fence);
    let mut in_code = leaves_code_open(text) && (continues_code || begins_with_fence);
    let mut commands_left = 0;
    let mut is_after_cut = false;
    let mut patch = PatchReader::default();
    let mut lines: Vec<Cow<'_, str>> = Vec::new();
    let mut rest = text.lines();
    while let Some(line) = rest.next() {
        if is_fence(line) {
            in_code = !in_code;
            let language = line.trim().trim_start_matches(['`', '~']).trim();
            let is_shell = in_code && SHELLS.contains(&language);
            commands_left = if is_shell { commands_shown(rest.clone()) } else { 0 };
        } else if is_cut_mark(line) {
            if let Some(last) = lines.last_mut().filter(|last| !in_code && !ends_sentence(last)) {
                *last = Cow::Owned(broken_off(last));
            }
        } else if !in_code && !patch.accepts(line) {
            lines.push(Cow::Borrowed(if is_after_cut { without_first_sentence(line) } else { line }));
        } else if in_code && commands_left > 0 && is_command(line) {
            lines.push(fit_bytes(line, COMMAND_BYTES_MAX));
            commands_left -= 1;
        }
        is_after_cut = is_cut_mark(line);
    }
    lines
}

/// Returns how many commands of the shell block at the beginning of `rest` are kept.
fn commands_shown<'a>(rest: impl Iterator<Item = &'a str>) -> usize {
    let commands: Vec<&str> =
        rest.take_while(|line| !is_fence(line)).filter(|line| is_command(line)).collect();
    let is_script = commands.len() > COMMANDS_MAX || commands.iter().any(|command| command.contains("<<"));
    if is_script { 1 } else { commands.len() }
}

/// Returns true for a line of a shell block that isn't blank or a comment.
fn is_command(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with('#')
}

/// Removes the first sentence of a line, because its beginning may have been cut off.
fn without_first_sentence(line: &str) -> &str {
    let head = floor_cut(line, PIECE_BYTES_MAX);
    let first = head.split_sentence_bounds().next().map_or(0, str::len);
    if first == head.len() { "" } else { line.get(first..).unwrap_or_default() }
}

/// Joins lines that were wrapped. For example, `never` at the end of a line forbids what the next line says.
fn join_wrapped_lines(lines: Vec<Cow<'_, str>>) -> Vec<Cow<'_, str>> {
    let layout = Layout::of(&lines);
    let mut joined_lines: Vec<Cow<'_, str>> = Vec::with_capacity(lines.len());
    // The bytes of the previous line alone; the last entry of `joined_lines` may contain several lines.
    let mut previous_bytes = 0;
    for line in lines {
        let bytes = line.len();
        match joined_lines.last_mut() {
            Some(last) if layout.is_continued(last, previous_bytes, &line) => {
                let joined = last.to_mut();
                joined.truncate(joined.trim_end().len());
                joined.push(' ');
                joined.push_str(line.trim());
            }
            _ => joined_lines.push(line),
        }
        previous_bytes = bytes;
    }
    joined_lines
}

/// The layout of a text's lines. A text that was copied from a terminal is wrapped at its width, and often indented as a whole.
struct Layout {
    /// The bytes of the longest line.
    width: usize,
    /// The smallest indentation of the lines after the first one, in bytes.
    margin: usize,
}

impl Layout {
    fn of(lines: &[Cow<'_, str>]) -> Self {
        let rest = lines.iter().skip(1).filter(|line| !line.trim().is_empty());
        let indentations: Vec<usize> = rest.map(|line| indentation(line)).collect();
        // A single line may be indented below the first one for another reason.
        let margin = indentations.iter().min().filter(|_| indentations.len() > 1);
        Self {
            width: lines.iter().map(|line| line.trim_end().len()).max().unwrap_or_default(),
            margin: margin.copied().unwrap_or_default(),
        }
    }

    /// Returns true if a sentence continues from `line` to `next`. The last of the joined lines in `line` has `bytes` bytes.
    fn is_continued(&self, line: &str, bytes: usize, next: &str) -> bool {
        let last = line.trim_end().rsplit(' ').next().unwrap_or_default();
        let first = next.split_whitespace().next().unwrap_or_default();
        let is_indented = indentation(next) > self.margin;
        let may_be_indented = || without_bullet(line.trim_start()).1;
        let continues_words = || {
            (negates(last) || (bytes >= WRAPPED_BYTES_MIN && is_word(last)))
                && first.starts_with(char::is_lowercase)
                && is_word(first)
        };
        line.len() + next.len() < LINE_BYTES_MAX
            && !ends_sentence(line)
            && !line.trim_start().starts_with(['#', '|'])
            && (continues_words() || self.was_full(bytes, first) && continues_clause(last, first))
            && (!is_indented || may_be_indented())
    }

    /// Returns true if the word `next` had no room after a line of `bytes` bytes.
    fn was_full(&self, bytes: usize, next: &str) -> bool {
        (FULL_BYTES_MIN..=FULL_BYTES_MAX).contains(&self.width)
            && bytes >= FULL_BYTES_MIN
            && bytes + " ".len() + next.len() > self.width
    }
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn is_word(text: &str) -> bool {
    let bare = text.trim_matches([',', '.', ';', ':', '!', '?', '(', ')', '"', '“', '”']);
    !bare.is_empty() && bare.chars().all(|c| c.is_alphabetic() || "'’-".contains(c))
}

/// Returns true if the clause that ends with the word `last` can go on with the word `next`.
fn continues_clause(last: &str, next: &str) -> bool {
    last.ends_with(',') || is_word(last) && next.starts_with(|c: char| c.is_lowercase() || c == '(')
}

/// Returns true if `line` ends with a sentence or a clause, or is empty.
pub(super) fn ends_sentence(line: &str) -> bool {
    let end = line.trim_end();
    end.is_empty() || end.ends_with(['.', '!', '?', ':', ';', '…', '。', '！', '？', '：'])
}

/// Returns true if a fence in `text` has no partner.
pub(super) fn leaves_code_open(text: &str) -> bool {
    text.lines().filter(|line| is_fence(line)).count() % 2 == 1
}

fn is_fence(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("```") || line.starts_with("~~~")
}

fn sentences_of_line(line: &str) -> Vec<String> {
    let line = one_line(&without_markup(&fit_bytes(line, LINE_BYTES_MAX)));
    let mut sentences: Vec<String> = Vec::new();
    let mut rest = line.as_str();
    let mut is_tail = false;
    while !rest.is_empty() {
        let piece = floor_cut(rest, PIECE_BYTES_MAX);
        let mut bounds: Vec<&str> = piece.split_sentence_bounds().collect();
        // The last sentence may continue in the next piece, unless it is the whole piece.
        let goes_on = piece.len() < rest.len();
        let is_part = goes_on && bounds.len() == 1;
        if goes_on && !is_part {
            bounds.pop();
        }
        let piece_bytes: usize = bounds.iter().map(|bound| bound.len()).sum();
        // Of a sentence that is longer than a piece, only the beginning is kept, because it would be cut anyway.
        for bound in bounds.into_iter().skip(usize::from(is_tail)) {
            push(&mut sentences, bound);
        }
        is_tail = is_part;
        rest = rest.get(piece_bytes..).unwrap_or_default();
    }
    sentences.retain(|sentence| sentence.chars().any(char::is_alphanumeric));
    sentences
}

fn push(sentences: &mut Vec<String>, bound: &str) {
    let bound = fit_bytes(bound.trim(), SENTENCE_BYTES_MAX);
    match sentences.last_mut() {
        Some(last)
            if (ends_in_abbreviation(last) || restricts(&bound))
                && last.len() + bound.len() < SENTENCE_BYTES_MAX =>
        {
            last.push(' ');
            last.push_str(&bound);
        }
        _ => sentences.push(bound.into_owned()),
    }
}

fn restricts(sentence: &str) -> bool {
    let head = floor_cut(sentence, 16).to_lowercase();
    RESTRICTIONS
        .iter()
        .any(|cue| head.strip_prefix(cue).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric)))
}

/// Returns true after `Dr.`, `e.g.` or `J.`, where the sentence rules would end a sentence before a capital.
fn ends_in_abbreviation(sentence: &str) -> bool {
    let Some(word) = sentence.strip_suffix('.').and_then(|text| text.rsplit(' ').next()) else {
        return false;
    };
    let is_initial = word.len() == 1 && word.starts_with(|c: char| c.is_ascii_uppercase());
    // An ordinal in many languages, as in `am 3. Juni`.
    let is_ordinal = word.len() <= 2 && !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    is_initial || is_ordinal || ABBREVIATIONS.contains(&word)
}

/// Removes emphasis, back-ticks, bare tags and the targets of links.
fn without_markup(line: &str) -> String {
    let mut clean = String::with_capacity(line.len());
    let mut is_strong = false;
    let mut rest = line;
    while let Some(index) = rest.find(['*', '`', '<', '[']) {
        let (before, mark) = rest.split_at(index);
        clean.push_str(before);
        rest = after_mark(mark, &mut clean, &mut is_strong);
    }
    clean.push_str(rest);
    clean
}

/// Appends the first part of `mark` to `clean`, unless that part is mark-up. Returns the rest.
fn after_mark<'a>(mark: &'a str, clean: &mut String, is_strong: &mut bool) -> &'a str {
    if let Some(rest) = mark.strip_prefix('`') {
        // What looks like mark-up is code there.
        let Some((code, after)) = rest.split_once('`') else {
            return rest;
        };
        clean.push_str(code);
        return after;
    }
    if mark.starts_with("**") {
        return after_stars(mark, clean, is_strong);
    }
    if let Some(link) = Link::at(mark) {
        link.write(clean);
        return link.rest;
    }
    // `Vec<String>` isn't a tag.
    if (mark.starts_with("</") || !clean.ends_with(is_word_char))
        && let Some(length) = tag_bytes(mark)
    {
        clean.push(' ');
        return mark.get(length..).unwrap_or_default();
    }
    let mut chars = mark.chars();
    clean.extend(chars.next());
    chars.as_str()
}

/// A Markdown link, `[label](target)`, and what follows it.
struct Link<'a> {
    label: &'a str,
    target: &'a str,
    rest: &'a str,
}

impl<'a> Link<'a> {
    /// Returns the link with which `text` begins.
    fn at(text: &'a str) -> Option<Self> {
        let (label, rest) = floor_cut(text, SENTENCE_BYTES_MAX).strip_prefix('[')?.split_once("](")?;
        let (target, _) = rest.split_once(')')?;
        let is_link =
            !label.is_empty() && !label.contains(['[', ']']) && !target.contains(char::is_whitespace);
        let end = "[](".len() + label.len() + target.len() + ")".len();
        is_link.then_some(Self { label, target, rest: text.get(end..).unwrap_or_default() })
    }

    /// Writes the label, with the target if that is the address of a page which the label doesn't name.
    fn write(&self, clean: &mut String) {
        clean.extend(self.label.chars().filter(|c| *c != '`'));
        if self.target.contains("://") && !self.target.contains(self.label) {
            clean.push_str(" (");
            clean.push_str(self.target);
            clean.push(')');
        }
    }
}

/// Removes emphasis that has a beginning and an end. Keeps `2**16`, `src/**/*.rs` and `f(**options)`.
fn after_stars<'a>(mark: &'a str, clean: &mut String, is_strong: &mut bool) -> &'a str {
    let rest = mark.trim_start_matches('*');
    let is_mark = if *is_strong { closes(clean, rest) } else { opens(clean, rest) && has_closing(rest) };
    if is_mark {
        *is_strong = !*is_strong;
    } else {
        clean.push_str(mark.strip_suffix(rest).unwrap_or_default());
    }
    rest
}

fn opens(before: &str, rest: &str) -> bool {
    let may_open = |c: char| c.is_whitespace() || "([{\"'“„‘:,;—–-".contains(c) || is_of_unspaced_script(c);
    (before.is_empty() || before.ends_with(may_open)) && !rest.is_empty() && !rest.starts_with(ends_no_word)
}

/// Returns true at the end of emphasis. Only the letter before the stars distinguishes it from the beginning of `**options`.
fn closes(before: &str, rest: &str) -> bool {
    !before.is_empty()
        && !before.ends_with(char::is_whitespace)
        && (before.ends_with(is_word_char) || !rest.starts_with(is_word_char))
}

fn has_closing(rest: &str) -> bool {
    let near = floor_cut(rest, SENTENCE_BYTES_MAX);
    near.match_indices("**").any(|(position, stars)| {
        let after = near.get(position + stars.len()..).unwrap_or_default();
        closes(near.get(..position).unwrap_or_default(), after)
    })
}

fn ends_no_word(c: char) -> bool {
    c.is_whitespace() || c == '/'
}

fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn is_of_unspaced_script(c: char) -> bool {
    c >= '\u{2e80}'
}

/// Returns the length in bytes of the bare tag that `text` begins with: `<name>`, `</name>`.
fn tag_bytes(text: &str) -> Option<usize> {
    const TAG_BYTES_MAX: usize = 48;
    let inner = floor_cut(text.strip_prefix('<')?, TAG_BYTES_MAX);
    let (name, _) = inner.split_once('>')?;
    let bare = name.trim_matches('/');
    let is_tag = bare.starts_with(|c: char| c.is_ascii_alphabetic())
        && bare.chars().all(|c| c.is_ascii_alphanumeric() || "-_:".contains(c));
    is_tag.then(|| name.len() + 2)
}

/// Returns the line without its bullet or number, and whether it had one.
fn without_bullet(line: &str) -> (&str, bool) {
    for bullet in ["- ", "* ", "+ ", "• ", "– "] {
        if let Some(rest) = line.strip_prefix(bullet) {
            return (without_box(rest.trim_start()), true);
        }
    }
    if begins_with_day(line) {
        return (line, false);
    }
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let after_digits = line.get(digits..).unwrap_or_default();
    let rest = after_digits.strip_prefix(". ").or_else(|| after_digits.strip_prefix(") "));
    match rest {
        Some(rest) if (1..=3).contains(&digits) => (rest, true),
        _ => (line, false),
    }
}

/// Removes the box of a ticked point. Keeps the box of an open point, because `[ ] Tests pass` isn't true yet.
fn without_box(line: &str) -> &str {
    line.strip_prefix("[x] ").or_else(|| line.strip_prefix("[X] ")).unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<String> {
        paragraphs(text, false).concat().into_iter().map(|said| said.text).collect()
    }

    #[test]
    fn sentences_are_clean() {
        let cases: [(&str, &[&str]); 20] = [
            ("Hi! I am Ann. You?", &["Hi!", "I am Ann.", "You?"]),
            ("# Title\n- **one** two\n2. `three`", &["Title:", "one two", "three"]),
            ("Ask Dr. Meier at 5 p.m. today.", &["Ask Dr. Meier at 5 p.m. today."]),
            ("Am 3. Juni geht es los.", &["Am 3. Juni geht es los."]),
            ("今天很好。明天见。", &["今天很好。", "明天见。"]),
            ("<name>/clear</name> x < y", &["/clear x < y"]),
            ("src/a.rs\n```rust\nfn main() {}\n```\nDone.", &["src/a.rs", "Done."]),
            ("```\n\nIt replaces the spinner.", &["It replaces the spinner."]),
            ("Run:\n```bash\ncargo test\nls\n```", &["Run:", "cargo test", "ls"]),
            ("Deploy it. Unless it fails. Then call me.", &["Deploy it. Unless it fails.", "Then call me."]),
            ("- [x] Built\n- [ ] Tested", &["Built", "[ ] Tested"]),
            ("\u{1b}[1m---\u{1b}[0m\n***", &[]),
            ("At most 2**16 rows.", &["At most 2**16 rows."]),
            ("See src/**/a.rs, tests/**/b.rs.", &["See src/**/a.rs, tests/**/b.rs."]),
            ("Call f(**a) and g(**b) then.", &["Call f(**a) and g(**b) then."]),
            ("Take Vec<String> here.", &["Take Vec<String> here."]),
            (
                "See [`a.rs`](src/a.rs#L3), [the page](https://b.org/c) and a[i](j k).",
                &["See a.rs, the page (https://b.org/c) and a[i](j k)."],
            ),
            ("这是**重点**内容。", &["这是重点内容。"]),
            ("**Note:** use ***this*** one.", &["Note: use this one."]),
            (">= 3.10 is needed\n3. Juni: Abgabe", &[">= 3.10 is needed", "3. Juni: Abgabe"]),
        ];
        for (text, expected) in cases {
            assert_eq!(all(text), expected, "{text}");
        }
    }

    #[test]
    fn a_block_that_a_message_leaves_open_is_closed_in_the_next_one() {
        assert!(leaves_code_open("Here:\n```rust\nfn f() {"));
        let next = paragraphs("    g();\n}\n```\nIt calls g now.", true).concat();
        assert_eq!(next.iter().map(|said| said.text.as_str()).collect::<Vec<_>>(), ["It calls g now."]);
        assert_eq!(paragraphs("All prose.", true).len(), 1);
    }

    #[test]
    fn keeps_paragraphs_apart() {
        assert_eq!(paragraphs("a\nb\n\nc", false).len(), 2);
        assert_eq!(paragraphs(" \n\n ", false), Vec::<Vec<Sentence>>::new());
    }

    #[test]
    fn a_long_line_is_read_in_pieces_without_losing_sentences() {
        let text = "This is sentence number one of many. ".repeat(100);
        assert_eq!(all(&text).len(), 100);
        assert!(all(&"x".repeat(1_000_000))[0].len() <= SENTENCE_BYTES_MAX);
        assert!(!all(&".) ".repeat(300_000)).iter().any(|s| s.contains('x')));
    }

    #[test]
    fn a_cut_sentence_is_marked_or_dropped_whole() {
        let long = format!("Deploy on Friday {}unless it fails. Then call.", "and wait ".repeat(300));
        let told = all(&long);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with("Deploy") && told[0].ends_with('…'));
        assert_eq!(told[1], "Then call.");
        let cut = "It is green. We do not dep\n[… 900 characters left out …]\nloy on Friday. We wait.";
        assert_eq!(all(cut), ["It is green.", "We…", "We wait."]);
    }

    #[test]
    fn wrapped_lines_are_one_sentence_and_lists_are_none() {
        let wrapped = "Whoever has the keys of the staging database must not\ndelete it on a Friday";
        assert_eq!(all(wrapped), [wrapped.replace('\n', " ")]);
        assert_eq!(all("- do not\n  deploy it"), ["do not deploy it"]);
        let copied = "The plan covers the loader of the old database and all its callers in\n  the API.\n\n  \
                      1. The loader calls embed() for each document, and extracts\n  doc.content for the other databases (Qdrant, Chroma, Weaviate,\n  Pinecone).";
        let expected = [
            "The plan covers the loader of the old database and all its callers in the API.",
            "The loader calls embed() for each document, and extracts doc.content for the other databases (Qdrant, Chroma, Weaviate, Pinecone).",
        ];
        assert_eq!(all(copied), expected);
        for apart in [
            "fix the parser\nadd a test",
            "src/scheduler/the_module_of_the_scheduler/and_its_main_loop.rs\nsrc/scheduler/the_module_of_the_scheduler/and_its_other_loop.rs",
            "Whoever has the keys of the staging database must know\nDelete nothing",
            "2026-01-01 12:00:00 the nightly import begins for tenant 17\nlevel=info done",
            "at run (the_module_of_the_scheduler.rs, in the main loop)\n  at main",
        ] {
            assert_eq!(all(apart).len(), 2, "{apart}");
        }
    }
}
