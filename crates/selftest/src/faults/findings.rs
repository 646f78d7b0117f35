//! What was done to the daemons, and what came of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{kind::Kind, spans::Spans};
use crate::selftest::work::WorkFindings;

/// Breaches kept word for word; more are counted.
const TOLD_MAX: usize = 40;

/// What was done to the daemons, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultFindings {
    /// Runs from the first message to the check.
    pub runs: u64,
    pub faults: BTreeMap<Kind, u64>,
    /// Kinds that can't be tried on this machine, and why.
    pub left_out: BTreeMap<Kind, String>,
    /// Model calls by what became of them.
    pub calls: BTreeMap<String, u64>,
    /// What was asked for besides, by what it was and what is known of it.
    pub steps: BTreeMap<String, u64>,
    /// Turns stored.
    pub turns: u64,
    /// Of those that were begun: nobody was told whether they are.
    pub ambiguous: u64,
    /// Messages that were to be forgotten and are.
    pub forgotten: u64,
    /// Messages found.
    pub messages: u64,
    /// Exchanges found.
    pub exchanges: u64,
    /// Of these: covered by summaries.
    pub covered: u64,
    /// Versions of summaries written.
    pub versions: u64,
    /// Rows parked at the end, with digests in their summaries.
    pub parked: u64,
    /// Parked rows that were revived by hand, because exchanges had come after the digests.
    pub revived: u64,
    /// Messages or exchanges that are missing though they were acknowledged.
    pub lost: u64,
    /// Messages stored twice, exchanges covered twice, versions not applied once.
    pub twice: u64,
    /// Rows and exchanges that wait for nothing, minutes after the last fault, and times a start found that rows were missing.
    pub stuck: u64,
    /// Documents over their ceiling.
    pub over_ceiling: u64,
    /// Other invariants broken, requests refused, daemons that can't be started.
    pub broken: u64,
    /// Reads that took too long or were refused though the daemon ran.
    pub unavailable: u64,
    /// Reads of summaries that the daemon had in memory.
    pub known_reads: Spans,
    /// Reads of other summaries.
    pub other_reads: Spans,
    /// Appends to agents that no fault touched, whatever became of other daemons.
    pub appends: Spans,
    /// Reads and appends that couldn't be judged, since the machine was busy.
    pub unjudged: u64,
    /// Times a daemon ended though nobody had asked it to.
    pub ended_alone: u64,
    /// Milliseconds from a kill in a model call until a model is asked about the same agent, by another daemon.
    pub taken_over_ms: Vec<u64>,
    /// The same, by the same daemon started again.
    pub restarted_ms: Vec<u64>,
    /// Agents about which nobody asked again within two leases and a few seconds: a row that was parked, or a slow machine.
    pub not_resumed: u64,
    /// The first breaches, word for word.
    pub told: Vec<String>,
}

/// What can be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Promise {
    /// Nothing acknowledged is lost.
    Kept,
    /// Nothing is done twice.
    Once,
    /// All that is pending is worked off.
    Drained,
    /// No document is over its ceiling.
    Ceiling,
    /// Readers don't wait.
    Available,
    /// The rest.
    Other,
}

impl FaultFindings {
    /// How many faults there were.
    pub fn faults(&self) -> u64 {
        self.faults.values().sum()
    }

    /// Nothing was broken.
    pub fn is_clean(&self) -> bool {
        let breaches = [
            self.lost,
            self.twice,
            self.stuck,
            self.over_ceiling,
            self.unavailable,
            self.broken,
        ];
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

/// The middle one of spans in any order (a run tells them as they happened), and the longest; none of none.
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
