//! The keeper: takes messages in. It counts them, outside of any transaction and in parallel, and hands them to the
//! store, which numbers them, places them in exchanges, moves the boundary and wakes the queue in one transaction.
//!
//! Invariant: the keeper never waits for a model.

mod convergence;
mod counters;
mod counting;
mod forgetting;
mod indexing;
mod intake;
mod journalling;
mod learning;
mod operating;
mod searching;
mod step;
mod telling;
mod tending;
mod versions;

use std::sync::Arc;

use tokio::sync::Notify;
use tracing::{info, warn};

use crate::{
    clock::Clock,
    domain::{
        agent::AgentId,
        calibration::ReportedUsage,
        convergence::{Reading, Rules},
        lineage::Step,
        message::Message,
        project::ProjectId,
        redaction::Redactor,
        settings::{AgentSettings, SettingsPatch},
        tokens::TokenCounter,
        work::Reason,
    },
    journal::live::LiveJournal,
    notice::Notices,
    store::{
        AppendOutcome, AppendRequest, AppendRules, Forked, RequestKey, SessionEnded, Store, StoreError,
        StoreResult, inbox::InboxStore,
    },
    telemetry::metrics::Metrics,
};

pub use convergence::convergence;
use counters::Counters;
pub use counters::FindCounter;
use counting::Counted;
pub use forgetting::{DeleteReply, ForgetReply};
use journalling::records;
use learning::Learning;
pub use operating::{AgedReply, Operator};
pub use searching::Searched;
pub use step::{ForkReply, StepReply};
use telling::role_tokens;
pub use versions::{EditedReply, ItemReply, RevisedReply};

/// What an append is made of.
enum By {
    /// Messages; a rewind among them whose mark isn't there is left alone.
    Messages,
    /// Steps that are asked for, and have to be taken.
    Steps,
    /// Messages that are taken out of the inbox: these rows of it.
    Inbox(Arc<dyn InboxStore>, Vec<i64>),
}

/// Takes messages in.
#[derive(Clone)]
pub struct Keeper {
    store: Arc<dyn Store>,
    counters: Arc<Counters>,
    learning: Arc<Learning>,
    /// Messages came that recall's index doesn't have.
    unindexed: Arc<Notify>,
    clock: Arc<dyn Clock>,
    rules: AppendRules,
    notices: Notices,
    metrics: Metrics,
    journal: LiveJournal,
    redactor: Redactor,
    convergence: Rules,
}

impl Keeper {
    /// A keeper over `store` that counts with `counter` and decides by `rules`.
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

    /// This keeper, but an agent with a provider or a model of its own is counted by the counter that `find` finds for
    /// it; `provider` and `model` are those of the others.
    #[must_use]
    pub fn counting_each(self, provider: &str, model: &str, find: FindCounter) -> Self {
        let default = (provider.to_owned(), model.to_owned());
        Self {
            counters: Arc::new(Counters::each(default, find)),
            ..self
        }
    }

    /// The same keeper, which writes what it accepts to `journal` too.
    #[must_use]
    pub fn with_journal(self, journal: LiveJournal) -> Self {
        Self { journal, ..self }
    }

    /// The same keeper, which compares speakers by `rules`.
    #[must_use]
    pub fn comparing(self, rules: Rules) -> Self {
        Self {
            convergence: rules,
            ..self
        }
    }

    /// As [`Self::append_reported`], and how alike the speakers sound now, if messages were stored that a named speaker
    /// said. Under a `key` nothing but the same request is taken again.
    ///
    /// # Errors
    /// As [`Self::append`]; [`StoreError::KeyReused`].
    pub async fn append_and_listen(
        &self,
        agent: &AgentId,
        messages: Vec<Message>,
        usage: Option<ReportedUsage>,
        key: Option<RequestKey>,
    ) -> StoreResult<(AppendOutcome, Option<Reading>)> {
        let is_talk = convergence::is_talk(&messages);
        let outcome = self.append_keyed(agent, messages, usage, key).await?;
        if !is_talk || outcome.accepted == 0 {
            return Ok((outcome, None));
        }
        // The messages are stored, whatever comes of the comparison.
        let reading = convergence(self.store.as_ref(), agent, &self.convergence).await;
        let reading = reading.unwrap_or_else(|error| {
            warn!(agent_id = %agent, %error, "convergence.unread");
            None
        });
        if let Some(reading) = reading.as_ref().filter(|reading| reading.is_fresh) {
            self.metrics.talk.scored(reading);
        }
        Ok((outcome, reading))
    }

