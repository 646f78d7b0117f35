//! Imports a journal into the database.

use std::{
    collections::{BTreeSet, HashMap},
    io::{self, BufRead, Read as _},
    mem,
    sync::Arc,
};

use super::{CHUNK_BYTES_MAX, CHUNK_MESSAGES_MAX, chunk};
use recapd_core::domain::{
    agent::AgentId,
    journal::{
        ForkRecord, Head, ImportState, JournalError, JournalLine, LineError, MessageRecord, add_recorded,
    },
    ledger::Ledger,
    lineage::Step,
    number::i64_or_max,
    redaction::Redactor,
};
use recapd_platform::clock::Clock;
use recapd_store::{
    Store,
    archive::{AgentOrigin, Archive, ArchiveError, ReadRecord, Restore, RestoreOutcome},
};

/// Limits the bytes of a line.
pub const LINE_BYTES_MAX: usize = 64 << 20;

/// A database into which histories can be imported.
pub trait ImportTarget: Store + Archive {}
impl<T: Store + Archive> ImportTarget for T {}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    pub agents: u64,
    pub accepted: i64,
    pub duplicates: i64,
    /// Lines that couldn't be read or didn't fit. The rest of such a line's agent is skipped.
    pub refused: u64,
    /// Agents without the state that only a journal's head describes (boundary, evictions, ended sessions). The head or its last
    /// message may be missing, or the agent has continued without the head or has a different history. Evictions and session ends
    /// after the head don't count as missing, because a live journal never records them.
    pub unfinished: BTreeSet<AgentId>,
}

#[derive(Debug, thiserror::Error)]
pub enum LineRefusal {
    #[error("{0}")]
    Line(#[from] LineError),
    #[error("the line has more than {LINE_BYTES_MAX} bytes")]
    TooLong,
    #[error("the line is not UTF-8")]
    NotUtf8,
    /// The agent's messages contradict what is stored.
    #[error("agent `{0}`: {1}")]
    Journal(AgentId, JournalError),
}

pub struct Import {
    /// The database; `None` for a dry run into an empty one.
    target: Option<Arc<dyn ImportTarget>>,
    clock: Arc<dyn Clock>,
    redactor: Redactor,
    is_dry: bool,
    /// The lines of one agent that are being read.
    section: Option<AgentSection>,
    imported: ImportReport,
    /// The agents read so far.
    memories: HashMap<AgentId, ImportMemory>,
    /// True while the lines were written by a newer recapd, up to the next head that wasn't.
    is_newer: bool,
}

/// The state of an agent that later lines need.
#[derive(Default)]
struct ImportMemory {
    /// The last head that was read. It takes effect after its last message, which may be in another part of the journal.
    head: Option<Head>,
    /// The agent's state after a dry run. Later parts of a journal continue from it, and forks look for their parent in it.
    rehearsed: Option<DryRunAgent>,
}

#[derive(Clone, Default)]
struct DryRunAgent {
    ledger: Ledger,
    /// The number of the last message that is stored in the database.
    stored_through: i64,
}

struct AgentSection {
    agent: AgentId,
    origin: Option<AgentOrigin>,
    records: Vec<ReadRecord>,
    bytes: usize,
    accepted: i64,
    /// See [`RestoreOutcome::lacks_head`].
    lacks_head: bool,
    /// The agent's state in a dry run, if anything was read.
    rehearsed: Option<DryRunAgent>,
    /// True after a line that didn't fit, so that the rest is skipped.
    is_refused: bool,
}

impl Import {
    /// Makes an import into `target`. `redactor` redacts secrets in headlines.
    pub fn new(target: Arc<dyn ImportTarget>, clock: Arc<dyn Clock>, redactor: Redactor) -> Self {
        Self { is_dry: false, ..Self::dry(Some(target), clock, redactor) }
    }

