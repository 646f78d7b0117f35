//! `recapd runs`: lists past updates and their outcomes.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde::de::IgnoredAny;

use crate::cli::{
    GlobalOptions,
    backend::{api::Api, open},
    exit::CommandFailure,
    list::{ListPage, PageOptions, PagedPath, TimeOptions},
    terminal::{
        answer,
        figures::{ago, dollars, duration, thousands},
        table::{Align, Table},
    },
};
use recapd_config::Config;
use recapd_core::domain::{
    agent::AgentId, cursor::PagedList, number::count, text::one_line, time::Timestamp,
};
use recapd_platform::clock::{Clock as _, SystemClock};
use recapd_store::operate::{Run, RunOutcome};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  recapd runs                                  the newest attempts to update summaries
  recapd runs --agent my-agent --outcome failed --since yesterday
  recapd runs show 12                          the result, duration and cost of one run")]
pub(crate) struct Runs {
    #[command(subcommand)]
    action: Option<RunsAction>,
    #[command(flatten)]
    list: RunsList,
}

#[derive(Debug, Subcommand)]
enum RunsAction {
    /// List the stored runs, newest first
    List(RunsList),
    /// Print one run
    Show {
        /// The run's number
        #[arg(value_parser = clap::value_parser!(i64).range(1..))]
        run: i64,
    },
}

#[derive(Debug, Args)]
struct RunsList {
    /// Only runs of this agent
    #[arg(long, value_name = "AGENT")]
    agent: Option<AgentId>,
    /// Only runs with this outcome
    #[arg(long, value_name = "completed|failed|superseded|postponed", value_parser = outcome_named)]
    outcome: Option<RunOutcome>,
    #[command(flatten)]
    times: TimeOptions,
    #[command(flatten)]
    page: PageOptions,
}

fn outcome_named(name: &str) -> Result<RunOutcome, String> {
    RunOutcome::from_name(name)
        .ok_or_else(|| "expected completed, failed, superseded or postponed".to_owned())
}

impl Runs {
    pub(crate) fn run(self, config: &Config, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        open::block_on(async {
            let api = Api::reading(config, options).await?;
            match self.action.unwrap_or(RunsAction::List(self.list)) {
                RunsAction::List(list) => list.run(&api, options).await,
                RunsAction::Show { run } => {
                    let run = api.run(run).await?;
                    answer::print(options, &run, &details(&run))
                }
            }
        })
    }
}

impl RunsList {
    async fn run(self, api: &Api, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        let agent = self.agent.as_ref().map(|agent| format!("&agent={agent}"));
        let outcome = self.outcome.map(|outcome| format!("&outcome={}", outcome.name()));
        let runs = PagedPath::new(PagedList::Runs, "/v1/runs", "runs").with_filters(
            agent.unwrap_or_default() + &outcome.unwrap_or_default() + &self.times.parameters(),
        );
        let page: ListPage<Run> = self.page.read(api, &runs).await?;
        if let Some(agent) = self.agent.filter(|_| page.rows.is_empty()) {
            // An empty page may also mean that the agent doesn't exist.
            api.read::<IgnoredAny>(&format!("/v1/agents/{agent}")).await?;
        }
        page.print(options, &text(&page.rows, SystemClock.now()))
    }
}

fn text(runs: &[Run], now: Timestamp) -> String {
    if runs.is_empty() {
        return "(no such runs are stored: each update makes one; `recapd queue` lists waiting updates)"
            .to_owned();
    }
    let mut table = Table::new([
        ("RUN", Align::Right),
        ("AGENT", Align::Left),
        ("ENDED", Align::Left),
        ("OUTCOME", Align::Left),
        ("TOOK", Align::Right),
        ("PATH", Align::Left),
        ("VERSION", Align::Right),
        ("COVERS", Align::Left),
        ("SIZE", Align::Right),
        ("COST", Align::Right),
    ]);
    let figure = |figure: Option<String>| figure.unwrap_or_else(|| "-".to_owned());
    for run in runs {
        table.row([
            run.run.to_string(),
            run.agent_id.to_string(),
            ago(run.finished_at, now),
            outcome(run),
            duration(run.duration_ms),
            figure(run.path.clone()),
            figure(run.version.map(|version| version.to_string())),
            figure(covers(run)),
            figure(run.document_tokens.map(thousands)),
            figure(run.cost_microusd.map(dollars)),
        ]);
    }
    table.text()
}

fn outcome(run: &Run) -> String {
    match &run.error_class {
        Some(class) => format!("{} ({class})", run.outcome.name()),
        None => run.outcome.name().to_owned(),
    }
}

/// Formats the exchanges that a run covers; `None` if it covers none.
fn covers(run: &Run) -> Option<String> {
    let (after, through) = (run.covers_after?, run.covers_through?);
    match through - after {
        ..1 => None,
        1 => Some(format!("#{through}")),
        _ => Some(format!("#{}–#{through}", after + 1)),
    }
}

fn details(run: &Run) -> String {
    let model = run.provider.as_ref().map(|provider| {
        let batched = if run.batched { ", in a batch" } else { "" };
        let model = run.model.as_deref().unwrap_or_default();
        format!("{provider} {model}: {}{batched}", count(run.model_calls, "call"))
    });
    let tokens = format!("{} in, {} out", run.input_tokens, run.output_tokens);
    let truncated =
        if run.truncated { ", decisions or constraints were dropped to fit the ceiling" } else { "" };
    let document = run.document_tokens.map(|tokens| format!("{tokens} tokens{truncated}"));
    let lines = [
        ("run", Some(format!("{} of {}, attempt {}", run.run, run.agent_id, run.attempt))),
        ("reason", Some(run.reason.clone())),
        ("outcome", Some(outcome(run))),
        ("error", run.error.as_deref().map(one_line)),
        ("began", Some(run.started_at.to_string())),
        ("took", Some(duration(run.duration_ms))),
        ("path", run.path.clone()),
        ("version", run.version.map(|version| version.to_string())),
        (
            "exchanges",
            Some(
                covers(run)
                    .map_or(run.exchanges.to_string(), |covers| format!("{} ({covers})", run.exchanges)),
            ),
        ),
        ("items", Some(format!("{} added, {} dropped", run.items_added, run.items_dropped))),
        ("document", document),
        ("model", model),
        ("tokens", Some(tokens)),
        ("cost", run.cost_microusd.map(dollars)),
    ];
    let lines = lines.into_iter().filter_map(|(name, value)| Some(format!("{name:<10} {}", value?)));
    lines.collect::<Vec<_>>().join("\n")
}
