//! What the commands print: the one place that writes to stdout and stderr.

use std::io::{ErrorKind, Write as _};

use serde::Serialize;

/// Columns of an output that isn't a terminal's.
const COLUMNS: usize = 80;

/// Prints text to stdout. A reader that went away (`| head`) is no error.
pub(super) fn text(text: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| {
        let line_end: &[u8] = if text.ends_with('\n') { b"" } else { b"\n" };
        stdout.write_all(line_end)
    });
    match written.and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Prints a value as JSON to stdout.
pub(super) fn json(value: &impl Serialize) -> std::io::Result<()> {
    text(&serde_json::to_string_pretty(value).map_err(std::io::Error::other)?)
}

/// Prints one value as JSON, several as an array.
pub(super) fn one_or_all(values: &[impl Serialize]) -> std::io::Result<()> {
    match values {
        [value] => json(value),
        values => json(&values),
    }
}

/// Prints a line to stderr.
#[expect(clippy::print_stderr, reason = "the one place that prints errors and notes")]
pub(super) fn error(line: &str) {
    eprintln!("{line}");
}

/// Columns to use.
pub(super) fn width() -> usize {
    COLUMNS
}

/// A factor in thousandths, as people read it: 1,115 is 1.12.
pub(super) fn factor(permille: i64) -> String {
    let percent = (permille + 5) / 10;
    format!("{}.{:02}", percent / 100, percent % 100)
}
