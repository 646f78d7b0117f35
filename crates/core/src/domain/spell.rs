//! What fails again and again: when to say so. A log that tells of every failure is full before anybody reads it.

use super::time::MINUTE_MS;

/// While it goes on, it is told once in so many milliseconds.
const TOLD_EVERY_MS: i64 = MINUTE_MS;

/// A spell of failures of one thing. Times are milliseconds from any beginning.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spell {
    failing: Option<FailureStreak>,
}

#[derive(Clone, Copy, Debug)]
struct FailureStreak {
    since_ms: i64,
    told_ms: i64,
    untold: u64,
}

impl Spell {
    /// It failed. How many failures nobody was told of since the last one, if this one is to be told.
    pub fn failed(&mut self, now_ms: i64) -> Option<u64> {
        let Some(failing) = &mut self.failing else {
            self.failing = Some(FailureStreak {
                since_ms: now_ms,
                told_ms: now_ms,
                untold: 0,
            });
            return Some(0);
        };
        // A clock that was set back doesn't make it silent.
        if (now_ms - failing.told_ms).abs() < TOLD_EVERY_MS {
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
        let mut spell = Spell::default();
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
