//! Asking: the model, who stands in for it, and what that costs.

use std::{
    pin::pin,
    sync::{PoisonError, atomic::Ordering::SeqCst},
};

use futures::FutureExt as _;
use tracing::{Instrument as _, Span, debug, warn};

use super::{Hold, Interruption, Worker, condense::CondenseError, pieces::Asking, reason, span, trace};
use crate::{
    domain::{
        agent::AgentId,
        price::Usage,
        prompt::PromptLimits,
        reply::Answer,
        spend::{SpendLimit, Spent, day_start, next_day},
        summary::item::{ItemDraft, Origin},
        zone::Zone,
    },
    llm::{ChatModel, Fault, LlmError, ModelAnswer, ModelRequest, Wait, offline::OFFLINE},
    store::{JournalledAnswer, Paused, RunRecord, StoreResult, StoredExchange},
    telemetry::metrics::{
        ProviderTokens,
        labels::{PostponeReason, ProviderErrorClass},
    },
};

/// The place of the model that is asked first, in batches, too.
pub(super) const FIRST: usize = 0;
/// One exchange alone is never told in fewer characters than this.
const MATERIAL_CHARS_MIN: usize = 1_000;
/// One exchange whose answer was cut off is asked about so often once more: each such answer is billed to its last token.
const CUT_OFF_AGAIN_MAX: u32 = 1;
/// Bytes of a prompt per token, where a provider bills a call without saying for how many.
const PROMPT_BYTES_PER_TOKEN: usize = 4;
/// Agents that are woken at once when the model is back. The reconciler wakes the others.
const REVISITS_MAX: i64 = 1_000;

/// What is asked.
pub(super) struct Question<'a> {
    /// The exchanges.
    pub(super) exchanges: &'a [StoredExchange],
    /// The numbers of those worth asking about.
    pub(super) asked: &'a [i64],
    /// Where the agent works.
    pub(super) zone: Zone,
    /// The key of the answer in the journal.
    pub(super) key: &'a str,
    /// They have items already, which stand in for a model's.
    pub(super) is_revisit: bool,
    /// Why.
    pub(super) asking: Asking,
}

impl Question<'_> {
    /// There is no less to ask about.
    fn is_least(&self) -> bool {
        self.asked.len() == 1
    }

    /// Whether it may go on to that model. Replacing what the built-in summariser wrote by the same is of no use while
    /// anybody before it may be back.
    fn may_go_to(&self, next: &dyn ChatModel, may_be_back: bool) -> bool {
        !(self.is_revisit && may_be_back && origin(next) == Origin::Offline)
    }
}

/// A question in words.
struct Wording {
    request: ModelRequest,
    limits: PromptLimits,
    /// How often the answer was cut off.
    cut_off: u32,
}

/// What was answered.
pub(super) struct Told {
    /// The items, by whoever answered.
    pub(super) drafts: Vec<ItemDraft>,
    /// Who that was.
    pub(super) origin: Origin,
    /// The built-in summariser stood in for a model that may be back later.
    pub(super) stands_in: bool,
}

impl Told {
    /// Nobody told of anything: the digests are there to stay.
    pub(super) fn nothing() -> Self {
        Self {
            drafts: Vec::new(),
            origin: Origin::Digest,
            stands_in: false,
        }
    }
}

