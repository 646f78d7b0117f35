//! The transaction that writes a summary.

use super::{AgentTables, Guard, Row, Tables, revise::Revision};
use recapd_core::domain::{
    summary::item::Item,
    time::Timestamp,
    work::{Lease, Priority, WOKEN_RETRY_MS_MIN},
};
use recapd_store::{CRASHED, Completion, Fence, Patch, Settle, StoreError, StoreResult};

/// The fences of a completion, in the order in which they are checked.
pub(crate) const FENCES: [Fence; 4] = [Fence::Lease, Fence::Version, Fence::Watermark, Fence::Exchanges];

/// For each of the [`FENCES`]: true if it lets the completion pass.
pub(crate) type Verdicts = [bool; 4];

impl AgentTables {
    fn verdicts(&self, lease: &Lease, patch: &Patch) -> Verdicts {
        let live = self.live(patch.lo + 1, patch.hi).count();
        let token = self.row.as_ref().and_then(|row| row.token);
        [
            token == Some(lease.token),
            self.version == patch.version,
            self.is_at(patch.lo, patch.hi),
            i64::try_from(live) == Ok(patch.exchanges),
        ]
    }

    /// Returns true if the watermark is where it was read, and the boundary is after its new place.
    fn is_at(&self, lo: i64, hi: i64) -> bool {
        self.ledger.summarized_through == lo && self.ledger.first_exchange > hi
    }

    fn move_watermark(&mut self, lo: i64, hi: i64, now: Timestamp) {
        self.ledger.summarized_through = hi;
        if hi > lo {
            self.pending_since = None;
        }
        self.note_pending(now);
    }

    /// Checks that each exchange of the range is in one new item, and that outside it new items cover the same as the
    /// removed ones.
    fn check_coverage(&self, patch: &Patch) -> StoreResult<()> {
        let stands = |items: &mut dyn Iterator<Item = &Item>, exchange: i64| {
            let ranges = items.flat_map(|item| item.ranges.iter());
            ranges.filter(|range| range.contains(exchange)).count()
        };
        let is_removed = |item: &&Item| patch.removed.contains(&item.item);
        for exchange in self.live(1, i64::MAX).map(|exchange| exchange.exchange) {
            let added = stands(&mut patch.added.iter().map(|(item, _)| item), exchange);
            let mut removed = self.items.iter().map(|kept| &kept.item).filter(is_removed);
            let is_due = patch.lo < exchange && exchange <= patch.hi;
            if added != stands(&mut removed, exchange) + usize::from(is_due) {
                return Err(StoreError::Inconsistent {
                    table: "summary_item_ranges",
                    row: format!("exchange {exchange}"),
                    column: "first_exchange",
                    value: format!("{added}"),
                });
            }
        }
        Ok(())
    }

    /// Deletes the row if its request is done, else re-arms it.
    fn finish(&mut self, lease: &Lease, patch: &Patch, has_rearm: bool, now: Timestamp) -> bool {
        let pending = self.ledger.pending_numbers();
        let is_batch = pending >= patch.batch_exchanges && self.has_tokens(patch.hi, patch.batch_tokens_min);
        let Some(row) = &mut self.row else { return false };
        let is_woken = row.wake_seq != lease.claimed_wake;
        if !has_rearm || (pending == 0 && !patch.has_more && !is_woken) {
            self.row = None;
            return false;
        }
        let is_urged = is_woken && row.priority >= Priority::High.level();
        let is_lonely = pending > 0 && !is_batch && !is_urged;
        rearm(row, if is_lonely { patch.rearm_wait_ms } else { 0 }, now);
        true
    }
}

/// Parks a row, unless it was woken during the last attempt: new exchanges get another attempt.
fn give_up(row: &mut Row, lease: &Lease, patch: &Patch, now: Timestamp) {
    row.let_go();
    row.crashes = 0;
    row.has_crashed = patch.park.as_ref().is_some_and(|error| error.class == CRASHED);
    if row.wake_seq == lease.claimed_wake {
        row.parked_at = Some(now);
        return;
    }
    row.priority = Priority::Low.level();
    row.visible_at = now.plus_ms(patch.rearm_wait_ms.max(WOKEN_RETRY_MS_MIN));
    row.due_at = row.visible_at.plus_ms(Priority::slack_ms(row.priority));
}

