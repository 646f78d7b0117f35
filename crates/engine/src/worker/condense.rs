//! Condensing: turns pending exchanges into items, from a model's checked answer or from digests.

use sha2::{Digest as _, Sha256};
use tracing::debug;

use super::{
    LeaseGuard, Worker,
    ask::{AskAnswer, FIRST, Question},
    bisect::{AskReason, Bisection},
    condensed::{Condensation, Gaps},
    error::CondenseError,
    material::{as_of, numbers, rows, worth_asking},
};
use recapd_core::domain::{
    demand::UserWords,
    exchange::Exchange,
    number::usize_or_max,
    reply::{self, Answer, CheckedReply, ReplyError},
    summary::{
        coverage::digest_items,
        item::{Item, Origin},
    },
    text::hexadecimal,
    time::Timestamp,
    work::Lease,
    zone::Zone,
};
use recapd_llm::offline;
use recapd_store::{Material, MaterialLimits, RunRecord, StoreResult, StoredExchange};

/// Must change with the prompt or the schema, so that answers journalled under an older one aren't used.
const PROMPT_VERSION: &str = "4";

/// Keeps the first `exchanges` of the pending material. Doesn't change `takes_all`: the other exchanges are new and may wait for
/// more.
fn up_to(mut material: Material, exchanges: Option<usize>) -> Material {
    if let Some(exchanges) = exchanges.filter(|exchanges| *exchanges < material.exchanges.len()) {
        material.exchanges.truncate(exchanges);
        let last = material.exchanges.last();
        material.hi = last.map_or(material.lo, |last| last.exchange.exchange);
    }
    material
}

/// Keeps only those revisited items that cover one of the exchanges in `numbers`, with all their exchanges.
fn revisiting(material: Material, numbers: &[i64]) -> Material {
    let items: Vec<&Item> = material
        .items
        .iter()
        .filter(|item| material.revisited.contains(&item.item))
        .filter(|item| numbers.iter().any(|exchange| item.covers(*exchange)))
        .collect();
    let revisited: Vec<i64> = items.iter().map(|item| item.item).collect();
    let exchanges: Vec<StoredExchange> = material
        .exchanges
        .into_iter()
        .filter(|stored| items.iter().any(|item| item.covers(stored.exchange.exchange)))
        .collect();
    Material { exchanges, revisited, ..material }
}

impl Worker {
    /// Makes provisional digests of the exchanges. They are condensed again when a model works.
    pub(super) fn digests(&self, material: &Material) -> Vec<Item> {
        let rows: Vec<Exchange> = rows(&material.exchanges)
            .into_iter()
            .map(|row| Exchange {
                // Redacted again by today's rules, because the stored headline was redacted by earlier rules.
                headline: row.headline.redacted(&self.parts.redactor),
                ..row
            })
            .collect();
        digest_items(&rows)
    }

    /// Makes final digests of the exchanges.
    pub(super) fn without_model(&self, material: &Material) -> Condensation {
        let items = self.digests(material).into_iter().map(|item| Item { provisional: false, ..item });
        Condensation { items: items.collect(), facts: Vec::new() }
    }

    /// Asks the model about the exchanges of `material`. If it gives no useful answer, or revisited items are too much for it,
    /// asks again about fewer exchanges at a time. Each exchange ends up in exactly one item.
    pub(super) async fn condense(
        &self,
        guard: &LeaseGuard,
        material: &Material,
        limits: MaterialLimits,
        run: &mut RunRecord,
    ) -> Result<Condensation, CondenseError> {
        let mut pieces = Bisection::of(&material.exchanges);
        let condensed = self.condense_pieces(guard, material, limits, &mut pieces, run).await;
        let failed = condensed.as_ref().err();
        if pieces.has_searched_in_vain() && failed.is_none_or(CondenseError::may_be_due_to_one_exchange) {
            let exchanges = numbers(&material.exchanges);
            self.failure_memory.was_divided_in_vain(&guard.lease.agent, &exchanges);
        }
        condensed
    }

