//! Asks a model about exchanges, and asks its fallbacks if it fails.

use std::sync::atomic::Ordering::SeqCst;

use tracing::{debug, warn};

use super::{LeaseGuard, Worker, bisect::AskReason, error::CondenseError, reason, request::Subject};
use recapd_core::domain::{
    agent::AgentId,
    demand::UserWords,
    prompt::{MATERIAL_CHARS_MIN, PromptLimits},
    reply::{Answer, CheckedReply},
    summary::{
        fact::Fact,
        item::{Item, Origin},
    },
    zone::Zone,
};
use recapd_llm::{ChatModel, LlmError, ModelAnswer, ModelRequest, TransientFailure, Wait, offline::OFFLINE};
use recapd_store::{JournalledAnswer, RunRecord, StoredExchange};
use recapd_telemetry::metrics::labels::PostponeReason;

/// The position of the first model in the chain. Batches use this model, too.
pub(super) const FIRST: usize = 0;
/// How often one exchange is asked about again after its answer was cut off. Each try is billed in full.
const CUT_OFF_AGAIN_MAX: u32 = 1;
/// Limits how many agents are queued at once when the model works again. The reconciler queues the others.
const REVISITS_MAX: i64 = 1_000;

pub(super) struct Question<'a> {
    pub(super) exchanges: &'a [StoredExchange],
    /// The numbers of the exchanges that are worth asking about.
    pub(super) numbers: &'a [i64],
    /// The facts that held before the exchanges.
    pub(super) facts: &'a [Fact],
    pub(super) zone: Zone,
    /// The items of the document.
    pub(super) items: &'a [Item],
    /// The key of the answer in the journal.
    pub(super) key: &'a str,
    /// True if the exchanges have provisional items, which the answer will replace.
    pub(super) is_revisit: bool,
    pub(super) asking: AskReason,
}

impl Question<'_> {
    fn subject(&self) -> Subject<'_> {
        Subject { exchanges: self.exchanges, zone: self.zone, items: self.items, facts: self.facts }
    }

    /// Returns true if the question is about a single exchange and so can't be divided.
    fn is_least(&self) -> bool {
        self.numbers.len() == 1
    }

    /// Returns true if the model `next` may be asked. It is useless to replace the built-in summariser's items with the same items
    /// while a better model may work again soon.
    fn may_go_to(&self, next: &dyn ChatModel, may_be_back: bool) -> bool {
        !(self.is_revisit && may_be_back && origin(next) == Origin::Offline)
    }
}

/// The request for a question, and how often it was shortened.
struct Wording {
    request: ModelRequest,
    limits: PromptLimits,
    /// How often the model's answer to the question was cut off.
    cut_off: u32,
}

pub(super) struct AskAnswer {
    pub(super) answer: Answer,
    /// The kind of author of the items.
    pub(super) origin: Origin,
    /// True if the built-in summariser replaced a model that may work again.
    pub(super) stands_in: bool,
    /// True if the first model of the chain answered.
    pub(super) is_by_first: bool,
}

impl AskAnswer {
    /// Returns an answer without items: the digests are final.
    pub(super) fn nothing() -> Self {
        Self { answer: Answer::default(), origin: Origin::Digest, stands_in: false, is_by_first: false }
    }
}