    /// Appends messages as they come in.
    ///
    /// # Errors
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
        messages: Vec<Message>,
        usage: Option<ReportedUsage>,
        key: Option<RequestKey>,
    ) -> StoreResult<AppendOutcome> {
        let mut counted = self.request(agent, messages, false).await?;
        counted.request.key = key;
        let usage = usage.filter(|usage| usage.is_about(counted.counting.model()));
        let answer = counted.seen.iter_mut().rev().find(|seen| seen.is_answer);
        if let (Some(answer), Some(usage)) = (answer, usage) {
            answer.usage = Some(usage);
        }
        self.take_in(counted, By::Messages).await
    }

    /// Appends messages of the past: items are aged by the messages' own times. They are counted without a guard, so
    /// that a replay ends the same whatever was learned before it; what they report is learned.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub async fn replay(&self, agent: &AgentId, messages: Vec<Message>) -> StoreResult<AppendOutcome> {
        let request = self.request(agent, messages, true).await?;
        self.take_in(request, By::Messages).await
    }

    /// Clears, marks, rewinds, pins or unpins, by the message that says so. A rewind does it only if its mark is there,
    /// a pin only if its message is.
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
        self.take_in(request, By::Steps).await
    }

    /// Makes the agent `child`, which begins where `parent` stands.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`], [`StoreError::AgentExists`], or what the store fails with.
    pub async fn fork(&self, parent: &AgentId, child: &AgentId) -> StoreResult<Forked> {
        let forked = self.store.fork(parent, child, self.clock.now()).await?;
        info!(agent_id = %child, %parent, ?forked, "lineage.forked");
        self.tell_queue(forked.enqueued, Reason::Eviction);
        self.notices.agent_changed(child);
        Ok(forked)
    }

    /// The same keeper, which redacts secrets in headlines by the rules of `redactor`.
    #[must_use]
    pub fn redacting(self, redactor: Redactor) -> Self {
        Self { redactor, ..self }
    }

    async fn take_in(&self, counted: Counted, by: By) -> StoreResult<AppendOutcome> {
        let Counted {
            mut request,
            counting,
            seen,
        } = counted;
        let (agent, tokens) = (request.agent.clone(), role_tokens(&request));
        // Payloads are what is stored: what was read from them is as much again, and there may be many to wait for.
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
                let taken = inbox.take_in(request, rows).await;
                taken.inspect_err(|error| self.metrics.service.db_failed(error.class()))
            }
        }
    }

    /// Makes the agent one of `project`, or of none, and says so to readers.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`], and what the store fails with.
    pub async fn set_project(&self, agent: &AgentId, project: Option<&ProjectId>) -> StoreResult<()> {
        self.store.set_project(agent, project, self.clock.now()).await?;
        self.notices.agent_changed(agent);
        Ok(())
    }

    /// Changes what an agent overrides in the configuration, from its next append on. Returns all it overrides. With
    /// another model, what the summary doesn't cover is counted again before this returns.
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
        // In another zone its summary tells other times.
        self.notices.agent_changed(agent);
        if let Err(error) = self.recount(agent).await {
            warn!(%error, agent_id = %agent, "recount.failed");
            self.learning.work.notify_one();
        }
        Ok(settings)
    }

    /// Ends the running session: what is pending becomes urgent.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`], or what the store fails with.
    pub async fn end_session(&self, agent: &AgentId) -> StoreResult<SessionEnded> {
        let ended = self.store.end_session(agent, self.clock.now()).await?;
        self.tell_queue(ended.enqueued, Reason::SessionEnd);
        self.notices.agent_moved(agent);
        Ok(ended)
    }

    /// The rules by which it decides.
    pub fn rules(&self) -> &AppendRules {
        &self.rules
    }
}
