//! Versions, as updates and rewinds write them.

use super::{AgentTables, KeptItem, KeptVersion};
use recapd_core::domain::{
    exchange::Exchange,
    summary::{
        compaction::{SummaryPolicy, compose_with},
        coverage::digest_items,
        item::Item,
        state::FactUpdate,
    },
    time::Timestamp,
    tokens::TokenCounter,
};

pub(super) struct Revision {
    pub(super) token: i64,
    pub(super) covers: (i64, i64),
    pub(super) is_rewind: bool,
    /// New items, and whether they are hidden.
    pub(super) added: Vec<(Item, bool)>,
    pub(super) dropped: Vec<i64>,
    pub(super) removed: Vec<i64>,
    pub(super) facts: FactUpdate,
    pub(super) content: String,
    pub(super) token_count: i64,
    pub(super) next_ageing_at: Option<Timestamp>,
}

impl AgentTables {
    pub(super) fn write_version(&mut self, revision: Revision) {
        self.version += 1;
        self.content = revision.content;
        self.token_count = revision.token_count;
        self.next_ageing_at = revision.next_ageing_at;
        self.versions.push(KeptVersion {
            version: self.version,
            token: revision.token,
            covers_after: revision.covers.0,
            covers_through: revision.covers.1,
            is_rewind: revision.is_rewind,
        });
        for kept in &mut self.items {
            kept.is_dropped |= revision.dropped.contains(&kept.item.item);
            kept.is_removed |= revision.removed.contains(&kept.item.item);
        }
        let next = self.items.last().map_or(1, |last| last.item.item + 1);
        for (number, (item, is_dropped)) in (next..).zip(revision.added) {
            self.items.push(KeptItem { item: Item { item: number, ..item }, is_dropped, is_removed: false });
        }
        self.write_facts(revision.facts);
    }

    /// Withdraws the items that reach beyond the watermark; digests replace them for the other exchanges that they covered.
    pub(super) fn withdraw(
        &mut self,
        token: i64,
        policy: &SummaryPolicy,
        counter: &dyn TokenCounter,
        now: Timestamp,
    ) {
        let through = self.ledger.summarized_through;
        let in_force = self.items.iter().filter(|kept| !kept.is_removed).map(|kept| &kept.item);
        let reaches_beyond = |item: &&Item| item.ranges.iter().any(|range| range.last > through);
        let withdrawn: Vec<&Item> = in_force.filter(reaches_beyond).collect();
        let stood_for = |exchange: &&Exchange| withdrawn.iter().any(|item| item.covers(exchange.exchange));
        let orphans: Vec<Exchange> = self.live(1, through).filter(stood_for).cloned().collect();
        let removed: Vec<i64> = withdrawn.iter().map(|item| item.item).collect();
        let mut items = self.shown();
        items.retain(|item| !removed.contains(&item.item));
        let old = items.len();
        items.extend(digest_items(&orphans));
        let facts = self.facts_taken_back(through);
        let composed = compose_with(&facts.holding(&self.holding()), &items, now, policy, counter);
        let is_dropped = |index: usize| composed.dropped.contains(&index);
        let numbered = items.iter().enumerate();
        let (kept, new): (Vec<_>, Vec<_>) = numbered.partition(|(index, _)| *index < old);
        let dropped = kept.iter().filter(|(index, _)| is_dropped(*index));
        let dropped = dropped.map(|(_, item)| item.item).collect();
        let added = new.iter().map(|(index, item)| ((*item).clone(), is_dropped(*index)));
        let added = added.collect();
        self.write_version(Revision {
            token,
            covers: (through, through),
            is_rewind: true,
            added,
            dropped,
            removed,
            facts,
            content: composed.document,
            token_count: composed.tokens,
            next_ageing_at: composed.next_change,
        });
    }
}
