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
            && found.as_ref().map(|known| &known.named) == named.as_ref()
        {
            return found.as_ref().map_or(default, |known| Arc::clone(&known.counter));
        }
        if known.len() >= AGENTS_MAX {
            known.clear();
        }
        let learned = named.map(|named| Known {
            counter: (own.find)(&named.0, &named.1),
            named,
        });
        let counter = learned
            .as_ref()
            .map_or(default, |known| Arc::clone(&known.counter));
        known.insert(agent.clone(), learned);
        counter
    }
}

impl Own {
    /// The agent's own provider and model, if they aren't the configuration's.
    fn named(&self, settings: &AgentSettings) -> Option<Named> {
        let provider = settings.provider.as_ref().unwrap_or(&self.default.0);
        let model = settings.model.as_ref().unwrap_or(&self.default.1);
        let named = (provider.clone(), model.clone());
        (named != self.default).then_some(named)
    }
}
