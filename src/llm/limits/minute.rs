//! The calls of the last minute: when the next one may be made.
//!
//! A sliding window and no bucket: in whatever 60 seconds a provider counts, no more calls fall than it allows.

use std::collections::VecDeque;

use crate::domain::time::{DAY_MS, MINUTE_MS, Timestamp};

/// How much may be asked in a minute; 0 is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MinuteLimits {
    /// Requests.
    pub requests: i64,
    /// Tokens, read and written.
    pub tokens: i64,
}

/// The calls of the last minute, oldest first.
#[derive(Debug)]
pub(super) struct Minute {
    limits: MinuteLimits,
    calls: VecDeque<Call>,
    last_id: u64,
    /// The provider said so.
    not_before: Timestamp,
}

#[derive(Debug)]
struct Call {
    id: u64,
    at: Timestamp,
    tokens: i64,
}

/// A call that may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reserved {
    /// Names it.
    pub(super) id: u64,
    /// After so long.
    pub(super) wait_ms: i64,
}

impl Minute {
    pub(super) fn new(limits: MinuteLimits) -> Self {
        Self {
            limits,
            calls: VecDeque::new(),
            last_id: 0,
            not_before: Timestamp(0),
        }
    }

    /// Reserves a call of some `tokens`; or says how long to wait if that is longer than `wait_ms_max`, and reserves
    /// nothing. A call bigger than the limit alone has a minute to itself.
    pub(super) fn reserve(&mut self, now: Timestamp, tokens: i64, wait_ms_max: i64) -> Result<Reserved, i64> {
        self.forget(now, wait_ms_max);
        let at = self.earliest(now, tokens);
        let wait_ms = at.since_ms(now);
        if wait_ms > wait_ms_max {
            return Err(wait_ms);
        }
        self.last_id += 1;
        let id = self.last_id;
        if self.limits != MinuteLimits::default() {
            self.calls.push_back(Call { id, at, tokens });
        }
        Ok(Reserved { id, wait_ms })
    }

    /// What a call really took.
    pub(super) fn correct(&mut self, id: u64, tokens: i64) {
        if let Some(call) = self.calls.iter_mut().find(|call| call.id == id) {
            call.tokens = tokens;
        }
    }

    /// No call before `until`.
    pub(super) fn rest(&mut self, until: Timestamp) {
        self.not_before = self.not_before.max(until);
    }

    /// Calls older than a minute count no more; those of a clock that was turned back since can't be compared.
    fn forget(&mut self, now: Timestamp, wait_ms_max: i64) {
        if self
            .calls
            .back()
            .is_some_and(|call| call.at.since_ms(now) > wait_ms_max)
        {
            self.calls.clear();
        }
        while self
            .calls
            .front()
            .is_some_and(|call| now.since_ms(call.at) >= MINUTE_MS)
        {
            self.calls.pop_front();
        }
        self.not_before = self.not_before.min(now.plus_ms(DAY_MS));
    }

    fn earliest(&self, now: Timestamp, tokens: i64) -> Timestamp {
        let newest = self.calls.back().map_or(now, |call| call.at);
        let mut at = now.max(newest).max(self.not_before);
        let mut requests = i64::try_from(self.calls.len()).unwrap_or(i64::MAX);
        let mut used = self
            .calls
            .iter()
            .fold(0_i64, |sum, call| sum.saturating_add(call.tokens));
        for call in &self.calls {
            let is_gone = at.since_ms(call.at) >= MINUTE_MS;
            if !is_gone && self.fits(requests, used, tokens) {
                break;
            }
            at = at.max(call.at.plus_ms(MINUTE_MS));
            requests -= 1;
            used -= call.tokens;
        }
        at
    }

