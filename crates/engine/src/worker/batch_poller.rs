//! The batch poller: sends questions to the provider in batches, and fetches the answers.
//!
//! Every step can be repeated. A batch is recorded before it is sent, searched for before it is sent again, and closed in one
//! transaction with all its answers. So the poller may stop, or be killed, between any two steps.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    WorkerParts,
    batch::BatchServices,
    call::{tokens_of, usage_of},
    resumption::Resumption,
};
use recapd_core::domain::{
    batch::{BatchObservation, BatchState, BatchStep, LOOK_MS, cost_in_batch_microusd, step},
    demand::UserWords,
    number::i64_or_max,
    price::Prices,
    reply::{self, Answer, CheckedReply},
    time::Timestamp,
};
use recapd_llm::{
    LlmError, ModelAnswer,
    batch::{BatchCall, BatchResult, BatchStatus},
};
use recapd_store::{
    Resume, StoreResult,
    batch::{BatchEnd, BatchLine, BatchMove, BatchReply, Gather, OpenBatch},
};

/// The time between two steps.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Limits how many batches one step polls.
const BATCHES_POLLED_MAX: i64 = 100;
/// Limits how many ids of known batches are read. Providers list only their newest batches.
const KNOWN_MAX: i64 = 1_000;
/// How many letters and digits a batch's name ends with.
const NAME_CHARS: usize = 16;

pub struct BatchPoller {
    parts: WorkerParts,
    batching: BatchServices,
    prices: Prices,
    random: Mutex<fastrand::Rng>,
    /// Resumes updates that wait for a spending limit, because a batch may have cost less than expected.
    resumption: Resumption,
}

impl BatchPoller {
    pub(super) fn new(parts: WorkerParts, batching: BatchServices, prices: Prices, seed: u64) -> Self {
        Self {
            resumption: Resumption::new(parts.clone(), Resume::Paused),
            parts,
            batching,
            prices,
            random: Mutex::new(fastrand::Rng::with_seed(seed)),
        }
    }

    pub async fn run(&self, stop: CancellationToken) {
        let mut poll = tokio::time::interval(POLL_INTERVAL);
        loop {
            tokio::select! {
                _ = poll.tick() => {}
                () = stop.cancelled() => return,
            }
            tokio::select! {
                result = self.step() => {
                    if let Err(error) = result {
                        self.parts.metrics.service.db_failed(error.class());
                        warn!(%error, "batch.unreadable");
                    }
                }
                () = stop.cancelled() => return,
            }
            // The interval begins after the step, however long the step took: an update that is being paused during one resumption
            // has recorded its pause before the next one.
            poll.reset();
        }
    }

    /// Checks the batches that are due, and sends waiting questions.
    ///
    /// # Errors
    /// When the store fails. Nothing is lost, and the next step continues.
    pub async fn step(&self) -> StoreResult<()> {
        // This comes first, so that no failure below delays it.
        self.resumption.step().await;
        self.poll_due().await?;
        // What follows concerns waiting questions, and mostly there are none. If this query fails, nothing has changed, so no
        // resumption is owed.
        if !self.batching.store.has_waiting().await? {
            return Ok(());
        }
        self.withdraw_outdated().await?;
        while let Some(batch) = self.gather().await? {
            self.send(&batch).await?;
        }
        Ok(())
    }

    async fn poll_due(&self) -> StoreResult<()> {
        let now = self.now();
        let due = self.batching.store.due_batches(now, now.plus_ms(LOOK_MS), BATCHES_POLLED_MAX).await?;
        for batch in due {
            match (batch.state, batch.provider_id.clone()) {
                // The configuration now names another provider, which doesn't know this batch.
                _ if batch.provider != self.batching.model.provider() => {
                    self.give_up(&batch, "other_provider").await?;
                }
                (BatchState::Submitted, Some(id)) => self.poll(&batch, &id).await?,
                _ => self.search(&batch).await?,
            }
        }
        Ok(())
    }

    async fn withdraw_outdated(&self) -> StoreResult<()> {
        let withdrawn = self.batching.store.withdraw_outdated(self.now()).await;
        // The store may have withdrawn questions although the call failed. Then the next step resumes the updates.
        if withdrawn.inspect_err(|_| self.resumption.owe())? > 0 {
            self.wake_waiting().await;
        }
        Ok(())
    }

    async fn gather(&self) -> StoreResult<Option<OpenBatch>> {
        let (now, settings) = (self.now(), &self.batching.settings);
        let gather = Gather {
            name: self.name(),
            provider: self.batching.model.provider().to_owned(),
            model: self.batching.model.model().to_owned(),
            requests_max: settings.requests_max,
            bytes_max: settings.bytes_max,
            open_max: settings.open_max,
            waiting_before: now.plus_ms(-settings.gather_ms),
            now,
            next_at: now.plus_ms(LOOK_MS),
        };
        self.batching.store.gather(gather).await
    }

