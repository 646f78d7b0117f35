//! The ingestor: takes messages in. It counts them, outside of any transaction and in parallel, and hands them to the
//! store, which numbers them, places them in exchanges, moves the boundary and wakes the queue in one transaction.
//!
//! Invariant: the ingestor never waits for a model.

mod convergence;
mod counters;
mod counting;
mod facts;
mod forgetting;
mod indexing;
mod intake;
mod journalling;
mod learning;
mod operating;
mod recounting;
mod searching;
mod step;
mod telling;
mod versions;

use std::sync::Arc;

use tokio::sync::Notify;
use tracing::{info, warn};

use crate::journal::live::LiveJournal;
use recapd_core::domain::{
    agent::AgentId,
    calibration::ReportedUsage,
    convergence::{ConvergenceScore, Rules},
    lineage::Step,
    message::Message,
    number::i64_or_max,
    project::ProjectId,
    redaction::Redactor,
    settings::{AgentSettings, SettingsPatch},
    tokens::TokenCounter,
    work::Reason,
};
use recapd_platform::{clock::Clock, notice::Notices};
use recapd_store::{
    AppendOutcome, AppendRequest, AppendRules, ForkOutcome, RequestKey, SessionEnded, Store, StoreError,
    StoreResult, inbox::InboxStore,
};
use recapd_telemetry::metrics::Metrics;

pub use convergence::convergence;
use counters::Counters;
pub use counters::FindCounter;
use counting::CountResult;
pub use facts::{FactEditedReply, FactReply};
pub use forgetting::{DeleteReply, ForgetReply, LegsLeft};
use journalling::records;
use learning::Learner;
pub use operating::{AgedReply, Operator};
pub use searching::SearchReport;
pub use step::{ForkReply, StepReply};
use telling::role_tokens;
pub use versions::{EditedReply, ItemReply, RevisedReply, listed};

/// Where the messages of an append come from.
enum By {
    /// A request with messages. A rewind among them to a mark that isn't there is ignored.
    Messages,
    /// A request for steps (clear, mark, rewind, pin), which fails if a step can't be taken.
    Steps,
    /// The inbox: messages inserted by SQL. The rows with these numbers are taken out of it in the same transaction.
    Inbox(Arc<dyn InboxStore>, Vec<i64>),
}

/// Takes in messages; clones share everything.
#[derive(Clone)]
pub struct Ingestor {
    store: Arc<dyn Store>,
    counters: Arc<Counters>,
    learning: Arc<Learner>,
    /// Wakes the indexer: messages were stored that recall's index doesn't have.
    unindexed: Arc<Notify>,
    clock: Arc<dyn Clock>,
    rules: AppendRules,
    notices: Notices,
    metrics: Metrics,
    journal: LiveJournal,
    redactor: Redactor,
    convergence: Rules,
}

impl Ingestor {
    /// An ingestor over `store` that counts with `counter` and decides by `rules`.
    pub fn new(
        store: Arc<dyn Store>,
        counter: Arc<dyn TokenCounter>,
        clock: Arc<dyn Clock>,
        rules: AppendRules,
        notices: Notices,
        metrics: Metrics,
    ) -> Self {
        Self {
            store,
            counters: Arc::new(Counters::one(counter)),
            learning: Arc::default(),
            unindexed: Arc::default(),
            clock,
            rules,
            notices,
            metrics,
            journal: None,
            redactor: Redactor::standard(),
            convergence: Rules::default(),
        }
    }

    /// The same ingestor, which counts an agent with a provider or a model of its own by the counter that `find` returns
    /// for it; `provider` and `model` are those of all other agents.
    #[must_use]
    pub fn counting_each(self, provider: &str, model: &str, find: FindCounter) -> Self {
        let default = (provider.to_owned(), model.to_owned());
        Self {
            counters: Arc::new(Counters::each(default, find)),
            ..self
        }
    }

    /// The same ingestor, which writes what it accepts to `journal` too.
    #[must_use]
    pub fn with_journal(self, journal: LiveJournal) -> Self {
        Self { journal, ..self }
    }

