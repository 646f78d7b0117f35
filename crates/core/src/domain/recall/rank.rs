//! Ranks the exchanges that match a search, in the same way for every database. Only the agent's own archive matters.
//!
//! BM25 scores each message. An exchange has the score of its best message, half of its second-best, a quarter of its third-best and so
//! on, and a part of the scores of the exchanges before and after it: a question often names what was said one exchange earlier.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    ops::Bound,
};

use super::{
    ArchiveSearch, Filter, Order, SessionRange, Term,
    index::{IndexPart, IndexTotals, Posting, list_for_block, tool_stem},
};

/// BM25: how soon further repetitions of a word add nothing (`K1`), and how much more often a long message must have the word (`B`).
const K1: f64 = 1.2;
const B: f64 = 0.75;
/// Each further message of an exchange counts this part of the one before it.
const FURTHER: f64 = 0.5;
/// Neighbouring exchanges count this part of their scores.
const NEIGHBOUR: f64 = 0.4;
/// Messages of the span that a question names count this many times.
const PREFERRED: f64 = 1.5;
/// Returns at most this many messages of an exchange.
const HITS_MAX: usize = 3;
/// Returns at most this many exchanges. All matching exchanges are compared.
pub const RANKED_MAX: usize = 1_000;

/// An exchange that matches a search.
#[derive(Clone, Debug, PartialEq)]
pub struct RankedExchange {
    /// Its number.
    pub exchange: i64,
    /// Its score, with the part from its neighbours.
    pub score: f64,
    /// The numbers of its best messages, best first.
    pub seqs: Vec<i64>,
    /// The terms that the exchange has, one bit each.
    terms: u64,
}

impl RankedExchange {
    /// Makes an exchange that was found by one message and has none of the terms.
    pub(super) fn without_terms(exchange: i64, score: f64, seq: i64) -> Self {
        Self { exchange, score, seqs: vec![seq], terms: 0 }
    }

    /// Returns true if the exchange has the term with this index in the query.
    pub fn has(&self, term: usize) -> bool {
        bit(term) & self.terms != 0
    }
}

/// The data of an archive that a search needs.
#[derive(Clone, Debug, Default)]
pub struct Candidates {
    /// The size of the whole archive.
    pub totals: IndexTotals,
    /// Parts of the index, in the order of the messages.
    pub parts: Vec<IndexPart>,
    /// The exchanges of the session that the filter names.
    pub session: Option<SessionRange>,
    /// The messages whose texts really have a phrase, by the index of the phrase among the terms.
    pub verified: HashMap<usize, HashSet<i64>>,
}

#[derive(Clone, Copy)]
struct Hit {
    exchange: u32,
    seq: i64,
    score: f64,
    terms: u64,
}

/// An exchange with its score, before it is ranked.
#[derive(Clone, Copy)]
struct ScoredExchange {
    exchange: u32,
    score: f64,
    terms: u64,
    /// The index of its best hit among all hits. Its other hits follow.
    first_hit: usize,
}

fn bit(term: usize) -> u64 {
    u32::try_from(term).ok().and_then(|term| 1_u64.checked_shl(term)).unwrap_or(0)
}

impl Candidates {
    /// Returns up to `limit` messages that may have the phrase `term`, newest first: messages with all its stems.
    pub fn find_phrase(&self, term: &Term, filter: &Filter, limit: usize) -> Vec<i64> {
        let newest_first = self.parts.iter().rev().flat_map(|part| {
            let mut postings = intersection(part, term).into_owned();
            postings
                .retain(|posting| part.message(posting.offset).is_some_and(|message| filter.admits(message)));
            postings.into_iter().rev().map(|posting| part.seq(posting.offset))
        });
        newest_first.take(limit).collect()
    }

    /// Returns the first [`RANKED_MAX`] matching exchanges, in the order that the search asks for.
    pub fn rank(&self, search: &ArchiveSearch) -> Vec<RankedExchange> {
        let mut hits = self.hits(search);
        if let Some(session) = &self.session {
            hits.retain(|hit| session.contains(&i64::from(hit.exchange)));
        }
        if let Some(tool) = &search.filter.tool {
            let callers = self.callers(tool);
            hits.retain(|hit| callers.contains(&hit.exchange));
        }
        // The hits are nearly sorted already.
        hits.sort_by_key(|hit| hit.exchange);
        let mut scored = exchanges(&mut hits);
        add_neighbours(&mut scored);
        let scored = first_in_order(scored, search.order, RANKED_MAX);
        scored.into_iter().map(|scored| with_best_hits(scored, &hits)).collect()
    }

