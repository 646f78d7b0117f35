//! Which exchanges the items of an answer cover.

use super::Checked;
use crate::domain::summary::item::{ExchangeRange, ItemDraft};

/// The most exchanges that one item stands for: at most five are asked for, and one line can't tell of many more.
pub const ITEM_EXCHANGES_MAX: usize = 15;

/// What is wrong with an item's range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangeFault {
    /// It ends before it begins.
    #[error("#{} to #{} is reversed", .0.first, .0.last)]
    Reversed(ExchangeRange),
    /// No exchange in it was asked about.
    #[error("#{} to #{} was not asked about", .0.first, .0.last)]
    Unknown(ExchangeRange),
    /// Two items claim the same exchange.
    #[error("#{} to #{} and #{} to #{} overlap", .0.first, .0.last, .1.first, .1.last)]
    Overlapping(ExchangeRange, ExchangeRange),
    /// Of more than [`ITEM_EXCHANGES_MAX`] exchanges, as all items of the answer are.
    #[error("#{} to #{} are too many for one item", .0.first, .0.last)]
    Broad(ExchangeRange),
}

/// The exchanges of `range` among `exchanges` (ascending), as runs of consecutive numbers: what an item of that range
/// really covers, since a range may span exchanges that were set aside.
pub fn runs(range: ExchangeRange, exchanges: &[i64]) -> Vec<ExchangeRange> {
    within(range, exchanges)
        .chunk_by(|one, next| one.checked_add(1) == Some(*next))
        .filter_map(ends)
        .collect()
}

/// Clips the drafts to the exchanges asked about, sorts them, leaves out those about too many, and finds the exchanges
/// that no draft is about.
pub(super) fn place(mut drafts: Vec<ItemDraft>, asked: &[i64]) -> Result<Checked, RangeFault> {
    for draft in &mut drafts {
        draft.exchanges = clip(draft.exchanges, asked)?;
    }
    drafts.sort_by_key(|draft| draft.exchanges);
    for pair in drafts.windows(2) {
        if let [one, next] = pair
            && next.exchanges.first <= one.exchanges.last
        {
            return Err(RangeFault::Overlapping(one.exchanges, next.exchanges));
        }
    }
    let is_broad = |draft: &ItemDraft| within(draft.exchanges, asked).len() > ITEM_EXCHANGES_MAX;
    if let Some(first) = drafts.first()
        && drafts.iter().all(is_broad)
    {
        return Err(RangeFault::Broad(first.exchanges));
    }
    drafts.retain(|draft| !is_broad(draft));
    let is_covered = |exchange: &i64| drafts.iter().any(|draft| draft.exchanges.contains(*exchange));
    let missing = asked
        .iter()
        .copied()
        .filter(|exchange| !is_covered(exchange))
        .collect();
    Ok(Checked { drafts, missing })
}

fn clip(range: ExchangeRange, asked: &[i64]) -> Result<ExchangeRange, RangeFault> {
    if range.last < range.first {
        return Err(RangeFault::Reversed(range));
    }
    ends(within(range, asked)).ok_or(RangeFault::Unknown(range))
}

fn within(range: ExchangeRange, exchanges: &[i64]) -> &[i64] {
    let from = exchanges.partition_point(|exchange| *exchange < range.first);
    let to = exchanges.partition_point(|exchange| *exchange <= range.last);
    exchanges.get(from..to).unwrap_or_default()
}

fn ends(exchanges: &[i64]) -> Option<ExchangeRange> {
    Some(ExchangeRange {
        first: *exchanges.first()?,
        last: *exchanges.last()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_leave_out_what_was_not_asked_about() {
        let run = |first, last| ExchangeRange { first, last };
        let asked = [3, 4, 7, 8, 12];
        assert_eq!(runs(run(3, 12), &asked), [run(3, 4), run(7, 8), run(12, 12)]);
        assert_eq!(runs(run(4, 7), &asked), [run(4, 4), run(7, 7)]);
        assert_eq!(runs(run(9, 11), &asked), []);
        assert_eq!(runs(run(8, 3), &asked), []);
    }
}
