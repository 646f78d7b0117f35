//! The judge: checks after each operation what must hold, by the tables before and after it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use super::{
    guard::Guard,
    tables::{AgentTables, FENCES, Verdicts},
};
use recapd_core::domain::{agent::AgentId, summary::item::Item, tokens::TokenCounter, work::Lease};
use recapd_store::{Completion, Material, Patch};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Promise {
    /// Each guard by itself refuses the completions that it must refuse, whatever the others decide.
    Guarded,
    /// Only the holder of a row's lease writes an update.
    HeldByWriter,
    /// A version follows the one before it, which its writer has read.
    InOrder,
    /// Each exchange up to the watermark is in exactly one item, and none after it in any.
    CoveredOnce,
    /// No item covers a set-aside exchange, and no fact comes from one.
    SetAsideUntold,
    /// Versions have no gap, each has a token of its own, and each continues the coverage of the one before.
    Chained,
    /// No document exceeds its ceiling, or differs from its stated size.
    Ceiling,
    /// The window is within its budget, except for the newest exchange.
    WindowFits,
    /// Pending exchanges have a row, and a row that was woken during an update isn't deleted by it.
    Woken,
    /// The reconciler finds no missing rows except those that were deleted on purpose.
    RowsThere,
    /// With healthy workers, everything pending gets covered and every row processed.
    Drained,
}

impl Promise {
    pub const ALL: [Self; 11] = [
        Self::Guarded,
        Self::HeldByWriter,
        Self::InOrder,
        Self::CoveredOnce,
        Self::SetAsideUntold,
        Self::Chained,
        Self::Ceiling,
        Self::WindowFits,
        Self::Woken,
        Self::RowsThere,
        Self::Drained,
    ];

    pub fn title(self) -> &'static str {
        match self {
            Self::Guarded => "a guard let a stale update pass",
            Self::HeldByWriter => "updated without the lease",
            Self::InOrder => "updated from an old version",
            Self::CoveredOnce => "exchange not covered once",
            Self::SetAsideUntold => "told of what was set aside",
            Self::Chained => "versions not a chain",
            Self::Ceiling => "document over its ceiling",
            Self::WindowFits => "window over its budget",
            Self::Woken => "wake-up lost",
            Self::RowsThere => "queue row missing",
            Self::Drained => "stuck",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromiseBreach {
    pub promise: Promise,
    pub found: String,
}

impl fmt::Display for PromiseBreach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.promise.title(), self.found)
    }
}

pub(super) struct Judge {
    max_tokens: i64,
    counter: Arc<dyn TokenCounter>,
    /// The wake counter of each agent's row when it was claimed.
    claimed_wakes: BTreeMap<AgentId, i64>,
    /// The live exchanges that each lease's holder read in its range.
    read: BTreeMap<i64, Vec<i64>>,
    /// Agents whose row was deleted on purpose, and not created again yet.
    orphans: BTreeSet<AgentId>,
    pub(super) breaches: Vec<PromiseBreach>,
}

impl Judge {
    pub(super) fn new(max_tokens: i64, counter: Arc<dyn TokenCounter>) -> Self {
        Self {
            max_tokens,
            counter,
            claimed_wakes: BTreeMap::new(),
            read: BTreeMap::new(),
            orphans: BTreeSet::new(),
            breaches: Vec::new(),
        }
    }

    /// Returns true if the tables are broken: later findings would be consequences.
    pub(super) fn is_over(&self) -> bool {
        let is_about_tables = |breach: &PromiseBreach| {
            !matches!(breach.promise, Promise::Guarded | Promise::HeldByWriter | Promise::InOrder)
        };
        self.breaches.iter().any(is_about_tables)
    }

    pub(super) fn find(&mut self, promise: Promise, found: impl FnOnce() -> String) {
        if self.breaches.iter().all(|breach| breach.promise != promise) {
            self.breaches.push(PromiseBreach { promise, found: found() });
        }
    }

    pub(super) fn saw_claim(&mut self, lease: &Lease, after: &AgentTables) {
        let wake_seq = after.row.as_ref().map_or(0, |row| row.wake_seq);
        self.claimed_wakes.insert(lease.agent.clone(), wake_seq);
    }

    pub(super) fn saw_material(&mut self, lease: &Lease, material: &Material) {
        let numbers = material.exchanges.iter().map(|stored| stored.exchange.exchange);
        let pending = numbers.filter(|&exchange| exchange > material.lo);
        self.read.insert(lease.token, pending.collect());
    }

