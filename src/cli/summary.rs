//! `recapd summary`

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::{Shared, exit::Failed, open, output, remote::Remote};
use crate::{assembly, config::Config, domain::agent::AgentId, snapshot, store::Store as _, tokenizer};

/// Printed for an agent of which nothing has left the window yet.
const NOTHING_YET: &str = "(no summary yet: nothing has left the window)";

#[derive(Debug, Args)]
pub(super) struct Summary {
    /// The agents
    #[arg(required = true, value_name = "AGENT")]
    agents: Vec<AgentId>,
}

impl Summary {
    pub(super) fn run(self, config: &Config, shared: &Shared) -> Result<ExitCode, Failed> {
        open::block_on(async {
            let documents = match &shared.server {
                Some(server) => self.ask(&Remote::new(server)?).await?,
                None => self.read(config).await?,
            };
            if shared.json {
                output::one_or_all(&documents)?;
            } else {
                output::text(&self.text(&documents))?;
            }
            Ok(ExitCode::SUCCESS)
        })
    }

    async fn ask(&self, daemon: &Remote) -> Result<Vec<Value>, Failed> {
        let mut documents = Vec::new();
        for agent in &self.agents {
            let text = daemon
                .get(&format!("/v1/agents/{agent}/summary"), "application/json")
                .await?;
            documents.push(serde_json::from_str(&text).map_err(anyhow::Error::new)?);
        }
        Ok(documents)
    }

    async fn read(&self, config: &Config) -> Result<Vec<Value>, Failed> {
        let store = open::look(config).await?;
        let counter = tokenizer::ceiling_counter();
        let mut documents = Vec::new();
        for agent in &self.agents {
            let Some(row) = store.summary(agent).await? else {
                return Err(open::unknown(&store, agent).await);
            };
            let snapshot = snapshot::render(
                &row.told_by(assembly::summary_policy(config).ageing),
                config.summary.max_tokens,
                counter.as_ref(),
                &assembly::redactor(config),
            );
            documents.push(json!({
                "agent_id": agent,
                "content": snapshot.markdown,
                "tokens": snapshot.tokens,
                "version": snapshot.version,
                "updated_at": snapshot.updated_at,
                "covers_through": snapshot.covers_through,
                "first_exchange": snapshot.first_exchange,
                "pending_exchanges": snapshot.pending_exchanges,
                "pending_since": snapshot.pending_since,
            }));
        }
        Ok(documents)
    }

    /// The documents as they are; with the agents' names above them if there are several.
    fn text(&self, documents: &[Value]) -> String {
        let content = |document: &Value| match document["content"].as_str() {
            None | Some("") => NOTHING_YET.to_owned(),
            Some(content) => content.trim_end().to_owned(),
        };
        let texts: Vec<String> = self
            .agents
            .iter()
            .zip(documents)
            .map(|(agent, document)| match self.agents.len() {
                1 => content(document),
                _ => format!("──── {agent} ────\n\n{}", content(document)),
            })
            .collect();
        texts.join("\n\n")
    }
}