    /// Sends a batch that the provider doesn't have.
    async fn send(&self, batch: &OpenBatch) -> StoreResult<()> {
        let lines = self.batching.store.batch_lines(batch.batch).await?;
        let call = |line: BatchLine| BatchCall { key: line.key, body: line.body };
        let calls: Vec<BatchCall> = lines.into_iter().map(call).collect();
        match self.batching.model.submit(&batch.identity.name, &calls).await {
            Ok(id) => self.record_submission(batch, id).await,
            Err(error) => {
                warn!(batch = batch.identity.name, requests = calls.len(), class = error.class(), %error, "batch.not_sent");
                let observation = if may_have_been_made(&error) {
                    BatchObservation::Unsure
                } else {
                    BatchObservation::Refused
                };
                self.apply_step(batch, observation, Some(&error)).await
            }
        }
    }

    /// Searches the provider's list for a batch that the provider may have created.
    async fn search(&self, batch: &OpenBatch) -> StoreResult<()> {
        let listed = match self.batching.model.find(&batch.identity).await {
            Ok(listed) => listed,
            Err(error) => {
                warn!(batch = batch.identity.name, class = error.class(), %error, "batch.list_failed");
                return self.apply_step(batch, BatchObservation::Unsure, Some(&error)).await;
            }
        };
        let provider = self.batching.model.provider();
        let known_ids = self.batching.store.known_batches(provider, KNOWN_MAX).await?;
        // The newest come first, so this takes the oldest unknown one, which was created right after the batch was recorded.
        let found = listed.into_iter().rfind(|listed| !known_ids.contains(&listed.id));
        match found {
            Some(found) => self.record_submission(batch, found.id).await,
            None => self.apply_step(batch, BatchObservation::Unlisted, None).await,
        }
    }

    async fn record_submission(&self, batch: &OpenBatch, id: String) -> StoreResult<()> {
        info!(
            batch = batch.identity.name,
            provider_id = id,
            requests = batch.identity.requests,
            "batch.submitted"
        );
        let BatchStep::Submit { wait_ms } = self.next_step(batch, BatchObservation::Accepted) else {
            return self.give_up(batch, "expired").await;
        };
        let step = BatchMove {
            from: batch.state,
            held_until: batch.held_until,
            submitted_as: Some(id),
            next_at: self.now().plus_ms(wait_ms),
        };
        self.batching.store.move_batch(batch.batch, step).await?;
        self.parts.metrics.batches.submitted();
        Ok(())
    }

    /// Polls the state of a batch, and fetches its results if it has ended.
    async fn poll(&self, batch: &OpenBatch, id: &str) -> StoreResult<()> {
        let read = match self.batching.model.look(id).await {
            Ok(BatchStatus::Running) => return self.apply_step(batch, BatchObservation::Running, None).await,
            Ok(BatchStatus::Gone) => return self.apply_step(batch, BatchObservation::Gone, None).await,
            Ok(BatchStatus::Ended(ended)) => {
                let results = self.batching.model.results(&ended).await;
                results.map(|results| (results, ended.otherwise))
            }
            Err(error) => Err(error),
        };
        match read {
            Ok((results, otherwise)) => self.close(batch, results, otherwise).await,
            Err(error) => {
                warn!(batch = batch.identity.name, class = error.class(), %error, "batch.unreachable");
                self.apply_step(batch, BatchObservation::Unsure, Some(&error)).await
            }
        }
    }

    /// Gives up a batch, so that its questions are asked directly.
    async fn give_up(&self, batch: &OpenBatch, class: &str) -> StoreResult<()> {
        self.parts.metrics.batches.lost();
        self.close(batch, Vec::new(), class).await
    }

    /// Takes the step that follows from an observation without results. `error` is the cause, and may say when to poll again.
    async fn apply_step(
        &self,
        batch: &OpenBatch,
        observation: BatchObservation,
        error: Option<&LlmError>,
    ) -> StoreResult<()> {
        let step = self.next_step(batch, observation);
        if let BatchStep::Wait { wait_ms } | BatchStep::Submit { wait_ms } = step {
            let retry_after = error.and_then(LlmError::retry_after).unwrap_or_default();
            let retry_after_ms = i64_or_max(retry_after.as_millis());
            self.reserve(batch, wait_ms.max(retry_after_ms)).await?;
            return Ok(());
        }
        // The poll may have taken so long that another daemon has taken over the batch.
        let Some(reserved) = self.reserve(batch, LOOK_MS).await? else {
            info!(batch = batch.identity.name, "batch.taken_over");
            return Ok(());
        };
        if step == BatchStep::Send {
            Box::pin(self.send(&reserved)).await
        } else {
            self.give_up(&reserved, error.map_or("gone", LlmError::class)).await
        }
    }

