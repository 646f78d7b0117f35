//! Reports an append to metrics, the log, the workers, the indexer and readers.

use tracing::{info, warn};

use super::Ingestor;
use recapd_core::domain::{agent::AgentId, work::Reason};
use recapd_store::{AppendOutcome, AppendRequest, EnqueueOutcome, StepOutcome};
use recapd_telemetry::metrics::labels::Role;

impl Ingestor {
    pub(super) fn report_append(&self, agent: &AgentId, outcome: &AppendOutcome, tokens: &[(Role, i64)]) {
        if outcome.duplicates == 0 {
            for &(role, tokens) in tokens {
                self.metrics.window.ingested(role, tokens);
            }
        }
        for eviction in &outcome.evictions {
            self.metrics
                .window
                .evicted(eviction.through_exchange - eviction.from_exchange + 1, eviction.tokens);
        }
        self.metrics.window.record_fill(outcome.window_tokens, outcome.budget);
        let reason = if outcome.session_ended.is_some() { Reason::SessionEnd } else { Reason::Eviction };
        self.report_wake(outcome.enqueued, reason);
        if outcome.accepted > 0 {
            self.unindexed.notify_one();
        }
        for step in &outcome.steps {
            match step {
                StepOutcome::Ignored { label } => warn!(agent_id = %agent, ?label, "lineage.unknown_mark"),
                StepOutcome::NotThere { seq } => warn!(agent_id = %agent, seq, "lineage.unknown_message"),
                done => info!(agent_id = %agent, ?done, "lineage.stepped"),
            }
        }
        let has_changed_summary =
            |step: &StepOutcome| matches!(step, StepOutcome::Rewound { version: Some(_), .. });
        if outcome.steps.iter().any(has_changed_summary) {
            // The summary no longer covers some exchanges. Their tokens may have been counted for an earlier model.
            self.learning.work.notify_one();
        }
        let has_moved = !outcome.evictions.is_empty() || outcome.returned.is_some();
        if has_moved || !outcome.steps.is_empty() {
            self.notices.agent_changed(agent);
        } else if outcome.accepted > 0 {
            self.notices.agent_moved(agent);
        }
    }

    pub(super) fn report_wake(&self, enqueued: Option<EnqueueOutcome>, reason: Reason) {
        let Some(enqueued) = enqueued else { return };
        if enqueued.is_new {
            self.metrics.updates.queued(reason);
        } else {
            self.metrics.updates.coalesced();
        }
        self.notices.wake_queue();
    }
}

pub(super) fn role_tokens(request: &AppendRequest) -> Vec<(Role, i64)> {
    let messages = request.messages.iter();
    messages.map(|prepared| (Role::from(&prepared.message.kind), prepared.entry.tokens)).collect()
}
