//! Feeds files to the ingestor in order. Evicted exchanges are summarised before more is read, as in the
//! original conversation.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::Duration,
};

use indicatif::{HumanBytes, ProgressBar, ProgressStyle};

use crate::cli::{
    conversations::{self, UnreadTimes},
    exit::{CommandFailure, USAGE},
    terminal::output,
    unshown::Unshown,
};
use recapd_core::{
    domain::{
        agent::AgentId,
        message::{Format, Message},
        number::count,
        time::DAY_MS,
    },
    formats::file::{FileReader, ReadError, Record, SkippedEntry},
};
use recapd_engine::assembly::Parts;

const CHUNK_MESSAGES_MAX: usize = 256;
const CHUNK_BYTES_MAX: usize = 4 << 20;
/// How many skipped lines are reported one by one.
const SKIPPED_SHOWN_MAX: u64 = 20;
/// While an update waits for a retry, the queue is checked this often.
const RETRY_LOOK: Duration = Duration::from_millis(200);

#[derive(Debug, Default)]
pub(super) struct FeedReport {
    /// The agents, in order of their first message.
    pub(super) agents: Vec<AgentId>,
    pub(super) messages: i64,
    /// Messages that were already stored with the same client id.
    pub(super) duplicates: i64,
    /// Lines and elements that couldn't be read.
    pub(super) skipped: u64,
    pub(super) unread_times: UnreadTimes,
    /// Messages that are never sent to a model.
    pub(super) unshown: Unshown,
    pub(super) evicted_tokens: i64,
    pub(super) formats: BTreeMap<&'static str, u64>,
    /// Files that couldn't be read at all.
    pub(super) refused: Vec<ReadError>,
}

pub(super) struct Feed {
    parts: Parts,
    only_agent: Option<AgentId>,
    bar: ProgressBar,
    bytes_done: u64,
    current: Option<AgentId>,
    chunk: Vec<Message>,
    chunk_bytes: usize,
    agents: BTreeSet<AgentId>,
    report: FeedReport,
}

