//! The keys that hardly anybody changes: limits, time limits and internals. The reference lists them last.

pub(super) const EXPERT: &[&str] = &[
    "database.readers",
    "database.busy_timeout_ms",
    "database.synchronous",
    "database.connections",
    "database.statement_timeout_ms",
    "database.read_lag_ms_max",
    "window.leg_tokens",
    "window.on_overflow",
    "context.pins_max_tokens",
    "context.anchor",
    "context.alternation",
    "convergence.profile",
    "convergence.weights",
    "convergence.warn_at",
    "convergence.stop_at",
    "summary.compact_by_model",
    "summary.style",
    "queue.batch_exchanges",
    "queue.batch_tokens_min",
    "queue.max_wait_ms",
    "queue.debounce_ms",
    "queue.poll_ms",
    "queue.lease_ms",
    "queue.attempts_max",
    "queue.crashes_max",
    "queue.backoff_base_ms",
    "queue.backoff_max_ms",
    "queue.revive_after_ms",
    "queue.reconcile_ms",
    "queue.owner",
    "worker.input_tokens_max",
    "worker.batch_exchanges_max",
    "worker.drain_ms",
    "model.output_limit_field",
    "model.thinking_reserve_tokens",
    "model.breaker_failures",
    "model.breaker_rest_ms",
    "batch.gather_ms",
    "batch.requests_max",
    "batch.open_max",
    "schedule.sample_ms",
    "http.socket",
    "http.socket_mode",
    "http.body_bytes_max",
    "http.answers_bytes_max",
    "http.request_timeout_ms",
    "http.head_timeout_ms",
    "http.idle_timeout_ms",
    "http.connections_max",
    "http.connections_per_peer_max",
    "http.subscribers_max",
    "http.requests_per_second",
    "http.requests_burst",
    "http.batch_messages_max",
    "http.snapshot_bytes_max",
    "http.audit_rows_max",
    "proxy.body_bytes_max",
    "proxy.copies_bytes_max",
    "proxy.decide_ms",
    "hook.max_chars",
    "trace.gather_ms",
    "trace.service_name",
    "trace.attributes",
];

#[cfg(test)]
mod tests {
    use super::EXPERT;
    use crate::{keys::Keys, reference::STARTING};

    #[test]
    fn expert_keys_exist_and_are_not_among_the_starting_keys() {
        let known: Vec<String> = Keys::new().names().collect();
        for key in EXPERT {
            assert!(known.iter().any(|name| name == key), "{key}");
            assert!(!STARTING.contains(key), "{key}");
        }
    }
}
