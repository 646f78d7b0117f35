use std::process::ExitCode;

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::cli::{
    GlobalOptions,
    backend::api::{Api, behind},
    exit::CommandFailure,
    terminal::{
        answer,
        figures::{ago, thousands},
        table::{Align, Table},
    },
};
use recapd_api::http::AgentFigures;
use recapd_config::Config;
use recapd_core::domain::{agent::AgentId, cursor, time::Timestamp};
use recapd_platform::clock::{Clock as _, SystemClock};

/// Default and maximum of `--limit`.
pub(super) const LIMIT: i64 = 50;
const LIMIT_MAX: i64 = 200;

#[derive(Debug, Args)]
pub(super) struct AgentsList {
    /// Show at most this many agents
    #[arg(long, default_value_t = LIMIT, value_name = "N", value_parser = clap::value_parser!(i64).range(1..=LIMIT_MAX))]
    pub(super) limit: i64,
    /// Only agents after this one, in the order of their names
    #[arg(long, value_name = "AGENT")]
    pub(super) after: Option<AgentId>,
}

#[derive(Serialize, Deserialize)]
struct AgentListPage {
    agents: Vec<AgentFigures>,
    /// `None` on the last page.
    #[serde(deserialize_with = "cursor::last_entry")]
    next_cursor: Option<AgentId>,
}

impl AgentsList {
    pub(super) async fn run(
        &self,
        config: &Config,
        shared: &GlobalOptions,
    ) -> Result<ExitCode, CommandFailure> {
        let page = self.page(&Api::reading(config, shared).await?).await?;
        let next = page.next_cursor.as_ref().map(|after| format!("--after {after}"));
        answer::page(shared, &page, &text(&page, SystemClock.now()), next)
    }

    async fn page(&self, api: &Api) -> Result<AgentListPage, CommandFailure> {
        let cursor = behind(cursor::PagedList::Agents, self.after.as_ref());
        api.read(&format!("/v1/agents?limit={}{cursor}", self.limit))
            .await
    }
}

fn text(page: &AgentListPage, now: Timestamp) -> String {
    if page.agents.is_empty() {
        return "(no agents yet: an agent's first message creates it: `recapd push AGENT < messages.jsonl`)"
            .to_owned();
    }
    let mut table = Table::new([
        ("AGENT", Align::Left),
        ("PROJECT", Align::Left),
        ("EXCHANGES", Align::Right),
        ("WINDOW", Align::Right),
        ("BUDGET", Align::Right),
        ("PENDING", Align::Right),
        ("SUMMARY", Align::Left),
        ("CHANGED", Align::Left),
    ]);
    for agent in &page.agents {
        table.row([
            agent.agent_id.to_string(),
            agent.project_id.clone().unwrap_or_else(|| "-".to_owned()),
            agent.exchanges.to_string(),
            thousands(agent.window_tokens),
            if agent.budget_tokens == 0 {
                "-".to_owned()
            } else {
                thousands(agent.budget_tokens)
            },
            agent.pending_exchanges.to_string(),
            match agent.version {
                0 => "-".to_owned(),
                version if agent.summary_tokens == 0 => format!("v{version}, archived"),
                version => format!("v{version}, {}", thousands(agent.summary_tokens)),
            },
            ago(agent.updated_at, now),
        ]);
    }
    table.text()
}
