//! `recapd mark`, `rewind`, `clear` and `fork`.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use crate::cli::{
    GlobalOptions,
    backend::{api::Api, open},
    exit::CommandFailure,
    terminal::answer,
};
use recapd_config::Config;
use recapd_core::domain::{agent::AgentId, lineage::Step, number::count};

#[derive(Debug, Args)]
#[command(after_help = "\
A rewind to a mark returns to the exchange of the mark, and to the window at that time. Examples:
  recapd mark my-agent \"before the refactoring\"
  recapd mark my-agent --server http://127.0.0.1:7411")]
pub(crate) struct MarkCommand {
    /// The agent
    agent: AgentId,
    /// The mark's name [default: none]
    label: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Later exchanges are set aside, not deleted; they keep their numbers. Examples:
  recapd rewind my-agent                             to the newest mark
  recapd rewind my-agent \"before the refactoring\"")]
pub(crate) struct Rewind {
    /// The agent
    agent: AgentId,
    /// The mark's name [default: the newest mark]
    label: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The window is emptied and a new session begins; what was in the window is summarised. Marks are removed. Example:
  recapd clear my-agent")]
pub(crate) struct Clear {
    /// The agent
    agent: AgentId,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The new agent shares the parent's past, but not its future. Example:
  recapd fork my-agent my-agent-scout")]
pub(crate) struct Fork {
    /// The agent to fork
    parent: AgentId,
    /// The id of the new agent; it must not exist yet
    child: AgentId,
}

impl MarkCommand {
    pub(crate) fn run(self, config: &Config, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        let body = json!({ "label": self.label });
        step(config, options, &self.agent, &Step::Mark(self.label), ("mark", body))
    }
}

impl Rewind {
    pub(crate) fn run(self, config: &Config, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        let body = json!({ "to": self.label });
        step(config, options, &self.agent, &Step::Rewind(self.label), ("rewind", body))
    }
}

impl Clear {
    pub(crate) fn run(self, config: &Config, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        step(config, options, &self.agent, &Step::Clear, ("clear", json!({})))
    }
}

impl Fork {
    pub(crate) fn run(self, config: &Config, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        let Self { parent, child } = self;
        let reply = post(config, options, &parent, ("fork", json!({ "child": child })))?;
        print(options, &reply, &|reply| {
            format!(
                "forked {child} from {parent} at {}: {} and {} of the summary are shared",
                number(&reply["fork_exchange"]),
                counted(reply, "exchanges", "exchange"),
                counted(reply, "items", "item")
            )
        })
    }
}

fn step(
    config: &Config,
    options: &GlobalOptions,
    agent: &AgentId,
    step: &Step,
    action: (&str, Value),
) -> Result<ExitCode, CommandFailure> {
    let reply = post(config, options, agent, action)?;
    print(options, &reply, &|reply| line(agent, step, reply))
}

/// Posts an action on an agent: the action's name and its body.
pub(super) fn post(
    config: &Config,
    options: &GlobalOptions,
    agent: &AgentId,
    (action, body): (&str, Value),
) -> Result<Value, CommandFailure> {
    let path = format!("/v1/agents/{agent}/{action}");
    open::block_on(async { Api::changing(config, options).await?.post(&path, &body).await })
}

/// Applies a merge patch to a resource of an agent, such as `facts/12`.
pub(super) fn patch(
    config: &Config,
    options: &GlobalOptions,
    agent: &AgentId,
    (resource, change): (&str, &Value),
) -> Result<Value, CommandFailure> {
    let path = format!("/v1/agents/{agent}/{resource}");
    open::block_on(async { Api::changing(config, options).await?.patch(&path, change).await })
}

pub(super) fn print(
    options: &GlobalOptions,
    reply: &Value,
    line: &dyn Fn(&Value) -> String,
) -> Result<ExitCode, CommandFailure> {
    answer::print(options, reply, &line(reply))
}

/// Formats in one line what a step did.
fn line(agent: &AgentId, step: &Step, reply: &Value) -> String {
    let name =
        |label: &Option<String>| label.as_ref().map_or_else(String::new, |label| format!(" `{label}`"));
    match step {
        Step::Pin(seq) => format!("pinned message {seq} of {agent}"),
        Step::Unpin(seq) => format!("unpinned message {seq} of {agent}"),
        Step::Note(change) => format!("wrote {} of {agent}", change.name),
        Step::Clear => format!("cleared {agent}: session {} begins with an empty window", reply["session"]),
        Step::Mark(label) => {
            format!("marked {agent}{} at {}", name(label), number(&reply["marked_exchange"]))
        }
        Step::Rewind(label) => format!(
            "rewound {agent} to the mark{} at {}: {} set aside, the window begins with {}",
            name(label),
            number(&reply["marked_exchange"]),
            counted(reply, "set_aside", "exchange"),
            number(&reply["first_exchange"])
        ),
    }
}

/// Formats the count in the reply's `member` with its noun.
pub(super) fn counted(reply: &Value, member: &str, noun: &str) -> String {
    count(reply[member].as_i64().unwrap_or_default(), noun)
}

/// Formats `#12`, or "the beginning" if there is no exchange.
fn number(exchange: &Value) -> String {
    match exchange.as_i64() {
        None | Some(0) => "the beginning".to_owned(),
        Some(number) => format!("#{number}"),
    }
}
