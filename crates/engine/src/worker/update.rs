//! Carries out one update: from a lease to a new version, to a retry, or to digests and a parked row.

mod trouble;

use tracing::{debug, error, info, warn};

use super::{
    Interruption, LeaseGuard, Outcome, Worker,
    batch::Route,
    compact::{Contents, Draft},
    material::{as_of, half, is_due},
    panicking::catch_panic,
    postpone::WaitReason,
    reason, span,
};
use recapd_core::domain::{
    number::i64_or_max,
    summary::{
        compaction::{Composition, compose_with},
        item::{Item, Origin},
    },
    work::{Lease, Reason, WOKEN_RETRY_MS_MIN},
};
use recapd_store::{
    AttemptError, CRASHED, Completion, Failure, Fence, Material, MaterialLimits, Patch, RunRecord, Settle,
    StoreError, StoreResult, StoredExchange,
};
use recapd_telemetry::{
    ALERT_TARGET,
    metrics::labels::{self, ItemAction, UpdateOutcome, UpdatePath},
    trace,
};
use trouble::Trouble;

impl Worker {
    /// Carries out an update, and handles every failure in it, including panics. A poison row, whose update has crashed its
    /// workers repeatedly, isn't tried again: digests replace its exchanges, and the row is parked.
    pub(super) async fn update(&self, guard: &LeaseGuard) -> Outcome {
        let lease = &guard.lease;
        let mut run =
            RunRecord { started_at: self.parts.clock.now(), cost_microusd: Some(0), ..RunRecord::default() };
        let attempt = if self.settings.retry.is_poison(lease) {
            let message = format!("this row has crashed {} workers", lease.crashes);
            Err(Trouble::Final(AttemptError { class: CRASHED.to_owned(), message }))
        } else {
            let attempt = catch_panic(lease, self.attempt(guard, &mut run)).await;
            attempt.unwrap_or_else(|panicked| Err(Trouble::Passing(panicked, 0)))
        };
        if let Err(Trouble::Final(error) | Trouble::Passing(error, _)) = &attempt {
            tracing::Span::current().record(trace::ERROR, error.class.as_str());
        }
        match attempt {
            Ok(outcome) => outcome,
            Err(Trouble::Interrupted(Interruption::Lost)) => {
                self.lost_leases.add(lease);
                self.end_superseded(lease, run).await
            }
            Err(Trouble::Interrupted(Interruption::Stopped)) => {
                self.note_cost(lease, run).await;
                self.give_back(lease).await
            }
            Err(Trouble::Waiting(wait)) => self.postpone(lease, wait, run).await,
            Err(Trouble::Store(error)) => self.after_store_error(lease, error, run).await,
            Err(Trouble::Final(error)) => self.complete_with_digests(lease, error, run).await,
            Err(Trouble::Passing(error, _)) if self.settings.retry.is_last(lease) => {
                self.complete_with_digests(lease, error, run).await
            }
            Err(Trouble::Passing(error, retry_after_ms)) => {
                self.fail(lease, error, Retry { after_ms: retry_after_ms, park: false }, run).await
            }
        }
    }

    async fn attempt(&self, guard: &LeaseGuard, run: &mut RunRecord) -> Result<Outcome, Trouble> {
        let lease = &guard.lease;
        let mut limits = self.failure_memory.reduce(&lease.agent, self.settings.limits);
        loop {
            let material = self.parts.store.material(lease, limits).await?;
            if material.exchanges.is_empty() {
                return self.without_pending(lease, &material, run).await;
            }
            if self.is_slight(lease, &material) {
                let draft = self.draft(&material, self.without_model(&material));
                return Ok(self.apply(lease, &material, draft, None, run).await?);
            }
            let material = match self.route(lease, material, run).await? {
                Route::Direct(material) => self.with_answered(lease, *material, limits, run).await?,
                Route::Deferred => return Ok(Outcome::Deferred),
                Route::Paused(material, paused) => {
                    self.age_meanwhile(lease, *material, run).await;
                    return Err(Trouble::Waiting(WaitReason::Paused(paused)));
                }
                Route::Answered(material, condensed) => {
                    let draft = self.draft(&material, condensed);
                    let draft = self.compact(guard, &material, draft, run).await?;
                    return Ok(self.apply(lease, &material, draft, None, run).await?);
                }
            };
            match self.condense(guard, &material, limits, run).await {
                Ok(condensed) => {
                    let draft = self.draft(&material, condensed);
                    let draft = self.compact(guard, &material, draft, run).await?;
                    return Ok(self.apply(lease, &material, draft, None, run).await?);
                }
                Err(fault) => {
                    let is_divided = fault.is_too_much() && material.revisited.is_empty();
                    // A question about as many exchanges as before would fail again.
                    let half = half(&material.exchanges).map(i64_or_max);
                    let half = half.filter(|half| is_divided && *half < limits.exchanges_max);
                    let Some(half) = half else {
                        let trouble = Trouble::from(fault);
                        if trouble.puts_off(self.settings.retry.is_last(lease)) {
                            self.age_meanwhile(lease, material, run).await;
                        }
                        return Err(trouble);
                    };
                    debug!(agent_id = %lease.agent, exchanges = half, "update.batch_halved");
                    limits = MaterialLimits { exchanges_max: half, ..limits };
                }
            }
        }
    }

