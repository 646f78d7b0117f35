//! `recapd status`: the seed's dashboard block, from the database, so that a restart doesn't zero it.

mod batches;
mod spend;

use std::process::ExitCode;

use clap::Args;
use serde::{Deserialize, Serialize};

use super::{
    Shared,
    exit::Failed,
    figures::{permille, span, thousands},
    open, output,
    remote::Remote,
};
use crate::{
    clock::{Clock as _, SystemClock},
    config::Config,
    domain::{
        agent::AgentId,
        spend::{SpendLimit, SpendLimits},
        time::{DAY_MS, Timestamp},
    },
    store::{AgentRow, CalibrationFigures, Paused, Sample, Store as _},
    telemetry::metrics::Circuit,
};

#[derive(Debug, Args)]
pub(super) struct Status {
    /// Agents to show one by one, from the database
    #[arg(value_name = "AGENT", conflicts_with = "server")]
    agents: Vec<AgentId>,
}

impl Status {
    pub(super) fn run(self, config: &Config, shared: &Shared) -> Result<ExitCode, Failed> {
        open::block_on(async {
            let now = SystemClock.now();
            if !self.agents.is_empty() {
                let rows = self.rows(config).await?;
                if shared.json {
                    output::one_or_all(&rows.iter().map(AgentStatus::from).collect::<Vec<_>>())?;
                } else {
                    output::text(
                        &rows
                            .iter()
                            .map(|(row, paused)| line(row, *paused, now))
                            .collect::<Vec<_>>()
                            .join("\n"),
                    )?;
                }
                return Ok(ExitCode::SUCCESS);
            }
            let figures = match &shared.server {
                Some(server) => {
                    let text = Remote::new(server)?.get("/v1/status", "application/json").await?;
                    serde_json::from_str(&text).map_err(anyhow::Error::new)?
                }
                None => Figures {
                    sample: open::look(config).await?.sample(now, DAY_MS).await?,
                    spend_limits: config.spend.limits().all,
                    circuits: Vec::new(),
                },
            };
            if shared.json {
                output::json(&figures)?;
            } else {
                output::text(&text(&figures, now, config.summary.max_tokens))?;
            }
            Ok(ExitCode::SUCCESS)
        })
    }

    async fn rows(&self, config: &Config) -> Result<Vec<(AgentRow, Option<Paused>)>, Failed> {
        let store = open::look(config).await?;
        let mut rows = Vec::new();
        for agent in &self.agents {
            match store.agent(agent).await? {
                Some(row) => rows.push((row, store.paused(agent).await?)),
                None => return Err(open::unknown(&store, agent).await),
            }
        }
        Ok(rows)
    }
}

/// How it stands: what the database knows, and what only the daemon does.
#[derive(Serialize, Deserialize)]
struct Figures {
    #[serde(flatten)]
    sample: Sample,
    /// What all agents together may spend in a day.
    #[serde(default)]
    spend_limits: SpendLimits,
    /// The models that may be asked, and until when one is left alone.
    #[serde(default)]
    circuits: Vec<Circuit>,
}

/// One agent's figures.
#[derive(Serialize)]
struct AgentStatus<'a> {
    agent_id: &'a AgentId,
    messages: i64,
    exchanges: i64,
    window_tokens: i64,
    budget_tokens: i64,
    first_exchange: i64,
    covers_through: i64,
    pending_since: Option<Timestamp>,
    summary_version: i64,
    summary_tokens: i64,
    updated_at: Timestamp,
    /// The limit of spending for which updates wait, and until when.
    paused: Option<Paused>,
}

impl<'a> From<&'a (AgentRow, Option<Paused>)> for AgentStatus<'a> {
    fn from((row, paused): &'a (AgentRow, Option<Paused>)) -> Self {
        Self {
            agent_id: &row.agent,
            messages: row.ledger.last_seq,
            exchanges: row.ledger.last_exchange,
            window_tokens: row.ledger.window_tokens(),
            budget_tokens: row.budget_tokens,
            first_exchange: row.ledger.first_exchange,
            covers_through: row.ledger.summarized_through,
            pending_since: row.pending_since,
            summary_version: row.version,
            summary_tokens: row.summary_tokens,
            updated_at: row.updated_at,
            paused: *paused,
        }
    }
}

