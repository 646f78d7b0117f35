//! Asking a model about exchanges, and the fallbacks that stand in for it.

use std::sync::atomic::Ordering::SeqCst;

use tracing::{debug, warn};

use super::{LeaseGuard, Worker, bisect::AskReason, condense::CondenseError, reason, request::Subject};
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

/// The place in the chain of the model that is asked first; batches ask this one, too.
pub(super) const FIRST: usize = 0;
/// How often one exchange is asked about again after its answer was cut off, billed to the last token each time.
const CUT_OFF_AGAIN_MAX: u32 = 1;
/// The most agents that are queued at once when the model is back. The reconciler queues the others.
const REVISITS_MAX: i64 = 1_000;

/// A question to a model: one about exchanges.
pub(super) struct Question<'a> {
    pub(super) exchanges: &'a [StoredExchange],
    /// The numbers of those worth asking about.
    pub(super) asked: &'a [i64],
    /// The facts that held before them.
    pub(super) facts: &'a [Fact],
    /// The agent's time zone.
    pub(super) zone: Zone,
    /// The items of the document.
    pub(super) items: &'a [Item],
    /// The key of the answer in the journal.
    pub(super) key: &'a str,
    /// Whether the exchanges have items already, provisional ones that the answer replaces.
    pub(super) is_revisit: bool,
    /// Why.
    pub(super) asking: AskReason,
}

impl Question<'_> {
    fn subject(&self) -> Subject<'_> {
        Subject {
            exchanges: self.exchanges,
            zone: self.zone,
            items: self.items,
            facts: self.facts,
        }
    }

    /// Whether it is about one exchange alone, so that there is no less to ask about.
    fn is_least(&self) -> bool {
        self.asked.len() == 1
    }

    /// Whether the question may go on to that model. Replacing what the built-in summariser wrote by the same is of no
    /// use while any model before it may be back.
    fn may_go_to(&self, next: &dyn ChatModel, may_be_back: bool) -> bool {
        !(self.is_revisit && may_be_back && origin(next) == Origin::Offline)
    }
}

/// A question as a request, and how it was shortened.
struct Wording {
    request: ModelRequest,
    limits: PromptLimits,
    /// How often the model's answer to it was cut off.
    cut_off: u32,
}

/// The answer to a question.
pub(super) struct AskAnswer {
    /// What it says.
    pub(super) answer: Answer,
    /// Which kind of author wrote the items.
    pub(super) origin: Origin,
    /// Whether the built-in summariser stood in for a model that may be back later.
    pub(super) stands_in: bool,
    /// The model that is asked first told it.
    pub(super) is_by_first: bool,
}

impl AskAnswer {
    /// Nobody told of anything: the digests are there to stay.
    pub(super) fn nothing() -> Self {
        Self {
            answer: Answer::default(),
            origin: Origin::Digest,
            stands_in: false,
            is_by_first: false,
        }
    }
}

impl Worker {
    /// Asks the model or, where it can't be asked or can't answer, its fallbacks in turn. The last failure counts.
    pub(super) async fn ask(
        &self,
        guard: &LeaseGuard,
        question: &Question<'_>,
        run: &mut RunRecord,
    ) -> Result<AskAnswer, CondenseError> {
        let first = self.parts.model.as_ref();
        let mut others = first.fallbacks().iter();
        let (mut place, mut model) = (FIRST, first);
        // Whether a model that failed may answer later. One that refused refuses again, and one exchange that is beyond
        // a model stays so: what stands in for its answer is final.
        let mut may_be_back = false;
        loop {
            let known = self
                .failure_memory
                .quarantined(&guard.lease.agent, question.asked, place);
            // The last model of the chain is asked with every attempt, of which there are few.
            let known = known.filter(|_| others.clone().any(|next| question.may_go_to(next.as_ref(), true)));
            let is_known = known.is_some();
            let answer = match known {
                Some(error) => Err(error.into()),
                None => self.ask_one((place, model), guard, question, run).await,
            };
            let failed = match answer {
                Ok(answer) => {
                    let told = self
                        .answered_by(model, answer, may_be_back, guard, question)
                        .await;
                    let is_by_first = place == FIRST;
                    return Ok(AskAnswer { is_by_first, ..told });
                }
                Err(failed) => failed,
            };
            let is_left_out = self.is_left_out(guard, question, &failed);
            if question.asking == AskReason::Divisible && self.may_lie_in_one(&failed) && !is_left_out {
                return Err(failed);
            }
            let is_beyond = is_known || is_left_out || self.is_beyond(place, guard, question, &failed);
            let is_incapable = is_beyond && self.is_incapable(place, &failed);
            may_be_back |= !is_incapable && !failed.is_refusal();
            let is_last = self.settings.retry.is_last(&guard.lease);
            let next = others.next().map(AsRef::as_ref);
            let next = next.filter(|next| question.may_go_to(*next, may_be_back));
            match next.filter(|_| is_beyond || failed.is_for_the_next(is_last)) {
                None if is_incapable && !may_be_back => {
                    return Ok(self.digest_for_good(guard, question, &failed));
                }
                None => return Err(self.classify_failure(guard, question, failed)),
                Some(next) => {
                    warn!(
                        agent_id = %guard.lease.agent, provider = model.provider(), model = model.model(),
                        error_class = failed.class(), error = %failed, next = next.provider(), "llm.fell_back"
                    );
                    (place, model) = (place + 1, next);
                }
            }
        }
    }