impl Worker {
    /// Asks the model. If it can't be asked or can't answer, asks its fallbacks in turn. Returns the last failure.
    pub(super) async fn ask(
        &self,
        guard: &LeaseGuard,
        question: &Question<'_>,
        run: &mut RunRecord,
    ) -> Result<AskAnswer, CondenseError> {
        let first = self.parts.model.as_ref();
        let mut fallbacks = first.fallbacks().iter();
        let (mut position, mut model) = (FIRST, first);
        // True if a model that failed may answer later. It won't after a refusal, or if it can't summarise the exchange; then the
        // answer of its fallback is final.
        let mut may_be_back = false;
        loop {
            let quarantined = self.failure_memory.quarantined(&guard.lease.agent, question.numbers, position);
            // If no other model can be asked, this one is asked about a quarantined exchange, too. There are few attempts.
            let quarantined =
                quarantined.filter(|_| fallbacks.clone().any(|next| question.may_go_to(next.as_ref(), true)));
            let is_quarantined = quarantined.is_some();
            let answer = match quarantined {
                Some(error) => Err(error.into()),
                None => self.ask_one((position, model), guard, question, run).await,
            };
            let failed = match answer {
                Ok(answer) => {
                    let answer = self.record_answer(model, answer, may_be_back, guard, question).await;
                    let is_by_first = position == FIRST;
                    return Ok(AskAnswer { is_by_first, ..answer });
                }
                Err(failed) => failed,
            };
            let is_left_out = self.is_left_out(guard, question, &failed);
            if question.asking == AskReason::Divisible
                && self.may_be_due_to_one_exchange(&failed)
                && !is_left_out
            {
                return Err(failed);
            }
            // True if this model can't answer because of the exchange.
            let is_beyond = is_quarantined
                || is_left_out
                || self.is_exchange_to_blame(position, guard, question, &failed);
            let is_incapable = is_beyond && self.is_incapable(position, &failed);
            may_be_back |= !is_incapable && !failed.is_refusal();
            let is_last = self.settings.retry.is_last(&guard.lease);
            let next = fallbacks.next().map(AsRef::as_ref);
            let next = next.filter(|next| question.may_go_to(*next, may_be_back));
            match next.filter(|_| is_beyond || failed.is_for_next_model(is_last)) {
                None if is_incapable && !may_be_back => {
                    return Ok(self.quarantined_answer(guard, question, &failed));
                }
                None => return Err(self.classify_failure(guard, question, failed)),
                Some(next) => {
                    warn!(
                        agent_id = %guard.lease.agent, provider = model.provider(), model = model.model(),
                        error_class = failed.class(), error = %failed, next = next.provider(), "llm.fell_back"
                    );
                    (position, model) = (position + 1, next);
                }
            }
        }
    }

    async fn record_answer(
        &self,
        model: &dyn ChatModel,
        answer: Answer,
        may_be_back: bool,
        guard: &LeaseGuard,
        question: &Question<'_>,
    ) -> AskAnswer {
        let origin = origin(model);
        let stands_in = origin == Origin::Offline && may_be_back;
        self.note_answer(origin, stands_in).await;
        if !stands_in {
            self.failure_memory.was_settled(&guard.lease.agent, question.numbers);
        }
        AskAnswer { answer, origin, stands_in, ..AskAnswer::nothing() }
    }

    /// Quarantines an exchange that no model can summarise: it keeps its digest for good, as after an answer that left it out.
    fn quarantined_answer(
        &self,
        guard: &LeaseGuard,
        question: &Question<'_>,
        failed: &CondenseError,
    ) -> AskAnswer {
        self.parts.metrics.updates.failed(reason(failed.class()));
        self.failure_memory.was_settled(&guard.lease.agent, question.numbers);
        warn!(
            agent_id = %guard.lease.agent, exchanges = ?question.numbers, error_class = failed.class(), error = %failed,
            "update.exchange_given_up"
        );
        AskAnswer::nothing()
    }

    /// Returns true if the model can't answer because of the exchange: the question is about one exchange alone, and that
    /// exchange caused the failure. Puts an exchange with a billed failure into quarantine, so that this model isn't asked about
    /// it again while the next one is unavailable.
    fn is_exchange_to_blame(
        &self,
        position: usize,
        guard: &LeaseGuard,
        question: &Question<'_>,
        failed: &CondenseError,
    ) -> bool {
        let (agent, exchanges) = (&guard.lease.agent, question.numbers);
        let has_failed_often = || self.failure_memory.is_to_blame(agent, exchanges);
        let may_be_to_blame = failed.may_be_due_to_question() || self.may_be_due_to_one_exchange(failed);
        let is_to_blame = question.is_least()
            && (failed.is_too_much()
                || failed.is_refusal()
                || failed.may_be_due_to_one_exchange() && question.asking == AskReason::Suspect
                || may_be_to_blame && has_failed_often());
        if let CondenseError::Llm(error) = failed
            && is_to_blame
            && !failed.is_overflow()
        {
            self.failure_memory.quarantine(agent, exchanges, position, error.clone());
        }
        is_to_blame
    }

    /// Returns true if a model that left the exchanges out earlier gave a useless answer when they were revisited.
    fn is_left_out(&self, guard: &LeaseGuard, question: &Question<'_>, failed: &CondenseError) -> bool {
        let is_useless = matches!(failed, CondenseError::Reply(_) | CondenseError::Coverage(_));
        let failure_memory = &self.failure_memory;
        question.is_revisit && is_useless && failure_memory.has_left_out(&guard.lease.agent, question.numbers)
    }

