use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use super::versions;
use crate::cli::{
    GlobalOptions,
    backend::{api::Api, open},
    exit::{CommandFailure, NOT_FOUND, UNAVAILABLE},
    terminal::output,
};
use recapd_client::PLACEHOLDER;
use recapd_config::Config;
use recapd_core::domain::{
    agent::AgentId,
    project::ProjectId,
    summary::empty::{NOTHING_SHOWN, in_place_of_shared},
};

/// The largest limit that can be requested: far more than a document has.
const TOKENS_MAX: i64 = 1_000_000;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  recapd summary my-agent                 the document, as Markdown
  recapd summary my-agent --json          with sections, version, coverage and pending exchanges
  recapd summary my-agent --brief         the newest lines, as a session gets them at its start
  recapd summary my-agent --raw > it.md   verbatim, and nothing if there is no summary yet
  recapd summary my-agent --rev 12        version 12; `recapd versions my-agent` lists the versions
  recapd summary --project ikigai         the summary that the agents of a project share")]
pub(crate) struct SummaryCommand {
    /// The agents
    #[arg(required_unless_present = "project", value_name = "AGENT")]
    agents: Vec<AgentId>,
    /// Print the summary that the agents of this project share
    #[arg(long, value_name = "PROJECT", conflicts_with = "agents")]
    project: Option<ProjectId>,
    /// Print the newest lines: at most 9,000 characters and 2,300 tokens
    #[arg(long, conflicts_with = "project")]
    brief: bool,
    /// Print only the newest lines, at most this many tokens
    #[arg(long, value_name = "TOKENS", conflicts_with = "project", value_parser = clap::value_parser!(i64).range(1..=TOKENS_MAX))]
    max_tokens: Option<i64>,
    /// Print the document verbatim, without the agents' names; nothing if there is none
    #[arg(long)]
    raw: bool,
    /// Print this version of one agent's summary; `recapd versions` lists them
    #[arg(long, value_name = "VERSION", conflicts_with_all = ["project", "brief", "max_tokens"], value_parser = clap::value_parser!(i64).range(1..))]
    rev: Option<i64>,
}

/// Prints the summary that the agents of `project` share.
fn shared_summary(
    project: &ProjectId,
    config: &Config,
    options: &GlobalOptions,
    is_raw: bool,
) -> Result<ExitCode, CommandFailure> {
    let document = open::block_on(async {
        match document_of(project, config, options).await {
            Err(failure) => Err(print_placeholder(failure, config, options)?),
            document => document,
        }
    })?;
    if options.json {
        output::json(&document)?;
    } else if is_raw {
        print_raw(&[document])?;
    } else {
        output::text(&content(&document))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn document_of(
    project: &ProjectId,
    config: &Config,
    options: &GlobalOptions,
) -> Result<Value, CommandFailure> {
    let path = format!("/v1/projects/{project}/summary");
    let document = Api::reading(config, options).await?.read(&path).await;
    document.map_err(|failure: CommandFailure| {
        if failure.code() != NOT_FOUND {
            return failure;
        }
        CommandFailure::not_found(format!(
            "project `{project}` is unknown: no agent belongs to it; `recapd project join {project} AGENT` creates it, \
             `recapd project list` names the others"
        ))
    })
}

/// Returns the text of a document, or why it is empty.
fn content(document: &Value) -> String {
    match document["content"].as_str() {
        None | Some("") => why_empty(document),
        Some(content) => content.trim_end().to_owned(),
    }
}

fn why_empty(document: &Value) -> String {
    if let Some(members) = document["members"].as_array() {
        return in_place_of_shared(members.iter().any(has_past)).to_owned();
    }
    match document["hint"].as_str() {
        Some(hint) => format!("({hint})"),
        None => NOTHING_SHOWN.to_owned(),
    }
}

/// True if anything has left the agent's window.
fn has_past(figures: &Value) -> bool {
    ["covers_through", "pending_exchanges"].iter().any(|name| figures[*name].as_i64() > Some(0))
}

/// If a daemon or a database server was asked and the summary is unavailable, prints the text that a prompt can have in
/// place of the summary. Returns the failure, which the caller reports.
fn print_placeholder(
    failure: CommandFailure,
    config: &Config,
    options: &GlobalOptions,
) -> Result<CommandFailure, CommandFailure> {
    let is_server = options.server.is_some() || config.database.is_postgres();
    if failure.code() == UNAVAILABLE && is_server && !options.json {
        output::text(PLACEHOLDER)?;
    }
    Ok(failure)
}

fn print_raw(documents: &[Value]) -> std::io::Result<()> {
    let texts = documents.iter().filter_map(|document| document["content"].as_str());
    let text: String = texts.collect();
    if text.is_empty() {
        return Ok(());
    }
    output::text(&text)
}

impl SummaryCommand {
    pub(crate) fn run(self, config: &Config, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        if let Some(project) = &self.project {
            return shared_summary(project, config, options, self.raw);
        }
        open::block_on(async {
            let documents = match self.documents(config, options).await {
                Err(failure) => return Err(print_placeholder(failure, config, options)?),
                documents => documents?,
            };
            if options.json {
                output::one_or_all(&documents)?;
            } else if self.raw {
                print_raw(&documents)?;
            } else {
                output::text(&self.text(&documents))?;
            }
            Ok(ExitCode::SUCCESS)
        })
    }

    async fn documents(
        &self,
        config: &Config,
        options: &GlobalOptions,
    ) -> Result<Vec<Value>, CommandFailure> {
        match self.rev {
            Some(version) => Ok(vec![self.earlier(version, config, options).await?]),
            None => self.newest(&Api::reading(config, options).await?).await,
        }
    }

    async fn earlier(
        &self,
        version: i64,
        config: &Config,
        options: &GlobalOptions,
    ) -> Result<Value, CommandFailure> {
        match self.agents.as_slice() {
            [agent] => versions::document(agent, version, config, options).await,
            _ => Err(CommandFailure::usage(
                "--rev works only with one agent, because each agent has its own version numbers".to_owned(),
            )),
        }
    }

    /// Returns the query string of the request.
    fn parameters(&self) -> String {
        let max_tokens = self.max_tokens.map(|tokens| format!("max_tokens={tokens}"));
        let view = self.brief.then(|| "view=brief".to_owned());
        let parameters: Vec<String> = view.into_iter().chain(max_tokens).collect();
        if parameters.is_empty() { String::new() } else { format!("?{}", parameters.join("&")) }
    }

    async fn newest(&self, api: &Api) -> Result<Vec<Value>, CommandFailure> {
        let mut documents = Vec::new();
        for agent in &self.agents {
            let path = format!("/v1/agents/{agent}/summary{}", self.parameters());
            documents.push(api.read(&path).await?);
        }
        Ok(documents)
    }

    /// Joins the documents. If there are several, each stands below its agent's name.
    fn text(&self, documents: &[Value]) -> String {
        let texts: Vec<String> = self
            .agents
            .iter()
            .zip(documents)
            .map(|(agent, document)| match self.agents.len() {
                1 => content(document),
                _ => format!("──── {agent} ────\n\n{}", content(document)),
            })
            .collect();
        texts.join("\n\n")
    }
}
