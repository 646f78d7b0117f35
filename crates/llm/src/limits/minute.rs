//! Decides when the next call may be made, from the calls of the last minute.
//!
//! This is a sliding window and not a token bucket, so that no 60 seconds, however the provider counts them, contain more calls
//! than the limits allow.
//!
//! A call that has to wait keeps its turn. A later call goes first only if that doesn't delay a waiting call, so small calls
//! can't block a big one forever.

use std::collections::VecDeque;

use recapd_core::domain::{
    agent::AgentId,
    number::i64_or_max,
    time::{CLOCK_JUMP_MS_MIN, MINUTE_MS, Timestamp},
};

/// Limits how many turns are kept. Further calls wait without a turn.
const TURNS_MAX: usize = 64;
/// How long a turn is kept for an agent that is late. Jitter makes a postponed update's wait up to a quarter longer, and then the
/// update waits in the queue.
const TURN_KEPT_MS: i64 = MINUTE_MS;

/// The limits per minute; 0 means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MinuteLimits {
    pub requests: i64,
    /// Tokens, read and written.
    pub tokens: i64,
}

/// The calls of the last minute, oldest first.
#[derive(Debug)]
pub(super) struct Minute {
    limits: MinuteLimits,
    calls: VecDeque<MinuteCall>,
    /// The calls that have to wait, in order.
    turns: VecDeque<DelayedCall>,
    last_id: u64,
    /// The provider allows no call before this time.
    not_before: Timestamp,
    /// How long the wait until `not_before` was when the provider asked for it.
    rest_ms: i64,
}

#[derive(Clone, Copy, Debug)]
struct MinuteCall {
    id: u64,
    at: Timestamp,
    tokens: i64,
}

#[derive(Debug)]
struct DelayedCall {
    agent: AgentId,
    tokens: i64,
    asked_at: Timestamp,
    /// The turn is kept until this time.
    until: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reservation {
    /// Identifies the call for [`Minute::correct`] and [`Minute::give_back`].
    pub(super) id: u64,
    /// In how many milliseconds the call may be made.
    pub(super) wait_ms: i64,
}

impl Minute {
    pub(super) fn new(limits: MinuteLimits) -> Self {
        Self {
            limits,
            calls: VecDeque::new(),
            turns: VecDeque::new(),
            last_id: 0,
            not_before: Timestamp(0),
            rest_ms: 0,
        }
    }

    /// Reserves a call of about `tokens`. If the call would wait longer than `wait_ms_max`, reserves nothing, returns the wait
    /// and keeps a turn for `agent`. A call that alone exceeds the limit gets a minute to itself.
    pub(super) fn reserve(
        &mut self,
        now: Timestamp,
        tokens: i64,
        agent: Option<&AgentId>,
        wait_ms_max: i64,
    ) -> Result<Reservation, i64> {
        self.forget(now, wait_ms_max);
        let turn = self.turns.iter().position(|turn| Some(&turn.agent) == agent);
        let ahead = turn.unwrap_or(self.turns.len());
        let (at, is_before_all) = self.in_turn(now, tokens, ahead);
        let wait_ms = at.since_ms(now);
        if let Some(turn) = turn {
            self.turns.remove(turn);
        }
        if wait_ms > wait_ms_max {
            let index = if is_before_all { 0 } else { ahead };
            self.keep_turn(index, agent, tokens, [now, at]);
            return Err(wait_ms);
        }
        self.last_id += 1;
        let id = self.last_id;
        if self.limits != MinuteLimits::default() {
            self.calls.push_back(MinuteCall { id, at, tokens });
        }
        Ok(Reservation { id, wait_ms })
    }

    /// Replaces a call's estimated tokens with the actual ones.
    pub(super) fn correct(&mut self, id: u64, tokens: i64) {
        if let Some(call) = self.calls.iter_mut().find(|call| call.id == id) {
            call.tokens = tokens;
        }
    }

    /// Cancels a reserved call and frees its tokens.
    pub(super) fn give_back(&mut self, id: u64) {
        self.calls.retain(|call| call.id != id);
    }

    /// Allows no call for `rest_ms`.
    pub(super) fn rest(&mut self, now: Timestamp, rest_ms: i64) {
        self.forget_rest(now);
        let until = now.plus_ms(rest_ms);
        if until > self.not_before {
            (self.not_before, self.rest_ms) = (until, rest_ms);
        }
    }

