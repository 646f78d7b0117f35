//! What is printed: findings to stdout, everything else to stderr.

use std::io::{ErrorKind, IsTerminal as _, Write as _};

use serde::Serialize;

/// Whether somebody sees progress.
pub(super) fn is_watched() -> bool {
    std::io::stderr().is_terminal()
}

/// Prints text. A reader that went away (`| head`) is no error.
pub(super) fn text(text: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    match writeln!(stdout, "{text}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Prints one JSON document.
pub(super) fn json(value: &impl Serialize) -> std::io::Result<()> {
    text(&serde_json::to_string_pretty(value)?)
}

/// Prints what is wrong.
pub(super) fn error(what: &str) {
    // Nobody is left who could be told that stderr is closed.
    writeln!(std::io::stderr(), "error: {what}").ok();
}