    /// Returns true if the model will never be able to summarise an exchange that it couldn't answer about. It has answered other
    /// questions, so neither the model nor its output limit is the cause; and the failure is no context overflow, which a larger
    /// window would solve.
    fn is_incapable(&self, position: usize, failed: &CondenseError) -> bool {
        !failed.is_overflow() && self.failure_memory.has_answered(position)
    }

    /// Remembers what the failure means for the next question, and returns the failure to report. A provider that always fails
    /// over one exchange looks like an outage, and during an outage no attempt counts. If nothing else is asked, the exchange
    /// would be retried forever. So after some failures of an exchange alone its attempts count. A refused connection always
    /// counts as an outage.
    fn classify_failure(
        &self,
        guard: &LeaseGuard,
        question: &Question<'_>,
        failed: CondenseError,
    ) -> CondenseError {
        let (agent, exchanges) = (&guard.lease.agent, question.numbers);
        match failed {
            CondenseError::Llm(LlmError::Transient(fault)) if fault.may_be_due_to_request() => {
                let is_outage = self.failure_memory.failed(agent, exchanges, fault.outage.is_some());
                let outage = fault.outage.filter(|_| is_outage);
                LlmError::Transient(TransientFailure { outage, ..fault }).into()
            }
            failed => {
                // Revisited exchanges are divided within the update, because one item may replace more of them than any portion
                // has. After a temporary failure (above) a smaller portion does help: one bad exchange would delay all others.
                if failed.is_too_much() && !question.is_revisit {
                    self.failure_memory.was_too_much(agent, exchanges);
                } else if question.is_least()
                    && self.may_be_due_to_one_exchange(&failed)
                    // After divisions in vain the model is the cause, not the exchange.
                    && self.failure_memory.may_divide()
                {
                    self.failure_memory.failed(agent, exchanges, false);
                }
                failed
            }
        }
    }

    /// Remembers that the built-in summariser replaced a model. Once a model answers, queues the provisional items to be
    /// condensed again.
    async fn note_answer(&self, origin: Origin, stands_in: bool) {
        if stands_in {
            self.owes_revisits.store(true, SeqCst);
        } else if origin == Origin::Model && self.owes_revisits.swap(false, SeqCst) {
            let now = self.parts.clock.now();
            match self.parts.store.enqueue_revisits(now, REVISITS_MAX).await {
                Ok(agents) => {
                    debug!(agents, "update.revisits_queued");
                    self.parts.notices.wake_queue();
                }
                Err(error) => {
                    self.owes_revisits.store(true, SeqCst);
                    self.parts.metrics.service.db_failed(error.class());
                    warn!(%error, "update.revisits_not_queued");
                }
            }
        }
    }

    async fn ask_one(
        &self,
        (position, model): (usize, &dyn ChatModel),
        guard: &LeaseGuard,
        question: &Question<'_>,
        run: &mut RunRecord,
    ) -> Result<Answer, CondenseError> {
        let mut wording = self.wording(&guard.lease.agent, question, self.settings.prompt);
        let mut answer = self.call_about(model, guard, question, &mut wording, run).await?;
        let user_words = UserWords::of(&wording.request.transcripts);
        let checked = match self.parse_answer(&answer.text, question.numbers, &user_words) {
            Err(fault) if fault.is_worth_asking_again() => {
                wording.request.prompt = wording.request.prompt.again(&fault);
                answer = self.call_about(model, guard, question, &mut wording, run).await?;
                self.parse_answer(&answer.text, question.numbers, &user_words)?
            }
            checked => checked?,
        };
        let checked = self.ask_about_left_out(model, guard, question, (checked, &mut answer), run).await?;
        let parsed = Answer::from(checked);
        if origin(model) == Origin::Model {
            self.failure_memory.was_answered(&guard.lease.agent, question.numbers, position);
            self.keep(guard, question.key, &parsed, answer).await?;
        }
        Ok(parsed)
    }

