use std::process::ExitCode;

use clap::{Args, ValueEnum};

use crate::cli::{
    GlobalOptions,
    backend::{
        api::{Api, escape},
        open,
    },
    exit::CommandFailure,
    terminal::output,
};
use recapd_config::Config;
use recapd_core::{
    domain::{agent::AgentId, context::Alternation},
    formats::outgoing::RequestFormat,
};

#[derive(Debug, Args)]
#[command(after_help = "\
Prints the fields of the provider's request that hold the conversation: preamble, first message of the session, summary
and window, valid for that provider. Notes about what this provider's format can't express go to stderr; --json has everything.
Examples:
  recapd context my-agent --format openai
  recapd context duet --format anthropic --as agent_b --budget 50000")]
pub(crate) struct ContextCommand {
    /// The agent
    agent: AgentId,
    /// The provider's API for which to write the request: anthropic, openai, openai-responses or gemini
    #[arg(long, value_name = "FORMAT", value_parser = format_named)]
    format: RequestFormat,
    /// The most tokens of the whole request; 0 is no limit [default: `context_max_tokens` of the agent, otherwise
    /// `context.max_tokens`]
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(i64).range(0..=100_000_000))]
    budget: Option<i64>,
    /// The most tokens of the summary in the request; never more than a quarter of the request
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(i64).range(1..=1_000_000))]
    summary_max_tokens: Option<i64>,
    /// How to treat neighbouring turns of one side [default: `alternation` of the agent, otherwise
    /// `context.alternation`]
    #[arg(long, value_name = "ack|merge|keep", value_parser = alternation_named)]
    alternation: Option<Alternation>,
    /// Send the thinking of the open exchange even if an earlier message has changed [default: leave it out then]
    #[arg(long, value_enum, value_name = "open", hide_possible_values = true)]
    thinking: Option<ThinkingChoice>,
    /// Print a shared conversation as this speaker sees it [see `perspective.participants`]
    #[arg(long = "as", value_name = "SPEAKER")]
    speaker: Option<String>,
}

/// The exchanges whose thinking is sent even if an earlier message has changed.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ThinkingChoice {
    Open,
}

pub(super) fn format_named(name: &str) -> Result<RequestFormat, String> {
    RequestFormat::from_name(name)
        .ok_or_else(|| "expected anthropic, openai, openai-responses or gemini".to_owned())
}

fn alternation_named(name: &str) -> Result<Alternation, String> {
    Alternation::from_name(name).ok_or_else(|| "expected ack, merge or keep".to_owned())
}

impl ContextCommand {
    /// Builds the context with the agent's own settings.
    pub(super) fn plain(agent: AgentId, format: RequestFormat) -> Self {
        Self {
            agent,
            format,
            budget: None,
            summary_max_tokens: None,
            alternation: None,
            thinking: None,
            speaker: None,
        }
    }

    pub(crate) fn run(self, config: &Config, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        open::block_on(async {
            let reply = self.reply(&Api::reading(config, options).await?).await?;
            if options.json {
                output::json(&reply)?;
                return Ok(ExitCode::SUCCESS);
            }
            output::json(&reply["body"])?;
            for note in reply["notes"].as_array().into_iter().flatten() {
                output::note(&format!("note: {}", note.as_str().unwrap_or_default()));
            }
            if reply["over_budget"] == true {
                output::note(
                    "note: this is over the budget, because the leading instructions and the newest exchange alone are too big; they \
                     are never left out",
                );
            }
            Ok(ExitCode::SUCCESS)
        })
    }

    async fn reply(&self, api: &Api) -> Result<serde_json::Value, CommandFailure> {
        let budget = self.budget.map(|budget| format!("&budget={budget}"));
        let summary = self.summary_max_tokens.map(|tokens| format!("&summary_max_tokens={tokens}"));
        let mode = self.alternation.map(|mode| format!("&alternation={}", mode.name()));
        let thinking = self.thinking.map(|ThinkingChoice::Open| "&thinking=open");
        let speaker = self.speaker.as_deref().map(|speaker| format!("&as={}", escape(speaker)));
        let path = format!(
            "/v1/agents/{}/context?format={}{}{}{}{}{}",
            self.agent,
            self.format.name(),
            budget.unwrap_or_default(),
            summary.unwrap_or_default(),
            mode.unwrap_or_default(),
            thinking.unwrap_or_default(),
            speaker.unwrap_or_default()
        );
        api.read(&path).await
    }
}
