//! `recapd history`

use std::process::ExitCode;

use clap::Args;

use super::{Shared, exit::Failed, open, output};
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
}
