//! Groups neighbouring exchanges into runs so that the strongest links are kept. Shared rare words, short pauses and the absence
//! of a greeting make a link strong.

use std::ops::Range;

use super::{
    clauses::ClauseSource,
    reading::{Corpus, ExchangeReading, RUN_EXCHANGES_MAX, RUN_PAUSE_MS_MAX},
    weigh::{Term, Vocabulary, WordShape, number},
};
use recapd_core::domain::time::{HOUR_MS, MINUTE_MS};

/// Limits a run of tasks, in bytes of clauses. A single exchange may be longer.
const TASK_BYTES_MAX: usize = 14_000;
/// Limits a run of talk, which is dense with facts, in bytes of clauses.
const TALK_BYTES_MAX: usize = 900;
/// How many exchanges before a link are compared, at most. After the link it is one fewer.
const BLOCK_EXCHANGES: usize = 3;
/// An exchange without calls whose words weigh less than this has no meaning by itself.
const TINY_WEIGHT: f64 = 2.2;
/// The cost of a run. With a higher cost, runs are fewer and longer.
const RUN_COST: f64 = 0.2;

/// Returns the runs that become items. They are in order, don't overlap, and contain every exchange.
pub(super) fn runs(batch: &Corpus) -> Vec<Range<usize>> {
    let links = links(batch);
    divide(&batch.exchanges, &links)
}

/// Returns how strongly each exchange is linked to the previous one; `None` if they must not be joined.
fn links(batch: &Corpus) -> Vec<Option<f64>> {
    let pace_ms = pace_ms(&batch.exchanges);
    let tiny: Vec<bool> = batch.exchanges.iter().map(|reading| is_tiny(reading, &batch.vocabulary)).collect();
    let mut links = vec![None];
    for index in 1..batch.exchanges.len() {
        let (Some(before), Some(after)) = (batch.exchanges.get(index - 1), batch.exchanges.get(index)) else {
            break;
        };
        let pause_ms = after.started_at.since_ms(before.started_at);
        let adjacent = before.exchange.checked_add(1) == Some(after.exchange);
        // An item is marked as interrupted as a whole, so finished and interrupted exchanges aren't joined.
        let alike = before.interrupted == after.interrupted;
        let strength = (adjacent && alike && pause_ms <= RUN_PAUSE_MS_MAX).then(|| {
            let is_tiny_at = |index: usize| tiny.get(index).copied().unwrap_or_default();
            likeness(batch, index)
                + pause_score(pause_ms, pace_ms)
                + form_score(before, after, is_tiny_at(index - 1), is_tiny_at(index))
        });
        links.push(strength);
    }
    links
}

/// Returns the median pause between exchanges of the batch.
fn pace_ms(exchanges: &[ExchangeReading]) -> i64 {
    let mut pauses: Vec<i64> = exchanges
        .iter()
        .zip(exchanges.iter().skip(1))
        .map(|(before, after)| after.started_at.since_ms(before.started_at))
        .filter(|&pause| pause > 0)
        .collect();
    pauses.sort_unstable();
    pauses.get(pauses.len() / 2).copied().unwrap_or(MINUTE_MS)
}

/// Rates a pause. A usual pause joins; one that is much longer separates.
fn pause_score(pause_ms: i64, pace_ms: i64) -> f64 {
    let ordinary = pace_ms.saturating_mul(3).clamp(2 * MINUTE_MS, HOUR_MS);
    match pause_ms {
        _ if pause_ms <= ordinary => 0.12,
        _ if pause_ms <= ordinary.saturating_mul(3) => -0.05,
        _ if pause_ms <= 4 * HOUR_MS => -0.2,
        _ => -0.5,
    }
}

/// Rates greetings and size. A greeting begins a topic. A tiny exchange joins its neighbour; after a greeting, the next one.
fn form_score(before: &ExchangeReading, after: &ExchangeReading, before_tiny: bool, after_tiny: bool) -> f64 {
    let opening = if after.greets && !before.greets { -0.5 } else { 0.0 };
    let small = match (before_tiny, after_tiny) {
        (_, true) if !after.greets => 0.3,
        (true, _) if before.greets => 0.3,
        (true, true) => 0.3,
        (true, false) => 0.1,
        _ => 0.0,
    };
    opening + small
}

