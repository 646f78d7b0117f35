//! Judges four parts of the daemon: the queue, the provider, the database, and how fresh summaries are. Lists why a part
//! isn't healthy.
//!
//! The limits are those of the alerts in `monitoring/alerts.yml`; a test compares them.

use maud::{Markup, html};

use super::text::{count, duration, line, percent, span, tokens};
use recapd_core::domain::time::{MINUTE_MS, Timestamp};
use recapd_store::Sample;
use recapd_telemetry::metrics::Circuit;

/// The queue has a backlog if more rows than this are ready or running (`RecapdQueueBacklog`).
pub const DEPTH_MAX: i64 = 50;
/// Updates are slow if they take longer than this on average (`RecapdUpdateDurationHigh`).
pub const DURATION_MS_MAX: i64 = 30_000;
/// Documents are close to their ceiling if they are longer than this on average (`RecapdSummarySizeHigh`).
pub const DOCUMENT_TOKENS_MAX: i64 = 9_000;
/// The provider is at fault if more than this share of all attempts failed (`RecapdUpdateFailureRateHigh`), …
pub const FAILURES_PERCENT_MAX: i64 = 5;
/// … and at least this many.
pub const FAILURES_MIN: i64 = 3;
/// A summary is stale if exchanges wait for it longer than this plus the longest wait for a batch
/// (`RecapdSummariesStale`).
pub const PENDING_MS_MAX: i64 = 30 * MINUTE_MS;
/// No worker runs if a row has been ready for longer than this.
const READY_MS_MAX: i64 = 5 * MINUTE_MS;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Good,
    Warn,
    Bad,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthStatus {
    pub(super) name: &'static str,
    pub(super) level: Level,
    /// What is wrong; otherwise a description of the good state.
    pub(super) why: Vec<String>,
}

impl HealthStatus {
    pub(super) fn is_fault(&self) -> bool {
        self.level > Level::Good
    }
}

/// Renders a fault so that it is seen at once.
pub(super) fn banner(status: &HealthStatus) -> Markup {
    let class = if status.level == Level::Bad { "bad" } else { "warn" };
    html! {
        div.banner.(class) role="status" {
            strong { (status.name) }
            @for (index, why) in status.why.iter().enumerate() { @if index > 0 { ";" } " " bdi { (line(why)) } }
        }
    }
}

pub struct HealthFacts<'f> {
    /// The present figures and those of the last day; `None` if the database doesn't answer.
    pub sample: Option<&'f Sample>,
    /// One for each configured model.
    pub circuits: &'f [Circuit],
    pub paused_since: Option<Timestamp>,
    /// The database's error, if it failed.
    pub database: Option<&'f str>,
    /// Exchanges may wait this long for a batch.
    pub batch_wait_ms: i64,
    pub now: Timestamp,
}

pub fn statuses(facts: &HealthFacts<'_>) -> [HealthStatus; 4] {
    [queue(facts), provider(facts.sample, facts.circuits, facts.now), database(facts), freshness(facts)]
}

/// Returns a status that lists `faults`. If there are none, it is good and says `well`.
fn status(name: &'static str, faults: Vec<(Level, String)>, well: String) -> HealthStatus {
    let level = faults.iter().map(|(level, _)| *level).max().unwrap_or(Level::Good);
    let mut why: Vec<String> = faults.into_iter().map(|(_, why)| why).collect();
    if why.is_empty() {
        why.push(well);
    }
    HealthStatus { name, level, why }
}

fn unknown(name: &'static str) -> HealthStatus {
    status(name, vec![(Level::Bad, "unknown: the database doesn't answer".to_owned())], String::new())
}

fn queue(facts: &HealthFacts<'_>) -> HealthStatus {
    let Some(sample) = facts.sample else {
        return unknown("Queue");
    };
    let mut faults = Vec::new();
    if let Some(since) = facts.paused_since {
        faults
            .push((Level::Warn, format!("all updates are paused, for {}", span(facts.now.since_ms(since)))));
    }
    let busy = sample.ready + sample.running;
    if busy > DEPTH_MAX {
        faults
            .push((Level::Bad, format!("{} ready or running, more than {DEPTH_MAX}", count(busy, "update"))));
    }
    let waited_ms = sample.oldest_ready_at.map_or(0, |at| facts.now.since_ms(at));
    if waited_ms > READY_MS_MAX && facts.paused_since.is_none() {
        faults.push((Level::Bad, format!("no worker has taken the oldest update for {}", span(waited_ms))));
    }
    if sample.parked > 0 {
        faults
            .push((Level::Warn, format!("{} parked after the last attempt", count(sample.parked, "update"))));
    }
    if sample.paused > 0 {
        faults.push((
            Level::Warn,
            format!("{} paused by a spending limit or by an operator", count(sample.paused, "update")),
        ));
    }
    let well = format!(
        "{} ready, {} running, {} waiting for their time",
        sample.ready, sample.running, sample.scheduled
    );
    status("Queue", faults, well)
}

pub(super) fn provider(sample: Option<&Sample>, circuits: &[Circuit], now: Timestamp) -> HealthStatus {
    let mut faults = Vec::new();
    for circuit in circuits {
        if let Some(until) = circuit.open_until {
            let remaining = span(until.since_ms(now));
            let reason = circuit.why.as_ref().map_or_else(String::new, |why| format!("{why}; "));
            faults.push((
                Level::Bad,
                format!(
                    "{reason}{} {} isn't called for another {remaining}",
                    circuit.provider, circuit.model
                ),
            ));
        }
    }
    if let Some(sample) = sample {
        let ended = sample.completed + sample.failed;
        let too_many = sample.failed.saturating_mul(100) > ended.saturating_mul(FAILURES_PERCENT_MAX);
        if sample.failed >= FAILURES_MIN && too_many {
            faults.push((
                Level::Bad,
                format!("{} of the attempts of the last day failed", percent(sample.failed, ended)),
            ));
        }
        if sample.mean_duration_ms > DURATION_MS_MAX {
            faults.push((
                Level::Warn,
                format!("updates take {} on average, more than 30s", duration(sample.mean_duration_ms)),
            ));
        }
    }
    let names: Vec<&str> = circuits.iter().map(|circuit| circuit.model.as_str()).collect();
    let well = if names.is_empty() {
        "the built-in summariser needs no provider".to_owned()
    } else {
        format!("{} can be called", names.join(", "))
    };
    status("Provider", faults, well)
}

