//! `recapd window`: prints what the model sees verbatim.

use std::process::ExitCode;

use clap::Args;
use serde::{Deserialize, Serialize};

use super::context;
use crate::cli::{
    GlobalOptions,
    backend::{api::Api, open},
    exit::CommandFailure,
    list::{self, PageOptions, PagedPath},
    terminal::{figures::thousands, output},
};
use recapd_api::recall::{
    message_texts,
    window::{WindowExchange, WindowReply},
};
use recapd_config::Config;
use recapd_core::{
    domain::{
        agent::AgentId,
        cursor::{self, PagedList},
        legs::{LegNumber, LegRun, continues},
    },
    formats::outgoing::RequestFormat,
};

/// Follows a preamble that is too long for a page.
const MORE_PREAMBLE: &str = "\n(more of the preamble follows: recapd export prints all of it)\n";

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  recapd window my-agent                       the messages of the window, in whole exchanges
  recapd window my-agent --limit 3             the newest three exchanges
  recapd window my-agent --format anthropic    the request, with anchor and summary, like `recapd context`")]
pub(crate) struct WindowCommand {
    /// The agent
    agent: AgentId,
    /// Print the request to this provider instead
    #[arg(long, value_name = "anthropic|openai|openai-responses|gemini", value_parser = context::format_named,
        conflicts_with_all = ["limit", "cursor", "all"])]
    format: Option<RequestFormat>,
    #[command(flatten)]
    page: PageOptions,
}

#[derive(Serialize)]
struct WindowPage {
    #[serde(flatten)]
    window: WindowReply,
    /// Older exchanges come before this one; `None` on the last page.
    next_cursor: Option<String>,
}

/// The paging fields of a daemon's answer. The window is parsed separately, so that its messages stay verbatim.
#[derive(Deserialize)]
struct PagingFields {
    #[serde(deserialize_with = "cursor::last_entry")]
    next_cursor: Option<String>,
}

impl WindowCommand {
    pub(crate) fn run(self, config: &Config, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        if let Some(format) = self.format {
            return context::ContextCommand::plain(self.agent, format).run(config, options);
        }
        let page = open::block_on(async { self.pages(&Api::reading(config, options).await?).await })?;
        if options.json {
            output::json(&page)?;
        } else {
            output::text(&text(&page, self.page.cursor.is_none()))?;
            list::more_follow(page.next_cursor.as_deref());
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Asks for one page, or for all of them as one.
    async fn pages(&self, api: &Api) -> Result<WindowPage, CommandFailure> {
        let mut newest = self.page(api, self.page.cursor.as_deref()).await?;
        while let Some(cursor) = newest.next_cursor.take_if(|_| self.page.all) {
            let mut older = self.page(api, Some(&cursor)).await?;
            older.window.exchanges.append(&mut newest.window.exchanges);
            newest.window.exchanges = older.window.exchanges;
            newest.next_cursor = older.next_cursor;
        }
        Ok(newest)
    }

    async fn page(&self, api: &Api, cursor: Option<&str>) -> Result<WindowPage, CommandFailure> {
        let window = PagedPath::new(
            PagedList::Window(&self.agent),
            format!("/v1/agents/{}/window", self.agent),
            "exchanges",
        );
        let text = api.get(&window.page(self.page.rows_max(), cursor), "application/json").await?;
        let read = || -> serde_json::Result<WindowPage> {
            let PagingFields { next_cursor } = serde_json::from_str(&text)?;
            Ok(WindowPage { window: serde_json::from_str(&text)?, next_cursor })
        };
        Ok(read().map_err(anyhow::Error::new)?)
    }
}

fn text(page: &WindowPage, is_newest: bool) -> String {
    let reply = &page.window;
    let budget = match reply.budget_tokens {
        0 => "no budget".to_owned(),
        budget => format!("a budget of {} tokens", thousands(budget)),
    };
    let head = format!(
        "window of {}: {} tokens of {budget}, from #{}\n",
        reply.agent_id,
        thousands(reply.tokens),
        reply.first_exchange
    );
    let more = reply.preamble_next_after.map(|_| MORE_PREAMBLE.to_owned());
    let preamble = message_texts(&reply.preamble).into_iter().chain(more);
    let runs = reply.exchanges.chunk_by(|one, next| leg_number(one).first_leg == leg_number(next).first_leg);
    let exchanges = runs.flat_map(|run| run_texts(reply, run, is_newest));
    let nothing = "\n(nothing is in the window)\n".to_owned();
    let is_empty = reply.preamble.is_empty() && reply.exchanges.is_empty();
    std::iter::once(head).chain(preamble).chain(exchanges).chain(is_empty.then_some(nothing)).collect()
}

fn leg_number(exchange: &WindowExchange) -> LegNumber {
    LegNumber::new(exchange.exchange, exchange.continues)
}

/// Formats one exchange, or several legs of one exchange below a common heading. `is_newest` is true if this page is the
/// newest one.
fn run_texts(reply: &WindowReply, run: &[WindowExchange], is_newest: bool) -> Vec<String> {
    let is_last = run.last().map(|last| last.exchange) == reply.exchanges.last().map(|last| last.exchange);
    let rows: Vec<LegNumber> = run.iter().map(leg_number).collect();
    let legs = LegRun::of(&rows, is_newest || !is_last);
    let heading = legs.filter(LegRun::is_several).map(|run| format!("\n{}\n", run.heading()));
    let is_alone = heading.is_none();
    let exchanges = run.iter().flat_map(|exchange| exchange_texts(reply, exchange, is_alone));
    heading.into_iter().chain(exchanges).collect()
}

fn exchange_texts(reply: &WindowReply, exchange: &WindowExchange, is_alone: bool) -> Vec<String> {
    let continued = exchange.continues.filter(|_| is_alone);
    let continued = continued.map_or_else(String::new, |first| format!("  {}", continues(first)));
    let (number, tokens) = (exchange.exchange, thousands(exchange.tokens));
    let head = format!("\n#{number}{continued}  {tokens} tokens\n");
    let messages = message_texts(&exchange.messages);
    let more = exchange.next_after.map(|after| more_text(&reply.agent_id, number, after));
    std::iter::once(head).chain(messages).chain(more).collect()
}

/// Formats the hint on how to print the rest of an exchange that is too long for a page.
fn more_text(agent: &AgentId, exchange: i64, after: i64) -> String {
    format!("\n(more follows: recapd expand {agent} {exchange} --cursor {after})\n")
}
