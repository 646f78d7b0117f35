use std::{process::ExitCode, time::Duration};

use clap::Args;
use indicatif::ProgressBar;
use serde::Serialize;

use crate::cli::{
    GlobalOptions,
    backend::open,
    exit::CommandFailure,
    terminal::{output, ticker::Ticker},
};
use recapd_config::Config;
use recapd_core::domain::{
    agent::AgentId,
    number::{count, grouped},
};
use recapd_engine::assembly;
use recapd_store::{
    Store,
    schema::catalogue::{self, SchemaFault},
    verify::{AgentReport, Breach, Depth, Invariant, Unseen},
};

const TICK: Duration = Duration::from_millis(200);
const PAGE: i64 = 100;
/// How many breaches of each invariant are printed. The others are counted.
const BREACHES_SHOWN: usize = 10;

/// Invariants that stored data can't prove, and the tests that prove them.
const PROVEN_BY_TESTS: [(u8, &str, &str); 3] = [
    (6, "readers never wait", "tests/it/http"),
    (8, "failure never destroys", "tests/it/worker"),
    (10, "evicted text is data", "tests/it/injection.rs, domain::redaction"),
];

#[derive(Debug, Args)]
#[command(after_help = "\
Reads the database, even while a daemon uses it. Examples:
  recapd verify                          every agent
  recapd verify my-agent --db work.db    one agent of another database
  recapd verify --deep                   also counts the tokens of messages again

What it proves and what it can't: docs/operations.md")]
pub(crate) struct Verify {
    /// The agents to check [default: all]
    agents: Vec<AgentId>,
    /// Also count the tokens of messages again; this takes long
    #[arg(long)]
    deep: bool,
}

#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    agents: usize,
    messages: i64,
    exchanges: i64,
    covered: i64,
    pending: i64,
    in_window: i64,
    set_aside: i64,
    breaches: Vec<(AgentId, Breach)>,
    unseen: Vec<Unseen>,
    /// The schema's differences from the migrations; `None` if the schema wasn't checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<Vec<SchemaFault>>,
}

impl Verify {
    pub(crate) fn run(self, config: &Config, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        open::block_on(async {
            let store = open::look(config).await?;
            let depth = if self.deep { Depth::Deep } else { Depth::Plain };
            let mut report = if self.agents.is_empty() {
                Report::check_all(&store, depth).await?
            } else {
                let mut report = Report::default();
                for agent in &self.agents {
                    if store.agent(agent).await?.is_none() {
                        return Err(open::unknown(&store, agent).await);
                    }
                    report.add(verify(&store, agent, depth).await?);
                }
                report
            };
            let settings = assembly::database_settings(&config.database);
            report.add_schema(catalogue::faults(&settings).await?);
            if options.json {
                output::json(&report)?;
            } else {
                output::text(&report.text())?;
            }
            Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        })
    }
}

async fn verify(store: &dyn Store, agent: &AgentId, depth: Depth) -> Result<AgentReport, CommandFailure> {
    Ok(match depth {
        Depth::Plain => store.verify(agent).await?,
        Depth::Deep => store.verify_deep(agent).await?,
    })
}

impl Report {
    /// Checks every agent, but leaves out the checks that take long.
    pub(crate) async fn of_all(store: &dyn Store) -> Result<Self, CommandFailure> {
        Self::check_all(store, Depth::Plain).await
    }

    async fn check_all(store: &dyn Store, depth: Depth) -> Result<Self, CommandFailure> {
        let bar = if output::shows_progress() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        // One agent may take longer than a tick, so the spinner turns by itself.
        bar.enable_steady_tick(TICK);
        let ticker = Ticker::new(&bar);
        let mut report = Self::default();
        let mut after: Option<AgentId> = None;
        loop {
            let page = store.agents(after.as_ref(), PAGE).await?;
            for row in &page {
                report.add(verify(store, &row.agent, depth).await?);
                bar.inc(1);
                let done = format!(
                    "{} and {} checked",
                    count(report.agents, "agent"),
                    count(report.messages, "message")
                );
                ticker.tell(|| format!("verifying  {done}"));
                bar.set_message(done);
            }
            match page.last() {
                Some(last) => after = Some(last.agent.clone()),
                None => return Ok(report),
            }
        }
    }

    fn add(&mut self, agent: AgentReport) {
        self.agents += 1;
        self.messages += agent.messages;
        self.exchanges += agent.exchanges;
        self.covered += agent.covered;
        self.pending += agent.pending;
        self.in_window += agent.in_window;
        self.set_aside += agent.set_aside;
        self.breaches.extend(agent.breaches.into_iter().map(|breach| (agent.agent_id.clone(), breach)));
        for unseen in agent.unseen {
            let same = |existing: &&mut Unseen| {
                (existing.invariant, existing.what) == (unseen.invariant, unseen.what)
            };
            match self.unseen.iter_mut().find(same) {
                Some(existing) => existing.count += unseen.count,
                None => self.unseen.push(unseen),
            }
        }
    }

    pub(crate) fn add_schema(&mut self, faults: Vec<SchemaFault>) {
        self.schema = Some(faults);
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.breaches.is_empty() && self.schema.as_ref().is_none_or(Vec::is_empty)
    }

    fn schema_lines(&self) -> Vec<String> {
        let Some(faults) = &self.schema else {
            return Vec::new();
        };
        let verdict = if faults.is_empty() {
            "ok".to_owned()
        } else {
            format!("BROKEN, {}", count(faults.len(), "time"))
        };
        let first_faults = faults.iter().take(BREACHES_SHOWN);
        std::iter::once(format!("      {:<42} {verdict}", "schema: as the migrations make it"))
            .chain(first_faults.map(|fault| format!("        {fault}")))
            .collect()
    }

    /// Returns the verdict on an invariant without breaches: "ok", and the data that couldn't be checked.
    fn ok_except_unseen(&self, invariant: Invariant) -> String {
        let unseen = self.unseen.iter().filter(|unseen| unseen.invariant == invariant);
        let unseen: Vec<String> =
            unseen.map(|unseen| format!("{} {}", grouped(unseen.count), unseen.what)).collect();
        if unseen.is_empty() { "ok".to_owned() } else { format!("ok except for {}", unseen.join(", ")) }
    }

    pub(crate) fn text(&self) -> String {
        let mut lines = vec![format!(
            "{}, {}, {}: {} covered, {} pending, {} in the window, {} set aside",
            count(self.agents, "agent"),
            count(self.messages, "message"),
            count(self.exchanges, "exchange"),
            grouped(self.covered),
            grouped(self.pending),
            grouped(self.in_window),
            grouped(self.set_aside)
        )];
        for invariant in Invariant::ALL {
            let found: Vec<_> =
                self.breaches.iter().filter(|(_, breach)| breach.invariant == invariant).collect();
            let (number, title) = invariant.title();
            let verdict = if found.is_empty() {
                self.ok_except_unseen(invariant)
            } else {
                format!("BROKEN, {}", count(found.len(), "time"))
            };
            lines.push(format!("  {number:>2}. {title:<42} {verdict}"));
            lines.extend(
                found
                    .iter()
                    .take(BREACHES_SHOWN)
                    .map(|(agent, breach)| format!("        {agent}: {}", breach.found)),
            );
        }
        lines.extend(self.schema_lines());
        for (number, title, tests) in PROVEN_BY_TESTS {
            lines.push(format!("  {number:>2}. {title:<42} can't be checked on data; proven by {tests}"));
        }
        lines.join("\n")
    }
}