    /// Returns true for a session that ended after a few words, like each call of a host in a loop. A model's answer would be
    /// longer than the session.
    fn is_slight(&self, lease: &Lease, material: &Material) -> bool {
        let tokens: i64 = material.exchanges.iter().map(|stored| stored.exchange.tokens).sum();
        let has_paused = lease.reasons == Reason::SessionPause.bit() && material.revisited.is_empty();
        has_paused && !self.is_offline() && tokens < self.settings.batch_tokens_min
    }

    /// Handles a row without pending exchanges. Ageing may still have moved items to another section.
    async fn without_pending(
        &self,
        lease: &Lease,
        material: &Material,
        run: &mut RunRecord,
    ) -> Result<Outcome, Trouble> {
        if material.lo == material.hi && is_due(material, run) {
            return Ok(self.apply(lease, material, Draft::aged(material), None, run).await?);
        }
        let settle = Settle { lo: material.lo, hi: material.hi, now: self.parts.clock.now() };
        self.heartbeat.remove(lease);
        self.parts.store.settle(lease, settle).await?;
        self.parts.notices.agent_changed(&lease.agent);
        Ok(Outcome::Settled)
    }

    /// Composes the document and writes everything in one transaction. With `park`, parks the row instead of finishing it.
    async fn apply(
        &self,
        lease: &Lease,
        material: &Material,
        draft: Draft,
        park: Option<AttemptError>,
        run: &mut RunRecord,
    ) -> StoreResult<Outcome> {
        let as_of = as_of(material, run);
        let is_given_up = park.is_some();
        let mut composed = compose_with(
            &draft.facts.holding(&material.facts),
            &draft.items,
            as_of,
            &self.policy(material),
            self.parts.counter.as_ref(),
        );
        // How the items would have been composed before a model compacted them, if one did.
        composed.path = draft.path.unwrap_or(composed.path);
        let (merged, condensed) = (draft.merged, draft.condensed);
        run.truncated = composed.truncated;
        run.finished_at = self.parts.clock.now();
        let mut patch = self.patch(material, Contents { draft, composition: &composed, as_of }, park, run);
        if is_given_up {
            // A row that is woken during each attempt, for example by an ageing job that runs every minute, isn't parked. So its
            // wait grows with each attempt, by the backoff.
            let backoff_ms = self.settings.retry.backoff_ms(lease.attempt, 1.0);
            patch.rearm_wait_ms = patch.rearm_wait_ms.max(backoff_ms);
        }
        let (dropped, added) = (patch.dropped.len(), patch.added.len());
        let refused = patch.facts.refused.clone();
        // An update that ends needs no heartbeat, and from here on the loss of its lease does no harm.
        self.heartbeat.remove(lease);
        let completed = self.parts.store.complete(lease, patch).await?;
        self.report_applied(lease, material, &composed, completed, run);
        let took = span(run.finished_at.since_ms(run.started_at));
        let (outcome, ended) = match (is_given_up, completed.parked) {
            (false, _) => (Outcome::Completed, UpdateOutcome::Completed),
            (true, true) => (Outcome::Parked, UpdateOutcome::Failed),
            (true, false) => (Outcome::StoodIn, UpdateOutcome::Failed),
        };
        tracing::Span::current()
            .record("recapd.path", composed.path.name())
            .record("recapd.exchanges", i64_or_max(material.exchanges.len()));
        let label = UpdatePath::from_name(composed.path.name()).unwrap_or(UpdatePath::None);
        self.parts.metrics.updates.finished(ended, label, i64_or_max(material.exchanges.len()), took);
        self.parts.metrics.documents.stored(composed.tokens);
        let documents = &self.parts.metrics.documents;
        documents.facts_refused(&refused);
        documents.items(ItemAction::Added, i64_or_max(added));
        documents.items(ItemAction::Dropped, i64_or_max(dropped));
        documents.items(ItemAction::Merged, i64_or_max(merged));
        documents.items(ItemAction::Condensed, i64_or_max(condensed));
        Ok(outcome)
    }

