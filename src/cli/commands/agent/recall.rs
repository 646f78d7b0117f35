//! `recapd recall` and `expand`.

use std::process::ExitCode;

use clap::Args;

use crate::cli::{
    GlobalOptions,
    backend::{
        api::{Api, escape},
        open,
    },
    exit::CommandFailure,
    list::TimeOptions,
    terminal::{answer, output},
};
use recapd_api::recall::{
    self, ArchiveQuestion, ExpandReply, FOUND_MAX, FOUND_SHOWN, MESSAGES_MAX, MESSAGES_SHOWN, Range,
    RecallReply,
};
use recapd_config::Config;
use recapd_core::{
    domain::{agent::AgentId, time::Timestamp},
    formats::outgoing::RequestFormat,
};

#[derive(Debug, Args)]
#[command(after_help = "\
Searches everything that was ever said to and by an agent and its tools, even what has long left its window. Finds words in all
their forms. If the question names a time, exchanges of that time come first. Examples:
  recapd recall my-agent why did the deploy fail last tuesday
  recapd recall my-agent jwt auth --role user --since 2026-03-01
  recapd recall my-agent \"connection refused\"             words next to each other
  recapd recall my-agent deploy --server http://127.0.0.1:7411")]
pub(crate) struct Recall {
    /// The agent
    agent: AgentId,
    /// Words and "quoted phrases" to search for
    #[arg(required = true, value_name = "WORDS")]
    words: Vec<String>,
    /// Print at most this many exchanges
    #[arg(long, default_value_t = FOUND_SHOWN, value_name = "N", value_parser = clap::value_parser!(i64).range(1..=FOUND_MAX))]
    limit: i64,
    /// Only messages of this role: user, assistant, tool or system
    #[arg(long)]
    role: Option<String>,
    /// Only exchanges that call this tool
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    #[command(flatten)]
    times: TimeOptions,
    /// Only exchanges of this session
    #[arg(long, value_name = "N")]
    session: Option<i64>,
    /// The order of the results: best or recent
    #[arg(long)]
    order: Option<String>,
    /// Words such as 'yesterday' are relative to this time [default: now]
    #[arg(long, value_name = "TIME")]
    as_of: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Prints messages verbatim. Each line of the summary names the exchanges that it covers. Examples:
  recapd expand my-agent 38
  recapd expand my-agent '#12–#14' '#20'
  recapd expand my-agent 38 --events                        with instructions and the host's events
  recapd expand my-agent 38 --format anthropic              in the form of a provider's request")]
pub(crate) struct Expand {
    /// The agent
    agent: AgentId,
    /// The exchanges: 38, '#38', or '#12–#14'
    #[arg(required = true, value_name = "N", value_parser = Range::read)]
    exchanges: Vec<Range>,
    /// Print in the form of a provider's request: anthropic, openai, openai-responses or gemini
    #[arg(long, value_parser = request_format)]
    format: Option<RequestFormat>,
    /// Also print instructions, and events that the host recorded
    #[arg(long, alias = "all")]
    events: bool,
    /// Continue after this message, the last one of the page before
    #[arg(long, default_value_t = 0, value_name = "MESSAGE", alias = "after")]
    cursor: i64,
    /// Print at most this many messages of each exchange
    #[arg(long, default_value_t = MESSAGES_SHOWN, value_name = "N", value_parser = clap::value_parser!(i64).range(1..=MESSAGES_MAX))]
    limit: i64,
}

fn request_format(name: &str) -> Result<RequestFormat, String> {
    let names = "use anthropic, openai, openai-responses or gemini";
    RequestFormat::from_name(name).ok_or_else(|| names.to_owned())
}

impl Recall {
    pub(crate) fn run(self, config: &Config, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        let path = self.path()?;
        let reply: RecallReply =
            open::block_on(async { Api::reading(config, options).await?.read(&path).await })?;
        answer::print(options, &reply, &recall::found_text(&reply))
    }
}

impl Recall {
    fn path(&self) -> Result<String, CommandFailure> {
        let words = words(&self.words);
        let (limit, session) = (self.limit.to_string(), self.session.map(|session| session.to_string()));
        let parameters = [
            ("q", Some(words.as_str())),
            ("limit", Some(limit.as_str())),
            ("role", self.role.as_deref()),
            ("tool", self.tool.as_deref()),
            ("since", self.times.since.as_deref()),
            ("until", self.times.until.as_deref()),
            ("session", session.as_deref()),
            ("order", self.order.as_deref()),
            ("as_of", self.as_of.as_deref()),
        ];
        let value = |name: &str| parameters.iter().find(|(key, _)| *key == name).and_then(|(_, text)| *text);
        ArchiveQuestion::read(value, Timestamp::default())
            .map_err(|error| CommandFailure::usage(error.to_string()))?;
        let pairs = parameters.iter().filter_map(|(name, text)| Some(format!("{name}={}", escape((*text)?))));
        let query: Vec<String> = pairs.collect();
        Ok(format!("/v1/agents/{}/recall?{}", self.agent, query.join("&")))
    }
}

/// Joins the arguments. An argument with blanks was quoted in the shell, so it becomes a phrase.
fn words(arguments: &[String]) -> String {
    let quoted = |argument: &String| {
        if argument.trim().contains(char::is_whitespace) && !argument.contains('"') {
            format!("\"{argument}\"")
        } else {
            argument.clone()
        }
    };
    arguments.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

impl Expand {
    pub(crate) fn run(self, config: &Config, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        let replies = open::block_on(async { self.replies(&Api::reading(config, options).await?).await })?;
        if options.json {
            output::one_or_all(&replies)?;
        } else if self.format.is_some() {
            let bodies: Vec<_> = replies.iter().filter_map(|reply| reply.body.as_ref()).collect();
            output::one_or_all(&bodies)?;
        } else {
            output::text(&recall::expanded_texts(&replies))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn numbers(&self) -> impl Iterator<Item = i64> {
        self.exchanges.iter().flat_map(|range| range.numbers())
    }

    async fn replies(&self, api: &Api) -> Result<Vec<ExpandReply>, CommandFailure> {
        let mut replies = Vec::new();
        let scope = if self.events { "all" } else { "conversation" };
        for number in self.numbers() {
            let format = self.format.map_or_else(String::new, |format| format!("&format={}", format.name()));
            let path = format!(
                "/v1/agents/{}/exchanges/{number}?after={}&limit={}&scope={scope}{format}",
                self.agent, self.cursor, self.limit
            );
            replies.push(api.read(&path).await?);
        }
        Ok(replies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_with_blanks_is_a_phrase() {
        let arguments = ["jwt".to_owned(), "connection refused".to_owned(), "say \"so\" now".to_owned()];
        assert_eq!(words(&arguments), "jwt \"connection refused\" say \"so\" now");
    }
}
