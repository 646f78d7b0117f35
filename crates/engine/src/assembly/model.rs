//! Builds the models that write summaries from `[model]` and `[fallback]`.

use std::sync::Arc;

use secrecy::SecretString;

use recapd_config::{self as config, Config, FallbackMode, ModelConfig, ModelMode, RecallConfig};
use recapd_core::domain::{number::usize_or_max, price::Prices, time::Timestamp};
use recapd_llm::{
    ChatModel, LlmError,
    anthropic::{Anthropic, AnthropicModel},
    batch::BatchModel,
    breaker::{Breaker, BreakerListener, BreakerSettings, CircuitState},
    chain::Chain,
    gemini::{Gemini, GeminiModel},
    http::HttpSettings,
    limits::{LimitedModel, MinuteLimits},
    offline::OfflineModel,
    ollama::{Ollama, OllamaModel},
    openai::{OpenAiChat, OpenAiModel, OutputLimitField},
    remote::{Effort, RemoteSettings, embeddings::RemoteEmbeddings},
    responses::{Responses, ResponsesModel},
};
use recapd_platform::clock::Clock;
use recapd_telemetry::metrics::Metrics;

/// Limits the time to connect to a provider, within `model.timeout_ms`: whoever takes longer is unreachable.
const CONNECT_TIMEOUT_MS: u64 = 5_000;
/// How many tokens a prompt has besides its material: about 900 of instructions, and the fences.
const INSTRUCTIONS_TOKENS: i64 = 2_000;
/// A context's size is a multiple of this.
const CONTEXT_STEP_TOKENS: i64 = 1_024;

pub struct Models {
    pub model: Arc<dyn ChatModel>,
    /// The model for batches, if the configuration wants them.
    pub batch: Option<Arc<dyn BatchModel>>,
}

impl Models {
    fn direct(model: impl ChatModel + 'static) -> Self {
        Self { model: Arc::new(model), batch: None }
    }

    /// Uses one model for direct calls and for batches: after direct calls it knows which fields the server refuses. A batch
    /// itself would show that only hours later.
    fn direct_and_batched<M: ChatModel + BatchModel + 'static>(model: M) -> Self {
        let model = Arc::new(model);
        Self { model: Arc::<M>::clone(&model), batch: Some(model) }
    }
}

/// Returns the model that the configuration names. Local providers need no `api_key`.
///
/// # Errors
/// When the client can't be built.
pub fn model(config: &Config, api_key: Option<SecretString>) -> Result<Arc<dyn ChatModel>, LlmError> {
    Ok(configured_models(config, api_key)?.model)
}

fn configured_models(config: &Config, api_key: Option<SecretString>) -> Result<Models, LlmError> {
    let remote = remote_settings(&config.model, api_key);
    Ok(match config.model.mode {
        ModelMode::Offline => Models::direct(OfflineModel),
        ModelMode::Anthropic => Models::direct_and_batched(AnthropicModel::new(Anthropic, remote)?),
        ModelMode::OpenAi => Models::direct_and_batched(OpenAiModel::new(openai(&config.model), remote)?),
        ModelMode::OpenAiResponses => Models::direct_and_batched(ResponsesModel::new(Responses, remote)?),
        ModelMode::Gemini => Models::direct_and_batched(GeminiModel::new(Gemini, remote)?),
        ModelMode::Ollama => {
            let num_ctx = num_ctx(config);
            Models::direct(OllamaModel::new(Ollama { num_ctx }, remote)?)
        }
    })
}

/// Returns the configured model with its limits, circuit breaker and fallbacks, and the model for batches. `keys` are those of the model
/// and of its fallback.
///
/// # Errors
/// When a client can't be built.
pub fn models(
    config: &Config,
    keys: [Option<SecretString>; 2],
    clock: &Arc<dyn Clock>,
) -> Result<Models, LlmError> {
    let [key, second_key] = keys;
    let Models { model, batch } = configured_models(config, key)?;
    let first = with_limits_and_breaker(config, model, clock);
    Ok(Models {
        model: with_fallbacks(config, first, second_key, clock)?,
        batch: batch.filter(|_| config.model.batch),
    })
}