    /// Ends the rest if more time than all of it is left, which happens only if the clock was set back.
    fn forget_rest(&mut self, now: Timestamp) {
        if self.not_before.since_ms(now) >= self.rest_ms.saturating_add(CLOCK_JUMP_MS_MIN) {
            self.not_before = now;
        }
    }

    /// Removes calls older than a minute, and turns whose agents didn't return in time. Removes all calls and turns if the clock
    /// was set back, because then their times can't be compared.
    fn forget(&mut self, now: Timestamp, wait_ms_max: i64) {
        if self.calls.back().is_some_and(|call| call.at.since_ms(now) > wait_ms_max) {
            self.calls.clear();
        }
        while self.calls.front().is_some_and(|call| now.since_ms(call.at) >= MINUTE_MS) {
            self.calls.pop_front();
        }
        self.forget_rest(now);
        self.turns.retain(|turn| turn.asked_at <= now && now <= turn.until);
    }

    fn keep_turn(
        &mut self,
        index: usize,
        agent: Option<&AgentId>,
        tokens: i64,
        [asked_at, at]: [Timestamp; 2],
    ) {
        let Some(agent) = agent.filter(|_| self.turns.len() < TURNS_MAX) else {
            return;
        };
        let turn = DelayedCall { agent: agent.clone(), tokens, asked_at, until: at.plus_ms(TURN_KEPT_MS) };
        self.turns.insert(index, turn);
    }

    /// Returns when a call may be made with `ahead` turns before it, and whether it may go before all of these because it delays
    /// none of them.
    fn in_turn(&self, now: Timestamp, tokens: i64, ahead: usize) -> (Timestamp, bool) {
        let at = self.earliest(&self.calls, now, tokens);
        let mut calls = self.calls.clone();
        let planned = self.plan(&mut calls, now, ahead);
        let after = self.earliest(&calls, now, tokens);
        calls.clone_from(&self.calls);
        calls.push_back(MinuteCall { id: 0, at, tokens });
        if self.plan(&mut calls, now, ahead) == planned { (at, true) } else { (after, false) }
    }

    /// Adds the first `count` turns to `calls`, each as early as possible. Returns their times.
    fn plan(&self, calls: &mut VecDeque<MinuteCall>, now: Timestamp, count: usize) -> Vec<Timestamp> {
        let mut planned = Vec::with_capacity(count);
        for turn in self.turns.iter().take(count) {
            let (at, tokens) = (self.earliest(calls, now, turn.tokens), turn.tokens);
            calls.push_back(MinuteCall { id: 0, at, tokens });
            planned.push(at);
        }
        planned
    }