impl Worker {
    /// Asks the model or, when it can't be asked or can't tell, who comes next. The last one's failure is the question's.
    pub(super) async fn ask(
        &self,
        hold: &Hold,
        question: &Question<'_>,
        run: &mut RunRecord,
    ) -> Result<Told, CondenseError> {
        let first = self.parts.model.as_ref();
        let mut others = first.fallbacks().iter();
        let (mut place, mut model) = (FIRST, first);
        // A model that declined will decline again, and one exchange that is too much for it always will be, as one over
        // which it fails: what stands in for it is there to stay.
        let mut may_be_back = false;
        loop {
            let known = self.portions.beyond(&hold.lease.agent, question.asked, place);
            // Who is asked last is asked with each attempt, of which there are few.
            let known = known.filter(|_| others.clone().any(|next| question.may_go_to(next.as_ref(), true)));
            let is_known = known.is_some();
            let answer = match known {
                Some(error) => Err(error.into()),
                None => self.ask_one((place, model), hold, question, run).await,
            };
            let failed = match answer {
                Ok(drafts) => return Ok(self.told_by(model, drafts, may_be_back, hold, question).await),
                Err(failed) => failed,
            };
            if question.asking == Asking::Divisible && self.may_lie_in_one(&failed) {
                return Err(failed);
            }
            let is_beyond = is_known || self.is_beyond(place, hold, question, &failed);
            let is_hopeless = is_beyond && self.is_hopeless(place, &failed);
            may_be_back |= !is_hopeless && !failed.is_refusal();
            let is_last = self.settings.retry.is_last(&hold.lease);
            let next = others.next().map(AsRef::as_ref);
            let next = next.filter(|next| question.may_go_to(*next, may_be_back));
            match next.filter(|_| is_beyond || failed.is_for_the_next(is_last)) {
                None if is_hopeless && !may_be_back => return Ok(self.given_up(hold, question, &failed)),
                None => return Err(self.weighed(hold, question, failed)),
                Some(next) => {
                    warn!(
                        agent_id = %hold.lease.agent, provider = model.provider(), model = model.model(),
                        error_class = failed.class(), error = %failed, next = next.provider(), "llm.fell_back"
                    );
                    (place, model) = (place + 1, next);
                }
            }
        }
    }

    async fn told_by(
        &self,
        model: &dyn ChatModel,
        drafts: Vec<ItemDraft>,
        may_be_back: bool,
        hold: &Hold,
        question: &Question<'_>,
    ) -> Told {
        let origin = origin(model);
        let stands_in = origin == Origin::Offline && may_be_back;
        self.note_answer(origin, stands_in).await;
        if !stands_in {
            self.portions.was_settled(&hold.lease.agent, question.asked);
        }
        Told {
            drafts,
            origin,
            stands_in,
        }
    }

    /// No model can tell of this exchange: its digest is there to stay, as that of one which an answer left out.
    fn given_up(&self, hold: &Hold, question: &Question<'_>, failed: &CondenseError) -> Told {
        self.parts.metrics.updates.failed(reason(failed.class()));
        self.portions.was_settled(&hold.lease.agent, question.asked);
        warn!(
            agent_id = %hold.lease.agent, exchanges = ?question.asked, error_class = failed.class(), error = %failed,
            "update.exchange_given_up"
        );
        Told::nothing()
    }

    /// Whether the question is beyond the model: there is no less to ask about, and the failure lies in what is asked. What
    /// was billed is remembered, so that nobody pays for it with each look while the next one is away.
    fn is_beyond(&self, place: usize, hold: &Hold, question: &Question<'_>, failed: &CondenseError) -> bool {
        let (agent, asked) = (&hold.lease.agent, question.asked);
        let is_to_blame = || self.portions.is_to_blame(agent, asked);
        let may_be_to_blame = failed.may_lie_in_the_question() || self.may_lie_in_one(failed);
        let is_beyond = question.is_least()
            && (failed.is_too_much()
                || failed.is_refusal()
                || failed.may_lie_in_one() && question.asking == Asking::Suspect
                || may_be_to_blame && is_to_blame());
        if let CondenseError::Llm(error) = failed
            && is_beyond
            && !failed.is_overflow()
        {
            self.portions.was_beyond(agent, asked, place, error.clone());
        }
        is_beyond
    }

    /// Whether the model will never tell of what is beyond it. Where it has told of nothing else, it may be the model, or
    /// how much it may write; and what doesn't fit with hardly a word of it left lies in the window of the model.
    fn is_hopeless(&self, place: usize, failed: &CondenseError) -> bool {
        !failed.is_overflow() && self.portions.has_answered(place)
    }