    /// Makes a dry run, which only checks whether everything fits into `target`; `None` stands for an empty database.
    pub fn dry(target: Option<Arc<dyn ImportTarget>>, clock: Arc<dyn Clock>, redactor: Redactor) -> Self {
        Self {
            target,
            clock,
            redactor,
            is_dry: true,
            section: None,
            imported: ImportReport::default(),
            memories: HashMap::new(),
            is_newer: false,
        }
    }

    /// Reads one journal to its end. Calls `refused` with the number of each refused line, or with 0 for messages that are refused
    /// at the journal's end. Calls `progress` with each line's bytes.
    ///
    /// # Errors
    /// When the journal can't be read or the database fails. What was written stays, and a new import continues there.
    pub async fn read(
        &mut self,
        journal: &mut (dyn BufRead + Send),
        refused: &(dyn Fn(u64, &LineRefusal) + Sync),
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<(), ImportError> {
        for number in 1.. {
            let (bytes, line) = next_line(journal)?;
            if bytes == 0 {
                break;
            }
            if let Err(refusal) = self.take(line).await? {
                self.imported.refused += 1;
                refused(number, &refusal);
            }
            progress(bytes);
        }
        if let Err(refusal) = self.end_section().await? {
            self.imported.refused += 1;
            refused(0, &refusal);
        }
        self.is_newer = false;
        Ok(())
    }

    pub fn imported(&self) -> &ImportReport {
        &self.imported
    }

    async fn take(
        &mut self,
        line: Result<String, LineRefusal>,
    ) -> Result<Result<(), LineRefusal>, ImportError> {
        match line.and_then(|line| Ok(JournalLine::parse(&line)?)) {
            Ok(JournalLine::Head(head)) => {
                self.is_newer = false;
                let ended = self.end_section().await?;
                self.begin(head.agent_id.clone(), Some(*head));
                Ok(ended)
            }
            // Refused without a report, because the first such line was reported. A newer recapd's line may look like a message
            // of today but mean something else.
            _ if self.is_newer => Ok(Ok(())),
            Ok(JournalLine::Message(record)) => self.take_message(record).await,
            Err(refusal) => {
                self.is_newer = matches!(refusal, LineRefusal::Line(LineError::TooNew(_)));
                Ok(Err(refusal))
            }
        }
    }

    async fn take_message(&mut self, record: MessageRecord) -> Result<Result<(), LineRefusal>, ImportError> {
        let mut ended = Ok(());
        if self.section.as_ref().is_none_or(|section| section.agent != record.agent_id) {
            ended = self.end_section().await?;
            self.begin(record.agent_id.clone(), None);
        }
        let section = self.section.as_ref();
        let is_at_head = section.is_some_and(|section| self.is_at_head(section));
        if is_at_head || section.is_some_and(AgentSection::is_full) {
            ended = self.flush(is_at_head).await?;
        }
        if let Some(section) = self.section.as_mut().filter(|section| !section.is_refused) {
            section.bytes += record.payload.len();
            section.records.push(ReadRecord::read(record, &self.redactor));
        }
        Ok(ended)
    }

    /// Returns true if the head takes effect after the last message read. A live journal continues after that message; then the
    /// agent is no longer in the head's state.
    fn is_at_head(&self, section: &AgentSection) -> bool {
        let head = self.memories.get(&section.agent).and_then(|memory| memory.head.as_ref());
        let last = section.records.last();
        head.zip(last).is_some_and(|(head, last)| head.last_seq == last.record.seq)
    }

    fn begin(&mut self, agent: AgentId, head: Option<Head>) {
        let origin = head.as_ref().map(AgentOrigin::from);
        let memory = self.memories.entry(agent.clone()).or_default();
        if head.is_some() {
            memory.head = head;
        }
        self.imported.agents = self.memories.len() as u64;
        self.section = Some(AgentSection {
            agent,
            origin,
            records: Vec::new(),
            bytes: 0,
            accepted: 0,
            lacks_head: false,
            rehearsed: None,
            is_refused: false,
        });
    }

    async fn end_section(&mut self) -> Result<Result<(), LineRefusal>, ImportError> {
        let ended = self.flush(true).await?;
        if let Some(section) = self.section.take() {
            self.keep(section);
        }
        Ok(ended)
    }

    /// Keeps what later lines of the agent need, and records whether the agent is still unfinished.
    fn keep(&mut self, section: AgentSection) {
        let memory = self.memories.entry(section.agent.clone()).or_default();
        if section.rehearsed.is_some() {
            memory.rehearsed = section.rehearsed;
        }
        if section.is_refused {
            // The head counts messages that differ from the database's. The refusal reports that.
            memory.head = None;
            return;
        }
        let lacks_some = match &memory.head {
            Some(_) => section.lacks_head,
            None => section.accepted > 0,
        };
        if lacks_some {
            self.imported.unfinished.insert(section.agent);
        } else if memory.head.is_some() {
            self.imported.unfinished.remove(&section.agent);
        }
    }

    /// Writes the messages read so far, and the head if it takes effect after them.
    async fn flush(&mut self, with_head: bool) -> Result<Result<(), LineRefusal>, ImportError> {
        let Some(section) = self.section.as_mut().filter(|section| !section.is_refused) else {
            return Ok(Ok(()));
        };
        section.bytes = 0;
        let memory = self.memories.get(&section.agent).filter(|_| with_head);
        let restore = Restore {
            agent: section.agent.clone(),
            head: memory.and_then(|memory| memory.head.clone()),
            records: mem::take(&mut section.records),
            origin: section.origin.clone(),
            now: self.clock.now(),
        };
        let outcome = match &self.target {
            Some(target) if !self.is_dry => target.restore(restore).await,
            target => section.rehearse(target.as_deref(), &self.memories, &restore).await,
        };
        match outcome {
            Ok(restored) => {
                self.imported.accepted += restored.accepted;
                self.imported.duplicates += restored.duplicates;
                section.accepted += restored.accepted;
                section.lacks_head = restored.lacks_head;
                Ok(Ok(()))
            }
            Err(ArchiveError::Journal(error)) => {
                section.is_refused = true;
                Ok(Err(LineRefusal::Journal(section.agent.clone(), error)))
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl AgentSection {
    /// Returns the state in which a dry run begins: after lines read before, of the stored agent, or of the recorded fork.
    async fn begin(
        &self,
        target: Option<&dyn ImportTarget>,
        memories: &HashMap<AgentId, ImportMemory>,
    ) -> Result<DryRunAgent, ArchiveError> {
        if let Some(rehearsed) = memories.get(&self.agent).and_then(|memory| memory.rehearsed.as_ref()) {
            return Ok(rehearsed.clone());
        }
        let fork = self.origin.as_ref().and_then(|origin| origin.fork.as_deref());
        if let Some(target) = target
            && let Some(row) = target.agent(&self.agent).await?
        {
            return Ok(DryRunAgent { stored_through: row.ledger.last_seq, ledger: row.ledger });
        }
        for shared in fork.iter().flat_map(|fork| &fork.exchanges) {
            let is_there = match target {
                Some(target) => target.agent(&shared.source).await?.is_some(),
                None => false,
            };
            if !is_there && !memories.contains_key(&shared.source) {
                let from = shared.source.clone();
                return Err(JournalError::NoParent { from }.into());
            }
        }
        Ok(DryRunAgent { ledger: fork.map(ForkRecord::ledger).unwrap_or_default(), stored_through: 0 })
    }

    fn is_full(&self) -> bool {
        self.records.len() >= usize::from(CHUNK_MESSAGES_MAX) || self.bytes >= CHUNK_BYTES_MAX
    }

    /// Returns what [`Archive::restore`] would return, without writing.
    async fn rehearse(
        &mut self,
        target: Option<&dyn ImportTarget>,
        memories: &HashMap<AgentId, ImportMemory>,
        restore: &Restore,
    ) -> Result<RestoreOutcome, ArchiveError> {
        if self.rehearsed.is_none() {
            self.rehearsed = Some(self.begin(target, memories).await?);
        }
        let DryRunAgent { ledger, stored_through } = self.rehearsed.get_or_insert_default();
        let known_count = restore.records.partition_point(|recorded| recorded.record.seq <= ledger.last_seq);
        let (known_records, fresh) = restore.records.split_at(known_count);
        if let Some(target) = target {
            // Only stored messages can be compared, because messages of the dry run aren't kept.
            let stored = known_records.partition_point(|recorded| recorded.record.seq <= *stored_through);
            compare(target, &self.agent, known_records.split_at(stored).0).await?;
        }
        for ReadRecord { record, entry, step, .. } in fresh {
            add_recorded(ledger, record, entry)?;
            // A message after a rewind opens an exchange anyway.
            if *step == Some(Step::Clear) {
                ledger.clear(entry.at);
            }
        }
        // Only a head that ends within the stored messages is compared with the stored agent. After new messages the import would
        // apply the head.
        let ends_in_stored = |head: &Head| head.last_seq <= *stored_through;
        let compared = target.filter(|_| restore.head.as_ref().is_some_and(ends_in_stored));
        Ok(RestoreOutcome {
            accepted: i64_or_max(fresh.len()),
            duplicates: i64_or_max(known_records.len()),
            last_seq: ledger.last_seq,
            lacks_head: lacks_head(compared, restore, ledger.last_seq).await?,
        })
    }
}

/// Returns true if the agent in `target` would lack the state of the head to restore. Without such an agent, returns true if the
/// head ends after `last_seq`.
async fn lacks_head(
    target: Option<&dyn ImportTarget>,
    restore: &Restore,
    last_seq: i64,
) -> Result<bool, ArchiveError> {
    let Some(head) = &restore.head else {
        return Ok(false);
    };
    let stored = match target {
        Some(target) => match target.head(&restore.agent).await {
            // The fork's messages exist. Only an export needs the fork's record.
            Err(ArchiveError::Forked(_)) => None,
            head => head?,
        },
        None => None,
    };
    Ok(stored.map_or(head.last_seq > last_seq, |stored| {
        head.compare(&stored, restore.through_seq()) == ImportState::Open
    }))
}

/// Fails if a message of `records` differs from the stored one.
async fn compare(
    target: &dyn ImportTarget,
    agent: &AgentId,
    records: &[ReadRecord],
) -> Result<(), ArchiveError> {
    let mut records = records.iter().map(|recorded| &recorded.record).peekable();
    while let Some(first) = records.peek() {
        let stored_records = target.records(agent, chunk(first.seq - 1, i64::MAX)).await?;
        let seq = first.seq;
        if stored_records.is_empty() {
            return Err(JournalError::Differs { seq }.into());
        }
        for stored in stored_records {
            let Some(record) = records.next() else {
                return Ok(());
            };
            if (stored.seq, &stored.payload) != (record.seq, &record.payload) {
                return Err(JournalError::Differs { seq: record.seq }.into());
            }
        }
    }
    Ok(())
}

#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    #[error("can't read the journal: {0}")]
    Io(#[from] io::Error),
}

/// Reads the next line. Returns its length in bytes, 0 at the end. Returns only the length of a line that is too long.
fn next_line(journal: &mut (dyn BufRead + Send)) -> io::Result<(u64, Result<String, LineRefusal>)> {
    let mut line = Vec::new();
    let mut bytes = journal.take(LINE_BYTES_MAX as u64).read_until(b'\n', &mut line)? as u64;
    if line.len() == LINE_BYTES_MAX && !line.ends_with(b"\n") {
        bytes += journal.skip_until(b'\n')? as u64;
        return Ok((bytes, Err(LineRefusal::TooLong)));
    }
    Ok((bytes, String::from_utf8(line).map_err(|_| LineRefusal::NotUtf8)))
}