    async fn answered_by(
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
            self.failure_memory
                .was_settled(&guard.lease.agent, question.asked);
        }
        AskAnswer {
            answer,
            origin,
            stands_in,
            ..AskAnswer::nothing()
        }
    }

    /// No model can summarise this exchange: its digest stays for good, as that of one which an answer left out.
    fn digest_for_good(
        &self,
        guard: &LeaseGuard,
        question: &Question<'_>,
        failed: &CondenseError,
    ) -> AskAnswer {
        self.parts.metrics.updates.failed(reason(failed.class()));
        self.failure_memory
            .was_settled(&guard.lease.agent, question.asked);
        warn!(
            agent_id = %guard.lease.agent, exchanges = ?question.asked, error_class = failed.class(), error = %failed,
            "update.exchange_given_up"
        );
        AskAnswer::nothing()
    }

    /// Whether the question is beyond the model: it is about one exchange alone, and the failure is due to that
    /// exchange. A failure that was billed is remembered, so that the model isn't asked again and again while the next
    /// one is away.
    fn is_beyond(
        &self,
        place: usize,
        guard: &LeaseGuard,
        question: &Question<'_>,
        failed: &CondenseError,
    ) -> bool {
        let (agent, asked) = (&guard.lease.agent, question.asked);
        let is_to_blame = || self.failure_memory.is_to_blame(agent, asked);
        let may_be_to_blame = failed.may_lie_in_the_question() || self.may_lie_in_one(failed);
        let is_beyond = question.is_least()
            && (failed.is_too_much()
                || failed.is_refusal()
                || failed.may_lie_in_one() && question.asking == AskReason::Suspect
                || may_be_to_blame && is_to_blame());
        if let CondenseError::Llm(error) = failed
            && is_beyond
            && !failed.is_overflow()
        {
            self.failure_memory.quarantine(agent, asked, place, error.clone());
        }
        is_beyond
    }

    /// Whether a model that left those exchanges out before says nothing of use when they are revisited.
    fn is_left_out(&self, guard: &LeaseGuard, question: &Question<'_>, failed: &CondenseError) -> bool {
        let is_useless = matches!(failed, CondenseError::Reply(_) | CondenseError::Coverage(_));
        let failure_memory = &self.failure_memory;
        question.is_revisit && is_useless && failure_memory.has_left_out(&guard.lease.agent, question.asked)
    }

    /// Whether the model can never summarise an exchange that is beyond it: it has answered other questions, so the
    /// fault isn't the model's or its output limit's; and the failure isn't a context overflow, which is due to the
    /// model's small window.
    fn is_incapable(&self, place: usize, failed: &CondenseError) -> bool {
        !failed.is_overflow() && self.failure_memory.has_answered(place)
    }

    /// Remembers what the failure means for the next question, and returns the failure to report. One exchange over
    /// which the provider always fails looks like an outage, which gives the attempt back, for ever if nothing else is
    /// asked. So after some failures of an exchange alone its attempts count. A provider that can't be reached at all
    /// (a refused connection) stays an outage.
    fn classify_failure(
        &self,
        guard: &LeaseGuard,
        question: &Question<'_>,
        failed: CondenseError,
    ) -> CondenseError {
        let (agent, asked) = (&guard.lease.agent, question.asked);
        match failed {
            CondenseError::Llm(LlmError::Transient(fault)) if fault.may_lie_in_the_request() => {
                let is_outage = self.failure_memory.failed(agent, asked, fault.outage.is_some());
                let outage = fault.outage.filter(|_| is_outage);
                LlmError::Transient(TransientFailure { outage, ..fault }).into()
            }
            failed => {
                // Revisited exchanges are divided within the update, since one item may stand for more of them than any
                // portion: a smaller portion doesn't help. After a transient failure (above) it does: one exchange that
                // fails would hold up all the others otherwise.
                if failed.is_too_much() && !question.is_revisit {
                    self.failure_memory.was_too_much(agent, asked);
                } else if question.is_least()
                    && self.may_lie_in_one(&failed)
                    // Else it is known to be the model.
                    && self.failure_memory.may_divide()
                {
                    self.failure_memory.failed(agent, asked, false);
                }
                failed
            }
        }
    }

    /// Remembers that provisional items will have to be condensed again, and queues that once a model has answered.
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
        (place, model): (usize, &dyn ChatModel),
        guard: &LeaseGuard,
        question: &Question<'_>,
        run: &mut RunRecord,
    ) -> Result<Answer, CondenseError> {
        let mut wording = self.wording(&guard.lease.agent, question, self.settings.prompt);
        let mut answer = self.call_about(model, guard, question, &mut wording, run).await?;
        let words = UserWords::of(&wording.request.transcripts);
        let checked = match self.believed(&answer.text, question.asked, &words) {
            Err(fault) if fault.is_worth_asking_again() => {
                wording.request.prompt = wording.request.prompt.again(&fault);
                answer = self.call_about(model, guard, question, &mut wording, run).await?;
                self.believed(&answer.text, question.asked, &words)?
            }
            checked => checked?,
        };
        let checked = self
            .completed(model, guard, question, (checked, &mut answer), run)
            .await?;
        let believed = Answer::from(checked);
        if origin(model) == Origin::Model {
            self.failure_memory
                .was_answered(&guard.lease.agent, question.asked, place);
            self.keep(guard, question.key, &believed, answer).await?;
        }
        Ok(believed)
    }

    /// The answer with what it left out, which is asked about once more, by itself. What is missing then has digests, until it
    /// is revisited.
    async fn completed(
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
        let missing: Vec<StoredExchange> = question.exchanges.iter().filter(is_missing).cloned().collect();
        debug!(agent_id = %guard.lease.agent, exchanges = ?checked.missing, "update.gap_asked_about");
        let subject = Subject {
            exchanges: &missing,
            zone: question.zone,
            items: question.items,
            facts: question.facts,
        };
        let request = self.request(&guard.lease.agent, subject, self.settings.prompt);
        let more = match self.call(model, guard, &request, run).await {
            Ok(more) => more,
            // Whoever ends the update, or the database, ends all of it.
            Err(fault @ (CondenseError::Interrupted(_) | CondenseError::Store(_))) => return Err(fault),
            Err(fault) => {
                debug!(agent_id = %guard.lease.agent, error_class = fault.class(), "update.gap_left");
                return Ok(checked);
            }
        };
        answer.input_tokens += more.input_tokens;
        answer.output_tokens += more.output_tokens;
        let words = UserWords::of(&request.transcripts);
        let completed = match self.believed(&more.text, &checked.missing, &words) {
            Ok(more) => checked.completed_by(more),
            Err(_) => checked,
        };
        self.failure_memory
            .were_left_out(&guard.lease.agent, &completed.missing);
        Ok(completed)
    }

    /// Calls a model until the question isn't too much for it; of one exchange the material is cut.
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
            limits.material_chars_max = half_of(user, limits.material_chars_max);
            debug!(agent_id = %agent, chars = limits.material_chars_max, "update.material_halved");
            *wording = Wording {
                cut_off,
                ..self.wording(agent, question, limits)
            };
        }
    }

    fn wording(&self, agent: &AgentId, question: &Question<'_>, limits: PromptLimits) -> Wording {
        Wording {
            request: self.request(agent, question.subject(), limits),
            limits,
            cut_off: 0,
        }
    }

    /// Journals the parsed and redacted answer, not the model's text: no secret that a model repeats is kept.
    async fn keep(
        &self,
        guard: &LeaseGuard,
        key: &str,
        believed: &Answer,
        answer: ModelAnswer,
    ) -> Result<(), CondenseError> {
        let journalled = JournalledAnswer {
            answer: serde_json::to_string(believed).unwrap_or(answer.text),
            input_tokens: answer.input_tokens,
            output_tokens: answer.output_tokens,
        };
        let (agent, now) = (&guard.lease.agent, self.parts.clock.now());
        Ok(self.parts.store.journal(agent, key, &journalled, now).await?)
    }
}

/// Half of the material's characters, to be the next limit. Characters, not bytes: a Chinese one has three of these.
fn half_of(user: &str, chars_max: usize) -> usize {
    (user.chars().count().min(chars_max) / 2).max(MATERIAL_CHARS_MIN)
}

/// The origin of items that this model writes.
pub(super) fn origin(model: &dyn ChatModel) -> Origin {
    if model.provider() == OFFLINE {
        Origin::Offline
    } else {
        Origin::Model
    }
}

/// The metrics' label for why an update is postponed.
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
        assert_eq!(half_of(&"字".repeat(3_000), 120_000), 1_500);
        assert_eq!(half_of(&"a".repeat(3_000), 2_400), 1_200);
        assert_eq!(half_of("a", 120_000), MATERIAL_CHARS_MIN);
    }
}
