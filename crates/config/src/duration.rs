//! Durations as texts: `15m` for a key in milliseconds, minutes, hours or days.

use recapd_core::domain::time::{DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS};

/// The parts of a key's name that say its unit, each with the unit.
const KEY_UNITS: [(&str, DurationUnit); 4] = [
    (
        "ms",
        DurationUnit {
            plural: "milliseconds",
            ms: 1,
            example: "15m",
        },
    ),
    (
        "minutes",
        DurationUnit {
            plural: "minutes",
            ms: MINUTE_MS,
            example: "4h",
        },
    ),
    (
        "hours",
        DurationUnit {
            plural: "hours",
            ms: HOUR_MS,
            example: "7d",
        },
    ),
    (
        "days",
        DurationUnit {
            plural: "days",
            ms: DAY_MS,
            example: "90d",
        },
    ),
];

/// The units in a text, in milliseconds.
const TEXT_UNITS: [(&str, i64); 5] = [
    ("ms", 1),
    ("s", SECOND_MS),
    ("m", MINUTE_MS),
    ("h", HOUR_MS),
    ("d", DAY_MS),
];

/// The unit of a key whose value is a duration.
#[derive(Clone, Copy)]
pub(super) struct DurationUnit {
    plural: &'static str,
    ms: i64,
    /// A duration for an error to show.
    example: &'static str,
}

impl DurationUnit {
    /// Returns the unit of `key`; `None` if its value isn't a duration.
    pub(super) fn of(key: &str) -> Option<Self> {
        let parts = || key.rsplit(['_', '.']);
        let unit = KEY_UNITS
            .iter()
            .find(|(name, _)| parts().any(|part| part == *name));
        unit.map(|(_, unit)| *unit)
    }

    /// Returns a text that says what the key accepts.
    pub(super) fn expected(self) -> String {
        format!(
            "a whole number of {}, or a duration such as {}",
            self.plural, self.example
        )
    }

    /// Reads `90s`, `15m`, `1h30m`. Returns `None` if the text isn't a duration, or isn't a whole number of this unit.
    pub(super) fn read(self, text: &str) -> Option<i64> {
        let ms = milliseconds(text.trim())?;
        (ms % self.ms == 0).then_some(ms / self.ms)
    }
}

fn milliseconds(text: &str) -> Option<i64> {
    let end = text.find(|character: char| !character.is_ascii_digit())?;
    let (digits, rest) = text.split_at_checked(end)?;
    let unit_end = rest
        .find(|character: char| character.is_ascii_digit())
        .unwrap_or(rest.len());
    let (unit, rest) = rest.split_at_checked(unit_end)?;
    let (_, factor) = TEXT_UNITS.iter().find(|(name, _)| *name == unit)?;
    let ms = digits.parse::<i64>().ok()?.checked_mul(*factor)?;
    match rest {
        "" => Some(ms),
        rest => ms.checked_add(milliseconds(rest)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_becomes_a_number_of_the_keys_unit() {
        for (key, text, expected) in [
            ("queue.debounce_ms", "15m", Some(900_000)),
            ("queue.debounce_ms", " 1h30m ", Some(5_400_000)),
            ("queue.debounce_ms", "250ms", Some(250)),
            ("database.read_lag_ms_max", "10s", Some(10_000)),
            ("session.idle_gap_minutes", "4h", Some(240)),
            ("summary.week_hours", "14d", Some(336)),
            ("schedule.runs_keep_days", "90d", Some(90)),
            ("summary.week_hours", "90m", None),
            ("queue.debounce_ms", "15x", None),
            ("queue.debounce_ms", "15", None),
            ("queue.debounce_ms", "m", None),
            ("queue.debounce_ms", "", None),
            ("queue.debounce_ms", "-1s", None),
            ("queue.debounce_ms", "99999999999999999d", None),
        ] {
            assert_eq!(
                DurationUnit::of(key).unwrap().read(text),
                expected,
                "{key} {text}"
            );
        }
        for key in [
            "window.budget_tokens",
            "spend.calls_per_day",
            "model.tokens_per_minute",
        ] {
            assert!(DurationUnit::of(key).is_none(), "{key}");
        }
    }
}
