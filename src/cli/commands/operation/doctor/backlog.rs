//! Checks of the queue: backlog, failures, pauses.

use super::Check;
use crate::cli::terminal::figures::{percent, span};
use recapd_config::Config;
use recapd_core::domain::{
    number::count,
    time::{DAY_MS, HOUR_MS, Timestamp},
};
use recapd_store::{Sample, SqlStore, Store as _, operate::OperatorStore as _};

/// More ready updates than this are a backlog.
const READY_MAX: i64 = 50;
/// A wait that exceeds `queue.max_wait_ms` plus the time of batches by this much causes a warning.
const WAIT_MS_MAX: i64 = HOUR_MS;
/// A larger share of failed attempts, in thousandths, causes a warning.
const FAILED_PERMILLE_MAX: i64 = 50;

pub(super) async fn checks(store: Option<&SqlStore>, config: &Config, now: Timestamp) -> Vec<Check> {
    let Some(store) = store else {
        return vec![Check::skip("backlog", "there is no database to check")];
    };
    let sample = match store.sample(now, DAY_MS).await {
        Ok(sample) => sample,
        Err(error) => {
            return vec![Check::fail("backlog", error.to_string(), "see the check of the database")];
        }
    };
    let paused_since = store.queue_paused_since().await.unwrap_or_default();
    let paused = paused_since.map(|since| {
        Check::warn("paused", format!("all updates are paused since {since}"), "recapd queue resume")
    });
    [backlog(&sample, config, now), updates(&sample)]
        .into_iter()
        .chain(paused)
        .chain(parked(&sample))
        .chain(spending(&sample))
        .collect()
}

fn backlog(sample: &Sample, config: &Config, now: Timestamp) -> Check {
    let name = "backlog";
    let waited_ms = sample.oldest_pending_at.map_or(0, |since| now.since_ms(since));
    let detail =
        format!("{} ready, {} running, {} scheduled", sample.ready, sample.running, sample.scheduled);
    let fix = "is a daemon running? if so, raise worker.concurrency, or see `recapd runs`";
    if waited_ms > config.queue.max_wait_ms + config.batch_wait_ms() + WAIT_MS_MAX {
        let detail = format!("{detail}; the oldest exchange waits for {}", span(waited_ms));
        return Check::warn(name, detail, fix);
    }
    if sample.ready > READY_MAX {
        return Check::warn(name, detail, fix);
    }
    Check::ok(name, detail)
}

fn updates(sample: &Sample) -> Check {
    let (name, ended) = ("updates", sample.completed + sample.failed);
    let detail = format!(
        "{} completed, {} failed ({}) in 24h",
        sample.completed,
        sample.failed,
        percent(sample.failed, ended)
    );
    if ended > 0 && sample.failed * 1_000 > ended * FAILED_PERMILLE_MAX {
        return Check::warn(name, detail, "`recapd runs list --outcome failed` says why");
    }
    Check::ok(name, detail)
}

fn parked(sample: &Sample) -> Option<Check> {
    let detail = format!("{} parked after the last failed attempt", count(sample.parked, "agent"));
    let fix = "`recapd queue` says why; then `recapd queue retry --all`";
    (sample.parked > 0).then(|| Check::warn("parked", detail, fix))
}

fn spending(sample: &Sample) -> Option<Check> {
    let until = sample.paused_until.map_or(String::new(), |until| format!(" until {until}"));
    let detail = format!("{} paused by a spending limit{until}", count(sample.paused, "agent"));
    (sample.paused > 0).then(|| Check::warn("spending", detail, "see [spend] and `recapd status`"))
}
