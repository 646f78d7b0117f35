//! `recapd summary`

use std::{process::ExitCode, sync::Arc};

use clap::Args;
use serde_json::json;

use super::{Shared, exit::Failed, open, output, remote::Remote};
use crate::{config::Config, domain::agent::AgentId, snapshot, store::Store as _, tokenizer};

/// Printed for an agent of which nothing has left the window yet.
const NOTHING_YET: &str = "(no summary yet: nothing has left the window)";

#[derive(Debug, Args)]
pub(super) struct Summary {
    /// The agent
    agent: AgentId,
}

impl Summary {
    pub(super) fn run(self, config: &Config, shared: &Shared) -> Result<ExitCode, Failed> {
        open::block_on(async {
            if let Some(server) = &shared.server {
                return self.ask(&Remote::new(server)?, shared.json).await;
            }
            let store = Arc::new(open::look(config).await?);
            let Some(row) = store.summary(&self.agent).await? else {
                return Err(open::unknown(store.as_ref(), &self.agent).await);
            };
            let counter = tokenizer::ceiling_counter();
            let snapshot = snapshot::render(&row, config.summary.max_tokens, counter.as_ref());
            if shared.json {
                output::json(&json!({
                    "agent_id": self.agent,
                    "content": snapshot.markdown,
                    "tokens": snapshot.tokens,
                    "version": snapshot.version,
                    "updated_at": snapshot.updated_at,
                    "covers_through": snapshot.covers_through,
                    "first_exchange": snapshot.first_exchange,
                    "pending_exchanges": snapshot.pending_exchanges,
                    "pending_since": snapshot.pending_since,
                }))?;
            } else if snapshot.markdown.is_empty() {
                output::text(NOTHING_YET)?;
            } else {
                output::text(&snapshot.markdown)?;
            }
            Ok(ExitCode::SUCCESS)
        })
    }

    async fn ask(&self, daemon: &Remote, json: bool) -> Result<ExitCode, Failed> {
        let accept = if json { "application/json" } else { "text/markdown" };
        let text = daemon
            .get(&format!("/v1/agents/{}/summary", self.agent), accept)
            .await?;
        output::text(if text.is_empty() { NOTHING_YET } else { &text })?;
        Ok(ExitCode::SUCCESS)
    }
}
