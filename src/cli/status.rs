//! `recapd status`: the seed's dashboard block, from the database, so that a restart doesn't zero it.

mod batches;
mod block;
mod spend;

use std::{process::ExitCode, time::Duration};

use clap::Args;
use serde::{Deserialize, Serialize};

use super::{
    Shared,
    exit::Failed,
    figures::{span, thousands},
    hands::Hands,
    open, output,
};
use crate::{
    clock::{Clock as _, SystemClock},
    config::Config,
    domain::{
        agent::AgentId,
        spend::{SpendLimit, SpendLimits},
        time::{DAY_MS, HOUR_MS, Timestamp},
    },
    store::{AgentRow, Paused, Sample, Store as _, operate::RunFigures},
    telemetry::metrics::Circuit,
};

/// Seconds between two looks unless said otherwise, and at most.
const WATCH_SECONDS: &str = "2";
const WATCH_SECONDS_MAX: u64 = 3_600;
/// The span of the figures, and at most: a year.
const WINDOW: &str = "24h";
const WINDOW_HOURS_MAX: i64 = 366 * 24;

#[derive(Debug, Args)]
#[command(after_help = "\
Everything is counted in the database, so a restart doesn't zero it. Examples:
  recapd status                    the last 24 hours, and how it stands
  recapd status --window 7d --json
  recapd status --watch            again every two seconds, until Ctrl-C
  recapd status my-agent           one agent's window, summary and what waits")]
pub(super) struct Status {
    /// The span of the figures about updates, in hours or days
    #[arg(long, default_value = WINDOW, value_name = "24h|7d", value_parser = hours, conflicts_with = "agents")]
    window: i64,
    /// Look again every so many seconds, until it is stopped
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = WATCH_SECONDS,
        value_parser = clap::value_parser!(u64).range(1..=WATCH_SECONDS_MAX), conflicts_with = "agents")]
    watch: Option<u64>,
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
            let hands = Hands::looking(config, shared).await?;
            let every = self.watch.map(Duration::from_secs);
            loop {
                let now = SystemClock.now();
                let figures = figures(&hands, config, self.window, now).await?;
                if shared.json {
                    output::json(&figures)?;
                } else {
                    let text = block::text(&figures, now, config.summary.max_tokens);
                    output::frame(&text, every.is_some())?;
                }
                match every {
                    None => return Ok(ExitCode::SUCCESS),
                    Some(every) => tokio::time::sleep(every).await,
                }
            }
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
#[derive(Default, Serialize, Deserialize)]
struct Figures {
    #[serde(flatten)]
    sample: Sample,
    /// What all agents together may spend in a day.
    #[serde(default)]
    spend_limits: SpendLimits,
    /// The models that may be asked, and until when one is left alone.
    #[serde(default)]
    circuits: Vec<Circuit>,
    /// The span of `updates`.
    #[serde(default)]
    window_hours: i64,
    /// What ended in it.
    #[serde(default)]
    updates: RunFigures,
    /// Since when all updates are paused.
    #[serde(default)]
    paused_since: Option<Timestamp>,
}

/// What the daemon tells of a span of time.
#[derive(Deserialize)]
struct Span {
    updates: RunFigures,
}

async fn figures(
    hands: &Hands,
    config: &Config,
    window_hours: i64,
    now: Timestamp,
) -> Result<Figures, Failed> {
    let paused_since = hands.queue(None, 1).await?.paused_since;
    let (figures, updates) = match hands {
        Hands::Daemon(daemon) => {
            let span: Span = daemon.read(&format!("/v1/stats?window={window_hours}h")).await?;
            (daemon.read("/v1/status").await?, span.updates)
        }
        Hands::Database(operator, store) => {
            let figures = Figures {
                sample: store.sample(now, DAY_MS).await?,
                spend_limits: config.spend.limits().all,
                ..Figures::default()
            };
            (figures, operator.run_figures(window_hours * HOUR_MS).await?)
        }
    };
    Ok(Figures {
        window_hours,
        updates,
        paused_since,
        ..figures
    })
}

/// `24h` or `7d` in hours.
fn hours(text: &str) -> Result<i64, String> {
    let (digits, factor) = match text.strip_suffix('d') {
        Some(days) => (days, 24),
        None => (text.strip_suffix('h').unwrap_or_default(), 1),
    };
    let hours = digits
        .parse::<i64>()
        .ok()
        .and_then(|number| number.checked_mul(factor));
    let hours = hours.filter(|hours| (1..=WINDOW_HOURS_MAX).contains(hours));
    hours.ok_or_else(|| format!("expected hours or days, such as 24h or 7d, at most {WINDOW_HOURS_MAX}h"))
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
