//! `recapd replay`: runs the daemon's pipeline over recorded conversations, at their own times.

mod feed;
mod report;

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use tempfile::TempDir;

use crate::cli::{
    GlobalOptions, backend::open, conversation_files::ConversationFiles, conversations, exit::CommandFailure,
};
use feed::Feed;
use recapd_config::{Config, Environment, LoadedConfig};
use recapd_core::domain::{agent::AgentId, message::Format, price::Prices};
use recapd_engine::assembly::{self, Parts};
use recapd_platform::clock::{Clock, SystemClock};
use recapd_store::{SqlStore, Store, sqlite};
use report::Report;

const OWNER: &str = "replay";
/// The seed of jitter and nonces, so that each replay gives the same result.
const SEED: u64 = 7;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  recapd replay examples/two-weeks.jsonl           prints history, summary and cost
  recapd replay chat.json --budget 8000            a smaller window
  recapd replay ~/.claude/projects --db work.db    every transcript below a folder, into a permanent database
  recapd replay chat.jsonl --model gpt-5.4-mini    a real model, with the key in OPENAI_API_KEY
  recapd replay chat.jsonl --model qwen3 --set model.mode=ollama

Sessions, exports and message lists of other programs (Gemini CLI, opencode, pi, Copilot CLI, Qwen Code, Cursor, Cline, OpenHands,
AI SDK, LangChain, Converse, Strands Agents, Pydantic-AI, OpenAI Agents, ADK, AutoGen, ATIF, ChatGPT, Claude) are recognised
without --format.

Exit codes: 0 fine; 1 nothing was read, or fewer than 1 in 20 messages are of kinds that a model gets, or an invariant
is broken.")]
pub(crate) struct Replay {
    /// Conversation files, or folders of them, in any format that --format names, or of another known program
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The format of the files [default: detected]
    #[arg(long, value_parser = format_name())]
    format: Option<Format>,
    /// Put everything into this agent [default: the agent or conversation that the file names]
    #[arg(long)]
    agent: Option<AgentId>,
    /// The window's budget in tokens; 0 evicts nothing
    #[arg(long, value_name = "TOKENS", allow_hyphen_values = true, value_parser = tokens)]
    budget: Option<i64>,
    /// The summariser: `offline`, or a model of the configured provider; if that is `offline`, of the
    /// provider whose models have such names
    #[arg(long)]
    model: Option<String>,
    /// True if the database outlives the command.
    #[arg(skip)]
    is_kept: bool,
}

fn tokens(text: &str) -> Result<i64, String> {
    let tokens = text.replace('_', "").parse::<i64>().ok().filter(|tokens| *tokens >= 0);
    tokens.ok_or_else(|| "expected a whole number of tokens, such as 8000; 0 evicts nothing".to_owned())
}

pub(crate) fn format_name() -> impl TypedValueParser<Value = Format> {
    PossibleValuesParser::new(Format::ALL.map(Format::name))
        .try_map(|name| Format::from_name(&name).ok_or_else(|| format!("expected {}", Format::names())))
}

impl Replay {
    /// Returns the settings of this command, which `--set` overrides. Updates don't wait for more messages. Writes needn't
    /// survive a power failure, because the input can be read again.
    pub(crate) fn settings(&self) -> Vec<String> {
        let mut settings: Vec<String> = [
            "queue.batch_exchanges=1",
            "queue.batch_tokens_min=0",
            "queue.debounce_ms=0",
            "queue.max_wait_ms=0",
            "database.synchronous=normal",
            // Whoever names a model wants to see the result of that model.
            "fallback.mode=none",
        ]
        .map(str::to_owned)
        .to_vec();
        settings.extend(self.budget.map(|budget| format!("window.budget_tokens={budget}")));
        match self.model.as_deref() {
            None => {}
            Some("offline") => settings.push("model.mode=offline".to_owned()),
            Some(model) => settings.push(format!("model.model={model}")),
        }
        settings
    }

    pub(crate) fn run(
        mut self,
        loaded: &LoadedConfig,
        options: &GlobalOptions,
        environment: &Environment,
    ) -> Result<ExitCode, CommandFailure> {
        let listed = ConversationFiles::list(&self.files)?;
        let (mut config, temporary) = place_database(&loaded.config, options)?;
        self.is_kept = temporary.is_none();
        if let Some(model) = self.model.as_deref().filter(|model| *model != "offline") {
            config.model.mode = config.model.mode.or_of(model);
        }
        let report = open::block_on(self.replay(&config, loaded.prices.clone(), environment, &listed.files))?;
        drop(temporary);
        report.print(options.json)
    }

    async fn replay(
        &self,
        config: &Config,
        prices: Prices,
        environment: &Environment,
        files: &[PathBuf],
    ) -> Result<Report, CommandFailure> {
        let store = Arc::new(SqlStore::open(&assembly::database_settings(&config.database)).await?);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let model = open::models(config, environment, &clock)?.model;
        let dyn_store: Arc<dyn Store> = store.clone();
        let parts = Parts::new((config, prices), dyn_store, model, clock, OWNER, SEED);
        let started_at = parts.clock.now();
        let mut feed = Feed::new(parts.clone(), self.agent.clone(), files);
        for (file, name) in files.iter().zip(conversations::names(files)) {
            feed.read(file, name.as_deref(), self.format).await?;
        }
        let outcome = feed.finish().await?;
        if self.is_kept {
            parts.ingestor.index_all().await?;
        }
        let duration_ms = parts.clock.now().since_ms(started_at);
        Report::of(&parts, config, outcome, duration_ms).await
    }
}

/// Uses the database that `--db` names, otherwise one in a temporary folder, which is deleted afterwards.
fn place_database(
    config: &Config,
    options: &GlobalOptions,
) -> Result<(Config, Option<TempDir>), CommandFailure> {
    let mut config = config.clone();
    if options.db.is_some() {
        return Ok((config, None));
    }
    let folder = tempfile::Builder::new().prefix("recapd-replay-").tempdir()?;
    config.database.url = sqlite::url_of(&folder.path().join("replay.db"));
    Ok((config, Some(folder)))
}
