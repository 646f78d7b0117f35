//! `recapd audit`: prints who changed what over HTTP, who was refused, who signed in.

use std::process::ExitCode;

use clap::Args;

use super::token::span_ms;
use crate::cli::{
    GlobalOptions,
    backend::{api::Api, open, updates::AuditPage},
    exit::CommandFailure,
    terminal::{
        answer,
        table::{Align, Table},
    },
};
use recapd_config::Config;
use recapd_core::domain::{agent::AgentId, time::Timestamp};
use recapd_platform::clock::{Clock as _, SystemClock};
use recapd_store::audit::AuditQuery;

/// Default and maximum of `--limit`.
const LIMIT: i64 = 50;
const LIMIT_MAX: i64 = 200;

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
    /// Only events since then: a time, or hours or days before now, such as 12h or 7d
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<Since>,
    /// Show at most this many events
    #[arg(long, default_value_t = LIMIT, value_name = "N", value_parser = clap::value_parser!(i64).range(1..=LIMIT_MAX))]
    limit: i64,
    /// Only events before this one
    #[arg(long, value_name = "EVENT", value_parser = clap::value_parser!(i64).range(1..))]
    before: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Since {
    At(Timestamp),
    Ago(i64),
}

fn since(text: &str) -> Result<Since, String> {
    let at = Timestamp::parse(text).map(Since::At);
    at.or_else(|| span_ms(text).ok().map(Since::Ago))
        .ok_or_else(|| "expected a time such as 2026-11-20T08:40:00Z, or 12h or 7d".to_owned())
}

impl Audit {
    pub(crate) fn run(self, config: &Config, shared: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        let since = self.since.map(|since| match since {
            Since::At(at) => at,
            Since::Ago(span_ms) => SystemClock.now().plus_ms(-span_ms),
        });
        let query = AuditQuery {
            agent: self.agent,
            since,
            before: self.before,
            limit: self.limit,
        };
        let page = open::block_on(async { Api::reading(config, shared).await?.audit(query).await })?;
        let next = page.next_cursor.map(|before| format!("--before {before}"));
        answer::page(shared, &page, &text(&page), next)
    }
}

fn text(page: &AuditPage) -> String {
    if page.events.is_empty() {
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
    for row in &page.events {
        let what = &row.what;
        table.row([
            row.event.to_string(),
            what.at.to_string(),
            what.kind.name().to_owned(),
            or_dash(what.token.as_deref()),
            what.peer.clone(),
            format!("{} {}", what.method, what.route),
            or_dash(what.agent_id.as_ref().map(AgentId::as_str)),
            what.status.to_string(),
            what.outcome.clone(),
            what.request_id.clone(),
        ]);
    }
    table.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_absolute_or_a_span() {
        assert_eq!(since("2h"), Ok(Since::Ago(2 * 60 * 60 * 1_000)));
        let at = Timestamp::parse("2026-11-20T08:40:00Z").unwrap();
        assert_eq!(since("2026-11-20T08:40:00Z"), Ok(Since::At(at)));
        for wrong in ["", "soon", "2", "-1h"] {
            assert!(since(wrong).is_err(), "{wrong}");
        }
    }
}