    /// The same ingestor, which measures how alike the speakers sound by `rules`.
    #[must_use]
    pub fn comparing(self, rules: Rules) -> Self {
        Self {
            convergence: rules,
            ..self
        }
    }

    /// As [`Self::append_reported`]; returns also how alike the speakers sound now, if a named speaker's messages were
    /// stored. A request with a `key` that was used before is accepted again only if it is the same.
    ///
    /// # Errors
    /// As [`Self::append`]; [`StoreError::KeyReused`].
    pub async fn append_and_listen(
        &self,
        agent: &AgentId,
        messages: Vec<Message>,
        usage: Option<ReportedUsage>,
        key: Option<RequestKey>,
    ) -> StoreResult<(AppendOutcome, Option<ConvergenceScore>)> {
        let is_talk = convergence::is_talk(&messages);
        let outcome = self.append_keyed(agent, messages, usage, key).await?;
        if !is_talk || outcome.accepted == 0 {
            return Ok((outcome, None));
        }
        // The messages are stored, whatever comes of the comparison.
        let reading = convergence(self.store.as_ref(), agent, &self.convergence).await;
        let reading = reading.unwrap_or_else(|error| {
            self.metrics.service.db_failed(error.class());
            warn!(agent_id = %agent, %error, "convergence.unread");
            None
        });
        if let Some(reading) = reading.as_ref().filter(|reading| reading.is_fresh) {
            self.metrics.talk.scored(reading);
        }
        Ok((outcome, reading))
    }

    /// Appends messages as they arrive.
    ///
    /// When the store fails; nothing is stored then.
    /// What the store fails with; nothing is stored then.
    pub async fn append(&self, agent: &AgentId, messages: Vec<Message>) -> StoreResult<AppendOutcome> {
        self.append_reported(agent, messages, None).await
    }

