//! Imports conversations of any known format.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    path::Path,
    sync::Arc,
};

use super::progress::ImportProgress;
use crate::cli::{
    conversations::{self, UnreadTimes},
    exit::CommandFailure,
    unshown::Unshown,
};
use recapd_core::{
    domain::{
        agent::AgentId,
        message::{Format, Message},
    },
    formats::file::{FileReader, Record, SkippedEntry},
    hash::short_hash,
};
use recapd_engine::ingest::Ingestor;
use recapd_store::{SqlStore, Store as _};

/// Limits an append to this many messages and bytes.
const CHUNK_MESSAGES_MAX: usize = 256;
const CHUNK_BYTES_MAX: usize = 4 << 20;
/// How many skipped lines are reported one by one.
const SKIPPED_SHOWN_MAX: u64 = 20;

#[derive(Debug, Default)]
pub(super) struct TranscriptsReport {
    pub(super) agents: BTreeSet<AgentId>,
    /// Stored messages; in a dry run, messages that would be stored.
    pub(super) accepted: i64,
    /// Messages that were already stored.
    pub(super) duplicates: i64,
    pub(super) skipped: u64,
    /// Messages that were left out because the conversation was rewound to a point before them.
    pub(super) undone: u64,
    pub(super) unread_times: UnreadTimes,
    /// Messages that are never sent to a model.
    pub(super) unshown: Unshown,
}

/// Feeds conversations to the ingestor. In a dry run, only counts them.
pub(super) struct Transcripts<'p> {
    ingestor: Option<Ingestor>,
    /// The database in which a dry run searches for stored messages; `None` if there is no database.
    existing: Option<Arc<SqlStore>>,
    /// For each agent, digests of the messages that a dry run has read: an import would store a repeated message only once.
    rehearsed: HashMap<AgentId, HashSet<String>>,
    only_agent: Option<AgentId>,
    format: Option<Format>,
    progress: &'p ImportProgress,
    report: TranscriptsReport,
    chunk: Vec<Message>,
    chunk_bytes: usize,
    current: Option<AgentId>,
}

impl<'p> Transcripts<'p> {
    pub(super) fn new(
        ingestor: Option<Ingestor>,
        existing: Option<Arc<SqlStore>>,
        only_agent: Option<AgentId>,
        format: Option<Format>,
        progress: &'p ImportProgress,
    ) -> Self {
        Self {
            ingestor,
            existing,
            rehearsed: HashMap::new(),
            only_agent,
            format,
            progress,
            report: TranscriptsReport::default(),
            chunk: Vec::new(),
            chunk_bytes: 0,
            current: None,
        }
    }

    /// Reads one file. `name` is a name for its conversation. Reports and skips unreadable parts.
    pub(super) async fn read(&mut self, file: &Path, name: Option<&str>) -> Result<(), CommandFailure> {
        let mut reader = match FileReader::open_conversation(file, name, self.format) {
            Ok(reader) => reader,
            Err(error) => {
                self.skip(&error.to_string());
                return Ok(());
            }
        };
        let leaves_out_subagents =
            self.only_agent.is_some() && !conversations::is_sidechain(file, self.format);
        let (mut read, mut number, mut left_out) = (0, 0_u64, 0_u64);
        while let Some(record) = reader.next() {
            match record {
                Ok(record) => {
                    // Messages that are left out are counted, too. So each message keeps its number, and therefore its
                    // id, whatever the options of the import.
                    number += 1;
                    if leaves_out_subagents && record.is_sidechain {
                        left_out += 1;
                    } else {
                        if let Some(line) = self.report.unread_times.observe(file, &record) {
                            self.progress.note(&line);
                        }
                        let number = number + reader.undone() + reader.wordless();
                        self.take(record, number).await?;
                    }
                }
                Err(SkippedEntry { line, reason, cure }) => {
                    self.skip(&format!("{}:{line}: {reason}; {cure}", file.display()));
                }
            }
            self.progress.read(reader.bytes_read() - read);
            read = reader.bytes_read();
        }
        let name = file.display().to_string();
        if left_out > 0 {
            self.progress.hint(&conversations::left_out(left_out, &name));
        }
        let gone = reader.undone();
        if gone > 0 {
            self.report.undone += gone;
            self.progress.hint(&conversations::undone(gone, &name));
        }
        if let Some(unread) = conversations::unread(&reader, &name) {
            self.progress.hint(&unread);
        }
        if reader.wordless() > 0 {
            self.progress.hint(&conversations::wordless(reader.wordless(), &name));
        }
        self.flush().await
    }

