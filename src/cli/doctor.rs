//! `recapd doctor`: everything that has to be right for summaries to be made, each with its cure.

mod backlog;
mod database;
mod provider;
mod surroundings;

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use serde_json::json;

use super::{Shared, exit::Failed, open, output};
use crate::{
    clock::{Clock as _, SystemClock},
    config::{Config, Environment},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  recapd doctor                                        every check, with what to do where one fails
  recapd doctor --config /etc/recapd/config.toml       as the service sees it
  recapd doctor --offline --json                       for machines; nobody is asked over the network

Exit codes: 0 nothing fails (warnings may be there), 1 something fails, 78 the configuration is wrong.")]
pub(super) struct Doctor {
    /// Ask no provider
    #[arg(long)]
    offline: bool,
}

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    /// It is right.
    Ok,
    /// It works, but somebody should look at it.
    Warn,
    /// Summaries aren't made, or won't be for long.
    Fail,
    /// There is nothing to check here.
    Skip,
}

/// One check, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Check {
    name: &'static str,
    verdict: Verdict,
    /// What was found.
    detail: String,
    /// What to do about it.
    fix: Option<String>,
}

impl Check {
    fn new(name: &'static str, verdict: Verdict, detail: impl Into<String>) -> Self {
        Self {
            name,
            verdict,
            detail: detail.into(),
            fix: None,
        }
    }

    fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self::new(name, Verdict::Ok, detail)
    }

    fn warn(name: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::new(name, Verdict::Warn, detail).cure(fix)
    }

    fn fail(name: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::new(name, Verdict::Fail, detail).cure(fix)
    }

    fn skip(name: &'static str, detail: impl Into<String>) -> Self {
        Self::new(name, Verdict::Skip, detail)
    }

    fn cure(self, fix: impl Into<String>) -> Self {
        Self {
            fix: Some(fix.into()),
            ..self
        }
    }

    fn line(&self) -> String {
        let word = match self.verdict {
            Verdict::Ok => "ok",
            Verdict::Warn => "warn",
            Verdict::Fail => "FAIL",
            Verdict::Skip => "-",
        };
        let fix = self.fix.as_ref().map(|fix| format!("\n{:17}fix: {fix}", ""));
        format!(
            "{word:<5}{:<12}{}{}",
            self.name,
            self.detail,
            fix.unwrap_or_default()
        )
    }
}

impl Doctor {
    pub(super) fn run(
        self,
        config: &Config,
        shared: &Shared,
        environment: &Environment,
    ) -> Result<ExitCode, Failed> {
        let checks = open::block_on(async { Ok(self.checks(config, shared, environment).await) })?;
        let failing = checks
            .iter()
            .filter(|check| check.verdict == Verdict::Fail)
            .count();
        if shared.json {
            output::json(&json!({ "ok": failing == 0, "checks": checks }))?;
        } else {
            let lines: Vec<String> = checks.iter().map(Check::line).collect();
            output::text(&lines.join("\n"))?;
            output::error(&match failing {
                0 => "nothing fails".to_owned(),
                failing => format!("{failing} of {} checks fail", checks.len()),
            });
        }
        Ok(if failing == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }

    async fn checks(&self, config: &Config, shared: &Shared, environment: &Environment) -> Vec<Check> {
        let now = SystemClock.now();
        // The configuration was read and checked, or this wouldn't run.
        let mut checks = vec![Check::ok("config", "read and checked")];
        let (found, store) = database::checks(config).await;
        checks.extend(found);
        checks.push(surroundings::disk(config));
        checks.push(database::clock(store.as_ref(), now).await);
        checks.push(surroundings::time_zone(config, now));
        checks.extend(provider::checks(config, environment, self.offline).await);
        checks.push(surroundings::daemon(config, shared).await);
        checks.push(surroundings::notify_socket(environment));
        checks.extend(backlog::checks(store.as_ref(), config, now).await);
        checks
    }
}
