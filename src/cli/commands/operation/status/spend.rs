//! The status lines about spending and providers.

use crate::cli::terminal::figures::{span, thousands};
use recapd_core::domain::{
    number::{count, grouped},
    spend::{MICROUSD_PER_USD, SpendLimits, SpendTotal},
    time::Timestamp,
};
use recapd_store::Sample;
use recapd_telemetry::metrics::Circuit;

/// Formats what was spent today, and the limits that are set: `$1.92 of $5.00, 12 of 100 calls`.
pub(super) fn today(spent: SpendTotal, limits: SpendLimits) -> String {
    let limited = |text: String, limit_text: String, limit: i64| match limit {
        0 => text,
        _ => format!("{text} of {limit_text}"),
    };
    let cost = limited(usd(spent.cost_microusd), usd(limits.cost_microusd), limits.cost_microusd);
    let calls =
        (0 < limits.calls).then(|| format!("{} of {}", grouped(spent.calls), count(limits.calls, "call")));
    let tokens = (0 < limits.tokens)
        .then(|| format!("{} of {} tokens", thousands(spent.tokens), thousands(limits.tokens)));
    let unpriced = (0 < spent.unpriced_calls)
        .then(|| format!("{} without a price", count(spent.unpriced_calls, "call")));
    let parts = [Some(cost), calls, tokens, unpriced];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Formats the first provider's name, and how its last call ended.
pub(super) fn provider(sample: &Sample, circuits: &[Circuit], now: Timestamp) -> String {
    if let [circuit, ..] = circuits {
        return format!("provider  {}", line(circuit, now));
    }
    match &sample.last_run {
        Some(last) => {
            let how = last.error_class.as_deref().unwrap_or("ok");
            let ago = span(now.since_ms(last.at));
            format!("provider  {} {how}, {ago} ago", last.provider)
        }
        None => "provider  not called yet".to_owned(),
    }
}

/// Returns lines about the fallbacks, and about agents that wait for the next day.
pub(super) fn lines(sample: &Sample, circuits: &[Circuit], now: Timestamp) -> Vec<String> {
    let fallbacks = circuits.iter().skip(1).map(|circuit| format!("  fallback   {}", line(circuit, now)));
    let mut lines: Vec<String> = fallbacks.collect();
    if let (1.., Some(until)) = (sample.paused, sample.paused_until) {
        lines.push(format!("  paused     {}: spend limit until {until}", count(sample.paused, "agent")));
    }
    lines
}

fn line(circuit: &Circuit, now: Timestamp) -> String {
    let Circuit { provider, model, open_until, why } = circuit;
    let how = open_until.map_or("ok".to_owned(), |until| match until.since_ms(now) {
        wait_ms @ 1.. => format!("failing, not called for {}", span(wait_ms)),
        _ => "failing, to be called again".to_owned(),
    });
    let why = why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
    format!("{provider} {model} {how}{why}")
}

/// Formats dollars with cents; below a dollar, with hundredths of a cent.
fn usd(microusd: i64) -> String {
    let (dollars, fraction) = (microusd / MICROUSD_PER_USD, microusd % MICROUSD_PER_USD);
    if dollars == 0 && fraction != 0 {
        format!("$0.{:04}", (fraction + 99) / 100)
    } else {
        format!("${dollars}.{:02}", fraction / 10_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recapd_store::LastRun;

    #[test]
    fn spending_is_shown_with_its_limits() {
        let spent = SpendTotal { calls: 12, tokens: 34_500, cost_microusd: 1_920_000, unpriced_calls: 0 };
        let limits = SpendLimits { cost_microusd: 5_000_000, ..SpendLimits::default() };
        assert_eq!(today(spent, limits), "$1.92 of $5.00");
        assert_eq!(today(spent, SpendLimits::default()), "$1.92");
        let all = SpendLimits { calls: 100, tokens: 1_000_000, cost_microusd: 5_000_000 };
        let some = SpendTotal { cost_microusd: 3_001, unpriced_calls: 2, ..spent };
        assert_eq!(
            today(some, all),
            "$0.0031 of $5.00, 12 of 100 calls, 34.5k of 1000.0k tokens, 2 calls without a price"
        );
    }

    #[test]
    fn providers_and_waiting_updates_are_shown() {
        let now = Timestamp::parse("2026-11-20T12:00:00Z").unwrap();
        let circuit = |open_until| Circuit {
            provider: "anthropic".to_owned(),
            model: "claude-haiku-5-5".to_owned(),
            open_until,
            why: None,
        };
        let mut sample = Sample {
            last_run: Some(LastRun {
                provider: "openai".to_owned(),
                model: "gpt-5.4-mini".to_owned(),
                error_class: Some("provider_timeout".to_owned()),
                at: now.plus_ms(-90_000),
            }),
            ..Sample::default()
        };
        let circuits = [circuit(None), circuit(Some(now.plus_ms(20_000))), circuit(Some(now))];
        let text = |sample: &Sample, circuits: &[Circuit]| {
            let lines = lines(sample, circuits, now).join("\n");
            format!("{}\n{lines}", provider(sample, circuits, now))
        };
        insta::assert_snapshot!(text(&sample, &circuits), @r"
        provider  anthropic claude-haiku-5-5 ok
          fallback   anthropic claude-haiku-5-5 failing, not called for 20s
          fallback   anthropic claude-haiku-5-5 failing, to be called again
        ");
        assert_eq!(text(&sample, &[]), "provider  openai provider_timeout, 1m 30s ago\n");
        sample.paused = 3;
        sample.paused_until = Some(recapd_core::domain::spend::next_day(now));
        let paused = "  paused     3 agents: spend limit until 2026-11-21T00:00:00Z";
        assert_eq!(lines(&sample, &[], now), [paused]);
    }
}