impl Feed {
    /// Returns a feed of `files` to the ingestor of `parts`. With `only_agent`, everything goes to that agent.
    pub(super) fn new(parts: Parts, only_agent: Option<AgentId>, files: &[PathBuf]) -> Self {
        let bytes = files.iter().filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len()).sum();
        let bar = if output::shows_progress() { ProgressBar::new(bytes) } else { ProgressBar::hidden() };
        let template = "{spinner} {bar:32} {percent:>3}%  {msg}  {elapsed} elapsed, {eta} left";
        bar.set_style(
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
        );
        let (agents, report) = (BTreeSet::new(), FeedReport::default());
        Self {
            parts,
            only_agent,
            bar,
            bytes_done: 0,
            current: None,
            chunk: Vec::new(),
            chunk_bytes: 0,
            agents,
            report,
        }
    }

    /// Feeds one file. `name` is a name for its conversation. Reports and skips unreadable parts.
    pub(super) async fn read(
        &mut self,
        file: &Path,
        name: Option<&str>,
        format: Option<Format>,
    ) -> Result<(), CommandFailure> {
        let mut reader = match FileReader::open_conversation(file, name, format) {
            Ok(reader) => reader,
            Err(refused) => {
                self.note(&format!("skipped {refused}"));
                self.report.refused.push(refused);
                return Ok(());
            }
        };
        let format_name = reader.program().unwrap_or(reader.format().name());
        *self.report.formats.entry(format_name).or_default() += 1;
        let leaves_out_subagents = self.only_agent.is_some() && !conversations::is_sidechain(file, format);
        let mut left_out = 0;
        while let Some(record) = reader.next() {
            match record {
                Ok(record) if leaves_out_subagents && record.is_sidechain => left_out += 1,
                Ok(record) => {
                    if let Some(line) = self.report.unread_times.observe(file, &record) {
                        self.note(&line);
                    }
                    self.take(record).await?;
                }
                Err(skipped) => self.skip(file, &skipped),
            }
            self.bar.set_position(self.bytes_done + reader.bytes_read());
        }
        self.flush().await?;
        self.bytes_done += reader.bytes_read();
        let name = file.display().to_string();
        if left_out > 0 {
            let line = conversations::left_out(left_out, &name);
            self.bar.suspend(|| output::note(&line));
        }
        if reader.undone() > 0 {
            let line = conversations::undone(reader.undone(), &name);
            self.bar.suspend(|| output::note(&line));
        }
        if let Some(line) = conversations::unread(&reader, &name) {
            self.bar.suspend(|| output::note(&line));
        }
        Ok(())
    }

    async fn take(&mut self, record: Record) -> Result<(), CommandFailure> {
        let agent = self.agent_of(&record);
        let is_full = self.chunk.len() >= CHUNK_MESSAGES_MAX || self.chunk_bytes >= CHUNK_BYTES_MAX;
        if is_full || self.current.as_ref() != Some(&agent) {
            self.flush().await?;
            self.check_is_new(&agent).await?;
            self.current = Some(agent);
        }
        self.report.unshown.observe(&record.message);
        self.chunk_bytes += record.message.payload.len();
        self.chunk.push(record.message);
        Ok(())
    }

    fn agent_of(&self, record: &Record) -> AgentId {
        let named_agent = || record.agent_id.as_deref().and_then(|id| id.parse().ok());
        self.only_agent
            .clone()
            .or_else(named_agent)
            .unwrap_or_else(|| conversations::agent_of(&record.conversation))
    }

    /// Fails if the agent existed before this replay, because it would get its messages a second time.
    async fn check_is_new(&mut self, agent: &AgentId) -> Result<(), CommandFailure> {
        if !self.agents.insert(agent.clone()) {
            return Ok(());
        }
        if self.parts.store.agent(agent).await?.is_some() {
            let cure = "replay into a new database, or name another agent with --agent";
            return Err(CommandFailure::new(
                USAGE,
                anyhow::anyhow!("agent `{agent}` is already in the database; {cure}"),
            ));
        }
        self.report.agents.push(agent.clone());
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), CommandFailure> {
        let (Some(agent), false) = (self.current.clone(), self.chunk.is_empty()) else {
            return Ok(());
        };
        self.chunk_bytes = 0;
        let outcome = self.parts.ingestor.replay(&agent, std::mem::take(&mut self.chunk)).await?;
        self.report.messages += outcome.accepted;
        self.report.duplicates += outcome.duplicates;
        self.report.evicted_tokens += outcome.evictions.iter().map(|eviction| eviction.tokens).sum::<i64>();
        if !outcome.evictions.is_empty() {
            self.parts.worker.drain().await?;
        }
        let read = HumanBytes(self.bar.position());
        self.bar.set_message(format!("{}, {read}", count(self.report.messages, "message")));
        Ok(())
    }

    /// Ages summaries, waits until the queue is empty, and returns the report.
    pub(super) async fn finish(mut self) -> Result<FeedReport, CommandFailure> {
        self.flush().await?;
        self.parts.ingestor.keep_calibrations().await?;
        self.parts.schedule.age().await?;
        loop {
            self.parts.worker.drain().await?;
            let sample = self.parts.store.sample(self.parts.clock.now(), DAY_MS).await?;
            if sample.ready + sample.scheduled + sample.running == 0 {
                break;
            }
            self.bar.set_message(format!(
                "{} waiting for a retry",
                count(sample.ready + sample.scheduled, "update")
            ));
            tokio::time::sleep(RETRY_LOOK).await;
        }
        self.bar.finish_and_clear();
        Ok(self.report)
    }

    fn skip(&mut self, file: &Path, skipped: &SkippedEntry) {
        self.report.skipped += 1;
        if self.report.skipped <= SKIPPED_SHOWN_MAX {
            self.note(&format!("{}:{}: {}; {}", file.display(), skipped.line, skipped.reason, skipped.cure));
        }
        if self.report.skipped == SKIPPED_SHOWN_MAX + 1 {
            self.note("further skipped lines are only counted");
        }
    }

    fn note(&self, line: &str) {
        self.bar.suspend(|| output::error(line));
    }
}