    /// Remembers what a failure tells of the next question, and returns what it comes to: an exchange over which the
    /// provider fails each time looks like an outage, which gives its attempts back for ever, where nobody else asks. After
    /// some tries alone its attempts count. What can't be reached at all (a refused connection) stays an outage.
    fn weighed(&self, hold: &Hold, question: &Question<'_>, failed: CondenseError) -> CondenseError {
        let (agent, asked) = (&hold.lease.agent, question.asked);
        match failed {
            CondenseError::Llm(LlmError::Transient(fault)) if fault.may_lie_in_the_request() => {
                let is_outage = self.portions.failed(agent, asked, fault.outage.is_some());
                let outage = fault.outage.filter(|_| is_outage);
                LlmError::Transient(Fault { outage, ..fault }).into()
            }
            failed => {
                // What is revisited is divided within the update, since one item may stand for more than any portion: to
                // revisit fewer of them doesn't help. After a failure above it does: one exchange that fails would hold up
                // all the others otherwise.
                if failed.is_too_much() && !question.is_revisit {
                    self.portions.was_too_much(agent, asked);
                } else if question.is_least() && self.may_lie_in_one(&failed) {
                    self.portions.failed(agent, asked, false);
                }
                failed
            }
        }
    }

    /// Remembers that something will have to be condensed again, and sees to it once a model is there.
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
        hold: &Hold,
        question: &Question<'_>,
        run: &mut RunRecord,
    ) -> Result<Vec<ItemDraft>, CondenseError> {
        let mut wording = self.wording(&hold.lease.agent, question, self.settings.prompt);
        let mut answer = self.call_about(model, hold, question, &mut wording, run).await?;
        let drafts = match self.believed(&answer.text, question.asked) {
            Err(fault) if fault.is_worth_asking_again() => {
                wording.request.prompt = wording.request.prompt.again(&fault);
                answer = self.call_about(model, hold, question, &mut wording, run).await?;
                self.believed(&answer.text, question.asked)?
            }
            drafts => drafts?,
        };
        if origin(model) == Origin::Model {
            self.portions
                .was_answered(&hold.lease.agent, question.asked, place);
            self.keep(hold, question.key, &drafts, answer).await?;
        }
        Ok(drafts)
    }

    /// Calls a model until the question isn't too much for it, or can't be less: one exchange can't be divided, but it can
    /// be told in fewer words.
    async fn call_about(
        &self,
        model: &dyn ChatModel,
        hold: &Hold,
        question: &Question<'_>,
        wording: &mut Wording,
        run: &mut RunRecord,
    ) -> Result<ModelAnswer, CondenseError> {
        let agent = &hold.lease.agent;
        loop {
            let failed = match self.call(model, hold, &wording.request, run).await {
                Ok(answer) => return Ok(answer),
                Err(failed) => failed,
            };
            let (mut limits, user) = (wording.limits, &wording.request.prompt.user);
            let cut_off =
                wording.cut_off + u32::from(matches!(failed, CondenseError::Llm(LlmError::Truncated)));
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
            request: self.request(agent, question.exchanges, question.zone, limits),
            limits,
            cut_off: 0,
        }
    }

    /// Journals what is believed, not what was said: no secret that a model repeats is kept.
    async fn keep(
        &self,
        hold: &Hold,
        key: &str,
        drafts: &[ItemDraft],
        answer: ModelAnswer,
    ) -> Result<(), CondenseError> {
        let believed = Answer {
            items: drafts.to_vec(),
        };
        let journalled = JournalledAnswer {
            answer: serde_json::to_string(&believed).unwrap_or(answer.text),
            input_tokens: answer.input_tokens,
            output_tokens: answer.output_tokens,
        };
        let (agent, now) = (&hold.lease.agent, self.parts.clock.now());
        Ok(self.parts.store.journal(agent, key, &journalled, now).await?)
    }

    /// One call, if the day's limits allow it. Whether it is answered or not, it is counted, but for one that wasn't
    /// made.
    pub(super) async fn call(
        &self,
        model: &dyn ChatModel,
        hold: &Hold,
        request: &ModelRequest,
        run: &mut RunRecord,
    ) -> Result<ModelAnswer, CondenseError> {
        let is_model = origin(model) == Origin::Model;
        if is_model {
            self.check_limits(hold, run).await?;
            if let Some(why) = hold.interrupted().now_or_never() {
                return Err(CondenseError::Interrupted(why));
            }
        }
        let asked_at = self.parts.clock.now();
        let traced = if is_model {
            trace::call(model, request)
        } else {
            Span::none()
        };
        // The built-in summariser costs nothing: its answers aren't counted as calls.
        run.model_calls += i64::from(is_model);
        let asking = model.answer(request).instrument(traced.clone());
        let answer = match unless_interrupted(hold, request, asking).await {
            Ok(answer) => answer,
            Err(why) => {
                if is_model {
                    self.given_up_unanswered(model, request, run);
                }
                return Err(CondenseError::Interrupted(why));
            }
        };
        trace::answered(&traced, &answer);
        if let Err(error @ LlmError::Waiting { .. }) = answer {
            run.model_calls -= i64::from(is_model);
            return Err(error.into());
        }
        run.provider = Some(model.provider().to_owned());
        run.model = Some(model.model().to_owned());
        let took = span(self.parts.clock.now().since_ms(asked_at));
        let metrics = &self.parts.metrics.provider;
        let tokens = tokens(&answer, request, self.settings.thinking_reserve_tokens);
        match &answer {
            Ok(_) => metrics.answered(model.provider(), model.model(), tokens, took),
            Err(error) => {
                let class = reason(error.class());
                let class = ProviderErrorClass::from_reason(class).unwrap_or(ProviderErrorClass::Server);
                metrics.failed(model.provider(), model.model(), class, took);
                if error.outage().is_some() {
                    warn!(agent_id = %hold.lease.agent, provider = model.provider(), model = model.model(), %error, "llm.outage");
                }
            }
        }
        if is_model {
            self.bill(model, tokens, run);
        }
        Ok(answer?)
    }

    /// What was spent today must leave something for another call, what this run spent included.
    async fn check_limits(&self, hold: &Hold, run: &RunRecord) -> Result<(), CondenseError> {
        match self.used_up(&hold.lease.agent, run).await? {
            None => Ok(()),
            Some(paused) => Err(CondenseError::Paused(paused)),
        }
    }

    /// Whether a limit of the day is used up, what this run spent included; and until when.
    pub(super) async fn used_up(&self, agent: &AgentId, run: &RunRecord) -> StoreResult<Option<Paused>> {
        let now = self.parts.clock.now();
        let spending = self.parts.store.spending(agent, day_start(now)).await?;
        let so_far = Spent {
            calls: run.model_calls,
            tokens: run.input_tokens.saturating_add(run.output_tokens),
            cost_microusd: run.cost_microusd.unwrap_or(0),
            unpriced_calls: 0,
        };
        let limits = &self.settings.spend;
        let (by_agent, by_all) = (spending.agent.plus(so_far), spending.all.plus(so_far));
        let limit = limits
            .used_up(&spending.settings, by_agent, by_all)
            .or_else(|| self.lacks_price(agent, limits.are_in_dollars(&spending.settings)));
        Ok(limit.map(|limit| Paused {
            limit,
            until: next_day(now),
        }))
    }

    /// Nothing is asked in the dark: under a limit in dollars every model that may be asked needs a price.
    fn lacks_price(&self, agent: &AgentId, is_in_dollars: bool) -> Option<SpendLimit> {
        let first = &self.parts.model;
        let mut all = std::iter::once(first).chain(first.fallbacks());
        let unpriced = all
            .find(|model| {
                origin(model.as_ref()) == Origin::Model && self.settings.prices.of(model.model()).is_none()
            })
            .filter(|_| is_in_dollars)?;
        warn!(agent_id = %agent, model = unpriced.model(), cure = SpendLimit::Price.key(), "spend.price_needed");
        Some(SpendLimit::Price)
    }

    /// Nobody waits any longer for a call, but the provider is at work on it; unless it wasn't sent yet.
    fn given_up_unanswered(&self, model: &dyn ChatModel, request: &ModelRequest, run: &mut RunRecord) {
        if request.held.is_held() {
            run.model_calls -= 1;
            return;
        }
        run.provider = Some(model.provider().to_owned());
        run.model = Some(model.model().to_owned());
        self.bill(model, prompt_tokens(request), run);
    }

    fn bill(&self, model: &dyn ChatModel, tokens: ProviderTokens, run: &mut RunRecord) {
        let usage = usage_of(tokens);
        run.input_tokens += tokens.input + tokens.cache_read + tokens.cache_write;
        run.output_tokens += tokens.output;
        let (provider, name) = (model.provider(), model.model());
        let cost = self
            .settings
            .prices
            .of(name)
            .map(|price| price.cost_microusd(usage));
        run.cost_microusd = run
            .cost_microusd
            .zip(cost)
            .map(|(sum, cost)| sum.saturating_add(cost));
        match cost {
            Some(cost) => self.parts.metrics.provider.cost(provider, name, cost),
            None if self.is_new_to_us(name) => {
                warn!(provider, model = name, "spend.price_unknown");
            }
            None => {}
        }
    }

    fn is_new_to_us(&self, model: &str) -> bool {
        let mut unpriced = self.unpriced.lock().unwrap_or_else(PoisonError::into_inner);
        unpriced.insert(model.to_owned())
    }
}