fn line(row: &AgentRow, paused: Option<Paused>, now: Timestamp) -> String {
    let ledger = &row.ledger;
    let pending = match ledger.pending_numbers() {
        0 => "nothing pending".to_owned(),
        pending => format!(
            "{pending} pending for {}",
            span(now.since_ms(row.pending_since.unwrap_or(now)))
        ),
    };
    let paused = paused.map_or(String::new(), |paused| {
        let (key, until) = (paused.limit.key(), paused.until);
        match paused.limit {
            SpendLimit::Price => {
                format!(
                    ", paused: a limit in dollars, and a model without a price (see {key}), until {until}"
                )
            }
            _ => format!(", paused: spend limit {key} until {until}"),
        }
    });
    format!(
        "{}: {} messages in {} exchanges, window {} of {} from #{}, summary v{} of {} tokens through #{}, {pending}{paused}",
        row.agent,
        ledger.last_seq,
        ledger.last_exchange,
        thousands(ledger.window_tokens()),
        thousands(row.budget_tokens),
        ledger.first_exchange,
        row.version,
        thousands(row.summary_tokens),
        ledger.summarized_through,
    )
}

fn text(figures: &Figures, now: Timestamp, tokens_max: i64) -> String {
    let sample = &figures.sample;
    let ended = sample.completed + sample.failed;
    let failed = if ended == 0 {
        String::new()
    } else {
        format!("({})", permille(sample.failed, ended))
    };
    let age = |since: Option<Timestamp>| since.map_or("none".to_owned(), |at| span(now.since_ms(at)));
    let tenths = sample.mean_duration_ms / 100;
    let lines = [
        format!(
            "Summary updates, last 24h            queue  {} ready · {} running",
            sample.ready, sample.running
        ),
        format!(
            "  completed  {:>8}                  scheduled      {}",
            sample.completed, sample.scheduled
        ),
        format!(
            "  failed     {:>8}  {failed:<14}  parked         {}",
            sample.failed, sample.parked
        ),
        format!(
            "  avg duration {:>4}.{}s                 oldest ready   {}",
            tenths / 10,
            tenths % 10,
            age(sample.oldest_ready_at)
        ),
        format!(
            "  avg size   {:>8}                  oldest pending {}",
            format!(
                "{}/{}",
                thousands(sample.mean_document_tokens),
                thousands(tokens_max)
            ),
            age(sample.oldest_pending_at)
        ),
        format!(
            "  emergency truncations  {:<10}  spend today    {}",
            sample.truncated,
            spend::today(sample.today, figures.spend_limits)
        ),
        format!(
            "  model      {} calls, {} tokens in, {} out",
            sample.model_calls,
            thousands(sample.input_tokens),
            thousands(sample.output_tokens)
        ),
        format!(
            "{} agents, {} summaries of {} tokens{}",
            sample.agents,
            sample.documents,
            thousands(sample.documents_tokens),
            if sample.stock_is_estimated {
                " (estimated)"
            } else {
                ""
            }
        ),
    ];
    let spending = spend::lines(sample, &figures.circuits, now);
    let calibrations = sample.calibrations.iter().map(calibration);
    lines
        .into_iter()
        .chain(spending)
        .chain(batches::line(&sample.batches, now))
        .chain(calibrations)
        .collect::<Vec<_>>()
        .join("\n")
}

/// How far the estimate of one model's tokens is off.
fn calibration(figures: &CalibrationFigures) -> String {
    format!(
        "tokens of {} {}: ×{} of the estimate on average, ×{} guarded, by {} reports",
        figures.provider,
        figures.model,
        output::factor(figures.average_permille),
        output::factor(figures.guard_permille),
        figures.samples
    )
}
