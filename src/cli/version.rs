//! `recapd version`

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::{Shared, exit::Failed, output};
use crate::store::schema;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  recapd version
  recapd version --json       with the version of the tables that it makes, on each database")]
pub(super) struct Version {}

impl Version {
    pub(super) fn run(self, shared: &Shared) -> Result<ExitCode, Failed> {
        let Self {} = self;
        let (name, version) = (env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
        if !shared.json {
            output::text(&format!("{name} {version}"))?;
            return Ok(ExitCode::SUCCESS);
        }
        let [sqlite, postgres] = schema::newest();
        output::json(&json!({
            "name": name,
            "version": version,
            "schema": { "sqlite": sqlite, "postgres": postgres },
            "features": { "mcp": cfg!(feature = "mcp") },
        }))?;
        Ok(ExitCode::SUCCESS)
    }
}
