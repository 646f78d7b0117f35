//! Coverage: turns drafts into items that cover each exchange exactly once.
//!
//! Invariant: the items' ranges cover each live exchange of the question exactly once, and no other exchange. Times and tokens come from
//! the exchanges, never from a model.

use super::{
    item::{
        BRIEF_CHARS_MAX, ExchangeRange, GIST_CHARS_MAX, Importance, Item, ItemDraft, Origin, TEXT_CHARS_MAX,
        brief_chars_max, text_chars_max,
    },
    line::clean,
    point::points,
};
use crate::domain::{exchange::Exchange, text::cut_at_sentence};

/// Limits a digest item to this many exchanges.
pub const DIGEST_EXCHANGES_MAX: usize = 4;

/// Why drafts can't be used. The caller asks the model again, or takes [`digest_items`] instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CoverageError {
    /// A draft ends before it begins.
    #[error("a draft about exchanges #{first} to #{last} is inverted")]
    Inverted {
        /// Its first exchange.
        first: i64,
        /// Its last exchange.
        last: i64,
    },
    /// A draft begins before the draft preceding it ends.
    #[error("exchange #{exchange} is covered twice, or drafts are out of order")]
    Overlap {
        /// First exchange of the later draft.
        exchange: i64,
    },
    /// A draft goes beyond the exchanges that were asked about, or covers none of them.
    #[error("a draft is about exchanges #{first} to #{last}, which were not asked about")]
    NotAsked {
        /// Its first exchange.
        first: i64,
        /// Its last exchange.
        last: i64,
    },
}

/// Makes items from `drafts` about `exchanges`. Leaves out exchanges that are set aside. Gives provisional digest items to exchanges that
/// no draft covers. Returns the oldest items first.
///
/// # Errors
/// If the drafts overlap, are out of order, or name exchanges outside of `exchanges`.
pub fn items_from(
    drafts: &[ItemDraft],
    exchanges: &[Exchange],
    origin: Origin,
) -> Result<Vec<Item>, CoverageError> {
    let live = live(exchanges);
    check_drafts(drafts, &live)?;
    let mut items = Vec::new();
    let mut rest = live.as_slice();
    for draft in drafts {
        let ExchangeRange { first, last } = draft.exchanges;
        let (gap, from_draft) = rest.split_at(rest.partition_point(|exchange| exchange.exchange < first));
        let (covered, after_draft) =
            from_draft.split_at(from_draft.partition_point(|exchange| exchange.exchange <= last));
        if covered.is_empty() {
            return Err(CoverageError::NotAsked { first, last });
        }
        items.extend(digests(gap));
        items.push(item_from_draft(draft, covered, origin));
        rest = after_draft;
    }
    items.extend(digests(rest));
    Ok(items)
}

/// Makes provisional digest items for the live exchanges. Up to [`DIGEST_EXCHANGES_MAX`] exchanges of one day (UTC) share an item.
pub fn digest_items(exchanges: &[Exchange]) -> Vec<Item> {
    digests(&live(exchanges))
}

/// Returns the numbers from 1 to `through` that no range in `covered` contains.
pub fn gaps(mut covered: Vec<ExchangeRange>, through: i64) -> Vec<ExchangeRange> {
    covered.sort_unstable();
    let mut gaps = Vec::new();
    let mut next = 1;
    let end = ExchangeRange { first: through.saturating_add(1), last: i64::MAX };
    for range in covered.into_iter().chain([end]) {
        let last = range.first.min(end.first) - 1;
        if next <= last {
            gaps.push(ExchangeRange { first: next, last });
        }
        next = next.max(range.last.saturating_add(1));
    }
    gaps
}

/// Returns the exchanges that aren't set aside, each once, sorted by number.
fn live(exchanges: &[Exchange]) -> Vec<&Exchange> {
    let mut live: Vec<&Exchange> =
        exchanges.iter().filter(|exchange| exchange.set_aside_at.is_none()).collect();
    live.sort_by_key(|exchange| exchange.exchange);
    live.dedup_by_key(|exchange| exchange.exchange);
    live
}

