//! `recapd import`: imports journals, and conversations of any known format.

mod opening;
mod progress;
mod transcripts;

use std::{
    fs::File,
    io::BufReader,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use anyhow::Context as _;
use clap::Args;
use serde_json::json;

use crate::cli::{
    GlobalOptions,
    backend::open,
    commands::check::replay,
    conversation_files::ConversationFiles,
    conversations,
    exit::{CommandFailure, RETRY_LATER},
    terminal::output,
};
use progress::ImportProgress;
use recapd_config::Config;
use recapd_core::domain::{
    agent::AgentId,
    message::Format,
    number::{count, grouped},
};
use recapd_engine::{
    assembly,
    journal::import::{self, ImportError, ImportReport},
};
use recapd_platform::clock::SystemClock;
use recapd_store::{SqlStore, Store, StoreError, archive::ArchiveError};
use transcripts::{Transcripts, TranscriptsReport};

/// How many refused lines of each file are reported one by one.
const REFUSALS_SHOWN_MAX: u64 = 20;
/// How many incomplete agents are reported one by one.
const UNFINISHED_SHOWN_MAX: usize = 20;
const INDEX_MESSAGES_MAX: i64 = 1_000;

#[derive(Debug, Args)]
#[command(after_help = "\
Imports journals from `recapd export` or from a daemon: messages, exchanges and sessions as they were, and the boundary of the window
when the journal's first line was written (with an export: at the end). Also imports conversations of any format that --format names,
and of the programs that `recapd replay --help` names, each into an agent of its own. What is already stored stays unchanged, so an
interrupted import is completed by running it again. Import all pieces of an export together, in any order. The daemon must not
run in the meantime; it makes the summaries when it is started. Examples:
  recapd import backup.jsonl --db new.db
  recapd import journal/*.jsonl --dry-run
  recapd import ~/.claude/projects                  every transcript below the folder
  recapd import ~/.gemini/tmp                       every session of Gemini CLI; names what isn't read
  recapd import chat.json --agent my-agent

Exit codes: 0 something was read; 1 nothing was read, or not everything with --strict, or fewer than 1 in 20 messages of the
conversations are of kinds that a model gets (they are stored nevertheless); 75 interrupted.")]
pub(crate) struct Import {
    /// Journals and conversations, or folders of them
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The format of the conversations [default: detected]
    #[arg(long, value_parser = replay::format_name())]
    format: Option<Format>,
    /// Put the conversations into this agent [default: the agent or conversation that the file names]
    #[arg(long, value_name = "AGENT")]
    agent: Option<AgentId>,
    /// Fail if anything couldn't be read
    #[arg(long)]
    strict: bool,
    /// Only check whether everything can be read and would be accepted
    #[arg(long)]
    dry_run: bool,
}

impl Import {
    pub(crate) fn run(self, config: &Config, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        let listed = ConversationFiles::list(&self.files)?;
        let (journals, transcripts) = match self.format {
            None => opening::apart(listed.files.clone()),
            Some(_) => (Vec::new(), listed.files.clone()),
        };
        let files = [journals.as_slice(), transcripts.as_slice()].concat();
        let progress = ImportProgress::new(&files);
        let (imported, from_transcripts) = open::block_on(async {
            tokio::select! {
                read = self.read_all(config, (&journals, &transcripts), &progress) => read,
                signal = tokio::signal::ctrl_c() => {
                    progress.finish();
                    signal?;
                    let cure = "run the same command again to continue";
                    Err(CommandFailure::new(RETRY_LATER, anyhow::anyhow!("interrupted; {cure}")))
                }
            }
        })?;
        progress.finish();
        report_unfinished(&imported);
        self.report(&imported, &from_transcripts, options)?;
        let read =
            imported.accepted + imported.duplicates + from_transcripts.accepted + from_transcripts.duplicates;
        let unread = imported.refused + from_transcripts.skipped;
        // An agent without messages counts as read, too.
        let is_nothing = read == 0 && (unread > 0 || imported.agents == 0);
        if is_nothing && unread == 0 {
            output::error("nothing was read: no file has messages");
        }
        let is_unshown = from_transcripts.unshown.are_nearly_all();
        Ok(if is_nothing || is_unshown || (self.strict && unread > 0) {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        })
    }

    async fn read_all(
        &self,
        config: &Config,
        (journals, transcripts): (&[PathBuf], &[PathBuf]),
        progress: &ImportProgress,
    ) -> Result<(ImportReport, TranscriptsReport), CommandFailure> {
        let (mut import, store) = self.open(config).await?;
        for file in journals {
            read(&mut import, file, progress).await?;
            progress.file_done();
        }
        let stored = store.clone().filter(|_| !self.dry_run);
        let (ingestor, existing) = match store {
            Some(store) if !self.dry_run => {
                let ingestor = assembly::ingestor_alone(config, store, Arc::new(SystemClock)).await?;
                (Some(ingestor), None)
            }
            existing => (None, existing),
        };
        let mut reading = Transcripts::new(ingestor, existing, self.agent.clone(), self.format, progress);
        for (file, name) in transcripts.iter().zip(conversations::names(transcripts)) {
            reading.read(file, name.as_deref()).await?;
            progress.file_done();
        }
        let from_transcripts = reading.finish().await?;
        if let Some(store) = stored {
            index(store.as_ref(), progress).await?;
        }
        Ok((import.imported().clone(), from_transcripts))
    }

    /// Opens the database for the import. A dry run only reads it, if it exists.
    async fn open(&self, config: &Config) -> Result<(import::Import, Option<Arc<SqlStore>>), CommandFailure> {
        let settings = assembly::database_settings(&config.database);
        let (clock, redactor) = (Arc::new(SystemClock), config.summary.redactor());
        if !self.dry_run {
            let store = Arc::new(assembly::open_store(config).await?);
            let import = import::Import::new(Arc::clone(&store) as _, clock, redactor);
            return Ok((import, Some(store)));
        }
        match SqlStore::look(&settings).await {
            Ok(store) => {
                let store = Arc::new(store);
                let target: Arc<dyn import::ImportTarget> = store.clone();
                Ok((import::Import::dry(Some(target), clock, redactor), Some(store)))
            }
            // If there is no database, the import would create one, and all messages would be new.
            Err(StoreError::Unavailable(_)) => Ok((import::Import::dry(None, clock, redactor), None)),
            Err(error) => Err(error.into()),
        }
    }

    fn report(
        &self,
        imported: &ImportReport,
        from_transcripts: &TranscriptsReport,
        options: &GlobalOptions,
    ) -> std::io::Result<()> {
        let agents = imported.agents + from_transcripts.agents.len() as u64;
        let accepted = imported.accepted + from_transcripts.accepted;
        let duplicates = imported.duplicates + from_transcripts.duplicates;
        let refused = imported.refused + from_transcripts.skipped;
        if options.json {
            return output::json(&json!({
                "dry_run": self.dry_run,
                "agents": agents,
                "accepted": accepted,
                "duplicates": duplicates,
                "refused": refused,
                "unfinished": imported.unfinished,
                "undone": from_transcripts.undone,
                "unread_times": from_transcripts.unread_times.count,
                "first_unread_time": from_transcripts.unread_times.first,
                "unshown": from_transcripts.unshown.counts(),
            }));
        }
        let done = if self.dry_run { "would be stored" } else { "stored" };
        let undated = from_transcripts.unread_times.report();
        output::text(&format!(
            "{}: {} {done}, {} already stored, {} skipped{undated}",
            count(agents, "agent"),
            count(accepted, "message"),
            grouped(duplicates),
            grouped(refused)
        ))?;
        from_transcripts.unshown.report().map_or(Ok(()), |report| output::text(&report))
    }
}

/// Reports agents whose state still differs from their journals.
fn report_unfinished(imported: &ImportReport) {
    let unfinished = &imported.unfinished;
    for agent in unfinished.iter().take(UNFINISHED_SHOWN_MAX) {
        output::error(&format!(
            "agent `{agent}`: its window, evictions or ended sessions differ from its journal: \
             import all pieces of the journal together; if you did, use a fresh database"
        ));
    }
    let more = unfinished.len().saturating_sub(UNFINISHED_SHOWN_MAX);
    if more > 0 {
        output::error(&format!("and {} like that", count(more, "more agent")));
    }
}

async fn index(store: &dyn Store, progress: &ImportProgress) -> Result<(), CommandFailure> {
    progress.begin_index();
    while let messages @ 1.. = store.index_messages(INDEX_MESSAGES_MAX).await? {
        progress.indexed(messages.unsigned_abs());
    }
    Ok(())
}

/// Reads one journal, and reports its refused lines.
async fn read(
    import: &mut import::Import,
    file: &Path,
    progress: &ImportProgress,
) -> Result<(), CommandFailure> {
    let name = file.display();
    let mut journal = BufReader::new(File::open(file).with_context(|| name.to_string())?);
    let refusals = std::sync::atomic::AtomicU64::new(0);
    let refused = |line: u64, refusal: &import::LineRefusal| {
        let refusal_count = refusals.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        progress.skipped();
        if refusal_count < REFUSALS_SHOWN_MAX {
            let location = if line == 0 { "at its end".to_owned() } else { format!("line {line}") };
            progress.note(&format!("skipped {name}, {location}: {refusal}"));
        }
    };
    let read = import.read(&mut journal, &refused, &|bytes| progress.read(bytes)).await;
    read.map_err(|error| match error {
        ImportError::Archive(ArchiveError::Store(error)) => error.into(),
        error => anyhow::Error::new(error).into(),
    })
}