fn is_tiny(reading: &ExchangeReading, vocabulary: &Vocabulary) -> bool {
    let user_weight = reading
        .clauses
        .iter()
        .filter(|clause| clause.source == ClauseSource::User || reading.is_talk)
        .map(|clause| vocabulary.weight_of(&clause.terms))
        .sum::<f64>();
    reading.calls.is_empty() && user_weight < TINY_WEIGHT
}

/// Returns the share of words (0 to 1) that both sides of the link before exchange `index` have in common, minus what any two blocks
/// share.
fn likeness(batch: &Corpus, index: usize) -> f64 {
    const CHANCE: f64 = 0.09;
    let before = batch.exchanges.get(index.saturating_sub(BLOCK_EXCHANGES)..index).unwrap_or_default();
    let after_end = (index + BLOCK_EXCHANGES - 1).min(batch.exchanges.len());
    let after = batch.exchanges.get(index..after_end).unwrap_or_default();
    let (left, right) = (block(batch, before), block(batch, after));
    let shared: f64 = right
        .iter()
        .filter(|(term, _)| left.binary_search_by_key(term, |(left_term, _)| *left_term).is_ok())
        .map(|(_, weight)| weight)
        .sum();
    let sum = |side: &[(Term, f64)]| side.iter().map(|(_, weight)| weight).sum::<f64>();
    let smaller = sum(&left).min(sum(&right)).max(1.0);
    (shared / smaller).min(1.0) - CHANCE
}

/// Returns the words of some exchanges with their topical weights, sorted, without repetitions.
fn block(batch: &Corpus, exchanges: &[ExchangeReading]) -> Vec<(Term, f64)> {
    let mut terms: Vec<Term> = exchanges.iter().flat_map(|reading| reading.terms.iter().copied()).collect();
    terms.sort_unstable();
    terms.dedup();
    let count = batch.exchanges.len();
    terms.into_iter().map(|term| (term, topical_weight(&batch.vocabulary, term, count))).collect()
}

/// Rates how typical a word is for a topic: high if few exchanges contain it, 0 if all do.
fn topical_weight(vocabulary: &Vocabulary, term: Term, exchanges: usize) -> f64 {
    let spread = number(vocabulary.exchanges_with(term)) / number(exchanges.max(1));
    let shape_factor = if vocabulary.shape(term) == WordShape::Identifier { 2.0 } else { 1.0 };
    vocabulary.weight(term) * shape_factor * (1.0 - spread).max(0.0)
}

/// Finds the division with the most kept links minus the costs of the runs, within the limits. Uses dynamic programming over
/// [`RUN_EXCHANGES_MAX`] positions.
fn divide(exchanges: &[ExchangeReading], links: &[Option<f64>]) -> Vec<Range<usize>> {
    // best[end]: the value of the best division of the first `end` exchanges, and the start of its last run.
    let mut best: Vec<(f64, usize)> = vec![(0.0, 0)];
    for end in 1..=exchanges.len() {
        let mut choice = (f64::NEG_INFINITY, end - 1);
        let mut strength = 0.0;
        let mut run_text = RunText::default();
        for start in (0..end).rev().take(RUN_EXCHANGES_MAX) {
            let Some(reading) = exchanges.get(start) else {
                break;
            };
            if !run_text.takes(reading) && start + 1 < end {
                break;
            }
            let worth = best.get(start).map_or(0.0, |(worth, _)| *worth) + strength - RUN_COST;
            if worth > choice.0 {
                choice = (worth, start);
            }
            match links.get(start).copied().flatten() {
                Some(link) => strength += link,
                None => break,
            }
        }
        best.push(choice);
    }
    walk_back(&best)
}

fn walk_back(best: &[(f64, usize)]) -> Vec<Range<usize>> {
    let mut runs = Vec::new();
    let mut end = best.len().saturating_sub(1);
    while end > 0 {
        let start = best.get(end).map_or(end - 1, |(_, start)| *start).min(end - 1);
        runs.push(start..end);
        end = start;
    }
    runs.reverse();
    runs
}

