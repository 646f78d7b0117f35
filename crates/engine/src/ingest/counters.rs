//! Which token counter counts an agent's messages: the configuration's, or that of the agent's own provider and model.
//!
//! An agent's settings are read at its first append, and from then on learned from the answer of each append. So a
//! change that another program makes is heard of one append late; what was counted by the old counter until then is
//! counted again.

use std::sync::{Arc, Mutex, PoisonError};

use hashlink::LruCache;

use recapd_core::domain::{agent::AgentId, settings::AgentSettings, tokens::TokenCounter};

/// So many agents are remembered; who said nothing for the longest is forgotten, and costs a read when it goes on.
pub(super) const AGENTS_MAX: usize = 100_000;

/// Finds the counter for a provider and a model.
pub type FindCounter = Arc<dyn Fn(&str, &str) -> Arc<dyn TokenCounter> + Send + Sync>;

/// A provider and a model.
pub(super) type ModelName = (String, String);

/// How an agent's messages are counted.
#[derive(Clone)]
pub(super) struct AgentCounter {
    /// The provider and the model; `None` if they aren't configured, and then nothing can be learned about the counter.
    pub(super) named: Option<Arc<ModelName>>,
    /// The counter without a learned correction: a plain estimate, or an exact one.
    pub(super) plain: Arc<dyn TokenCounter>,
}

/// Counters by agent.
pub(super) struct Counters {
    default: AgentCounter,
    /// The counters of agents with settings of their own; `None` if all are counted by the default.
    own: Option<Own>,
}

struct Own {
    default: Arc<ModelName>,
    find: FindCounter,
    known: Mutex<LruCache<AgentId, Option<AgentCounter>>>,
}

impl Counters {
    /// One counter for all agents.
    pub(super) fn one(counter: Arc<dyn TokenCounter>) -> Self {
        Self {
            default: AgentCounter {
                named: None,
                plain: counter,
            },
            own: None,
        }
    }

    /// A counter for each provider and model, of which `default` is the configuration's.
    pub(super) fn each(default: ModelName, find: FindCounter) -> Self {
        let named = Arc::new(default);
        Self {
            default: AgentCounter {
                plain: find(&named.0, &named.1),
                named: Some(Arc::clone(&named)),
            },
            own: Some(Own {
                default: named,
                find,
                known: Mutex::new(LruCache::new(AGENTS_MAX)),
            }),
        }
    }

    /// How messages of `agent` are counted; `None` if its settings have to be read first.
    pub(super) fn of(&self, agent: &AgentId) -> Option<AgentCounter> {
        let default = || self.default.clone();
        let Some(own) = &self.own else {
            return Some(default());
        };
        let mut known = own.known.lock().unwrap_or_else(PoisonError::into_inner);
        Some(known.get(agent)?.clone().unwrap_or_else(default))
    }

    /// Remembers the settings of `agent`. Returns how its messages are counted.
    pub(super) fn learn(&self, agent: &AgentId, settings: &AgentSettings) -> AgentCounter {
        let default = || self.default.clone();
        let Some(own) = &self.own else { return default() };
        let named = own.named(settings);
        let mut known = own.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(agent)
            && found.as_ref().and_then(AgentCounter::named) == named
        {
            return found.clone().unwrap_or_else(default);
        }
        let learned = named.map(|(provider, model)| AgentCounter {
            plain: (own.find)(provider, model),
            named: Some(Arc::new((provider.to_owned(), model.to_owned()))),
        });
        known.insert(agent.clone(), learned.clone());
        learned.unwrap_or_else(default)
    }
}

impl AgentCounter {
    /// Whether `other` counts for the same model.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.named() == other.named()
    }

    /// The model, if it is known.
    pub(super) fn model(&self) -> &str {
        self.named().map_or("", |(_, model)| model)
    }

    fn named(&self) -> Option<(&str, &str)> {
        let (provider, model) = self.named.as_deref()?;
        Some((provider, model))
    }
}

impl Own {
    /// The agent's own provider and model; `None` if they are the configuration's.
    fn named<'a>(&'a self, settings: &'a AgentSettings) -> Option<(&'a str, &'a str)> {
        let default = (self.default.0.as_str(), self.default.1.as_str());
        let named = settings.tokenizer(default.0, default.1);
        (named != default).then_some(named)
    }
}