/// Adds the configured fallbacks to `first`.
fn with_fallbacks(
    config: &Config,
    first: Arc<dyn ChatModel>,
    second_key: Option<SecretString>,
    clock: &Arc<dyn Clock>,
) -> Result<Arc<dyn ChatModel>, LlmError> {
    if config.model.mode == ModelMode::Offline || config.fallback.mode == FallbackMode::None {
        return Ok(first);
    }
    let mut fallbacks = Vec::new();
    if let Some(second) = config.fallback.model(&config.model) {
        let config = Config { model: second, ..config.clone() };
        fallbacks.push(with_limits_and_breaker(&config, model(&config, second_key)?, clock));
    }
    fallbacks.push(Arc::new(OfflineModel));
    Ok(Arc::new(Chain::new(first, fallbacks)))
}

/// Wraps `model` in its rate limits and a circuit breaker.
fn with_limits_and_breaker(
    config: &Config,
    model: Arc<dyn ChatModel>,
    clock: &Arc<dyn Clock>,
) -> Arc<dyn ChatModel> {
    let settings = &config.model;
    if settings.mode == ModelMode::Offline {
        return model;
    }
    let limits = MinuteLimits { requests: settings.requests_per_minute, tokens: settings.tokens_per_minute };
    let limited = LimitedModel::new(model, settings.concurrency, limits, Arc::clone(clock));
    let breaker = BreakerSettings { failures: settings.breaker_failures, rest_ms: settings.breaker_rest_ms };
    Arc::new(Breaker::new(Arc::new(limited), breaker, Arc::clone(clock)))
}

/// Returns metrics that know the models and their prices and follow their circuit breakers.
pub(super) fn metrics(
    config: &Config,
    prices: &Prices,
    model: &Arc<dyn ChatModel>,
    now: Timestamp,
) -> Metrics {
    let metrics = Metrics::new(now, &[]);
    introduce(&metrics, config, prices, model);
    metrics
}

/// Gives `metrics` the models, their prices, the spending limit and the longest wait for a batch, and makes `metrics` follow the
/// circuit breakers.
pub(super) fn introduce(metrics: &Metrics, config: &Config, prices: &Prices, model: &Arc<dyn ChatModel>) {
    for model in std::iter::once(model).chain(model.fallbacks()) {
        let (provider, name) = (model.provider(), model.model());
        metrics.provider.know(provider, name);
        if prices.of(name).is_some() {
            metrics.provider.cost(provider, name, 0);
        }
    }
    metrics.provider.limit(config.spend.limits().all);
    metrics.batches.may_wait(config.batch_wait_ms());
    let listener: BreakerListener = Arc::new({
        let metrics = metrics.clone();
        move |provider: &str, model: &str, state| {
            let open_until = match state {
                CircuitState::Closed => None,
                CircuitState::Open { until } => Some(until),
                // A trial call is in progress. The circuit counts as open until the call is answered.
                CircuitState::HalfOpen => return,
            };
            metrics.provider.circuit(provider, model, open_until);
        }
    });
    model.watch(&listener);
}

fn openai(config: &ModelConfig) -> OpenAiChat {
    OpenAiChat {
        output_limit_field: match config.output_limit_field {
            config::OutputLimitField::Auto => OutputLimitField::Auto,
            config::OutputLimitField::MaxTokens => OutputLimitField::MaxTokens,
            config::OutputLimitField::MaxCompletionTokens => OutputLimitField::MaxCompletionTokens,
        },
    }
}

