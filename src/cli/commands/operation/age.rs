//! `recapd age`: runs the ageing job now.

use std::process::ExitCode;

use clap::Args;

use crate::cli::{
    GlobalOptions,
    backend::{api::Api, open},
    exit::CommandFailure,
    terminal::{answer, figures::ago},
};
use recapd_config::Config;
use recapd_core::domain::{number::count, time::Timestamp};
use recapd_engine::ingest::AgedReply;
use recapd_platform::clock::{Clock as _, SystemClock};

#[derive(Debug, Args)]
#[command(after_help = "\
Queues the summaries that have a line too old for its section, as the daemon does at the times in `schedule.ageing`. Calls no
model. Examples:
  recapd age --dry-run      lists these summaries
  recapd age                queues them now; the running or next daemon ages them")]
pub(crate) struct Age {
    /// Only print which summaries would be queued
    #[arg(long)]
    dry_run: bool,
}

impl Age {
    pub(crate) fn run(self, config: &Config, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        let reply = open::block_on(async {
            let api = if self.dry_run {
                Api::reading(config, options).await?
            } else {
                Api::changing(config, options).await?
            };
            api.age(self.dry_run).await
        })?;
        answer::print(options, &reply, &text(&reply, SystemClock.now()))
    }
}

fn text(reply: &AgedReply, now: Timestamp) -> String {
    if !reply.dry_run {
        return format!("{} queued for ageing", count(reply.queued, "summary"));
    }
    if reply.due.is_empty() {
        return "(no line is too old for its section)".to_owned();
    }
    let lines = reply.due.iter().map(|due| format!("{}  due {}", due.agent_id, ago(due.due_at, now)));
    let more = reply.has_more.then(|| "(and more)".to_owned());
    lines.chain(more).collect::<Vec<_>>().join("\n")
}
