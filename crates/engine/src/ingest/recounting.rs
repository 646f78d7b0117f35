//! The ingestor's background work: counts tokens again after a change of model, finishes interrupted work, and saves the
//! calibrations.

use std::{collections::HashSet, time::Duration};

use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::{Ingestor, counting::COUNTING};
use recapd_core::domain::{agent::AgentId, number::i64_or_max, tokens::count_message, work::Reason};
use recapd_platform::threads;
use recapd_store::{NewCount, Recount, RecountBatch, RecountOutcome, StoreError, StoreResult};

/// How often to check for unfinished work.
const CHECK_INTERVAL: Duration = Duration::from_mins(1);
/// How often to retry agents whose counting panicked. They may have another model by then.
const RETRY_INTERVAL: Duration = Duration::from_hours(1);
/// Limits how many messages one transaction counts again, to some milliseconds of writing.
const RECOUNT_MESSAGES_MAX: i64 = 250;
const RECOUNT_AGENTS_MAX: i64 = 100;

impl Ingestor {
    /// Does the background work until `stop`, then saves the calibrations.
    pub async fn keep_counts(&self, stop: CancellationToken) {
        let mut check = tokio::time::interval(CHECK_INTERVAL);
        let mut retry = tokio::time::interval(RETRY_INTERVAL);
        let mut given_up = HashSet::new();
        loop {
            tokio::select! {
                _ = retry.tick() => given_up.clear(),
                _ = check.tick() => {
                    self.reload_calibrations().await;
                    self.finish_or_warn().await;
                }
                () = self.learning.work.notified() => {}
                () = stop.cancelled() => break,
            }
            if let Err(error) = self.recount_all_but(&mut given_up).await {
                self.metrics.service.db_failed(error.class());
                warn!(%error, "recount.failed");
            }
            self.save().await;
        }
        self.save().await;
    }

    async fn finish_or_warn(&self) {
        if let Err(error) = self.finish_interrupted().await {
            self.metrics.service.db_failed(error.class());
            warn!(%error, "forget.broken_off");
        }
    }

    /// Loads the saved calibrations, because other daemons on the same database save theirs, too.
    async fn reload_calibrations(&self) {
        match self.store.calibrations().await {
            Ok(saved) => self.learning.load(saved),
            Err(error) => {
                self.metrics.service.db_failed(error.class());
                warn!(%error, "calibration.unreadable");
            }
        }
    }

    async fn save(&self) {
        if let Err(error) = self.keep_calibrations().await {
            self.metrics.service.db_failed(error.class());
            warn!(%error, "calibration.not_kept");
        }
    }

    /// Loads the saved calibrations from the database, unless this was done before.
    ///
    /// # Errors
    /// When the store fails; then estimates stay uncorrected.
    pub async fn load_calibrations(&self) -> StoreResult<()> {
        if self.learning.needs_load() {
            self.learning.load(self.store.calibrations().await?);
        }
        Ok(())
    }

    /// Saves new calibrations to the database.
    ///
    /// # Errors
    /// When the store fails. The next call retries.
    pub async fn keep_calibrations(&self) -> StoreResult<()> {
        self.load_calibrations().await?;
        let unsaved = self.learning.take_unsaved();
        if unsaved.is_empty() {
            return Ok(());
        }
        let result = self.store.keep_calibrations(unsaved.clone(), self.clock.now()).await;
        if result.is_err() {
            self.learning.give_back(unsaved);
        }
        result
    }

    /// Counts again for all agents whose model has changed. An agent whose messages can't be counted keeps its counts.
    ///
    /// # Errors
    /// When the store fails. Counts stored before stay.
    pub async fn recount_due(&self) -> StoreResult<()> {
        self.recount_all_but(&mut HashSet::new()).await
    }

    /// Works like [`Self::recount_due`], but skips the agents in `given_up`. Adds agents whose counting panics to it: they would
    /// panic each time while other agents wait.
    async fn recount_all_but(&self, given_up: &mut HashSet<AgentId>) -> StoreResult<()> {
        loop {
            // Agents that were given up are still due and among the answer, so the limit is raised by their number.
            let skipped = i64_or_max(given_up.len());
            let agents_max = RECOUNT_AGENTS_MAX.saturating_add(skipped);
            let mut agents = self.store.recounts_due(agents_max).await?;
            agents.retain(|agent| !given_up.contains(agent));
            if agents.is_empty() {
                return Ok(());
            }
            for agent in agents {
                match self.recount(&agent).await {
                    Err(error @ StoreError::Panicked(_)) => {
                        error!(agent_id = %agent, %error, "recount.panicked");
                        given_up.insert(agent);
                    }
                    recounted => recounted?,
                }
            }
        }
    }

    /// Counts the messages again that an agent's summary doesn't cover, some exchanges at a time.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`], or another error of the store. Counts stored before stay.
    pub async fn recount(&self, agent: &AgentId) -> StoreResult<()> {
        while let Some(batch) = self.store.recount_batch(agent, RECOUNT_MESSAGES_MAX).await? {
            let request = self.count_again(agent, batch).await?;
            let (messages, is_last) = (request.counts.len(), request.is_last);
            // `None` if another caller was faster or the settings have changed. The next batch takes both into account.
            if let Some(recounted) = self.store.recount(request).await? {
                info!(agent_id = %agent, messages, is_last, "recount.done");
                self.report_recount(agent, &recounted);
            }
        }
        self.settle(agent).await
    }

    /// Recomputes an agent's running totals, some at a time.
    pub(super) async fn settle(&self, agent: &AgentId) -> StoreResult<()> {
        while let Some(settled) = self.store.settle_totals(agent, &self.rules, self.clock.now()).await? {
            self.report_recount(agent, &settled);
        }
        Ok(())
    }

    async fn count_again(&self, agent: &AgentId, batch: RecountBatch) -> StoreResult<Recount> {
        let counting = self.counters.learn(agent, &batch.settings);
        let counter = self.learning.guarded(agent, &counting);
        let count_method = counter.method().to_owned();
        let RecountBatch { settings, from, before, is_last, messages } = batch;
        let counting = threads::computed(COUNTING, move || {
            let counts = messages.iter().map(|(exchange, stored)| NewCount {
                exchange: *exchange,
                seq: stored.seq,
                tokens: count_message(counter.as_ref(), &stored.message),
            });
            counts.collect()
        });
        Ok(Recount {
            agent: agent.clone(),
            settings,
            from,
            before,
            is_last,
            counts: counting.await?,
            count_method,
            rules: self.rules,
            now: self.clock.now(),
        })
    }

    fn report_recount(&self, agent: &AgentId, recounted: &RecountOutcome) {
        for eviction in &recounted.evictions {
            let exchanges = eviction.through_exchange - eviction.from_exchange + 1;
            self.metrics.window.evicted(exchanges, eviction.tokens);
        }
        self.report_wake(recounted.enqueued, Reason::Eviction);
        self.notices.agent_changed(agent);
    }

    /// Asks for a recount after an append whose messages were counted by settings that have changed meanwhile.
    pub(super) async fn note_old_count(&self, agent: &AgentId) {
        if let Err(error) = self.store.begin_recount(agent).await {
            self.metrics.service.db_failed(error.class());
            warn!(%error, agent_id = %agent, "recount.not_begun");
        }
        self.learning.work.notify_one();
    }
}
