//! `recapd queue`: lists and controls waiting updates.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;

use crate::cli::{
    GlobalOptions,
    backend::{api::Api, open},
    exit::CommandFailure,
    list::{ListPage, PageOptions, PagedPath},
    terminal::{
        answer,
        figures::ago,
        table::{Align, Table},
    },
};
use recapd_config::Config;
use recapd_core::domain::{
    agent::AgentId, cursor::PagedList, number::count, text::one_line, time::Timestamp,
};
use recapd_platform::clock::{Clock as _, SystemClock};
use recapd_store::operate::{QueueRow, QueueState, QueueWait};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  recapd queue                      all updates: due, running, waiting and why
  recapd queue show my-agent
  recapd queue retry my-agent       makes its update due now
  recapd queue retry --all          retries all parked updates
  recapd queue pause                stops updates of all daemons on the database, until `recapd queue resume`

No command here loses anything: exchanges that aren't summarised stay pending, and digests represent them.")]
pub(crate) struct Queue {
    #[command(subcommand)]
    action: Option<QueueAction>,
    #[command(flatten)]
    page: PageOptions,
}

#[derive(Debug, Subcommand)]
enum QueueAction {
    /// List the agents whose summaries need an update, by name
    List(PageOptions),
    /// Print an agent's row
    Show {
        /// The agent
        agent: AgentId,
    },
    /// Make a waiting, parked or paused row due now, with a new series of attempts
    Retry {
        /// The agent
        #[arg(required_unless_present = "all")]
        agent: Option<AgentId>,
        /// Retry all parked rows
        #[arg(long, conflicts_with = "agent")]
        all: bool,
    },
    /// Park a row, and stop its update; an eviction or a retry makes it due again
    Cancel {
        /// The agent
        agent: AgentId,
    },
    /// Pause all updates, also across restarts; running updates are completed
    Pause,
    /// Resume updates
    Resume,
}

impl Queue {
    pub(crate) fn run(self, config: &Config, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        open::block_on(async {
            match self.action.unwrap_or(QueueAction::List(self.page)) {
                QueueAction::List(page) => list(&page, &Api::reading(config, options).await?, options).await,
                QueueAction::Show { agent } => {
                    let row = Api::reading(config, options).await?.row(&agent).await?;
                    answer::print(options, &row, &details(&row, SystemClock.now()))
                }
                action => change(action, &Api::changing(config, options).await?, options).await,
            }
        })
    }
}

async fn change(action: QueueAction, api: &Api, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
    match action {
        QueueAction::Retry { agent: Some(agent), .. } => {
            let row = api.retry(&agent).await?;
            answer::print(options, &row, &after_retry(&row))
        }
        QueueAction::Retry { agent: None, .. } => retry_parked(api, options).await,
        QueueAction::Cancel { agent } => {
            let row = api.cancel(&agent).await?;
            let text = format!(
                "parked {agent}: the next eviction, or `recapd queue retry {agent}`, makes it due again"
            );
            answer::print(options, &row, &text)
        }
        QueueAction::Pause => pause(api, options, true).await,
        QueueAction::Resume => pause(api, options, false).await,
        QueueAction::List(_) | QueueAction::Show { .. } => Ok(ExitCode::SUCCESS),
    }
}

fn after_retry(row: &QueueRow) -> String {
    let agent = &row.agent_id;
    match row.state {
        QueueState::Running => format!("{agent} is already being updated"),
        _ => format!("{agent} is due now"),
    }
}

async fn retry_parked(api: &Api, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
    let mut retried = Vec::new();
    let all_pages = PageOptions::all();
    let page: ListPage<QueueRow> = all_pages.read(api, &queue()).await?;
    let parked = page.rows.iter().filter(|row| row.state == QueueState::Parked);
    for row in parked {
        api.retry(&row.agent_id).await?;
        retried.push(&row.agent_id);
    }
    let text = if retried.is_empty() {
        "(nothing is parked)".to_owned()
    } else {
        format!("{} due now", count(retried.len(), "agent"))
    };
    answer::print(options, &json!({ "retried": retried }), &text)
}

async fn pause(api: &Api, options: &GlobalOptions, paused: bool) -> Result<ExitCode, CommandFailure> {
    let paused_since = api.set_paused(paused).await?;
    let text = match paused_since {
        Some(since) => format!("updates are paused since {since}; `recapd queue resume` resumes them"),
        None => "updates are resumed".to_owned(),
    };
    answer::print(options, &json!({ "paused_since": paused_since }), &text)
}

fn queue() -> PagedPath<'static> {
    PagedPath::new(PagedList::Queue, "/v1/queue", "rows")
}

async fn list(page: &PageOptions, api: &Api, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
    let page: ListPage<QueueRow> = page.read(api, &queue()).await?;
    let paused = page.answer["paused_since"]
        .as_str()
        .map(|since| format!("all updates are paused since {since}; `recapd queue resume` resumes them"));
    let rows = if page.rows.is_empty() {
        "(the queue is empty: every summary is up to date; `recapd update AGENT` requests an update)"
            .to_owned()
    } else {
        table(&page.rows, SystemClock.now())
    };
    let text = paused.into_iter().chain([rows]).collect::<Vec<_>>().join("\n");
    page.print(options, &text)
}

fn table(rows: &[QueueRow], now: Timestamp) -> String {
    let mut table = Table::new([
        ("AGENT", Align::Left),
        ("STATE", Align::Left),
        ("REASON", Align::Left),
        ("QUEUED", Align::Left),
        ("NEXT", Align::Left),
        ("TRIES", Align::Right),
        ("LAST ERROR", Align::Left),
    ]);
    for row in rows {
        table.row([
            row.agent_id.to_string(),
            state(row),
            row.reason.clone(),
            ago(row.queued_at, now),
            row.next_at.map_or("-".to_owned(), |at| ago(at, now)),
            row.attempts.to_string(),
            row.last_error.as_deref().map(one_line).unwrap_or_default(),
        ]);
    }
    table.text()
}

/// Formats the state and what the row waits for.
fn state(row: &QueueRow) -> String {
    let state = match row.state {
        QueueState::Ready => "ready",
        QueueState::Running => "running",
        QueueState::Scheduled => "scheduled",
        QueueState::Paused => "paused",
        QueueState::Parked => "parked",
    };
    let waits_for = row.waits_for.map(|wait| match wait {
        QueueWait::Batching => "batching",
        QueueWait::Provider => "provider",
        QueueWait::Backoff => "backoff",
        QueueWait::Batch => "batch",
        QueueWait::Limit => "limit",
        QueueWait::Operator => "operator",
    });
    waits_for.map_or_else(|| state.to_owned(), |wait| format!("{state} ({wait})"))
}

fn details(row: &QueueRow, now: Timestamp) -> String {
    let time = |at: Timestamp| format!("{at} ({})", ago(at, now));
    let lines = [
        ("agent", Some(row.agent_id.to_string())),
        ("state", Some(state(row))),
        ("reason", Some(format!("{}, priority {}", row.reason, row.priority))),
        ("queued", Some(time(row.queued_at))),
        ("next", row.next_at.map(time)),
        ("attempts", Some(format!("{}, of which {} crashed", row.attempts, row.crashes))),
        ("owner", row.owner.clone()),
        ("leased", row.leased_at.map(time)),
        ("parked", row.parked_at.map(time)),
        ("paused for", row.paused_for.clone()),
        ("last error", row.last_error.as_deref().map(one_line)),
    ];
    let lines = lines.into_iter().filter_map(|(name, value)| Some(format!("{name:<11} {}", value?)));
    lines.collect::<Vec<_>>().join("\n")
}
