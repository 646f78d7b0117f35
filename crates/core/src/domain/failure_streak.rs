//! Throttles the log of a repeated failure: the first failure is logged at once, later ones once a minute.

use super::time::MINUTE_MS;

/// While failures continue, logs one each time this has passed.
const LOG_EVERY_MS: i64 = MINUTE_MS;

/// Consecutive failures of one operation. Times are milliseconds from any origin.
#[derive(Clone, Copy, Debug, Default)]
pub struct FailureStreak {
    failing: Option<Streak>,
}

#[derive(Clone, Copy, Debug)]
struct Streak {
    since_ms: i64,
    logged_ms: i64,
    unlogged: u64,
}

impl FailureStreak {
    /// Records a failure. Returns `None` if the caller shouldn't log it; otherwise how many failures weren't logged since the last log
    /// entry.
    pub fn failed(&mut self, now_ms: i64) -> Option<u64> {
        let Some(failing) = &mut self.failing else {
            self.failing = Some(Streak { since_ms: now_ms, logged_ms: now_ms, unlogged: 0 });
            return Some(0);
        };
        // A clock that was set back doesn't stop the log.
        if (now_ms - failing.logged_ms).abs() < LOG_EVERY_MS {
            failing.unlogged += 1;
            return None;
        }
        failing.logged_ms = now_ms;
        Some(std::mem::take(&mut failing.unlogged))
    }

    /// Records a success. If failures came before it, returns how long they lasted, in milliseconds; the caller logs that.
    pub fn worked(&mut self, now_ms: i64) -> Option<i64> {
        let failing = self.failing.take()?;
        Some((now_ms - failing.since_ms).max(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_streak_is_logged_at_its_start_each_minute_and_at_its_end() {
        let mut streak = FailureStreak::default();
        assert_eq!(streak.worked(0), None);
        let unlogged: Vec<u64> = (0..150).filter_map(|second| streak.failed(second * 1_000)).collect();
        assert_eq!(unlogged, [0, 59, 59]);
        assert_eq!(streak.worked(150_000), Some(150_000));
        assert_eq!(streak.worked(151_000), None);
        assert_eq!(streak.failed(152_000), Some(0));
    }
}
