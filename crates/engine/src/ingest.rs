//! The ingestor: accepts messages. It counts their tokens in parallel outside of any transaction. Then the store numbers the
//! messages, finds their exchanges, moves the boundary and wakes the queue, all in one transaction.
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
mod notes;
mod operating;
mod recounting;
mod reporting;
mod searching;
mod step;
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
pub use notes::{NoteEntry, NoteRequest, NotesReply, WrittenNote, WrittenNotesReply, notes};
pub use operating::{AgedReply, Operator};
use reporting::role_tokens;
pub use searching::SearchReport;
pub use step::{ForkReply, StepReply};
pub use versions::{EditedReply, ItemReply, RevisedReply, listed};

/// Where the messages of an append come from.
enum AppendSource {
    /// A request with messages. A rewind to an unknown mark among them has no effect.
    Messages,
    /// A request for steps (clear, mark, rewind, pin, note). It fails if a step can't be applied.
    Steps,
    /// Messages inserted by SQL, with the numbers of their inbox rows. The transaction of the append removes these rows.
    Inbox(Arc<dyn InboxStore>, Vec<i64>),
}

/// Accepts messages. Clones share everything.
#[derive(Clone)]
pub struct Ingestor {
    store: Arc<dyn Store>,
    counters: Arc<Counters>,
    learning: Arc<Learner>,
    /// Wakes the indexer when messages were stored.
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
    /// Makes an ingestor that counts with `counter` and decides by `rules`.
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

    /// Counts each agent's messages by the counter that `find` returns for the agent's own provider and model. `provider` and `model` are
    /// the defaults.
    #[must_use]
    pub fn counting_each(self, provider: &str, model: &str, find: FindCounter) -> Self {
        let default = (provider.to_owned(), model.to_owned());
        Self { counters: Arc::new(Counters::each(default, find)), ..self }
    }

    #[must_use]
    pub fn with_journal(self, journal: LiveJournal) -> Self {
        Self { journal, ..self }
    }

    /// Sets the rules by which [`Self::append_and_score`] compares speakers.
    #[must_use]
    pub fn comparing(self, rules: Rules) -> Self {
        Self { convergence: rules, ..self }
    }

    /// Works like [`Self::append_reported`]. Also returns how alike the speakers sound, if messages of a named speaker were
    /// stored. `key` makes the request idempotent: the same key is accepted again only with the same request.
    ///
    /// # Errors
    /// As [`Self::append`], and [`StoreError::KeyReused`].
    pub async fn append_and_score(
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
        // The messages are stored already, so a failed comparison is only logged.
        let score = convergence(self.store.as_ref(), agent, &self.convergence).await;
        let score = score.unwrap_or_else(|error| {
            self.metrics.service.db_failed(error.class());
            warn!(agent_id = %agent, %error, "convergence.unread");
            None
        });
        if let Some(score) = score.as_ref().filter(|score| score.is_fresh) {
            self.metrics.talk.scored(score);
        }
        Ok((outcome, score))
    }

    /// Appends messages as they arrive.
    ///
    /// # Errors
    /// When the store fails; nothing is stored then.
    pub async fn append(&self, agent: &AgentId, messages: Vec<Message>) -> StoreResult<AppendOutcome> {
        self.append_reported(agent, messages, None).await
    }

