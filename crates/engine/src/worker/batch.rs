//! Decides which questions may wait for a batch, and whether a batch's answer fits the material.
//!
//! Only ordinary work waits: first attempts that nobody made urgent and that haven't waited too long. A question that returns
//! unanswered is asked directly. While a question is at the provider, its row has no lease. If an urgent wake makes the row
//! visible, the update asks directly, and the batch's answer is dropped as late.

use std::sync::Arc;

use tracing::{debug, warn};

use super::{
    Worker,
    ask::FIRST,
    condensed::{Condensation, Gaps},
    material::as_of,
    request::Subject,
};
use recapd_core::domain::{
    batch::cost_in_batch_microusd, demand::UserWords, price::Usage, summary::item::Origin, time::Timestamp,
    work::Lease, zone::Zone,
};
use recapd_llm::{ModelRequest, batch::BatchModel};
use recapd_store::{
    ExchangeQuery, Material, RunRecord, SpendPause, StoreResult, StoredExchange,
    batch::{BatchQuestion, BatchStore, BatchedAnswer},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSettings {
    /// How long a question waits for others before its batch is sent.
    pub gather_ms: i64,
    pub requests_max: i64,
    pub bytes_max: i64,
    pub open_max: i64,
    /// How long exchanges may wait for a batch's answer before the model is asked directly.
    pub max_wait_ms: i64,
}

#[derive(Clone)]
pub struct BatchServices {
    pub store: Arc<dyn BatchStore>,
    pub model: Arc<dyn BatchModel>,
    pub settings: BatchSettings,
}

/// How an update gets its items.
pub(super) enum Route {
    /// The model is asked now.
    Direct(Box<Material>),
    /// A batch will be asked: the question is stored, and the lease given back.
    Deferred,
    /// No model is asked today, because a daily limit is used up.
    Paused(Box<Material>, SpendPause),
    /// A batch has answered: the part of the material that the answer is about, and what was condensed of that part.
    Answered(Box<Material>, Condensation),
}

impl Worker {
    /// Decides how the material is condensed. For a batch, stores the question and gives the lease back.
    pub(super) async fn route(
        &self,
        lease: &Lease,
        material: Material,
        run: &mut RunRecord,
    ) -> StoreResult<Route> {
        let Some(batching) = &self.batching else {
            return Ok(Route::Direct(Box::new(material)));
        };
        let answer = batching.store.batched_answer(&lease.agent).await?;
        if let Some(answer) = answer
            && let Some((part, condensed)) = self.fitting_answer(lease, &answer, &material).await?
        {
            self.failure_memory.was_answered_in_batch(&lease.agent, &answer.exchanges, FIRST);
            if !answer.is_accounted {
                account(answer, run);
            }
            return Ok(Route::Answered(Box::new(part), condensed));
        }
        // Exchanges that are too old for the document need no model.
        if self.are_past(&material, &material.exchanges, as_of(&material, run)) {
            return Ok(Route::Direct(Box::new(material)));
        }
        if let Some(paused) = self.used_up_limit(&lease.agent, run).await? {
            return Ok(Route::Paused(Box::new(material), paused));
        }
        // A run that has made paid calls isn't deferred, because a waiting row has no run record for their cost.
        let as_of = as_of(&material, run);
        if run.model_calls == 0 && self.defer(batching, lease, &material, as_of).await? {
            return Ok(Route::Deferred);
        }
        let now = self.parts.clock.now();
        if batching.store.withdraw_question(&lease.agent, now).await? {
            self.parts.metrics.batches.withdrawn(1);
        }
        Ok(Route::Direct(Box::new(material)))
    }

    /// Returns the condensed answer of a batch, with the material that it is about. Returns `None` if that material has changed.
    async fn fitting_answer(
        &self,
        lease: &Lease,
        batched: &BatchedAnswer,
        material: &Material,
    ) -> StoreResult<Option<(Material, Condensation)>> {
        // The answer is paid for, so it is used even if it covers more exchanges than a question may have by now.
        let full_material = if material.exchanges.len() < batched.exchanges.len() {
            Some(self.parts.store.material(lease, self.settings.limits).await?)
        } else {
            None
        };
        let part =
            self.material_of_answer(lease, batched, full_material.as_ref().unwrap_or(material)).await?;
        Ok(part.and_then(|part| {
            let user_words = UserWords::of(&self.transcripts(&part.exchanges, Zone::UTC));
            let checked = self.parse_answer(&batched.answer.answer, &batched.exchanges, &user_words).ok()?;
            self.failure_memory.were_left_out(&lease.agent, &checked.missing);
            let gaps = Gaps::of(&part);
            let condensed = Condensation::of(checked.into(), &part.exchanges, Origin::Model, gaps).ok()?;
            Some((part, condensed))
        }))
    }

    /// Returns the material that a batch's answer is about: a part of `material`, or the items that it revisits. More exchanges
    /// may be pending by now. Returns `None` if the summary has changed.
    async fn material_of_answer(
        &self,
        lease: &Lease,
        batched: &BatchedAnswer,
        material: &Material,
    ) -> StoreResult<Option<Material>> {
        let (Some(from), Some(through)) = (batched.exchanges.first(), batched.exchanges.last()) else {
            return Ok(None);
        };
        if batched.revisited.is_empty() || !material.revisited.is_empty() {
            return Ok(part_of_answer(batched, material, &material.exchanges));
        }
        let query = ExchangeQuery { from: *from, through: *through, limit: through - from + 1, bytes_max: 0 };
        let exchanges = self.parts.store.exchanges(&lease.agent, query).await?;
        let exchanges: Vec<StoredExchange> = exchanges
            .into_iter()
            .filter(|stored| batched.exchanges.contains(&stored.exchange.exchange))
            .collect();
        Ok(part_of_answer(batched, material, &exchanges))
    }

    /// Stores the question about `material` for a batch and gives the lease back. Returns false if the question may not wait for
    /// a batch.
    async fn defer(
        &self,
        batching: &BatchServices,
        lease: &Lease,
        material: &Material,
        as_of: Timestamp,
    ) -> StoreResult<bool> {
        let now = self.parts.clock.now();
        let until = material.pending_since.unwrap_or(now).plus_ms(batching.settings.max_wait_ms);
        if lease.attempt > 1 || lease.crashes > 0 || until <= now {
            return Ok(false);
        }
        let Some(question) = self.question(batching, lease, material, as_of) else {
            return Ok(false);
        };
        let exchanges = question.exchanges.len();
        let is_deferred = batching.store.defer(lease, question, until, now).await?;
        if is_deferred {
            self.heartbeat.remove(lease);
            self.parts.metrics.batches.deferred();
            debug!(agent_id = %lease.agent, exchanges, %until, "update.deferred");
        }
        Ok(is_deferred)
    }

    /// Builds the question about the material, or about the pending exchanges of one section. Returns `None` if the question
    /// doesn't fit into a batch, or there is nothing to ask.
    fn question(
        &self,
        batching: &BatchServices,
        lease: &Lease,
        material: &Material,
        as_of: Timestamp,
    ) -> Option<BatchQuestion> {
        let zone = self.policy(material).ageing.zone();
        let section_length = self.in_one_section(material, &material.exchanges, as_of);
        let (section, hi) = match material.exchanges.split_at(section_length) {
            (section @ [.., last], [_, ..]) if material.revisited.is_empty() => {
                (section, last.exchange.exchange)
            }
            _ => (material.exchanges.as_slice(), material.hi),
        };
        if self.are_past(material, section, as_of) {
            return None;
        }
        let subject = Subject { exchanges: section, zone, items: &material.items, facts: &material.facts };
        let request = self.request(&lease.agent, subject, self.settings.prompt);
        if request.transcripts.is_empty() {
            return None;
        }
        let body = batching
            .model
            .body(&request)
            .inspect_err(|error| warn!(agent_id = %lease.agent, %error, "batch.unwordable"))
            .ok()?;
        if i64::try_from(body.len()).is_ok_and(|bytes| bytes > batching.settings.bytes_max) {
            return None;
        }
        let exchanges = section.iter().map(|stored| stored.exchange.exchange).collect::<Vec<i64>>();
        let expected = self.expected_usage(&request);
        let price = self.settings.prices.of(batching.model.model());
        Some(BatchQuestion {
            key: self.piece_key(lease, material, &exchanges),
            version: material.version,
            lo: material.lo,
            hi,
            exchanges,
            revisited: material.revisited.clone(),
            provider: batching.model.provider().to_owned(),
            model: batching.model.model().to_owned(),
            body,
            tokens: expected.input.saturating_add(expected.output),
            cost_microusd: price.map(|price| cost_in_batch_microusd(price.cost_microusd(expected))),
        })
    }

    /// Estimates the highest number of tokens that a question may cost: its prompt and the longest answer.
    fn expected_usage(&self, request: &ModelRequest) -> Usage {
        let counter = &self.parts.counter;
        let longest = request.output_tokens_max;
        Usage {
            input: counter.count(&request.prompt.system) + counter.count(&request.prompt.user),
            output: longest.saturating_add(self.settings.thinking_reserve_tokens),
            ..Usage::default()
        }
    }
}

/// Returns `material` with only the exchanges of the batch's question. Returns `None` if they or the summary's version have
/// changed.
fn part_of_answer(
    batched: &BatchedAnswer,
    material: &Material,
    exchanges: &[StoredExchange],
) -> Option<Material> {
    if (batched.version, batched.lo) != (material.version, material.lo) {
        return None;
    }
    let exchanges = exchanges.get(..batched.exchanges.len())?.to_vec();
    let numbers = exchanges.iter().map(|stored| stored.exchange.exchange);
    numbers.eq(batched.exchanges.iter().copied()).then(|| Material {
        hi: batched.hi,
        exchanges,
        revisited: batched.revisited.clone(),
        ..material.clone()
    })
}

/// Adds the answer's tokens and cost to the run.
fn account(answer: BatchedAnswer, run: &mut RunRecord) {
    run.provider = Some(answer.provider);
    run.model = Some(answer.model);
    run.model_calls += 1;
    run.input_tokens += answer.answer.input_tokens;
    run.output_tokens += answer.answer.output_tokens;
    let cost = run.cost_microusd.zip(answer.cost_microusd);
    run.cost_microusd = cost.map(|(sum, cost)| sum.saturating_add(cost));
    run.batched = Some(answer.key);
}

#[cfg(test)]
mod tests {
    use super::*;
    use recapd_core::domain::summary::calendar::AgentTime;
    use recapd_store::JournalledAnswer;

    fn material(version: i64, lo: i64) -> Material {
        Material {
            version,
            lo,
            hi: lo,
            exchanges: Vec::new(),
            items: Vec::new(),
            facts: Vec::new(),
            revisited: Vec::new(),
            takes_all: true,
            fixed: Vec::new(),
            time: AgentTime::default(),
            as_of: None,
            pending_since: Some(Timestamp(0)),
            next_ageing_at: None,
        }
    }

    fn answer(exchanges: &[i64]) -> BatchedAnswer {
        BatchedAnswer {
            key: "k".to_owned(),
            version: 3,
            lo: 5,
            hi: 7,
            exchanges: exchanges.to_vec(),
            revisited: Vec::new(),
            provider: "p".to_owned(),
            model: "m".to_owned(),
            answer: JournalledAnswer { answer: String::new(), input_tokens: 10, output_tokens: 2 },
            cost_microusd: None,
            is_accounted: false,
        }
    }

    #[test]
    fn an_answer_fits_only_the_version_and_exchanges_of_its_question() {
        assert_eq!(part_of_answer(&answer(&[]), &material(3, 5), &[]).map(|part| part.hi), Some(7));
        for (version, lo) in [(4, 5), (3, 6)] {
            assert!(part_of_answer(&answer(&[]), &material(version, lo), &[]).is_none());
        }
        assert!(
            part_of_answer(&answer(&[6]), &material(3, 5), &[]).is_none(),
            "its exchange isn't pending any more"
        );
    }

    #[test]
    fn a_run_records_the_cost_of_its_answer() {
        let started = || RunRecord { cost_microusd: Some(0), ..RunRecord::default() };
        let (mut run, mut unpriced) = (started(), started());
        let priced = BatchedAnswer { cost_microusd: Some(7), ..answer(&[]) };
        account(priced, &mut run);
        assert_eq!((run.model_calls, run.input_tokens, run.output_tokens), (1, 10, 2));
        account(answer(&[]), &mut unpriced);
        assert_eq!((run.cost_microusd, unpriced.cost_microusd), (Some(7), None));
        assert_eq!(run.batched.as_deref(), Some("k"));
    }
}
