//! Calls to models.

use std::time::Duration;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
};

use super::{
    Histograms, Register, increase,
    labels::{ProviderErrorClass, RequestOutcome, TokenType},
};

/// The name for what isn't configured: names that come from outside must not make series.
const OTHER: &str = "other";
const REQUEST_SECONDS: [f64; 10] = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 60.0, 120.0];

/// Metrics of calls to models.
#[derive(Debug)]
pub struct Provider {
    known: Vec<ModelLabels>,
    requests: Family<RequestLabels, Counter>,
    errors: Family<ErrorLabels, Counter>,
    duration: Histograms<ModelLabels>,
    tokens: Family<TokenLabels, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ModelLabels {
    provider: String,
    model: String,
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

/// The tokens of a call as the provider bills them, each counted once: `input` is without what the cache gave or took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProviderTokens {
    /// Read, at the full price.
    pub input: i64,
    /// Read from the cache.
    pub cache_read: i64,
    /// Written to the cache.
    pub cache_write: i64,
    /// Written by the model.
    pub output: i64,
}

impl ModelLabels {
    fn request(&self, outcome: RequestOutcome) -> RequestLabels {
        RequestLabels {
            provider: self.provider.clone(),
            model: self.model.clone(),
            outcome,
        }
    }

    fn error(&self, class: ProviderErrorClass) -> ErrorLabels {
        ErrorLabels {
            provider: self.provider.clone(),
            class,
        }
    }

    fn tokens(&self, r#type: TokenType) -> TokenLabels {
        TokenLabels {
            provider: self.provider.clone(),
            model: self.model.clone(),
            r#type,
        }
    }
}

impl Provider {
    pub(super) fn register(to: &mut Register<'_>, models: &[(&str, &str)]) -> Self {
        let known: Vec<ModelLabels> = models
            .iter()
            .map(|(provider, model)| labels(provider, model))
            .collect();
        let requests = known
            .iter()
            .flat_map(|model| RequestOutcome::ALL.iter().map(|&outcome| model.request(outcome)));
        let errors = known
            .iter()
            .flat_map(|model| ProviderErrorClass::ALL.iter().map(|&class| model.error(class)));
        let tokens = known
            .iter()
            .flat_map(|model| TokenType::ALL.iter().map(|&r#type| model.tokens(r#type)));
        Self {
            requests: to.counters("provider_requests", "Calls to models", requests),
            errors: to.counters(
                "provider_errors",
                "Failed calls to models, by what went wrong",
                errors,
            ),
            duration: to.histograms(
                "provider_request_duration_seconds",
                "How long a call to a model takes",
                || Histogram::new(REQUEST_SECONDS),
                known.iter().cloned(),
            ),
            tokens: to.counters("provider_tokens", "Tokens as the provider bills them", tokens),
            known,
        }
    }

    /// A model answered.
    pub fn answered(&self, provider: &str, model: &str, tokens: ProviderTokens, took: Duration) {
        let model = self.model(provider, model);
        self.called(&model, RequestOutcome::Success, took);
        self.bill(&model, tokens);
    }

    /// An answer came in a batch: its tokens are billed, and it took as long as the batch.
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
            self.tokens
                .get_or_create(&model.tokens(r#type))
                .inc_by(increase(count));
        }
    }

    /// A model didn't answer, or not to any use.
    pub fn failed(&self, provider: &str, model: &str, class: ProviderErrorClass, took: Duration) {
        let model = self.model(provider, model);
        self.called(&model, RequestOutcome::Error, took);
        self.errors.get_or_create(&model.error(class)).inc();
    }

    fn called(&self, model: &ModelLabels, outcome: RequestOutcome, took: Duration) {
        self.requests.get_or_create(&model.request(outcome)).inc();
        self.duration.get_or_create(model).observe(took.as_secs_f64());
    }

    fn model(&self, provider: &str, model: &str) -> ModelLabels {
        let of_provider = |known: &&ModelLabels| known.provider == provider;
        let exact = |known: &&ModelLabels| of_provider(known) && known.model == model;
        match (
            self.known.iter().find(exact),
            self.known.iter().any(|known| of_provider(&known)),
        ) {
            (Some(known), _) => known.clone(),
            (None, true) => labels(provider, OTHER),
            (None, false) => labels(OTHER, OTHER),
        }
    }
}

fn labels(provider: &str, model: &str) -> ModelLabels {
    ModelLabels {
        provider: provider.to_owned(),
        model: model.to_owned(),
    }
}
