//! Reports to the service manager: readiness, the worker's watchdog, and a status line about the queue.

use std::{fmt::Write as _, time::Duration};

use tokio_util::sync::CancellationToken;
use tracing::warn;

use recapd_config::Environment;
use recapd_engine::assembly::Parts;
use recapd_platform::lifecycle::notify::{Notify, ServiceManager};

/// The status line is updated at least this often.
const LINE_EVERY: Duration = Duration::from_secs(10);
/// The worker is checked at most this often.
const LOOK_MIN: Duration = Duration::from_millis(20);
/// A long start asks for more time this often.
const EXTEND_EVERY: Duration = Duration::from_secs(10);

/// Returns the service manager that the environment names.
pub(in crate::cli::commands::operation) fn manager(environment: &Environment) -> Notify {
    let variable = |name| environment.get(name).map(str::to_owned);
    let manager = ServiceManager {
        socket: variable("NOTIFY_SOCKET"),
        watchdog_usec: variable("WATCHDOG_USEC"),
        watchdog_pid: variable("WATCHDOG_PID"),
    };
    Notify::new(&manager).unwrap_or_else(|error| {
        warn!(%error, socket = manager.socket, "service.manager_unreachable");
        Notify::default()
    })
}

/// Runs a part of the start that may take long, such as a migration. Asks the service manager for more time until the part
/// is done.
pub(super) async fn starting<T>(notify: &Notify, line: &str, work: impl Future<Output = T>) -> T {
    notify.status(line);
    let asking = async {
        loop {
            notify.extend(EXTEND_EVERY * 3);
            tokio::time::sleep(EXTEND_EVERY).await;
        }
    };
    tokio::select! {
        done = work => done,
        () = asking => unreachable!("asking never ends"),
    }
}

/// Feeds the watchdog as long as the worker's loop keeps running, and updates the status line. Ends when `stopping` is
/// cancelled.
///
/// A failing database is no reason for a restart: the loop still runs, with errors. A worker that hangs is a reason,
/// even if HTTP still answers.
pub(super) async fn watch(notify: Notify, parts: Parts, poll: Duration, stopping: CancellationToken) {
    if !notify.is_heard() {
        return;
    }
    let pace = Pace::of(notify.watchdog(), poll);
    let mut look = tokio::time::interval(pace.look);
    let mut is_stuck = false;
    loop {
        tokio::select! {
            _ = look.tick() => {}
            () = stopping.cancelled() => return,
        }
        let age = parts.progress().age();
        if pace.stuck.is_none_or(|stuck| age <= stuck) {
            is_stuck = false;
            if notify.watchdog().is_some() {
                notify.alive();
            }
        } else {
            if !is_stuck {
                tracing::error!(age_ms = age.as_millis(), "worker.stuck");
            }
            is_stuck = true;
        }
        // A reload sends a status line of its own, which this line replaces, so even an unchanged line is sent.
        notify.status(&line(&parts, is_stuck));
    }
}

/// Reports when the daemon begins to stop, and feeds the watchdog until it has stopped. The lifecycle limits how long stopping
/// takes: `worker.drain_ms`, and a short grace.
pub(super) async fn ending(
    notify: Notify,
    parts: Parts,
    stopping: CancellationToken,
) -> std::convert::Infallible {
    stopping.cancelled().await;
    notify.stopping();
    notify.status(&format!("ending · {}", parts.metrics.queue.line(parts.clock.now())));
    let every = notify.watchdog().map_or(LINE_EVERY, |watchdog| (watchdog / 4).max(LOOK_MIN));
    loop {
        notify.alive();
        tokio::time::sleep(every).await;
    }
}

/// Returns the status line. After a failed reload, the line begins with the failure until a reload succeeds.
pub(super) fn line(parts: &Parts, is_stuck: bool) -> String {
    let mut line = String::new();
    if !parts.metrics.service.is_reloaded() {
        line.push_str("the new configuration is invalid: the former one stays in force · ");
    }
    line.push_str(&parts.metrics.queue.line(parts.clock.now()));
    if parts.metrics.updates.is_paused() {
        line.push_str(" · paused by an operator");
    }
    for circuit in parts.metrics.provider.circuits() {
        if let Some(until) = circuit.open_until {
            // Writing to a string doesn't fail.
            write!(line, " · {} isn't called until {until}", circuit.model).ok();
        }
    }
    if is_stuck {
        line.push_str(" · the worker is stuck");
    }
    line
}

/// The times by which the worker is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pace {
    /// The time between two checks.
    look: Duration,
    /// If its loop hasn't run for this long, the worker is stuck; `None` without a watchdog.
    stuck: Option<Duration>,
}

impl Pace {
    /// Checks four times in each interval of the watchdog, but at least every [`LINE_EVERY`] and at most every
    /// [`LOOK_MIN`]. The loop of an idle worker runs once per poll, with jitter, so the worker isn't stuck before two polls.
    fn of(watchdog: Option<Duration>, poll: Duration) -> Self {
        Self {
            look: watchdog.map_or(LINE_EVERY, |watchdog| (watchdog / 4).clamp(LOOK_MIN, LINE_EVERY)),
            stuck: watchdog.map(|watchdog| (watchdog / 2).max(poll * 2)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_stuck_after_half_the_watchdogs_interval_but_not_before_two_polls() {
        let (second, minute) = (Duration::from_secs(1), Duration::from_mins(1));
        let pace = Pace::of(Some(minute), second);
        assert_eq!((pace.look, pace.stuck), (Duration::from_secs(10), Some(minute / 2)));
        let pace = Pace::of(Some(second), second);
        assert_eq!((pace.look, pace.stuck), (second / 4, Some(second * 2)));
        assert_eq!(Pace::of(None, second).stuck, None);
    }
}
