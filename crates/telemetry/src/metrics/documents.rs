//! Summaries: size, changes of items, reads, ageing.

use std::time::Duration;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
};

use super::{
    Register, SecondsGauge, float, increase,
    labels::{ItemAction, ReadResult, ReadVia, RunOutcome},
    unix_seconds,
};
use recapd_core::domain::{redaction::Redactor, summary::state::FactRefusal, time::Timestamp};

/// The last boundary is the ceiling. A larger document is a bug, and has its own alert.
const TOKENS: [f64; 13] = [
    500.0, 1_000.0, 2_000.0, 3_000.0, 4_000.0, 5_000.0, 6_000.0, 7_000.0, 8_000.0, 8_500.0, 9_000.0, 9_500.0,
    10_000.0,
];
const READ_SECONDS: [f64; 10] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0];

#[derive(Debug)]
pub struct Documents {
    tokens: Histogram,
    items: Family<ItemAction, Counter>,
    facts_refused: Family<RefusalLabels, Counter>,
    truncations: Counter,
    truncated_tokens: Counter,
    reads: Family<ReadLabels, Counter>,
    read_duration: Histogram,
    ageing_runs: Family<RunOutcome, Counter>,
    aged_at: SecondsGauge,
    redactions: Family<RuleLabels, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RuleLabels {
    rule: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusalLabels {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReadLabels {
    via: ReadVia,
    result: ReadResult,
}

impl Documents {
    pub(super) fn register(to: &mut Register<'_>) -> Self {
        Self {
            tokens: to.histogram("document_tokens", "Tokens of a summary, at each store", &TOKENS),
            items: to.counters(
                "document_items",
                "Items of summaries, by what happened to them",
                ItemAction::ALL,
            ),
            facts_refused: to.counters(
                "facts_refused",
                "Changes of facts in models' answers that weren't believed, by reason",
                FactRefusal::ALL.iter().map(|refusal| RefusalLabels { reason: refusal.name() }),
            ),
            truncations: to.counter(
                "emergency_truncations",
                "Times that decisions or constraints were dropped to keep the ceiling",
            ),
            truncated_tokens: to.counter(
                "emergency_truncated_tokens",
                "Tokens of decisions and constraints dropped to keep the ceiling",
            ),
            reads: to.counters(
                "document_reads",
                "Reads of summaries",
                ReadVia::ALL
                    .iter()
                    .flat_map(|&via| ReadResult::ALL.iter().map(move |&result| ReadLabels { via, result })),
            ),
            read_duration: to.histogram(
                "document_read_duration_seconds",
                "How long reading a summary takes",
                &READ_SECONDS,
            ),
            ageing_runs: to.counters("aging_runs", "Runs of the ageing job", RunOutcome::ALL),
            aged_at: to.seconds(
                "aging_last_success_timestamp_seconds",
                "When the ageing job was last done, by whichever daemon; 0 is never (sampled)",
            ),
            redactions: to.counters(
                "redactions",
                "Secrets kept from models and readers, by rule",
                Redactor::rule_names().map(|rule| RuleLabels { rule }),
            ),
        }
    }

    pub fn stored(&self, tokens: i64) {
        self.tokens.observe(float(tokens));
    }

    pub fn items(&self, action: ItemAction, items: i64) {
        self.items.get_or_create(&action).inc_by(increase(items));
    }

    pub fn facts_refused(&self, refusals: &[FactRefusal]) {
        for refusal in refusals {
            let reason = refusal.name();
            self.facts_refused.get_or_create(&RefusalLabels { reason }).inc();
        }
    }

    /// Counts a summary that dropped decisions and constraints of `tokens` tokens to stay below the ceiling.
    pub fn truncated(&self, tokens: i64) {
        self.truncations.inc();
        self.truncated_tokens.inc_by(increase(tokens));
    }

    /// Counts a read of a summary. `took` is `None` for a reader that asked to wait for a change, because its time isn't that of
    /// the read.
    pub fn read(&self, via: ReadVia, result: ReadResult, took: Option<Duration>) {
        self.reads.get_or_create(&ReadLabels { via, result }).inc();
        if let Some(took) = took {
            self.read_duration.observe(took.as_secs_f64());
        }
    }

    pub fn redacted(&self, rule: &'static str) {
        self.redactions.get_or_create(&RuleLabels { rule }).inc();
    }

    pub fn aged(&self, outcome: RunOutcome) {
        self.ageing_runs.get_or_create(&outcome).inc();
    }

    /// Sets when the ageing job last completed. The database knows it, so runs before a restart and by other daemons count, too.
    pub fn last_aged(&self, at: Option<Timestamp>) {
        self.aged_at.set(unix_seconds(at));
    }
}
