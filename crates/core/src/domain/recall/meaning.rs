//! Semantic search: finds the exchanges whose embeddings are nearest to the question's. It is optional. Its results are fused with those
//! of the full-text search by rank, since scores of the two can't be compared.

use std::collections::{BTreeMap, HashMap};

use super::{RankedExchange, searchable};
use crate::domain::{message::Message, redaction::Redactor, text::head_tail};

/// An embedding model gets this many characters of a message: its head and its tail.
pub const EMBEDDED_CHARS_MAX: usize = HEAD_CHARS + TAIL_CHARS;
const HEAD_CHARS: usize = 1_500;
const TAIL_CHARS: usize = 500;
/// Returns at most this many exchanges.
pub const NEAREST_MAX: usize = 50;
/// Reciprocal rank fusion: the larger this number, the less the first places of a list count more than the next ones (Cormack, Clarke,
/// Büttcher 2009).
const RANK_OFFSET: u32 = 60;

/// An embedding: the direction that a model gives to a text, in one byte per dimension. Its length doesn't matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Embedding(Vec<i8>);

impl Embedding {
    /// Rounds a model's numbers. Returns `None` if all are 0 or one isn't finite.
    #[expect(clippy::cast_possible_truncation, reason = "the numbers are from -127 to 127")]
    pub fn of(numbers: &[f32]) -> Option<Self> {
        let largest = numbers.iter().fold(0.0_f32, |most, number| most.max(number.abs()));
        let is_usable = largest > 0.0 && numbers.iter().all(|number| number.is_finite());
        is_usable.then(|| {
            let scaled = numbers.iter().map(|number| number / largest * 127.0);
            Self(scaled.map(|number| number.round() as i8).collect())
        })
    }

    /// Returns the bytes, one per dimension.
    pub fn bytes(&self) -> Vec<u8> {
        self.0.iter().map(|number| number.cast_unsigned()).collect()
    }

    /// Returns the cosine of the angle to the embedding with these [`Self::bytes`]; `None` if it has another number of dimensions.
    pub fn cosine(&self, bytes: &[u8]) -> Option<f64> {
        if bytes.len() != self.0.len() {
            return None;
        }
        let (mut product, mut own_square, mut other_square) = (0_i64, 0_i64, 0_i64);
        for (number, byte) in self.0.iter().zip(bytes) {
            let (number, other) = (i32::from(*number), i32::from(byte.cast_signed()));
            product += i64::from(number * other);
            own_square += i64::from(number * number);
            other_square += i64::from(other * other);
        }
        let square = float(own_square) * float(other_square);
        (square > 0.0).then(|| float(product) / square.sqrt())
    }
}

/// The embedding of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuestionEmbedding {
    /// The model. Only embeddings of the same model can be compared.
    pub model: String,
    /// The model's embedding of the question.
    pub embedding: Embedding,
}

/// Returns the text of a message that an embedding model gets; `None` if there is none. Redacts secrets before it cuts the text, since
/// half a secret isn't recognised.
pub fn text_to_embed(message: &Message, redactor: &Redactor) -> Option<String> {
    let text = searchable(message);
    let text = head_tail(redactor.redact(text.trim()).trim(), HEAD_CHARS, TAIL_CHARS);
    (!text.is_empty()).then_some(text)
}

/// An exchange found by meaning, with its nearest message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NearExchange {
    /// Its number.
    pub exchange: i64,
    /// The number of its nearest message.
    pub seq: i64,
    /// The cosine between that message and the question.
    pub cosine: f64,
}

/// Collects the exchanges that are nearest to a question.
#[derive(Clone, Debug)]
pub struct NearestExchanges<'q> {
    question: &'q Embedding,
    best: BTreeMap<i64, NearExchange>,
}

impl<'q> NearestExchanges<'q> {
    /// Makes an empty list.
    pub fn to(question: &'q Embedding) -> Self {
        Self { question, best: BTreeMap::new() }
    }

