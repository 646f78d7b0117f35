//! `recapd import`

use std::{
    collections::HashSet,
    fs::File,
    io::{BufRead as _, BufReader, IsTerminal as _, Read as _},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use anyhow::Context as _;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use super::{
    Shared,
    exit::{Failed, USAGE},
    open, output,
};
use crate::{
    assembly,
    clock::SystemClock,
    config::Config,
    domain::{
        agent::AgentId,
        journal::{Head, Line},
    },
    journal::import::{self, ImportError, Imported},
    store::{SqlStore, Store, StoreError, archive::ArchiveError},
};

/// Refusals that are named one by one, per file.
const REFUSALS_SHOWN_MAX: u64 = 20;
/// Messages that are indexed in one transaction.
const INDEX_MESSAGES_MAX: i64 = 1_000;

#[derive(Debug, Args)]
#[command(after_help = "\
Writes what `recapd export` or the journal of a daemon wrote into the database: messages, exchanges and sessions as they
were, with an export also the boundary. What is there already is left as it is, so that an import that was interrupted
is finished by running it again. The daemon must not run meanwhile; it makes the summaries when it is started. Examples:
  recapd import backup.jsonl --db new.db
  recapd import journal/*.jsonl --dry-run")]
pub(super) struct Import {
    /// Journals
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Only look whether everything could be read and would fit
    #[arg(long)]
    dry_run: bool,
}

impl Import {
    pub(super) fn run(self, config: &Config, shared: &Shared) -> Result<ExitCode, Failed> {
        for file in &self.files {
            if !file.is_file() {
                let error = anyhow::anyhow!("{} is no file", file.display());
                return Err(Failed::new(USAGE, error));
            }
        }
        let imported = open::block_on(self.import(config))?;
        self.report(&imported, shared)?;
        Ok(if imported.refused == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }

    async fn import(&self, config: &Config) -> Result<Imported, Failed> {
        let (mut import, store) = self.open(config).await?;
        let bar = progress_bar(&self.files);
        for file in parents_first(&self.files) {
            read(&mut import, file, &bar).await?;
        }
        bar.finish_and_clear();
        if let Some(store) = store {
            index(store.as_ref()).await?;
        }
        Ok(import.imported().clone())
    }

    /// The import, and the database that it writes to, if it does.
    async fn open(&self, config: &Config) -> Result<(import::Import, Option<Arc<SqlStore>>), Failed> {
        let settings = assembly::database_settings(&config.database);
        let clock = Arc::new(SystemClock);
        if !self.dry_run {
            let store = Arc::new(assembly::open_store(config).await?);
            return Ok((import::Import::new(Arc::clone(&store) as _, clock), Some(store)));
        }
        match SqlStore::look(&settings).await {
            Ok(store) => Ok((import::Import::dry(Some(Arc::new(store)), clock), None)),
            // There is no database yet: everything would be new.
            Err(StoreError::Unavailable(_)) => Ok((import::Import::dry(None, clock), None)),
            Err(error) => Err(error.into()),
        }
    }

    fn report(&self, imported: &Imported, shared: &Shared) -> std::io::Result<()> {
        let Imported {
            agents,
            accepted,
            duplicates,
            refused,
        } = imported;
        if shared.json {
            return output::json(&json!({
                "dry_run": self.dry_run,
                "agents": agents,
                "accepted": accepted,
                "duplicates": duplicates,
                "refused": refused,
            }));
        }
        let done = if self.dry_run { "would be stored" } else { "stored" };
        output::text(&format!(
            "{agents} agents: {accepted} messages {done}, {duplicates} there already, {refused} refusals"
        ))
    }
}

/// Puts what was imported into the index of recall.
async fn index(store: &dyn Store) -> Result<(), Failed> {
    while store.index_messages(INDEX_MESSAGES_MAX).await? > 0 {}
    Ok(())
}

/// The files in an order in which no agent comes before the one that it was forked from, as far as their first lines
/// tell: in a folder of live journals, each of which holds one agent, files are named by hashes.
fn parents_first(files: &[PathBuf]) -> Vec<&PathBuf> {
    let mut waiting: Vec<(&PathBuf, Option<Head>)> =
        files.iter().map(|file| (file, first_head(file))).collect();
    let mut order = Vec::with_capacity(waiting.len());
    while !waiting.is_empty() {
        let agents: HashSet<AgentId> = waiting
            .iter()
            .filter_map(|(_, head)| Some(head.as_ref()?.agent_id.clone()))
            .collect();
        let waits = |head: &Option<Head>| {
            let fork = head.as_ref().and_then(|head| head.fork.as_ref());
            fork.is_some_and(|fork| agents.contains(&fork.parent))
        };
        let (later, now): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|(_, head)| waits(head));
        if now.is_empty() {
            // Forked from each other: nobody's journal; the import says so.
            order.extend(later.into_iter().map(|(file, _)| file));
            break;
        }
        order.extend(now.into_iter().map(|(file, _)| file));
        waiting = later;
    }
    order
}

fn first_head(file: &Path) -> Option<Head> {
    let mut line = String::new();
    let limit = import::LINE_BYTES_MAX as u64;
    let mut reader = BufReader::new(File::open(file).ok()?).take(limit);
    reader.read_line(&mut line).ok()?;
    match Line::parse(&line).ok()? {
        Line::Head(head) => Some(*head),
        Line::Message(_) => None,
    }
}

async fn read(import: &mut import::Import, file: &Path, bar: &ProgressBar) -> Result<(), Failed> {
    let name = file.display();
    let mut journal = BufReader::new(File::open(file).with_context(|| name.to_string())?);
    let refusals = std::sync::atomic::AtomicU64::new(0);
    let refused = |line: u64, refusal: &import::Refusal| {
        let shown = refusals.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if shown < REFUSALS_SHOWN_MAX {
            let place = if line == 0 {
                "at its end".to_owned()
            } else {
                format!("line {line}")
            };
            bar.suspend(|| output::error(&format!("{name}, {place}: {refusal}")));
        }
    };
    let read = import.read(&mut journal, &refused, &|bytes| bar.inc(bytes)).await;
    read.map_err(|error| match error {
        ImportError::Archive(ArchiveError::Store(error)) => error.into(),
        error => anyhow::Error::new(error).into(),
    })
}

/// A bar over the bytes of the files, on a terminal.
fn progress_bar(files: &[PathBuf]) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bytes = files
        .iter()
        .filter_map(|file| file.metadata().ok())
        .map(|of| of.len());
    let template = "{spinner} {bar:32} {percent:>3}%  {bytes}  {elapsed} elapsed, {eta} left";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(bytes.sum()).with_style(style)
}
