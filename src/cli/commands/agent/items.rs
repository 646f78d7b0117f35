//! `recapd items`: prints and corrects the items of a document.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

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
    summary::edit::{EditError, ItemEdit},
    text::one_line,
};

#[derive(Debug, Args)]
#[command(after_help = "\
A document is written from items. A pinned item stays in the document, in full, whatever its age; pinned items can take a
quarter of the document. A changed item gets a new number, and no model changes it any more. Examples:
  recapd items list my-agent
  recapd items pin my-agent 12
  recapd items edit my-agent 12 --text \"Chose RS256\" --importance decision")]
pub(crate) struct Items {
    #[command(subcommand)]
    action: ItemsAction,
}

#[derive(Debug, Subcommand)]
enum ItemsAction {
    /// Print an agent's items, by number
    List {
        /// The agent
        agent: AgentId,
        /// Also print items that are no longer in the document
        #[arg(long)]
        past: bool,
        #[command(flatten)]
        page: PageOptions,
    },
    /// Keep an item in the document, in full
    Pin(ItemNumber),
    /// Remove a pin
    Unpin(ItemNumber),
    /// Change the texts or the importance of an item
    Edit {
        #[command(flatten)]
        item_number: ItemNumber,
        /// The detailed text; shorter texts that aren't given are cut from it
        #[arg(long)]
        text: Option<String>,
        /// The shorter text
        #[arg(long)]
        brief: Option<String>,
        /// The headline
        #[arg(long)]
        gist: Option<String>,
        /// The importance: trivial, debugging, fix, feature, constraint or decision
        #[arg(long)]
        importance: Option<String>,
    },
}

#[derive(Debug, Args)]
struct ItemNumber {
    /// The agent
    agent: AgentId,
    /// The item's number; `recapd items list` prints the numbers
    item: i64,
}

impl Items {
    pub(crate) fn run(self, config: &Config, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        match self.action {
            ItemsAction::List { agent, past, page } => {
                let items =
                    PagedPath::new(PagedList::Items(&agent), format!("/v1/agents/{agent}/items"), "items")
                        .with_filters(format!("&all={}", i64::from(past)));
                let page: ListPage<Value> = open::block_on(async {
                    let api = Api::reading(config, options).await?;
                    page.read(&api, &items).await
                })?;
                page.print(options, &text(&page.rows))
            }
            ItemsAction::Pin(item_number) => change(config, options, &item_number, &json!({"pinned": true})),
            ItemsAction::Unpin(item_number) => {
                change(config, options, &item_number, &json!({"pinned": false}))
            }
            ItemsAction::Edit { item_number, text, brief, gist, importance } => {
                let fields = [("text", text), ("brief", brief), ("gist", gist), ("importance", importance)];
                let fields =
                    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value?))));
                change(config, options, &item_number, &Value::Object(fields.collect::<Map<_, _>>()))
            }
        }
    }
}

fn text(items: &[Value]) -> String {
    if items.is_empty() {
        return "(no items: nothing has been summarised)".to_owned();
    }
    let mut table = Table::new([
        ("ITEM", Align::Right),
        ("EXCHANGES", Align::Left),
        ("MARKS", Align::Left),
        ("TEXT", Align::Left),
    ]);
    for item in items {
        let legs_of = item["legs_of"].as_i64();
        let legs_of = legs_of.map_or_else(String::new, |first| format!(", legs of #{first}"));
        table.row([
            item["item"].to_string(),
            format!("{}{legs_of}", item["exchanges"].as_str().unwrap_or_default()),
            marks(item),
            one_line(item["text"].as_str().unwrap_or_default()),
        ]);
    }
    table.text()
}

/// Formats `decision, model, pinned`.
fn marks(item: &Value) -> String {
    let mark = |is_so: bool, mark: &'static str| is_so.then_some(mark);
    let marks = [
        item["importance"].as_str(),
        item["origin"].as_str(),
        mark(item["pinned"] == true, "pinned"),
        mark(item["provisional"] == true, "provisional"),
        mark(item["shown"] == false, "not in the document"),
    ];
    marks.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn change(
    config: &Config,
    options: &GlobalOptions,
    item_number: &ItemNumber,
    change: &Value,
) -> Result<ExitCode, CommandFailure> {
    let ItemNumber { agent, item } = item_number;
    ItemEdit::parse(change).map_err(|error| refusal(&error))?;
    let reply = lineage::patch(config, options, agent, (&format!("items/{item}"), change))?;
    lineage::print(options, &reply, &|reply| {
        let now = match reply["item"].as_i64() {
            Some(now) if now != *item => format!(", now item {now}"),
            _ => String::new(),
        };
        let room = if reply["shown"] == false { "; the document has no room for it" } else { "" };
        format!("changed item {item} of {agent}{now}: version {}{room}", reply["version"])
    })
}

fn refusal(error: &EditError) -> CommandFailure {
    CommandFailure::usage(match error {
        EditError::Nothing => "use at least one of --text, --brief, --gist, --importance".to_owned(),
        error => error.to_string(),
    })
}
