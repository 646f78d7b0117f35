//! Reloads the configuration of a running daemon.

use serde::Deserialize as _;
use toml::Table;

use super::{
    Config, ConfigError, ConfigProblem, ConfigSource,
    keys::{Keys, insert},
};
use recapd_core::domain::price::Prices;

/// The sections and keys that take effect without a restart. They belong to the worker and the schedule. A reload replaces both,
/// and the old ones complete the work that they hold. `config.toml` lists the same keys.
pub const RELOADED: [&str; 13] = [
    "batch.",
    "fallback.",
    "log.level",
    "model.",
    "queue.attempts_max",
    "queue.backoff_base_ms",
    "queue.backoff_max_ms",
    "queue.crashes_max",
    "queue.lease_ms",
    "queue.reconcile_ms",
    "schedule.",
    "spend.",
    "worker.",
];

pub(super) fn is_reloaded(key: &str) -> bool {
    RELOADED.iter().any(|part| key.starts_with(part))
}

#[derive(Clone, Debug, PartialEq)]
pub struct ReloadOutcome {
    pub config: Config,
    /// The prices that apply from now on. They may have changed even if no key has, because the price file is read again.
    pub prices: Prices,
    /// Keys whose new values apply from now on.
    pub changed: Vec<String>,
    /// Keys whose new values need a restart.
    pub waiting: Vec<String>,
}

impl ReloadOutcome {
    /// Applies `fresh` to `running`.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] if the reloaded values contradict those that need a restart.
    pub fn of(running: &Config, fresh: &Config) -> Result<Self, ConfigError> {
        let table =
            |config: &Config| Table::try_from(config).expect("strings, numbers and enums are all TOML");
        let (mut running, fresh) = (table(running), table(fresh));
        let (mut changed, mut waiting) = (Vec::new(), Vec::new());
        for key in Keys::new().names() {
            let Some((section, name)) = key.split_once('.') else {
                continue;
            };
            let value_in = |table: &Table| table.get(section)?.get(name).cloned();
            let Some(value) = value_in(&fresh).filter(|value| value_in(&running).as_ref() != Some(value))
            else {
                continue;
            };
            if is_reloaded(&key) {
                insert(&mut running, &key, value);
                changed.push(key);
            } else {
                waiting.push(key);
            }
        }
        let config = Config::deserialize(running).expect("each value has been read before");
        let problem = |text: String| ConfigProblem {
            origin: ConfigSource::Default,
            text: format!("{text}, as long as the daemon isn't restarted"),
        };
        match config.check_values() {
            Ok(prices) => Ok(Self { config, prices, changed, waiting }),
            Err(violations) => Err(ConfigError::Invalid(
                violations.into_iter().map(|violation| problem(violation.text)).collect(),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_worker_and_schedule_take_effect_and_others_wait_for_a_restart() {
        let running = Config::default();
        let mut fresh = running.clone();
        fresh.worker.concurrency = 9;
        fresh.model.timeout_ms = 61_234;
        fresh.window.budget_tokens = 5;
        fresh.spend.calls_per_day = 7;
        fresh.queue.attempts_max = 8;
        fresh.queue.poll_ms = 999;
        let reloaded = ReloadOutcome::of(&running, &fresh).unwrap();
        assert_eq!(
            reloaded.changed,
            ["model.timeout_ms", "queue.attempts_max", "spend.calls_per_day", "worker.concurrency"]
        );
        assert_eq!(reloaded.waiting, ["queue.poll_ms", "window.budget_tokens"]);
        fresh.queue.poll_ms = running.queue.poll_ms;
        fresh.window.budget_tokens = running.window.budget_tokens;
        assert_eq!(reloaded.config, fresh);
        let nothing = ReloadOutcome::of(&running, &running).unwrap();
        assert!(nothing.changed.is_empty() && nothing.waiting.is_empty());
    }

    #[test]
    fn a_reload_with_contradicting_values_is_refused() {
        let running = Config::default();
        let mut fresh = running.clone();
        fresh.queue.batch_exchanges = 1;
        fresh.worker.batch_exchanges_max = 2;
        assert!(fresh.validate().is_empty());
        let error = ReloadOutcome::of(&running, &fresh).unwrap_err().to_string();
        assert!(error.contains("worker.batch_exchanges_max") && error.contains("isn't restarted"), "{error}");
    }
}
