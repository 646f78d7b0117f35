//! How far an import is, on stderr: one line that changes on a terminal, else a line now and then.

use std::{io::IsTerminal as _, path::PathBuf, sync::Mutex, time::Duration};

use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::time::Instant;

use super::super::{figures::grouped, output};

/// How often the line on a terminal changes in a second, at most.
const REDRAWS_PER_SECOND: u8 = 10;
/// How often a line is printed where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// The progress over the bytes of files, counted in files.
pub(super) struct Progress {
    bar: ProgressBar,
    files: usize,
    is_terminal: bool,
    told: Mutex<Told>,
}

struct Told {
    files: usize,
    skipped: u64,
    at: Instant,
}

impl Progress {
    /// Nothing of `files` is read yet.
    pub(super) fn over(files: &[PathBuf]) -> Self {
        let bytes = files
            .iter()
            .filter_map(|file| file.metadata().ok())
            .map(|of| of.len());
        let target = if output::is_quiet() {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr_with_hz(REDRAWS_PER_SECOND)
        };
        let bar = ProgressBar::with_draw_target(Some(bytes.sum()), target);
        let template = "importing  {prefix}  {percent}%  ▕{bar:10}▏  {bytes_per_sec}  eta {eta}{msg}";
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.progress_chars("█▉▊▋▌▍▎▏ "));
        let told = Told {
            files: 0,
            skipped: 0,
            at: Instant::now(),
        };
        let progress = Self {
            bar,
            files: files.len(),
            is_terminal: std::io::stderr().is_terminal(),
            told: Mutex::new(told),
        };
        progress.tell();
        progress
    }

    /// So many more bytes were read.
    pub(super) fn read(&self, bytes: u64) {
        self.bar.inc(bytes);
        self.tell();
    }

    /// A file is done.
    pub(super) fn file_done(&self) {
        self.change(|told| told.files += 1);
    }

    /// Something was left out.
    pub(super) fn skipped(&self) {
        self.change(|told| told.skipped += 1);
    }

    /// Prints a line above it.
    pub(super) fn note(&self, line: &str) {
        self.bar.suspend(|| output::error(line));
    }

    /// Prints a line above it that nobody has to read.
    pub(super) fn hint(&self, line: &str) {
        self.bar.suspend(|| output::note(line));
    }

    /// Takes the line away.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn change(&self, change: impl FnOnce(&mut Told)) {
        if let Ok(mut told) = self.told.lock() {
            change(&mut told);
        }
        self.tell();
    }

    fn tell(&self) {
        let Ok(mut told) = self.told.lock() else { return };
        let files = |files: usize| grouped(i64::try_from(files).unwrap_or(i64::MAX));
        let done = format!("{}/{} sessions", files(told.files), files(self.files));
        let skipped = match told.skipped {
            0 => String::new(),
            skipped => format!("  skipped {skipped}"),
        };
        if self.is_terminal {
            self.bar.set_prefix(done);
            self.bar.set_message(skipped);
        } else if told.at.elapsed() >= LINE_EVERY {
            told.at = Instant::now();
            let read = HumanBytes(self.bar.position());
            output::note(&format!("importing  {done}  {read}{skipped}"));
        }
    }
}
