//! The faults, and their effects on daemons and data.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{kind::Kind, spans::Spans};
use crate::selftest::work::WorkFindings;

/// The most breaches that are described; further ones are only counted.
const TOLD_MAX: usize = 40;

/// The faults, and their effects on daemons and data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultFindings {
    pub runs: u64,
    pub faults: BTreeMap<Kind, u64>,
    /// Kinds that can't be tested on this machine, and the reason.
    pub left_out: BTreeMap<Kind, String>,
    /// Model calls by outcome.
    pub calls: BTreeMap<String, u64>,
    /// Other requests, by step and outcome.
    pub steps: BTreeMap<String, u64>,
    pub turns: u64,
    /// Of the begun turns, those whose outcome the client doesn't know.
    pub ambiguous: u64,
    /// Messages that were forgotten as requested.
    pub forgotten: u64,
    pub messages: u64,
    pub exchanges: u64,
    /// Of these, exchanges covered by summaries.
    pub covered: u64,
    pub versions: u64,
    /// Rows parked at the end, with digests in their summaries.
    pub parked: u64,
    /// Parked rows that the test revived, because exchanges had arrived after the digests.
    pub revived: u64,
    /// Acknowledged messages or exchanges that are missing.
    pub lost: u64,
    /// Messages stored twice, exchanges covered twice, versions not applied exactly once.
    pub twice: u64,
    /// Rows and exchanges still pending minutes after the last fault, and starts that found rows missing.
    pub stuck: u64,
    pub over_ceiling: u64,
    /// Other broken invariants, refused requests, and daemons that can't be started.
    pub broken: u64,
    /// Reads that took too long or were refused although the daemon ran.
    pub unavailable: u64,
    /// Reads of summaries that the daemon had in memory.
    pub known_reads: Spans,
    pub other_reads: Spans,
    /// Appends to agents that no fault affected directly.
    pub appends: Spans,
    /// Reads and appends that couldn't be judged because the machine was busy.
    pub unjudged: u64,
    /// Ends of daemons that nothing had requested.
    pub ended_alone: u64,
    /// Milliseconds from a kill during a model call to the next call about the same agent, by another daemon.
    pub taken_over_ms: Vec<u64>,
    /// The same, by the restarted daemon.
    pub restarted_ms: Vec<u64>,
    /// Agents without another call within two leases and a few seconds, because of a parked row or a slow machine.
    pub not_resumed: u64,
    pub told: Vec<String>,
}

/// The promises that can be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Promise {
    /// Nothing acknowledged is lost.
    Kept,
    /// Nothing is done twice.
    Once,
    /// Everything pending is processed.
    Drained,
    /// No document exceeds its ceiling.
    Ceiling,
    /// Readers don't wait.
    Available,
    /// All other invariants.
    Other,
}

impl FaultFindings {
    pub fn faults(&self) -> u64 {
        self.faults.values().sum()
    }

    /// Returns true if no promise was broken.
    pub fn is_clean(&self) -> bool {
        let breaches = [self.lost, self.twice, self.stuck, self.over_ceiling, self.unavailable, self.broken];
        breaches == [0; 6]
    }

    pub(super) fn break_promise(&mut self, promise: Promise, times: u64, breach: String) {
        *match promise {
            Promise::Kept => &mut self.lost,
            Promise::Once => &mut self.twice,
            Promise::Drained => &mut self.stuck,
            Promise::Ceiling => &mut self.over_ceiling,
            Promise::Available => &mut self.unavailable,
            Promise::Other => &mut self.broken,
        } += times;
        if self.told.len() < TOLD_MAX {
            self.told.push(breach);
        }
    }
}

fn join<K: Ord>(all: &mut BTreeMap<K, u64>, others: BTreeMap<K, u64>) {
    for (key, count) in others {
        *all.entry(key).or_default() += count;
    }
}

impl WorkFindings for FaultFindings {
    fn add(&mut self, other: Self) {
        self.runs += other.runs;
        join(&mut self.faults, other.faults);
        self.left_out.extend(other.left_out);
        join(&mut self.calls, other.calls);
        join(&mut self.steps, other.steps);
        self.turns += other.turns;
        self.ambiguous += other.ambiguous;
        self.forgotten += other.forgotten;
        self.unavailable += other.unavailable;
        self.known_reads.add(other.known_reads);
        self.other_reads.add(other.other_reads);
        self.appends.add(other.appends);
        self.unjudged += other.unjudged;
        self.messages += other.messages;
        self.exchanges += other.exchanges;
        self.covered += other.covered;
        self.versions += other.versions;
        self.parked += other.parked;
        self.revived += other.revived;
        self.lost += other.lost;
        self.twice += other.twice;
        self.stuck += other.stuck;
        self.over_ceiling += other.over_ceiling;
        self.broken += other.broken;
        self.ended_alone += other.ended_alone;
        self.taken_over_ms.extend(other.taken_over_ms);
        self.taken_over_ms.sort_unstable();
        self.restarted_ms.extend(other.restarted_ms);
        self.restarted_ms.sort_unstable();
        self.not_resumed += other.not_resumed;
        self.told.extend(other.told);
        self.told.sort();
        self.told.truncate(TOLD_MAX);
    }

    fn of_piece(mut self, piece: usize) -> Self {
        for told in &mut self.told {
            *told = format!("run {piece}: {told}");
        }
        self
    }
}

/// The median and the maximum of spans in any order; `None` without spans.
pub fn median_and_max(spans_ms: &[u64]) -> Option<(u64, u64)> {
    let mut sorted_ms = spans_ms.to_vec();
    sorted_ms.sort_unstable();
    Some((*sorted_ms.get(sorted_ms.len() / 2)?, *sorted_ms.last()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_add_up_in_any_order() {
        let of = |kind, span_ms| FaultFindings {
            runs: 1,
            faults: BTreeMap::from([(kind, 2)]),
            restarted_ms: vec![span_ms],
            ..FaultFindings::default()
        };
        let (mut one, mut other) = (of(Kind::Kill, 30), of(Kind::Stall, 10));
        one.add(other.clone());
        other.add(of(Kind::Kill, 30));
        assert_eq!(one, other);
        assert_eq!((one.runs, one.faults()), (2, 4));
        assert_eq!(median_and_max(&one.restarted_ms), Some((30, 30)));
        assert_eq!(median_and_max(&[]), None);
    }

    #[test]
    fn spans_of_a_single_run_come_as_they_happened() {
        assert_eq!(median_and_max(&[20, 900, 10]), Some((20, 900)));
        assert_eq!(median_and_max(&[900, 10]), Some((900, 900)));
    }

    #[test]
    fn a_broken_promise_is_counted_and_told() {
        let mut found = FaultFindings::default();
        assert!(found.is_clean());
        found.break_promise(Promise::Kept, 3, "3 messages are missing".to_owned());
        assert_eq!((found.is_clean(), found.lost), (false, 3));
        assert_eq!(found.of_piece(7).told, ["run 7: 3 messages are missing"]);
    }
}
