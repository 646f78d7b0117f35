//! Throttles the log of a repeated failure: the first one is logged at once, then one a minute. Otherwise failures would fill the log.

use super::time::MINUTE_MS;

/// The interval of log entries while failures go on.
const LOG_EVERY_MS: i64 = MINUTE_MS;

/// Consecutive failures of one thing. Times are milliseconds from any origin.
#[derive(Clone, Copy, Debug, Default)]
pub struct FailureStreak {
    failing: Option<Streak>,
}

#[derive(Clone, Copy, Debug)]
struct Streak {
    since_ms: i64,
    told_ms: i64,
    untold: u64,
}

impl FailureStreak {
    /// Records a failure. If it is to be logged, returns the number of unlogged failures since the last log entry.
    pub fn failed(&mut self, now_ms: i64) -> Option<u64> {
        let Some(failing) = &mut self.failing else {
            self.failing = Some(Streak {
                since_ms: now_ms,
                told_ms: now_ms,
                untold: 0,
            });
            return Some(0);
        };
        // A clock that was set back doesn't suppress the log.
        if (now_ms - failing.told_ms).abs() < LOG_EVERY_MS {
            failing.untold += 1;
            return None;
        }
        failing.told_ms = now_ms;
        Some(std::mem::take(&mut failing.untold))
    }

    /// Records a success. Returns how many milliseconds the failures lasted, if there were any: that is to be logged.
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
        let mut spell = FailureStreak::default();
        assert_eq!(spell.worked(0), None);
        let told: Vec<u64> = (0..150)
            .filter_map(|second| spell.failed(second * 1_000))
            .collect();
        assert_eq!(told, [0, 59, 59]);
        assert_eq!(spell.worked(150_000), Some(150_000));
        assert_eq!(spell.worked(151_000), None);
        assert_eq!(spell.failed(152_000), Some(0));
    }
}
