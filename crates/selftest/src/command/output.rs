//! Prints findings to stdout, everything else to stderr.

use std::io::{ErrorKind, IsTerminal as _, Write as _};

use serde::Serialize;

pub(super) fn is_watched() -> bool {
    std::io::stderr().is_terminal()
}

/// Prints text. A reader that closed the pipe (`| head`) is no error.
pub(super) fn text(text: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    match writeln!(stdout, "{text}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

pub(super) fn json(value: &impl Serialize) -> std::io::Result<()> {
    text(&serde_json::to_string_pretty(value)?)
}

pub(super) fn error(what: &str) {
    // If stderr is closed, there is no one to report to.
    writeln!(std::io::stderr(), "error: {what}").ok();
}
