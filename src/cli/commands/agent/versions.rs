//! `recapd versions`, `diff`, `rollback` and `rebuild`.

use std::process::ExitCode;

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::lineage;
use crate::cli::{
    GlobalOptions,
    backend::{api::Api, open},
    exit::CommandFailure,
    list::{ListPage, PageOptions, PagedPath},
    terminal::{
        answer, output,
        table::{Align, Table},
    },
};
use recapd_config::Config;
use recapd_core::domain::{
    agent::AgentId,
    cursor::PagedList,
    number::{count, grouped},
    summary::{
        diff::{ChangeKind, DiffHunk, DocumentLine, diff},
        version::VersionKind,
    },
    time::Timestamp,
};

#[derive(Debug, Args)]
#[command(after_help = "\
schedule.versions_keep says how many versions are kept. Examples:
  recapd versions my-agent              the newest versions
  recapd versions my-agent 12           the document of version 12")]
pub(crate) struct Versions {
    /// The agent
    agent: AgentId,
    /// Print the document of this version
    #[arg(value_name = "VERSION")]
    number: Option<i64>,
    #[command(flatten)]
    page: PageOptions,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  recapd diff my-agent                  what the last version changed
  recapd diff my-agent 12               what changed from version 12 to the newest one
  recapd diff my-agent 12 15            what changed from 12 to 15; 0 is the empty document")]
pub(crate) struct Diff {
    /// The agent
    agent: AgentId,
    /// The earlier version [default: the one before the later version]
    from: Option<i64>,
    /// The later version [default: the newest]
    to: Option<i64>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Exchanges that only later versions covered are summarised again. A rollback writes a new version, so it can be undone. Example:
  recapd rollback my-agent 12")]
pub(crate) struct Rollback {
    /// The agent
    agent: AgentId,
    /// The version to return to; `recapd versions` lists them
    #[arg(value_name = "VERSION")]
    number: i64,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Everything that has left the window is summarised again, with as many model calls. Readers get the old
document until the new one covers as much. Manual edits and pins are lost; `recapd rollback` to the previous version
restores them. Example:
  recapd rebuild my-agent")]
pub(crate) struct Rebuild {
    /// The agent
    agent: AgentId,
}

/// A version, with the fields that this command reads.
#[derive(Debug, Deserialize, Serialize)]
struct VersionRow {
    version: i64,
    kind: VersionKind,
    path: String,
    covers_after: i64,
    covers_through: i64,
    exchanges: i64,
    tokens: i64,
    created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    purged_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content: Option<String>,
}

impl VersionRow {
    /// Returns version 0: the empty document before the first version.
    fn empty() -> Self {
        Self {
            version: 0,
            kind: VersionKind::Update,
            path: "append".to_owned(),
            covers_after: 0,
            covers_through: 0,
            exchanges: 0,
            tokens: 0,
            created_at: Timestamp(0),
            purged_at: None,
            content: Some(String::new()),
        }
    }

