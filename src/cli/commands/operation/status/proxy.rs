//! The line about what the proxy did for an agent.

use crate::cli::terminal::figures::{ago, duration, thousands};
use recapd_core::domain::{number::count, time::Timestamp};
use recapd_store::operate::ProxyTotals;

/// Formats the line, with the line break before it; empty if no request went through the proxy.
pub(super) fn line(totals: &ProxyTotals, now: Timestamp) -> String {
    let Some(last_at) = totals.last_at else {
        return String::new();
    };
    let traffic = &totals.traffic;
    let mut parts = vec![
        count(traffic.requests, "request"),
        format!("{} bytes up", thousands(traffic.request_bytes)),
        format!("{} down", thousands(traffic.answer_bytes)),
    ];
    if traffic.compactions_answered > 0 {
        let compactions = count(traffic.compactions_answered, "compaction");
        let average = duration(traffic.answering_ms / traffic.compactions_answered);
        parts.push(format!("{compactions} answered in {average} each"));
    }
    let further_counts = [
        (traffic.compactions_forwarded, "compactions forwarded"),
        (traffic.window_steps, "window steps"),
        (traffic.saved_input_tokens, "input tokens saved (estimate)"),
        (traffic.failed_open, "failed open"),
        (traffic.unstored, "unstored"),
    ];
    let further_counts = further_counts.into_iter().filter(|(number, _)| *number > 0);
    parts.extend(further_counts.map(|(number, name)| format!("{} {name}", thousands(number))));
    format!("\n  proxy: {}, last {}", parts.join(", "), ago(last_at, now))
}
