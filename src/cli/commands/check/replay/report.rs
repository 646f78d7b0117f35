//! The result of a replay: the history, the summary, the invariants and the cost.

use std::process::ExitCode;

use serde::Serialize;

use super::feed::FeedReport;
use crate::cli::{
    commands::database::verify, conversations::UnreadTimes, exit::CommandFailure, terminal::output,
    unshown::UnshownCounts,
};
use recapd_api::history::{self, HistoryQuery};
use recapd_config::Config;
use recapd_core::domain::{
    agent::AgentId,
    history::{HistoryView, render_text},
    number::count,
    summary::empty::WindowFill,
    time::DAY_MS,
};
use recapd_engine::assembly::Parts;

/// If there are more agents than this, a table is printed instead of the summaries.
const AGENTS_PRINTED_MAX: usize = 1;
/// The table has at most this many lines.
const TABLE_LINES_MAX: usize = 40;

/// The option that the hint about an empty summary suggests.
const SMALL_WINDOW: &str = "--budget 4000";

#[derive(Serialize)]
pub(super) struct Report {
    messages: i64,
    duplicates: i64,
    skipped: u64,
    #[serde(flatten)]
    unread_times: UnreadTimes,
    unshown: UnshownCounts,
    #[serde(skip)]
    unshown_text: Option<String>,
    files_refused: Vec<String>,
    formats: Vec<String>,
    agents: Vec<AgentOutcome>,
    cost: Cost,
    verify: verify::Report,
}

#[derive(Serialize)]
struct AgentOutcome {
    agent_id: AgentId,
    exchanges: i64,
    covers_through: i64,
    pending_exchanges: i64,
    window_tokens: i64,
    budget_tokens: i64,
    summary_version: i64,
    summary_tokens: i64,
    summary: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    history: Option<HistoryView>,
}

#[derive(Serialize)]
struct Cost {
    duration_ms: i64,
    evicted_tokens: i64,
    updates: i64,
    failed: i64,
    model: String,
    model_calls: i64,
    input_tokens: i64,
    output_tokens: i64,
}

impl Report {
    pub(super) async fn of(
        parts: &Parts,
        config: &Config,
        feed: FeedReport,
        duration_ms: i64,
    ) -> Result<Self, CommandFailure> {
        let sample = parts.store.sample(parts.clock.now(), DAY_MS).await?;
        let mut agents = Vec::new();
        for agent in &feed.agents {
            agents.extend(AgentOutcome::of(parts, config, agent, feed.agents.len()).await?);
        }
        let model = match config.model.mode {
            recapd_config::ModelMode::Offline => "offline".to_owned(),
            _ => config.model.name().to_owned(),
        };
        Ok(Self {
            messages: feed.messages,
            duplicates: feed.duplicates,
            skipped: feed.skipped,
            unread_times: feed.unread_times,
            unshown: feed.unshown.counts(),
            unshown_text: feed.unshown.report(),
            files_refused: feed.refused.iter().map(ToString::to_string).collect(),
            formats: feed.formats.iter().map(|(format, files)| format!("{files} × {format}")).collect(),
            agents,
            cost: Cost {
                duration_ms,
                evicted_tokens: feed.evicted_tokens,
                updates: sample.completed,
                failed: sample.failed,
                model,
                model_calls: sample.model_calls,
                input_tokens: sample.input_tokens,
                output_tokens: sample.output_tokens,
            },
            verify: verify::Report::of_all(parts.store.as_ref()).await?,
        })
    }

