//! Shows the progress of an import on stderr: one changing line on a terminal, otherwise a line every few seconds.

use std::{path::PathBuf, sync::Mutex};

use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::cli::terminal::{output, ticker::Ticker};
use recapd_core::domain::number::grouped;

const REDRAWS_PER_SECOND: u8 = 10;
/// The line while files are read.
const READING: &str = "importing  {prefix}  {percent}%  ▕{bar:10}▏  {bytes_per_sec}  eta {eta}{msg}";
/// The line while messages are indexed. Their total is unknown.
const INDEXING: &str = "indexing  {human_pos} messages  {elapsed} elapsed";

/// Counts bytes and files during reading, then messages during indexing.
pub(super) struct ImportProgress {
    bar: ProgressBar,
    ticker: Ticker,
    files: usize,
    totals: Mutex<ProgressTotals>,
}

#[derive(Default)]
struct ProgressTotals {
    files: usize,
    skipped: u64,
}

impl ImportProgress {
    pub(super) fn new(files: &[PathBuf]) -> Self {
        let bytes = files.iter().filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len());
        let target = if output::is_quiet() {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr_with_hz(REDRAWS_PER_SECOND)
        };
        let bar = ProgressBar::with_draw_target(Some(bytes.sum()), target);
        bar.set_style(style(READING));
        let progress = Self { ticker: Ticker::new(&bar), bar, files: files.len(), totals: Mutex::default() };
        progress.tell();
        progress
    }

    pub(super) fn read(&self, bytes: u64) {
        self.bar.inc(bytes);
        self.tell();
    }

    pub(super) fn file_done(&self) {
        self.change(|totals| totals.files += 1);
    }

    /// Counts a skipped line or file.
    pub(super) fn skipped(&self) {
        self.change(|totals| totals.skipped += 1);
    }

    /// Switches from reading to indexing.
    pub(super) fn begin_index(&self) {
        self.bar.set_style(style(INDEXING));
        self.bar.reset();
    }

    pub(super) fn indexed(&self, messages: u64) {
        self.bar.inc(messages);
        let indexed = HumanCount(self.bar.position());
        self.ticker.tell(|| format!("indexing  {indexed} messages"));
    }

    /// Prints a line above the progress line.
    pub(super) fn note(&self, line: &str) {
        self.bar.suspend(|| output::error(line));
    }

    /// Prints a hint above the progress line, unless `--quiet` is given.
    pub(super) fn hint(&self, line: &str) {
        self.bar.suspend(|| output::note(line));
    }

    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn change(&self, change: impl FnOnce(&mut ProgressTotals)) {
        if let Ok(mut totals) = self.totals.lock() {
            change(&mut totals);
        }
        self.tell();
    }

    fn tell(&self) {
        let Ok(totals) = self.totals.lock() else { return };
        let done = format!("{}/{} sessions", grouped(totals.files), grouped(self.files));
        let skipped = match totals.skipped {
            0 => String::new(),
            skipped => format!("  skipped {skipped}"),
        };
        let read = HumanBytes(self.bar.position());
        self.ticker.tell(|| format!("importing  {done}  {read}{skipped}"));
        self.bar.set_prefix(done);
        self.bar.set_message(skipped);
    }
}

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    style.progress_chars("█▉▊▋▌▍▎▏ ")
}
