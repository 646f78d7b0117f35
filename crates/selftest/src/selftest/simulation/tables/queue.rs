//! The queue: one row per agent.

use super::{AgentTables, Tables};
use recapd_core::domain::{
    agent::AgentId,
    time::{MINUTE_MS, Timestamp},
    work::{CRASHED_PROBE_MS, Lease, Priority, Reason},
};
use recapd_store::{
    CRASHED, ClaimRequest, EnqueueOutcome, Failure, Fence, Postponement, SessionEnded, StoreError,
    StoreResult,
};

/// How long a row stays parked before ageing makes it due again.
const AGEING_REST_MS: i64 = 10 * MINUTE_MS;

#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) wake_seq: i64,
    pub(crate) claimed_wake: i64,
    pub(crate) visible_at: Timestamp,
    pub(crate) token: Option<i64>,
    pub(crate) parked_at: Option<Timestamp>,
    pub(super) owner: String,
    pub(super) priority: i64,
    reasons: i64,
    pub(super) due_at: Timestamp,
    pub(super) attempts: i64,
    pub(super) crashes: i64,
    revived_at: Option<Timestamp>,
    /// True if it was parked because its holders disappeared.
    pub(super) has_crashed: bool,
}

/// A request to process an agent.
#[derive(Clone, Copy)]
pub(super) struct Wake {
    pub(super) reason: Reason,
    pub(super) delay_ms: i64,
    /// The least time between revivals of a parked row; 0 revives it at once.
    pub(super) revive_after_ms: i64,
    pub(super) now: Timestamp,
}

impl Row {
    /// A row that can be claimed from `visible_at`.
    fn new(reason: Reason, visible_at: Timestamp) -> Self {
        let level = reason.priority().level();
        Self {
            wake_seq: 1,
            claimed_wake: 0,
            visible_at,
            token: None,
            parked_at: None,
            owner: String::new(),
            priority: level,
            reasons: reason.bit(),
            due_at: visible_at.plus_ms(Priority::slack_ms(level)),
            attempts: 0,
            crashes: 0,
            revived_at: None,
            has_crashed: false,
        }
    }

    pub(super) fn let_go(&mut self) {
        self.token = None;
        self.owner.clear();
    }

    /// Uncounts the current attempt.
    fn unburn(&mut self) {
        self.attempts = (self.attempts - 1).max(0);
    }

    /// Returns true if a wake for `reason` hasn't been processed yet.
    fn waits_for(&self, reason: Reason) -> bool {
        self.reasons & reason.bit() != 0 && self.wake_seq != self.claimed_wake
    }

    fn may_be_claimed(&self, now: Timestamp) -> bool {
        self.parked_at.is_none() && self.visible_at <= now
    }
}

impl AgentTables {
    /// Creates the row, or increments its wake counter.
    pub(super) fn enqueue(&mut self, wake: Wake) -> EnqueueOutcome {
        let Wake { reason, now, .. } = wake;
        let new = Row::new(reason, now.plus_ms(wake.delay_ms));
        let Some(row) = &mut self.row else {
            let visible_at = new.visible_at;
            self.row = Some(new);
            return EnqueueOutcome { is_new: true, revived: false, visible_at };
        };
        row.wake_seq += 1;
        row.reasons |= new.reasons;
        row.priority = row.priority.max(new.priority);
        row.due_at = row.due_at.min(new.due_at);
        if row.token.is_none() && row.attempts == 0 {
            row.visible_at = row.visible_at.min(new.visible_at);
        }
        let rested = row.revived_at.is_none_or(|at| now.since_ms(at) >= wake.revive_after_ms);
        let revived = row.parked_at.is_some() && rested;
        if revived {
            revive(row, 0, now);
        }
        EnqueueOutcome { is_new: false, revived, visible_at: row.visible_at }
    }

    /// The row, if it is held under `lease`.
    pub(super) fn held(&mut self, lease: &Lease) -> StoreResult<&mut Row> {
        let row = self.row.as_mut().filter(|row| row.token == Some(lease.token));
        row.ok_or(StoreError::Fenced(Fence::Lease))
    }

    /// Revokes the current lease, for a rewind.
    pub(super) fn void_lease(&mut self, now: Timestamp) {
        if let Some(row) = self.row.as_mut().filter(|row| row.token.is_some()) {
            row.let_go();
            row.unburn();
            row.visible_at = now;
            row.wake_seq += 1;
        }
    }
}

fn revive(row: &mut Row, attempts: i64, now: Timestamp) {
    row.parked_at = None;
    row.attempts = attempts;
    row.crashes = row.crashes.min(2);
    row.revived_at = Some(now);
    row.visible_at = now;
    row.due_at = now.plus_ms(Priority::slack_ms(row.priority));
}

impl Tables {
    pub(crate) fn enqueue(
        &mut self,
        agent: &AgentId,
        reason: Reason,
        delay_ms: i64,
        now: Timestamp,
    ) -> StoreResult<EnqueueOutcome> {
        let wake = Wake { reason, delay_ms, revive_after_ms: 0, now: self.time(now) };
        self.change(agent, |kept| Ok(kept.enqueue(wake)))
    }

