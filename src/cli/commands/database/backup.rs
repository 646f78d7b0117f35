//! `recapd backup`, `recapd restore`

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use serde_json::json;

use super::verify::Report;
use crate::cli::{
    GlobalOptions,
    backend::open,
    exit::{CommandFailure, UNAVAILABLE},
    terminal::output,
};
use recapd_config::Config;
use recapd_engine::assembly;
use recapd_store::{
    SqlStore, StoreError,
    backup::{BackupError, PartialCopy, bring_back, take},
    schema::{self, catalogue},
};

/// How many schema differences are reported one by one. The others are counted.
const FAULTS_SHOWN: usize = 5;

#[derive(Debug, Args)]
#[command(after_help = "\
Copies the state of one moment, even while a daemon writes to the database, without delaying the daemon. Checks the copy like
`recapd verify`; exits 1 if something is broken in the copy, because it is broken in the database, too. Overwrites nothing; FILE
appears once it is complete. It holds conversations, so only its owner can read it: for a service, run this as the service's user.
For PostgreSQL use pg_dump. Examples:
  recapd backup recapd-$(date +%F).db
  sudo -u recapd recapd backup /var/backups/recapd/$(date +%F).db      of a service; docs/backup.md says how to restore it")]
pub(crate) struct Backup {
    /// The file to write
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Writes a new database from a backup, brings its tables up to date and checks it. No daemon may use the new database, and the file must
not exist: move it away first, with its -wal file. The backup isn't changed. The user who runs this owns the database: for
a service, run it as the service's user. Start the service only afterwards: without a database it creates an empty one. Examples:
  flock -n recapd.db.lock mkdir old &&
    mv $(ls recapd.db recapd.db-wal recapd.db-shm 2>/dev/null) old/
  recapd restore recapd-2026-11-20.db --db recapd.db
  sudo -u recapd recapd restore /var/backups/recapd/2026-11-20.db \\
    --db /var/lib/recapd/recapd.db")]
pub(crate) struct Restore {
    /// The backup
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl Backup {
    pub(crate) fn run(self, config: &Config, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        let database = &config.database.url;
        open::block_on(async {
            let settings = assembly::database_settings(&config.database);
            let part = take(&settings, &self.file).await;
            let part = part.map_err(|error| backup_failure(database, error))?;
            let store = SqlStore::look(&part.settings()).await;
            let store = store.map_err(|error| open::failure(database, error))?;
            let to = self.file.display().to_string();
            finish(database, &to, part, store, options).await
        })
    }
}

impl Restore {
    pub(crate) fn run(self, config: &Config, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        let from = self.file.display().to_string();
        open::block_on(async {
            let settings = assembly::database_settings(&config.database);
            let part = bring_back(&self.file, &settings).await;
            let part = part.map_err(|error| backup_failure(&from, error))?;
            refuse_other_schemas(&from, &part).await?;
            let store = SqlStore::open(&part.settings()).await;
            let store = store.map_err(|error| open::failure(&from, error))?;
            finish(&from, &config.database.url, part, store, options).await
        })
    }
}

/// Refuses a backup whose schema isn't recapd's. Another person may have had the file and planted a trigger, which would run
/// with each write of the daemon and with the first migration.
async fn refuse_other_schemas(from: &str, part: &PartialCopy) -> Result<(), CommandFailure> {
    let settings = part.settings();
    let found = schema::status(&settings).await;
    let found = found.map_err(|error| open::failure(from, error))?;
    // Opening the database refuses one that isn't recapd's, or is of a newer version.
    if found.is_missing() || found.can_go_on().is_err() {
        return Ok(());
    }
    let faults = catalogue::faults(&settings).await;
    let faults = faults.map_err(|error| open::failure(from, error))?;
    if faults.is_empty() {
        return Ok(());
    }
    let first_faults: Vec<String> = faults.iter().take(FAULTS_SHOWN).map(ToString::to_string).collect();
    let more = match faults.len().saturating_sub(FAULTS_SHOWN) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    Err(anyhow::anyhow!(
        "{from}: its schema isn't recapd's, so nothing was restored: {}{more}. If you made these changes yourself, remove them in a copy of \
         the backup, and restore the copy",
        first_faults.join("; ")
    )
    .into())
}

/// Checks the written file, gives it its final name, and reports.
async fn finish(
    from: &str,
    to: &str,
    part: PartialCopy,
    store: SqlStore,
    options: &GlobalOptions,
) -> Result<ExitCode, CommandFailure> {
    let mut report = Report::of_all(&store).await?;
    store.close().await;
    let faults = catalogue::faults(&part.settings()).await;
    report.add_schema(faults.map_err(|error| open::failure(to, error))?);
    let bytes = part.keep().await.map_err(|error| backup_failure(to, error))?;
    let is_clean = report.is_clean();
    if options.json {
        output::json(&json!({
            "from": from,
            "to": to,
            "bytes": bytes,
            "verified": report,
            "is_clean": is_clean,
        }))?;
    } else {
        output::text(&format!("{from} → {to}, {bytes} bytes\n{}", report.text()))?;
    }
    Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Adds the database's name to an error.
fn backup_failure(about: &str, error: BackupError) -> CommandFailure {
    match error {
        BackupError::Store(error @ (StoreError::Schema(_) | StoreError::InUse(_))) => {
            open::failure(about, error)
        }
        BackupError::Store(error) => CommandFailure::new(UNAVAILABLE, anyhow::anyhow!("{about}: {error}")),
        BackupError::OtherTools => CommandFailure::usage(format!("{error}; see docs/backup.md")),
        BackupError::Exists(_) => anyhow::Error::new(error).into(),
        BackupError::File { .. } => {
            anyhow::anyhow!("{error}; check the path, its folder and the permissions").into()
        }
    }
}