    fn hits(&self, search: &ArchiveSearch) -> Vec<Hit> {
        let terms = search.query.terms();
        let columns: Vec<Vec<Cow<'_, [Posting]>>> =
            terms.iter().enumerate().map(|(index, term)| self.postings_by_part(index, term)).collect();
        let weights: Vec<f64> = columns
            .iter()
            .map(|column| self.weight(column.iter().map(|postings| postings.len()).sum()))
            .collect();
        let mean = float(self.totals.words) / float(self.totals.messages.max(1));
        let messages = self.parts.iter().map(|part| part.messages.len()).sum();
        let mut scorer = Scorer::new(search, mean.max(1.0), messages);
        for (index, part) in self.parts.iter().enumerate() {
            scorer.begin(part);
            for (term, (column, weight)) in columns.iter().zip(&weights).enumerate() {
                for posting in column.get(index).into_iter().flat_map(|postings| postings.iter()) {
                    scorer.add(*posting, *weight, bit(term));
                }
            }
            scorer.end(part, terms.is_empty());
        }
        scorer.hits
    }

    /// Returns the postings of a term in each part. If no message has the word, returns those of longer words that begin with it.
    fn postings_by_part(&self, index: usize, term: &Term) -> Vec<Cow<'_, [Posting]>> {
        if term.is_phrase() {
            let verified = self.verified.get(&index);
            let is_verified = |seq: i64| verified.is_some_and(|verified| verified.contains(&seq));
            return self
                .parts
                .iter()
                .map(|part| {
                    let mut postings = intersection(part, term).into_owned();
                    postings.retain(|posting| is_verified(part.seq(posting.offset)));
                    Cow::Owned(postings)
                })
                .collect();
        }
        let exact: Vec<Cow<'_, [Posting]>> = self.parts.iter().map(|part| intersection(part, term)).collect();
        if exact.iter().any(|postings| !postings.is_empty()) || !term.is_open() {
            return exact;
        }
        let prefix = term.stem();
        self.parts.iter().map(|part| Cow::Owned(with_prefix(part, prefix))).collect()
    }

    /// Returns the weight of a term that this many messages have.
    fn weight(&self, messages: usize) -> f64 {
        let matching = float(messages);
        let all = float(self.totals.messages).max(matching);
        (1.0 + (all - matching + 0.5) / (matching + 0.5)).ln()
    }

    fn callers(&self, tool: &str) -> HashSet<u32> {
        let stem = tool_stem(tool);
        let callers_in = |part: &IndexPart| {
            let calls: HashSet<u16> =
                part.postings.get(&stem).into_iter().flatten().map(|posting| posting.offset).collect();
            let messages = part.messages.iter().filter(|message| calls.contains(&message.offset));
            messages.map(|message| message.exchange).collect::<Vec<_>>()
        };
        self.parts.iter().flat_map(callers_in).collect()
    }
}

/// Scores the messages of one block after the other.
struct Scorer<'s> {
    search: &'s ArchiveSearch,
    mean: f64,
    /// The norm of each message number of the block; 0 for messages that the filter leaves out.
    norms: Vec<f64>,
    scores: Vec<f64>,
    terms: Vec<u64>,
    hits: Vec<Hit>,
}

impl<'s> Scorer<'s> {
    fn new(search: &'s ArchiveSearch, mean: f64, messages: usize) -> Self {
        Self {
            search,
            mean,
            norms: list_for_block(0.0),
            scores: list_for_block(0.0),
            terms: list_for_block(0),
            hits: Vec::with_capacity(messages),
        }
    }

    fn begin(&mut self, part: &IndexPart) {
        self.norms.fill(0.0);
        self.scores.fill(0.0);
        self.terms.fill(0);
        let admitted =
            part.messages.iter().filter(|message| message.words > 0 && self.search.filter.admits(message));
        for message in admitted {
            if let Some(norm) = self.norms.get_mut(usize::from(message.offset)) {
                *norm = K1 * (1.0 - B + B * f64::from(message.words) / self.mean);
            }
        }
    }

    fn add(&mut self, posting: Posting, weight: f64, bit: u64) {
        let index = usize::from(posting.offset);
        let norm = self.norms.get(index).copied().unwrap_or_default();
        if norm > 0.0
            && let (Some(score), Some(terms)) = (self.scores.get_mut(index), self.terms.get_mut(index))
        {
            let count = f64::from(posting.count);
            *score += weight * count * (K1 + 1.0) / (count + norm);
            *terms |= bit;
        }
    }

    /// Adds the block's hits: messages with a term, or, in a search without terms, all that it finds.
    fn end(&mut self, part: &IndexPart, has_no_terms: bool) {
        for message in &part.messages {
            let index = usize::from(message.offset);
            let terms = self.terms.get(index).copied().unwrap_or_default();
            if terms == 0 && !(has_no_terms && self.search.matches_without_terms(message)) {
                continue;
            }
            let score = self.scores.get(index).copied().unwrap_or_default();
            let is_preferred = self.search.preferred.is_some_and(|span| span.contains(message));
            self.hits.push(Hit {
                exchange: message.exchange,
                seq: part.seq(message.offset),
                score: if is_preferred { score * PREFERRED } else { score },
                terms,
            });
        }
    }
}

