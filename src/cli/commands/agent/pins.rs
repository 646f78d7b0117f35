//! `recapd pin`, `unpin` and `pins`.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::lineage;
use crate::cli::{
    GlobalOptions,
    backend::{api::Api, open},
    exit::CommandFailure,
    list::{ListPage, PageOptions},
    terminal::{
        answer,
        table::{Align, Table},
    },
};
use recapd_api::context::pins::ShownPin;
use recapd_config::Config;
use recapd_core::domain::agent::AgentId;

#[derive(Debug, Args)]
#[command(after_help = "\
A pinned message stays in view as a marked copy after its exchange has left the window, and after a clear.
Messages are numbered in the order in which they were stored. Examples:
  recapd pin my-agent 12
  recapd unpin my-agent 12 --server http://127.0.0.1:7411")]
pub(crate) struct PinCommand {
    /// The agent
    agent: AgentId,
    /// The message's number
    seq: i64,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  recapd pins my-agent")]
pub(crate) struct Pins {
    /// The agent
    agent: AgentId,
    #[command(flatten)]
    page: PageOptions,
}

impl PinCommand {
    pub(crate) fn pin(self, config: &Config, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        self.run(config, options, ("pin", "pinned"))
    }

    pub(crate) fn unpin(self, config: &Config, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        self.run(config, options, ("unpin", "unpinned"))
    }

    fn run(
        self,
        config: &Config,
        options: &GlobalOptions,
        (action, done): (&str, &str),
    ) -> Result<ExitCode, CommandFailure> {
        let Self { agent, seq } = self;
        lineage::post(config, options, &agent, (action, json!({ "seq": seq })))?;
        answer::print(
            options,
            &json!({ "agent_id": agent, "seq": seq, "pinned": action == "pin" }),
            &format!("{done} message {seq} of {agent}"),
        )
    }
}

impl Pins {
    pub(crate) fn run(self, config: &Config, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        let reply: Value = open::block_on(async {
            let path = format!("/v1/agents/{}/pins", self.agent);
            Api::reading(config, options).await?.read(&path).await
        })?;
        let page: ListPage<ShownPin> = self.page.cut(reply, "pins", "seq")?;
        page.print(options, &text(&page.rows))
    }
}

fn text(pins: &[ShownPin]) -> String {
    if pins.is_empty() {
        return "(nothing is pinned or important)".to_owned();
    }
    let mut table = Table::new([
        ("MESSAGE", Align::Right),
        ("EXCHANGE", Align::Right),
        ("KIND", Align::Left),
        ("WHY", Align::Left),
        ("TOKENS", Align::Right),
        ("BEGINS", Align::Left),
    ]);
    for pin in pins {
        let why = if pin.pinned { "pinned" } else { "important" };
        let window_note = if pin.in_window { ", in the window" } else { "" };
        table.row([
            pin.seq.to_string(),
            format!("#{}", pin.exchange),
            pin.kind.clone(),
            format!("{why}{window_note}"),
            pin.tokens.to_string(),
            pin.title.clone(),
        ]);
    }
    table.text()
}
