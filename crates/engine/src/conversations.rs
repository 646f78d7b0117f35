//! Keeps agents' stored conversations up to date with the conversations in requests to providers.
//!
//! Invariant: in one daemon, at most one update of an agent's conversation runs at a time. If several daemons store the same
//! content, the ids of its messages prevent duplicates.

use std::{collections::VecDeque, sync::Arc};

use hashlink::LruCache;
use serde::Serialize;
use tokio::sync::Mutex;

use crate::ingest::Ingestor;
use recapd_core::{
    domain::{
        agent::AgentId,
        continuation::{
            AnotherConversation, Beginning, ContentUnit, ContinuationPlan, SentExtent, StoredConversation,
            find_repeated,
        },
        journal::MessageRecord,
        lineage::{Step, is_resumable},
        message::{Kind, Message},
        number::i64_or_max,
    },
    formats::{
        self, FormatError,
        request::{MessageOutline, SentMessage, cut, units_of},
    },
    hash::short_hash,
};
use recapd_platform::clock::Clock;
use recapd_store::{
    AppendOutcome, StoreError, StoreResult,
    archive::{Archive, RecordRange},
};

/// Limits how many agents' conversations are kept in memory. Others are read from the database when their next request comes.
const REMEMBERED_MAX: usize = 256;
/// Limits the messages that are read from the database at once.
const RECORDS_MAX: i64 = 2_000;
/// Limits the bytes of these messages.
const RECORDS_BYTES_MAX: usize = 8 << 20;
/// Limits the messages of one append.
const APPEND_MAX: usize = 500;
/// The beginning of the client ids of messages that were stored from requests.
const SENT_PREFIX: &str = "sent-";
/// How many of the newest units from requests are compared with the lines of a transcript.
const SENT_UNITS_MAX: usize = 4_096;
/// If a session has several conversations, the ids of the agents for all but the first end with this many digits of a hash.
const HASH_DIGITS: usize = 8;

