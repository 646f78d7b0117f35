//! Counts the tokens of messages before the append's transaction begins, on several threads if there are many.

use std::sync::Arc;

use tracing::error;

use super::{Ingestor, counters::AgentCounter, learning::observe};
use recapd_core::{
    domain::{
        agent::AgentId,
        calibration::Observation,
        exchange::LedgerEntry,
        message::Message,
        redaction::Redactor,
        time::Timestamp,
        tokens::{TokenCounter, count_message},
    },
    formats,
};
use recapd_platform::threads::{self, ComputationPanic};
use recapd_store::{AppendRequest, PreparedMessage, StoreResult};

/// Messages of more bytes than this are counted on other threads. This is 2.5 ms of work at 40 MB/s.
const COUNT_INLINE_BYTES_MAX: usize = 100_000;
/// A request of more bytes than this is first compared with what is stored, because counting it again would take long.
const COMPARED_BYTES_MIN: usize = 1 << 20;
/// The computation's name in errors.
pub(super) const COUNTING: &str = "counting tokens";

pub(super) struct CountResult {
    pub(super) request: AppendRequest,
    pub(super) counting: AgentCounter,
    pub(super) observations: Vec<Observation>,
}

impl Ingestor {
    /// Counts the messages and makes the request that appends them. Messages of the past (`replayed`) are counted without the
    /// learned correction.
    pub(super) async fn count_request(
        &self,
        agent: &AgentId,
        messages: Vec<Message>,
        replayed: bool,
    ) -> StoreResult<CountResult> {
        let now = self.clock.now();
        let counting = self.counting_of(agent).await?;
        let counter =
            if replayed { Arc::clone(&counting.plain) } else { self.learning.guarded(agent, &counting) };
        let since = if replayed { self.time_of_undated(agent, &messages, now).await? } else { now };
        let dated = with_times(messages, since, now);
        let prepared = self.prepare(&counter, counting.model(), dated).await;
        let prepared =
            prepared.inspect_err(|error| error!(agent_id = %agent, %error, "counting.panicked"))?;
        let (messages, observations) = prepared.into_iter().unzip();
        let request = AppendRequest {
            agent: agent.clone(),
            messages,
            key: None,
            count_method: counter.method().to_owned(),
            rules: self.rules,
            replayed,
            now,
        };
        Ok(CountResult { request, counting, observations })
    }

    /// Returns true if all these messages are stored already. Doesn't check short requests, or those with a message without a
    /// client id, and returns false for them: the transaction finds their duplicates.
    pub(super) async fn is_known(&self, agent: &AgentId, messages: &[Message]) -> StoreResult<bool> {
        let bytes: usize = messages.iter().map(|message| message.payload.len()).sum();
        let ids: Vec<&str> = messages.iter().filter_map(|message| message.client_id.as_deref()).collect();
        if bytes <= COMPARED_BYTES_MIN || ids.len() < messages.len() {
            return Ok(false);
        }
        let payloads = self.store.known_payloads(agent, &ids).await?;
        let mut pairs = messages.iter().zip(ids);
        let is_same = |(message, id): (&Message, &str)| {
            let payload = payloads.get(id);
            payload.is_some_and(|payload| formats::is_same(payload, &message.payload))
        };
        Ok(pairs.all(is_same))
    }

    /// Returns the counter for an agent's messages, with the learned correction.
    ///
    /// # Errors
    /// When the store fails to read the agent's settings.
    pub async fn counter_of(&self, agent: &AgentId) -> StoreResult<Arc<dyn TokenCounter>> {
        Ok(self.learning.guarded(agent, &self.counting_of(agent).await?))
    }

    async fn counting_of(&self, agent: &AgentId) -> StoreResult<AgentCounter> {
        if let Some(counting) = self.counters.of(agent) {
            return Ok(counting);
        }
        let row = self.store.agent(agent).await?;
        let settings = row.map(|row| row.settings).unwrap_or_default();
        Ok(self.counters.learn(agent, &settings))
    }

    /// Returns the time for replayed messages without a time. If they got the time of their arrival, the other replayed messages
    /// would seem old beside them.
    async fn time_of_undated(
        &self,
        agent: &AgentId,
        messages: &[Message],
        now: Timestamp,
    ) -> StoreResult<Timestamp> {
        let row = self.store.agent(agent).await?;
        let is_past = |at: &Timestamp| *at <= now;
        let as_of = row.and_then(|row| row.as_of).filter(is_past);
        let first = messages.iter().filter_map(|message| message.at).find(is_past);
        // Replayed messages may be older than the stored ones.
        Ok(as_of.into_iter().chain(first).min().unwrap_or(now))
    }

    async fn prepare(
        &self,
        counter: &Arc<dyn TokenCounter>,
        model: &str,
        messages: Vec<(Message, Timestamp)>,
    ) -> Result<Vec<(PreparedMessage, Observation)>, ComputationPanic> {
        let bytes: usize = messages.iter().map(|(message, _)| message.payload.len()).sum();
        if bytes <= COUNT_INLINE_BYTES_MAX {
            let count = || count_all(counter.as_ref(), model, messages, &self.redactor);
            return threads::computed_here(COUNTING, count);
        }
        let share = messages.len().div_ceil(threads::at_once()).max(1);
        let mut rest = messages;
        let mut shares = Vec::new();
        while !rest.is_empty() {
            let tail = rest.split_off(share.min(rest.len()));
            let (counter, model) = (Arc::clone(counter), model.to_owned());
            let redactor = self.redactor.clone();
            shares.push(threads::computed(COUNTING, move || {
                count_all(counter.as_ref(), &model, rest, &redactor)
            }));
            rest = tail;
        }
        let mut prepared = Vec::new();
        for share in shares {
            prepared.extend(share.await?);
        }
        Ok(prepared)
    }
}

/// Gives each message the time at which it counts as said. A message without a time gets the time of the previous message, and
/// the first one gets `since`. No message gets a time after `now`, even if its client says so: a message from the far future
/// would make all replayed messages old and never age itself.
fn with_times(messages: Vec<Message>, since: Timestamp, now: Timestamp) -> Vec<(Message, Timestamp)> {
    let mut last_at = since;
    let date = |message: Message| {
        last_at = match message.at {
            Some(at) if at <= now => at,
            Some(_) => last_at.max(since),
            None => last_at,
        };
        (message, last_at)
    };
    messages.into_iter().map(date).collect()
}

/// Counts messages. Each comes with the time at which it counts as said.
fn count_all(
    counter: &dyn TokenCounter,
    model: &str,
    messages: Vec<(Message, Timestamp)>,
    redactor: &Redactor,
) -> Vec<(PreparedMessage, Observation)> {
    messages
        .into_iter()
        .map(|(message, said_at)| {
            let tokens = count_message(counter, &message);
            let entry = LedgerEntry::new(&message, tokens, said_at, redactor);
            let observation = observe(&message, tokens, counter, model);
            (PreparedMessage { message, entry }, observation)
        })
        .collect()
}
