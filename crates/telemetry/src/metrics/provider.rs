//! Calls to models.

use std::{
    sync::{Mutex, MutexGuard, PoisonError, atomic::AtomicU64},
    time::Duration,
};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
};
use serde::{Deserialize, Serialize};

use super::{
    Histograms, Register, SecondsGauge, float, increase,
    labels::{ProviderErrorClass, RequestOutcome, TokenType},
};
use recapd_core::domain::{
    number::i64_or_max,
    spend::{MICROUSD_PER_USD, SpendLimits},
    time::Timestamp,
};

/// The label of models that aren't configured, so that unknown names create no series.
const OTHER: &str = "other";
const REQUEST_SECONDS: [f64; 10] = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 60.0, 120.0];

#[derive(Debug)]
pub struct Provider {
    models: Mutex<Vec<ModelLabels>>,
    requests: Family<RequestLabels, Counter>,
    errors: Family<ErrorLabels, Counter>,
    duration: Histograms<ModelLabels>,
    tokens: Family<TokenLabels, Counter>,
    cost: Family<ModelLabels, Counter<f64, AtomicU64>>,
    cost_limit: SecondsGauge,
    limits: Mutex<SpendLimits>,
    circuits_open: Family<ProviderLabels, Gauge>,
    circuits: Mutex<Vec<Circuit>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ModelLabels {
    provider: String,
    model: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProviderLabels {
    provider: String,
}

/// The state of a provider's circuit breaker, as `status` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Circuit {
    pub provider: String,
    pub model: String,
    /// When the provider will be called again; null if the circuit is closed.
    pub open_until: Option<Timestamp>,
    /// What the provider said when it last failed; null if it has answered since then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    provider: String,
    model: String,
    outcome: RequestOutcome,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ErrorLabels {
    provider: String,
    class: ProviderErrorClass,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TokenLabels {
    provider: String,
    model: String,
    r#type: TokenType,
}

/// The tokens of a call as the provider bills them, each counted once: `input` excludes cached tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProviderTokens {
    /// Tokens read at full price.
    pub input: i64,
    pub cache_read: i64,
    /// Tokens read and written to the cache.
    pub cache_write: i64,
    pub output: i64,
}

impl ModelLabels {
    fn request(&self, outcome: RequestOutcome) -> RequestLabels {
        RequestLabels { provider: self.provider.clone(), model: self.model.clone(), outcome }
    }

    fn error(&self, class: ProviderErrorClass) -> ErrorLabels {
        ErrorLabels { provider: self.provider.clone(), class }
    }

    fn tokens(&self, r#type: TokenType) -> TokenLabels {
        TokenLabels { provider: self.provider.clone(), model: self.model.clone(), r#type }
    }
}

impl Provider {
    pub(super) fn register(to: &mut Register<'_>, models: &[(&str, &str)]) -> Self {
        let metrics = Self {
            requests: to.add("provider_requests", "Calls to models", Family::default()),
            errors: to.add("provider_errors", "Failed calls to models, by what went wrong", Family::default()),
            duration: to.add(
                "provider_request_duration_seconds",
                "How long a call to a model takes",
                Histograms::new_with_constructor(|| Histogram::new(REQUEST_SECONDS)),
            ),
            tokens: to.add("provider_tokens", "Tokens as the provider bills them", Family::default()),
            cost: to.add(
                "provider_cost_usd",
                "What calls to models cost in dollars, by the table of prices; no series for a model without a price",
                Family::default(),
            ),
            cost_limit: to.add(
                "provider_cost_limit_usd",
                "What all calls to models may cost in a day, in dollars; 0 is no limit",
                SecondsGauge::default(),
            ),
            limits: Mutex::default(),
            circuits_open: to.add(
                "provider_circuit_open",
                "Models of the provider whose circuit breaker is open",
                Family::default(),
            ),
            circuits: Mutex::default(),
            models: Mutex::default(),
        };
        for (provider, model) in models {
            metrics.know(provider, model);
        }
        metrics
    }

    /// Creates the series of a model that will be called, at 0.
    pub fn know(&self, provider: &str, model: &str) {
        let model = labels(provider, model);
        for &outcome in RequestOutcome::ALL {
            drop(self.requests.get_or_create(&model.request(outcome)));
        }
        for &class in ProviderErrorClass::ALL {
            drop(self.errors.get_or_create(&model.error(class)));
        }
        for &r#type in TokenType::ALL {
            drop(self.tokens.get_or_create(&model.tokens(r#type)));
        }
        drop(self.duration.get_or_create(&model));
        let provider = model.provider.clone();
        drop(self.circuits_open.get_or_create(&ProviderLabels { provider }));
        let mut all = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.contains(&model) {
            all.push(model);
        }
    }

    pub fn answered(&self, provider: &str, model: &str, tokens: ProviderTokens, took: Duration) {
        let model = self.model(provider, model);
        self.called(&model, RequestOutcome::Success, took);
        self.bill(&model, tokens);
    }

    /// Counts the tokens of an answer from a batch, which has no duration.
    pub fn billed(&self, provider: &str, model: &str, tokens: ProviderTokens) {
        self.bill(&self.model(provider, model), tokens);
    }

    fn bill(&self, model: &ModelLabels, tokens: ProviderTokens) {
        for (r#type, count) in [
            (TokenType::Input, tokens.input),
            (TokenType::CacheRead, tokens.cache_read),
            (TokenType::CacheWrite, tokens.cache_write),
            (TokenType::Output, tokens.output),
        ] {
            self.tokens.get_or_create(&model.tokens(r#type)).inc_by(increase(count));
        }
    }

    /// Counts a call without a usable answer.
    pub fn failed(&self, provider: &str, model: &str, class: ProviderErrorClass, took: Duration) {
        let model = self.model(provider, model);
        self.called(&model, RequestOutcome::Error, took);
        self.errors.get_or_create(&model.error(class)).inc();
    }

    /// Adds a call's cost. A cost of 0 only creates the model's series.
    pub fn cost(&self, provider: &str, model: &str, cost_microusd: i64) {
        let usd = float(cost_microusd.max(0)) / float(MICROUSD_PER_USD);
        self.cost.get_or_create(&self.model(provider, model)).inc_by(usd);
    }

    pub fn limit(&self, limits: SpendLimits) {
        self.cost_limit.set(float(limits.cost_microusd) / float(MICROUSD_PER_USD));
        *self.limits.lock().unwrap_or_else(PoisonError::into_inner) = limits;
    }

    pub fn limits(&self) -> SpendLimits {
        *self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets until when a model's circuit is open; `None` if it is closed.
    pub fn circuit(&self, provider: &str, model: &str, open_until: Option<Timestamp>) {
        let mut circuits = self.locked_circuits();
        let is_it = |circuit: &&mut Circuit| circuit.provider == provider && circuit.model == model;
        match circuits.iter_mut().find(is_it) {
            Some(circuit) => {
                circuit.open_until = open_until;
                circuit.why = circuit.why.take().filter(|_| open_until.is_some());
            }
            None => circuits.push(Circuit {
                provider: provider.to_owned(),
                model: model.to_owned(),
                open_until,
                why: None,
            }),
        }
        let provider_circuits = circuits.iter().filter(|circuit| circuit.provider == provider);
        let open = provider_circuits.filter(|circuit| circuit.open_until.is_some()).count();
        let provider = self.model(provider, model).provider;
        let gauge = self.circuits_open.get_or_create(&ProviderLabels { provider });
        gauge.set(i64_or_max(open));
    }

    /// Records what a model's provider said when it failed.
    pub fn record_reason(&self, provider: &str, model: &str, why: String) {
        let mut circuits = self.locked_circuits();
        let is_model = |circuit: &&mut Circuit| circuit.provider == provider && circuit.model == model;
        if let Some(circuit) = circuits.iter_mut().find(is_model) {
            circuit.why = Some(why);
        }
    }

    pub fn circuits(&self) -> Vec<Circuit> {
        self.locked_circuits().clone()
    }

    fn locked_circuits(&self) -> MutexGuard<'_, Vec<Circuit>> {
        self.circuits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn called(&self, model: &ModelLabels, outcome: RequestOutcome, took: Duration) {
        self.requests.get_or_create(&model.request(outcome)).inc();
        self.duration.get_or_create(model).observe(took.as_secs_f64());
    }

    /// Returns the labels of a model. Names that aren't configured become [`OTHER`].
    fn model(&self, provider: &str, model: &str) -> ModelLabels {
        let all = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        let is_of_provider = |labels: &&ModelLabels| labels.provider == provider;
        let is_exact = |labels: &&ModelLabels| is_of_provider(labels) && labels.model == model;
        match (all.iter().find(is_exact), all.iter().any(|labels| is_of_provider(&labels))) {
            (Some(labels), _) => labels.clone(),
            (None, true) => labels(provider, OTHER),
            (None, false) => labels(OTHER, OTHER),
        }
    }
}

fn labels(provider: &str, model: &str) -> ModelLabels {
    ModelLabels { provider: provider.to_owned(), model: model.to_owned() }
}
