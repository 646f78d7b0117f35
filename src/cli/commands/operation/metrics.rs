//! `recapd metrics`: describes the metrics at `/metrics`.

use std::{fmt::Write as _, process::ExitCode};

use clap::{Args, Subcommand};

use crate::cli::{GlobalOptions, exit::CommandFailure, terminal::output};
use recapd_telemetry::metrics::{MetricDescription, catalogue, example};

/// The text above the table in `docs/metrics.md`.
const HEAD: &str = "\
# Metrics

A daemon serves these at `/metrics`, for Prometheus and everything else that reads OpenMetrics. `recapd metrics list
--markdown` prints this page.

- Names and labels are a contract. Every series whose labels are known in advance exists from the start, with value 0.
- No label names an agent. `provider` and `model` are those of the configuration; all others are `other`.
- Times are seconds since 1970; 0 means never or none. Sampled gauges come from the database: several daemons on one database
  report the same values, so combine them with `max`. Counters are each daemon's own, so add them up.
- What the API calls a summary is a document here, because Prometheus reserves the word.

";

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  recapd metrics list
  recapd metrics list --json
  recapd metrics list --markdown > docs/metrics.md
The values themselves are at /metrics of a running daemon.")]
pub(crate) struct MetricsCommand {
    #[command(subcommand)]
    action: MetricsAction,
}

#[derive(Debug, Subcommand)]
enum MetricsAction {
    /// Print every metric: its type, its labels, its meaning
    List {
        /// Print the documentation page
        #[arg(long)]
        markdown: bool,
    },
    /// Print what a daemon serves before it has done anything, for checkers of metrics
    Example,
}

impl MetricsCommand {
    pub(crate) fn run(self, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        match self.action {
            MetricsAction::Example => output::text(&example())?,
            MetricsAction::List { .. } if options.json => output::json(&catalogue())?,
            MetricsAction::List { markdown: true } => output::text(&page(&catalogue()))?,
            MetricsAction::List { markdown: false } => output::text(&list(&catalogue()))?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn list(metrics: &[MetricDescription]) -> String {
    let mut text = String::new();
    for metric in metrics {
        // Writing to a string doesn't fail.
        writeln!(text, "{} ({})\n  {}.", metric.name, metric.kind, metric.help).ok();
        for label in labels(metric) {
            writeln!(text, "  {label}").ok();
        }
    }
    text
}

fn page(metrics: &[MetricDescription]) -> String {
    let mut text = format!("{HEAD}| metric | type | labels | meaning |\n|---|---|---|---|\n");
    for metric in metrics {
        let labels = labels(metric).join("; ");
        writeln!(text, "| `{}` | {} | {labels} | {} |", metric.name, metric.kind, metric.help).ok();
    }
    text
}

/// Lists the labels with their values, and the bounds of a histogram.
fn labels(metric: &MetricDescription) -> Vec<String> {
    let labels = metric.labels.iter().map(|label| match label.values.as_slice() {
        [] => label.name.clone(),
        values => format!("{}: {}", label.name, values.join(", ")),
    });
    let bounds = (!metric.buckets.is_empty()).then(|| format!("le: {}", metric.buckets.join(", ")));
    labels.chain(bounds).collect()
}