    pub(super) fn saw_row_lost(&mut self, agent: &AgentId) {
        self.orphans.insert(agent.clone());
    }

    /// Notes that the reconciler created this row.
    pub(super) fn saw_row_made(&mut self, agent: &AgentId) {
        if !self.orphans.contains(agent) {
            self.find(Promise::RowsThere, || format!("{agent} had none"));
        }
    }

    /// Checks that each fence refuses stale updates, by other signs than the fence uses.
    pub(super) fn judge_verdicts(
        &mut self,
        lease: &Lease,
        patch: &Patch,
        kept: &AgentTables,
        verdicts: Verdicts,
    ) {
        let is_in_range = |exchange: i64| patch.lo < exchange && exchange <= patch.hi;
        let covered = covered(kept);
        let covers_again = covered.iter().any(|&exchange| is_in_range(exchange));
        let leaves_gap = kept.live(1, patch.lo).any(|live| !covered.contains(&live.exchange));
        let is_in_window =
            kept.live(kept.ledger.first_exchange, i64::MAX).any(|live| is_in_range(live.exchange));
        let live: Vec<i64> = kept.live(patch.lo + 1, patch.hi).map(|live| live.exchange).collect();
        let stale: Verdicts = [
            kept.row.as_ref().and_then(|row| row.token) != Some(lease.token),
            kept.versions.last().map_or(0, |last| last.version) != patch.version,
            covers_again || leaves_gap || is_in_window,
            // A count can only reveal a different count. An update may cover a part of what was read.
            self.read.get(&lease.token).is_some_and(|read| {
                let read = read.iter().filter(|exchange| is_in_range(**exchange));
                read.count() != live.len()
            }),
        ];
        for ((fence, passes), is_stale) in FENCES.into_iter().zip(verdicts).zip(stale) {
            if passes && is_stale {
                let (agent, token) = (&lease.agent, lease.token);
                self.find(Promise::Guarded, || {
                    let guard = Guard::of(fence).map_or("inbox", Guard::name);
                    format!("{agent}: the {guard} guard passes token {token}")
                });
            }
        }
    }

    pub(super) fn judge_update(&mut self, lease: &Lease, patch: &Patch, before: &AgentTables) {
        let token = before.row.as_ref().and_then(|row| row.token);
        if token != Some(lease.token) {
            self.find(Promise::HeldByWriter, || {
                format!("{}: by token {}, the row's is {token:?}", lease.agent, lease.token)
            });
        }
        if before.version != patch.version {
            self.find(Promise::InOrder, || {
                format!("{}: read {}, found {}", lease.agent, patch.version, before.version)
            });
        }
    }

    /// Checks the end of a lease with its work done.
    pub(super) fn judge_end(
        &mut self,
        lease: &Lease,
        completed: Completion,
        before: &AgentTables,
        after: &AgentTables,
    ) {
        let wake_seq = before.row.as_ref().map_or(0, |row| row.wake_seq);
        let claimed = self.claimed_wakes.get(&lease.agent).copied().unwrap_or_default();
        if after.row.is_none() && wake_seq != claimed && !self.orphans.contains(&lease.agent) {
            let agent = &lease.agent;
            self.find(Promise::Woken, || {
                format!("{agent}: woken {} times during the work", wake_seq - claimed)
            });
        }
        if completed.rearmed && after.row.is_none() {
            self.find(Promise::Woken, || format!("{}: no row to re-arm", lease.agent));
        }
    }

    /// Checks what must hold of an agent after any operation.
    pub(super) fn judge(&mut self, agent: &AgentId, before: Option<&AgentTables>, kept: &AgentTables) {
        self.judge_rewind(agent, before, kept);
        self.judge_coverage(agent, kept);
        self.judge_versions(agent, kept);
        if kept.row.is_some() {
            self.orphans.remove(agent);
        } else if kept.pending().next().is_some() && !self.orphans.contains(agent) {
            self.find(Promise::Woken, || {
                let pending: Vec<i64> = kept.pending().map(|pending| pending.exchange).collect();
                format!("{agent}: {pending:?} are pending without a row")
            });
        }
        let ledger = &kept.ledger;
        let may_leave = ledger.floor().is_some_and(|floor| ledger.first_exchange < floor);
        if kept.budget.is_exceeded_by(ledger.window_tokens()) && may_leave {
            self.find(Promise::WindowFits, || format!("{agent}: {} tokens", ledger.window_tokens()));
        }
    }

