//! `recapd facts`: prints and corrects the facts of an agent.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::lineage;
use crate::cli::{
    GlobalOptions,
    backend::{api::Api, open},
    exit::CommandFailure,
    list::{ListPage, PageOptions, PagedPath},
    terminal::table::{Align, Table},
};
use recapd_config::Config;
use recapd_core::domain::{
    agent::AgentId,
    cursor::PagedList,
    summary::fact::{
        FactKind,
        edit::{FactEdit, FactEditError, NewFact},
    },
};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "\
Facts say what holds: goals, what the user demands, decisions, the state of the work, open questions, dead ends, and what is
known about people. The summary shows them first, as far as there is room. Each fact comes from an exchange, and holds until
another fact settles or replaces it. A pinned fact leaves the summary last, and no model closes it. Examples:
  recapd facts my-agent
  recapd facts my-agent --past
  recapd facts add my-agent demand \"never push to main\"
  recapd facts edit my-agent 12 \"use bun, not npm\"
  recapd facts close my-agent 12")]
pub(crate) struct Facts {
    #[command(subcommand)]
    action: Option<FactsAction>,
    /// The agent
    #[arg(required = true)]
    agent: Option<AgentId>,
    /// Also print facts that no longer hold
    #[arg(long)]
    past: bool,
    #[command(flatten)]
    page: PageOptions,
}

#[derive(Debug, Subcommand)]
enum FactsAction {
    /// Add a fact
    Add {
        /// The agent
        agent: AgentId,
        /// The kind: goal, demand, decision, state, open, `dead_end` or person
        kind: String,
        /// The text, in one line
        text: String,
    },
    /// Reword a fact
    Edit {
        #[command(flatten)]
        fact_number: FactNumber,
        /// The new text, in one line
        text: String,
    },
    /// Mark a fact as no longer holding
    Close(FactNumber),
    /// Keep a fact in the summary
    Pin(FactNumber),
    /// Remove a pin
    Unpin(FactNumber),
}

#[derive(Debug, Args)]
struct FactNumber {
    /// The agent
    agent: AgentId,
    /// The fact's number; `recapd facts AGENT` prints them
    fact: i64,
}

impl Facts {
    pub(crate) fn run(self, config: &Config, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        match (self.action, self.agent) {
            (Some(action), _) => action.run(config, options),
            (None, Some(agent)) => {
                let facts =
                    PagedPath::new(PagedList::Facts(&agent), format!("/v1/agents/{agent}/facts"), "facts")
                        .with_filters(format!("&all={}", i64::from(self.past)));
                let page: ListPage<Value> = open::block_on(async {
                    let api = Api::reading(config, options).await?;
                    self.page.read(&api, &facts).await
                })?;
                page.print(options, &text(&page.rows))
            }
            (None, None) => Err(CommandFailure::usage("name an agent".to_owned())),
        }
    }
}

impl FactsAction {
    fn run(self, config: &Config, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        match self {
            Self::Add { agent, kind, text } => {
                add(config, options, &agent, &json!({"kind": kind, "text": text}))
            }
            Self::Edit { fact_number, text } => edit(config, options, &fact_number, &json!({"text": text})),
            Self::Close(fact_number) => edit(config, options, &fact_number, &json!({"closed": true})),
            Self::Pin(fact_number) => edit(config, options, &fact_number, &json!({"pinned": true})),
            Self::Unpin(fact_number) => edit(config, options, &fact_number, &json!({"pinned": false})),
        }
    }
}

fn add(
    config: &Config,
    options: &GlobalOptions,
    agent: &AgentId,
    fact: &Value,
) -> Result<ExitCode, CommandFailure> {
    NewFact::parse(fact).map_err(|error| refusal(&error))?;
    let reply = lineage::post(config, options, agent, ("facts", fact.clone()))?;
    lineage::print(options, &reply, &|reply| {
        format!("added fact {} to {agent}: version {}", reply["fact"], reply["version"])
    })
}

fn edit(
    config: &Config,
    options: &GlobalOptions,
    fact_number: &FactNumber,
    change: &Value,
) -> Result<ExitCode, CommandFailure> {
    let FactNumber { agent, fact } = fact_number;
    FactEdit::parse(change).map_err(|error| refusal(&error))?;
    let reply = lineage::patch(config, options, agent, (&format!("facts/{fact}"), change))?;
    lineage::print(options, &reply, &|reply| {
        let now = match reply["fact"].as_i64() {
            Some(now) if now != *fact => format!(", now fact {now}"),
            _ => String::new(),
        };
        format!("changed fact {fact} of {agent}{now}: version {}", reply["version"])
    })
}

fn refusal(error: &FactEditError) -> CommandFailure {
    CommandFailure::usage(match error {
        FactEditError::Invalid { name: "kind", .. } => {
            format!("a kind is one of {}", FactKind::ALL.map(FactKind::name).join(", "))
        }
        error => error.to_string(),
    })
}

fn text(facts: &[Value]) -> String {
    if facts.is_empty() {
        return "(no facts)".to_owned();
    }
    let mut table = Table::new([
        ("FACT", Align::Right),
        ("FROM", Align::Left),
        ("MARKS", Align::Left),
        ("TEXT", Align::Left),
    ]);
    for fact in facts {
        let source = match fact["exchange"].as_i64() {
            Some(exchange) if exchange > 0 => format!("#{exchange}"),
            _ => "by hand".to_owned(),
        };
        let text = fact["text"].as_str().unwrap_or_default().to_owned();
        table.row([fact["fact"].to_string(), source, marks(fact), text]);
    }
    table.text()
}

/// Formats `demand, user Ada`; for a fact that no longer holds also `until version 7`.
fn marks(fact: &Value) -> String {
    let text = |name: &str| fact[name].as_str().unwrap_or_default();
    let speaker = format!("{} {}", text("voice"), text("speaker"));
    let closed = fact["closed_version"].as_i64();
    let replaced = fact["replaced_by"].as_i64();
    let marks = [
        Some(text("kind").to_owned()),
        Some(speaker.trim().to_owned()).filter(|speaker| !speaker.is_empty()),
        (fact["pinned"] == true).then(|| "pinned".to_owned()),
        closed.map(|version| format!("until version {version}")),
        replaced.map(|other| format!("now fact {other}")),
    ];
    marks.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
