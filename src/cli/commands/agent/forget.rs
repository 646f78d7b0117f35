use std::{process::ExitCode, sync::Arc, time::Duration};

use clap::Args;
use indicatif::ProgressBar;
use serde_json::json;
use tokio::time::Instant;

use crate::{
    cli::{
        GlobalOptions,
        backend::{api::Api, open},
        exit::CommandFailure,
        terminal::{output, ticker::Ticker},
    },
    hook::{self, ForgetScope},
};
use recapd_api::recall::{RANGE_MAX, Range};
use recapd_config::{Config, Environment};
use recapd_core::domain::{
    agent::AgentId,
    legs::ranges,
    number::{count, usize_or_max},
};
use recapd_engine::{
    assembly,
    ingest::{DeleteReply, ForgetReply, Ingestor, LegsLeft},
};
use recapd_platform::clock::SystemClock;
use recapd_store::{FORGET_EXCHANGES_MAX, Forgettable, SqlStore, Store, StoreError};

/// How often the progress is read.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long to wait for a hook that is sending messages of the agent. No hook takes longer than a second.
const HOOK_PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
#[command(after_help = "\
Removes messages for good: from the archive, from every agent that was forked later, from summaries and their earlier versions,
from the search index, and from the live journal of the daemon that is asked (each daemon has its own). Their numbers and times
stay. Also removes the brief that your hooks store and, with --all, what they couldn't deliver.
Repetitions in later exchanges, exports and backups aren't touched. A long exchange has several numbers, one for each leg:
name all of them ('#14–#19'); legs that you don't name are listed. Examples:
  recapd forget my-agent 38 '#12–#14'
  recapd forget my-agent --message 17
  recapd forget my-agent --all --yes my-agent                the agent with all its data")]
pub(crate) struct Forget {
    /// The agent
    agent: AgentId,
    /// The exchanges: 38, '#38', or '#12–#14'
    #[arg(value_name = "N", value_parser = Range::read)]
    exchanges: Vec<Range>,
    /// One message, by its number
    #[arg(long, value_name = "SEQ", conflicts_with = "exchanges")]
    message: Option<i64>,
    /// The whole agent
    #[arg(long, conflicts_with_all = ["exchanges", "message"], requires = "yes")]
    all: bool,
    /// The agent's id again, to confirm the deletion
    #[arg(long, value_name = "AGENT", requires = "all")]
    yes: Option<AgentId>,
}

