use std::process::ExitCode;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use super::verify::Report;
use crate::cli::{
    GlobalOptions,
    backend::open,
    exit::{CommandFailure, UNAVAILABLE},
    terminal::{output, ticker::Ticker},
};
use recapd_config::{Config, DatabaseConfig};
use recapd_core::domain::number::count;
use recapd_engine::assembly;
use recapd_store::{
    SqlStore, StoreError,
    copy::{CopyError, CopyProgress, CopyReport, copy},
    schema::catalogue,
};

#[derive(Debug, Args)]
#[command(after_help = "\
Copies everything: agents with their messages, summaries, versions and settings, the queue, batches, runs and costs.
Each database may be SQLite or PostgreSQL. The source must be up to date (`recapd migrate up`). The target is created or
brought up to date, and must be empty. No daemon may use either, and nobody may insert messages into the source by SQL.
Everything is one transaction, which is read back, compared and committed, or rolled back. The daemon that is started on the
target rebuilds the search index.
Passwords of PostgreSQL come from PGPASSFILE (one line for each server) or PGPASSWORD, never from the address.
An SQLite target temporarily needs twice its size on disk. Examples:
  recapd copy recapd.db postgres://recapd@db/recapd         from the embedded database to a server
  recapd copy postgres://recapd@db/recapd sqlite://back.db  back into an SQLite file
  recapd copy recapd.db copy.db                             into another file")]
pub(crate) struct Copy {
    /// Database to copy: an SQLite file, or an address
    #[arg(value_name = "FROM")]
    from: String,
    /// Empty database to copy to
    #[arg(value_name = "TO")]
    to: String,
}

impl Copy {
    pub(crate) fn run(self, config: &Config, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        let from = database_at(&config.database, "FROM", &self.from)?;
        let to = database_at(&config.database, "TO", &self.to)?;
        if from.url == to.url {
            return Err(CommandFailure::usage(format!("{} can't be copied into itself", from.url)));
        }
        open::block_on(async {
            let (copied, report) = copy_and_verify(&from, &to).await?;
            if options.json {
                output::json(&json!({
                    "from": from.url,
                    "to": to.url,
                    "copied": copied,
                    "verified": report,
                    "is_clean": report.is_clean(),
                }))?;
            } else {
                output::text(&text(&copied, &report))?;
            }
            Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        })
    }
}

fn database_at(
    database: &DatabaseConfig,
    argument: &str,
    address: &str,
) -> Result<DatabaseConfig, CommandFailure> {
    let invalid = |cure: &str| CommandFailure::usage(format!("{argument}: the address {cure}"));
    database.at(address).map_err(invalid)
}

async fn copy_and_verify(
    from: &DatabaseConfig,
    to: &DatabaseConfig,
) -> Result<(CopyReport, Report), CommandFailure> {
    let bar = progress_bar();
    let ticker = Ticker::new(&bar);
    let show = |progress: CopyProgress<'_>| {
        bar.set_length(progress.rows_total);
        bar.set_position(progress.rows);
        bar.set_message(progress.table.to_owned());
        ticker.tell(|| line(&progress));
    };
    let settings = [from, to].map(assembly::database_settings);
    let copied = copy(&settings[0], &settings[1], &show).await;
    bar.finish_and_clear();
    let copied = copied.map_err(|error| copy_failure(&from.url, &to.url, error))?;
    let store = SqlStore::look(&settings[1]).await?;
    let mut report = Report::of_all(&store).await?;
    store.close().await;
    report.add_schema(catalogue::faults(&settings[1]).await?);
    Ok((copied, report))
}

/// Adds to an error the name of the database in which it occurred.
fn copy_failure(from: &str, to: &str, error: CopyError) -> CommandFailure {
    let failure_of = |url: &str, error: StoreError| match error {
        StoreError::Schema(_) | StoreError::InUse(_) => open::failure(url, error),
        error => CommandFailure::new(UNAVAILABLE, anyhow::anyhow!("{url}: {error}")),
    };
    match error {
        CopyError::Source(error) => failure_of(from, error),
        CopyError::Target(error) => failure_of(to, error),
        CopyError::InUse(_) | CopyError::Inserts => {
            CommandFailure::new(UNAVAILABLE, anyhow::Error::new(error))
        }
        CopyError::NotEmpty(_) | CopyError::Unlike(_) | CopyError::Differs { .. } => {
            anyhow::Error::new(error).context(to.to_owned()).into()
        }
    }
}

fn text(copied: &CopyReport, report: &Report) -> String {
    let mut lines = Vec::new();
    for table in copied.tables.iter().filter(|table| table.rows > 0) {
        lines.push(format!("  {:<22} {:>12} rows  {}", table.table, table.rows, table.checksum));
    }
    lines.push(format!(
        "{} of {} copied, read back and identical",
        count(copied.rows(), "row"),
        count(copied.tables.len(), "table")
    ));
    if copied.texts_changed > 0 {
        lines.push(format!(
            "{} contained U+0000, which PostgreSQL can't store: it was replaced by U+FFFD",
            count(copied.texts_changed, "text")
        ));
    }
    if copied.leases_released > 0 {
        lines.push(format!(
            "{} released: their updates will be made again",
            count(copied.leases_released, "lease")
        ));
    }
    lines.push("the daemon rebuilds the search index when it is started on this database".to_owned());
    lines.push(report.text());
    if !report.is_clean() {
        lines.push("the copy is identical to its source: `recapd verify` finds the same there".to_owned());
    }
    lines.join("\n")
}

/// Formats the progress line that is printed if no bar is shown.
fn line(progress: &CopyProgress<'_>) -> String {
    let percent = progress.rows * 100 / progress.rows_total.max(1);
    format!("copying  {percent}%  {}", progress.table)
}

/// Returns a progress bar over rows, each of which counts twice: it is copied and read back. The bar is hidden without a
/// terminal.
fn progress_bar() -> ProgressBar {
    if !output::shows_progress() {
        return ProgressBar::hidden();
    }
    let template = "{spinner} {bar:32} {percent:>3}%  {msg:<22} {elapsed} elapsed, {eta} left";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(0).with_style(style)
}