    pub(crate) fn end_session(&mut self, agent: &AgentId, now: Timestamp) -> StoreResult<SessionEnded> {
        let wake = Wake { reason: Reason::SessionEnd, delay_ms: 0, revive_after_ms: 0, now: self.time(now) };
        self.change(agent, |kept| {
            let session = kept.ledger.session;
            let newest = kept.ledger.newest.as_ref();
            kept.ledger.session += i64::from(newest.is_some_and(|newest| newest.session == session));
            let is_pending = kept.ledger.pending_numbers() > 0;
            Ok(SessionEnded { session, enqueued: is_pending.then(|| kept.enqueue(wake)) })
        })
    }

    /// Leases due rows, most urgent first. An expired holder counts as crashed.
    pub(crate) fn claim(&mut self, claim: ClaimRequest) -> StoreResult<Vec<Lease>> {
        let now = self.time(claim.now);
        let mut leases = Vec::new();
        for _ in 0..claim.limit {
            let rows = self.agents.iter().filter_map(|(agent, kept)| Some((agent, kept.row.as_ref()?)));
            let due = rows.filter(|(_, row)| row.may_be_claimed(now));
            let next = due.min_by_key(|(agent, row)| (row.due_at, row.visible_at, (*agent).clone()));
            let Some((agent, row)) = next.map(|(agent, row)| (agent.clone(), row.clone())) else {
                break;
            };
            let token = self.next_token();
            let taken_over = row.token.is_some();
            let row = Row {
                token: Some(token),
                owner: claim.owner.clone(),
                visible_at: now.plus_ms(claim.lease_ms),
                claimed_wake: row.wake_seq,
                attempts: row.attempts + 1,
                crashes: row.crashes + i64::from(taken_over),
                ..row
            };
            leases.push(Lease {
                agent: agent.clone(),
                token,
                claimed_wake: row.claimed_wake,
                attempt: row.attempts,
                crashes: row.crashes,
                taken_over,
                reasons: row.reasons,
                ready_at: now,
            });
            self.change(&agent, |kept| {
                kept.row = Some(row);
                Ok(())
            })?;
        }
        Ok(leases)
    }

    pub(crate) fn renew(&mut self, leases: &[Lease], now: Timestamp, lease_ms: i64) -> StoreResult<Vec<i64>> {
        let visible_at = self.time(now).plus_ms(lease_ms);
        let mut held = Vec::new();
        for lease in leases {
            let renewed = self.change(&lease.agent, |kept| {
                kept.held(lease)?.visible_at = visible_at;
                Ok(lease.token)
            });
            held.extend(renewed.ok());
        }
        Ok(held)
    }

    pub(crate) fn fail(&mut self, lease: &Lease, failure: Failure) -> StoreResult<bool> {
        let now = self.time(failure.run.finished_at);
        self.change(&lease.agent, |kept| {
            let row = kept.held(lease)?;
            row.let_go();
            row.priority = row.priority.min(Priority::Low.level());
            row.visible_at = now.plus_ms(failure.backoff_ms);
            row.due_at = row.visible_at.plus_ms(Priority::slack_ms(row.priority));
            // There may be no further wake for exchanges that arrived meanwhile.
            let is_woken = row.wake_seq != lease.claimed_wake;
            row.parked_at = (failure.park && !is_woken).then_some(now);
            row.has_crashed = failure.error.class == CRASHED;
            Ok(row.parked_at.is_some())
        })
    }

    pub(crate) fn release(&mut self, leases: &[Lease], now: Timestamp) -> StoreResult<u64> {
        let now = self.time(now);
        let mut released = 0;
        for lease in leases {
            let done = self.change(&lease.agent, |kept| {
                let row = kept.held(lease)?;
                row.let_go();
                row.unburn();
                row.visible_at = now;
                Ok(())
            });
            released += u64::from(done.is_ok());
        }
        Ok(released)
    }

    pub(crate) fn postpone(&mut self, lease: &Lease, postponement: Postponement) -> StoreResult<()> {
        // A provider's wait is given as a span of the daemon's time.
        let wait_ms = postponement.until.since_ms(postponement.run.finished_at);
        let now = self.time(postponement.run.finished_at);
        self.change(&lease.agent, |kept| {
            let row = kept.held(lease)?;
            row.let_go();
            row.unburn();
            row.visible_at = now.plus_ms(wait_ms);
            row.due_at = row.visible_at.plus_ms(Priority::slack_ms(row.priority));
            Ok(())
        })
    }

    pub(crate) fn disclaim(&mut self, leases: &[Lease]) -> StoreResult<u64> {
        let mut changed = 0;
        for lease in leases {
            let done = self.change(&lease.agent, |kept| {
                if let Ok(row) = kept.held(lease) {
                    row.let_go();
                    return Ok(1);
                }
                let is_later = |row: &&mut Row| row.token.is_none_or(|token| token > lease.token);
                let counted = |row: &&mut Row| is_later(row) && row.crashes > lease.crashes;
                let Some(row) = kept.row.as_mut().filter(counted) else {
                    return Ok(0);
                };
                row.crashes -= 1;
                Ok(1)
            });
            changed += done.unwrap_or(0);
        }
        Ok(changed)
    }

