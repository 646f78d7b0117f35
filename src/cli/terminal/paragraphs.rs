//! Breaks text into lines of a given width. Prose is filled; comments of examples are put beside or below their
//! commands.

/// Comments stand beside their commands if there are at least this many columns for them.
const BESIDE_MIN: usize = 28;
/// The indentation of a comment below its command.
const BELOW: usize = 6;

/// Breaks `text` into lines of at most `columns`. Indented lines are examples: a command, then two blanks and a
/// comment. Other lines are prose.
pub(crate) fn wrap(text: &str, columns: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let paragraphs = lines
        .chunk_by(|one, next| is_example(one) == is_example(next) && !one.is_empty() && !next.is_empty());
    let wrapped = paragraphs.flat_map(|paragraph| match paragraph.first() {
        Some(first) if is_example(first) => examples(paragraph, columns),
        _ => fill(&paragraph.join(" "), columns),
    });
    wrapped.collect::<Vec<_>>().join("\n")
}

/// Breaks prose into lines.
pub(crate) fn fill(prose: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in prose.split_whitespace() {
        let line = lines
            .last_mut()
            .filter(|line| line.is_empty() || line.chars().count() + 1 + word.chars().count() <= columns);
        match line {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) => line.extend([" ", word]),
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

fn is_example(line: &str) -> bool {
    line.starts_with(' ')
}

struct Example<'a> {
    /// The command with its indentation.
    command: &'a str,
    comment: &'a str,
}

impl<'a> Example<'a> {
    fn read(line: &'a str) -> Self {
        let start = line.len() - line.trim_start().len();
        let end = line.get(start..).and_then(|rest| rest.find("  "));
        let (command, comment) = line.split_at(end.map_or(line.len(), |end| start + end));
        Self { command, comment: comment.trim_start() }
    }

    /// Formats the command with its comment, whose lines begin at `column`. The first line of the comment stands beside the
    /// command or below it.
    fn lines(&self, column: usize, columns: usize, is_beside: bool) -> Vec<String> {
        if self.comment.is_empty() {
            return vec![self.command.to_owned()];
        }
        let mut comment = fill(self.comment, columns.saturating_sub(column)).into_iter();
        let first_comment = if is_beside { comment.next() } else { None };
        let first = first_comment
            .map_or_else(|| self.command.to_owned(), |first| format!("{:<column$}{first}", self.command));
        std::iter::once(first).chain(comment.map(|line| format!("{:column$}{line}", ""))).collect()
    }
}

/// Formats examples that follow each other. If all of them fit, they stay as they are; otherwise all comments get one
/// column.
fn examples(lines: &[&str], columns: usize) -> Vec<String> {
    if lines.iter().all(|line| line.chars().count() <= columns) {
        return lines.iter().map(|line| (*line).to_owned()).collect();
    }
    let examples: Vec<Example<'_>> = lines.iter().map(|line| Example::read(line)).collect();
    let commented = examples.iter().filter(|example| !example.comment.is_empty());
    let widest = commented.map(|example| example.command.chars().count()).max();
    let column = widest.unwrap_or_default() + 2;
    let is_beside = column + BESIDE_MIN <= columns;
    let column = if is_beside { column } else { BELOW };
    examples.iter().flat_map(|example| example.lines(column, columns, is_beside)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_filled_and_comments_have_one_column() {
        let text = "One two three four five six seven eight nine ten,\neleven. Examples:\n  do a        it does a, and then it does something else\n  do bb\n\nEnd.";
        assert_eq!(
            wrap(text, 40),
            "One two three four five six seven eight\nnine ten, eleven. Examples:\n\
             \x20 do a  it does a, and then it does\n        something else\n  do bb\n\nEnd."
        );
    }

    #[test]
    fn comments_without_room_beside_their_commands_stand_below() {
        let text = "  do --this --and that    one two three four\n  do it                   five";
        assert_eq!(wrap(text, 40), "  do --this --and that\n      one two three four\n  do it\n      five");
    }

    #[test]
    fn examples_that_fit_stay_as_they_are() {
        let text = "  do a        one\n  do bb       two";
        assert_eq!(wrap(text, 40), text);
    }
}
