//! Reads how long a provider asks to wait before a retry, in `Retry-After` and other headers.
//! [`recapd_core::domain::work::RetryPolicy`] decides how often an update is retried, and its backoff.

use std::time::Duration;

use chrono::DateTime;
use reqwest::header::HeaderMap;

/// Limits the wait that a provider can ask for, because no quota is longer than a day.
const RETRY_AFTER_MAX: Duration = Duration::from_hours(24);
/// Limits the wait for a provider that fails or is overloaded, because it may work again earlier than it says.
pub(super) const OUTAGE_WAIT_MAX: Duration = Duration::from_hours(1);
/// The shortest wait for a day's quota, because providers don't say when the quota is full again.
pub(super) const QUOTA_WAIT_MIN: Duration = Duration::from_hours(1);

const ANTHROPIC_LIMITS: [&str; 4] = ["requests", "tokens", "input-tokens", "output-tokens"];

/// Returns the wait that a refusal asks for. The first of these counts: `retry-after-ms`, `retry-after` (seconds or a date), the
/// wait that the body asks for (`in_body`), the reset times of exhausted limits.
pub(super) fn retry_after(headers: &HeaderMap, in_body: Option<Duration>) -> Option<Duration> {
    header(headers, "retry-after-ms")
        .and_then(|text| seconds(text, 1e-3))
        .or_else(|| header(headers, "retry-after").and_then(|text| seconds(text, 1.0)))
        .or_else(|| until_date(headers))
        .or(in_body)
        .or_else(|| reset(headers))
        .or_else(|| reset_at(headers))
        .map(|wait| wait.min(RETRY_AFTER_MAX))
}

/// Returns how long the limits stay exhausted that an answer's headers report as exhausted; `None` if they report none.
pub(super) fn exhausted_for(headers: &HeaderMap) -> Option<Duration> {
    let is_used_up = |name: &str| header(headers, name) == Some("0");
    let openai = ["requests", "tokens"].map(|limit| format!("x-ratelimit-remaining-{limit}"));
    let anthropic = ANTHROPIC_LIMITS.map(|limit| format!("anthropic-ratelimit-{limit}-remaining"));
    let rest = match () {
        () if openai.iter().any(|name| is_used_up(name)) => reset(headers),
        () if anthropic.iter().any(|name| is_used_up(name)) => reset_at(headers),
        () => None,
    };
    rest.map(|wait| wait.min(RETRY_AFTER_MAX))
}

/// Parses a duration as Go writes it: `1s`, `6m0s`, `20ms`, `1h2m3.5s`.
pub(super) fn go_duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut sum_s = 0.0;
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit() && c != '.')?);
        let (unit, next) = after.split_at(after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len()));
        sum_s += number.parse::<f64>().ok()? * unit_s(unit)?;
        rest = next;
    }
    (!text.trim().is_empty()).then(|| Duration::try_from_secs_f64(sum_s).ok())?
}

