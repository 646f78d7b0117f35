//! How long SQLite's writer works on one commit at most: all others wait for that time.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    filter::Targets,
    layer::{Context, Layer, SubscriberExt as _},
    registry,
    util::SubscriberInitExt as _,
};

/// The longest commit, in microseconds.
static LONGEST: AtomicI64 = AtomicI64::new(0);

struct Holds;

impl<S: Subscriber> Layer<S> for Holds {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        event.record(&mut Self);
    }
}

impl Visit for Holds {
    fn record_i64(&mut self, field: &Field, value: i64) {
        if field.name() == "took_us" {
            LONGEST.fetch_max(value, Ordering::Relaxed);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

pub(crate) fn observe() {
    let of_writer = Targets::new().with_target("recapd_store::sqlite::writer", Level::TRACE);
    registry().with(Holds.with_filter(of_writer)).init();
}

/// Returns the time of the longest commit since the last call; zero on PostgreSQL, which has no single writer.
pub(crate) fn take_longest() -> Duration {
    Duration::from_micros(LONGEST.swap(0, Ordering::Relaxed).unsigned_abs())
}