/// What a call comes to, as long as anybody waits for it.
async fn unless_interrupted(
    hold: &Hold,
    request: &ModelRequest,
    asking: impl Future<Output = Result<ModelAnswer, LlmError>> + Send,
) -> Result<Result<ModelAnswer, LlmError>, Interruption> {
    let mut asking = pin!(asking);
    tokio::select! {
        // Who stops makes room within the limits: what they held would be sent in the same moment.
        biased;
        why = hold.interrupted() => {
            // An answer that is there was paid for.
            let is_there = if request.held.is_held() { None } else { asking.now_or_never() };
            is_there.ok_or(why)
        }
        answer = &mut asking => Ok(answer),
    }
}

/// So many characters of material are half of what was told. They are no bytes, of which a Chinese one has three.
fn half_of(user: &str, chars_max: usize) -> usize {
    (user.chars().count().min(chars_max) / 2).max(MATERIAL_CHARS_MIN)
}

/// Who a model's items are by.
fn origin(model: &dyn ChatModel) -> Origin {
    if model.provider() == OFFLINE {
        Origin::Offline
    } else {
        Origin::Model
    }
}

/// What an answer was made of, by what it costs.
pub(super) fn tokens_of(answer: &ModelAnswer) -> ProviderTokens {
    counted(answer.usage())
}

