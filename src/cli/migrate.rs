//! `recapd migrate`

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;

use super::{Shared, exit::Failed, open, output};
use crate::{
    assembly,
    config::Config,
    store::{
        DatabaseSettings,
        schema::{self, MigrationState, Schema},
    },
};

#[derive(Debug, Args)]
#[command(after_help = "\
Migrations go forward only, each is one transaction, and a recapd that is older than the tables refuses them with exit
code 78: make a backup first if you may want to go back. `recapd serve` applies them by itself as it starts, unless
`database.migrate` is \"manual\". Examples:
  recapd migrate status                                what there is, what is missing; exits 1 if anything is
  recapd migrate up                                    apply what is missing, on a new database all of it
  recapd migrate up --db postgres://recapd@db/recapd   of another database")]
pub(super) struct Migrate {
    #[command(subcommand)]
    action: Action,
}

#[derive(Clone, Copy, Debug, Subcommand)]
enum Action {
    /// Print which migrations the database has; exits 1 if some are missing, 78 if this recapd can't use it
    Status,
    /// Apply what is missing. On PostgreSQL daemons may run on meanwhile, on SQLite none may
    Up,
}

impl Migrate {
    pub(super) fn run(self, config: &Config, shared: &Shared) -> Result<ExitCode, Failed> {
        let settings = assembly::database_settings(&config.database);
        open::block_on(async {
            match self.action {
                Action::Status => status(&settings, &config.database.url, shared).await,
                Action::Up => up(&settings, &config.database.url, shared).await,
            }
        })
    }
}

async fn status(settings: &DatabaseSettings, url: &str, shared: &Shared) -> Result<ExitCode, Failed> {
    let schema = schema::status(settings)
        .await
        .map_err(|error| open::named(url, error))?;
    if shared.json {
        output::json(&json!({
            "database": url,
            "version": schema.version(),
            "pending": schema.pending(),
            "migrations": schema.migrations,
        }))?;
    } else {
        output::text(&listed(&schema))?;
    }
    schema.can_go_on().map_err(|error| open::named(url, error))?;
    Ok(if schema.pending() == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

async fn up(settings: &DatabaseSettings, url: &str, shared: &Shared) -> Result<ExitCode, Failed> {
    let before = schema::up(settings)
        .await
        .map_err(|error| open::named(url, error))?;
    let after = schema::status(settings)
        .await
        .map_err(|error| open::named(url, error))?;
    let applied: Vec<_> = before
        .migrations
        .into_iter()
        .filter(|migration| migration.state == MigrationState::Pending)
        .collect();
    if shared.json {
        let versions: Vec<i64> = applied.iter().map(|migration| migration.version).collect();
        output::json(&json!({ "database": url, "version": after.version(), "applied": versions }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut lines: Vec<String> = applied
        .iter()
        .map(|migration| format!("  {:>4}  {:<12} applied", migration.version, migration.name))
        .collect();
    lines.push(if lines.is_empty() {
        format!("version {}: nothing to do", after.version())
    } else {
        format!("version {}", after.version())
    });
    output::text(&lines.join("\n"))?;
    Ok(ExitCode::SUCCESS)
}

fn listed(schema: &Schema) -> String {
    let mut lines: Vec<String> = schema
        .migrations
        .iter()
        .map(|migration| {
            let state = match migration.state {
                MigrationState::Applied => "applied",
                MigrationState::Pending => "pending",
                MigrationState::Changed => "applied, but not as this recapd has it",
                MigrationState::HalfDone => "begun and not finished",
                MigrationState::Unknown => "applied by a newer recapd",
            };
            format!("  {:>4}  {:<12} {state}", migration.version, migration.name)
        })
        .collect();
    lines.push(match (schema.version(), schema.pending()) {
        (version, 0) => format!("version {version}: up to date"),
        (0, _) => "no tables of recapd yet: `recapd migrate up` makes them".to_owned(),
        (version, pending) => {
            format!("version {version}: {pending} to go; `recapd migrate up` applies them")
        }
    });
    lines.join("\n")
}
