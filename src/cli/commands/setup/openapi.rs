//! `recapd openapi`: the description of the HTTP interface, as a daemon of this version serves it.

use std::process::ExitCode;

use clap::Args;

use crate::cli::{exit::CommandFailure, terminal::output};
use recapd_api::http;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  recapd openapi > openapi.json
  recapd openapi --markdown > docs/api.md
A daemon serves the same at /v1/openapi.json.")]
pub(crate) struct Openapi {
    /// As the page of the documentation
    #[arg(long)]
    markdown: bool,
}

impl Openapi {
    pub(crate) fn run(self) -> Result<ExitCode, CommandFailure> {
        if self.markdown {
            output::text(&http::openapi_reference())?;
        } else {
            output::json(&http::openapi_document())?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
