//! `recapd count`: how many tokens a request body has, and where they come from.

use std::{
    fs::File,
    io::{Read, stdin},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;

use super::{
    Shared,
    exit::{Failed, USAGE},
    output,
};
use crate::{
    config::Config,
    tokenizer::{RequestCount, count_request},
};

/// The longest body that is read: twice what any provider takes.
const BODY_BYTES_MAX: u64 = 64 << 20;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  recapd count --provider openai --model gpt-5 request.json
  recapd count --provider anthropic --model claude-opus-5 --json - < request.json")]
pub(super) struct Count {
    /// Whose tokenizer: openai, anthropic, google or local; any other is counted by bytes [default: window.provider]
    #[arg(long)]
    provider: Option<String>,
    /// Which model's [default: window.model]
    #[arg(long)]
    model: Option<String>,
    /// The request body as it goes to the provider, or `-` for standard input
    file: PathBuf,
}

impl Count {
    pub(super) fn run(self, config: &Config, shared: &Shared) -> Result<ExitCode, Failed> {
        let provider = self.provider.as_ref().unwrap_or(&config.window.provider);
        let model = self.model.as_ref().unwrap_or(&config.window.model);
        let count = count_request(provider, model, &body(&self.file)?);
        if shared.json {
            output::json(&count)?;
        } else {
            output::text(&table(&count))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn body(file: &Path) -> Result<Vec<u8>, Failed> {
    let unreadable =
        |error: std::io::Error| Failed::new(USAGE, anyhow::anyhow!("{}: {error}", file.display()));
    let mut bytes = Vec::new();
    let source: Box<dyn Read> = if file == Path::new("-") {
        Box::new(stdin().lock())
    } else {
        Box::new(File::open(file).map_err(unreadable)?)
    };
    source
        .take(BODY_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > BODY_BYTES_MAX {
        let error = anyhow::anyhow!(
            "{}: longer than {BODY_BYTES_MAX} bytes; no provider takes that",
            file.display()
        );
        return Err(Failed::new(USAGE, error));
    }
    Ok(bytes)
}

fn table(count: &RequestCount) -> String {
    let RequestCount {
        tokens,
        method,
        parts,
    } = count;
    let rows = [
        ("system", parts.system),
        ("tools", parts.tools),
        ("messages", parts.messages),
        ("overhead", parts.overhead),
    ];
    let rows = rows.map(|(name, tokens)| format!("  {name:<10} {tokens:>10}\n"));
    format!("{tokens} tokens ({method})\n{}", rows.concat())
}
