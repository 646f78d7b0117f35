//! `recapd agents`: lists agents.

use std::process::ExitCode;

use crate::cli::{
    GlobalOptions,
    backend::api::Api,
    exit::CommandFailure,
    list::{ListPage, PageOptions, PagedPath},
    terminal::{
        figures::{ago, thousands},
        table::{Align, Table},
    },
};
use recapd_api::http::AgentFigures;
use recapd_config::Config;
use recapd_core::domain::{cursor::PagedList, time::Timestamp};
use recapd_platform::clock::{Clock as _, SystemClock};

pub(super) async fn print(
    page: &PageOptions,
    config: &Config,
    options: &GlobalOptions,
) -> Result<ExitCode, CommandFailure> {
    let agents = PagedPath::new(PagedList::Agents, "/v1/agents", "agents");
    let page: ListPage<AgentFigures> = page.read(&Api::reading(config, options).await?, &agents).await?;
    page.print(options, &text(&page.rows, SystemClock.now()))
}

fn text(agents: &[AgentFigures], now: Timestamp) -> String {
    if agents.is_empty() {
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
    for agent in agents {
        table.row([
            agent.agent_id.to_string(),
            agent.project_id.clone().unwrap_or_else(|| "-".to_owned()),
            agent.exchanges.to_string(),
            thousands(agent.window_tokens),
            if agent.budget_tokens == 0 { "-".to_owned() } else { thousands(agent.budget_tokens) },
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