    async fn condense_pieces(
        &self,
        guard: &LeaseGuard,
        material: &Material,
        limits: MaterialLimits,
        pieces: &mut Bisection<'_>,
        run: &mut RunRecord,
    ) -> Result<Condensation, CondenseError> {
        let mut condensed = Condensation::default();
        let portion = usize_or_max(limits.exchanges_max).max(1);
        while let Some(rest) = pieces.take() {
            let at_once =
                self.count_at_once(&guard.lease, material, (rest, portion), as_of(material, run)).await?;
            let (piece, rest) = rest.split_at(at_once);
            pieces.put_back(rest);
            let may_search = pieces.may_search(piece) && self.failure_memory.may_divide();
            let asking = if may_search { AskReason::Divisible } else { AskReason::Whole };
            let fault = match self.condense_piece(guard, material, (piece, asking), run).await {
                Ok((condensation, is_by_first)) => {
                    pieces.record_answer(is_by_first);
                    condensed.add(condensation);
                    continue;
                }
                Err(fault) => fault,
            };
            let may_be_due_to_one_exchange = self.may_be_due_to_one_exchange(&fault);
            let is_divided = if may_search && may_be_due_to_one_exchange {
                pieces.search(piece)
            } else {
                // Pending exchanges are divided into smaller updates instead.
                fault.is_too_much() && !material.revisited.is_empty() && pieces.divide(piece)
            };
            if is_divided {
                debug!(
                    agent_id = %guard.lease.agent, exchanges = piece.len(), error_class = fault.class(),
                    "update.question_halved"
                );
            } else if may_be_due_to_one_exchange && self.failure_memory.may_divide() {
                pieces.suspect(piece, fault)?;
            } else {
                return Err(fault);
            }
        }
        let suspects = self.condense_suspects(guard, material, pieces, run).await?;
        condensed.add(suspects);
        condensed.items.sort_by_key(|item| item.ranges.first().map(|range| range.first));
        Ok(condensed)
    }

    /// Asks once more about exchanges that failed alone, after others were answered. An exchange that fails again is the cause.
    async fn condense_suspects(
        &self,
        guard: &LeaseGuard,
        material: &Material,
        pieces: &mut Bisection<'_>,
        run: &mut RunRecord,
    ) -> Result<Condensation, CondenseError> {
        let mut condensed = Condensation::default();
        for (piece, failed) in pieces.suspects() {
            if !pieces.is_answered() {
                return Err(failed);
            }
            let suspect = (piece, AskReason::Suspect);
            condensed.add(self.condense_piece(guard, material, suspect, run).await?.0);
        }
        Ok(condensed)
    }

    /// Like [`CondenseError::may_be_due_to_one_exchange`], but returns true after an invalid answer only if the first model has
    /// ever answered. Before its first answer, the model or its settings are the cause.
    pub(super) fn may_be_due_to_one_exchange(&self, failed: &CondenseError) -> bool {
        failed.is_refusal() || failed.may_be_due_to_one_exchange() && self.failure_memory.has_answered(FIRST)
    }

    /// Fits the material, which was read with these `limits`, to answers in the journal, because these are paid for.
    pub(super) async fn with_answered(
        &self,
        lease: &Lease,
        material: Material,
        limits: MaterialLimits,
        run: &RunRecord,
    ) -> StoreResult<Material> {
        if material.revisited.is_empty() {
            self.up_to_answered(lease, material, limits, run).await
        } else if limits == self.settings.limits {
            Ok(material)
        } else {
            self.revisited_or_answered(lease, material).await
        }
    }