fn counted(usage: Usage) -> ProviderTokens {
    ProviderTokens {
        input: usage.input,
        cache_read: usage.cached_input,
        cache_write: usage.cache_write,
        output: usage.output,
    }
}

/// The same for the price table.
pub(super) fn usage_of(tokens: ProviderTokens) -> Usage {
    Usage {
        input: tokens.input,
        cached_input: tokens.cache_read,
        cache_write: tokens.cache_write,
        output: tokens.output,
    }
}

/// What a call took. Of one that was billed for nothing of use often no figures are told: then what was sent counts, and of
/// an answer that was cut off the most it can have had. How much a model had written when nobody waited any longer nobody
/// knows, but the provider bills what it worked on, the prompt at least.
fn tokens(
    answer: &Result<ModelAnswer, LlmError>,
    request: &ModelRequest,
    thinking_tokens_max: i64,
) -> ProviderTokens {
    let error = match answer {
        Ok(answer) => return tokens_of(answer),
        Err(error) => error,
    };
    match error.usage() {
        Some(usage) => counted(usage),
        None if error.is_billed() => ProviderTokens {
            output: if matches!(error, LlmError::Truncated) {
                request.output_tokens_max.saturating_add(thinking_tokens_max)
            } else {
                0
            },
            ..prompt_tokens(request)
        },
        None => ProviderTokens::default(),
    }
}

/// What was sent, as nearly as its length tells.
fn prompt_tokens(request: &ModelRequest) -> ProviderTokens {
    let bytes = request.prompt.system.len() + request.prompt.user.len();
    ProviderTokens {
        input: i64::try_from(bytes / PROMPT_BYTES_PER_TOKEN).unwrap_or(i64::MAX),
        ..ProviderTokens::default()
    }
}

/// The metrics' name for why work is given back.
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