    /// Reserves a batch for this daemon for `wait_ms`. Returns `None` if another daemon has it.
    async fn reserve(&self, batch: &OpenBatch, wait_ms: i64) -> StoreResult<Option<OpenBatch>> {
        let until = self.now().plus_ms(wait_ms);
        let step =
            BatchMove { from: batch.state, held_until: batch.held_until, submitted_as: None, next_at: until };
        let is_held = self.batching.store.move_batch(batch.batch, step).await?;
        Ok(is_held.then(|| OpenBatch { held_until: until, ..batch.clone() }))
    }

    fn next_step(&self, batch: &OpenBatch, observation: BatchObservation) -> BatchStep {
        let age_ms = self.now().since_ms(batch.identity.created_at);
        step(batch.state, observation, batch.looks, age_ms)
    }

    /// Journals the valid results, and wakes the rows that wait for them. A question without a result fails with the error class
    /// `otherwise`.
    async fn close(&self, batch: &OpenBatch, results: Vec<BatchResult>, otherwise: &str) -> StoreResult<()> {
        let lines = self.batching.store.batch_lines(batch.batch).await?;
        let questions: HashMap<&str, &[i64]> =
            lines.iter().map(|line| (line.key.as_str(), line.exchanges.as_slice())).collect();
        // A result with an unknown key doesn't answer any of these questions.
        let ours = results.into_iter().filter_map(|result| {
            let exchanges = questions.get(result.key.as_str())?;
            Some((self.reply(&result, exchanges, &batch.model), result.billed))
        });
        let (replies, billed): (Vec<BatchReply>, Vec<ModelAnswer>) = ours.unzip();
        let end = BatchEnd { results: replies, otherwise: otherwise.to_owned(), now: self.now() };
        let closed = self.batching.store.close_batch(batch.batch, end).await;
        // The batch may have been closed although the call failed. No later step handles a closed batch, so the resumption is owed
        // now.
        let closed = closed.inspect_err(|_| self.resumption.owe())?;
        for answer in &billed {
            self.bill(&batch.model, answer);
        }
        let metrics = &self.parts.metrics.batches;
        metrics.ended(closed.answered, closed.failed, closed.late);
        info!(
            batch = batch.identity.name,
            answered = closed.answered,
            failed = closed.failed,
            late = closed.late,
            otherwise,
            "batch.closed"
        );
        self.wake_waiting().await;
        Ok(())
    }

    /// Makes rows claimable that waited for questions, and resumes updates, because less may count against the limits than was
    /// expected.
    async fn wake_waiting(&self) {
        self.resumption.owe();
        // If this fails, the next step retries it; batches don't wait for it.
        self.resumption.step().await;
        self.parts.notices.wake_queue();
    }

    fn reply(&self, result: &BatchResult, exchanges: &[i64], model: &str) -> BatchReply {
        let answer = match &result.text {
            Ok(text) => self.checked_answer(text, exchanges),
            Err(class) => Err(class.clone()),
        };
        BatchReply {
            key: result.key.clone(),
            answer,
            input_tokens: result.billed.input_tokens,
            output_tokens: result.billed.output_tokens,
            cost_microusd: self.cost_microusd(model, &result.billed),
        }
    }

    /// Returns the parsed and redacted answer instead of the model's text, so that a secret that a model repeats isn't stored.
    fn checked_answer(&self, text: &str, exchanges: &[i64]) -> Result<String, String> {
        // The messages aren't available here. The update that takes the answer checks the user's demands.
        let later = UserWords::checked_later();
        let checked = reply::parse_with_words(text, exchanges, &later, &self.parts.redactor);
        let CheckedReply { drafts, facts, .. } = checked.map_err(|error| error.class().to_owned())?;
        serde_json::to_string(&Answer { items: drafts, facts }).map_err(|_| "internal".to_owned())
    }

    fn bill(&self, model: &str, answer: &ModelAnswer) {
        let (provider, metrics) = (self.batching.model.provider(), &self.parts.metrics.provider);
        metrics.billed(provider, model, tokens_of(answer));
        if let Some(cost_microusd) = self.cost_microusd(model, answer) {
            metrics.cost(provider, model, cost_microusd);
        }
    }

    /// Returns the cost of an answer in a batch; `None` if the model's price is unknown.
    fn cost_microusd(&self, model: &str, answer: &ModelAnswer) -> Option<i64> {
        let price = self.prices.of(model)?;
        Some(cost_in_batch_microusd(price.cost_microusd(usage_of(tokens_of(answer)))))
    }

    /// Returns a name that no other batch of any daemon has.
    fn name(&self) -> String {
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        let letters: String = std::iter::repeat_with(|| random.alphanumeric()).take(NAME_CHARS).collect();
        format!("recapd-{}-{letters}", self.now().0)
    }

    fn now(&self) -> Timestamp {
        self.parts.clock.now()
    }
}

/// Returns true if the provider may have created the batch although sending it failed with `error`.
fn may_have_been_made(error: &LlmError) -> bool {
    matches!(error, LlmError::Transient(_) | LlmError::RateLimited { .. })
}
