//! How daemons are set up: everything happens soon and often, so that many faults meet it in a short time.

use std::net::SocketAddr;

use super::kind::Database;

/// The ceiling of a summary: small enough to be reached in a run.
pub(super) const CEILING_TOKENS: i64 = 600;
/// How long a daemon may take to finish what it does when it is asked to end.
pub(super) const DRAIN_MS: u64 = 1_000;

/// What holds in all runs.
pub(super) fn common(lease_ms: i64) -> Vec<String> {
    let settings: [(&str, String); 22] = [
        ("queue.lease_ms", lease_ms.to_string()),
        ("queue.batch_exchanges", "2".into()),
        ("queue.batch_tokens_min", "100".into()),
        ("queue.debounce_ms", "0".into()),
        ("queue.max_wait_ms", "200".into()),
        ("queue.poll_ms", "50".into()),
        // A wake-up that is lost must show: nobody makes up for it but a daemon that starts, which says so in its log.
        ("queue.reconcile_ms", "86400000".into()),
        ("queue.backoff_base_ms", "20".into()),
        ("queue.backoff_max_ms", "500".into()),
        ("queue.revive_after_ms", "0".into()),
        ("worker.batch_exchanges_max", "4".into()),
        ("worker.drain_ms", DRAIN_MS.to_string()),
        ("window.budget_tokens", "700".into()),
        ("window.leg_tokens", "150".into()),
        ("summary.max_tokens", CEILING_TOKENS.to_string()),
        ("model.mode", "openai".into()),
        ("model.model", "selftest".into()),
        ("model.timeout_ms", "2000".into()),
        ("model.connect_timeout_ms", "500".into()),
        ("model.breaker_rest_ms", "50".into()),
        ("database.busy_timeout_ms", "2000".into()),
        ("log.level", "info".into()),
    ];
    settings
        .into_iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect()
}

/// What is a run's own, and a daemon's.
pub(super) struct Own<'a> {
    pub(super) url: &'a str,
    pub(super) database: Database,
    pub(super) model: SocketAddr,
    pub(super) daemon: usize,
    /// Whether the built-in summariser stands in for the model.
    pub(super) falls_back: bool,
}

impl Own<'_> {
    pub(super) fn settings(&self) -> Vec<String> {
        let fallback = if self.falls_back { "offline" } else { "none" };
        let mut settings = vec![
            format!("database.url={}", self.url),
            format!("model.base_url=http://{}/{}/v1", self.model, self.daemon),
            format!("fallback.mode={fallback}"),
        ];
        if self.database == Database::Postgres {
            settings.push("database.connections=6".to_owned());
            settings.push("database.statement_timeout_ms=5000".to_owned());
        }
        settings
    }
}