fn database(facts: &HealthFacts<'_>) -> HealthStatus {
    let faults = facts.database.map(|why| (Level::Bad, why.to_owned()));
    status("Database", faults.into_iter().collect(), "answers".to_owned())
}

fn freshness(facts: &HealthFacts<'_>) -> HealthStatus {
    let Some(sample) = facts.sample else {
        return unknown("Freshness");
    };
    let mut faults = Vec::new();
    let waits_ms = sample.oldest_pending_at.map_or(0, |at| facts.now.since_ms(at));
    if waits_ms > PENDING_MS_MAX + facts.batch_wait_ms {
        faults.push((Level::Bad, format!("exchanges have waited for a summary for {}", span(waits_ms))));
    }
    if sample.mean_document_tokens > DOCUMENT_TOKENS_MAX {
        let mean = tokens(sample.mean_document_tokens);
        faults.push((Level::Warn, format!("documents have {mean} tokens on average, near their ceiling")));
    }
    if sample.truncated > 0 {
        let lost = count(sample.truncated, "update");
        faults.push((
            Level::Warn,
            format!("{lost} dropped decisions or constraints to fit the document's ceiling"),
        ));
    }
    let well = match sample.oldest_pending_at {
        Some(_) => format!("the oldest exchange has waited for {}", span(waits_ms)),
        None => "every summary reaches up to its window".to_owned(),
    };
    status("Freshness", faults, well)
}

#[cfg(test)]
mod tests {
    use super::*;
    use recapd_core::domain::time::HOUR_MS;

    const NOW: Timestamp = Timestamp(1_795_000_000_000);

    fn levels(sample: Option<&Sample>, circuits: &[Circuit], database: Option<&str>) -> Vec<(Level, String)> {
        let facts =
            HealthFacts { sample, circuits, paused_since: None, database, batch_wait_ms: 0, now: NOW };
        let told = statuses(&facts).into_iter().map(|status| (status.level, status.why.join("; ")));
        told.collect()
    }

    #[test]
    fn all_is_good_without_faults() {
        let sample = Sample {
            completed: 100,
            failed: 5,
            ready: 50,
            mean_duration_ms: 30_000,
            mean_document_tokens: 9_000,
            ..Sample::default()
        };
        assert!(levels(Some(&sample), &[], None).iter().all(|(level, _)| *level == Level::Good));
    }

    #[test]
    fn exchanges_that_wait_for_a_batch_are_fresh() {
        let level = |waits_ms: i64, batch_wait_ms: i64| {
            let sample = Sample { oldest_pending_at: Some(NOW.plus_ms(-waits_ms)), ..Sample::default() };
            let facts = HealthFacts {
                sample: Some(&sample),
                circuits: &[],
                paused_since: None,
                database: None,
                batch_wait_ms,
                now: NOW,
            };
            freshness(&facts).level
        };
        assert_eq!(level(PENDING_MS_MAX + 1, 0), Level::Bad);
        assert_eq!(level(4 * HOUR_MS, 4 * HOUR_MS), Level::Good);
        assert_eq!(level(4 * HOUR_MS + PENDING_MS_MAX + 1, 4 * HOUR_MS), Level::Bad);
    }

    #[test]
    fn each_status_says_why() {
        let sample = Sample {
            completed: 90,
            failed: 10,
            ready: 51,
            parked: 2,
            oldest_ready_at: Some(NOW.plus_ms(-10 * MINUTE_MS)),
            oldest_pending_at: Some(NOW.plus_ms(-3 * HOUR_MS)),
            mean_document_tokens: 9_600,
            ..Sample::default()
        };
        let circuit = Circuit {
            provider: "openai".to_owned(),
            model: "small".to_owned(),
            open_until: Some(NOW.plus_ms(90_000)),
            why: Some("OpenAI refuses the API key (401)".to_owned()),
        };
        let told = |found: &[(Level, String)], expected: [(Level, &str); 4]| {
            let found: Vec<(Level, &str)> = found.iter().map(|(level, why)| (*level, why.as_str())).collect();
            assert_eq!(found, expected);
        };
        told(
            &levels(Some(&sample), &[circuit], None),
            [
                (
                    Level::Bad,
                    "51 updates ready or running, more than 50; no worker has taken the oldest update for 10m; \
                     2 updates parked after the last attempt",
                ),
                (
                    Level::Bad,
                    "OpenAI refuses the API key (401); openai small isn't called for another 1m 30s; 10% of the attempts of the last day failed",
                ),
                (Level::Good, "answers"),
                (
                    Level::Bad,
                    "exchanges have waited for a summary for 3h; documents have 9.6k tokens on average, near their ceiling",
                ),
            ],
        );
        let unknown = (Level::Bad, "unknown: the database doesn't answer");
        told(
            &levels(None, &[], Some("no answer within 2000 ms")),
            [
                unknown,
                (Level::Good, "the built-in summariser needs no provider"),
                (Level::Bad, "no answer within 2000 ms"),
                unknown,
            ],
        );
    }
}