    /// Asks once more about the exchanges that the answer left out. Exchanges that are still missing get digests until they are
    /// revisited.
    async fn ask_about_left_out(
        &self,
        model: &dyn ChatModel,
        guard: &LeaseGuard,
        question: &Question<'_>,
        (checked, answer): (CheckedReply, &mut ModelAnswer),
        run: &mut RunRecord,
    ) -> Result<CheckedReply, CondenseError> {
        if checked.missing.is_empty() {
            return Ok(checked);
        }
        let is_missing = |stored: &&StoredExchange| checked.missing.contains(&stored.exchange.exchange);
        let missing_exchanges: Vec<StoredExchange> =
            question.exchanges.iter().filter(is_missing).cloned().collect();
        debug!(agent_id = %guard.lease.agent, exchanges = ?checked.missing, "update.gap_asked_about");
        let subject = Subject {
            exchanges: &missing_exchanges,
            zone: question.zone,
            items: question.items,
            facts: question.facts,
        };
        let request = self.request(&guard.lease.agent, subject, self.settings.prompt);
        let more = match self.call(model, guard, &request, run).await {
            Ok(more) => more,
            // An interruption or a failing database ends the whole update.
            Err(fault @ (CondenseError::Interrupted(_) | CondenseError::Store(_))) => return Err(fault),
            Err(fault) => {
                debug!(agent_id = %guard.lease.agent, error_class = fault.class(), "update.gap_left");
                return Ok(checked);
            }
        };
        answer.input_tokens += more.input_tokens;
        answer.output_tokens += more.output_tokens;
        let user_words = UserWords::of(&request.transcripts);
        let completed = match self.parse_answer(&more.text, &checked.missing, &user_words) {
            Ok(more) => checked.completed_by(more),
            Err(_) => checked,
        };
        self.failure_memory.were_left_out(&guard.lease.agent, &completed.missing);
        Ok(completed)
    }

    /// Calls a model, and shortens the material if the question is too long for it. Only a question about one exchange can be
    /// shortened.
    async fn call_about(
        &self,
        model: &dyn ChatModel,
        guard: &LeaseGuard,
        question: &Question<'_>,
        wording: &mut Wording,
        run: &mut RunRecord,
    ) -> Result<ModelAnswer, CondenseError> {
        let agent = &guard.lease.agent;
        loop {
            let failed = match self.call(model, guard, &wording.request, run).await {
                Ok(answer) => return Ok(answer),
                Err(failed) => failed,
            };
            let (mut limits, user) = (wording.limits, &wording.request.prompt.user);
            let is_cut_off = matches!(failed, CondenseError::Llm(LlmError::Truncated { .. }));
            let cut_off = wording.cut_off + u32::from(is_cut_off);
            let can_be_shorter = question.is_least() && limits.material_chars_max > MATERIAL_CHARS_MIN;
            if !failed.is_too_much() || !can_be_shorter || cut_off > CUT_OFF_AGAIN_MAX {
                return Err(failed);
            }
            limits.material_chars_max = half_length(user, limits.material_chars_max);
            debug!(agent_id = %agent, chars = limits.material_chars_max, "update.material_halved");
            *wording = Wording { cut_off, ..self.wording(agent, question, limits) };
        }
    }

    fn wording(&self, agent: &AgentId, question: &Question<'_>, limits: PromptLimits) -> Wording {
        Wording { request: self.request(agent, question.subject(), limits), limits, cut_off: 0 }
    }

    /// Journals the parsed and redacted answer instead of the model's text, so that a secret that a model repeats isn't stored.
    async fn keep(
        &self,
        guard: &LeaseGuard,
        key: &str,
        parsed: &Answer,
        answer: ModelAnswer,
    ) -> Result<(), CondenseError> {
        let journalled = JournalledAnswer {
            answer: serde_json::to_string(parsed).unwrap_or(answer.text),
            input_tokens: answer.input_tokens,
            output_tokens: answer.output_tokens,
        };
        let (agent, now) = (&guard.lease.agent, self.parts.clock.now());
        Ok(self.parts.store.journal(agent, key, &journalled, now).await?)
    }
}

/// Returns half of the material's length as the next limit. Counts characters, not bytes, because a Chinese character has three
/// bytes.
fn half_length(user: &str, chars_max: usize) -> usize {
    (user.chars().count().min(chars_max) / 2).max(MATERIAL_CHARS_MIN)
}

pub(super) fn origin(model: &dyn ChatModel) -> Origin {
    if model.provider() == OFFLINE { Origin::Offline } else { Origin::Model }
}

pub(super) fn wait_label(why: Wait) -> PostponeReason {
    match why {
        Wait::Places => PostponeReason::Places,
        Wait::Rate => PostponeReason::Rate,
        Wait::Circuit => PostponeReason::Circuit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_is_counted_in_characters() {
        assert_eq!(half_length(&"字".repeat(3_000), 120_000), 1_500);
        assert_eq!(half_length(&"a".repeat(3_000), 2_400), 1_200);
        assert_eq!(half_length("a", 120_000), MATERIAL_CHARS_MIN);
    }
}
