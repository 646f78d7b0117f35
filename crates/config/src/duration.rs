//! Durations as texts: `15m` for a key in milliseconds, minutes, hours or days.

use toml::Value;

use recapd_core::domain::time::{DAY_MS, HOUR_MS, MINUTE_MS, duration_ms, duration_text};

/// The parts of a key's name that say its unit, each with the unit.
const KEY_UNITS: [(&str, DurationUnit); 4] = [
    ("ms", DurationUnit { plural: "milliseconds", ms: 1, example: "15m" }),
    ("minutes", DurationUnit { plural: "minutes", ms: MINUTE_MS, example: "4h" }),
    ("hours", DurationUnit { plural: "hours", ms: HOUR_MS, example: "7d" }),
    ("days", DurationUnit { plural: "days", ms: DAY_MS, example: "90d" }),
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
        let unit = KEY_UNITS.iter().find(|(name, _)| parts().any(|part| part == *name));
        unit.map(|(_, unit)| *unit)
    }

    /// Returns a text that says what the key accepts.
    pub(super) fn expected(self) -> String {
        format!("a whole number of {}, or a duration such as {}", self.plural, self.example)
    }

    /// Reads `90s`, `15m`, `1h30m`. Returns `None` if the text isn't a duration, or isn't a whole number of this unit.
    pub(super) fn read(self, text: &str) -> Option<i64> {
        let ms = duration_ms(text.trim())?;
        (ms % self.ms == 0).then_some(ms / self.ms)
    }
}

/// Formats the value of `key` in TOML, a duration as `"15m"`.
pub(super) fn toml_text(key: &str, value: &Value) -> String {
    match (DurationUnit::of(key), value.as_integer()) {
        (Some(unit), Some(number)) => format!("\"{}\"", duration_text(number.saturating_mul(unit.ms))),
        _ => value.to_string(),
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
        ] {
            assert_eq!(DurationUnit::of(key).unwrap().read(text), expected, "{key} {text}");
        }
        for key in ["window.budget_tokens", "spend.calls_per_day", "model.tokens_per_minute"] {
            assert!(DurationUnit::of(key).is_none(), "{key}");
        }
    }
}
