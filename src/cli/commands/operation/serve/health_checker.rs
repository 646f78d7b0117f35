//! What the dashboard shows about the daemon: configuration, schedules, and the checks of `recapd doctor`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::Start;
use crate::cli::commands::operation::doctor;
use recapd_api::http::{self, DaemonFacts, Setting};
use recapd_config::{Config, ConfigEntry, ConfigSource, Environment};
use recapd_engine::assembly::Parts;
use recapd_store::SqlStore;

/// Checks the daemon from inside.
pub(super) struct HealthChecker {
    store: Arc<SqlStore>,
    environment: Environment,
    owner: String,
    in_force: Mutex<InForce>,
}

/// The parts of the checker that a reload replaces.
#[derive(Clone)]
struct InForce {
    config: Config,
    entries: Vec<ConfigEntry>,
    parts: Parts,
}

impl HealthChecker {
    /// Returns a checker for the daemon that was started with `start`.
    pub(super) fn of(
        config: &Config,
        start: &Start,
        owner: &str,
        store: &Arc<SqlStore>,
        parts: &Parts,
    ) -> Arc<Self> {
        Arc::new(Self {
            store: Arc::clone(store),
            environment: start.environment.clone(),
            owner: owner.to_owned(),
            in_force: Mutex::new(InForce {
                config: config.clone(),
                entries: start.entries.clone(),
                parts: parts.clone(),
            }),
        })
    }

    /// Applies a reload. Keys that are `waiting` for a restart keep their entries; all others get their `fresh` ones.
    pub(super) fn renew(&self, config: Config, fresh: Vec<ConfigEntry>, waiting: &[String], parts: Parts) {
        let mut in_force = self.lock();
        let old_entries = std::mem::take(&mut in_force.entries);
        let in_force_now = |entry: ConfigEntry| {
            let is_waiting = waiting.contains(&entry.key);
            let old = old_entries.iter().find(|old| is_waiting && old.key == entry.key);
            old.cloned().unwrap_or(entry)
        };
        *in_force = InForce { config, entries: fresh.into_iter().map(in_force_now).collect(), parts };
    }

    fn lock(&self) -> MutexGuard<'_, InForce> {
        self.in_force.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn setting(entry: ConfigEntry) -> Setting {
    Setting {
        origin: (entry.origin != ConfigSource::Default).then(|| entry.origin.to_string()),
        key: entry.key,
        value: entry.value,
    }
}

#[async_trait]
impl http::HealthChecker for HealthChecker {
    async fn examine(&self) -> DaemonFacts {
        let InForce { config, entries, parts } = self.lock().clone();
        let now = parts.clock.now();
        DaemonFacts {
            owner: self.owner.clone(),
            workers: config.worker.concurrency,
            schema: self.store.schema().await.map(|schema| schema.version()).unwrap_or_default(),
            settings: entries.into_iter().map(setting).collect(),
            firings: parts.schedule.firings().await.unwrap_or_default(),
            checks: doctor::from_inside(&config, &self.environment, &self.store, now).await,
        }
    }
}