fn check_drafts(drafts: &[ItemDraft], live: &[&Exchange]) -> Result<(), CoverageError> {
    let first_live = live.first().map_or(i64::MAX, |exchange| exchange.exchange);
    let last_live = live.last().map_or(i64::MIN, |exchange| exchange.exchange);
    let mut covered_through = i64::MIN;
    for draft in drafts {
        let ExchangeRange { first, last } = draft.exchanges;
        if first > last {
            return Err(CoverageError::Inverted { first, last });
        }
        if first < first_live || last > last_live {
            return Err(CoverageError::NotAsked { first, last });
        }
        if first <= covered_through {
            return Err(CoverageError::Overlap { exchange: first });
        }
        covered_through = last;
    }
    Ok(())
}

/// Returns the first points of `text` that fit into `chars_max` characters. A summariser may write more, since it doesn't know the limit.
fn keep_fitting_points(text: &str, chars_max: usize) -> String {
    points(text, chars_max, cut_at_sentence).join("\n")
}

fn item_from_draft(draft: &ItemDraft, covered: &[&Exchange], origin: Origin) -> Item {
    let blank = blank(covered);
    let tokens = blank.source_tokens;
    Item {
        importance: draft.importance,
        text: keep_fitting_points(&draft.text, text_chars_max(tokens)),
        brief: keep_fitting_points(&draft.brief, brief_chars_max(tokens)),
        gist: draft.gist.clone(),
        origin,
        provisional: false,
        ..blank
    }
}

/// Makes digest items, each of exchanges of one day.
fn digests(gap: &[&Exchange]) -> Vec<Item> {
    let day = |exchange: &Exchange| exchange.opened_at.format("%F");
    gap.chunk_by(|one, next| day(one) == day(next))
        .flat_map(|same_day| same_day.chunks(DIGEST_EXCHANGES_MAX))
        .map(digest)
        .collect()
}

fn digest(covered: &[&Exchange]) -> Item {
    // Each exchange gets an equal share of the text, so that a long one doesn't push out the others.
    let joined = |chars_max: usize, text_of: &dyn Fn(&Exchange) -> String| {
        let separators = "; ".len() * (covered.len().max(1) - 1);
        let share = (chars_max - separators) / covered.len().max(1);
        let parts: Vec<String> = covered.iter().map(|exchange| clean(&text_of(exchange), share)).collect();
        parts.join("; ")
    };
    let title = |exchange: &Exchange| match exchange.headline.title.as_str() {
        "" => exchange.digest(),
        title => exchange.with_marks(title),
    };
    Item {
        text: joined(TEXT_CHARS_MAX, &Exchange::digest),
        brief: if covered.len() == 1 {
            joined(BRIEF_CHARS_MAX, &Exchange::digest)
        } else {
            joined(BRIEF_CHARS_MAX, &title)
        },
        gist: gist(&covered.iter().map(|exchange| title(exchange)).collect::<Vec<_>>()),
        ..blank(covered)
    }
}

/// Returns the longest title and how many others there are. Parts of several titles would be meaningless.
fn gist(titles: &[String]) -> String {
    let suffix = match titles.len() {
        0 | 1 => String::new(),
        titles => format!(" (+{} more)", titles - 1),
    };
    // Takes the first of equally long titles; `max_by_key` alone would take the last.
    let longest = titles.iter().rev().max_by_key(|title| title.chars().count());
    let title = longest.map_or("", String::as_str);
    clean(title, GIST_CHARS_MAX - suffix.len()) + &suffix
}

/// Returns a provisional digest item about `covered` whose texts are empty.
fn blank(covered: &[&Exchange]) -> Item {
    Item {
        item: 0,
        ranges: runs(covered),
        started_at: covered.iter().map(|exchange| exchange.opened_at).min().unwrap_or_default(),
        ended_at: covered.iter().map(|exchange| exchange.last_at).max().unwrap_or_default(),
        source_tokens: covered.iter().fold(0, |sum: i64, exchange| sum.saturating_add(exchange.tokens)),
        // The importance is unknown, so the item is neither dropped early nor late.
        importance: Importance::Fix,
        text: String::new(),
        brief: String::new(),
        gist: String::new(),
        origin: Origin::Digest,
        provisional: true,
        pinned: false,
    }
}

