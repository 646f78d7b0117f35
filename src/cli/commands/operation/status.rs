//! `recapd status`: prints the figures of the updates and the present state. All figures come from the database, so a
//! restart doesn't reset them.

mod batches;
mod block;
mod proxy;
mod spend;

use std::{process::ExitCode, time::Duration};

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cli::{
    GlobalOptions,
    backend::{
        api::{self, Api, NotReady},
        open,
    },
    exit::CommandFailure,
    terminal::{
        figures::{span, thousands},
        output,
    },
};
use recapd_api::http::{AgentFigures, NewestExchange};
use recapd_config::Config;
use recapd_core::domain::{
    agent::AgentId,
    exchange::ExchangeState,
    legs::continues,
    number::count,
    spend::{SpendLimit, SpendLimits},
    time::{DAY_MS, HOUR_MS, Timestamp},
};
use recapd_platform::clock::{Clock as _, SystemClock};
use recapd_store::{
    Sample, SpendPause,
    operate::{ProxyTotals, RunFigures},
};
use recapd_telemetry::metrics::Circuit;

/// The default interval of `--watch`, in seconds.
const WATCH_SECONDS: &str = "2";
/// The longest interval of `--watch`.
const WATCH_SECONDS_MAX: u64 = 3_600;
/// The default of `--window`.
const WINDOW: &str = "24h";
/// The longest span of `--window`: a year.
const WINDOW_HOURS_MAX: i64 = 366 * 24;

#[derive(Debug, Args)]
#[command(after_help = "\
All figures come from the database, so a restart doesn't reset them. Examples:
  recapd status                    the last 24 hours, and the present state
  recapd status --window 7d --json
  recapd status --watch            refreshes every two seconds, until Ctrl-C
  recapd status my-agent           one agent's window, summary, pending exchanges, and what the proxy did")]
pub(crate) struct StatusCommand {
    /// The span of the figures about updates, in hours or days
    #[arg(long, default_value = WINDOW, value_name = "24h|7d", value_parser = hours, conflicts_with = "agents")]
    window: i64,
    /// Refresh every this many seconds, until interrupted
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = WATCH_SECONDS,
        value_parser = clap::value_parser!(u64).range(1..=WATCH_SECONDS_MAX), conflicts_with = "agents")]
    watch: Option<u64>,
    /// The agents to show one by one
    #[arg(value_name = "AGENT")]
    agents: Vec<AgentId>,
}

impl StatusCommand {
    pub(crate) fn run(self, config: &Config, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        open::block_on(async {
            let now = SystemClock.now();
            if !self.agents.is_empty() {
                let agents = self.agents(&Api::reading(config, options).await?).await?;
                if options.json {
                    output::one_or_all(&agents.iter().map(AgentStatus::from).collect::<Vec<_>>())?;
                } else {
                    let lines: Vec<String> = agents.iter().map(|agent| line(agent, now)).collect();
                    output::text(&lines.join("\n"))?;
                }
                return Ok(ExitCode::SUCCESS);
            }
            let api = Api::reading(config, options).await?;
            let interval = self.watch.map(Duration::from_secs);
            loop {
                let now = SystemClock.now();
                let figures = StatusFigures {
                    not_ready: not_ready(config, options).await,
                    ..figures(&api, self.window).await?
                };
                if options.json {
                    output::json(&figures)?;
                } else {
                    let text = block::text(&figures, now, config.summary.max_tokens);
                    output::frame(&text, interval.is_some())?;
                }
                match interval {
                    None => return Ok(ExitCode::SUCCESS),
                    Some(interval) => tokio::time::sleep(interval).await,
                }
            }
        })
    }

    async fn agents(&self, api: &Api) -> Result<Vec<AgentFound>, CommandFailure> {
        let mut found = Vec::new();
        for agent in &self.agents {
            let path = format!("/v1/agents/{agent}");
            let agent: AgentFound = api.read(&path).await?;
            let proxy = api.read(&format!("{path}/proxy")).await?;
            found.push(AgentFound { proxy, ..agent });
        }
        Ok(found)
    }
}

#[derive(Deserialize)]
struct AgentFound {
    #[serde(flatten)]
    figures: AgentFigures,
    paused: Option<SpendPause>,
    /// What the proxy did. Another route has it.
    #[serde(skip)]
    proxy: ProxyTotals,
}

/// The figures from the database, and those that only a daemon knows.
#[derive(Default, Serialize, Deserialize)]
struct StatusFigures {
    #[serde(flatten)]
    sample: Sample,
    /// The spending limits for a day, for all agents together.
    #[serde(default)]
    spend_limits: SpendLimits,
    /// The models in the order of their use, with the states of their circuit breakers.
    #[serde(default)]
    circuits: Vec<Circuit>,
    /// The span of `updates`.
    #[serde(default)]
    window_hours: i64,
    /// The updates that ended within `window_hours`.
    #[serde(default)]
    updates: RunFigures,
    /// When all updates were paused; `None` if they aren't paused.
    #[serde(default)]
    paused_since: Option<Timestamp>,
    /// Why the daemon isn't ready; `None` if it is ready, or no daemon was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    not_ready: Option<String>,
}