    /// Compares a message's embedding with the question's.
    pub fn add(&mut self, exchange: i64, seq: i64, bytes: &[u8]) {
        let Some(cosine) = self.question.cosine(bytes) else {
            return;
        };
        let near = NearExchange { exchange, seq, cosine };
        let best = self.best.entry(exchange).or_insert(near);
        if best.cosine < cosine {
            *best = near;
        }
    }

    /// Returns the nearest exchanges first, at most [`NEAREST_MAX`].
    pub fn into_ranking(self) -> Vec<NearExchange> {
        let mut all: Vec<NearExchange> = self.best.into_values().rev().collect();
        all.sort_by(|one, other| other.cosine.total_cmp(&one.cosine));
        all.truncate(NEAREST_MAX);
        all
    }
}

/// Fuses the results of the two searches: the score of an exchange is computed from its ranks in both. An empty second list leaves the
/// first one as it is.
pub fn fuse(first: Vec<RankedExchange>, second: &[NearExchange]) -> Vec<RankedExchange> {
    if second.is_empty() {
        return first;
    }
    let mut ranks: HashMap<i64, (usize, i64)> =
        second.iter().enumerate().map(|(rank, near)| (near.exchange, (rank, near.seq))).collect();
    let mut all = first;
    for (rank, found) in all.iter_mut().enumerate() {
        let second_rank = ranks.remove(&found.exchange);
        found.score = reciprocal(rank) + second_rank.map_or(0.0, |(rank, _)| reciprocal(rank));
    }
    all.extend(
        ranks
            .into_iter()
            .map(|(exchange, (rank, seq))| RankedExchange::without_terms(exchange, reciprocal(rank), seq)),
    );
    all.sort_by(|one, other| {
        let newer = other.exchange.cmp(&one.exchange);
        other.score.total_cmp(&one.score).then(newer)
    });
    all
}

fn reciprocal(rank: usize) -> f64 {
    let rank = u32::try_from(rank).unwrap_or(u32::MAX);
    1.0 / f64::from(RANK_OFFSET.saturating_add(rank).saturating_add(1))
}

