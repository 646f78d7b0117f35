//! A ranking by the index's rows against one that looks at every message and sorts everything.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{
    super::{IndexSource, Query, Role, TimeSpan, stem::stem},
    *,
};
use crate::domain::{
    message::{Kind, Message, Part},
    time::{SECOND_MS, Timestamp},
};

/// Messages whose numbers are this far apart fill several blocks.
const STRIDE: i64 = 700;
const WORDS: [&str; 6] = ["door", "token", "parser", "plan", "secret", "garden"];

#[derive(Clone, Debug)]
struct Remark {
    is_user: bool,
    /// Places in [`WORDS`].
    words: Vec<usize>,
    begins_exchange: bool,
}

fn archive() -> impl Strategy<Value = Vec<Remark>> {
    let said = (any::<bool>(), prop::collection::vec(0..WORDS.len(), 0..6), any::<bool>());
    let said = said.prop_map(|(is_user, words, begins_exchange)| Remark { is_user, words, begins_exchange });
    prop::collection::vec(said, 0..40)
}

fn search() -> impl Strategy<Value = ArchiveSearch> {
    let words = prop::collection::vec(0..WORDS.len(), 0..4);
    (words, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(words, of_user, has_time, is_recent)| {
        let text: Vec<&str> = words.iter().map(|place| WORDS[*place]).collect();
        let query = Query::parse(&text.join(" ")).unwrap_or_else(|_| Query::everything());
        ArchiveSearch {
            filter: Filter { role: of_user.then_some(Role::User), ..Filter::default() },
            preferred: has_time.then_some(TimeSpan {
                since: Timestamp(5 * STRIDE * SECOND_MS),
                until: Timestamp(15 * STRIDE * SECOND_MS),
            }),
            order: if is_recent { Order::Recent } else { Order::Best },
            ..ArchiveSearch::new(query, 10)
        }
    })
}

/// The messages with their exchanges and numbers.
fn sources(archive: &[Remark]) -> Vec<(i64, i64, Message)> {
    let mut exchange = 1;
    let numbered = archive.iter().zip(1_i64..).map(|(said, number)| {
        exchange += i64::from(said.begins_exchange);
        let text: Vec<&str> = said.words.iter().map(|place| WORDS[*place]).collect();
        let kind = if said.is_user { Kind::User } else { Kind::Assistant };
        let message = Message::new(kind, vec![Part::Text(text.join(" "))]);
        (number * STRIDE, exchange, message)
    });
    numbered.collect()
}

/// The parts that a store reads for a search: the postings of its words, and the messages that are found.
fn candidates(sources: &[(i64, i64, Message)], search: &ArchiveSearch) -> Candidates {
    let mut candidates = Candidates::default();
    let whole = IndexPart::of(sources.iter().map(|(seq, exchange, message)| IndexSource {
        seq: *seq,
        exchange: *exchange,
        said_at: Timestamp(*seq * SECOND_MS),
        message,
    }));
    for part in whole {
        let mut read = IndexPart::new(part.block());
        for (stem, count, bytes) in part.rows().filter(|(stem, ..)| search.stems().contains(*stem)) {
            read.add_rows(vec![(stem.to_owned(), i64::try_from(count).unwrap())], &bytes);
        }
        read.add_found(&part.messages_bytes(), search);
        candidates.totals += part.totals();
        candidates.parts.push(read);
    }
    candidates
}

/// Each exchange with its score, by looking at every message.
fn expected(archive: &[Remark], search: &ArchiveSearch, totals: IndexTotals) -> Vec<(i64, f64)> {
    let stems_of =
        |said: &Remark| -> Vec<String> { said.words.iter().map(|place| stem(WORDS[*place])).collect() };
    let having =
        |term: &str| archive.iter().filter(|said| stems_of(said).iter().any(|stem| stem == term)).count();
    let all = Candidates { totals, ..Candidates::default() };
    let mean = (float(totals.words) / float(totals.messages.max(1))).max(1.0);
    let mut scores: BTreeMap<i64, Vec<f64>> = BTreeMap::new();
    for (said, (seq, exchange, _)) in archive.iter().zip(sources(archive)) {
        if said.words.is_empty() || (search.filter.role.is_some() && !said.is_user) {
            continue;
        }
        let norm = K1 * (1.0 - B + B * float(said.words.len()) / mean);
        let parts = search.query.terms().iter().filter_map(|term| {
            let count = float(stems_of(said).iter().filter(|stem| *stem == term.stem()).count());
            (count > 0.0).then(|| all.weight(having(term.stem())) * count * (K1 + 1.0) / (count + norm))
        });
        let parts: Vec<f64> = parts.collect();
        let at = Timestamp(seq * SECOND_MS);
        let is_preferred = search.preferred.is_some_and(|span| span.since <= at && at < span.until);
        if !parts.is_empty() || (search.has_no_terms() && (is_preferred || search.preferred.is_none())) {
            let score: f64 = parts.iter().sum();
            let score = if is_preferred { score * PREFERRED } else { score };
            scores.entry(exchange).or_default().push(score);
        }
    }
    let alone: BTreeMap<i64, f64> = scores
        .into_iter()
        .map(|(exchange, mut scores)| {
            scores.sort_by(|one, other| other.total_cmp(one));
            let halved = scores.iter().rev().fold(0.0, |sum, score| score + sum * FURTHER);
            (exchange, halved)
        })
        .collect();
    let near = |exchange: i64| alone.get(&exchange).copied().unwrap_or_default();
    alone
        .iter()
        .map(|(exchange, score)| (*exchange, score + NEIGHBOUR * (near(exchange - 1) + near(exchange + 1))))
        .collect()
}

proptest! {
    #[test]
    fn ranking_by_the_index_equals_ranking_by_all_messages(archive in archive(), search in search()) {
        let candidates = candidates(&sources(&archive), &search);
        let ranked = candidates.rank(&search);
        let scores: BTreeMap<i64, f64> = expected(&archive, &search, candidates.totals).into_iter().collect();
        prop_assert_eq!(ranked.len(), scores.len());
        for found in &ranked {
            prop_assert!((found.score - scores[&found.exchange]).abs() < 1e-9, "{:?} {:?}", found, scores);
        }
        for pair in ranked.windows(2) {
            let is_newer = pair[0].exchange > pair[1].exchange;
            let by_score = pair[0].score.total_cmp(&pair[1].score);
            let is_better = by_score.is_gt() || (by_score.is_eq() && is_newer);
            prop_assert!(if search.order == Order::Recent { is_newer } else { is_better }, "{:?}", pair);
        }
    }

    #[test]
    fn the_first_in_order_begin_the_whole_sorted_list(scores in prop::collection::vec(0..20_u8, 0..60), limit in 0..70_usize) {
        let scored: Vec<ScoredExchange> = scores.iter().zip(0..).map(|(score, exchange)| ScoredExchange {
            exchange,
            score: f64::from(*score),
            terms: 1,
            first_hit: 0,
        }).collect();
        let exchanges = |scored: Vec<ScoredExchange>| -> Vec<u32> { scored.iter().map(|found| found.exchange).collect() };
        for order in [Order::Best, Order::Recent] {
            let mut all = exchanges(first_in_order(scored.clone(), order, usize::MAX));
            all.truncate(limit);
            prop_assert_eq!(exchanges(first_in_order(scored.clone(), order, limit)), all);
        }
    }
}