fn unit_s(unit: &str) -> Option<f64> {
    Some(match unit {
        "h" => 3_600.0,
        "m" => 60.0,
        "s" => 1.0,
        "ms" => 1e-3,
        "us" | "µs" => 1e-6,
        "ns" => 1e-9,
        _ => return None,
    })
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn seconds(text: &str, unit_s: f64) -> Option<Duration> {
    let count = text.trim().parse::<f64>().ok()?;
    Duration::try_from_secs_f64(count * unit_s).ok()
}

/// Reads `retry-after` as a date, relative to the server's own clock (RFC 9110, 10.2.3).
fn until_date(headers: &HeaderMap) -> Option<Duration> {
    let moment = |name| DateTime::parse_from_rfc2822(header(headers, name)?).ok();
    let wait = moment("retry-after")? - moment("date")?;
    Some(wait.to_std().unwrap_or_default())
}

/// Returns the reset time of OpenAI's limits, which are given as durations.
fn reset(headers: &HeaderMap) -> Option<Duration> {
    longest(["requests", "tokens"].map(|limit| {
        let is_used_up = header(headers, &format!("x-ratelimit-remaining-{limit}")) == Some("0");
        let wait = header(headers, &format!("x-ratelimit-reset-{limit}")).and_then(go_duration);
        (is_used_up, wait)
    }))
}

/// Returns the reset time of Anthropic's limits, which are given as times by the server's own clock.
fn reset_at(headers: &HeaderMap) -> Option<Duration> {
    let now = DateTime::parse_from_rfc2822(header(headers, "date")?).ok()?;
    longest(ANTHROPIC_LIMITS.map(|limit| {
        let name = |what: &str| format!("anthropic-ratelimit-{limit}-{what}");
        let is_used_up = header(headers, &name("remaining")) == Some("0");
        let at = header(headers, &name("reset")).and_then(|at| DateTime::parse_from_rfc3339(at).ok());
        (is_used_up, at.map(|at| (at - now).to_std().unwrap_or_default()))
    }))
}

/// Returns the longest reset time among the limits that are used up; if none is reported as used up, among all limits.
fn longest<const N: usize>(limits: [(bool, Option<Duration>); N]) -> Option<Duration> {
    let any_used_up = limits.iter().any(|(is_used_up, wait)| *is_used_up && wait.is_some());
    limits
        .into_iter()
        .filter(|(is_used_up, _)| *is_used_up || !any_used_up)
        .filter_map(|(_, wait)| wait)
        .max()
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderName, HeaderValue};

    use super::*;

    fn wait_ms(headers: &[(&'static str, &'static str)], in_body: Option<Duration>) -> Option<u128> {
        let map = headers
            .iter()
            .map(|&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect();
        retry_after(&map, in_body).map(|wait| wait.as_millis())
    }

    #[test]
    fn an_answer_may_report_used_up_limits() {
        let rest = |headers: &[(&'static str, &'static str)]| {
            let map = headers
                .iter()
                .map(|&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
                .collect();
            exhausted_for(&map).map(|wait| wait.as_millis())
        };
        let date = ("date", "Fri, 20 Nov 2026 08:40:00 GMT");
        for (headers, expected_ms) in [
            (&[][..], None),
            (&[("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "6s")], Some(6_000)),
            (&[("x-ratelimit-remaining-tokens", "9"), ("x-ratelimit-reset-tokens", "6s")], None),
            (
                &[
                    date,
                    ("anthropic-ratelimit-input-tokens-remaining", "0"),
                    ("anthropic-ratelimit-input-tokens-reset", "2026-11-20T08:40:09Z"),
                    ("anthropic-ratelimit-requests-remaining", "4"),
                    ("anthropic-ratelimit-requests-reset", "2026-11-20T08:40:50Z"),
                ],
                Some(9_000),
            ),
        ] {
            assert_eq!(rest(headers), expected_ms, "{headers:?}");
        }
    }

    #[test]
    fn go_durations() {
        for (text, expected_ms) in [
            ("1s", Some(1_000)),
            ("6m0s", Some(360_000)),
            ("20ms", Some(20)),
            ("1h2m3.5s", Some(3_723_500)),
            ("10h17m5.7s", Some(37_025_700)),
            ("0s", Some(0)),
            ("1500µs", Some(1)),
            ("", None),
            ("5", None),
            ("s", None),
            ("1d", None),
            ("-1s", None),
            ("soon", None),
        ] {
            assert_eq!(go_duration(text).map(|wait| wait.as_millis()), expected_ms, "{text}");
        }
    }

    #[test]
    fn the_most_exact_wait_wins() {
        let both = [("retry-after", "2"), ("retry-after-ms", "1500")];
        assert_eq!(wait_ms(&both, None), Some(1_500));
        assert_eq!(wait_ms(&[("retry-after", "2")], Some(Duration::from_secs(9))), Some(2_000));
        assert_eq!(wait_ms(&[("retry-after", "1e9")], None), Some(86_400_000));
        assert_eq!(wait_ms(&[("retry-after", "-1")], None), None);
        assert_eq!(wait_ms(&[], Some(Duration::from_millis(9_816))), Some(9_816));
        assert_eq!(wait_ms(&[], None), None);
    }

    #[test]
    fn dates_count_from_the_servers_clock() {
        let date = ("date", "Fri, 20 Nov 2026 08:00:00 GMT");
        assert_eq!(wait_ms(&[date, ("retry-after", "Fri, 20 Nov 2026 08:00:30 GMT")], None), Some(30_000));
        assert_eq!(wait_ms(&[date, ("retry-after", "Fri, 20 Nov 2026 07:59:00 GMT")], None), Some(0));
        assert_eq!(wait_ms(&[("retry-after", "Fri, 20 Nov 2026 08:00:30 GMT")], None), None);
    }

    #[test]
    fn the_limit_that_is_used_up_counts() {
        let resets = [("x-ratelimit-reset-requests", "20ms"), ("x-ratelimit-reset-tokens", "6m0s")];
        assert_eq!(wait_ms(&resets, None), Some(360_000));
        let requests = [&resets[..], &[("x-ratelimit-remaining-requests", "0")]].concat();
        assert_eq!(wait_ms(&requests, None), Some(20));
    }

    #[test]
    fn reset_times_count_from_the_servers_clock_too() {
        let limits = [
            ("date", "Fri, 20 Nov 2026 08:00:00 GMT"),
            ("anthropic-ratelimit-requests-reset", "2026-11-20T08:00:05Z"),
            ("anthropic-ratelimit-input-tokens-reset", "2026-11-20T08:00:45Z"),
        ];
        assert_eq!(wait_ms(&limits, None), Some(45_000));
        let requests = [&limits[..], &[("anthropic-ratelimit-requests-remaining", "0")]].concat();
        assert_eq!(wait_ms(&requests, None), Some(5_000));
        assert_eq!(wait_ms(&limits[1..], None), None);
    }
}