#[expect(clippy::cast_precision_loss, reason = "sums of at most some thousand squares of bytes")]
fn float(sum: i64) -> f64 {
    sum as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::recall::{ArchiveSearch, Order, Query};

    fn embedding(numbers: &[f32]) -> Embedding {
        Embedding::of(numbers).unwrap()
    }

    fn exchanges(numbers: &[i64]) -> Vec<RankedExchange> {
        let found = numbers.iter().zip(1_u32..);
        found
            .map(|(exchange, place)| RankedExchange::without_terms(*exchange, 9.0 / f64::from(place), 1))
            .collect()
    }

    fn numbers(ranked: &[RankedExchange]) -> Vec<i64> {
        ranked.iter().map(|found| found.exchange).collect()
    }

    fn near(exchanges: &[i64]) -> Vec<NearExchange> {
        let near =
            exchanges.iter().map(|&exchange| NearExchange { exchange, seq: exchange * 10, cosine: 0.5 });
        near.collect()
    }

    #[test]
    fn a_cosine_ignores_lengths() {
        let east = embedding(&[1.0, 0.0]);
        for (other, cosine) in [
            (&[500.0, 0.0][..], 1.0),
            (&[-0.001, 0.0], -1.0),
            (&[0.0, 3.0], 0.0),
            (&[1.0, 1.0], 0.5_f64.sqrt()),
        ] {
            let found = east.cosine(&embedding(other).bytes()).unwrap();
            assert!((found - cosine).abs() < 0.001, "{other:?}: {found}");
        }
        assert_eq!(east.cosine(&[1, 0, 0]), None);
        assert_eq!(east.cosine(&[0, 0]), None);
        for numbers in [&[][..], &[0.0, 0.0], &[f32::NAN, 1.0], &[f32::INFINITY, 1.0]] {
            assert_eq!(Embedding::of(numbers), None, "{numbers:?}");
        }
    }

    #[test]
    fn an_exchange_is_as_near_as_its_nearest_message() {
        let question = embedding(&[1.0, 0.0]);
        let mut nearest = NearestExchanges::to(&question);
        for (exchange, seq, direction) in
            [(1, 1, [0.0, 1.0]), (1, 2, [1.0, 0.2]), (2, 3, [1.0, 1.0]), (3, 4, [1.0, 1.0])]
        {
            nearest.add(exchange, seq, &embedding(&direction).bytes());
        }
        nearest.add(4, 5, &[127, 0, 0]);
        let found: Vec<_> = nearest.into_ranking().iter().map(|near| (near.exchange, near.seq)).collect();
        assert_eq!(found, [(1, 2), (3, 4), (2, 3)]);
        let mut many = NearestExchanges::to(&question);
        (0..500).for_each(|exchange| many.add(exchange, exchange, &[1, 1]));
        assert_eq!(many.into_ranking().len(), NEAREST_MAX);
    }

    #[test]
    fn an_exchange_in_both_lists_comes_first() {
        let both = fuse(exchanges(&[5, 6, 7]), &near(&[7, 9]));
        assert_eq!(numbers(&both), [7, 5, 9, 6]);
        let added = both.iter().find(|found| found.exchange == 9).unwrap();
        assert!(added.seqs == [90] && !added.has(0));
        assert_eq!(numbers(&fuse(Vec::new(), &near(&[3, 1]))), [3, 1]);
    }

    #[test]
    fn a_second_list_adds_to_the_best_matches_of_words_only() {
        let search = |words: &str| ArchiveSearch {
            meaning: Some(QuestionEmbedding { model: "m".to_owned(), embedding: embedding(&[1.0]) }),
            ..ArchiveSearch::new(Query::parse(words).unwrap(), 10)
        };
        assert!(search("bug \"in the parser\"").question_embedding().is_some());
        assert!(search("\"in the parser\"").question_embedding().is_none());
        let mut recent = search("bug");
        recent.order = Order::Recent;
        assert!(recent.question_embedding().is_none());
        let mut with_tool = search("bug");
        with_tool.filter.tool = Some("bash".to_owned());
        assert!(with_tool.question_embedding().is_none());
    }

    proptest! {
        #[test]
        fn an_empty_second_list_changes_nothing(found in proptest::collection::hash_set(1_i64..500, 0..50)) {
            let found: Vec<i64> = found.into_iter().collect();
            let first = exchanges(&found);
            prop_assert_eq!(fuse(first.clone(), &[]), first);
        }

        #[test]
        fn each_exchange_is_found_once(first in proptest::collection::hash_set(1_i64..60, 0..30), second in proptest::collection::hash_set(1_i64..60, 1..30)) {
            let all: std::collections::BTreeSet<i64> = first.union(&second).copied().collect();
            let (first, second): (Vec<i64>, Vec<i64>) = (first.into_iter().collect(), second.into_iter().collect());
            let both = fuse(exchanges(&first), &near(&second));
            let mut found = numbers(&both);
            found.sort_unstable();
            prop_assert_eq!(found, all.into_iter().collect::<Vec<_>>());
            prop_assert!(both.is_sorted_by(|one, next| one.score >= next.score));
        }

        #[test]
        fn rounding_hardly_turns_a_direction(one in proptest::collection::vec(-1.0_f32..1.0, 64), other in proptest::collection::vec(-1.0_f32..1.0, 64)) {
            let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
            let exact = dot(&one, &other) / (dot(&one, &one) * dot(&other, &other)).sqrt();
            let found = embedding(&one).cosine(&embedding(&other).bytes()).unwrap();
            prop_assert!((found - exact).abs() < 0.02, "{found} {exact}");
        }
    }
}