/// The result of storing a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct ConversationReply {
    /// The agent that holds the conversation. Differs from the requested one if the conversation stored there begins differently.
    pub agent_id: AgentId,
    /// How many messages were new.
    pub accepted: i64,
    /// True if earlier requests were taken back, so that the stored conversation was rewound.
    pub rewound: bool,
    /// True if a host's summary began a new session.
    pub compacted: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum ConversationError {
    /// A message of the conversation can't be stored.
    #[error(transparent)]
    Format(#[from] FormatError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("agent `{0}` holds another conversation")]
    AnotherConversation(AgentId),
}

/// Stores conversations. Clones share the same memory.
#[derive(Clone)]
pub struct Conversations {
    ingestor: Ingestor,
    archive: Arc<dyn Archive>,
    clock: Arc<dyn Clock>,
    remembered: Arc<std::sync::Mutex<LruCache<AgentId, Arc<Mutex<ConversationReader>>>>>,
}

/// An agent's conversation, as far as it has been read from the database.
#[derive(Debug, Default)]
struct ConversationReader {
    stored: StoredConversation,
    /// The last message that was read.
    through_seq: i64,
    /// The hashes of the units that were stored from requests, newest last.
    sent: VecDeque<u64>,
}

impl Conversations {
    pub fn new(ingestor: Ingestor, archive: Arc<dyn Archive>, clock: Arc<dyn Clock>) -> Self {
        Self {
            ingestor,
            archive,
            clock,
            remembered: Arc::new(std::sync::Mutex::new(LruCache::new(REMEMBERED_MAX))),
        }
    }

    /// Stores the part of `sent` that isn't stored yet.
    ///
    /// # Errors
    /// Any error of the store, or a message that can't be read. Messages before it may be stored already.
    pub async fn store(
        &self,
        agent: &AgentId,
        sent: &[SentMessage],
        extent: SentExtent,
    ) -> Result<ConversationReply, ConversationError> {
        if let Ok(reply) = self.store_in(agent, sent, extent).await? {
            return Ok(reply);
        }
        let first = sent.iter().flat_map(SentMessage::units).next();
        let other_id = other_agent(agent, first.map_or(0, |unit| unit.hash));
        let stored = self.store_in(&other_id, sent, extent).await?;
        // The agent is named by the hash of the conversation's beginning, so it can't hold a conversation that begins
        // differently.
        stored.map_err(|AnotherConversation| ConversationError::AnotherConversation(other_id))
    }

    /// Stores lines of a session's transcript, in order. Lines that a proxy has stored already count as duplicates.
    ///
    /// # Errors
    /// Any error of the store.
    pub async fn append(&self, agent: &AgentId, mut lines: Vec<Message>) -> StoreResult<AppendOutcome> {
        let reader = self.reader(agent);
        let mut reader = reader.lock().await;
        reader.read_new(self.archive.as_ref(), agent).await?;
        let units: Vec<Vec<u64>> = lines.iter().map(hashes).collect();
        let mut are_repeated = find_repeated(reader.sent.make_contiguous(), &units).into_iter();
        let all = lines.len();
        lines.retain(|_| !are_repeated.next().unwrap_or_default());
        let duplicates = all - lines.len();
        let mut outcome = self.ingestor.append(agent, lines).await?;
        outcome.duplicates += i64_or_max(duplicates);
        Ok(outcome)
    }

    /// Returns the agent that holds the conversation of `agent`'s session that begins with the unit of hash `first`.
    ///
    /// # Errors
    /// Any error of the store.
    pub async fn holder(&self, agent: &AgentId, first: u64) -> StoreResult<AgentId> {
        let reader = self.reader(agent);
        let mut reader = reader.lock().await;
        reader.read_new(self.archive.as_ref(), agent).await?;
        let is_held = reader.stored.first().is_none_or(|stored| stored == first);
        Ok(if is_held { agent.clone() } else { other_agent(agent, first) })
    }

    /// Returns the part of the conversation before `exchange`.
    ///
    /// # Errors
    /// Any error of the store.
    pub async fn part_before(&self, agent: &AgentId, exchange: i64) -> StoreResult<Beginning> {
        let reader = self.reader(agent);
        let mut reader = reader.lock().await;
        reader.read_new(self.archive.as_ref(), agent).await?;
        Ok(reader.stored.before(exchange))
    }

    /// Returns the index in `sent` of the first message that isn't before `exchange`. Returns `None` if the conversation can't be
    /// cut there, because nothing is before it or it was changed meanwhile.
    ///
    /// # Errors
    /// Any error of the store.
    pub async fn index_after(
        &self,
        agent: &AgentId,
        sent: &[SentMessage],
        exchange: i64,
    ) -> StoreResult<Option<usize>> {
        let part_before = self.part_before(agent, exchange).await?;
        let outlines: Vec<MessageOutline> = sent.iter().map(MessageOutline::from).collect();
        Ok(cut(&outlines, part_before).map(|index| sent[index].index()))
    }

    async fn store_in(
        &self,
        agent: &AgentId,
        sent: &[SentMessage],
        extent: SentExtent,
    ) -> Result<Result<ConversationReply, AnotherConversation>, ConversationError> {
        let reader = self.reader(agent);
        let mut reader = reader.lock().await;
        reader.read_new(self.archive.as_ref(), agent).await?;
        let units: Vec<ContentUnit> = sent.iter().flat_map(SentMessage::units).collect();
        let Ok(plan) = reader.stored.plan(&units, extent) else {
            return Ok(Err(AnotherConversation));
        };
        let messages = self.messages(sent, &plan, &reader.stored)?;
        let mut accepted = 0;
        for chunk in messages.chunks(APPEND_MAX) {
            let count = chunk.iter().filter(|message| !is_step(message)).count();
            let outcome = self.ingestor.append(agent, chunk.to_vec()).await?;
            accepted += outcome.accepted.min(i64::try_from(count).unwrap_or(i64::MAX));
        }
        Ok(Ok(ConversationReply {
            agent_id: agent.clone(),
            accepted,
            rewound: matches!(plan.step, Some(Step::Rewind(_))),
            compacted: matches!(plan.step, Some(Step::Clear)),
        }))
    }

    fn reader(&self, agent: &AgentId) -> Arc<Mutex<ConversationReader>> {
        let mut remembered = self.remembered.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(reader) = remembered.get(agent) {
            return Arc::clone(reader);
        }
        let reader = Arc::<Mutex<ConversationReader>>::default();
        remembered.insert(agent.clone(), Arc::clone(&reader));
        reader
    }

    /// Returns the messages and steps that carry out `plan`. A message's client id is a hash of the stored conversation's length
    /// and of all units up to the message. So daemons that store the same request give the message the same id, and one of the two
    /// copies is a duplicate.
    fn messages(
        &self,
        sent: &[SentMessage],
        plan: &ContinuationPlan,
        stored: &StoredConversation,
    ) -> Result<Vec<Message>, FormatError> {
        let now = self.clock.now();
        let mut messages: Vec<Message> = plan.step.iter().map(|step| step.message(now)).collect();
        let line = stored.lines() + u64::from(plan.step.is_some());
        let (mut begin, mut hashes) = (0, Vec::new());
        for message in sent {
            hashes.extend(message.units().map(|unit| unit.hash.to_be_bytes()));
            let end = hashes.len();
            let mark = plan.marks[begin..end].iter().flatten().next();
            if let Some(part) = message.part(|position| plan.is_new[begin + position], &plan.copies)? {
                messages.extend(mark.map(|label| Step::Mark(Some(label.clone())).message(now)));
                let position = [line.to_be_bytes(), (stored.len() as u64).to_be_bytes()];
                let client_id =
                    format!("{SENT_PREFIX}{}", short_hash(&[position.as_flattened(), hashes.as_flattened()]));
                messages.push(Message { client_id: Some(client_id), at: part.at.or(Some(now)), ..part });
            }
            begin = end;
        }
        Ok(messages)
    }
}

fn is_step(message: &Message) -> bool {
    Step::of(message).is_some()
}

/// Returns the agent for a conversation in the same session that begins differently, for example a sub-agent's.
fn other_agent(agent: &AgentId, first: u64) -> AgentId {
    let digits: String = short_hash(&[&first.to_be_bytes()]).chars().take(HASH_DIGITS).collect();
    AgentId::slug(&format!("{agent}:{digits}"))
}

impl ConversationReader {
    /// Reads what anybody has stored since the last read.
    async fn read_new(&mut self, archive: &dyn Archive, agent: &AgentId) -> StoreResult<()> {
        loop {
            let range = RecordRange {
                after_seq: self.through_seq,
                through_seq: i64::MAX,
                messages_max: RECORDS_MAX,
                bytes_max: RECORDS_BYTES_MAX,
            };
            let records = archive.records(agent, range).await?;
            for record in &records {
                self.push(record);
            }
            if range.is_rest(&records) {
                return Ok(());
            }
        }
    }

    fn push(&mut self, record: &MessageRecord) {
        // A number that was read before: the agent was deleted and created again.
        if record.seq <= self.through_seq {
            *self = Self::default();
        }
        self.through_seq = record.seq;
        // A forgotten message has no content that a request could repeat.
        let Ok(message) = formats::parse(record.format, &record.payload) else {
            return;
        };
        if is_resumable(&message) {
            return self.stored.pause();
        }
        let step = Step::of(&message);
        let message = Message { kind: Kind::from_name(&record.kind), ..message };
        let units = units_of(&message);
        if record.client_id.as_deref().is_some_and(|id| id.starts_with(SENT_PREFIX)) {
            self.sent.extend(units.iter().map(|unit| unit.hash));
            let surplus = self.sent.len().saturating_sub(SENT_UNITS_MAX);
            self.sent.drain(..surplus);
        }
        self.stored.push(step.as_ref(), &units, record.exchange);
    }
}

fn hashes(message: &Message) -> Vec<u64> {
    units_of(message).iter().map(|unit| unit.hash).collect()
}
