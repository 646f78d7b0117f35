//! `recapd history`

use std::process::ExitCode;

use clap::Args;

use super::{Shared, exit::Failed, open, output, remote::Remote};
use crate::{
    clock::{Clock as _, SystemClock},
    config::Config,
    domain::{agent::AgentId, history::render_text},
    history::{HistoryQuery, load},
};

#[derive(Debug, Args)]
pub(super) struct History {
    /// The agent
    agent: AgentId,
    /// Show everything, not only the newest exchanges
    #[arg(long)]
    all: bool,
}

impl History {
    pub(super) fn run(self, config: &Config, shared: &Shared) -> Result<ExitCode, Failed> {
        open::block_on(async {
            if let Some(server) = &shared.server {
                return self.ask(&Remote::new(server)?, shared.json).await;
            }
            let store = open::look(config).await?;
            let mut query = HistoryQuery {
                summary_tokens_max: config.summary.max_tokens,
                ..HistoryQuery::default()
            };
            if self.all {
                query = query.all();
            }
            let Some(view) = load(&store, &self.agent, query, SystemClock.now()).await? else {
                return Err(open::unknown(&store, &self.agent).await);
            };
            if shared.json {
                output::json(&view)?;
            } else {
                output::text(&render_text(&view, output::width(), true))?;
            }
            Ok(ExitCode::SUCCESS)
        })
    }

    async fn ask(&self, daemon: &Remote, json: bool) -> Result<ExitCode, Failed> {
        let accept = if json { "application/json" } else { "text/plain" };
        let query = if self.all { "?all=1" } else { "" };
        output::text(
            &daemon
                .get(&format!("/v1/agents/{}/history{query}", self.agent), accept)
                .await?,
        )?;
        Ok(ExitCode::SUCCESS)
    }
}
