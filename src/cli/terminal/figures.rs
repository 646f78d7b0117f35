//! Formats figures for people.

use recapd_core::domain::time::Timestamp;

/// Formats tokens in thousands with one decimal: `15.8k`.
pub(crate) fn thousands(tokens: i64) -> String {
    if tokens < 1_000 { tokens.to_string() } else { format!("{}.{}k", tokens / 1_000, tokens % 1_000 / 100) }
}

/// Formats a share as a percentage with one decimal: `0.2%`.
pub(crate) fn percent(part: i64, total: i64) -> String {
    let permille = part * 1_000 / total.max(1);
    format!("{}.{}%", permille / 10, permille % 10)
}

/// Formats a duration in two units: `1m 1s`, `30h 0m`, `2d 7h`. Days begin at 48 hours; less than a minute has one unit.
pub(crate) fn span(span_ms: i64) -> String {
    let seconds = (span_ms / 1_000).max(0);
    match seconds {
        0..=59 => format!("{seconds}s"),
        60..=3_599 => format!("{}m {}s", seconds / 60, seconds % 60),
        3_600..=172_799 => format!("{}h {}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// Formats a short duration with more detail: `820ms`, `8.2s`, `2m 10s`.
pub(crate) fn duration(duration_ms: i64) -> String {
    match duration_ms {
        ..1_000 => format!("{duration_ms}ms"),
        1_000..60_000 => format!("{}.{}s", duration_ms / 1_000, duration_ms % 1_000 / 100),
        _ => span(duration_ms),
    }
}

/// Formats how long ago something happened, in one unit: `5s ago`, `30h ago`, `10d ago`; `in …` for the future.
pub(crate) fn ago(at: Timestamp, now: Timestamp) -> String {
    match now.since_ms(at) {
        ms @ ..=-1_000 => format!("in {}", unit(-ms)),
        ..1_000 => "now".to_owned(),
        ms => format!("{} ago", unit(ms)),
    }
}

/// Formats a duration in one unit. Days begin at 48 hours.
fn unit(span_ms: i64) -> String {
    let seconds = span_ms / 1_000;
    match seconds {
        0..=59 => format!("{seconds}s"),
        60..=3_599 => format!("{}m", seconds / 60),
        3_600..=172_799 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Formats millionths of a dollar: `$0.0123`.
pub(crate) fn dollars(microusd: i64) -> String {
    format!("${}.{:04}", microusd / 1_000_000, microusd % 1_000_000 / 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short_and_have_units() {
        let spans = [0, 59_999, 61_000, 7_260_000, 108_000_000, 200_000_000].map(span);
        assert_eq!(spans, ["0s", "59s", "1m 1s", "2h 1m", "30h 0m", "2d 7h"]);
        assert_eq!([7, 8_240, 61_000].map(duration), ["7ms", "8.2s", "1m 1s"]);
        let now = Timestamp(10_000_000_000);
        let ages = [0, 5_000, 180_000, 10_800_000, 864_000_000, -90_000].map(|ms| ago(now.plus_ms(-ms), now));
        assert_eq!(ages, ["now", "5s ago", "3m ago", "3h ago", "10d ago", "in 1m"]);
        assert_eq!([999, 15_870].map(thousands), ["999", "15.8k"]);
        assert_eq!(percent(2, 1_000), "0.2%");
        assert_eq!(dollars(12_300), "$0.0123");
    }
}