#[derive(Default)]
struct RunText {
    bytes: usize,
    talk_bytes: usize,
}

impl RunText {
    /// Adds an exchange. Returns false if the run is now too long for one item.
    fn takes(&mut self, reading: &ExchangeReading) -> bool {
        self.bytes += reading.text_bytes;
        self.talk_bytes += if reading.is_talk { reading.text_bytes } else { 0 };
        self.bytes <= TASK_BYTES_MAX && self.talk_bytes <= TALK_BYTES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::{Corpus, runs};
    use recapd_core::domain::{
        time::{DAY_MS, SECOND_MS, Timestamp},
        transcript::{Transcript, Voice},
    };

    /// An exchange of one user line: number, seconds, text.
    type RunText<'a> = (i64, i64, &'a str);
    /// A name, the exchanges, and the first and last exchange of each expected run.
    type Case<'a> = (&'a str, &'a [RunText<'a>], &'a [(i64, i64)]);

    fn transcripts(said: &[RunText<'_>]) -> Vec<Transcript> {
        said.iter()
            .map(|&(exchange, seconds, text)| {
                Transcript::of_lines(exchange, Timestamp(seconds * SECOND_MS), &[(Voice::User, "", text)])
            })
            .collect()
    }

    fn runs_of(transcripts: &[Transcript]) -> Vec<(i64, i64)> {
        let number = |at: usize| transcripts[at].exchange;
        runs(&Corpus::read(transcripts))
            .into_iter()
            .map(|run| (number(run.start), number(run.end - 1)))
            .collect()
    }

    #[test]
    fn neighbours_join_by_topic_and_part_at_greetings_pauses_and_gaps() {
        let day = DAY_MS / SECOND_MS;
        let parser = "Make the config parser in src/config.rs accept comments";
        let engine = "The steam engine exhibition needs forty posters printed";
        let cases: [Case<'_>; 7] = [
            ("same topic", &[(1, 0, parser), (2, 60, "now let src/config.rs parser accept tabs")], &[(1, 2)]),
            ("tiny", &[(1, 0, parser), (2, 60, "yes"), (3, 90, "/undo")], &[(1, 3)]),
            (
                "greeting",
                &[(1, 0, parser), (2, 60, "Hello! The steam engine exhibition needs posters")],
                &[(1, 1), (2, 2)],
            ),
            (
                "greeting before its matter",
                &[(1, 0, parser), (2, 60, "Hi"), (3, 70, engine)],
                &[(1, 1), (2, 3)],
            ),
            ("long pause, other topic", &[(1, 0, parser), (2, 20_000, engine)], &[(1, 1), (2, 2)]),
            ("over a day", &[(1, 0, parser), (2, day + 1, parser)], &[(1, 1), (2, 2)]),
            ("numbers with a gap", &[(1, 0, parser), (5, 60, parser)], &[(1, 1), (5, 5)]),
        ];
        for (name, said, expected) in cases {
            assert_eq!(runs_of(&transcripts(said)), expected, "{name}");
        }
    }

    #[test]
    fn interrupted_exchanges_join_only_interrupted_ones() {
        let parser = "Make the config parser in src/config.rs accept comments";
        let mut said = transcripts(&[(1, 0, parser), (2, 60, parser), (3, 90, "yes"), (4, 120, "/undo")]);
        assert_eq!(runs_of(&said), [(1, 4)]);
        for at in [1, 2] {
            said[at].interrupted = true;
        }
        assert_eq!(runs_of(&said), [(1, 1), (2, 3), (4, 4)]);
    }

    #[test]
    fn a_long_run_is_divided_at_its_limit() {
        let said: Vec<RunText<'_>> = (1..=30).map(|n| (n, n * 10, "more of the same parser work")).collect();
        let runs = runs_of(&transcripts(&said));
        assert!(runs.iter().all(|(first, last)| last - first < 12), "{runs:?}");
        assert_eq!(runs.len(), 3);
    }

    #[test]
    fn an_empty_batch_has_no_runs() {
        assert_eq!(runs_of(&[]), []);
    }
}