    pub(crate) fn reclaim(&mut self, owner: &str, now: Timestamp) -> StoreResult<u64> {
        let now = self.time(now);
        let is_of_owner = |row: &Row| row.token.is_some() && row.owner == owner && row.visible_at > now;
        self.change_rows(|_, row| is_of_owner(row), |row| row.visible_at = now)
    }

    pub(crate) fn probe_parked(
        &mut self,
        parked_before: Timestamp,
        attempts_max: i64,
        now: Timestamp,
    ) -> StoreResult<u64> {
        let before = self.time(now).plus_ms(-now.since_ms(parked_before));
        let now = self.time(now);
        let crashed_before = now.plus_ms(-CRASHED_PROBE_MS);
        let is_fresh = |row: &Row| row.has_crashed && row.revived_at.is_none_or(|at| at < before);
        let is_old =
            |row: &Row| row.parked_at.is_some_and(|at| at < before || at < crashed_before && is_fresh(row));
        let attempts = (attempts_max - 1).max(0);
        self.change_rows(|_, row| is_old(row), |row| revive(row, attempts, now))
    }

    fn change_rows(
        &mut self,
        is_meant: impl Fn(&AgentTables, &Row) -> bool,
        change: impl Fn(&mut Row),
    ) -> StoreResult<u64> {
        let meant = |kept: &AgentTables| kept.row.as_ref().is_some_and(|row| is_meant(kept, row));
        let agents = self.agents.iter().filter(|(_, kept)| meant(kept));
        let agents: Vec<AgentId> = agents.map(|(agent, _)| agent.clone()).collect();
        for agent in &agents {
            self.change(agent, |kept| {
                kept.row.iter_mut().for_each(&change);
                Ok(())
            })?;
        }
        Ok(agents.len() as u64)
    }

    pub(crate) fn reconcile(&mut self, pending_before: Timestamp, now: Timestamp) -> StoreResult<u64> {
        let before = self.time(now).plus_ms(-now.since_ms(pending_before));
        let is_late = |kept: &AgentTables| kept.pending_since.is_some_and(|since| since < before);
        self.make_rows(Reason::Reconcile, now, is_late)
    }

    pub(crate) fn enqueue_revisits(&mut self, now: Timestamp, _limit: i64) -> StoreResult<u64> {
        let is_provisional = |kept: &AgentTables| kept.shown().iter().any(|item| item.provisional);
        self.make_rows(Reason::Ageing, now, is_provisional)
    }

    fn make_rows(
        &mut self,
        reason: Reason,
        now: Timestamp,
        is_meant: impl Fn(&AgentTables) -> bool,
    ) -> StoreResult<u64> {
        let now = self.time(now);
        let rowless = self.agents.iter().filter(|(_, kept)| kept.row.is_none() && is_meant(kept));
        let agents: Vec<AgentId> = rowless.map(|(agent, _)| agent.clone()).collect();
        for agent in &agents {
            self.change(agent, |kept| {
                kept.row = Some(Row::new(reason, now));
                Ok(())
            })?;
        }
        Ok(agents.len() as u64)
    }

    pub(crate) fn enqueue_ageing(&mut self, now: Timestamp, _limit: i64) -> StoreResult<u64> {
        let now = self.time(now);
        let is_old = |kept: &AgentTables| kept.next_ageing_at.is_some_and(|at| at <= now);
        let old = self.agents.iter().filter(|(_, kept)| is_old(kept));
        let agents: Vec<AgentId> = old.map(|(agent, _)| agent.clone()).collect();
        for agent in &agents {
            self.change(agent, |kept| {
                let is_idle = kept.ledger.pending_numbers() == 0;
                let asks_nobody = is_idle && kept.shown().iter().all(|item| !item.provisional);
                let is_parked_for_long =
                    |row: &Row| row.parked_at.is_some_and(|at| at <= now.plus_ms(-AGEING_REST_MS));
                match &mut kept.row {
                    Some(row) if asks_nobody && is_parked_for_long(row) => {
                        row.parked_at = None;
                        row.wake_seq += 1;
                        row.reasons |= Reason::Ageing.bit();
                    }
                    // It will be processed anyway.
                    Some(row) if row.waits_for(Reason::Ageing) => {}
                    Some(row) => {
                        row.wake_seq += 1;
                        row.reasons |= Reason::Ageing.bit();
                    }
                    None => kept.row = Some(Row::new(Reason::Ageing, now)),
                }
                Ok(())
            })?;
        }
        Ok(agents.len() as u64)
    }

    /// Deletes a row, as an operator may.
    pub(crate) fn lose_row(&mut self, agent: &AgentId) -> StoreResult<()> {
        self.change(agent, |kept| {
            kept.row = None;
            Ok(())
        })
    }
}