impl Forget {
    pub(crate) fn run(
        self,
        config: &Config,
        options: &GlobalOptions,
        environment: &Environment,
    ) -> Result<ExitCode, CommandFailure> {
        if self.all {
            return self.delete(config, options, environment);
        }
        let numbers: Vec<i64> = self.exchanges.iter().flat_map(|range| range.numbers()).collect();
        let (forgettable, body) = match (self.message, numbers.len()) {
            (Some(seq), _) => (Forgettable::Message(seq), json!({ "message": seq })),
            (None, 1..=FORGET_EXCHANGES_MAX) => {
                let body = json!({ "exchanges": &numbers });
                (Forgettable::Exchanges(numbers), body)
            }
            (None, 0) => {
                return Err(CommandFailure::usage("name exchanges, --message SEQ or --all".to_owned()));
            }
            (None, count) => {
                let text = format!(
                    "{count} exchanges are named; at most {FORGET_EXCHANGES_MAX} are allowed at once"
                );
                return Err(CommandFailure::usage(text));
            }
        };
        let agent = &self.agent;
        let reply: ForgetReply = open::block_on(async {
            if let Some(server) = &options.server {
                let path = format!("/v1/agents/{agent}/forget");
                return Api::new(server)?.post(&path, &body).await;
            }
            let (ingestor, store) = ingestor(config, agent).await?;
            Ok(with_progress(store.as_ref(), agent, ingestor.forget(agent, forgettable)).await?)
        })?;
        if options.json {
            output::json(&reply)?;
        } else {
            output::text(&report(agent, &reply))?;
        }
        for agent in reply.agents.iter().chain([agent]) {
            forget_in_hooks(environment, agent, ForgetScope::Messages)?;
        }
        Ok(if reply.scrubbed && reply.journals_left.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }

    fn delete(
        &self,
        config: &Config,
        options: &GlobalOptions,
        environment: &Environment,
    ) -> Result<ExitCode, CommandFailure> {
        let agent = &self.agent;
        if self.yes.as_ref() != Some(agent) {
            return Err(CommandFailure::usage(format!(
                "to delete `{agent}`, repeat its id: --all --yes {agent}"
            )));
        }
        let reply: DeleteReply = open::block_on(async {
            match &options.server {
                Some(server) => {
                    let path = format!("/v1/agents/{agent}?confirm={agent}");
                    Api::new(server)?.delete(&path).await
                }
                None => delete_here(config, agent).await,
            }
        })?;
        if options.json {
            output::json(&reply)?;
        } else {
            let mut text = format!("deleted {agent} with {}", count(reply.messages, "message"));
            if !reply.journal_removed {
                text.push_str("; its live journal couldn't be removed");
            }
            text.push_str(disk_note(reply.scrubbed));
            output::text(&text)?;
        }
        forget_in_hooks(environment, agent, ForgetScope::Agent)?;
        Ok(if reply.scrubbed && reply.journal_removed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Removes what the user's hooks on this machine still store of the agent.
fn forget_in_hooks(
    environment: &Environment,
    agent: &AgentId,
    scope: ForgetScope,
) -> Result<(), CommandFailure> {
    let deadline = Instant::now() + HOOK_PATIENCE;
    hook::forget(environment, agent, scope, deadline).map_err(|error| {
        let text =
            format!("{agent} is forgotten, but your hooks still store something of it: {error}; try again");
        CommandFailure::from(anyhow::anyhow!(text))
    })
}

/// Deletes an agent from the database, and its file from the live journal even if the database no longer has the agent.
async fn delete_here(config: &Config, agent: &AgentId) -> Result<DeleteReply, CommandFailure> {
    let store = open::work(config).await?;
    let dyn_store: Arc<dyn Store> = Arc::<SqlStore>::clone(&store);
    let ingestor = assembly::ingestor_alone(config, dyn_store, Arc::new(SystemClock)).await?;
    let journal = assembly::live_journal(&config.journal, Arc::<SqlStore>::clone(&store))?;
    match ingestor.with_journal(journal).delete(agent).await {
        Err(StoreError::UnknownAgent(_)) => Err(open::unknown(store.as_ref(), agent).await),
        deleted => Ok(deleted?),
    }
}

/// Returns an ingestor over the database, with the configured live journal.
async fn ingestor(config: &Config, agent: &AgentId) -> Result<(Ingestor, Arc<SqlStore>), CommandFailure> {
    let store = open::work(config).await?;
    if store.agent(agent).await?.is_none() {
        return Err(open::unknown(store.as_ref(), agent).await);
    }
    let dyn_store: Arc<dyn Store> = Arc::<SqlStore>::clone(&store);
    let ingestor = assembly::ingestor_alone(config, dyn_store, Arc::new(SystemClock)).await?;
    let journal = assembly::live_journal(&config.journal, Arc::<SqlStore>::clone(&store))?;
    Ok((ingestor.with_journal(journal), store))
}

/// Waits for `forgetting`, and shows how many exchanges are left.
async fn with_progress<T>(store: &dyn Store, agent: &AgentId, forgetting: impl Future<Output = T>) -> T {
    let bar = if output::shows_progress() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
    let ticker = Ticker::new(&bar);
    let mut look = tokio::time::interval(LOOK_EVERY);
    let mut forgetting = std::pin::pin!(forgetting);
    loop {
        tokio::select! {
            done = &mut forgetting => {
                bar.finish_and_clear();
                return done;
            }
            _ = look.tick() => {
                // If the query fails, the next tick repeats it.
                if let Ok(remaining @ 1..) = store.forgettings_left(agent).await {
                    let text = format!("{} left", count(remaining, "exchange"));
                    ticker.tell(|| format!("forgetting  {text}"));
                    bar.set_message(text);
                }
            }
        }
    }
}

fn report(agent: &AgentId, reply: &ForgetReply) -> String {
    if reply.messages == 0 {
        return "there was nothing to forget".to_owned();
    }
    let numbers: Vec<String> = reply.exchanges.iter().map(|number| format!("#{number}")).collect();
    let agents: Vec<&str> = reply.agents.iter().map(AgentId::as_str).collect();
    let mut text = format!(
        "forgot {} of {} in {}: also removed {} of summaries and {}",
        count(reply.messages, "message"),
        numbers.join(", "),
        agents.join(", "),
        count(reply.items, "item"),
        count(reply.versions, "earlier version")
    );
    if !reply.journals_left.is_empty() {
        let remaining: Vec<&str> = reply.journals_left.iter().map(AgentId::as_str).collect();
        text = format!("{text}; the live journals of {} couldn't be rewritten", remaining.join(", "));
    }
    text.push_str(disk_note(reply.scrubbed));
    let remaining = reply.legs_left.iter().map(|remaining| report_remaining(agent, remaining));
    std::iter::once(text).chain(remaining).collect::<Vec<_>>().join("\n")
}

/// Formats which legs of an exchange remain, and how to forget them.
fn report_remaining(agent: &AgentId, remaining: &LegsLeft) -> String {
    let ranges = ranges(&remaining.legs, usize_or_max(RANGE_MAX));
    let (is, what) = match remaining.legs.len() {
        1 => ("is", "it"),
        _ => ("are", "them"),
    };
    format!(
        "{} of the same exchange {is} left, which began with #{}; to forget {what}, too:\n  recapd forget {agent} '{}'",
        ranges.join(", "),
        remaining.exchange,
        ranges.join("' '")
    )
}

/// Returns the note about data that stays on disk for a while.
fn disk_note(is_scrubbed: bool) -> &'static str {
    if is_scrubbed {
        ""
    } else {
        "; another process still reads an earlier state of the database, so the data stays on disk until the next checkpoint or vacuum"
    }
}
