//! `recapd status`: the seed's dashboard block, from the database, so that a restart doesn't zero it.

mod batches;

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use super::{Shared, exit::Failed, open, output, remote::Remote};
use crate::{
    clock::{Clock as _, SystemClock},
    config::Config,
    domain::{
        agent::AgentId,
        time::{DAY_MS, Timestamp},
    },
    store::{AgentRow, CalibrationFigures, Sample, Store as _},
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
                            .map(|row| line(row, now))
                            .collect::<Vec<_>>()
                            .join("\n"),
                    )?;
                }
                return Ok(ExitCode::SUCCESS);
            }
            let sample = match &shared.server {
                Some(server) => {
                    let text = Remote::new(server)?.get("/v1/status", "application/json").await?;
                    serde_json::from_str(&text).map_err(anyhow::Error::new)?
                }
                None => open::look(config).await?.sample(now, DAY_MS).await?,
            };
            if shared.json {
                output::json(&sample)?;
            } else {
                output::text(&text(&sample, now, config.summary.max_tokens))?;
            }
            Ok(ExitCode::SUCCESS)
        })
    }

    async fn rows(&self, config: &Config) -> Result<Vec<AgentRow>, Failed> {
        let store = open::look(config).await?;
        let mut rows = Vec::new();
        for agent in &self.agents {
            match store.agent(agent).await? {
                Some(row) => rows.push(row),
                None => return Err(open::unknown(&store, agent).await),
            }
        }
        Ok(rows)
    }
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
}

impl<'a> From<&'a AgentRow> for AgentStatus<'a> {
    fn from(row: &'a AgentRow) -> Self {
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
        }
    }
}

fn line(row: &AgentRow, now: Timestamp) -> String {
    let ledger = &row.ledger;
    let pending = match ledger.pending_numbers() {
        0 => "nothing pending".to_owned(),
        pending => format!(
            "{pending} pending for {}",
            span(now.since_ms(row.pending_since.unwrap_or(now)))
        ),
    };
    format!(
        "{}: {} messages in {} exchanges, window {} of {} from #{}, summary v{} of {} tokens through #{}, {pending}",
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

fn text(sample: &Sample, now: Timestamp, tokens_max: i64) -> String {
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
        format!("  emergency truncations  {}", sample.truncated),
        format!(
            "  model      {} calls, {} tokens in, {} out",
            sample.model_calls,
            thousands(sample.input_tokens),
            thousands(sample.output_tokens)
        ),
        format!(
            "{} agents, {} summaries of {} tokens",
            sample.agents,
            sample.documents,
            thousands(sample.documents_tokens)
        ),
    ];
    let calibrations = sample.calibrations.iter().map(calibration);
    lines
        .into_iter()
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

fn permille(part: i64, whole: i64) -> String {
    let permille = part * 1_000 / whole.max(1);
    format!("{}.{}%", permille / 10, permille % 10)
}

fn thousands(tokens: i64) -> String {
    if tokens < 1_000 {
        tokens.to_string()
    } else {
        format!("{}.{}k", tokens / 1_000, tokens % 1_000 / 100)
    }
}

fn span(span_ms: i64) -> String {
    let seconds = (span_ms / 1_000).max(0);
    match seconds {
        0..=59 => format!("{seconds}s"),
        60..=3_599 => format!("{}m {}s", seconds / 60, seconds % 60),
        _ => format!("{}h {}m", seconds / 3_600, seconds % 3_600 / 60),
    }
}
