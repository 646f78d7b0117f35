//! Finds the token counter of an agent: the configured one, or that of the agent's own provider and model.
//!
//! An agent's settings are read at its first append, and later appends return them. So a change by another program takes effect
//! one append late. Messages that the old counter counted until then are counted again.

use std::sync::{Arc, Mutex, PoisonError};

use hashlink::LruCache;

use recapd_core::domain::{agent::AgentId, settings::AgentSettings, tokens::TokenCounter};

/// Limits how many agents are remembered. The least recently used one is forgotten, and its next append reads its settings again.
pub(super) const AGENTS_MAX: usize = 100_000;

pub type FindCounter = Arc<dyn Fn(&str, &str) -> Arc<dyn TokenCounter> + Send + Sync>;

pub(super) type ModelName = (String, String);

#[derive(Clone)]
pub(super) struct AgentCounter {
    /// The provider and the model; `None` if they aren't configured. Then nothing is learned about the counter.
    pub(super) provider_model: Option<Arc<ModelName>>,
    /// The counter without the learned correction.
    pub(super) plain: Arc<dyn TokenCounter>,
}

pub(super) struct Counters {
    default: AgentCounter,
    /// The counters of agents with their own settings; `None` if one counter serves all agents.
    per_agent: Option<PerAgentCounters>,
}

struct PerAgentCounters {
    default: Arc<ModelName>,
    find: FindCounter,
    cache: Mutex<LruCache<AgentId, Option<AgentCounter>>>,
}

impl Counters {
    pub(super) fn one(counter: Arc<dyn TokenCounter>) -> Self {
        Self { default: AgentCounter { provider_model: None, plain: counter }, per_agent: None }
    }

    /// Uses a counter for each provider and model; `default` is the configured pair.
    pub(super) fn each(default: ModelName, find: FindCounter) -> Self {
        let provider_model = Arc::new(default);
        Self {
            default: AgentCounter {
                plain: find(&provider_model.0, &provider_model.1),
                provider_model: Some(Arc::clone(&provider_model)),
            },
            per_agent: Some(PerAgentCounters {
                default: provider_model,
                find,
                cache: Mutex::new(LruCache::new(AGENTS_MAX)),
            }),
        }
    }

    /// Returns the agent's counter; `None` if its settings must be read first.
    pub(super) fn of(&self, agent: &AgentId) -> Option<AgentCounter> {
        let default = || self.default.clone();
        let Some(per_agent) = &self.per_agent else {
            return Some(default());
        };
        let mut cache = per_agent.cache.lock().unwrap_or_else(PoisonError::into_inner);
        Some(cache.get(agent)?.clone().unwrap_or_else(default))
    }

    /// Remembers the agent's settings and returns its counter.
    pub(super) fn learn(&self, agent: &AgentId, settings: &AgentSettings) -> AgentCounter {
        let default = || self.default.clone();
        let Some(per_agent) = &self.per_agent else {
            return default();
        };
        let provider_model = per_agent.provider_model(settings);
        let mut cache = per_agent.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = cache.get(agent)
            && found.as_ref().and_then(AgentCounter::provider_model) == provider_model
        {
            return found.clone().unwrap_or_else(default);
        }
        let learned = provider_model.map(|(provider, model)| AgentCounter {
            plain: (per_agent.find)(provider, model),
            provider_model: Some(Arc::new((provider.to_owned(), model.to_owned()))),
        });
        cache.insert(agent.clone(), learned.clone());
        learned.unwrap_or_else(default)
    }
}

impl AgentCounter {
    /// Returns true if both count for the same provider and model.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.provider_model() == other.provider_model()
    }

    /// Returns the model's name; empty if it isn't known.
    pub(super) fn model(&self) -> &str {
        self.provider_model().map_or("", |(_, model)| model)
    }

    fn provider_model(&self) -> Option<(&str, &str)> {
        let (provider, model) = self.provider_model.as_deref()?;
        Some((provider, model))
    }
}

impl PerAgentCounters {
    /// Returns the agent's own provider and model; `None` if the agent uses the configured ones.
    fn provider_model<'a>(&'a self, settings: &'a AgentSettings) -> Option<(&'a str, &'a str)> {
        let default = (self.default.0.as_str(), self.default.1.as_str());
        let provider_model = settings.tokenizer(default.0, default.1);
        (provider_model != default).then_some(provider_model)
    }
}
