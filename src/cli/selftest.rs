//! `recapd selftest`

use std::{collections::BTreeMap, io::IsTerminal as _, path::PathBuf, process::ExitCode};

use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};

use super::{Shared, exit::Failed, files::list_files, output};
use crate::{
    config::Config,
    domain::{message::Message, window::Budget},
    formats::file::FileReader,
    selftest::window::{Findings, try_budget},
    tokenizer,
};

/// The smallest budget tried.
const BUDGET_MIN: f64 = 20.0;
/// The largest budget tried.
const BUDGET_MAX: f64 = 200_000.0;

#[derive(Debug, Args)]
pub(super) struct Selftest {
    #[command(subcommand)]
    test: Test,
}

#[derive(Debug, Subcommand)]
enum Test {
    /// Fill windows of random budgets with recorded conversations and judge every request built from them
    Window(WindowTest),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  recapd selftest window chats/                    every conversation below a folder, 20 budgets each
  recapd selftest window chat.jsonl --budgets 500 --seed 3")]
struct WindowTest {
    /// Conversation files, or folders of them
    #[arg(required = true, value_name = "PATH")]
    files: Vec<PathBuf>,
    /// Random budgets per conversation
    #[arg(long, default_value_t = 20)]
    budgets: u32,
    /// Random moments per budget at which requests are built, besides the end
    #[arg(long, default_value_t = 3)]
    looks: usize,
    /// Seeds the random choices: the same seed tries the same
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Selftest {
    pub(super) fn run(&self, config: &Config, shared: &Shared) -> Result<ExitCode, Failed> {
        let Test::Window(test) = &self.test;
        let (conversations, findings) = test.run(config)?;
        if shared.json {
            output::json(&findings)?;
        } else {
            output::text(&text(conversations, &findings))?;
        }
        Ok(if findings.is_clean() && findings.windows > 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

impl WindowTest {
    fn run(&self, config: &Config) -> Result<(usize, Findings), Failed> {
        let conversations = self.read()?;
        let counter = tokenizer::counter_for(&config.window.provider, &config.window.model);
        let mut random = fastrand::Rng::with_seed(self.seed);
        let mut findings = Findings::default();
        let bar = bar(conversations.len() as u64 * u64::from(self.budgets));
        for messages in conversations.values() {
            for _ in 0..self.budgets {
                let looks: Vec<usize> = (0..self.looks).map(|_| random.usize(0..messages.len())).collect();
                let low_water = 0.5 + random.f64() / 2.0;
                findings.add(try_budget(
                    messages,
                    Budget::new(budget(&mut random), low_water),
                    &looks,
                    &counter,
                ));
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        Ok((conversations.len(), findings))
    }

    /// All conversations by name. What can't be read is named and left out.
    fn read(&self) -> Result<BTreeMap<String, Vec<Message>>, Failed> {
        let mut conversations: BTreeMap<String, Vec<Message>> = BTreeMap::new();
        for file in list_files(&self.files)? {
            let reader = match FileReader::open(&file, None) {
                Ok(reader) => reader,
                Err(refused) => {
                    output::error(&format!("skipped {refused}"));
                    continue;
                }
            };
            for record in reader.flatten() {
                let name = format!("{} {}", file.display(), record.conversation);
                conversations.entry(name).or_default().push(record.message);
            }
        }
        Ok(conversations)
    }
}

/// Budgets of every size are equally likely.
#[expect(clippy::cast_possible_truncation, reason = "far below 2^52 tokens")]
fn budget(random: &mut fastrand::Rng) -> i64 {
    (BUDGET_MIN.ln() + random.f64() * (BUDGET_MAX / BUDGET_MIN).ln()).exp() as i64
}

fn bar(steps: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style =
        ProgressStyle::with_template("{spinner} {bar:32} {percent:>3}%  {pos}/{len} windows  {eta} left");
    ProgressBar::new(steps).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn text(conversations: usize, findings: &Findings) -> String {
    let Findings {
        windows,
        evicted,
        requests,
        refused,
        split,
        over_budget,
        newest_lost,
        too_big_alone,
        told,
    } = findings;
    let mut lines = vec![
        format!(
            "{conversations} conversations, {windows} windows, {evicted} exchanges evicted, {requests} requests"
        ),
        format!("  refused by a provider's rules  {refused}"),
        format!("  exchanges split                {split}"),
        format!("  windows over budget            {over_budget}"),
        format!("  newest exchange lost           {newest_lost}"),
        format!("  too big alone (reported)       {too_big_alone}"),
    ];
    lines.extend(told.iter().map(|breach| format!("    {breach}")));
    lines.join("\n")
}