    fn text(&self) -> Result<&str, CommandFailure> {
        if self.purged_at.is_some() {
            return Err(CommandFailure::not_found(format!(
                "the text of version {} was removed, because it contained what was forgotten",
                self.version
            )));
        }
        Ok(self.content.as_deref().unwrap_or_default())
    }
}

/// Returns the number of the newest version; 0 if there is none.
async fn newest(api: &Api, agent: &AgentId) -> Result<i64, CommandFailure> {
    let page: Value = api.read(&format!("/v1/agents/{agent}/summary/versions?limit=1")).await?;
    Ok(page["versions"][0]["version"].as_i64().unwrap_or_default())
}

async fn read_version(api: &Api, agent: &AgentId, version: i64) -> Result<VersionRow, CommandFailure> {
    if version == 0 {
        return Ok(VersionRow::empty());
    }
    api.read(&format!("/v1/agents/{agent}/summary/versions/{version}")).await
}

/// Returns a version as JSON. Without `--json`, fails if its text was removed.
pub(super) async fn document(
    agent: &AgentId,
    version: i64,
    config: &Config,
    options: &GlobalOptions,
) -> Result<Value, CommandFailure> {
    let api = Api::reading(config, options).await?;
    let found = read_version(&api, agent, version).await?;
    if !options.json {
        found.text()?;
    }
    Ok(serde_json::to_value(found).map_err(anyhow::Error::new)?)
}

impl Versions {
    pub(crate) fn run(self, config: &Config, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        let agent = &self.agent;
        open::block_on(async {
            let api = Api::reading(config, options).await?;
            if let Some(version) = self.number {
                let version = read_version(&api, agent, version).await?;
                let text = if options.json { "" } else { version.text()? };
                return answer::print(options, &version, text);
            }
            let versions = PagedPath::new(
                PagedList::Versions(agent),
                format!("/v1/agents/{agent}/summary/versions"),
                "versions",
            );
            let page: ListPage<VersionRow> = self.page.read(&api, &versions).await?;
            page.print(options, &table(&page.rows))
        })
    }
}

fn table(versions: &[VersionRow]) -> String {
    if versions.is_empty() {
        return "(no version yet: nothing has been summarised)".to_owned();
    }
    let mut table = Table::new([
        ("VERSION", Align::Right),
        ("AT", Align::Left),
        ("KIND", Align::Left),
        ("TOKENS", Align::Right),
        ("COVERS", Align::Left),
    ]);
    for version in versions {
        table.row([
            version.version.to_string(),
            version.created_at.format("%Y-%m-%d %H:%M"),
            version.kind.name().to_owned(),
            version.tokens.to_string(),
            covers(version),
        ]);
    }
    table.text()
}

/// Formats `through #40 (+4)`.
fn covers(version: &VersionRow) -> String {
    let through = match version.covers_through {
        0 => "nothing".to_owned(),
        through => format!("through #{through}"),
    };
    let more = match version.exchanges {
        0 => String::new(),
        exchanges => format!(" (+{exchanges})"),
    };
    let gone = if version.purged_at.is_some() { ", text forgotten" } else { "" };
    format!("{through}{more}{gone}")
}

impl Diff {
    pub(crate) fn run(self, config: &Config, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        let (from, to) = open::block_on(async {
            let api = Api::reading(config, options).await?;
            let to = match self.to {
                Some(to) => to,
                None => newest(&api, &self.agent).await?,
            };
            let from = self.from.unwrap_or((to - 1).max(0));
            let from = read_version(&api, &self.agent, from).await?;
            Ok((from, read_version(&api, &self.agent, to).await?))
        })?;
        let changes = diff(from.text()?, to.text()?);
        if options.json {
            let version_json = |row: &VersionRow| json!({"version": row.version, "kind": row.kind, "tokens": row.tokens, "covers_through": row.covers_through});
            output::json(
                &json!({"agent_id": self.agent, "from": version_json(&from), "to": version_json(&to), "changes": changes}),
            )?;
        } else {
            output::text(&report(&self.agent, &from, &to, &changes))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn report(agent: &AgentId, from: &VersionRow, to: &VersionRow, changes: &[DiffHunk]) -> String {
    let mut lines = vec![format!(
        "{agent}: version {} -> {} ({}), {} -> {} tokens, covers through #{} -> #{}",
        from.version,
        to.version,
        to.kind.name(),
        from.tokens,
        to.tokens,
        from.covers_through,
        to.covers_through
    )];
    for change in changes {
        lines.push(match change.exchanges.as_str() {
            "" => change.kind.name().to_owned(),
            exchanges => format!("{} {exchanges}", change.kind.name()),
        });
        let is_moved = change.kind == ChangeKind::Moved;
        let line = |mark: &str, line: &DocumentLine| {
            let section = if is_moved { format!("[{}] ", line.section) } else { String::new() };
            let points: Vec<String> = line.points.iter().map(|point| format!("\n      - {point}")).collect();
            format!("  {mark} {section}{}{}", line.text, points.concat())
        };
        lines.extend(change.before.iter().map(|changed| line("-", changed)));
        lines.extend(change.after.iter().map(|changed| line("+", changed)));
    }
    if changes.is_empty() {
        lines.push("no line changed".to_owned());
    }
    lines.join("\n")
}

impl Rollback {
    pub(crate) fn run(self, config: &Config, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        let Self { agent, number: version } = self;
        let reply = lineage::post(config, options, &agent, ("rollback", json!({ "version": version })))?;
        lineage::print(options, &reply, &|reply| {
            let uncovered = reply["uncovered_exchanges"].as_i64().unwrap_or_default();
            let remaining_note = if uncovered > 0 {
                format!("; {} to be summarised again", count(uncovered, "exchange"))
            } else {
                String::new()
            };
            format!(
                "rolled {agent} back to version {version}, as version {}: {} restored, {} removed{remaining_note}",
                reply["version"],
                lineage::counted(reply, "items_restored", "item"),
                grouped(reply["items_removed"].as_i64().unwrap_or_default())
            )
        })
    }
}

impl Rebuild {
    pub(crate) fn run(self, config: &Config, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        let Self { agent } = self;
        let reply = lineage::post(config, options, &agent, ("rebuild", json!({})))?;
        lineage::print(options, &reply, &|reply| {
            let edited = reply["items_edited_removed"].as_i64().unwrap_or_default();
            let version = reply["version"].as_i64().unwrap_or_default();
            let edits_note = if edited > 0 {
                format!(
                    "; {edited} of them were edited or pinned: `recapd rollback {agent} {}` undoes this",
                    version - 1
                )
            } else {
                String::new()
            };
            format!(
                "rebuilding {agent} as of version {version}: {} to be summarised again, {} removed{edits_note}",
                lineage::counted(reply, "uncovered_exchanges", "exchange"),
                lineage::counted(reply, "items_removed", "item")
            )
        })
    }
}