    /// Cuts the pending material to the exchanges of an answer in the journal. If more exchanges have left the window since, a
    /// question about all would pay for the answered part again; the rest is left to the next update. After a failure the portion
    /// may be smaller than the answer: then the larger material is read.
    async fn up_to_answered(
        &self,
        lease: &Lease,
        material: Material,
        limits: MaterialLimits,
        run: &RunRecord,
    ) -> StoreResult<Material> {
        let all = self.settings.limits;
        // A single exchange can't be cut, and the built-in summariser's answers aren't journalled.
        if limits == all && material.exchanges.len() < 2 || self.is_offline() {
            return Ok(material);
        }
        if limits == all {
            let answered_count = self.count_answered(lease, &material, as_of(&material, run)).await?;
            return Ok(up_to(material, answered_count));
        }
        let full_material = self.parts.store.material(lease, all).await?;
        Ok(match self.count_answered(lease, &full_material, as_of(&full_material, run)).await? {
            // If nothing is pending any more, `full_material` consists of revisited exchanges, which have other answers.
            answered_count @ Some(_) if full_material.revisited.is_empty() => {
                up_to(full_material, answered_count)
            }
            _ => material,
        })
    }

    /// Returns how many of the material's first exchanges the longest answer in the journal covers. Counts exchanges before it
    /// that are too old to be asked about.
    async fn count_answered(
        &self,
        lease: &Lease,
        material: &Material,
        as_of: Timestamp,
    ) -> StoreResult<Option<usize>> {
        let exchanges = material.exchanges.as_slice();
        let (oldest, _) = exchanges.split_at(self.in_one_section(material, exchanges, as_of));
        let are_past = self.are_past(material, oldest, as_of);
        let past = if are_past { oldest.len() } else { 0 };
        let (_, rest) = exchanges.split_at(past);
        let answered_count = self.longest_answered(lease, material, &numbers(rest)).await?;
        Ok(answered_count.map(|answered_count| past + answered_count))
    }

    /// Returns the revisited material, or the material of other items if the journal has answers about these: after a failure
    /// fewer items are revisited at once, and the answers about the others would be paid for again.
    async fn revisited_or_answered(&self, lease: &Lease, material: Material) -> StoreResult<Material> {
        let all = self.settings.limits;
        // Read with the limits that the answered questions had, and in their order: an item that was rewritten since (by a
        // forgetting, say) is revisited last.
        let full_material = self.parts.store.material(lease, all).await?;
        let mut answered_numbers = numbers(&full_material.exchanges);
        let mut count = 0;
        while let Some(more) =
            self.longest_answered(lease, &full_material, answered_numbers.split_at(count).1).await?
        {
            count += more;
        }
        answered_numbers.truncate(count);
        let numbers_to_ask = numbers(&material.exchanges);
        if answered_numbers.iter().all(|exchange| numbers_to_ask.contains(exchange)) {
            return Ok(material);
        }
        let answered_material = revisiting(full_material, &answered_numbers);
        // It isn't used if it contains an exchange that failed alone, because this exchange would delay the others, answered or not.
        let fails =
            self.failure_memory.has_failed_alone(&lease.agent, &numbers(&answered_material.exchanges));
        // If exchanges have become pending, the material has no revisited items.
        let is_better = !fails && !answered_material.revisited.is_empty();
        Ok(if is_better { answered_material } else { material })
    }

    /// Returns how many of the next exchanges to ask about at once: those of one section, within the portion. If the journal has
    /// an answer, takes that answer's exchanges, because portions and sections change over time, and other pieces would be
    /// paid for again.
    async fn count_at_once(
        &self,
        lease: &Lease,
        material: &Material,
        (rest, portion): (&[StoredExchange], usize),
        as_of: Timestamp,
    ) -> StoreResult<usize> {
        let section_length = self.in_one_section(material, rest, as_of).min(portion);
        // Pending exchanges mostly come in batches of one portion, and a single exchange is asked about alone.
        if section_length == rest.len() && material.revisited.is_empty() || rest.len() == 1 {
            return Ok(rest.len());
        }
        // Looked up for each piece: the first may have no answer, because no model could summarise it, while a later one has an
        // answer.
        let longest = self.longest_answered(lease, material, &numbers(rest)).await?;
        Ok(longest.unwrap_or(section_length))
    }