    fn fits(&self, requests: i64, used: i64, tokens: i64) -> bool {
        let MinuteLimits {
            requests: requests_max,
            tokens: tokens_max,
        } = self.limits;
        (requests_max == 0 || requests < requests_max)
            && (tokens_max == 0 || used.saturating_add(tokens) <= tokens_max)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WAIT_MS_MAX: i64 = 5_000;

    fn minute(requests: i64, tokens: i64) -> Minute {
        Minute::new(MinuteLimits { requests, tokens })
    }

    fn wait(minute: &mut Minute, at_ms: i64, tokens: i64) -> Result<i64, i64> {
        let reserved = minute.reserve(Timestamp(at_ms), tokens, WAIT_MS_MAX);
        reserved.map(|reserved| reserved.wait_ms)
    }

    #[test]
    fn a_call_waits_until_enough_of_the_oldest_are_a_minute_old() {
        let mut calls = minute(2, 0);
        assert_eq!(wait(&mut calls, 0, 1), Ok(0));
        assert_eq!(wait(&mut calls, 1_000, 1), Ok(0));
        assert_eq!(
            wait(&mut calls, 2_000, 1),
            Err(58_000),
            "nothing is reserved for so long"
        );
        assert_eq!(wait(&mut calls, 59_000, 1), Ok(1_000));
        assert_eq!(
            wait(&mut calls, 59_000, 1),
            Ok(2_000),
            "behind the one that waits"
        );

        let mut tokens = minute(0, 1_000);
        assert_eq!(wait(&mut tokens, 0, 600), Ok(0));
        assert_eq!(wait(&mut tokens, 10_000, 400), Ok(0));
        assert_eq!(wait(&mut tokens, 58_000, 500), Ok(2_000));
        assert_eq!(wait(&mut minute(0, 0), 0, i64::MAX), Ok(0));
    }

    #[test]
    fn a_call_bigger_than_the_limit_has_a_minute_to_itself() {
        let mut calls = minute(0, 1_000);
        assert_eq!(wait(&mut calls, 0, 5_000), Ok(0));
        assert_eq!(wait(&mut calls, 57_000, 5_000), Ok(3_000));
        assert_eq!(wait(&mut calls, 60_000, 1), Err(60_000));
    }

    #[test]
    fn a_reservation_is_corrected_by_what_the_call_took() {
        let mut calls = minute(0, 1_000);
        let first = calls.reserve(Timestamp(0), 900, WAIT_MS_MAX).unwrap();
        assert_eq!(wait(&mut calls, 1_000, 500), Err(59_000));
        calls.correct(first.id, 300);
        assert_eq!(wait(&mut calls, 1_000, 500), Ok(0));
        calls.correct(first.id, 500);
        assert_eq!(wait(&mut calls, 2_000, 100), Err(58_000));
    }

    #[test]
    fn the_providers_time_is_kept_and_a_clock_turned_back_is_no_prison() {
        let mut calls = minute(0, 0);
        calls.rest(Timestamp(30_000));
        assert_eq!(wait(&mut calls, 1_000, 1), Err(29_000));
        assert_eq!(wait(&mut calls, 26_000, 1), Ok(4_000));
        assert_eq!(wait(&mut calls, 30_000, 1), Ok(0));

        let mut calls = minute(1, 0);
        assert_eq!(wait(&mut calls, 10 * DAY_MS, 1), Ok(0));
        assert_eq!(
            wait(&mut calls, 0, 1),
            Ok(0),
            "what the old clock said is forgotten"
        );
    }

    proptest! {
        #[test]
        fn no_minute_holds_more_than_it_may(
            calls in prop::collection::vec((0_i64..20_000, 1_i64..400), 1..200),
        ) {
            let (requests, tokens) = (7, 1_000);
            let mut minute = minute(requests, tokens);
            let (mut now, mut made) = (0, Vec::new());
            for (pause_ms, tokens) in calls {
                now += pause_ms;
                if let Ok(wait_ms) = wait(&mut minute, now, tokens) {
                    prop_assert!(wait_ms <= WAIT_MS_MAX);
                    made.push((now + wait_ms, tokens));
                }
            }
            for &(from, _) in &made {
                let within = made.iter().filter(|(at, _)| (from..from + MINUTE_MS).contains(at));
                let (count, sum) = within.fold((0, 0), |(count, sum), (_, tokens)| (count + 1, sum + tokens));
                prop_assert!(count <= requests && sum <= tokens, "{count} calls of {sum} tokens from {from}");
            }
        }
    }
}
