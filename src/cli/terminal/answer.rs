//! Prints a command's answer, as JSON or as text.

use std::process::ExitCode;

use serde::Serialize;

use super::output;
use crate::cli::{GlobalOptions, exit::CommandFailure};

/// Prints `value` as JSON if the command line asks for that, otherwise the text.
pub(crate) fn print(
    options: &GlobalOptions,
    value: &impl Serialize,
    text: &str,
) -> Result<ExitCode, CommandFailure> {
    if options.json {
        output::json(value)?;
    } else {
        output::text(text)?;
    }
    Ok(ExitCode::SUCCESS)
}
