//! Makes one call of a model within the daily limits, and accounts for its cost.

use std::{pin::pin, sync::PoisonError};

use futures::FutureExt as _;
use tracing::{Instrument as _, Span, warn};

use super::{Interruption, LeaseGuard, Worker, ask::origin, error::CondenseError, reason, span, trace};
use crate::call_log::LoggedCall;
use recapd_core::domain::{
    agent::AgentId,
    number::i64_or_max,
    price::Usage,
    prompt::Prompt,
    spend::{SpendLimit, SpendTotal, day_start, next_day},
    summary::item::Origin,
    time::Timestamp,
};
use recapd_llm::{ChatModel, LlmError, ModelAnswer, ModelRequest};
use recapd_store::{RunRecord, SpendPause, StoreResult};
use recapd_telemetry::metrics::{ProviderTokens, labels::ProviderErrorClass};

/// How many bytes of a prompt make one token, for billed calls whose tokens the provider doesn't report.
const PROMPT_BYTES_PER_TOKEN: usize = 4;

impl Worker {
    /// Makes one call, if the daily limits allow it. Counts the call even without an answer, unless it was never sent.
    pub(super) async fn call(
        &self,
        model: &dyn ChatModel,
        guard: &LeaseGuard,
        request: &ModelRequest,
        run: &mut RunRecord,
    ) -> Result<ModelAnswer, CondenseError> {
        let is_model = origin(model) == Origin::Model;
        if is_model {
            self.check_limits(guard, run).await?;
            if let Some(why) = guard.interrupted().now_or_never() {
                return Err(CondenseError::Interrupted(why));
            }
        }
        let asked_at = self.parts.clock.now();
        let traced = if is_model { trace::call(model, request) } else { Span::none() };
        // Answers of the built-in summariser cost nothing and aren't counted as calls.
        run.model_calls += i64::from(is_model);
        let asking = model.answer(request).instrument(traced.clone());
        let answer = match unless_interrupted(guard, request, asking).await {
            Ok(answer) => answer,
            Err(why) => {
                if is_model {
                    self.account_for_abandoned(model, request, run);
                }
                return Err(CondenseError::Interrupted(why));
            }
        };
        trace::record_answer(&traced, &answer);
        if let Err(error @ LlmError::Waiting { .. }) = answer {
            run.model_calls -= i64::from(is_model);
            return Err(error.into());
        }
        if is_model {
            self.log_call(guard, request, asked_at, &answer);
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
                metrics.record_reason(model.provider(), model.model(), error.to_string());
                if error.outage().is_some() {
                    warn!(agent_id = %guard.lease.agent, provider = model.provider(), model = model.model(), %error, "llm.outage");
                }
            }
        }
        if is_model {
            let before = spent_by(run);
            self.bill(model, tokens, run);
            // Only the cost of this call is noted. The run's totals may contain a batch's answer, too, whose cost the store counts
            // until the run is recorded.
            self.heartbeat.note_spent(&guard.lease, cost_of_call(before, spent_by(run)));
        }
        Ok(answer?)
    }

    fn log_call(
        &self,
        guard: &LeaseGuard,
        request: &ModelRequest,
        asked_at: Timestamp,
        answer: &Result<ModelAnswer, LlmError>,
    ) {
        let Prompt { system, user, .. } = &request.prompt;
        let answer = answer.as_ref().map_err(ToString::to_string);
        self.parts.calls.note(LoggedCall {
            agent: guard.lease.agent.clone(),
            asked_at,
            prompt: format!("{system}\n\n{user}"),
            answer: answer.map(|answer| self.parts.redactor.redact(&answer.text).into_owned()),
        });
    }

    /// Fails if a daily limit is used up. Counts what this run has spent, too.
    async fn check_limits(&self, guard: &LeaseGuard, run: &RunRecord) -> Result<(), CondenseError> {
        match self.used_up_limit(&guard.lease.agent, run).await? {
            None => Ok(()),
            Some(paused) => Err(CondenseError::Paused(paused)),
        }
    }

    /// Returns the daily limit that is used up, and until when it pauses updates. Counts this run and concurrent runs, too.
    pub(super) async fn used_up_limit(
        &self,
        agent: &AgentId,
        run: &RunRecord,
    ) -> StoreResult<Option<SpendPause>> {
        let now = self.parts.clock.now();
        let spending = self.parts.store.spending(agent, day_start(now)).await?;
        // Read after the store's figures. In the other order, spending that is recorded in between would be counted twice and
        // pause updates until midnight.
        let others_spending = self.heartbeat.spent_by_others(agent);
        let spent = spent_by(run);
        let limits = &self.settings.spend;
        let agent_total = spending.agent.plus(spent);
        let total = spending.all.plus(spent).plus(others_spending);
        let limit = limits
            .used_up(&spending.settings, agent_total, total)
            .or_else(|| self.lacks_price(agent, limits.has_dollar_limit(&spending.settings)));
        Ok(limit.map(|limit| SpendPause { limit, until: next_day(now) }))
    }

    /// Returns [`SpendLimit::Price`] if there is a limit in dollars and the price of a model is unknown, so that the limit can't
    /// be kept.
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

    /// Accounts for a call that was abandoned before its answer, because the provider bills it, too. A call that still waited for
    /// a rate limit wasn't sent, and isn't counted.
    fn account_for_abandoned(&self, model: &dyn ChatModel, request: &ModelRequest, run: &mut RunRecord) {
        if request.limit_wait.is_waiting() {
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
        let cost = self.settings.prices.of(name).map(|price| price.cost_microusd(usage));
        run.cost_microusd = run.cost_microusd.zip(cost).map(|(sum, cost)| sum.saturating_add(cost));
        match cost {
            Some(cost) => self.parts.metrics.provider.cost(provider, name, cost),
            None if self.is_first_unpriced(name) => {
                warn!(provider, model = name, "spend.price_unknown");
            }
            None => {}
        }
    }

    /// Returns true at the first call of a model whose price is unknown, so that the warning is logged once.
    fn is_first_unpriced(&self, model: &str) -> bool {
        let mut unpriced = self.unpriced.lock().unwrap_or_else(PoisonError::into_inner);
        unpriced.insert(model.to_owned())
    }
}

