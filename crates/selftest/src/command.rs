//! The command line.

mod faults;
mod output;

use std::{collections::BTreeMap, num::ParseIntError, path::PathBuf, process::ExitCode, thread};

use clap::{Args, Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use recapd_core::{domain::message::Message, formats::file::FileReader, tokenizer};
use recapd_platform::files::{ListError, list_files};
use serde::Serialize;

use crate::selftest::{
    findings::TrialFindings,
    plan::{Conversation, Plan, TrialSize},
    planting::plant_unsigned_thinking,
    progress::{ProgressError, TrialProgress},
    runner::run,
    simulation::{Guard, Promise, Simulation, SimulationFindings},
    updates::{UpdateFindings, Updates},
    work::Work,
};

const USAGE: u8 = 2;

#[derive(Debug, thiserror::Error)]
enum CommandFailure {
    #[error(transparent)]
    Usage(anyhow::Error),
    #[error(transparent)]
    Other(#[from] anyhow::Error),
    /// The output can't be written, or a path can't be used.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Test recapd on your own conversations, and real daemons by faults.
#[derive(Debug, Parser)]
#[command(name = "recapd selftest", version, propagate_version = true, arg_required_else_help = true)]
struct Selftest {
    #[command(flatten)]
    shared: GlobalOptions,
    #[command(subcommand)]
    test: Test,
}

#[derive(Debug, Args)]
struct GlobalOptions {
    /// Print JSON for programs
    #[arg(long, global = true)]
    json: bool,
    /// Show no progress
    #[arg(short, long, global = true)]
    quiet: bool,
}

#[derive(Debug, Subcommand)]
enum Test {
    /// Fill windows of random budgets with recorded conversations and judge every request built from them
    Window(WindowTest),
    /// Update summaries with an adversarial model, and judge every document
    Updates(UpdatesTest),
    /// Kill, stop and starve real daemons under load, and check that nothing is lost or done twice
    Faults(faults::FaultsTest),
    /// Let simulated daemons, killed, stalled and cut off at any step, share one store, and judge every step
    Simulation(SimulationTest),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Budgets go from tiny to larger than the conversation. Requests are built for every provider in every mode of alternation.
Messages with an agent_id are one conversation per agent. The exit code is 1 when anything is broken. Examples:
  recapd selftest window chats/ --budgets 20                   every conversation below a folder
  recapd selftest window chat.jsonl --resume progress.json     stop it, start it again: it resumes
  recapd selftest window chats/ --unsigned-thinking            the same with thinking that Anthropic refuses")]
struct WindowTest {
    /// Conversation files, or folders of them
    #[arg(required = true, value_name = "PATH")]
    files: Vec<PathBuf>,
    /// Random budgets per conversation
    #[arg(long, default_value_t = 500)]
    budgets: u32,
    /// Random moments per budget at which requests are built, in addition to the end
    #[arg(long, default_value_t = 3)]
    looks: usize,
    /// Plant thinking without a signature in each conversation, as programs write it for models other than Claude
    #[arg(long)]
    unsigned_thinking: bool,
    /// Count tokens as this provider does
    #[arg(long, default_value = "openai")]
    provider: String,
    /// Count tokens as this model does
    #[arg(long, default_value = "gpt-5")]
    model: String,
    #[command(flatten)]
    how: How,
}

#[derive(Debug, Args)]
#[command(after_help = "\
A life of 250 updates follows from the seed and its number: documents of every ceiling, ageing by hours, by days and not at
all. Breaches are documents over 10,000 tokens, exchanges that are uncovered or covered twice, decisions lost while something
less important remains, and invalid lines; with one of them the exit code is 1. Examples:
  recapd selftest updates --updates 10_000                     a minute
  recapd selftest updates --resume progress.json               a million; stop it, start it again: it resumes")]
struct UpdatesTest {
    /// The number of updates
    #[arg(long, default_value = "1_000_000", value_parser = count)]
    updates: u64,
    #[command(flatten)]
    how: How,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The daemons' own code runs over a store in memory, in virtual time; a seed determines a history. In each run daemons are
killed, stopped beyond their leases, lose connections before or after a commit and have wrong clocks, and the model fails;
then all are healthy, and all work must be completed. Failing runs are shown with their seeds and last steps, the shortest
first. --without disables a guard of the protocol, to show that this test notices: lease, version, watermark, exchanges, void
(of the lease by a rewind) or rearm. The exit code is 1 when anything is broken. Examples:
  recapd selftest simulation --runs 10_000                     a sample
  recapd selftest simulation --runs 2_000 --without lease      breaks, and shows how
  recapd selftest simulation --seed 4711 --runs 1              that run again")]
struct SimulationTest {
    /// The number of runs, with consecutive seeds
    #[arg(long, default_value = "100_000", value_parser = count)]
    runs: u64,
    /// Disable guards of the protocol, separated by commas
    #[arg(long, value_name = "GUARDS", value_delimiter = ',')]
    without: Vec<Guard>,
    #[command(flatten)]
    how: How,
}

/// Options of the tests that are split into pieces.
#[derive(Debug, Args)]
struct How {
    /// Seeds the random choices: the same seed makes the same ones
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Save progress in this file after each piece of work, and resume from it
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// The number of threads that share the work [default: one per core]
    #[arg(long)]
    threads: Option<usize>,
}

pub fn main() -> ExitCode {
    let command = Selftest::parse();
    match command.run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            output::error(&failure.to_string());
            match failure {
                CommandFailure::Usage(_) => ExitCode::from(USAGE),
                CommandFailure::Other(_) | CommandFailure::Io(_) => ExitCode::FAILURE,
            }
        }
    }
}

impl Selftest {
    fn run(&self) -> Result<bool, CommandFailure> {
        let shared = &self.shared;
        match &self.test {
            Test::Window(test) => {
                let found = test.how.run(&test.plan()?, "windows", shared)?;
                report(&found, shared, text)?;
                Ok(found.is_clean() && found.windows > 0)
            }
            Test::Updates(test) => {
                let work = Updates {
                    updates: test.updates,
                    seed: test.how.seed,
                    counter: tokenizer::ceiling_counter(),
                };
                let found = test.how.run(&work, "updates", shared)?;
                report(&found, shared, updates_text)?;
                Ok(found.is_clean() && found.updates > 0)
            }
            Test::Faults(test) => test.run(shared),
            Test::Simulation(test) => {
                let work = Simulation {
                    runs: test.runs,
                    seed: test.how.seed,
                    without: test.without.iter().copied().collect(),
                };
                let found = test.how.run(&work, "runs", shared)?;
                report(&found, shared, simulation_text)?;
                Ok(found.is_clean() && found.runs > 0)
            }
        }
    }
}

/// Accepts grouped digits, as the configuration does.
fn count(text: &str) -> Result<u64, ParseIntError> {
    text.replace('_', "").parse()
}

fn report<F: Serialize>(
    found: &F,
    shared: &GlobalOptions,
    text: impl FnOnce(&F) -> String,
) -> Result<(), CommandFailure> {
    if shared.json {
        output::json(found)?;
    } else {
        output::text(&text(found))?;
    }
    Ok(())
}

impl How {
    /// Does all of `work` and shows its progress in `unit`s.
    fn run<W: Work>(
        &self,
        work: &W,
        unit: &str,
        shared: &GlobalOptions,
    ) -> Result<W::Findings, CommandFailure> {
        let progress = match &self.resume {
            Some(file) => TrialProgress::resume(work, file).map_err(failed)?,
            None => TrialProgress::begin(work),
        };
        let size = |pieces: &mut dyn Iterator<Item = usize>| pieces.map(|piece| work.size(piece)).sum();
        let bar = bar(size(&mut (0..work.pieces())), unit, shared);
        bar.set_position(size(&mut (0..work.pieces()).filter(|piece| progress.is_done(*piece))));
        bar.reset_eta();
        let cores = || thread::available_parallelism().map_or(1, usize::from);
        let threads = self.threads.unwrap_or_else(cores);
        let found = run(work, progress, threads, &|done| bar.inc(done)).map_err(failed)?;
        bar.finish_and_clear();
        Ok(found)
    }
}

impl WindowTest {
    fn plan(&self) -> Result<Plan, CommandFailure> {
        let counter = tokenizer::counter_for(&self.provider, &self.model);
        let extent = TrialSize { budgets: self.budgets, looks: self.looks, seed: self.how.seed };
        let conversations = self.read()?.into_iter().map(|(name, messages)| {
            let messages = if self.unsigned_thinking { plant_unsigned_thinking(messages) } else { messages };
            Conversation::new(name, messages, counter.as_ref())
        });
        Ok(Plan::new(conversations.collect(), extent, counter.clone()))
    }

    /// Reads all conversations, by name. Reports and skips unreadable ones.
    fn read(&self) -> Result<BTreeMap<String, Vec<Message>>, CommandFailure> {
        let mut conversations: BTreeMap<String, Vec<Message>> = BTreeMap::new();
        for file in list_files(&self.files).map_err(unlisted)? {
            let reader = match FileReader::open_conversation(&file, None, None) {
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

fn failed(error: ProgressError) -> CommandFailure {
    match error {
        ProgressError::Io { .. } => anyhow::Error::new(error).into(),
        _ => CommandFailure::Usage(anyhow::Error::new(error)),
    }
}

fn unlisted(error: ListError) -> CommandFailure {
    match error {
        ListError::Missing(_) => CommandFailure::Usage(anyhow::Error::new(error)),
        ListError::Unreadable { .. } => anyhow::Error::new(error).into(),
    }
}

fn bar(size: u64, unit: &str, shared: &GlobalOptions) -> ProgressBar {
    if shared.quiet || !output::is_watched() {
        return ProgressBar::hidden();
    }
    let template = format!(
        "{{spinner}} {{bar:32}} {{percent:>3}}%  {{human_pos}}/{{human_len}} {unit}  {{elapsed}} elapsed, {{eta}} left"
    );
    let style = ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(size).with_style(style)
}

fn text(findings: &TrialFindings) -> String {
    let TrialFindings {
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

fn updates_text(found: &UpdateFindings) -> String {
    let mut lines = vec![
        format!(
            "{} updates, {} exchanges, {} answers refused",
            found.updates, found.exchanges, found.answers_refused
        ),
        format!(
            "{} documents compacted by a model ({} items merged, {} shortened), {} answers for it refused",
            found.compactions, found.merged, found.condensed, found.compactions_refused
        ),
        format!("  largest document, in tokens      {}", found.tokens_max),
        format!("  over the ceiling                 {}", found.over_ceiling),
        format!("  not covered exactly once         {}", found.uncovered),
        format!("  decisions lost too early         {}", found.decisions_lost),
        format!("  with a line that is none         {}", found.malformed),
        format!("  too small for all decisions      {} (reported)", found.truncated),
    ];
    lines.extend(found.told.iter().map(|told| format!("    {told}")));
    lines.join("\n")
}

fn simulation_text(found: &SimulationFindings) -> String {
    let counts = &found.counts;
    let mut lines = vec![
        format!(
            "{} runs, {} steps: {} requests, {} claims, {} model calls, {} updates",
            found.runs, counts.steps, counts.requests, counts.claims, counts.model_calls, counts.updates
        ),
        format!(
            "{} daemons killed, {} stalled, {} calls cut off, {} clocks turned, {} queue rows deleted",
            counts.killed, counts.stalled, counts.cut, counts.clocks_turned, counts.rows_lost
        ),
        format!(
            "{} updates refused without a lease, {} for what they had read, {} for anything else",
            counts.fenced_by_lease, counts.fenced_by_state, counts.refused
        ),
    ];
    let broken = |promise: Promise| format!("  {:<32} {}", promise.title(), found.broken(promise));
    lines.extend(Promise::ALL.map(broken));
    for failed in &found.failed {
        lines.push(format!("seed {}, {} steps:", failed.seed, failed.steps));
        lines.extend(failed.breaches.iter().map(|breach| format!("  {breach}")));
    }
    if let Some(shortest) = found.failed.first() {
        lines.push(format!("the last steps of seed {}:", shortest.seed));
        lines.extend(shortest.trace.iter().map(|line| format!("  {line}")));
    }
    lines.join("\n")
}
