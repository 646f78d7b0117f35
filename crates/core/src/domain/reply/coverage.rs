//! Finds which exchanges the items of an answer cover.

use super::CoveredExchanges;
use crate::domain::summary::item::{ExchangeRange, ItemDraft};

/// An item about more exchanges than this must have enough text. The prompt asks for at most five.
pub const ITEM_EXCHANGES_MAX: usize = 15;
/// Such an item must have at least this many characters for each of its exchanges. With fewer, digests say more.
const CHARS_PER_EXCHANGE_MIN: usize = 20;

/// What is wrong with an item's range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangeFault {
    /// It contains no exchange of the question, and neither does the range of any other item.
    #[error("#{} to #{} was not asked about", .0.first, .0.last)]
    Unknown(ExchangeRange),
    /// It has more than [`ITEM_EXCHANGES_MAX`] exchanges and its item has hardly any text. That is true of all items of the answer.
    #[error("#{} to #{} are too many for one item", .0.first, .0.last)]
    Broad(ExchangeRange),
}

/// Returns the exchanges of `range` that are among `exchanges` (ascending), as runs of consecutive numbers. An item of that range covers
/// these, since a range may span exchanges that were set aside.
pub fn runs(range: ExchangeRange, exchanges: &[i64]) -> Vec<ExchangeRange> {
    clip_range(range, exchanges)
        .chunk_by(|one, next| one.checked_add(1) == Some(*next))
        .filter_map(ends)
        .collect()
}

/// Clips the drafts to the exchanges of the question and to each other, sorts them, drops drafts that say too little, and finds the gaps.
pub(super) fn clip_and_sort(
    drafts: Vec<ItemDraft>,
    exchanges: &[i64],
) -> Result<CoveredExchanges, RangeFault> {
    let first = drafts.first().map(|draft| draft.exchanges);
    let mut drafts = clip(drafts, exchanges);
    let Some(first_clipped) = drafts.first().map(|draft| draft.exchanges) else {
        let none = ExchangeRange { first: 0, last: 0 };
        return Err(RangeFault::Unknown(first.unwrap_or(none)));
    };
    drafts.retain(|draft| !is_broad(draft, exchanges));
    if drafts.is_empty() {
        return Err(RangeFault::Broad(first_clipped));
    }
    let drafts = make_disjoint(without_containers(drafts), exchanges);
    let is_covered = |exchange: &i64| drafts.iter().any(|draft| draft.exchanges.contains(*exchange));
    let missing = exchanges.iter().copied().filter(|exchange| !is_covered(exchange));
    let missing = missing.collect();
    Ok(CoveredExchanges { drafts, missing })
}

/// Clips the drafts to exchanges of the question. Leaves out drafts without such an exchange.
fn clip(drafts: Vec<ItemDraft>, exchanges: &[i64]) -> Vec<ItemDraft> {
    let clipped = drafts.into_iter().filter_map(|draft| {
        let exchanges = ends(clip_range(draft.exchanges, exchanges))?;
        Some(ItemDraft { exchanges, ..draft })
    });
    clipped.collect()
}

fn is_broad(draft: &ItemDraft, exchanges: &[i64]) -> bool {
    let count = clip_range(draft.exchanges, exchanges).len();
    count > ITEM_EXCHANGES_MAX && draft.text.chars().count() < count * CHARS_PER_EXCHANGE_MIN
}

/// Removes each item whose range contains the ranges of several other items.
fn without_containers(drafts: Vec<ItemDraft>) -> Vec<ItemDraft> {
    let ranges: Vec<ExchangeRange> = drafts.iter().map(|draft| draft.exchanges).collect();
    let contains = |outer: ExchangeRange, inner: ExchangeRange| {
        outer != inner && outer.first <= inner.first && inner.last <= outer.last
    };
    let is_container = |draft: &ItemDraft| {
        let inner = ranges.iter().filter(|range| contains(draft.exchanges, **range));
        inner.take(2).count() == 2
    };
    drafts.into_iter().filter(|draft| !is_container(draft)).collect()
}

