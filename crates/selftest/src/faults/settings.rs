//! The daemons' settings: there is much to summarise, and failures are retried soon, so that many faults coincide with work
//! in a short time. Timeouts have their defaults, except the lease if the caller gives one.

use std::net::SocketAddr;

/// The ceiling of a summary: small enough to be reached in a run.
pub(super) const CEILING_TOKENS: i64 = 600;
/// How long a daemon may take to finish its work when it is asked to end: `worker.drain_ms`.
pub(super) const DRAIN_MS: u64 = 30_000;

pub(super) fn common(lease_ms: i64) -> Vec<String> {
    let settings: [(&str, String); 16] = [
        ("queue.lease_ms", lease_ms.to_string()),
        ("queue.batch_exchanges", "2".into()),
        ("queue.batch_tokens_min", "100".into()),
        ("queue.debounce_ms", "0".into()),
        ("queue.max_wait_ms", "200".into()),
        // A lost wake-up must show: only a starting daemon repairs it, and logs that.
        ("queue.reconcile_ms", "86400000".into()),
        ("queue.backoff_base_ms", "20".into()),
        ("queue.backoff_max_ms", "500".into()),
        ("queue.revive_after_ms", "0".into()),
        ("worker.batch_exchanges_max", "4".into()),
        ("window.budget_tokens", "700".into()),
        ("window.leg_tokens", "150".into()),
        ("summary.max_tokens", CEILING_TOKENS.to_string()),
        ("model.model", "selftest".into()),
        ("model.breaker_rest_ms", "50".into()),
        ("log.level", "info".into()),
    ];
    settings.into_iter().map(|(key, value)| format!("{key}={value}")).collect()
}

pub(super) struct Own<'a> {
    pub(super) url: &'a str,
    pub(super) model: SocketAddr,
    pub(super) daemon: usize,
    pub(super) model_use: ModelUse,
}

/// How a run's daemons use the model.
#[derive(Clone, Copy)]
pub(super) struct ModelUse {
    /// True if the built-in summariser answers when the model fails.
    pub(super) falls_back: bool,
    /// True if work that can wait is sent in batches.
    pub(super) batches: bool,
}

impl Own<'_> {
    pub(super) fn settings(&self) -> Vec<String> {
        let fallback = if self.model_use.falls_back { "offline" } else { "none" };
        let base_url = format!("model.base_url=http://{}/{}/v1", self.model, self.daemon);
        let mode = if self.model_use.batches { "anthropic" } else { "openai" };
        let mut settings = vec![
            format!("database.url={}", self.url),
            format!("fallback.mode={fallback}"),
            format!("model.mode={mode}"),
            base_url,
        ];
        if self.model_use.batches {
            settings.extend(["model.batch=true", "batch.gather_ms=0"].map(str::to_owned));
        }
        settings
    }
}
