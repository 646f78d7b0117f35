//! `recapd health`: tells containers and service managers whether the daemon works.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use crate::cli::{
    GlobalOptions,
    backend::{
        api::{self, Api, NotReady},
        open, target,
    },
    exit::{CommandFailure, UNAVAILABLE, UNHEALTHY},
    terminal::output,
};
use recapd_config::Config;

#[derive(Debug, Args)]
#[command(after_help = "\
Asks the daemon at http.listen, or at --server. The model isn't checked: without it, reading and appending still work.
Examples:
  recapd health               ready: the database answers, and the daemon isn't stopping
  recapd health --live        live: the daemon answers at all

Exit codes: 0 yes, 4 no, 69 no daemon answers. In a Containerfile: HEALTHCHECK CMD [\"recapd\", \"health\"]")]
pub(crate) struct Health {
    /// Only check that the daemon answers
    #[arg(long, conflicts_with = "ready")]
    live: bool,
    /// Check that the daemon can work (the default)
    #[arg(long)]
    ready: bool,
}

impl Health {
    pub(crate) fn run(self, config: &Config, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        let (path, word) = if self.live { ("/livez", "live") } else { ("/readyz", "ready") };
        if let Some(server) = &options.server {
            // Fails for a malformed address, which says nothing about the daemon.
            Api::new(server)?;
        }
        let result =
            open::block_on(async { Ok(api::answers(options.server.as_ref(), &config.http, path).await) })?;
        match result {
            Ok(()) if options.json => output::json(&json!({ "ok": true, "check": word }))?,
            Ok(()) => output::text(word)?,
            Err(NotReady::Away | NotReady::Silent(_)) => {
                let address = match &options.server {
                    Some(server) => server.base.clone(),
                    None => target::base(&config.http),
                };
                return Err(CommandFailure::new(
                    UNAVAILABLE,
                    anyhow::anyhow!(
                        "no daemon answers at {address}; start the daemon with `recapd serve`, or name it with --server"
                    ),
                ));
            }
            Err(NotReady::Says(why)) => {
                return Err(CommandFailure::new(UNHEALTHY, anyhow::anyhow!("not {word}: {why}")));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
