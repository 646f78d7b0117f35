//! `recapd update`: requests an update of a summary now.

use std::{process::ExitCode, sync::Arc, time::Duration};

use clap::Args;
use serde_json::json;
use tokio::time::Instant;

use crate::cli::{
    GlobalOptions,
    backend::{api::Api, open},
    exit::{CommandFailure, NOT_FOUND, RETRY_LATER},
    terminal::{
        answer,
        figures::{duration, thousands},
    },
};
use recapd_config::{Environment, LoadedConfig};
use recapd_core::domain::{agent::AgentId, number::count};
use recapd_engine::assembly::Parts;
use recapd_platform::{
    clock::{Clock, SystemClock},
    randomness,
};
use recapd_store::operate::{QueueRow, QueueState, QueueWait, Run, RunOutcome};

/// How often to check whether the update is done.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Default and maximum of `--timeout`, in seconds.
const WAIT_SECONDS: u64 = 600;
const WAIT_SECONDS_MAX: u64 = 86_400;

#[derive(Debug, Args)]
#[command(after_help = "\
Makes the update due now, even if it waits for more exchanges, a retry or a batch.
Examples:
  recapd update my-agent            requests an update; a daemon makes it
  recapd update my-agent --wait     and waits; without a daemon, this command makes the update

Exit codes: 0 done, 1 failed, 3 unknown agent, 75 not done yet.")]
pub(crate) struct Update {
    /// The agent
    agent: AgentId,
    /// Wait until the update is done
    #[arg(long)]
    wait: bool,
    /// Wait at most this long
    #[arg(long, default_value_t = WAIT_SECONDS, value_name = "SECONDS", requires = "wait",
        value_parser = clap::value_parser!(u64).range(1..=WAIT_SECONDS_MAX))]
    timeout: u64,
}

impl Update {
    pub(crate) fn run(
        self,
        loaded: &LoadedConfig,
        options: &GlobalOptions,
        environment: &Environment,
    ) -> Result<ExitCode, CommandFailure> {
        let config = &loaded.config;
        open::block_on(async {
            let api = Api::changing(config, options).await?;
            let earlier_run = api.last_run(&self.agent).await?.map_or(0, |run| run.run);
            let row = api.refresh(&self.agent).await?;
            if !self.wait {
                let text = format!("requested an update of {}", self.agent);
                return answer::print(options, &row, &text);
            }
            let parts = match api.database() {
                None => None,
                Some(store) => {
                    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
                    let model = open::models(config, environment, &clock)?.model;
                    let owner = format!("{}-update-{}", config.owner(), std::process::id());
                    Some(Parts::new(
                        (config, loaded.prices.clone()),
                        Arc::clone(store) as _,
                        model,
                        clock,
                        &owner,
                        randomness::seed()?,
                    ))
                }
            };
            self.wait_for_end(&api, parts, earlier_run, options).await
        })
    }

    /// Waits until a run after `earlier_run` ends the update. Without a daemon, `parts` make the update.
    async fn wait_for_end(
        &self,
        api: &Api,
        parts: Option<Parts>,
        earlier_run: i64,
        options: &GlobalOptions,
    ) -> Result<ExitCode, CommandFailure> {
        let deadline = Instant::now() + Duration::from_secs(self.timeout);
        let result = loop {
            if let (Some(parts), Some(store)) = (&parts, api.database()) {
                parts.worker.drain_one(&self.agent, store.as_ref()).await?;
            }
            let row = self.row(api).await?;
            if let Some(result) = self.result(api, row.as_ref(), earlier_run).await? {
                break result;
            }
            if Instant::now() >= deadline {
                let waited = format!("{} isn't updated yet after {} s", self.agent, self.timeout);
                let cure = format!("`recapd queue show {}` says what it waits for", self.agent);
                return Err(CommandFailure::new(RETRY_LATER, anyhow::anyhow!("{waited}; {cure}")));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        };
        match result {
            UpdateResult::Done(None) => {
                let text = format!("{} was up to date", self.agent);
                answer::print(options, &json!({ "agent_id": self.agent, "run": null }), &text)
            }
            UpdateResult::Done(Some(run)) => {
                answer::print(options, &json!({ "agent_id": self.agent, "run": run }), &line(&run))
            }
            UpdateResult::Failed(why) => Err(anyhow::anyhow!("{}: {why}", self.agent).into()),
        }
    }

    async fn row(&self, api: &Api) -> Result<Option<QueueRow>, CommandFailure> {
        match api.row(&self.agent).await {
            Err(failure) if failure.code() == NOT_FOUND => Ok(None),
            row => row.map(Some),
        }
    }

    /// Returns how the update ended; `None` if it hasn't ended.
    async fn result(
        &self,
        api: &Api,
        row: Option<&QueueRow>,
        earlier_run: i64,
    ) -> Result<Option<UpdateResult>, CommandFailure> {
        let last = api.last_run(&self.agent).await?.filter(|run| run.run > earlier_run);
        let is_written = last.as_ref().is_some_and(|run| run.outcome == RunOutcome::Completed);
        let Some(row) = row else {
            return Ok(Some(UpdateResult::Done(last.filter(|_| is_written).map(Box::new))));
        };
        let error = || row.last_error.clone().unwrap_or_else(|| "the update was stopped".to_owned());
        Ok(match row.state {
            QueueState::Parked => Some(UpdateResult::Failed(format!("{}; the update is parked", error()))),
            QueueState::Paused => {
                let resume = format!("`recapd agents resume {}` resumes them", self.agent);
                Some(UpdateResult::Failed(match row.paused_for.as_deref() {
                    None | Some("operator") => format!("its updates are paused; {resume}"),
                    Some(limit) => format!(
                        "its updates are paused because of the limit {limit}; `recapd status` shows the figures"
                    ),
                }))
            }
            // The attempt failed, and another one follows after the backoff.
            QueueState::Scheduled if row.waits_for == Some(QueueWait::Backoff) => None,
            QueueState::Scheduled if is_written => Some(UpdateResult::Done(last.map(Box::new))),
            QueueState::Ready | QueueState::Running | QueueState::Scheduled => None,
        })
    }
}

enum UpdateResult {
    /// The update is done; without a run if there was nothing to do.
    Done(Option<Box<Run>>),
    /// The update failed and won't be retried. The text says why.
    Failed(String),
}

fn line(run: &Run) -> String {
    let size = match run.document_tokens.unwrap_or_default() {
        0 => ", archived because all of it is older than summary.week_hours,".to_owned(),
        tokens => format!(" of {} tokens", thousands(tokens)),
    };
    format!(
        "updated {}: version {}{size} through #{}, {} in {}",
        run.agent_id,
        run.version.unwrap_or_default(),
        run.covers_through.unwrap_or_default(),
        count(run.exchanges, "exchange"),
        duration(run.duration_ms)
    )
}