    /// As [`Self::append`]. `usage` is what the provider reported on the request that the last answer among the messages
    /// came from: it is learned from and not stored.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub async fn append_reported(
        &self,
        agent: &AgentId,
        messages: Vec<Message>,
        usage: Option<ReportedUsage>,
    ) -> StoreResult<AppendOutcome> {
        self.append_keyed(agent, messages, usage, None).await
    }

    async fn append_keyed(
        &self,
        agent: &AgentId,
        mut messages: Vec<Message>,
        usage: Option<ReportedUsage>,
        key: Option<RequestKey>,
    ) -> StoreResult<AppendOutcome> {
        let mut known = 0;
        // Who had no answer in time says the same again: what is long isn't counted for that.
        if self.is_known(agent, &messages).await? {
            known = messages.len();
            messages.clear();
        }
        let mut counted = self.request(agent, messages, false).await?;
        counted.request.key = key;
        let usage = usage.filter(|usage| usage.is_about(counted.counting.model()));
        let answer = counted.seen.iter_mut().rev().find(|seen| seen.is_answer);
        if let (Some(answer), Some(usage)) = (answer, usage) {
            answer.usage = Some(usage);
        }
        let mut outcome = self.append_counted(counted, By::Messages).await?;
        outcome.duplicates += i64_or_max(known);
        Ok(outcome)
    }

    /// Appends messages of the past: items are aged by the messages' own times. They are counted without the learned
    /// correction, so that a replay gives the same whatever was learned before it; what they report is learned.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub async fn replay(&self, agent: &AgentId, messages: Vec<Message>) -> StoreResult<AppendOutcome> {
        let request = self.request(agent, messages, true).await?;
        self.append_counted(request, By::Messages).await
    }

    /// Takes the step `step` by appending the message that stands for it. A rewind fails if its mark isn't
    /// there, a pin if its message isn't.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`], [`StoreError::UnknownMark`], [`StoreError::UnknownMessage`],
    /// [`StoreError::PinsFull`], or what the store fails with.
    pub async fn step(&self, agent: &AgentId, step: &Step) -> StoreResult<AppendOutcome> {
        if self.store.agent(agent).await?.is_none() {
            return Err(StoreError::UnknownAgent(agent.clone()));
        }
        let message = step.message(self.clock.now());
        let request = self.request(agent, vec![message], false).await?;
        self.append_counted(request, By::Steps).await
    }

    /// Makes the agent `child`, which starts from the present state of `parent`.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`], [`StoreError::AgentExists`], or what the store fails with.
    pub async fn fork(&self, parent: &AgentId, child: &AgentId) -> StoreResult<ForkOutcome> {
        let forked = self.store.fork(parent, child, self.clock.now()).await?;
        info!(agent_id = %child, %parent, ?forked, "lineage.forked");
        self.tell_queue(forked.enqueued, Reason::Eviction);
        self.notices.agent_changed(child);
        Ok(forked)
    }

    /// The same ingestor, which redacts secrets in headlines by the rules of `redactor`.
    #[must_use]
    pub fn redacting(self, redactor: Redactor) -> Self {
        Self { redactor, ..self }
    }

    async fn append_counted(&self, counted: CountResult, by: By) -> StoreResult<AppendOutcome> {
        let CountResult {
            mut request,
            counting,
            seen,
        } = counted;
        let (agent, tokens) = (request.agent.clone(), role_tokens(&request));
        // The stored payload holds the message: its parsed parts take as much memory again, and many may wait for the
        // writer.
        for prepared in &mut request.messages {
            prepared.message.parts = Vec::new();
        }
        let outcome = match &self.journal {
            None => self.write(request, by).await?,
            Some(journal) => {
                let _lane = journal.lane(&agent).await;
                let given = request.clone();
                let outcome = self.write(request, by).await?;
                let records = records(given, &outcome);
                self.write_journal(&agent, outcome.created_at, records).await;
                outcome
            }
        };
        self.tell(&agent, &outcome, &tokens);
        self.learning
            .watch(&agent, &counting, &seen, &outcome, &self.metrics);
        if !self.counters.learn(&agent, &outcome.settings).is_same(&counting) {
            self.note_old_count(&agent).await;
        }
        Ok(outcome)
    }

    async fn write(&self, request: AppendRequest, by: By) -> StoreResult<AppendOutcome> {
        match by {
            By::Messages => self.store.append(request).await,
            By::Steps => self.store.rewind(request).await,
            // Where somebody waits, what he is answered is counted.
            By::Inbox(inbox, rows) => {
                let taken = inbox.append_from_inbox(request, rows).await;
                taken.inspect_err(|error| self.metrics.service.db_failed(error.class()))
            }
        }
    }

    /// Puts the agent into `project`, or into none, and wakes readers.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`], and what the store fails with.
    pub async fn set_project(&self, agent: &AgentId, project: Option<&ProjectId>) -> StoreResult<()> {
        self.store.set_project(agent, project, self.clock.now()).await?;
        self.notices.agent_changed(agent);
        Ok(())
    }

    /// Changes an agent's settings, which override the configuration from its next append on. Returns all of them. With
    /// another model, everything that the summary doesn't cover is counted again before this returns.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`], or what the store fails with.
    pub async fn change_settings(
        &self,
        agent: &AgentId,
        patch: &SettingsPatch,
    ) -> StoreResult<AgentSettings> {
        let settings = self.store.change_settings(agent, patch, self.clock.now()).await?;
        self.counters.learn(agent, &settings);
        // With another time zone the summary shows other times.
        self.notices.agent_changed(agent);
        if let Err(error) = self.recount(agent).await {
            self.metrics.service.db_failed(error.class());
            warn!(%error, agent_id = %agent, "recount.failed");
            self.learning.work.notify_one();
        }
        Ok(settings)
    }

    /// Ends the running session: its pending exchanges become urgent.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`], or what the store fails with.
    pub async fn end_session(&self, agent: &AgentId) -> StoreResult<SessionEnded> {
        let ended = self.store.end_session(agent, self.clock.now()).await?;
        self.tell_queue(ended.enqueued, Reason::SessionEnd);
        self.notices.agent_moved(agent);
        Ok(ended)
    }

    /// The rules that decide appends.
    pub fn rules(&self) -> &AppendRules {
        &self.rules
    }
}