/// Sorts the drafts and makes them disjoint. Of two drafts, the first keeps a shared exchange. A draft that is left without an exchange
/// becomes a point of the draft before it.
fn make_disjoint(mut drafts: Vec<ItemDraft>, exchanges: &[i64]) -> Vec<ItemDraft> {
    drafts.sort_by_key(|draft| (draft.exchanges.first, std::cmp::Reverse(draft.exchanges.last)));
    let mut disjoint: Vec<ItemDraft> = Vec::with_capacity(drafts.len());
    for mut draft in drafts {
        let Some(previous) = disjoint.last_mut() else {
            disjoint.push(draft);
            continue;
        };
        let start = exchanges.partition_point(|exchange| *exchange <= previous.exchanges.last);
        match exchanges.get(start).filter(|next| **next <= draft.exchanges.last) {
            Some(next) => {
                draft.exchanges.first = draft.exchanges.first.max(*next);
                disjoint.push(draft);
            }
            None => absorb(previous, &draft),
        }
    }
    disjoint
}

/// Appends the texts of `more` to a draft about the same exchanges.
fn absorb(draft: &mut ItemDraft, more: &ItemDraft) {
    draft.importance = draft.importance.max(more.importance);
    for (text, more) in [(&mut draft.text, &more.text), (&mut draft.brief, &more.brief)] {
        if !text.lines().any(|line| line == more) {
            text.push('\n');
            text.push_str(more);
        }
    }
}

fn clip_range(range: ExchangeRange, exchanges: &[i64]) -> &[i64] {
    let from = exchanges.partition_point(|exchange| *exchange < range.first);
    let to = exchanges.partition_point(|exchange| *exchange <= range.last);
    exchanges.get(from..to).unwrap_or_default()
}

fn ends(exchanges: &[i64]) -> Option<ExchangeRange> {
    Some(ExchangeRange { first: *exchanges.first()?, last: *exchanges.last()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::summary::item::Importance;

    #[test]
    fn runs_leave_out_exchanges_not_asked_about() {
        let run = |first, last| ExchangeRange { first, last };
        let exchanges = [3, 4, 7, 8, 12];
        assert_eq!(runs(run(3, 12), &exchanges), [run(3, 4), run(7, 8), run(12, 12)]);
        assert_eq!(runs(run(4, 7), &exchanges), [run(4, 4), run(7, 7)]);
        assert_eq!(runs(run(9, 11), &exchanges), []);
        assert_eq!(runs(run(8, 3), &exchanges), []);
    }

    fn draft(first: i64, last: i64, text: &str, importance: Importance) -> ItemDraft {
        ItemDraft {
            exchanges: ExchangeRange { first, last },
            importance,
            text: text.to_owned(),
            brief: text.to_owned(),
            gist: text.to_owned(),
        }
    }

    #[test]
    fn several_items_about_one_exchange_become_its_points() {
        let drafts = vec![
            draft(3, 3, "one", Importance::Fix),
            draft(3, 3, "two", Importance::Decision),
            draft(3, 3, "one", Importance::Trivial),
        ];
        let placed = clip_and_sort(drafts, &[3]).unwrap();
        assert_eq!(placed.drafts.len(), 1);
        let one = &placed.drafts[0];
        assert_eq!((one.text.as_str(), one.gist.as_str()), ("one\ntwo", "one"));
        assert_eq!((one.importance, placed.missing), (Importance::Decision, vec![]));
    }

    #[test]
    fn an_item_about_everything_hides_no_others() {
        let drafts = vec![
            draft(i64::MIN, i64::MAX, "all", Importance::Fix),
            draft(1, 2, "a", Importance::Fix),
            draft(3, 4, "b", Importance::Fix),
        ];
        let placed = clip_and_sort(drafts, &[1, 2, 3, 4, 5]).unwrap();
        assert_eq!((placed.drafts.len(), placed.missing), (2, vec![5]));
    }
}