/// Returns the messages of a part that have all stems of a term.
fn intersection<'p>(part: &'p IndexPart, term: &Term) -> Cow<'p, [Posting]> {
    let mut lists = term.stems().iter().map(|stem| part.postings.get(stem).map_or(&[][..], Vec::as_slice));
    let mut common = Cow::Borrowed(lists.next().unwrap_or_default());
    for list in lists {
        common.to_mut().retain_mut(|posting| {
            let found = list.binary_search_by_key(&posting.offset, |other| other.offset);
            let other = found.ok().and_then(|index| list.get(index));
            posting.count = posting.count.min(other.map_or(0, |other| other.count));
            other.is_some()
        });
    }
    common
}

/// Returns the messages of a part that have a stem beginning with `prefix`.
fn with_prefix(part: &IndexPart, prefix: &str) -> Vec<Posting> {
    let mut counts: std::collections::BTreeMap<u16, u8> = std::collections::BTreeMap::new();
    let from = (Bound::Included(prefix), Bound::Unbounded);
    let stems = part.postings.range::<str, _>(from).take_while(|(stem, _)| stem.starts_with(prefix));
    for posting in stems.flat_map(|(_, postings)| postings) {
        let count = counts.entry(posting.offset).or_default();
        *count = count.saturating_add(posting.count);
    }
    counts.into_iter().map(|(offset, count)| Posting { offset, count }).collect()
}

/// Returns the exchanges of `hits`, which are sorted by exchange. Sorts the hits of each exchange, best first.
fn exchanges(hits: &mut [Hit]) -> Vec<ScoredExchange> {
    let mut first_hit = 0;
    let mut scored = Vec::with_capacity(hits.len());
    for hits in hits.chunk_by_mut(|one, next| one.exchange == next.exchange) {
        hits.sort_by(|one, other| other.score.total_cmp(&one.score).then(one.seq.cmp(&other.seq)));
        let (mut score, mut part) = (0.0, 1.0);
        for hit in &*hits {
            score += part * hit.score;
            part *= FURTHER;
        }
        scored.push(ScoredExchange {
            exchange: hits.first().map_or(0, |hit| hit.exchange),
            score,
            terms: hits.iter().fold(0, |terms, hit| terms | hit.terms),
            first_hit,
        });
        first_hit += hits.len();
    }
    scored
}

/// Returns the score of `found` if it is the exchange with this number, otherwise 0.
fn score_of(found: Option<ScoredExchange>, exchange: Option<u32>) -> f64 {
    found.filter(|found| Some(found.exchange) == exchange).map_or(0.0, |found| found.score)
}

/// Adds to each exchange a part of its neighbours' scores. `scored` has the exchanges in the order of their numbers.
fn add_neighbours(scored: &mut [ScoredExchange]) {
    // The exchange before the current one, with the score of its own messages alone.
    let mut previous: Option<ScoredExchange> = None;
    for index in 0..scored.len() {
        let next = scored.get(index + 1).copied();
        let Some(current) = scored.get_mut(index) else {
            break;
        };
        let own = *current;
        let before = score_of(previous, own.exchange.checked_sub(1));
        let after = score_of(next, own.exchange.checked_add(1));
        current.score += NEIGHBOUR * (before + after);
        previous = Some(own);
    }
}

/// Returns the first `limit` exchanges in `order`, without sorting the others.
fn first_in_order(mut scored: Vec<ScoredExchange>, order: Order, limit: usize) -> Vec<ScoredExchange> {
    let compare = |one: &ScoredExchange, other: &ScoredExchange| {
        let newer = other.exchange.cmp(&one.exchange);
        match order {
            Order::Recent => newer,
            Order::Best => other.score.total_cmp(&one.score).then(newer),
        }
    };
    if scored.len() > limit {
        scored.select_nth_unstable_by(limit, compare);
        scored.truncate(limit);
    }
    scored.sort_unstable_by(compare);
    scored
}

fn with_best_hits(scored: ScoredExchange, hits: &[Hit]) -> RankedExchange {
    let exchange_hits = hits.get(scored.first_hit..).unwrap_or_default().iter();
    let exchange_hits = exchange_hits.take_while(|hit| hit.exchange == scored.exchange);
    RankedExchange {
        exchange: scored.exchange.into(),
        score: scored.score,
        seqs: exchange_hits.take(HITS_MAX).map(|hit| hit.seq).collect(),
        terms: scored.terms,
    }
}

/// Converts a count to a float. Larger counts become `u32::MAX`.
fn float<T: TryInto<u32>>(count: T) -> f64 {
    f64::from(count.try_into().unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests;
