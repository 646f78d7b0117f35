use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use crate::cli::{GlobalOptions, exit::CommandFailure, terminal::answer};
use recapd_store::schema;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  recapd version
  recapd version --json       with the newest schema version of each database")]
pub(crate) struct VersionCommand {}

/// Returns recapd's version, and its newest schema versions.
pub(crate) fn facts() -> Value {
    let [sqlite, postgres] = schema::newest();
    json!({
        "name": env!("CARGO_PKG_NAME"),
        "version": env!("CARGO_PKG_VERSION"),
        "schema": { "sqlite": sqlite, "postgres": postgres },
    })
}

impl VersionCommand {
    pub(crate) fn run(self, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        let Self {} = self;
        answer::print(options, &facts(), concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION")))
    }
}