    /// Returns how many of the first exchanges the longest answer in the journal covers.
    async fn longest_answered(
        &self,
        lease: &Lease,
        material: &Material,
        exchanges: &[i64],
    ) -> StoreResult<Option<usize>> {
        // One query for all keys, because there may be a thousand.
        let beginnings = (1..=exchanges.len()).map(|count| exchanges.split_at(count).0);
        let keys: Vec<String> =
            beginnings.map(|beginning| self.piece_key(lease, material, beginning)).collect();
        let journalled = self.parts.store.journalled_among(&lease.agent, &keys).await?;
        let longest = keys.iter().rposition(|key| journalled.contains(key));
        Ok(longest.map(|index| index + 1))
    }

    /// Asks the model about a piece, unless it has nothing to condense or is too old for the document. Uses an answer that was
    /// paid for before a crash. Also returns whether the first model answered.
    async fn condense_piece(
        &self,
        guard: &LeaseGuard,
        material: &Material,
        (exchanges, asking): (&[StoredExchange], AskReason),
        run: &mut RunRecord,
    ) -> Result<(Condensation, bool), CondenseError> {
        let (all, numbers) = (numbers(exchanges), worth_asking(exchanges));
        let lease = &guard.lease;
        let key = self.piece_key(lease, material, &all);
        let answer = if numbers.is_empty() || self.are_past(material, exchanges, as_of(material, run)) {
            AskAnswer::nothing()
        } else if let Some(answer) = self.journalled(lease, &key, exchanges).await? {
            AskAnswer { answer, origin: Origin::Model, stands_in: false, is_by_first: true }
        } else {
            let question = Question {
                exchanges,
                numbers: &numbers,
                facts: &material.facts,
                zone: self.policy(material).ageing.zone(),
                items: &material.items,
                key: &key,
                is_revisit: !material.revisited.is_empty(),
                asking,
            };
            self.ask(guard, &question, run).await?
        };
        let mut condensed = Condensation::of(answer.answer, exchanges, answer.origin, Gaps::of(material))?;
        if answer.stands_in {
            condensed.items.iter_mut().for_each(|item| item.provisional = true);
        }
        Ok((condensed, answer.is_by_first))
    }

    /// Returns the journal's answer about the exchanges, if it is valid. An answer that today's rules reject would fail every
    /// attempt, so the model is asked again.
    async fn journalled(
        &self,
        lease: &Lease,
        key: &str,
        exchanges: &[StoredExchange],
    ) -> StoreResult<Option<Answer>> {
        let Some(journalled) = self.parts.store.journalled(&lease.agent, key).await? else {
            return Ok(None);
        };
        let user_words = UserWords::of(&self.transcripts(exchanges, Zone::UTC));
        let checked = self.parse_answer(&journalled.answer, &worth_asking(exchanges), &user_words);
        Ok(checked.ok().map(Answer::from))
    }

    /// Parses and redacts the answer, and checks it against `exchanges` and the user's words there.
    pub(super) fn parse_answer(
        &self,
        answer: &str,
        exchanges: &[i64],
        user_words: &UserWords,
    ) -> Result<CheckedReply, ReplyError> {
        reply::parse_with_words(answer, exchanges, user_words, &self.parts.redactor)
    }

    /// Returns true if the model is the built-in summariser. It costs nothing, and its answers are neither counted as calls nor
    /// journalled.
    pub(super) fn is_offline(&self) -> bool {
        self.parts.model.provider() == offline::OFFLINE
    }

    /// Returns the journal key of the question about the exchanges. It contains their numbers, because the watermarks alone don't
    /// identify revisited exchanges.
    pub(super) fn piece_key(&self, lease: &Lease, material: &Material, exchanges: &[i64]) -> String {
        let numbers: Vec<String> = exchanges.iter().map(i64::to_string).collect();
        self.journal_key(lease, material, &numbers.join(","))
    }

    /// Returns the journal key of a question. After a crash the same question has the same key, whatever else is pending.
    pub(super) fn journal_key(&self, lease: &Lease, material: &Material, question_text: &str) -> String {
        let (model, Material { version, lo, .. }) = (&self.parts.model, material);
        let question = [
            PROMPT_VERSION,
            model.provider(),
            model.model(),
            lease.agent.as_str(),
            &version.to_string(),
            &lo.to_string(),
            question_text,
        ];
        hexadecimal(&Sha256::digest(question.join("\n")))
    }
}
