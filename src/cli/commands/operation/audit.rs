//! `recapd audit`: prints who changed what over HTTP, who was refused, who signed in.

use std::process::ExitCode;

use clap::Args;

use crate::cli::{
    GlobalOptions,
    backend::{api::Api, open},
    exit::CommandFailure,
    list::{ListPage, PageOptions, PagedPath, TimeOptions},
    terminal::table::{Align, Table},
};
use recapd_config::Config;
use recapd_core::domain::{agent::AgentId, cursor::PagedList};
use recapd_store::audit::AuditRow;

#[derive(Debug, Args)]
#[command(after_help = "\
The newest http.audit_rows_max events of each kind are stored: appended messages, other changes, refusals, sign-ins. Commands that
work directly on the database cause no events. A daemon shows events only to administrators. Examples:
  recapd audit                               the newest events, and whose token caused them
  recapd audit --agent my-agent --since 7d
  recapd audit --since 2026-11-20T08:40:00Z --json")]
pub(crate) struct Audit {
    /// Only events of this agent
    #[arg(long, value_name = "AGENT")]
    agent: Option<AgentId>,
    #[command(flatten)]
    times: TimeOptions,
    #[command(flatten)]
    page: PageOptions,
}

impl Audit {
    pub(crate) fn run(self, config: &Config, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        let agent = self.agent.map(|agent| format!("&agent={agent}"));
        let events = PagedPath::new(PagedList::Audit, "/v1/audit", "events")
            .with_filters(agent.unwrap_or_default() + &self.times.parameters());
        let page: ListPage<AuditRow> = open::block_on(async {
            let api = Api::reading(config, options).await?;
            self.page.read(&api, &events).await
        })?;
        page.print(options, &text(&page.rows))
    }
}

fn text(events: &[AuditRow]) -> String {
    if events.is_empty() {
        return "(no such events are stored: changes over HTTP, refusals and sign-ins cause events)"
            .to_owned();
    }
    let mut table = Table::new([
        ("EVENT", Align::Right),
        ("AT", Align::Left),
        ("KIND", Align::Left),
        ("TOKEN", Align::Left),
        ("PEER", Align::Left),
        ("REQUEST", Align::Left),
        ("AGENT", Align::Left),
        ("STATUS", Align::Right),
        ("OUTCOME", Align::Left),
        ("REQUEST ID", Align::Left),
    ]);
    let or_dash = |text: Option<&str>| text.unwrap_or("-").to_owned();
    for row in events {
        let event = &row.what;
        table.row([
            row.event.to_string(),
            event.at.to_string(),
            event.kind.name().to_owned(),
            or_dash(event.token.as_deref()),
            event.peer.clone(),
            format!("{} {}", event.method, event.route),
            or_dash(event.agent_id.as_ref().map(AgentId::as_str)),
            event.status.to_string(),
            event.outcome.clone(),
            event.request_id.clone(),
        ]);
    }
    table.text()
}