    async fn take(&mut self, record: Record, number: u64) -> Result<(), CommandFailure> {
        let agent = self.agent_of(&record);
        let is_full = self.chunk.len() >= CHUNK_MESSAGES_MAX || self.chunk_bytes >= CHUNK_BYTES_MAX;
        if is_full || self.current.as_ref() != Some(&agent) {
            self.flush().await?;
            self.current = Some(agent);
        }
        let Record { conversation, mut message, .. } = record;
        if message.client_id.is_none() {
            message.client_id = Some(id(&conversation, number, &message.payload));
        }
        self.report.unshown.observe(&message);
        self.chunk_bytes += message.payload.len();
        self.chunk.push(message);
        Ok(())
    }

    fn agent_of(&self, record: &Record) -> AgentId {
        let named_agent = || record.agent_id.as_deref().and_then(|id| id.parse().ok());
        let agent = self.only_agent.clone().or_else(named_agent);
        agent.unwrap_or_else(|| conversations::agent_of(&record.conversation))
    }

    async fn flush(&mut self) -> Result<(), CommandFailure> {
        let (Some(agent), false) = (self.current.clone(), self.chunk.is_empty()) else {
            return Ok(());
        };
        self.chunk_bytes = 0;
        let chunk = std::mem::take(&mut self.chunk);
        match &self.ingestor {
            Some(ingestor) => {
                let outcome = ingestor.replay(&agent, chunk).await?;
                self.report.accepted += outcome.accepted;
                self.report.duplicates += outcome.duplicates;
            }
            None => self.rehearse(&agent, &chunk).await?,
        }
        self.report.agents.insert(agent);
        Ok(())
    }

    /// Counts the messages that an import would store. Compares with stored messages only by id, because their text may be
    /// redacted.
    async fn rehearse(&mut self, agent: &AgentId, chunk: &[Message]) -> Result<(), CommandFailure> {
        let ids: Vec<&str> = chunk.iter().filter_map(|message| message.client_id.as_deref()).collect();
        let payloads = match &self.existing {
            Some(store) => store.known_payloads(agent, &ids).await?,
            None => HashMap::new(),
        };
        let rehearsed = self.rehearsed.entry(agent.clone()).or_default();
        for message in chunk {
            let client_id = message.client_id.as_deref().unwrap_or_default();
            if payloads.contains_key(client_id) || !rehearsed.insert(id(client_id, 0, &message.payload)) {
                self.report.duplicates += 1;
            } else {
                self.report.accepted += 1;
            }
        }
        Ok(())
    }

    fn skip(&mut self, why: &str) {
        self.report.skipped += 1;
        self.progress.skipped();
        if self.report.skipped <= SKIPPED_SHOWN_MAX {
            self.progress.note(&format!("skipped {why}"));
        }
        if self.report.skipped == SKIPPED_SHOWN_MAX + 1 {
            self.progress.note("further skipped entries are only counted");
        }
    }

    /// Saves the learned calibrations. Returns the report.
    pub(super) async fn finish(self) -> Result<TranscriptsReport, CommandFailure> {
        if let Some(ingestor) = &self.ingestor {
            ingestor.keep_calibrations().await?;
        }
        Ok(self.report)
    }
}

/// Returns an id for a message without one. Each read gives the same id, so nothing is imported twice.
fn id(conversation: &str, number: u64, payload: &str) -> String {
    let parts = [conversation.as_bytes(), &number.to_be_bytes(), payload.as_bytes()];
    format!("import-{}", short_hash(&parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_id_depends_on_conversation_number_and_payload() {
        assert_eq!(id("a", 1, "{}"), id("a", 1, "{}"));
        let others = [id("a", 2, "{}"), id("b", 1, "{}"), id("a", 1, "{ }")];
        assert!(others.iter().all(|other| *other != id("a", 1, "{}")));
    }
}
