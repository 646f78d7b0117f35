//! `recapd count`: counts the tokens of a request body, part by part.

use std::{
    fs::File,
    io::{Read, stdin},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use serde::Serialize;

use crate::cli::{
    GlobalOptions,
    backend::open,
    exit::{CommandFailure, USAGE},
    terminal::{answer, output},
};
use recapd_config::Config;
use recapd_core::{
    domain::number,
    tokenizer::{self, RequestCount, count_request},
};
use recapd_store::{KeptCalibration, Store as _};

/// The largest body that `count` reads, in bytes: twice what any provider accepts.
const BODY_BYTES_MAX: u64 = 64 << 20;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  recapd count --provider openai --model gpt-5 request.json
  recapd count --provider anthropic --model claude-opus-5 - < request.json
  recapd count --provider anthropic --model claude-opus-5 --db a.db request.json
      and corrects the estimate by usage reports")]
pub(crate) struct Count {
    /// The provider whose tokenizer to use: openai, anthropic, google or local; for any other, tokens are estimated
    /// from bytes [default: window.provider]
    #[arg(long)]
    provider: Option<String>,
    /// The model whose tokenizer to use [default: window.model]
    #[arg(long)]
    model: Option<String>,
    /// The request body as sent to the provider, or `-` for standard input
    file: PathBuf,
}

/// A count, and the count corrected by the learned calibration.
#[derive(Serialize)]
struct CountView {
    #[serde(flatten)]
    count: RequestCount,
    #[serde(skip_serializing_if = "Option::is_none")]
    calibrated: Option<CalibratedCount>,
}

#[derive(Serialize)]
struct CalibratedCount {
    /// The likely count, shown to people.
    average_tokens: i64,
    /// A count that is rarely exceeded; compare this one with a limit.
    guard_tokens: i64,
    average_permille: i64,
    guard_permille: i64,
    samples: usize,
}

impl CalibratedCount {
    fn new(tokens: i64, stored: &KeptCalibration) -> Self {
        let calibration = &stored.calibration;
        Self {
            average_tokens: calibration.scale_by_average(tokens),
            guard_tokens: calibration.scale_by_guard(tokens),
            average_permille: calibration.average_permille(),
            guard_permille: calibration.shared_guard_permille(),
            samples: calibration.sample_count(),
        }
    }
}

impl Count {
    pub(crate) fn run(self, config: &Config, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        let provider = self.provider.as_ref().unwrap_or(&config.window.provider);
        let model = self.model.as_ref().unwrap_or(&config.window.model);
        let body = body(&self.file)?;
        let view = open::block_on(async {
            let count = count_request(provider, model, &body);
            let is_exact = tokenizer::counter_for(provider, model).is_exact();
            let calibrated = match &options.db {
                Some(_) if !is_exact => calibrated_count(config, provider, model, count.tokens).await?,
                _ => None,
            };
            Ok(CountView { count, calibrated })
        })?;
        answer::print(options, &view, &table(&view))
    }
}

/// Corrects the count by the calibration in the database; `None` if the database has none for the model.
async fn calibrated_count(
    config: &Config,
    provider: &str,
    model: &str,
    tokens: i64,
) -> Result<Option<CalibratedCount>, CommandFailure> {
    let calibrations = open::look(config).await?.calibrations().await?;
    let mut model_calibrations =
        calibrations.iter().filter(|stored| stored.provider == provider && stored.model == model);
    Ok(model_calibrations.next().map(|stored| CalibratedCount::new(tokens, stored)))
}

fn body(file: &Path) -> Result<Vec<u8>, CommandFailure> {
    let unreadable = |error: std::io::Error| {
        CommandFailure::new(
            USAGE,
            anyhow::anyhow!("can't read {}: {error}; check the path and its permissions", file.display()),
        )
    };
    let mut bytes = Vec::new();
    let source: Box<dyn Read> = if file == Path::new("-") {
        Box::new(stdin().lock())
    } else {
        Box::new(File::open(file).map_err(unreadable)?)
    };
    source.take(BODY_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > BODY_BYTES_MAX {
        let error = anyhow::anyhow!(
            "{}: longer than {BODY_BYTES_MAX} bytes; no provider accepts that",
            file.display()
        );
        return Err(CommandFailure::new(USAGE, error));
    }
    Ok(bytes)
}

fn table(view: &CountView) -> String {
    let RequestCount { tokens, method, parts } = &view.count;
    let rows = [
        ("system", parts.system),
        ("tools", parts.tools),
        ("messages", parts.messages),
        ("overhead", parts.overhead),
    ];
    let rows = rows.map(|(name, tokens)| format!("  {name:<10} {tokens:>10}\n"));
    let calibrated = view.calibrated.as_ref().map(line).unwrap_or_default();
    format!("{tokens} tokens ({method})\n{}{calibrated}", rows.concat())
}

fn line(calibrated: &CalibratedCount) -> String {
    let CalibratedCount { average_tokens, guard_tokens, samples, .. } = calibrated;
    let factor = output::factor;
    format!(
        "corrected by {}: about {average_tokens} tokens (×{}), at most {guard_tokens} (×{})\n",
        number::count(*samples, "usage report"),
        factor(calibrated.average_permille),
        factor(calibrated.guard_permille),
    )
}
