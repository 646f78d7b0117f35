//! `recapd facts`: prints and corrects the facts of an agent.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::lineage;
use crate::cli::{
    GlobalOptions,
    backend::{
        api::{Api, behind},
        open,
    },
    exit::CommandFailure,
    terminal::answer,
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
use recapd_store::FactQuery;

/// One request returns at most this many facts.
const SHOWN_MAX: i64 = 200;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "\
Facts say what holds: goals, what the user demands, decisions, the state of the work, open questions, dead ends, and what is
known about people. The summary shows them first, as far as there is room. Each fact comes from an exchange, and holds until
another fact settles or replaces it. A pinned fact leaves the summary last, and no model closes it. Examples:
  recapd facts my-agent
  recapd facts my-agent --all
  recapd facts add my-agent demand \"never push to main\"
  recapd facts edit my-agent 12 \"use bun, not npm\"
  recapd facts close my-agent 12")]
pub(crate) struct Facts {
    #[command(subcommand)]
    action: Option<FactsAction>,
    /// The agent
    #[arg(required = true)]
    agent: Option<AgentId>,
    /// Also show facts that no longer hold
    #[arg(long)]
    all: bool,
    /// Only facts with larger numbers
    #[arg(long, default_value_t = 0)]
    after: i64,
    /// Show at most this many facts
    #[arg(long, default_value_t = SHOWN_MAX, value_name = "N", value_parser = clap::value_parser!(i64).range(1..=SHOWN_MAX))]
    limit: i64,
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
        numbered: FactNumber,
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
    pub(crate) fn run(self, config: &Config, shared: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        let query = FactQuery {
            after: self.after,
            limit: self.limit,
            all: self.all,
        };
        match (self.action, self.agent) {
            (Some(action), _) => action.run(config, shared),
            (None, Some(agent)) => print(config, shared, &agent, query),
            (None, None) => Err(CommandFailure::usage("name an agent".to_owned())),
        }
    }
}

fn print(
    config: &Config,
    shared: &GlobalOptions,
    agent: &AgentId,
    query: FactQuery,
) -> Result<ExitCode, CommandFailure> {
    let facts = open::block_on(read(config, shared, agent, query))?;
    let text = if facts.is_empty() {
        "(no facts)".to_owned()
    } else {
        facts.iter().map(line).collect::<Vec<_>>().join("\n")
    };
    answer::print(shared, &json!({"agent_id": agent, "facts": facts}), &text)
}

async fn read(
    config: &Config,
    shared: &GlobalOptions,
    agent: &AgentId,
    query: FactQuery,
) -> Result<Vec<Value>, CommandFailure> {
    let cursor = behind(PagedList::Facts(agent), Some(&query.after));
    let (limit, all) = (query.limit, i64::from(query.all));
    let path = format!("/v1/agents/{agent}/facts?limit={limit}{cursor}&all={all}");
    let page: Value = Api::reading(config, shared).await?.read(&path).await?;
    Ok(page["facts"].as_array().cloned().unwrap_or_default())
}

impl FactsAction {
    fn run(self, config: &Config, shared: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        match self {
            Self::Add { agent, kind, text } => {
                add(config, shared, &agent, &json!({"kind": kind, "text": text}))
            }
            Self::Edit { numbered, text } => edit(config, shared, &numbered, &json!({"text": text})),
            Self::Close(numbered) => edit(config, shared, &numbered, &json!({"closed": true})),
            Self::Pin(numbered) => edit(config, shared, &numbered, &json!({"pinned": true})),
            Self::Unpin(numbered) => edit(config, shared, &numbered, &json!({"pinned": false})),
        }
    }
}

fn add(
    config: &Config,
    shared: &GlobalOptions,
    agent: &AgentId,
    fact: &Value,
) -> Result<ExitCode, CommandFailure> {
    NewFact::parse(fact).map_err(|error| refusal(&error))?;
    let reply = lineage::post(config, shared, agent, ("facts", fact.clone()))?;
    lineage::print(shared, &reply, &|reply| {
        format!(
            "added fact {} to {agent}: version {}",
            reply["fact"], reply["version"]
        )
    })
}

fn edit(
    config: &Config,
    shared: &GlobalOptions,
    numbered: &FactNumber,
    change: &Value,
) -> Result<ExitCode, CommandFailure> {
    let FactNumber { agent, fact } = numbered;
    FactEdit::parse(change).map_err(|error| refusal(&error))?;
    let reply = lineage::patch(config, shared, agent, (&format!("facts/{fact}"), change))?;
    lineage::print(shared, &reply, &|reply| {
        let now = match reply["fact"].as_i64() {
            Some(now) if now != *fact => format!(", now fact {now}"),
            _ => String::new(),
        };
        format!(
            "changed fact {fact} of {agent}{now}: version {}",
            reply["version"]
        )
    })
}

fn refusal(error: &FactEditError) -> CommandFailure {
    CommandFailure::usage(match error {
        FactEditError::Invalid { name: "kind", .. } => {
            format!(
                "a kind is one of {}",
                FactKind::ALL.map(FactKind::name).join(", ")
            )
        }
        error => error.to_string(),
    })
}

/// Formats `12  #40  (demand, user Ada): use pnpm`, with `…, until version 7` for a fact that no longer holds.
fn line(fact: &Value) -> String {
    let text = |name: &str| fact[name].as_str().unwrap_or_default();
    let source = match fact["exchange"].as_i64() {
        Some(exchange) if exchange > 0 => format!("#{exchange}"),
        _ => "by hand".to_owned(),
    };
    let words = format!("{} {}", text("voice"), text("speaker"));
    let closed = fact["closed_version"].as_i64();
    let marks = [
        Some(text("kind").to_owned()),
        Some(words.trim().to_owned()).filter(|words| !words.is_empty()),
        (fact["pinned"] == true).then(|| "pinned".to_owned()),
        closed.map(|version| format!("until version {version}")),
        fact["replaced_by"]
            .as_i64()
            .map(|other| format!("now fact {other}")),
    ];
    let marks: Vec<String> = marks.into_iter().flatten().collect();
    format!(
        "{:>4}  {source}  ({}): {}",
        fact["fact"],
        marks.join(", "),
        text("text")
    )
}
