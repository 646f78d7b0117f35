//! Prints progress lines at intervals where no progress bar can be shown.

use std::{sync::Mutex, time::Duration};

use indicatif::ProgressBar;
use tokio::time::Instant;

use super::output;

const LINE_EVERY: Duration = Duration::from_secs(10);

/// Prints progress lines to stderr if the progress bar is hidden.
pub(crate) struct Ticker {
    is_needed: bool,
    printed_at: Mutex<Instant>,
}

impl Ticker {
    /// Returns a ticker that prints nothing if `bar` is shown.
    pub(crate) fn new(bar: &ProgressBar) -> Self {
        Self { is_needed: bar.is_hidden(), printed_at: Mutex::new(Instant::now()) }
    }

    /// Prints a line if one is due. Short work prints none.
    pub(crate) fn tell(&self, line: impl FnOnce() -> String) {
        if self.is_due() {
            output::note(&line());
        }
    }

    fn is_due(&self) -> bool {
        let Ok(mut printed_at) = self.printed_at.lock() else {
            return false;
        };
        let is_due = self.is_needed && printed_at.elapsed() >= LINE_EVERY;
        if is_due {
            *printed_at = Instant::now();
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn lines_are_printed_at_intervals_in_place_of_a_bar() {
        let ticker = Ticker::new(&ProgressBar::hidden());
        assert!(!ticker.is_due());
        for _ in 0..2 {
            tokio::time::advance(LINE_EVERY).await;
            assert_eq!([ticker.is_due(), ticker.is_due()], [true, false]);
        }
    }
}
