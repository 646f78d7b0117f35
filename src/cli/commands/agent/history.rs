mod colour;

use std::{process::ExitCode, time::Duration};

use clap::Args;
use serde_json::Value;

use crate::cli::{
    GlobalOptions,
    backend::{api::Api, open},
    exit::CommandFailure,
    terminal::output,
};
use recapd_api::history::{HistoryQuery, load};
use recapd_config::Config;
use recapd_core::domain::{
    agent::AgentId,
    history::{HistoryView, render_text},
};
use recapd_platform::clock::{Clock as _, SystemClock};
use recapd_store::StoreError;

/// How often `--follow` checks for changes.
const LOOK_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
#[command(after_help = "\
The model sees what is below the line, and no longer sees what is above it. `waiting for the next summary` is in neither.
Examples:
  recapd history my-agent
  recapd history my-agent --all | less
  recapd history my-agent --exchange 38 --tokens     one exchange line by line, with the tokens of each message
  recapd history my-agent --follow                   prints it again after each change, until Ctrl-C
  recapd history my-agent --json                     states, tokens, times and versions, for programs")]
pub(crate) struct History {
    /// The agents
    #[arg(required = true, value_name = "AGENT")]
    agents: Vec<AgentId>,
    /// Show all exchanges, not only the newest ones
    #[arg(long, conflicts_with = "exchange")]
    all: bool,
    /// Show only this exchange, with all its lines
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    exchange: Option<i64>,
    /// Show the tokens of each message, and also the results of tools
    #[arg(long)]
    tokens: bool,
    /// Print the history again after each change, until interrupted
    #[arg(long)]
    follow: bool,
}

impl History {
    pub(crate) fn run(self, config: &Config, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        open::block_on(async {
            let mut previous = None;
            loop {
                let text = match &options.server {
                    Some(server) => self.ask(&Api::new(server)?, options.json).await?,
                    None => views_text(&self.read(config).await?, options.json)?,
                };
                if previous.as_ref() != Some(&text) {
                    output::frame(&colour_text(&text, options.json), self.follow)?;
                    previous = Some(text);
                }
                if !self.follow {
                    return Ok(ExitCode::SUCCESS);
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        })
    }

    /// Returns the query string of the request.
    fn parameters(&self) -> String {
        let parameters = [
            self.all.then(|| "all=1".to_owned()),
            self.exchange.map(|number| format!("exchange={number}")),
            self.tokens.then(|| "tokens=1".to_owned()),
        ];
        let parameters: Vec<String> = parameters.into_iter().flatten().collect();
        if parameters.is_empty() { String::new() } else { format!("?{}", parameters.join("&")) }
    }

    async fn ask(&self, daemon: &Api, json: bool) -> Result<String, CommandFailure> {
        let accept = if json { "application/json" } else { "text/plain" };
        let mut texts = Vec::new();
        for agent in &self.agents {
            let path = format!("/v1/agents/{agent}/history{}", self.parameters());
            texts.push(daemon.get(&path, accept).await?);
        }
        if json {
            let values: Result<Vec<Value>, _> = texts.iter().map(|text| serde_json::from_str(text)).collect();
            return Ok(output::one_or_all_text(&values.map_err(anyhow::Error::new)?)?);
        }
        Ok(texts.join("\n"))
    }

    async fn read(&self, config: &Config) -> Result<Vec<HistoryView>, CommandFailure> {
        let store = open::look(config).await?;
        let query = HistoryQuery {
            only: self.exchange,
            tokens: self.tokens,
            summary_tokens_max: config.summary.max_tokens,
            convergence: config.convergence.rules(),
            ..HistoryQuery::default()
        };
        let query = if self.all { query.all() } else { query };
        let redactor = config.summary.redactor();
        let mut views = Vec::new();
        for agent in &self.agents {
            let found = load(&store, agent, query, SystemClock.now(), &redactor).await;
            let Some(view) = found.map_err(|error| unknown_exchange(agent, error))? else {
                return Err(open::unknown(&store, agent).await);
            };
            views.push(view);
        }
        Ok(views)
    }
}

fn unknown_exchange(agent: &AgentId, error: StoreError) -> CommandFailure {
    match error {
        StoreError::UnknownExchange(number) => CommandFailure::not_found(format!(
            "`{agent}` has no exchange {number}; `recapd history {agent} --all` lists its exchanges"
        )),
        error => error.into(),
    }
}

fn views_text(views: &[HistoryView], json: bool) -> Result<String, CommandFailure> {
    if json {
        return Ok(output::one_or_all_text(views)?);
    }
    let texts = views.iter().map(|view| render_text(view, output::width()));
    Ok(texts.collect::<Vec<_>>().join("\n"))
}

fn colour_text(text: &str, json: bool) -> String {
    if !json && output::has_colour() { colour::colour_text(text) } else { text.to_owned() }
}
