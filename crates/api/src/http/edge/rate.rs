//! The rate limit per token, or per address without a token: `http.requests_per_second`, with bursts of `http.requests_burst`.
//!
//! Each token or address has a bucket that refills with time. A bucket is stored as the time when it will be full (the
//! generic cell rate algorithm).

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::connection::Peer;
use recapd_core::domain::access::TokenName;

/// Limits how many buckets there are. Beyond the limit, all new callers share one bucket.
const BUCKETS_MAX: usize = 10_000;

/// Rounds a wait up to whole seconds.
pub(crate) fn whole_seconds(wait: Duration) -> u32 {
    u32::try_from(wait.as_millis().div_ceil(1_000)).unwrap_or(u32::MAX)
}

/// The owner of a bucket.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Asker {
    /// A token, whatever address it is used from.
    Token(TokenName),
    /// An address; `None` if it is unknown.
    Peer(Option<Peer>),
    /// All callers without a bucket of their own.
    Others,
}

pub(crate) struct Rate {
    /// The time between two requests; `None` for no limit.
    spacing: Option<Duration>,
    burst: u32,
    /// When each bucket will be full. Full buckets are removed when there are too many.
    full_at: Mutex<HashMap<Asker, Instant>>,
}

impl Rate {
    /// Allows at most `burst` requests at once, and `per_second` on average. With 0 per second, there is no limit.
    pub(crate) fn new(per_second: u32, burst: u32) -> Self {
        Self {
            spacing: (per_second > 0).then(|| Duration::from_secs(1) / per_second),
            burst: burst.max(1),
            full_at: Mutex::default(),
        }
    }

    /// Allows at most `burst` requests at once, and then one every `spacing`.
    pub(crate) fn every(spacing: Duration, burst: u32) -> Self {
        Self { spacing: Some(spacing), ..Self::new(0, burst) }
    }

    pub(super) fn is_limited(&self) -> bool {
        self.spacing.is_some()
    }

    /// Counts a request of `asker` at `now`. If that is too many, returns how long to wait.
    pub(crate) fn take(&self, asker: Asker, now: Instant) -> Result<(), Duration> {
        let Some(spacing) = self.spacing else {
            return Ok(());
        };
        let mut buckets = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
        let asker = with_a_bucket(&mut buckets, asker, now);
        let full_at = buckets.get(&asker).map_or(now, |at| (*at).max(now)) + spacing;
        let (owed, room) = (full_at - now, spacing * self.burst);
        if owed > room {
            return Err(owed.saturating_sub(room));
        }
        buckets.insert(asker, full_at);
        Ok(())
    }
}

/// Returns `asker` if it has a bucket or can get one; otherwise the owner of the shared bucket.
fn with_a_bucket(buckets: &mut HashMap<Asker, Instant>, asker: Asker, now: Instant) -> Asker {
    if buckets.len() < BUCKETS_MAX || buckets.contains_key(&asker) {
        return asker;
    }
    buckets.retain(|_, full_at| *full_at > now);
    if buckets.len() < BUCKETS_MAX { asker } else { Asker::Others }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asker(name: &str) -> Asker {
        Asker::Token(name.parse().unwrap())
    }

    #[test]
    fn a_burst_is_allowed_and_then_one_request_at_a_time() {
        let (rate, now) = (Rate::new(10, 3), Instant::now());
        let later = |ms| now + Duration::from_millis(ms);
        for _ in 0..3 {
            assert_eq!(rate.take(asker("a"), now), Ok(()));
        }
        assert_eq!(rate.take(asker("a"), now), Err(Duration::from_millis(100)));
        assert_eq!(rate.take(asker("b"), now), Ok(()), "each token has a bucket of its own");
        assert_eq!(rate.take(asker("a"), later(60)), Err(Duration::from_millis(40)));
        assert_eq!(rate.take(asker("a"), later(100)), Ok(()));
        assert!(rate.take(asker("a"), later(100)).is_err());
        for _ in 0..3 {
            assert_eq!(rate.take(asker("a"), later(5_000)), Ok(()));
        }
        assert!(rate.take(asker("a"), later(5_000)).is_err(), "no more than a burst is saved");
    }

    #[test]
    fn without_a_limit_everybody_gets_through() {
        let (rate, now) = (Rate::new(0, 1), Instant::now());
        assert!((0..1_000).all(|_| rate.take(Asker::Peer(None), now).is_ok()));
    }

    #[test]
    fn beyond_the_limit_of_buckets_new_callers_share_one() {
        let (rate, now) = (Rate::new(1, 1), Instant::now());
        for number in 0..2 * BUCKETS_MAX {
            // The first callers have a bucket each, the others share one.
            let taken = rate.take(asker(&format!("t{number}")), now);
            assert_eq!(taken.is_ok(), number <= BUCKETS_MAX, "{number}");
        }
        assert!(rate.full_at.lock().unwrap().len() <= BUCKETS_MAX + 1);
        assert_eq!(rate.take(asker("new"), now + Duration::from_secs(2)), Ok(()));
    }
}