fn remote_settings(model: &ModelConfig, api_key: Option<SecretString>) -> RemoteSettings {
    RemoteSettings {
        base_url: model.address().to_owned(),
        model: model.name().to_owned(),
        api_key,
        http: HttpSettings {
            timeout_ms: model.timeout_ms,
            connect_timeout_ms: CONNECT_TIMEOUT_MS.min(model.timeout_ms),
            proxy_url: Some(model.proxy.clone()).filter(|proxy| !proxy.is_empty()),
        },
        effort: match model.effort {
            config::Effort::Default => Effort::Default,
            config::Effort::Low => Effort::Low,
            config::Effort::Medium => Effort::Medium,
            config::Effort::High => Effort::High,
        },
        thinking_reserve_tokens: model.thinking_reserve_tokens,
    }
}

/// Returns the embedding model that the configuration names, without calling it.
///
/// # Errors
/// When the client can't be built.
pub fn embeddings(
    config: &RecallConfig,
    api_key: Option<SecretString>,
) -> Result<RemoteEmbeddings, LlmError> {
    let proxy_url = Some(config.embeddings_proxy.clone()).filter(|proxy| !proxy.is_empty());
    let settings = RemoteSettings {
        api_key,
        http: HttpSettings { proxy_url, ..HttpSettings::default() },
        ..RemoteSettings::new(config.embeddings.as_str(), config.embeddings_model.as_str())
    };
    RemoteEmbeddings::new(settings, usize_or_max(config.embeddings_dimensions))
}

/// Returns the context size with which Ollama loads a model: the configured one, or what the largest update may need. The model's
/// own token counts differ from recapd's, so the material gets a quarter more.
fn num_ctx(config: &Config) -> i64 {
    let Config { model, worker, .. } = config;
    if model.num_ctx > 0 {
        return model.num_ctx;
    }
    let material = worker.input_tokens_max.saturating_mul(5) / 4;
    let tokens = [model.output_tokens_max, model.thinking_reserve_tokens, INSTRUCTIONS_TOKENS]
        .into_iter()
        .fold(material, i64::saturating_add);
    let steps = tokens.saturating_add(CONTEXT_STEP_TOKENS - 1) / CONTEXT_STEP_TOKENS;
    steps.saturating_mul(CONTEXT_STEP_TOKENS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_has_its_provider() {
        for (mode, provider, name) in [
            (ModelMode::Offline, "offline", "extractive"),
            (ModelMode::Anthropic, "anthropic", "claude-haiku-5-5"),
            (ModelMode::OpenAi, "openai", "gpt-5.4-mini"),
            (ModelMode::OpenAiResponses, "openai-responses", "gpt-5.4-mini"),
            (ModelMode::Gemini, "gemini", "gemini-3.8-flash"),
        ] {
            let mut config = Config::default();
            config.model.mode = mode;
            let model = model(&config, Some("key".into())).unwrap();
            assert_eq!((model.provider(), model.model()), (provider, name));
        }
        let mut config = Config::default();
        config.model.mode = ModelMode::Ollama;
        config.model.model = "qwen3:8b".to_owned();
        let model = model(&config, None).unwrap();
        assert_eq!((model.provider(), model.model()), ("ollama", "qwen3:8b"));
    }

    #[test]
    fn metrics_know_how_long_batches_may_take() {
        let wait_ms = |config: &Config| {
            let model = model(config, Some("key".into())).unwrap();
            let prices = config::shipped_prices();
            metrics(config, &prices, &model, Timestamp(0)).batches.wait_limit_ms()
        };
        let mut config = Config::default();
        config.model.mode = ModelMode::Anthropic;
        assert_eq!(wait_ms(&config), 0);
        config.model.batch = true;
        assert_eq!(wait_ms(&config), config.batch.max_wait_ms);
    }

    #[test]
    fn ollamas_context_holds_what_an_update_may_need() {
        let mut config = Config::default();
        assert_eq!(num_ctx(&config), 40_960);
        config.model.num_ctx = 8_192;
        assert_eq!(num_ctx(&config), 8_192);
        config.model.num_ctx = 0;
        config.worker.input_tokens_max = 1_000_000;
        config.model.output_tokens_max = 1_000_000;
        assert!(num_ctx(&config) > 2_250_000);
    }
}