    /// Works like [`Self::append`]. `usage` is the provider's report about the request that produced the last answer among the
    /// messages. The counter learns from it, and it isn't stored.
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
        let mut duplicates = 0;
        // A client that got no answer in time repeats its request. If the request is long, and all its messages are stored
        // already, they aren't counted again.
        if self.is_known(agent, &messages).await? {
            duplicates = messages.len();
            messages.clear();
        }
        let mut counted = self.count_request(agent, messages, false).await?;
        counted.request.key = key;
        let usage = usage.filter(|usage| usage.is_about(counted.counting.model()));
        let mut newest_first = counted.observations.iter_mut().rev();
        let answer = newest_first.find(|observation| observation.is_answer);
        if let (Some(answer), Some(usage)) = (answer, usage) {
            answer.usage = Some(usage);
        }
        let mut outcome = self.append_counted(counted, AppendSource::Messages).await?;
        outcome.duplicates += i64_or_max(duplicates);
        Ok(outcome)
    }

    /// Appends messages of the past. Items age by the messages' own times. Tokens are counted without the learned correction, so
    /// that a replay doesn't depend on what was learned before. The counter still learns from reported usage.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub async fn replay(&self, agent: &AgentId, messages: Vec<Message>) -> StoreResult<AppendOutcome> {
        let request = self.count_request(agent, messages, true).await?;
        self.append_counted(request, AppendSource::Messages).await
    }

    /// Applies a step by appending its message. Fails if a rewind names an unknown mark, or a pin names an unknown message.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`], [`StoreError::UnknownMark`], [`StoreError::UnknownMessage`], [`StoreError::PinsFull`], or another
    /// error of the store.
    pub async fn step(&self, agent: &AgentId, step: &Step) -> StoreResult<AppendOutcome> {
        if self.store.agent(agent).await?.is_none() {
            return Err(StoreError::UnknownAgent(agent.clone()));
        }
        let message = step.message(self.clock.now());
        let request = self.count_request(agent, vec![message], false).await?;
        self.append_counted(request, AppendSource::Steps).await
    }

    /// Makes the agent `child` from the present state of `parent`.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`], [`StoreError::AgentExists`], or another error of the store.
    pub async fn fork(&self, parent: &AgentId, child: &AgentId) -> StoreResult<ForkOutcome> {
        let forked = self.store.fork(parent, child, self.clock.now()).await?;
        info!(agent_id = %child, %parent, ?forked, "lineage.forked");
        self.report_wake(forked.enqueued, Reason::Eviction);
        self.notices.agent_changed(child);
        Ok(forked)
    }

    /// Redacts secrets in headlines with `redactor`.
    #[must_use]
    pub fn redacting(self, redactor: Redactor) -> Self {
        Self { redactor, ..self }
    }

    async fn append_counted(&self, counted: CountResult, source: AppendSource) -> StoreResult<AppendOutcome> {
        let CountResult { mut request, counting, observations } = counted;
        let (agent, tokens) = (request.agent.clone(), role_tokens(&request));
        // The payload contains the whole message. Its parsed parts take as much memory again, and many requests may wait for the
        // writer.
        for prepared in &mut request.messages {
            prepared.message.parts = Vec::new();
        }
        let outcome = match &self.journal {
            None => self.write(request, source).await?,
            Some(journal) => {
                // Held until the lines are written, so that the journal gets the messages in the order of their numbers.
                let _lane = journal.lane(&agent).await;
                let copy = request.clone();
                let outcome = self.write(request, source).await?;
                let records = records(copy, &outcome);
                self.write_journal(&agent, outcome.created_at, records).await;
                outcome
            }
        };
        self.report_append(&agent, &outcome, &tokens);
        self.learning.learn(&agent, &counting, &observations, &outcome, &self.metrics);
        if !self.counters.learn(&agent, &outcome.settings).is_same(&counting) {
            self.note_old_count(&agent).await;
        }
        Ok(outcome)
    }

    async fn write(&self, request: AppendRequest, source: AppendSource) -> StoreResult<AppendOutcome> {
        match source {
            AppendSource::Messages => self.store.append(request).await,
            AppendSource::Steps => self.store.rewind(request).await,
            // Where other requests are answered, their errors are counted. Messages of the inbox get no answer.
            AppendSource::Inbox(inbox, rows) => {
                let appended = inbox.append_from_inbox(request, rows).await;
                appended.inspect_err(|error| self.metrics.service.db_failed(error.class()))
            }
        }
    }

    /// Puts the agent into `project` and notifies readers. With `None`, takes the agent out of its project.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`], or another error of the store.
    pub async fn set_project(&self, agent: &AgentId, project: Option<&ProjectId>) -> StoreResult<()> {
        self.store.set_project(agent, project, self.clock.now()).await?;
        self.notices.agent_changed(agent);
        Ok(())
    }

    /// Changes an agent's settings, which override the configuration from the next append on. Returns all settings. Creates the
    /// agent if it doesn't exist. After a change of model, messages that the summary doesn't cover are counted again before this
    /// returns, or in the background if the first try fails.
    ///
    /// # Errors
    /// When the store can't change the settings.
    pub async fn change_settings(
        &self,
        agent: &AgentId,
        patch: &SettingsPatch,
    ) -> StoreResult<AgentSettings> {
        let settings = self.store.change_settings(agent, patch, self.clock.now()).await?;
        self.counters.learn(agent, &settings);
        // Another time zone changes the times in the summary.
        self.notices.agent_changed(agent);
        if let Err(error) = self.recount(agent).await {
            self.metrics.service.db_failed(error.class());
            warn!(%error, agent_id = %agent, "recount.failed");
            self.learning.work.notify_one();
        }
        Ok(settings)
    }

    /// Ends the running session and makes its pending exchanges urgent.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`], or another error of the store.
    pub async fn end_session(&self, agent: &AgentId) -> StoreResult<SessionEnded> {
        let ended = self.store.end_session(agent, self.clock.now()).await?;
        self.report_wake(ended.enqueued, Reason::SessionEnd);
        self.notices.agent_moved(agent);
        Ok(ended)
    }

    pub fn rules(&self) -> &AppendRules {
        &self.rules
    }
}
