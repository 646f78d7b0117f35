//! The block of `recapd status`: updates on the left, the present state on the right. Its thresholds are those of the
//! dashboard and the alerts.

use super::{StatusFigures, spend};
use crate::cli::terminal::{
    colour::{BOLD, RED, YELLOW, paint},
    figures::{duration, percent, span, thousands},
    output,
};
use recapd_api::dashboard::{DOCUMENT_TOKENS_MAX, DURATION_MS_MAX};
use recapd_core::domain::{
    number::{count, grouped},
    time::Timestamp,
};
use recapd_store::CalibrationFigures;

const LEFT_COLUMNS: usize = 50;

/// Formats the block, and the lines below it.
pub(super) fn text(figures: &StatusFigures, now: Timestamp, tokens_max: i64) -> String {
    let left = left(figures, tokens_max);
    let right = right(figures, now);
    let (updates, sample) = (&figures.updates, &figures.sample);
    let styles = Styles {
        left: [BOLD, "", alarming(updates.failed), "", "", alarming(updates.truncated)],
        right: ["", "", "", alarming(sample.parked), "", ""],
    };
    let rows = left.iter().zip(&right).zip(styles.left.iter().zip(styles.right));
    let block = rows.map(|((left, right), (left_style, right_style))| {
        let blanks = LEFT_COLUMNS.saturating_sub(left.chars().count()).max(1);
        let (left, right) = (paint(left_style, left), paint(right_style, right));
        format!("{left}{}{right}", " ".repeat(blanks))
    });
    block.chain(lines_below(figures, now)).collect::<Vec<_>>().join("\n")
}

