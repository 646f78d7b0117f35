use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;

use crate::cli::{GlobalOptions, backend::open, exit::CommandFailure, terminal::output};
use recapd_config::Config;
use recapd_engine::assembly;
use recapd_store::{
    DatabaseSettings,
    schema::{self, Migration, MigrationState, Schema},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Migrations only go forward, and each is one transaction. An older recapd refuses newer tables with exit
code 78: make a backup first if you may want to return to it. `recapd serve` applies migrations when it starts, unless
`database.migrate` is \"manual\". Examples:
  recapd migrate status                                lists migrations; exits 1 if some are missing
  recapd migrate up --dry-run                          lists what would be applied; changes nothing
  recapd migrate up                                    applies missing migrations; on a new database, all
  recapd migrate up --db postgres://recapd@db/recapd   to another database")]
pub(crate) struct Migrate {
    #[command(subcommand)]
    action: MigrateAction,
}

#[derive(Clone, Copy, Debug, Subcommand)]
enum MigrateAction {
    /// Print which migrations the database has; exits 1 if some are missing, 78 if this recapd can't use the database
    Status,
    /// Apply missing migrations. Daemons may keep running on PostgreSQL, but not on SQLite
    Up {
        /// Only print what would be applied
        #[arg(long)]
        dry_run: bool,
    },
}

impl Migrate {
    pub(crate) fn run(self, config: &Config, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        let settings = assembly::database_settings(&config.database);
        open::block_on(async {
            match self.action {
                MigrateAction::Status => status(&settings, &config.database.url, options).await,
                MigrateAction::Up { dry_run: true } => plan(&settings, &config.database.url, options).await,
                MigrateAction::Up { dry_run: false } => up(&settings, &config.database.url, options).await,
            }
        })
    }
}

async fn status(
    settings: &DatabaseSettings,
    url: &str,
    options: &GlobalOptions,
) -> Result<ExitCode, CommandFailure> {
    let schema = schema::status(settings).await.map_err(|error| open::failure(url, error))?;
    if options.json {
        output::json(&json!({
            "database": url,
            "version": schema.version(),
            "pending": schema.pending(),
            "migrations": schema.migrations,
        }))?;
    } else {
        output::text(&schema_text(&schema))?;
    }
    schema.can_go_on().map_err(|error| open::failure(url, error))?;
    Ok(if schema.pending() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn up(
    settings: &DatabaseSettings,
    url: &str,
    options: &GlobalOptions,
) -> Result<ExitCode, CommandFailure> {
    let old_status = schema::up(settings).await.map_err(|error| open::failure(url, error))?;
    let new_status = schema::status(settings).await.map_err(|error| open::failure(url, error))?;
    let applied = missing(&old_status);
    if options.json {
        output::json(
            &json!({ "database": url, "version": new_status.version(), "applied": versions(&applied) }),
        )?;
        return Ok(ExitCode::SUCCESS);
    }
    let end = if applied.is_empty() {
        format!("version {}: nothing to do", new_status.version())
    } else {
        format!("version {}", new_status.version())
    };
    output::text(&migration_lines(&applied, "applied", end))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints what [`up`] would apply. Doesn't check whether a daemon is using the database, which `up` may refuse.
async fn plan(
    settings: &DatabaseSettings,
    url: &str,
    options: &GlobalOptions,
) -> Result<ExitCode, CommandFailure> {
    let status = schema::before_up(settings).await.map_err(|error| open::failure(url, error))?;
    status.can_go_on().map_err(|error| open::failure(url, error))?;
    let planned = missing(&status);
    if options.json {
        output::json(
            &json!({ "database": url, "version": status.version(), "would_apply": versions(&planned) }),
        )?;
    } else {
        output::text(&migration_lines(&planned, "would be applied", standing(&status)))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn missing(schema: &Schema) -> Vec<&Migration> {
    let is_missing = |migration: &&Migration| migration.state == MigrationState::Pending;
    schema.migrations.iter().filter(is_missing).collect()
}

fn versions(migrations: &[&Migration]) -> Vec<i64> {
    migrations.iter().map(|migration| migration.version).collect()
}

/// Formats a line for each of `migrations` with its `fate`, followed by `end`.
fn migration_lines(migrations: &[&Migration], fate: &str, end: String) -> String {
    let lines = migrations
        .iter()
        .map(|migration| format!("  {:>4}  {:<12} {fate}", migration.version, migration.name));
    lines.chain([end]).collect::<Vec<_>>().join("\n")
}

fn schema_text(schema: &Schema) -> String {
    let mut lines: Vec<String> = schema
        .migrations
        .iter()
        .map(|migration| {
            let state = match migration.state {
                MigrationState::Applied => "applied",
                MigrationState::Pending => "pending",
                MigrationState::Changed => "applied, but differs from the one in this recapd",
                MigrationState::HalfDone => "begun, but not finished",
                MigrationState::Unknown => "applied by a newer recapd",
            };
            format!("  {:>4}  {:<12} {state}", migration.version, migration.name)
        })
        .collect();
    lines.push(standing(schema));
    lines.join("\n")
}

/// Formats the schema's version, and what to run if the schema is out of date.
fn standing(schema: &Schema) -> String {
    match (schema.version(), schema.pending()) {
        (version, 0) => format!("version {version}: up to date"),
        (0, _) => "no tables of recapd yet: `recapd migrate up` creates them".to_owned(),
        (version, pending) => {
            format!("version {version}: {pending} missing; `recapd migrate up` applies them")
        }
    }
}