    pub(super) fn patch(
        &self,
        material: &Material,
        contents: Contents<'_>,
        park: Option<AttemptError>,
        run: &RunRecord,
    ) -> Patch {
        let Contents { draft, composition, as_of } = contents;
        let leaving = if draft.only_ages { &composition.aged } else { &composition.dropped };
        let is_dropped = |index: usize| leaving.binary_search(&index).is_ok();
        let composed = (0..).zip(draft.items).map(|(index, item)| (item, is_dropped(index)));
        let (items, dropped) = (composed.collect::<Vec<_>>(), draft.dropped.into_iter());
        // Provisional items of this update don't make the row due at once. Items of the built-in summariser wait until a model
        // works, and exchanges that an answer left out would be left out again right now.
        let stands_in = items
            .iter()
            .any(|(item, _)| item.item == 0 && item.provisional && item.origin == Origin::Offline);
        let is_left = |(item, dropped): &(Item, bool)| item.item != 0 && item.provisional && !dropped;
        let has_more = park.is_none() && !stands_in && items.iter().any(is_left);
        let all = items.into_iter().chain(dropped.map(|item| (item, true)));
        let (added, old): (Vec<_>, Vec<_>) = all.partition(|(item, _)| item.item == 0);
        let dropped_items = old.into_iter().filter(|(_, dropped)| *dropped);
        let pending = material.exchanges.iter().filter(|stored| stored.exchange.exchange > material.lo);
        Patch {
            version: material.version,
            lo: material.lo,
            hi: material.hi,
            exchanges: i64_or_max(pending.count()),
            dropped: dropped_items.map(|(item, _)| item.item).collect(),
            has_more,
            added,
            removed: draft.replaced,
            facts: draft.facts,
            content: composition.document.clone(),
            token_count: composition.tokens,
            path: composition.path,
            as_of,
            next_ageing_at: composition.next_change,
            park,
            // Exchanges that found no room in this update have waited already, so they don't wait for more.
            rearm_wait_ms: if material.takes_all { self.settings.max_wait_ms } else { 0 },
            batch_exchanges: self.settings.batch_exchanges,
            batch_tokens_min: self.settings.batch_tokens_min,
            run: run.clone(),
        }
    }

    fn report_applied(
        &self,
        lease: &Lease,
        material: &Material,
        composed: &Composition,
        completed: Completion,
        run: &RunRecord,
    ) {
        let exchanges = i64_or_max(material.exchanges.len());
        let duration_ms = run.finished_at.since_ms(run.started_at);
        if composed.truncated {
            self.parts.metrics.documents.truncated(composed.truncated_tokens);
            warn!(agent_id = %lease.agent, tokens_over = composed.truncated_tokens, "summary.truncated");
        }
        info!(
            agent_id = %lease.agent, version = completed.version, path = composed.path.name(), exchanges,
            document_tokens = composed.tokens, tokens_in = run.input_tokens, tokens_out = run.output_tokens,
            duration_ms, attempt = lease.attempt, rearmed = completed.rearmed, "update.completed"
        );
        self.parts.notices.agent_changed(&lease.agent);
        if completed.rearmed {
            self.parts.notices.wake_queue();
        }
    }

    /// Ends the last attempt: writes digests of the exchanges as provisional items, parks the row, and alerts. If digests exist
    /// already and ageing has changed nothing, the version would equal the previous one, so none is written.
    async fn complete_with_digests(&self, lease: &Lease, fault: AttemptError, mut run: RunRecord) -> Outcome {
        let cause = fault.clone();
        let outcome = async {
            // Read with the full limits instead of the portion: the row is parked, and all pending exchanges must be visible.
            let material = self.parts.store.material(lease, self.settings.limits).await?;
            let adds_nothing = material.lo == material.hi;
            if !material.revisited.is_empty() && self.settings.retry.is_poison(lease) {
                // The revisited exchanges were asked about a second time, and the worker has crashed again.
                let draft = Draft::lasting(&material);
                let outcome = self.apply(lease, &material, draft, Some(fault), &mut run).await;
                return outcome.map(Some);
            }
            if adds_nothing && !is_due(&material, &run) {
                return Ok(None);
            }
            // Revisited exchanges have their digests already.
            let material = Material {
                revisited: Vec::new(),
                exchanges: pending(material.exchanges, material.lo),
                ..material
            };
            let draft = if adds_nothing {
                Draft::aged(&material)
            } else {
                Draft::new(&material, self.digests(&material))
            };
            let outcome = self.apply(lease, &material, draft, Some(fault), &mut run).await;
            outcome.map(Some)
        };
        match catch_panic(lease, outcome).await {
            Ok(Ok(None)) => {
                let retry = Retry { after_ms: WOKEN_RETRY_MS_MIN, park: true };
                self.fail(lease, cause, retry, run).await
            }
            Ok(Ok(Some(outcome))) => {
                // Counted only now: if writing digests fails, the attempt fails for that reason and counts once.
                self.parts.metrics.updates.failed(reason(&cause.class));
                if outcome == Outcome::Parked {
                    self.log_parked(lease, &cause);
                } else {
                    warn!(
                        agent_id = %lease.agent, attempt = lease.attempt, error_class = %cause.class,
                        error = %cause.message, "update.stood_in"
                    );
                }
                outcome
            }
            Ok(Err(error)) => self.after_store_error(lease, error, run).await,
            // Nothing is left to try, so the row waits for the next eviction, or for an operator.
            Err(panicked) => {
                let retry = Retry { after_ms: 0, park: true };
                self.fail(lease, panicked, retry, run).await
            }
        }
    }