fn rearm(row: &mut Row, wait_ms: i64, now: Timestamp) {
    row.let_go();
    row.attempts = 0;
    row.crashes = 0;
    row.priority = Priority::Normal.level();
    row.visible_at = now.plus_ms(wait_ms);
    row.due_at = row.visible_at.plus_ms(Priority::slack_ms(row.priority));
}

impl Revision {
    fn of(lease: &Lease, patch: &Patch) -> Self {
        Self {
            token: lease.token,
            covers: (patch.lo, patch.hi),
            is_rewind: false,
            added: patch.added.clone(),
            dropped: patch.dropped.clone(),
            removed: patch.removed.clone(),
            facts: patch.facts.clone(),
            content: patch.content.clone(),
            token_count: patch.token_count,
            next_ageing_at: patch.next_ageing_at,
        }
    }
}

impl Tables {
    /// Answers cost nothing here.
    pub(crate) fn age_document(&mut self, lease: &Lease, patch: Patch) -> StoreResult<bool> {
        self.change(&lease.agent, |kept| {
            kept.held(lease)?;
            if kept.version != patch.version {
                return Err(StoreError::Fenced(Fence::Version));
            }
            if !kept.is_at(patch.lo, patch.hi) {
                return Err(StoreError::Fenced(Fence::Watermark));
            }
            kept.write_version(Revision::of(lease, &patch));
            Ok(true)
        })
    }

    pub(crate) fn complete(&mut self, lease: &Lease, patch: Patch) -> StoreResult<Completion> {
        let now = self.time(patch.run.finished_at);
        let found = self.kept(&lease.agent)?.verdicts(lease, &patch);
        let mut verdicts = found;
        for (fence, verdict) in FENCES.into_iter().zip(&mut verdicts) {
            *verdict |= Guard::of(fence).is_some_and(|guard| !self.has(guard));
        }
        self.verdicts = Some(verdicts);
        let refused = FENCES.into_iter().zip(verdicts).find(|(_, passes)| !passes);
        if let Some((fence, _)) = refused {
            return Err(StoreError::Fenced(fence));
        }
        let has_rearm = self.has(Guard::Rearm);
        self.change(&lease.agent, |kept| {
            kept.check_coverage(&patch)?;
            kept.move_watermark(patch.lo, patch.hi, now);
            kept.write_version(Revision::of(lease, &patch));
            let mut parked = false;
            let rearmed = if patch.park.is_some() {
                let row = kept.row.iter_mut();
                row.for_each(|row| give_up(row, lease, &patch, now));
                parked = kept.row.as_ref().is_some_and(|row| row.parked_at.is_some());
                true
            } else {
                kept.finish(lease, &patch, has_rearm, now)
            };
            Ok(Completion { version: kept.version, rearmed, parked })
        })
    }

    pub(crate) fn settle(&mut self, lease: &Lease, settle: Settle) -> StoreResult<Completion> {
        let now = self.time(settle.now);
        self.change(&lease.agent, |kept| {
            kept.held(lease)?;
            if !kept.is_at(settle.lo, settle.hi) {
                return Err(StoreError::Fenced(Fence::Watermark));
            }
            if kept.live(settle.lo + 1, settle.hi).next().is_some() {
                return Err(StoreError::Fenced(Fence::Exchanges));
            }
            kept.move_watermark(settle.lo, settle.hi, now);
            let is_done = kept.ledger.pending_numbers() == 0;
            let row = kept.held(lease)?;
            let rearmed = !(is_done && row.wake_seq == lease.claimed_wake);
            if rearmed {
                rearm(row, 0, now);
            } else {
                kept.row = None;
            }
            Ok(Completion { version: kept.version, rearmed, parked: false })
        })
    }
}
