//! When to log something that fails again and again: at once, then once a minute. A log with every failure is full before anybody
//! reads it.

use super::time::MINUTE_MS;

/// While failures go on, one is logged in so many milliseconds.
const LOG_EVERY_MS: i64 = MINUTE_MS;

/// Failures of one thing, one after the other. Times are milliseconds from any beginning.
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
    /// It failed. How many failures nobody was told of since the last one, if this one is to be told.
    pub fn failed(&mut self, now_ms: i64) -> Option<u64> {
        let Some(failing) = &mut self.failing else {
            self.failing = Some(Streak {
                since_ms: now_ms,
                told_ms: now_ms,
                untold: 0,
            });
            return Some(0);
        };
        // A clock that was set back doesn't make it silent.
        if (now_ms - failing.told_ms).abs() < LOG_EVERY_MS {
            failing.untold += 1;
            return None;
        }
        failing.told_ms = now_ms;
        Some(std::mem::take(&mut failing.untold))
    }

    /// It worked. For how many milliseconds it had failed, if it had: that is to be told.
    pub fn worked(&mut self, now_ms: i64) -> Option<i64> {
        let failing = self.failing.take()?;
        Some((now_ms - failing.since_ms).max(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spell_is_told_when_it_begins_once_a_minute_and_when_it_ends() {
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
