//! `recapd pin`, `unpin` and `pins`.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::lineage;
use crate::cli::{
    GlobalOptions,
    backend::{open, remote::Remote},
    exit::CommandFailure,
    terminal::output,
};
use recapd_api::context::pins::{PinsReply, pins};
use recapd_config::Config;
use recapd_core::domain::{agent::AgentId, lineage::Step};
use recapd_store::Store as _;

#[derive(Debug, Args)]
#[command(after_help = "\
A pinned message stays in view, as a marked copy, when its exchange has left the window; also after a clear.
Messages are numbered in the order in which they were stored. Examples:
  recapd pin my-agent 12
  recapd unpin my-agent 12 --server http://127.0.0.1:7411")]
pub(in crate::cli) struct PinCommand {
    /// The agent
    agent: AgentId,
    /// The message's number
    seq: i64,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  recapd pins my-agent")]
pub(in crate::cli) struct Pins {
    /// The agent
    agent: AgentId,
}

impl PinCommand {
    pub(in crate::cli) fn pin(
        self,
        config: &Config,
        shared: &GlobalOptions,
    ) -> Result<ExitCode, CommandFailure> {
        let step = Step::Pin(self.seq);
        self.run(config, shared, &step, ("pin", "pinned"))
    }

    pub(in crate::cli) fn unpin(
        self,
        config: &Config,
        shared: &GlobalOptions,
    ) -> Result<ExitCode, CommandFailure> {
        let step = Step::Unpin(self.seq);
        self.run(config, shared, &step, ("unpin", "unpinned"))
    }

    fn run(
        self,
        config: &Config,
        shared: &GlobalOptions,
        step: &Step,
        (action, done): (&str, &str),
    ) -> Result<ExitCode, CommandFailure> {
        let Self { agent, seq } = self;
        open::block_on(async {
            if let Some(server) = &shared.server {
                let path = format!("/v1/agents/{agent}/{action}");
                Remote::new(server)?.post(&path, &json!({ "seq": seq })).await?;
            } else {
                let ingestor = lineage::open(config, &agent).await?;
                ingestor.step(&agent, step).await?;
            }
            Ok(())
        })?;
        if shared.json {
            output::json(&json!({ "agent_id": agent, "seq": seq, "pinned": action == "pin" }))?;
        } else {
            output::text(&format!("{done} message {seq} of {agent}"))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Pins {
    pub(in crate::cli) fn run(
        self,
        config: &Config,
        shared: &GlobalOptions,
    ) -> Result<ExitCode, CommandFailure> {
        let reply = open::block_on(async {
            match &shared.server {
                Some(server) => {
                    let path = format!("/v1/agents/{}/pins", self.agent);
                    let text = Remote::new(server)?.get(&path, "application/json").await?;
                    Ok(serde_json::from_str(&text).map_err(anyhow::Error::new)?)
                }
                None => self.look(config).await,
            }
        })?;
        if shared.json {
            output::json(&reply)?;
        } else {
            output::text(&lines(&reply))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn look(&self, config: &Config) -> Result<PinsReply, CommandFailure> {
        let store = open::look(config).await?;
        let Some(row) = store.agent(&self.agent).await? else {
            return Err(open::unknown(&store, &self.agent).await);
        };
        let in_force = row.settings.expanded(&config.basis());
        let options = in_force.context_options(config.context.options());
        Ok(pins(&store, &row, options.copies_max_tokens()).await?)
    }
}

fn lines(reply: &PinsReply) -> String {
    if reply.pins.is_empty() {
        return "(nothing is pinned or important)".to_owned();
    }
    let lines = reply.pins.iter().map(|pin| {
        let why = if pin.pinned { "pinned" } else { "important" };
        let place = if pin.in_window { ", in the window" } else { "" };
        format!(
            "{}  #{} {} ({why}{place}, {} tokens): {}",
            pin.seq, pin.exchange, pin.kind, pin.tokens, pin.title
        )
    });
    let more = reply.has_more.then(|| "(older ones are not shown)".to_owned());
    lines.chain(more).collect::<Vec<_>>().join("\n")
}
