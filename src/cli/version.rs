//! `recapd version`

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::{Shared, exit::Failed, output};
use crate::store::schema;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  recapd version
  recapd version --json       with the version of the tables that it makes, on each database")]
pub(super) struct Version {}

/// Which recapd this is.
pub(super) fn facts() -> Value {
    let [sqlite, postgres] = schema::newest();
    json!({
        "name": env!("CARGO_PKG_NAME"),
        "version": env!("CARGO_PKG_VERSION"),
        "schema": { "sqlite": sqlite, "postgres": postgres },
        "features": { "mcp": cfg!(feature = "mcp") },
    })
}

impl Version {
    pub(super) fn run(self, shared: &Shared) -> Result<ExitCode, Failed> {
        let Self {} = self;
        if shared.json {
            output::json(&facts())?;
        } else {
            output::text(concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION")))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