    /// Prints the report. Fails if nothing could be read, if a model gets nearly nothing, or if an invariant is broken.
    pub(super) fn print(&self, json: bool) -> Result<ExitCode, CommandFailure> {
        if json {
            output::json(self)?;
        } else {
            output::text(&self.text())?;
        }
        let has_read = self.messages + self.duplicates > 0;
        Ok(if has_read && !self.unshown.nearly_all && self.verify.is_clean() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }

    fn text(&self) -> String {
        let mut sections = Vec::new();
        match self.agents.as_slice() {
            [] => sections.push("nothing was read".to_owned()),
            agents if agents.len() <= AGENTS_PRINTED_MAX => {
                sections.extend(agents.iter().flat_map(AgentOutcome::sections));
            }
            agents => sections.push(table(agents)),
        }
        sections.push(self.cost_text());
        sections.push(if self.verify.is_clean() { "verify: clean".to_owned() } else { self.verify.text() });
        sections.join("\n\n")
    }

    fn cost_text(&self) -> String {
        let Cost {
            duration_ms,
            evicted_tokens,
            updates,
            failed,
            model,
            model_calls,
            input_tokens,
            output_tokens,
        } = &self.cost;
        let mut lines = vec![
            format!(
                "read      {} ({}), {}{}, {} skipped, {} refused",
                count(self.messages, "message"),
                self.formats.join(", "),
                count(self.duplicates, "duplicate"),
                self.unread_times.report(),
                count(self.skipped, "line"),
                count(self.files_refused.len(), "file")
            ),
            format!(
                "evicted   {evicted_tokens} tokens, summarised in {} by {model}",
                count(*updates, "update")
            ),
            format!(
                "cost      {}.{:02} s, {}, {input_tokens} tokens in, {output_tokens} out",
                duration_ms / 1_000,
                duration_ms % 1_000 / 10,
                count(*model_calls, "model call")
            ),
        ];
        lines.extend(self.unshown_text.iter().map(|report| format!("unshown   {report}")));
        if *failed > 0 {
            lines.push(format!(
                "failed    {}; exchanges that no model condensed keep their digests",
                count(*failed, "attempt")
            ));
        }
        lines.join("\n")
    }
}

impl AgentOutcome {
    async fn of(
        parts: &Parts,
        config: &Config,
        agent: &AgentId,
        agents: usize,
    ) -> Result<Option<Self>, CommandFailure> {
        let Some(row) = parts.store.agent(agent).await? else {
            return Ok(None);
        };
        let Some(reading) = parts.snapshots.get(agent).await? else {
            return Ok(None);
        };
        let query = HistoryQuery { summary_tokens_max: config.summary.max_tokens, ..HistoryQuery::default() };
        let history = if agents <= AGENTS_PRINTED_MAX {
            let (now, redactor) = (parts.clock.now(), parts.snapshots.redactor());
            history::load(parts.store.as_ref(), agent, query, now, redactor).await?
        } else {
            None
        };
        Ok(Some(Self {
            agent_id: agent.clone(),
            exchanges: row.ledger.last_exchange,
            covers_through: row.ledger.summarized_through,
            pending_exchanges: reading.snapshot.pending_exchanges,
            window_tokens: row.ledger.window_tokens(),
            budget_tokens: row.budget_tokens,
            summary_version: row.version,
            summary_tokens: reading.snapshot.tokens,
            summary: reading.snapshot.markdown.clone(),
            history,
        }))
    }

    fn fill(&self) -> WindowFill {
        WindowFill { tokens: self.window_tokens, budget_tokens: self.budget_tokens }
    }

    fn sections(&self) -> Vec<String> {
        let history = self.history.as_ref().map(|view| render_text(view, output::width()));
        let summary = match self.summary.trim_end() {
            "" => format!("({})", self.fill().hint_with(SMALL_WINDOW)),
            summary => summary.to_owned(),
        };
        let title = format!("──── summary v{}, {} tokens ────", self.summary_version, self.summary_tokens);
        history.into_iter().chain([format!("{title}\n\n{summary}")]).collect()
    }
}

fn table(agents: &[AgentOutcome]) -> String {
    let head =
        format!("{:<48} {:>9} {:>8} {:>9} {:>8}", "agent", "exchanges", "covered", "window", "summary");
    let lines = agents.iter().take(TABLE_LINES_MAX).map(|agent| {
        let name: String = agent.agent_id.as_str().chars().take(48).collect();
        format!(
            "{name:<48} {:>9} {:>8} {:>9} {:>8}",
            agent.exchanges, agent.covers_through, agent.window_tokens, agent.summary_tokens
        )
    });
    let more = agents.len().saturating_sub(TABLE_LINES_MAX);
    let rest = (more > 0).then(|| format!("… and {more} more; --json has them all"));
    std::iter::once(head).chain(lines).chain(rest).collect::<Vec<_>>().join("\n")
}
