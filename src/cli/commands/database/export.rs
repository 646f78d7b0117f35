use std::{
    collections::HashSet,
    fs::File,
    io::{self, BufWriter, ErrorKind, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::cli::{GlobalOptions, backend::open, exit::CommandFailure, terminal::output};
use recapd_config::Config;
use recapd_core::domain::{agent::AgentId, number::count};
use recapd_engine::journal::export::{ExportError, export};
use recapd_store::{
    SqlStore, Store as _,
    archive::{Archive, ArchiveError},
};

const PAGE: i64 = 100;

#[derive(Debug, Args)]
#[command(after_help = "\
Reads the database, even while a daemon uses it. Summaries are not exported: an import makes them again. The ancestors of a forked
agent are exported before it, because its first messages are theirs. Examples:
  recapd export -o backup.jsonl          every agent
  recapd export my-agent | zstd > my-agent.jsonl.zst")]
pub(crate) struct Export {
    /// The agents to export [default: all]
    agents: Vec<AgentId>,
    /// Write to this file atomically; `-` is stdout [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug, Default, Serialize)]
struct ExportReport {
    agents: u64,
    messages: u64,
    /// Agents that can't be written to a journal.
    refused: u64,
}

impl Export {
    pub(crate) fn run(self, config: &Config, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        open::block_on(async {
            let store = open::look(config).await?;
            let bar = progress_bar(self.count_messages(&store).await?);
            let file = self.output.as_deref().filter(|path| path.as_os_str() != "-");
            let exported = match file {
                Some(path) => self.write_file(&store, path, &bar).await?,
                None => self.write_all(&store, &mut output::JsonLines, &bar).await?,
            };
            bar.finish_and_clear();
            // If the journal goes to stdout, the report can't be printed.
            if let Some(path) = file {
                exported.report(path, options)?;
            }
            Ok(if exported.refused == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        })
    }

    /// Writes a regular file atomically. Writes to a device or a pipe directly.
    async fn write_file(
        &self,
        store: &SqlStore,
        path: &Path,
        bar: &ProgressBar,
    ) -> Result<ExportReport, CommandFailure> {
        let writing = || format!("writing {}", path.display());
        let Some(path) = replaceable(path) else {
            let mut device = File::create(path).with_context(writing)?;
            return self.write_all(store, &mut device, bar).await;
        };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut file =
            tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new("."))).with_context(writing)?;
        let exported = self.write_all(store, file.as_file_mut(), bar).await?;
        file.as_file().sync_all().with_context(writing)?;
        file.persist(&path).with_context(writing)?;
        Ok(exported)
    }

    async fn write_all(
        &self,
        store: &SqlStore,
        out: &mut (dyn Write + Send),
        bar: &ProgressBar,
    ) -> Result<ExportReport, CommandFailure> {
        let mut out = BufWriter::new(out);
        match self.write_agents(store, &mut out, bar).await {
            Err(Stop::ReaderLeft) => Ok(ExportReport::default()),
            Err(Stop::Refused(error)) => Err(anyhow::Error::new(error).into()),
            Err(Stop::Failed(failure)) => Err(failure),
            Ok(exported) => match out.flush() {
                Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
                _ => Ok(exported),
            },
        }
    }

    async fn write_agents(
        &self,
        store: &SqlStore,
        out: &mut (dyn Write + Send),
        bar: &ProgressBar,
    ) -> Result<ExportReport, Stop> {
        let (mut exported, mut exported_ids) = (ExportReport::default(), HashSet::new());
        for agent in &self.agents {
            exported.add_family(store, agent, &mut exported_ids, out, bar).await?;
        }
        let mut after: Option<AgentId> = None;
        while self.agents.is_empty() {
            let page = store.agents(after.as_ref(), PAGE).await.map_err(CommandFailure::from)?;
            let Some(last) = page.last() else { break };
            after = Some(last.agent.clone());
            for row in &page {
                exported.add_family(store, &row.agent, &mut exported_ids, out, bar).await?;
            }
        }
        Ok(exported)
    }

    async fn count_messages(&self, store: &SqlStore) -> Result<u64, CommandFailure> {
        let (mut messages, mut exported_ids) = (0, HashSet::new());
        for agent in &self.agents {
            if store.agent(agent).await?.is_none() {
                return Err(open::unknown(store, agent).await);
            }
            for agent in family(store, agent, &mut exported_ids).await? {
                let row = store.agent(&agent).await?;
                messages += row.map_or(0, |row| row.ledger.last_seq);
            }
        }
        let mut after: Option<AgentId> = None;
        while self.agents.is_empty() {
            let page = store.agents(after.as_ref(), PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.agent.clone());
            messages += page.iter().map(|row| row.ledger.last_seq).sum::<i64>();
        }
        Ok(u64::try_from(messages).unwrap_or_default())
    }
}

/// Returns the path that a rename can replace: that of a regular file, after following all links, or one where nothing
/// exists. Returns `None` for anything else, and for a dangling link, because the rename would replace the link itself.
fn replaceable(path: &Path) -> Option<PathBuf> {
    if path.symlink_metadata().is_err() {
        return Some(path.to_owned());
    }
    path.canonicalize().ok().filter(|path| path.is_file())
}

/// Why writing ended.
enum Stop {
    /// The reader of the output has closed it (`| head`). This isn't an error.
    ReaderLeft,
    /// This agent can't be written to a journal. The other agents are still written.
    Refused(ArchiveError),
    Failed(CommandFailure),
}

impl From<CommandFailure> for Stop {
    fn from(failure: CommandFailure) -> Self {
        Self::Failed(failure)
    }
}

/// Returns `agent` and its ancestors, oldest first, without those whose ids are in `exported_ids`.
async fn family(
    store: &SqlStore,
    agent: &AgentId,
    exported_ids: &mut HashSet<AgentId>,
) -> Result<Vec<AgentId>, CommandFailure> {
    let ancestors = store.ancestors(agent).await?.into_iter().rev();
    let family = ancestors.map(|ancestor| ancestor.agent).chain([agent.clone()]);
    Ok(family.filter(|agent| exported_ids.insert(agent.clone())).collect())
}

async fn write_agent(
    archive: &dyn Archive,
    agent: &AgentId,
    out: &mut (dyn Write + Send),
    bar: &ProgressBar,
) -> Result<u64, Stop> {
    match export(archive, agent, out, &|messages| bar.inc(messages)).await {
        Ok(messages) => Ok(messages.unwrap_or_default()),
        Err(ExportError::Io(error)) if error.kind() == ErrorKind::BrokenPipe => Err(Stop::ReaderLeft),
        Err(ExportError::Archive(error @ ArchiveError::Forked(_))) => Err(Stop::Refused(error)),
        Err(ExportError::Archive(ArchiveError::Store(error))) => Err(CommandFailure::from(error).into()),
        Err(error) => Err(CommandFailure::from(anyhow::Error::new(error)).into()),
    }
}

impl ExportReport {
    async fn add_family(
        &mut self,
        store: &SqlStore,
        agent: &AgentId,
        exported_ids: &mut HashSet<AgentId>,
        out: &mut (dyn Write + Send),
        bar: &ProgressBar,
    ) -> Result<(), Stop> {
        for agent in family(store, agent, exported_ids).await? {
            self.add(write_agent(store, &agent, out, bar).await)?;
        }
        Ok(())
    }

    fn add(&mut self, written: Result<u64, Stop>) -> Result<(), Stop> {
        match written {
            Ok(messages) => {
                self.agents += 1;
                self.messages += messages;
            }
            Err(Stop::Refused(error)) => {
                self.refused += 1;
                output::error(&format!("recapd: {error}; the agent is left out"));
            }
            Err(stop) => return Err(stop),
        }
        Ok(())
    }

    fn report(&self, path: &Path, options: &GlobalOptions) -> io::Result<()> {
        if options.json {
            return output::json(self);
        }
        output::text(&format!(
            "{}, {} written to {}",
            count(self.agents, "agent"),
            count(self.messages, "message"),
            path.display()
        ))
    }
}

/// Returns a progress bar over this many messages. It is hidden without a terminal.
fn progress_bar(messages: u64) -> ProgressBar {
    if !output::shows_progress() {
        return ProgressBar::hidden();
    }
    let template = "{spinner} {bar:32} {percent:>3}%  {human_pos} messages  {elapsed} elapsed, {eta} left";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(messages).with_style(style)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_is_replaced_and_never_a_link_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().canonicalize().unwrap().join(name);
        std::fs::write(path("there"), "old").unwrap();
        assert_eq!(replaceable(&path("new")), Some(path("new")));
        assert_eq!(replaceable(&path("there")), Some(path("there")));
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(path("there"), path("link")).unwrap();
            std::os::unix::fs::symlink(path("nowhere"), path("loose")).unwrap();
            assert_eq!(replaceable(&path("link")), Some(path("there")));
            assert_eq!(replaceable(&path("loose")), None);
            assert_eq!(replaceable(Path::new("/dev/null")), None);
        }
        assert_eq!(replaceable(folder.path()), None, "a folder is no file");
    }
}