    fn earliest(&self, calls: &VecDeque<MinuteCall>, now: Timestamp, tokens: i64) -> Timestamp {
        let newest = calls.back().map_or(now, |call| call.at);
        let mut at = now.max(newest).max(self.not_before);
        let mut requests = i64_or_max(calls.len());
        let mut used = calls.iter().fold(0_i64, |sum, call| sum.saturating_add(call.tokens));
        for call in calls {
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
        let MinuteLimits { requests: requests_max, tokens: tokens_max } = self.limits;
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
        let reserved = minute.reserve(Timestamp(at_ms), tokens, None, WAIT_MS_MAX);
        reserved.map(|reserved| reserved.wait_ms)
    }

    fn wait_of(minute: &mut Minute, agent: &str, at_ms: i64, tokens: i64) -> Result<i64, i64> {
        let agent = AgentId::slug(agent);
        let reserved = minute.reserve(Timestamp(at_ms), tokens, Some(&agent), WAIT_MS_MAX);
        reserved.map(|reserved| reserved.wait_ms)
    }

    #[test]
    fn a_call_waits_until_enough_of_the_oldest_are_a_minute_old() {
        let mut calls = minute(2, 0);
        assert_eq!(wait(&mut calls, 0, 1), Ok(0));
        assert_eq!(wait(&mut calls, 1_000, 1), Ok(0));
        assert_eq!(wait(&mut calls, 2_000, 1), Err(58_000), "a longer wait reserves nothing");
        assert_eq!(wait(&mut calls, 59_000, 1), Ok(1_000));
        assert_eq!(wait(&mut calls, 59_000, 1), Ok(2_000), "after the call that waits");

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
        let first = calls.reserve(Timestamp(0), 900, None, WAIT_MS_MAX).unwrap();
        assert_eq!(wait(&mut calls, 1_000, 500), Err(59_000));
        calls.correct(first.id, 300);
        assert_eq!(wait(&mut calls, 1_000, 500), Ok(0));
        calls.correct(first.id, 500);
        assert_eq!(wait(&mut calls, 2_000, 100), Err(58_000));
    }

    #[test]
    fn the_providers_wait_is_kept_and_a_clock_set_back_ends_it() {
        let mut calls = minute(0, 0);
        calls.rest(Timestamp(0), 30_000);
        assert_eq!(wait(&mut calls, 1_000, 1), Err(29_000));
        assert_eq!(wait(&mut calls, 26_000, 1), Ok(4_000));
        assert_eq!(wait(&mut calls, 30_000, 1), Ok(0));

        let mut calls = minute(0, 0);
        calls.rest(Timestamp(90_000), 30_000);
        assert_eq!(wait(&mut calls, 90_000, 1), Err(30_000));
        assert_eq!(wait(&mut calls, 89_000, 1), Ok(0), "after a clock set back the wait would be too long");

        let mut calls = minute(1, 0);
        assert_eq!(wait(&mut calls, 60 * MINUTE_MS, 1), Ok(0));
        assert_eq!(wait(&mut calls, 0, 1), Ok(0), "calls with times by the old clock are forgotten");
    }

    /// Small calls every ten seconds, of 150 tokens each, never leave room for a big one by themselves.
    #[test]
    fn a_big_call_has_its_turn_among_small_ones() {
        let mut calls = minute(0, 1_000);
        for at_s in 0..6 {
            assert_eq!(wait(&mut calls, at_s * 10_000, 150), Ok(0));
        }
        assert_eq!(wait_of(&mut calls, "big", 55_000, 900), Err(55_000));
        assert_eq!(wait_of(&mut calls, "small", 60_000, 150), Err(110_000), "after the big call");
        assert_eq!(wait_of(&mut calls, "smaller", 60_000, 50), Ok(0), "it delays no waiting call");
        assert_eq!(wait_of(&mut calls, "big", 110_000, 900), Ok(0));
        assert_eq!(wait_of(&mut calls, "small", 110_001, 150), Err(59_999));
        assert_eq!(wait_of(&mut calls, "small", 170_000, 150), Ok(0));
        assert!(calls.turns.is_empty());
    }

    #[test]
    fn turns_are_limited_and_kept_for_a_minute() {
        let mut calls = minute(1, 0);
        assert_eq!(wait(&mut calls, 0, 1), Ok(0));
        assert_eq!(wait_of(&mut calls, "gone", 1_000, 1), Err(59_000));
        assert_eq!(wait(&mut calls, 60_000, 1), Err(60_000));
        assert_eq!(wait(&mut calls, 60_000 + TURN_KEPT_MS, 1), Err(60_000));
        assert_eq!(wait(&mut calls, 60_001 + TURN_KEPT_MS, 1), Ok(0));

        for agent in 0..2 * TURNS_MAX {
            wait_of(&mut calls, &agent.to_string(), 130_000, 1).unwrap_err();
        }
        assert_eq!(calls.turns.len(), TURNS_MAX);
        assert_eq!(wait(&mut calls, 0, 1), Ok(0), "a clock turned back ends all turns");
    }

    proptest! {
        /// A call that comes back after the announced wait may be made, whatever calls have come meanwhile.
        #[test]
        fn an_announced_wait_is_kept(
            newcomers in prop::collection::vec((0_i64..15_000, 1_i64..1_200), 1..60),
        ) {
            let mut minute = minute(9, 1_000);
            let (mut coming, mut now) = (std::collections::BTreeMap::new(), 0);
            for (n, (pause_ms, tokens)) in newcomers.into_iter().enumerate() {
                now += pause_ms;
                coming.insert((now, 1, n), tokens);
            }
            while let Some(((now, is_new, n), tokens)) = coming.pop_first() {
                match wait_of(&mut minute, &n.to_string(), now, tokens) {
                    Err(wait_ms) => {
                        prop_assert!(is_new == 1, "delayed a second time, by {wait_ms} ms more");
                        coming.insert((now + wait_ms, 0, n), tokens);
                    }
                    Ok(wait_ms) => prop_assert!(is_new == 1 || wait_ms == 0),
                }
            }
        }

        #[test]
        fn no_minute_exceeds_its_limits(
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