/// The styles of the block's lines.
struct Styles {
    left: [&'static str; 6],
    right: [&'static str; 6],
}

/// Returns the style of a number that should be 0.
fn alarming(number: i64) -> &'static str {
    if number > 0 { RED } else { "" }
}

fn left(figures: &StatusFigures, tokens_max: i64) -> [String; 6] {
    let updates = &figures.updates;
    let ended = updates.completed + updates.failed;
    let failed = if ended == 0 { String::new() } else { format!("  ({})", percent(updates.failed, ended)) };
    let size = format!("{}/{}", thousands(updates.mean_document_tokens), thousands(tokens_max));
    [
        format!("Summary updates, last {}", window(figures.window_hours)),
        format!("  completed  {:>8}", grouped(updates.completed)),
        format!("  failed     {:>8}{failed}", grouped(updates.failed)),
        format!(
            "  avg duration {:>6}  p95 {:<6} limit {}",
            duration(updates.mean_duration_ms),
            duration(updates.p95_duration_ms),
            duration(DURATION_MS_MAX)
        ),
        format!("  avg size   {size:>12}      limit {}", thousands(DOCUMENT_TOKENS_MAX)),
        format!("  emergency truncations  {}", updates.truncated),
    ]
}

fn right(figures: &StatusFigures, now: Timestamp) -> [String; 6] {
    let sample = &figures.sample;
    let age = |since: Option<Timestamp>| since.map_or("none".to_owned(), |at| span(now.since_ms(at)));
    [
        format!("queue  {} ready · {} running", sample.ready, sample.running),
        format!("oldest wait        {}", age(sample.oldest_ready_at)),
        format!("stalest agent      {}", age(sample.oldest_pending_at)),
        format!("parked             {}", sample.parked),
        format!("spend  {}", spend::today(sample.today, figures.spend_limits)),
        spend::provider(sample, &figures.circuits, now),
    ]
}

fn lines_below(figures: &StatusFigures, now: Timestamp) -> Vec<String> {
    let sample = &figures.sample;
    let updates = &figures.updates;
    let estimated = if sample.stock_is_estimated { " (estimated)" } else { "" };
    let lines = [
        format!(
            "  model      {}, {} tokens in, {} out",
            count(updates.spent.calls, "call"),
            thousands(updates.input_tokens),
            thousands(updates.output_tokens)
        ),
        format!(
            "{}, {} of {} tokens{estimated}, {} scheduled",
            count(sample.agents, "agent"),
            count(sample.documents, "summary"),
            thousands(sample.documents_tokens),
            count(sample.scheduled, "update")
        ),
    ];
    let paused = figures
        .paused_since
        .map(|since| format!("all updates are paused since {since}; `recapd queue resume` resumes them"));
    let not_ready = figures.not_ready.as_ref();
    lines
        .into_iter()
        .chain(not_ready.map(|why| paint(RED, &format!("the daemon isn't ready: {why}"))))
        .chain(paused.map(|paused| paint(YELLOW, &paused)))
        .chain(spend::lines(sample, &figures.circuits, now))
        .chain(super::batches::line(&sample.batches, now))
        .chain(sample.calibrations.iter().map(calibration))
        .collect()
}

/// Formats `24h` or `7d`.
fn window(hours: i64) -> String {
    if hours > 24 && hours % 24 == 0 { format!("{}d", hours / 24) } else { format!("{hours}h") }
}

/// Formats by how much the tokens of a model differ from the estimate.
fn calibration(figures: &CalibrationFigures) -> String {
    format!(
        "tokens of {} {}: on average ×{} of the estimate, at most ×{}, by {}",
        figures.provider,
        figures.model,
        output::factor(figures.average_permille),
        output::factor(figures.guard_permille),
        count(figures.samples, "report")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use recapd_core::domain::spend::{SpendLimits, SpendTotal};
    use recapd_store::{Sample, operate::RunFigures};
    use recapd_telemetry::metrics::Circuit;

    #[test]
    fn the_block_has_two_columns_with_more_lines_below() {
        let now = Timestamp::parse("2026-11-20T12:00:00Z").unwrap();
        let figures = StatusFigures {
            sample: Sample {
                agents: 12,
                running: 1,
                documents: 11,
                documents_tokens: 85_800,
                oldest_ready_at: Some(now.plus_ms(-12_000)),
                oldest_pending_at: Some(now.plus_ms(-130_000)),
                today: SpendTotal { cost_microusd: 1_920_000, ..SpendTotal::default() },
                ..Sample::default()
            },
            spend_limits: SpendLimits { cost_microusd: 5_000_000, ..SpendLimits::default() },
            circuits: vec![Circuit {
                provider: "anthropic".to_owned(),
                model: "claude-haiku-5-5".to_owned(),
                open_until: None,
                why: None,
            }],
            window_hours: 24,
            updates: RunFigures {
                completed: 1_247,
                failed: 3,
                mean_duration_ms: 8_200,
                p95_duration_ms: 19_000,
                mean_document_tokens: 7_800,
                ..RunFigures::default()
            },
            paused_since: None,
            not_ready: None,
        };
        insta::assert_snapshot!(text(&figures, now, 10_000), @r"
        Summary updates, last 24h                         queue  0 ready · 1 running
          completed     1,247                             oldest wait        12s
          failed            3  (0.2%)                     stalest agent      2m 10s
          avg duration   8.2s  p95 19.0s  limit 30.0s     parked             0
          avg size     7.8k/10.0k      limit 9.0k         spend  $1.92 of $5.00
          emergency truncations  0                        provider  anthropic claude-haiku-5-5 ok
          model      0 calls, 0 tokens in, 0 out
        12 agents, 11 summaries of 85.8k tokens, 0 updates scheduled
        ");
        let nothing = StatusFigures { window_hours: 168, ..StatusFigures::default() };
        insta::assert_snapshot!(text(&nothing, now, 10_000), @r"
        Summary updates, last 7d                          queue  0 ready · 0 running
          completed         0                             oldest wait        none
          failed            0                             stalest agent      none
          avg duration    0ms  p95 0ms    limit 30.0s     parked             0
          avg size        0/10.0k      limit 9.0k         spend  $0.00
          emergency truncations  0                        provider  not called yet
          model      0 calls, 0 tokens in, 0 out
        0 agents, 0 summaries of 0 tokens, 0 updates scheduled
        ");
    }
}
