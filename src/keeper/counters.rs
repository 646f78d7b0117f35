//! Which counter counts an agent's messages: the configuration's, or that of the agent's own provider and model.
//!
//! An agent's settings are read at its first append, then learned from each append's answer. A change that another
//! program makes is therefore heard of with one append's delay; until then messages are counted as before.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use crate::domain::{agent::AgentId, settings::AgentSettings, tokens::TokenCounter};

/// So many agents are remembered; then all are forgotten and asked for again, which costs each one read.
const AGENTS_MAX: usize = 100_000;

/// Finds the counter for a provider and a model.
pub type FindCounter = Arc<dyn Fn(&str, &str) -> Arc<dyn TokenCounter> + Send + Sync>;

/// A provider and a model.
pub(super) type Named = (String, String);

/// Counters by agent.
pub(super) struct Counters {
    default: Arc<dyn TokenCounter>,
    /// None: every agent is counted by the default.
    own: Option<Own>,
}

struct Own {
    default: Named,
    find: FindCounter,
    known: Mutex<HashMap<AgentId, Option<Known>>>,
}

#[derive(Clone)]
struct Known {
    named: Named,
    counter: Arc<dyn TokenCounter>,
}

impl Counters {
    /// One counter for all.
    pub(super) fn one(counter: Arc<dyn TokenCounter>) -> Self {
        Self {
            default: counter,
            own: None,
        }
    }

    /// A counter for each provider and model, of which `default` is the configuration's.
    pub(super) fn each(default: Named, find: FindCounter) -> Self {
        Self {
            default: find(&default.0, &default.1),
            own: Some(Own {
                default,
                find,
                known: Mutex::default(),
            }),
        }
    }

    /// The counter of `agent`; none if its settings have to be read first.
    pub(super) fn of(&self, agent: &AgentId) -> Option<Arc<dyn TokenCounter>> {
        let default = || Arc::clone(&self.default);
        let Some(own) = &self.own else {
            return Some(default());
        };
        let known = own.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get(agent)?;
        Some(
            known
                .as_ref()
                .map_or_else(default, |known| Arc::clone(&known.counter)),
        )
    }

    /// Remembers the settings of `agent`. Returns its counter.
    pub(super) fn learn(&self, agent: &AgentId, settings: &AgentSettings) -> Arc<dyn TokenCounter> {
        let default = Arc::clone(&self.default);
        let Some(own) = &self.own else { return default };
        let named = own.named(settings);
        let mut known = own.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(agent)
            && found.as_ref().map(Known::named) == named
        {
            return found.as_ref().map_or(default, |known| Arc::clone(&known.counter));
        }
        if known.len() >= AGENTS_MAX {
            known.clear();
        }
        let learned = named.map(|(provider, model)| Known {
            counter: (own.find)(provider, model),
            named: (provider.to_owned(), model.to_owned()),
        });
        let counter = learned
            .as_ref()
            .map_or(default, |known| Arc::clone(&known.counter));
        known.insert(agent.clone(), learned);
        counter
    }
}

impl Known {
    fn named(&self) -> (&str, &str) {
        (&self.named.0, &self.named.1)
    }
}

impl Own {
    /// The agent's own provider and model, if they aren't the configuration's.
    fn named<'a>(&'a self, settings: &'a AgentSettings) -> Option<(&'a str, &'a str)> {
        let default = (self.default.0.as_str(), self.default.1.as_str());
        let named = settings.tokenizer(default.0, default.1);
        (named != default).then_some(named)
    }
}
