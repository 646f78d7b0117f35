use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use crate::cli::{
    GlobalOptions,
    backend::{api::Api, open},
    exit::CommandFailure,
    terminal::answer,
};
use recapd_api::context::{HANDOFF_TOKENS_MAX, HANDOFF_TOKENS_MIN};
use recapd_config::Config;
use recapd_core::domain::agent::AgentId;

#[derive(Debug, Args)]
#[command(after_help = "\
Prints the facts, the summary, the newest part of the conversation word for word, the files that it is about, and
how to look up the rest. Give it to another agent, another host or a person.
Examples:
  recapd handoff my-agent > handoff.md
  recapd handoff my-agent --max-tokens 4000 | llm 'Continue this work'")]
pub(crate) struct Handoff {
    /// The agent
    agent: AgentId,
    /// The most tokens; if the newest exchange alone has more, the document has more [default: 20000]
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(i64).range(HANDOFF_TOKENS_MIN..=HANDOFF_TOKENS_MAX))]
    max_tokens: Option<i64>,
}

impl Handoff {
    pub(crate) fn run(self, config: &Config, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        let reply = open::block_on(read(config, options, &self.agent, self.max_tokens))?;
        answer::print(options, &reply, reply["text"].as_str().unwrap_or_default())
    }
}

/// Requests a handoff. It has the default size unless `max_tokens` says otherwise.
pub(super) async fn read(
    config: &Config,
    options: &GlobalOptions,
    agent: &AgentId,
    max_tokens: Option<i64>,
) -> Result<Value, CommandFailure> {
    let size = max_tokens.map_or_else(String::new, |tokens| format!("?max_tokens={tokens}"));
    let path = format!("/v1/agents/{agent}/handoff{size}");
    Api::reading(config, options).await?.read(&path).await
}
