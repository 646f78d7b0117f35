//! What every bench needs: samples with percentiles, ratios, and a table.
//!
//! Machines are noisy and differ, so the figure to trust is a ratio of two things measured side by side in one run.

use std::{fmt::Write as _, time::Duration};

/// How many of the sizes and rounds of a full run are left when nobody measures.
const QUICK_DIVISOR: u32 = 50;

/// `full` under `cargo bench`; a small part of it when the program is run to see that it still works, as
/// `cargo test --benches` does.
pub(crate) fn size(full: u32) -> u32 {
    if std::env::args().any(|argument| argument == "--bench") {
        full
    } else {
        (full / QUICK_DIVISOR).max(2)
    }
}

/// How long things took.
#[derive(Debug, Default)]
pub(crate) struct Sample(Vec<Duration>);

impl Sample {
    /// Takes down `took`.
    pub(crate) fn add(&mut self, took: Duration) {
        self.0.push(took);
    }

    /// The duration that `percent` of the sample don't exceed; zero for an empty sample.
    pub(crate) fn percentile(&mut self, percent: usize) -> Duration {
        self.0.sort_unstable();
        let last = self.0.len().saturating_sub(1);
        self.0
            .get((self.0.len() * percent / 100).min(last))
            .copied()
            .unwrap_or_default()
    }

    /// The middle one.
    pub(crate) fn p50(&mut self) -> Duration {
        self.percentile(50)
    }
}

/// `a` in units of `b`.
pub(crate) fn ratio(a: Duration, b: Duration) -> f64 {
    a.as_secs_f64() / b.as_secs_f64().max(1e-9)
}

/// A duration with a fitting unit.
pub(crate) fn show(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds >= 1.0 {
        format!("{seconds:.2} s")
    } else if seconds >= 1e-3 {
        format!("{:.2} ms", seconds * 1e3)
    } else if seconds >= 1e-6 {
        format!("{:.1} µs", seconds * 1e6)
    } else {
        format!("{:.0} ns", seconds * 1e9)
    }
}

/// A table that is printed when it is complete.
pub(crate) struct Table(Vec<Vec<String>>);

impl Table {
    /// A table with these headings.
    pub(crate) fn new(title: &str, columns: &[&str]) -> Self {
        let headings = std::iter::once(title).chain(columns.iter().copied());
        Self(vec![headings.map(str::to_owned).collect()])
    }

    /// Adds a row: what it is about, and its figures.
    pub(crate) fn row(&mut self, name: &str, cells: &[String]) {
        let row = std::iter::once(name.to_owned()).chain(cells.iter().cloned());
        self.0.push(row.collect());
    }

    /// Prints it: names to the left, figures to the right.
    #[expect(clippy::print_stdout, reason = "a table is what a bench is for")]
    pub(crate) fn print(&self) {
        println!("\n{}", self.text());
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for row in &self.0 {
            for (column, cell) in row.iter().enumerate() {
                let width = self.width(column);
                let padding = " ".repeat(width - cell.chars().count());
                // Writing to a string can't fail.
                let written = if column == 0 {
                    write!(text, "{cell}{padding}")
                } else {
                    write!(text, "   {padding}{cell}")
                };
                debug_assert!(written.is_ok());
            }
            text.push('\n');
        }
        text
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.0.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    }
}