    /// Checks that a rewind ended the lease of an update in progress.
    fn judge_rewind(&mut self, agent: &AgentId, before: Option<&AgentTables>, kept: &AgentTables) {
        let last = |kept: &AgentTables| kept.live(1, i64::MAX).last().map(|live| live.exchange);
        let is_rewound = before.is_some_and(|before| last(kept) < last(before));
        let token = kept.row.as_ref().and_then(|row| row.token);
        if let Some(token) = token.filter(|_| is_rewound) {
            self.find(Promise::Guarded, || format!("{agent}: a rewind leaves token {token}"));
        }
    }

    fn judge_coverage(&mut self, agent: &AgentId, kept: &AgentTables) {
        let covered = covered(kept);
        let set_aside = kept.exchanges.values().filter(|exchange| exchange.set_aside_at.is_some());
        let told: Vec<i64> = set_aside
            .map(|exchange| exchange.exchange)
            .filter(|exchange| covered.contains(exchange))
            .collect();
        let through = kept.ledger.summarized_through;
        let stated = kept.holding().into_iter().map(|fact| fact.exchange);
        let is_live = |exchange: i64| kept.live(exchange, exchange).next().is_some();
        let stated: Vec<i64> = stated.filter(|&exchange| exchange > through || !is_live(exchange)).collect();
        if !stated.is_empty() {
            self.find(Promise::SetAsideUntold, || format!("{agent}: facts from {stated:?}"));
        }
        if !told.is_empty() {
            self.find(Promise::SetAsideUntold, || format!("{agent}: {told:?}"));
        }
        let expected: Vec<i64> = kept.live(1, through).map(|live| live.exchange).collect();
        let found: Vec<i64> = covered.iter().copied().filter(|exchange| !told.contains(exchange)).collect();
        if found != expected {
            self.find(Promise::CoveredOnce, || {
                format!("{agent}: {found:?} are covered, {expected:?} have to be, through {through}")
            });
        }
    }

    fn judge_versions(&mut self, agent: &AgentId, kept: &AgentTables) {
        let tokens: BTreeSet<i64> = kept.versions.iter().map(|version| version.token).collect();
        let follows = kept.versions.windows(2).all(|pair| match pair {
            [one, next] => {
                next.version == one.version + 1
                    && (next.is_rewind || continues(kept, one.covers_through, next.covers_after))
                    && next.covers_after <= next.covers_through
            }
            _ => true,
        });
        let last = kept.versions.last().map_or(0, |last| last.version);
        if !follows || tokens.len() != kept.versions.len() || last != kept.version {
            self.find(Promise::Chained, || {
                format!("{agent}: up to {last}, the document is {}", kept.version)
            });
        }
        let tokens = self.counter.count(&kept.content);
        if tokens != kept.token_count || tokens > self.max_tokens {
            let max_tokens = self.max_tokens;
            self.find(Promise::Ceiling, || {
                format!("{agent}: {tokens} tokens, {} by its row, of {max_tokens}", kept.token_count)
            });
        }
    }

    /// Checks what must hold after healthy workers had enough time.
    pub(super) fn judge_end_of_all(&mut self, agents: &BTreeMap<AgentId, AgentTables>) {
        for (agent, kept) in agents {
            let pending = kept.pending().count();
            if pending > 0 || kept.row.is_some() {
                self.find(Promise::Drained, || format!("{agent}: {pending} pending, {:?}", kept.row));
            }
        }
    }
}

/// Returns true if a version that covers from `after` on continues one that ended at `ended`. The exchanges between were
/// set aside, and the watermark moved over them without a version.
fn continues(kept: &AgentTables, ended: i64, after: i64) -> bool {
    ended <= after && kept.live(ended + 1, after).next().is_none()
}

/// The exchanges that items cover, each as often as it is covered, ascending.
fn covered(kept: &AgentTables) -> Vec<i64> {
    let in_force = kept.items.iter().filter(|kept| !kept.is_removed);
    let ranges = in_force.flat_map(|kept| of(&kept.item));
    let mut covered: Vec<i64> = ranges.collect();
    covered.sort_unstable();
    covered
}

fn of(item: &Item) -> impl Iterator<Item = i64> {
    item.ranges.iter().flat_map(|range| range.first..=range.last)
}
