//! Durations in whole milliseconds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spans {
    times_by_ms: BTreeMap<u64, u64>,
}

impl Spans {
    pub fn push(&mut self, span_ms: u64) {
        *self.times_by_ms.entry(span_ms).or_default() += 1;
    }

    pub fn add(&mut self, others: Self) {
        for (span_ms, times) in others.times_by_ms {
            *self.times_by_ms.entry(span_ms).or_default() += times;
        }
    }

    pub fn count(&self) -> u64 {
        self.times_by_ms.values().sum()
    }

    /// The duration that `permille` of a thousand did not exceed; `None` without durations.
    pub fn quantile_ms(&self, permille: u64) -> Option<u64> {
        let rank = (self.count() * permille).div_ceil(1_000).max(1);
        let mut so_far = 0;
        self.times_by_ms.iter().find_map(|(span_ms, times)| {
            so_far += times;
            (so_far >= rank).then_some(*span_ms)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_spans_that_happened() {
        let mut spans = Spans::default();
        assert_eq!(spans.quantile_ms(500), None);
        for span_ms in 1..=100 {
            spans.push(span_ms);
        }
        let mut others = Spans::default();
        others.push(900);
        spans.add(others);
        assert_eq!(spans.count(), 101);
        let found = [0, 500, 990, 1_000].map(|permille| spans.quantile_ms(permille).unwrap());
        assert_eq!(found, [1, 51, 100, 900]);
    }
}