/// The part of `/v1/stats` that this command shows.
#[derive(Deserialize)]
struct StatusSpan {
    updates: RunFigures,
}

/// Returns the figures of the last 24 hours as JSON.
pub(super) async fn day(config: &Config, options: &GlobalOptions) -> Result<Value, CommandFailure> {
    let api = Api::reading(config, options).await?;
    let figures = figures(&api, DAY_MS / HOUR_MS).await?;
    Ok(serde_json::to_value(figures).map_err(anyhow::Error::new)?)
}

async fn figures(api: &Api, window_hours: i64) -> Result<StatusFigures, CommandFailure> {
    let paused_since = api.paused_since().await?;
    let span: StatusSpan = api.read(&format!("/v1/stats?window={window_hours}h")).await?;
    let figures = api.read("/v1/status").await?;
    Ok(StatusFigures { window_hours, updates: span.updates, paused_since, ..figures })
}

/// Returns why the daemon isn't ready. Asks at `/readyz`, because a daemon that can't write isn't ready, but still serves
/// figures.
async fn not_ready(config: &Config, options: &GlobalOptions) -> Option<String> {
    let server = options.server.as_ref()?;
    match api::answers(Some(server), &config.http, "/readyz").await {
        Err(NotReady::Says(why)) => Some(why),
        // If the daemon doesn't answer, reading the figures fails.
        Ok(()) | Err(NotReady::Away | NotReady::Silent(_)) => None,
    }
}

/// Parses `24h` or `7d`; returns hours.
fn hours(text: &str) -> Result<i64, String> {
    let (digits, factor) = match text.strip_suffix('d') {
        Some(days) => (days, 24),
        None => (text.strip_suffix('h').unwrap_or_default(), 1),
    };
    let hours = digits.parse::<i64>().ok().and_then(|number| number.checked_mul(factor));
    let hours = hours.filter(|hours| (1..=WINDOW_HOURS_MAX).contains(hours));
    hours.ok_or_else(|| format!("expected hours or days, such as 24h or 7d, at most {WINDOW_HOURS_MAX}h"))
}

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
    newest: Option<&'a NewestExchange>,
    /// If updates wait because of a spending limit: which limit, and until when.
    paused: Option<SpendPause>,
    /// What the proxy did; `None` if no request went through it.
    #[serde(skip_serializing_if = "Option::is_none")]
    proxy: Option<&'a ProxyTotals>,
}

impl<'a> From<&'a AgentFound> for AgentStatus<'a> {
    fn from(found: &'a AgentFound) -> Self {
        let AgentFound { figures, paused, proxy } = found;
        Self {
            agent_id: &figures.agent_id,
            messages: figures.messages,
            exchanges: figures.exchanges,
            window_tokens: figures.window_tokens,
            budget_tokens: figures.budget_tokens,
            first_exchange: figures.first_exchange,
            covers_through: figures.covers_through,
            pending_since: figures.pending_since,
            summary_version: figures.version,
            summary_tokens: figures.summary_tokens,
            updated_at: figures.updated_at,
            newest: figures.newest.as_ref(),
            paused: *paused,
            proxy: proxy.first_at.is_some().then_some(proxy),
        }
    }
}

fn line(found: &AgentFound, now: Timestamp) -> String {
    let AgentFound { figures, paused, proxy } = found;
    let pending = match figures.pending_exchanges {
        0 => "nothing pending".to_owned(),
        pending => {
            format!("{pending} pending for {}", span(now.since_ms(figures.pending_since.unwrap_or(now))))
        }
    };
    let paused = paused.map_or(String::new(), |paused| {
        let (key, until) = (paused.limit.key(), paused.until);
        match paused.limit {
            SpendLimit::Price => {
                format!(
                    ", paused: there is a limit in dollars, but a model has no price (see {key}), until {until}"
                )
            }
            _ => format!(", paused: spend limit {key} until {until}"),
        }
    });
    let newest = figures.newest.as_ref().map_or_else(String::new, newest);
    format!(
        "{}: {} in {}{newest}, window {} of {} from #{}, summary v{} of {} tokens through #{}, {pending}{paused}{}",
        figures.agent_id,
        count(figures.messages, "message"),
        count(figures.exchanges, "exchange"),
        thousands(figures.window_tokens),
        thousands(figures.budget_tokens),
        figures.first_exchange,
        figures.version,
        thousands(figures.summary_tokens),
        figures.covers_through,
        proxy::line(proxy, now),
    )
}

/// Formats ` (#19, which continues #14, is open)`; empty for an exchange that is complete and isn't a later leg.
fn newest(newest: &NewestExchange) -> String {
    let number = newest.exchange;
    match (newest.continues, newest.state) {
        (Some(first), ExchangeState::Open) => format!(" (#{number}, which {}, is open)", continues(first)),
        (Some(first), _) => format!(" (#{number} {})", continues(first)),
        (None, ExchangeState::Open) => format!(" (#{number} is open)"),
        (None, _) => String::new(),
    }
}