fn spent_by(run: &RunRecord) -> SpendTotal {
    SpendTotal {
        calls: run.model_calls,
        tokens: run.input_tokens.saturating_add(run.output_tokens),
        cost_microusd: run.cost_microusd.unwrap_or(0),
        unpriced_calls: 0,
    }
}

/// Returns the cost of one call, from a run's totals before and after it. `before` already counts the call itself.
fn cost_of_call(before: SpendTotal, after: SpendTotal) -> SpendTotal {
    SpendTotal {
        calls: 1,
        tokens: after.tokens.saturating_sub(before.tokens),
        cost_microusd: after.cost_microusd.saturating_sub(before.cost_microusd),
        unpriced_calls: 0,
    }
}

/// Waits for a call's result, unless the update is interrupted first.
async fn unless_interrupted(
    guard: &LeaseGuard,
    request: &ModelRequest,
    asking: impl Future<Output = Result<ModelAnswer, LlmError>> + Send,
) -> Result<Result<ModelAnswer, LlmError>, Interruption> {
    let mut asking = pin!(asking);
    tokio::select! {
        // The interruption is checked first. When the daemon stops, the first call that ends frees its share of the rate limits,
        // and another call that waited for them would be sent although it must stop, too.
        biased;
        why = guard.interrupted() => {
            // An answer that has arrived is paid for, so it is used.
            let answer = if request.limit_wait.is_waiting() { None } else { asking.now_or_never() };
            answer.ok_or(why)
        }
        answer = &mut asking => Ok(answer),
    }
}

/// Returns the tokens of an answer, by price class.
pub(super) fn tokens_of(answer: &ModelAnswer) -> ProviderTokens {
    provider_tokens(answer.usage())
}

fn provider_tokens(usage: Usage) -> ProviderTokens {
    ProviderTokens {
        input: usage.input,
        cache_read: usage.cached_input,
        cache_write: usage.cache_write,
        output: usage.output,
    }
}

pub(super) fn usage_of(tokens: ProviderTokens) -> Usage {
    Usage {
        input: tokens.input,
        cached_input: tokens.cache_read,
        cache_write: tokens.cache_write,
        output: tokens.output,
    }
}

/// Returns the tokens to bill for a call. Failed calls are often billed, but report no tokens. Then the prompt's tokens are
/// estimated, and for an answer that was cut off the full output limit is assumed.
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
        Some(usage) => provider_tokens(usage),
        None if error.is_billed() => ProviderTokens {
            output: if matches!(error, LlmError::Truncated { .. }) {
                request.output_tokens_max.saturating_add(thinking_tokens_max)
            } else {
                0
            },
            ..prompt_tokens(request)
        },
        None => ProviderTokens::default(),
    }
}

fn prompt_tokens(request: &ModelRequest) -> ProviderTokens {
    let bytes = request.prompt.system.len() + request.prompt.user.len();
    ProviderTokens { input: i64_or_max(bytes / PROMPT_BYTES_PER_TOKEN), ..ProviderTokens::default() }
}
