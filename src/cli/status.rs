//! `recapd status`: the seed's dashboard block, from the database, so that a restart doesn't zero it.

use std::process::ExitCode;

use clap::Args;

use super::{Shared, exit::Failed, open, output, remote::Remote};
use crate::{
    clock::{Clock as _, SystemClock},
    config::Config,
    domain::time::{DAY_MS, Timestamp},
    store::{Sample, Store as _},
};

#[derive(Debug, Args)]
pub(super) struct Status {}

impl Status {
    #[expect(clippy::unused_self, reason = "every command runs the same way")]
    pub(super) fn run(self, config: &Config, shared: &Shared) -> Result<ExitCode, Failed> {
        open::block_on(async {
            let now = SystemClock.now();
            let sample = match &shared.server {
                Some(server) => {
                    let text = Remote::new(server)?.get("/v1/status", "application/json").await?;
                    serde_json::from_str(&text).map_err(anyhow::Error::new)?
                }
                None => open::look(config).await?.sample(now, DAY_MS).await?,
            };
            if shared.json {
                output::json(&sample)?;
            } else {
                output::text(&text(&sample, now, config.summary.max_tokens))?;
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}

fn text(sample: &Sample, now: Timestamp, tokens_max: i64) -> String {
    let ended = sample.completed + sample.failed;
    let failed = if ended == 0 {
        String::new()
    } else {
        format!("({})", permille(sample.failed, ended))
    };
    let age = |since: Option<Timestamp>| since.map_or("none".to_owned(), |at| span(now.since_ms(at)));
    let tenths = sample.mean_duration_ms / 100;
    let lines = [
        format!(
            "Summary updates, last 24h            queue  {} ready · {} running",
            sample.ready, sample.running
        ),
        format!(
            "  completed  {:>8}                  scheduled      {}",
            sample.completed, sample.scheduled
        ),
        format!(
            "  failed     {:>8}  {failed:<14}  parked         {}",
            sample.failed, sample.parked
        ),
        format!(
            "  avg duration {:>4}.{}s                 oldest ready   {}",
            tenths / 10,
            tenths % 10,
            age(sample.oldest_ready_at)
        ),
        format!(
            "  avg size   {:>8}                  oldest pending {}",
            format!(
                "{}/{}",
                thousands(sample.mean_document_tokens),
                thousands(tokens_max)
            ),
            age(sample.oldest_pending_at)
        ),
        format!("  emergency truncations  {}", sample.truncated),
        format!(
            "  model      {} calls, {} tokens in, {} out",
            sample.model_calls,
            thousands(sample.input_tokens),
            thousands(sample.output_tokens)
        ),
        format!(
            "{} agents, {} summaries of {} tokens",
            sample.agents,
            sample.documents,
            thousands(sample.documents_tokens)
        ),
    ];
    lines.join("\n")
}

fn permille(part: i64, whole: i64) -> String {
    let permille = part * 1_000 / whole.max(1);
    format!("{}.{}%", permille / 10, permille % 10)
}

fn thousands(tokens: i64) -> String {
    if tokens < 1_000 {
        tokens.to_string()
    } else {
        format!("{}.{}k", tokens / 1_000, tokens % 1_000 / 100)
    }
}

fn span(span_ms: i64) -> String {
    let seconds = (span_ms / 1_000).max(0);
    match seconds {
        0..=59 => format!("{seconds}s"),
        60..=3_599 => format!("{}m {}s", seconds / 60, seconds % 60),
        _ => format!("{}h {}m", seconds / 3_600, seconds % 3_600 / 60),
    }
}
