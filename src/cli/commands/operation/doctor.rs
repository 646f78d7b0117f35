//! `recapd doctor`: checks everything that summary updates need, with a hint for each failure.

mod backlog;
mod database;
mod provider;
mod proxy;
mod surroundings;

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use crate::cli::{
    GlobalOptions,
    backend::open,
    exit::CommandFailure,
    terminal::{
        colour::{DIM, GREEN, RED, YELLOW, paint},
        output,
    },
};
use recapd_config::{Config, Environment};
use recapd_core::domain::{
    diagnosis::{Check, Verdict},
    time::Timestamp,
};
use recapd_platform::clock::{Clock as _, SystemClock};
use recapd_store::SqlStore;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  recapd doctor                                        all checks, and what to do about failures
  recapd doctor --config /etc/recapd/config.toml       with the service's configuration
  recapd doctor --offline --json                       for programs; without calls over the network
  recapd doctor --server http://127.0.0.1:7411         checks only that this daemon is ready

Exit codes: 0 nothing fails (there may be warnings), 1 something fails, 78 the configuration is wrong.")]
pub(crate) struct Doctor {
    /// Don't call any provider
    #[arg(long)]
    offline: bool,
}

fn line(check: &Check) -> String {
    let (word, style) = match check.verdict {
        Verdict::Ok => ("ok", GREEN),
        Verdict::Warn => ("warn", YELLOW),
        Verdict::Fail => ("FAIL", RED),
        Verdict::Skip => ("-", DIM),
    };
    let word = paint(style, &format!("{word:<5}"));
    let fix = check.fix.as_ref().map(|fix| format!("\n{:17}fix: {fix}", "")).unwrap_or_default();
    format!("{word}{:<12}{}{fix}", check.name, check.detail)
}

/// Returns the checks that a daemon makes of itself: all but those that call somebody over the network.
pub(super) async fn from_inside(
    config: &Config,
    environment: &Environment,
    store: &SqlStore,
    now: Timestamp,
) -> Vec<Check> {
    let mut checks = vec![
        Check::ok("config", "read and checked"),
        surroundings::disk(config),
        surroundings::files(config),
        database::clock(Some(store), now).await,
        surroundings::window(config),
        surroundings::time_zone(config, now),
    ];
    checks.extend(provider::checks(config, environment, true).await);
    checks.push(surroundings::notify_socket(environment));
    checks.extend(backlog::checks(Some(store), config, now).await);
    checks
}

/// Returns all checks but those that call a provider.
pub(super) async fn offline(
    config: &Config,
    options: &GlobalOptions,
    environment: &Environment,
) -> Vec<Check> {
    let doctor = Doctor { offline: true };
    doctor.checks(config, options, environment).await
}

/// Returns the checks that need no configuration. Used if the configuration is invalid.
pub(super) async fn without_configuration(options: &GlobalOptions, environment: &Environment) -> Vec<Check> {
    let mut checks = vec![Check::fail("config", "it is invalid", "recapd config check")];
    if options.server.is_some() {
        // Without a configuration, only `--server` names a daemon.
        checks.push(surroundings::daemon(&Config::default(), options).await);
    }
    checks.push(surroundings::notify_socket(environment));
    checks
}

/// Returns the checks of a daemon that `--server` names. It may run on another host.
async fn elsewhere(config: &Config, options: &GlobalOptions) -> Vec<Check> {
    let hint = "run `recapd doctor` on the daemon's host to check database, disk, clock and provider, or see its page System";
    vec![surroundings::daemon(config, options).await, Check::skip("its host", hint)]
}

impl Doctor {
    pub(crate) fn run(
        self,
        config: &Config,
        options: &GlobalOptions,
        environment: &Environment,
    ) -> Result<ExitCode, CommandFailure> {
        let checks = open::block_on(async {
            Ok(match &options.server {
                Some(_) => elsewhere(config, options).await,
                None => self.checks(config, options, environment).await,
            })
        })?;
        let failing = checks.iter().filter(|check| check.verdict == Verdict::Fail).count();
        if options.json {
            output::json(&json!({ "ok": failing == 0, "checks": checks }))?;
        } else {
            let lines: Vec<String> = checks.iter().map(line).collect();
            output::text(&lines.join("\n"))?;
            match failing {
                0 => output::note("nothing fails"),
                failing => output::error(&format!("{failing} of {} checks fail", checks.len())),
            }
        }
        Ok(if failing == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    async fn checks(
        &self,
        config: &Config,
        options: &GlobalOptions,
        environment: &Environment,
    ) -> Vec<Check> {
        let now = SystemClock.now();
        // The configuration has already been read and checked.
        let mut checks = vec![Check::ok("config", "read and checked")];
        let (found, store) = database::checks(config).await;
        checks.extend(found);
        checks.push(surroundings::disk(config));
        checks.push(surroundings::files(config));
        checks.push(database::clock(store.as_ref(), now).await);
        checks.push(surroundings::window(config));
        checks.push(surroundings::time_zone(config, now));
        checks.extend(provider::checks(config, environment, self.offline).await);
        checks.push(surroundings::daemon(config, options).await);
        checks.push(proxy::proxy(config, now).await);
        checks.push(surroundings::notify_socket(environment));
        checks.extend(backlog::checks(store.as_ref(), config, now).await);
        checks
    }
}
