//! The only source of time.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicI64, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

use recapd_core::domain::{number::i64_or_max, time::Timestamp};

/// A source of time. Tests set a [`ManualClock`].
pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place where the system time is read")]
    fn now(&self) -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64_or_max(since_epoch.as_millis()))
    }
}

/// The machine's clock plus an offset in milliseconds, positive or negative, which is read from a file. Self-tests use it to make
/// clocks jump.
#[derive(Clone, Debug)]
pub struct OffsetClock {
    file: PathBuf,
}

impl OffsetClock {
    /// Returns a clock that reads its offset from `file` each time. If the file is missing or contains no number, the
    /// offset is 0.
    pub fn new(file: PathBuf) -> Self {
        Self { file }
    }
}

impl Clock for OffsetClock {
    fn now(&self) -> Timestamp {
        let offset = std::fs::read_to_string(&self.file).unwrap_or_default();
        SystemClock.now().plus_ms(offset.trim().parse().unwrap_or_default())
    }
}

/// A clock that stands still until it is moved.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    pub fn new(now: Timestamp) -> Self {
        Self(AtomicI64::new(now.0))
    }

    /// Moves the clock by `span_ms`. A negative span turns it back.
    pub fn advance_ms(&self, span_ms: i64) {
        self.0.fetch_add(span_ms, Ordering::SeqCst);
    }

    pub fn set(&self, now: Timestamp) {
        self.0.store(now.0, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}