    async fn fail(&self, lease: &Lease, fault: AttemptError, retry: Retry, mut run: RunRecord) -> Outcome {
        let jitter = self.draw(fastrand::Rng::f64);
        let backoff_ms = self.settings.retry.backoff_ms(lease.attempt, jitter).max(retry.after_ms);
        self.parts.metrics.updates.failed(reason(&fault.class));
        warn!(
            agent_id = %lease.agent, attempt = lease.attempt, error_class = %fault.class, error = %fault.message,
            backoff_ms, parked = retry.park, "update.failed"
        );
        run.finished_at = self.parts.clock.now();
        let spent = run.clone();
        let failure = Failure { error: fault.clone(), backoff_ms, park: retry.park, run };
        self.heartbeat.remove(lease);
        match self.parts.store.fail(lease, failure).await {
            Ok(true) => {
                self.log_parked(lease, &fault);
                Outcome::GivenUp
            }
            Ok(false) => Outcome::Retried,
            Err(StoreError::Fenced(_)) => {
                self.lost_leases.add(lease);
                self.end_superseded(lease, spent).await
            }
            Err(error) => {
                // The lease expires by itself, and the work is offered again.
                self.lost_leases.add(lease);
                self.parts.metrics.service.db_failed(error.class());
                error!(agent_id = %lease.agent, %error, "update.fail_not_recorded");
                Outcome::Retried
            }
        }
    }

    /// Logs that the row is parked. Only the next eviction or an operator revives it.
    fn log_parked(&self, lease: &Lease, fault: &AttemptError) {
        error!(
            target: ALERT_TARGET, agent_id = %lease.agent, attempt = lease.attempt, error_class = %fault.class,
            error = %fault.message, "update.parked"
        );
        self.parts.metrics.updates.retries_exhausted(1);
    }

    async fn after_store_error(&self, lease: &Lease, error: StoreError, run: RunRecord) -> Outcome {
        if let StoreError::Fenced(fence) = error
            && let Some(fence) = labels::Fence::from_name(&fence.to_string())
        {
            self.parts.metrics.updates.fenced(fence);
        }
        match error {
            StoreError::Fenced(Fence::Lease) => {
                info!(agent_id = %lease.agent, lease_token = lease.token, "update.superseded");
                self.lost_leases.add(lease);
                self.end_superseded(lease, run).await
            }
            // The state has changed, which is no failure: the next claim reads the row again.
            StoreError::Fenced(fence) => {
                info!(agent_id = %lease.agent, %fence, "update.fenced");
                self.give_back(lease).await;
                self.end_superseded(lease, run).await
            }
            StoreError::Contended(reason) => {
                info!(agent_id = %lease.agent, reason, "update.contended");
                self.give_back(lease).await;
                self.end_superseded(lease, run).await
            }
            error => {
                self.parts.metrics.service.db_failed(error.class());
                // An unavailable database comes back. Any other error is a bug, and isn't retried forever.
                let is_unavailable = matches!(error, StoreError::Unavailable(_));
                let class = if is_unavailable { "db" } else { "internal" };
                let fault = AttemptError { class: class.to_owned(), message: error.to_string() };
                let park = !is_unavailable && self.settings.retry.is_last(lease);
                self.fail(lease, fault, Retry { after_ms: 0, park }, run).await
            }
        }
    }
}

/// What happens to a row after a failed attempt.
struct Retry {
    /// The shortest wait, in milliseconds. The backoff may be longer.
    after_ms: i64,
    /// True if the row is parked until an operator or an eviction revives it.
    park: bool,
}

fn pending(exchanges: Vec<StoredExchange>, lo: i64) -> Vec<StoredExchange> {
    exchanges.into_iter().filter(|stored| stored.exchange.exchange > lo).collect()
}
