//! `recapd selftest`

use std::{collections::BTreeMap, io::IsTerminal as _, path::PathBuf, process::ExitCode, thread};

use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};

use super::{
    Shared,
    exit::{Failed, USAGE},
    files::list_files,
    output,
};
use crate::{
    config::Config,
    domain::message::Message,
    formats::file::FileReader,
    selftest::{
        findings::Findings,
        plan::{Conversation, Extent, Plan},
        progress::{Progress, ProgressError},
        runner::run,
    },
    tokenizer,
};

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
Budgets go from tiny to larger than the conversation. Requests are built for every provider in every mode of alternation.
Messages with an agent_id are one conversation per agent. The exit code is 1 when anything is broken. Examples:
  recapd selftest window chats/ --budgets 20                   every conversation below a folder
  recapd selftest window chat.jsonl --resume progress.json     stop it, start it again: it goes on")]
struct WindowTest {
    /// Conversation files, or folders of them
    #[arg(required = true, value_name = "PATH")]
    files: Vec<PathBuf>,
    /// Random budgets per conversation
    #[arg(long, default_value_t = 500)]
    budgets: u32,
    /// Random moments per budget at which requests are built, besides the end
    #[arg(long, default_value_t = 3)]
    looks: usize,
    /// Seeds the random choices: the same seed tries the same
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Keep progress in this file after each piece of work, and go on where it says
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// Threads [default: one per core]
    #[arg(long)]
    threads: Option<usize>,
}

impl Selftest {
    pub(super) fn run(&self, config: &Config, shared: &Shared) -> Result<ExitCode, Failed> {
        let Test::Window(test) = &self.test;
        let findings = test.run(config)?;
        if shared.json {
            output::json(&findings)?;
        } else {
            output::text(&text(&findings))?;
        }
        Ok(if findings.is_clean() && findings.windows > 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

impl WindowTest {
    fn run(&self, config: &Config) -> Result<Findings, Failed> {
        let plan = self.plan(config)?;
        let progress = match &self.resume {
            Some(file) => Progress::resume(&plan, file).map_err(failed)?,
            None => Progress::begin(&plan),
        };
        let bar = bar(plan.windows());
        bar.set_position(progress.findings().windows);
        bar.reset_eta();
        let cores = || thread::available_parallelism().map_or(1, usize::from);
        let threads = self.threads.unwrap_or_else(cores);
        let findings = run(&plan, progress, threads, &|windows| bar.inc(windows)).map_err(failed)?;
        bar.finish_and_clear();
        Ok(findings)
    }

    fn plan(&self, config: &Config) -> Result<Plan, Failed> {
        let counter = tokenizer::counter_for(&config.window.provider, &config.window.model);
        let extent = Extent {
            budgets: self.budgets,
            looks: self.looks,
            seed: self.seed,
        };
        let conversations = self.read()?.into_iter();
        let conversations =
            conversations.map(|(name, messages)| Conversation::new(name, messages, counter.as_ref()));
        Ok(Plan::new(conversations.collect(), extent, counter.clone()))
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
                let of = record.agent_id.unwrap_or(record.conversation);
                let name = format!("{} {of}", file.display());
                conversations.entry(name).or_default().push(record.message);
            }
        }
        Ok(conversations)
    }
}

fn failed(error: ProgressError) -> Failed {
    match error {
        ProgressError::Io { .. } => anyhow::Error::new(error).into(),
        _ => Failed::new(USAGE, anyhow::Error::new(error)),
    }
}

fn bar(windows: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let template =
        "{spinner} {bar:32} {percent:>3}%  {human_pos}/{human_len} windows  {elapsed} elapsed, {eta} left";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(windows).with_style(style)
}

fn text(findings: &Findings) -> String {
    let Findings {
        conversations,
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
        format!("  over budget                    {over_budget}"),
        format!("  newest exchange lost           {newest_lost}"),
        format!("  too big alone (reported)       {too_big_alone}"),
    ];
    lines.extend(told.iter().map(|told| format!("    {}", told.breach)));
    lines.join("\n")
}