/// Returns the ranges of consecutive numbers in `covered`.
fn runs(covered: &[&Exchange]) -> Vec<ExchangeRange> {
    covered
        .chunk_by(|one, next| one.exchange + 1 == next.exchange)
        .filter_map(|run| Some(ExchangeRange { first: run.first()?.exchange, last: run.last()?.exchange }))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::{
        exchange::ExchangeState,
        summary::fixtures::exchange,
        time::{DAY_MS, HOUR_MS, Timestamp},
    };

    fn draft(first: i64, last: i64) -> ItemDraft {
        ItemDraft {
            exchanges: ExchangeRange { first, last },
            importance: Importance::Decision,
            text: "Text".to_owned(),
            brief: "Brief".to_owned(),
            gist: "Gist".to_owned(),
        }
    }

    fn exchanges(numbers: &[i64]) -> Vec<Exchange> {
        numbers.iter().map(|&n| exchange(n, Timestamp(n * HOUR_MS))).collect()
    }

    #[test]
    fn drafts_become_items_and_gaps_become_digests() {
        let items =
            items_from(&[draft(2, 4), draft(7, 7)], &exchanges(&[1, 2, 4, 5, 6, 7, 8]), Origin::Model)
                .unwrap();
        let lines: Vec<String> = items
            .iter()
            .map(|item| {
                format!(
                    "{} {} {} {} | {} | {} | {}",
                    crate::domain::summary::line::ranges(&item.ranges),
                    item.origin.name(),
                    item.provisional,
                    item.source_tokens,
                    item.text,
                    item.brief,
                    item.gist
                )
            })
            .collect();
        insta::assert_snapshot!(lines.join("\n"), @r"
        #1 digest true 100 | Question 1 → bash ×2 → Answer 1 | Question 1 → bash ×2 → Answer 1 | Question 1
        #2, #4 model false 200 | Text | Brief | Gist
        #5–#6 digest true 200 | Question 5 → bash ×2 → Answer 5; Question 6 → bash ×2 → Answer 6 | Question 5; Question 6 | Question 5 (+1 more)
        #7 model false 100 | Text | Brief | Gist
        #8 digest true 100 | Question 8 → bash ×2 → Answer 8 | Question 8 → bash ×2 → Answer 8 | Question 8
        ");
        let two_to_four = &items[1];
        assert_eq!(two_to_four.started_at, Timestamp(2 * HOUR_MS));
        assert_eq!(two_to_four.ended_at, Timestamp(4 * HOUR_MS + 1_000));
    }

    #[test]
    fn a_digest_item_covers_at_most_four_exchanges_of_one_day() {
        let numbers: Vec<i64> = (1..=30).collect();
        let counts: Vec<i64> =
            digest_items(&exchanges(&numbers)).iter().map(|item| item.source_tokens / 100).collect();
        assert_eq!(counts, [4, 4, 4, 4, 4, 3, 4, 3]);
        let mut one_set_aside = exchanges(&[1, 2, 3]);
        one_set_aside[1].set_aside_at = Some(Timestamp(DAY_MS));
        assert_eq!(digest_items(&one_set_aside)[0].source_tokens, 200);
        assert_eq!(digest_items(&[]), []);
    }

    #[test]
    fn a_digest_gives_every_exchange_a_share() {
        let mut talkative = exchanges(&[1, 2, 3, 4]);
        for exchange in &mut talkative {
            exchange.headline.title = format!("{} {}", exchange.exchange, "many words ".repeat(14));
        }
        let [item] = digest_items(&talkative).try_into().unwrap();
        for (text, chars_max, last) in [
            (item.text, TEXT_CHARS_MAX, "; 4 many words"),
            (item.brief, BRIEF_CHARS_MAX, "; 4 many words"),
            (item.gist, GIST_CHARS_MAX, " (+3 more)"),
        ] {
            assert!(text.chars().count() <= chars_max);
            assert!(text.contains(last), "{text}");
        }
    }

    #[test]
    fn a_digest_always_marks_interrupted_exchanges() {
        let mut exchanges = exchanges(&[1, 2]);
        exchanges[0].state = ExchangeState::Interrupted;
        exchanges[0].headline.title = "many words ".repeat(14);
        let [item] = digest_items(&exchanges).try_into().unwrap();
        for text in [&item.text, &item.brief, &item.gist] {
            assert!(text.starts_with("(interrupted) many words"), "{text}");
            assert_eq!(text.matches("(interrupted)").count(), 1, "{text}");
        }
        assert!(item.text.ends_with("; Question 2 → bash ×2 → Answer 2"), "{item:?}");
        let [alone] = digest_items(&exchanges[..1]).try_into().unwrap();
        assert!(alone.brief.starts_with("(interrupted) many words"), "{alone:?}");
    }

    #[test]
    fn gaps_are_the_uncovered_exchanges() {
        let range = |(first, last)| ExchangeRange { first, last };
        for (covered, through, expected) in [
            (vec![], 0, vec![]),
            (vec![], 3, vec![(1, 3)]),
            (vec![(4, 6), (1, 2), (5, 8)], 9, vec![(3, 3), (9, 9)]),
            (vec![(2, 9)], 5, vec![(1, 1)]),
            (vec![(7, 9)], 5, vec![(1, 5)]),
        ] {
            let covered: Vec<ExchangeRange> = covered.into_iter().map(range).collect();
            let expected: Vec<ExchangeRange> = expected.into_iter().map(range).collect();
            assert_eq!(gaps(covered, through), expected);
        }
    }

    #[test]
    fn invalid_drafts_are_refused() {
        let asked = exchanges(&[3, 4, 7, 8]);
        let cases = [
            (vec![draft(4, 3)], CoverageError::Inverted { first: 4, last: 3 }),
            (vec![draft(3, 4), draft(4, 7)], CoverageError::Overlap { exchange: 4 }),
            (vec![draft(7, 8), draft(3, 4)], CoverageError::Overlap { exchange: 3 }),
            (vec![draft(1, 3)], CoverageError::NotAsked { first: 1, last: 3 }),
            (vec![draft(8, 9)], CoverageError::NotAsked { first: 8, last: 9 }),
            (vec![draft(5, 6)], CoverageError::NotAsked { first: 5, last: 6 }),
        ];
        for (drafts, error) in cases {
            assert_eq!(items_from(&drafts, &asked, Origin::Model), Err(error));
        }
        let none = CoverageError::NotAsked { first: 1, last: 1 };
        assert_eq!(items_from(&[draft(1, 1)], &[], Origin::Model), Err(none));
    }

    proptest! {
        #[test]
        fn each_live_exchange_is_covered_exactly_once(
            kinds in prop::collection::vec((any::<bool>(), any::<bool>(), 0..3 * DAY_MS), 1..40),
            cuts in prop::collection::vec((0_i64..40, 0_i64..6), 0..12),
        ) {
            let all: Vec<Exchange> = (1..).zip(&kinds).map(|(n, &(live, _, ms))| {
                let mut exchange = exchange(n, Timestamp(ms));
                exchange.set_aside_at = (!live).then_some(Timestamp(0));
                exchange
            }).collect();
            let live: Vec<i64> = all.iter().filter(|e| e.set_aside_at.is_none()).map(|e| e.exchange).collect();
            let mut drafts: Vec<ItemDraft> = Vec::new();
            let mut next = 0;
            for (skip, more) in cuts {
                let (first, last) = (next + 1 + skip % 5, next + 1 + skip % 5 + more);
                drafts.push(draft(first, last));
                next = last;
            }
            let asked_about = |draft: &ItemDraft| {
                let range = draft.exchanges;
                live.iter().any(|&n| range.contains(n))
                    && live.first().is_some_and(|&n| n <= range.first)
                    && live.last().is_some_and(|&n| range.last <= n)
            };
            drafts.retain(asked_about);
            for items in [items_from(&drafts, &all, Origin::Model).unwrap(), digest_items(&all)] {
                let covered: Vec<i64> = items.iter().flat_map(|item| &item.ranges).flat_map(|r| r.first..=r.last).collect();
                prop_assert_eq!(&covered, &live);
                let tokens: i64 = items.iter().map(|item| item.source_tokens).sum();
                prop_assert_eq!(tokens, 100 * i64::try_from(live.len()).unwrap());
            }
        }
    }
}
