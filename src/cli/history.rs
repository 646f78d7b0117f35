//! `recapd history`

mod colour;

use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use super::{Shared, exit::Failed, open, output, remote::Remote};
use crate::{
    clock::{Clock as _, SystemClock},
    config::Config,
    domain::{
        agent::AgentId,
        history::{HistoryView, render_text},
    },
    history::{HistoryQuery, load},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Above the rule stands what the model doesn't see any more, below it what it sees. `waiting for the next summary` is in neither.
Examples:
  recapd history my-agent
  recapd history my-agent --all | less
  recapd history my-agent --json            states, tokens, times and versions, for programs")]
pub(super) struct History {
    /// The agents
    #[arg(required = true, value_name = "AGENT")]
    agents: Vec<AgentId>,
    /// Show everything, not only the newest exchanges
    #[arg(long)]
    all: bool,
}

impl History {
    pub(super) fn run(self, config: &Config, shared: &Shared) -> Result<ExitCode, Failed> {
        open::block_on(async {
            match &shared.server {
                Some(server) => self.ask(&Remote::new(server)?, shared.json).await?,
                None => show(&self.read(config).await?, shared.json)?,
            }
            Ok(ExitCode::SUCCESS)
        })
    }

    async fn ask(&self, daemon: &Remote, json: bool) -> Result<(), Failed> {
        let accept = if json { "application/json" } else { "text/plain" };
        let query = if self.all { "?all=1" } else { "" };
        let mut texts = Vec::new();
        for agent in &self.agents {
            texts.push(
                daemon
                    .get(&format!("/v1/agents/{agent}/history{query}"), accept)
                    .await?,
            );
        }
        if json {
            let values: Result<Vec<Value>, _> = texts.iter().map(|text| serde_json::from_str(text)).collect();
            return Ok(output::one_or_all(&values.map_err(anyhow::Error::new)?)?);
        }
        print(&texts)
    }

    async fn read(&self, config: &Config) -> Result<Vec<HistoryView>, Failed> {
        let store = open::look(config).await?;
        let few = HistoryQuery {
            summary_tokens_max: config.summary.max_tokens,
            convergence: config.convergence.rules(),
            ..HistoryQuery::default()
        };
        let query = if self.all { few.all() } else { few };
        let mut views = Vec::new();
        for agent in &self.agents {
            let Some(view) = load(&store, agent, query, SystemClock.now()).await? else {
                return Err(open::unknown(&store, agent).await);
            };
            views.push(view);
        }
        Ok(views)
    }
}

fn show(views: &[HistoryView], json: bool) -> Result<(), Failed> {
    if json {
        return Ok(output::one_or_all(views)?);
    }
    let texts: Vec<String> = views
        .iter()
        .map(|view| render_text(view, output::width()))
        .collect();
    print(&texts)
}

fn print(texts: &[String]) -> Result<(), Failed> {
    let text = texts.join("\n");
    let text = if output::has_colour() {
        colour::coloured(&text)
    } else {
        text
    };
    Ok(output::text(&text)?)
}
