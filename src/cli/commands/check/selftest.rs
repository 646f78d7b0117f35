use std::{
    ffi::OsString,
    io,
    os::unix::process::CommandExt as _,
    path::PathBuf,
    process::{Command, ExitCode},
};

use anyhow::anyhow;
use clap::Args;

use crate::cli::{
    GlobalOptions,
    exit::{CommandFailure, UNAVAILABLE},
};

const PROGRAM: &str = "recapd-selftest";

#[derive(Debug, Args)]
#[command(
    disable_help_flag = true,
    after_help = "\
recapd-selftest is a separate program in the same folder as this one. Examples:
  recapd selftest --help                           lists the tests
  recapd selftest window chats/ --budgets 20       checks every request built from these conversations"
)]
pub(crate) struct Selftest {
    /// The arguments of recapd-selftest
    #[arg(value_name = "ARGUMENTS", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl Selftest {
    /// Replaces this process with `recapd-selftest`. Returns only if it can't be started.
    pub(crate) fn run(&self, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        let mut command = Command::new(program()?);
        command.args(&self.arguments);
        for (is_set, option) in [(options.json, "--json"), (options.quiet, "--quiet")] {
            if is_set {
                command.arg(option);
            }
        }
        let error = command.exec();
        Err(if error.kind() == io::ErrorKind::NotFound {
            let cure = "build it with `cargo build -p recapd-selftest`, or install it with \
                        `cargo install --path crates/selftest`";
            CommandFailure::new(UNAVAILABLE, anyhow!("{PROGRAM} is not installed: {cure}"))
        } else {
            CommandFailure::new(UNAVAILABLE, anyhow!("{PROGRAM} can't be started: {error}"))
        })
    }
}

/// Returns the program in the folder of this one, otherwise the first one on the `PATH`.
fn program() -> io::Result<PathBuf> {
    let sibling = std::env::current_exe()?.with_file_name(PROGRAM);
    Ok(if sibling.is_file() { sibling } else { PROGRAM.into() })
}
