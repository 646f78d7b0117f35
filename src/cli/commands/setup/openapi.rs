//! `recapd openapi`: prints the description of the HTTP interface that a daemon of this version serves.

use std::process::ExitCode;

use clap::Args;

use crate::cli::{exit::CommandFailure, terminal::output};
use recapd_api::http;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  recapd openapi > openapi.json
  recapd openapi --markdown > docs/api.md
A daemon serves the same document at /v1/openapi.json.")]
pub(crate) struct Openapi {
    /// Print the documentation page
    #[arg(long)]
    markdown: bool,
}

impl Openapi {
    pub(crate) fn run(self) -> Result<ExitCode, CommandFailure> {
        if self.markdown {
            output::text(&http::openapi_reference(&http::openapi_document()))?;
        } else {
            output::json(&http::openapi_document())?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
