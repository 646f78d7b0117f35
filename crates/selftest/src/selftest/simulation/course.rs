//! The parameters of a run, drawn from its seed.

use std::sync::Arc;

use fastrand::Rng;

use recapd_core::domain::{
    budget::OnOverflow,
    context::ContextOptions,
    number::i64_or_max,
    preset::Basis,
    redaction::Redactor,
    summary::{compaction::SummaryPolicy, section::Ageing},
    time::{MINUTE_MS, SECOND_MS},
    tokens::TokenCounter,
    window::Budget,
    work::RetryPolicy,
};
use recapd_store::AppendRules;

const AGENTS_MAX: usize = 3;
const DAEMONS_MAX: usize = 3;

pub(super) struct Course {
    pub(super) agents: usize,
    pub(super) daemons: usize,
    /// True if the database's clock counts, as on PostgreSQL; otherwise the daemons' clocks do, as on SQLite.
    pub(super) has_own_clock: bool,
    pub(super) rules: AppendRules,
    pub(super) retry: RetryPolicy,
    pub(super) exchanges_max: i64,
    pub(super) concurrency: usize,
    pub(super) lease_ms: i64,
    pub(super) poll_ms: i64,
    pub(super) reconcile_ms: i64,
    pub(super) counter: Arc<dyn TokenCounter>,
    pub(super) redactor: Redactor,
}

/// Counts four bytes as a token: exact counts would cost more time than everything else.
pub(super) struct Quarters;

impl TokenCounter for Quarters {
    fn count(&self, text: &str) -> i64 {
        i64_or_max(text.len().div_ceil(4))
    }

    fn method(&self) -> &'static str {
        "bytes/4"
    }
}

impl Course {
    pub(super) fn draw(random: &mut Rng) -> Self {
        Self {
            agents: random.usize(1..=AGENTS_MAX),
            daemons: random.usize(1..=DAEMONS_MAX),
            has_own_clock: random.bool(),
            rules: rules(random),
            retry: RetryPolicy {
                attempts_max: random.i64(1..=4),
                crashes_max: random.i64(3..=4),
                backoff_base_ms: SECOND_MS,
                backoff_max_ms: 20 * SECOND_MS,
            },
            exchanges_max: random.i64(1..=5),
            concurrency: random.usize(1..=3),
            lease_ms: 12 * SECOND_MS,
            poll_ms: 2 * SECOND_MS,
            reconcile_ms: 45 * SECOND_MS,
            counter: Arc::new(Quarters),
            redactor: Redactor::off(),
        }
    }
}

fn rules(random: &mut Rng) -> AppendRules {
    let ageing = Ageing::Age {
        session_ms: MINUTE_MS,
        yesterday_ms: 3 * MINUTE_MS,
        week_ms: 6 * MINUTE_MS,
        drops_older: random.bool(),
    };
    AppendRules {
        budget: Budget::new(random.i64(40..160), random.choice([0.5, 0.8, 1.0]).unwrap_or(1.0))
            .with_leg_tokens(random.choice([0, 20, 60]).unwrap_or(0)),
        on_overflow: OnOverflow::Evict,
        basis: Basis::default(),
        context: ContextOptions::default(),
        idle_gap_ms: 0,
        batch_exchanges: random.i64(1..=4),
        batch_tokens_min: random.choice([0, 30, 80]).unwrap_or(0),
        debounce_ms: random.i64(0..2 * SECOND_MS),
        max_wait_ms: random.i64(5 * SECOND_MS..30 * SECOND_MS),
        revive_after_ms: 30 * SECOND_MS,
        policy: SummaryPolicy {
            max_tokens: random.i64(150..600),
            ageing: if random.bool() { ageing } else { Ageing::Off },
            ..SummaryPolicy::default()
        },
    }
}
