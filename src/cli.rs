//! The command line. Data goes to stdout, everything else to stderr.
//!
//! [`commands`] has a file for each command. Commands find data through [`backend`], print through [`terminal`], and
//! take their exit code from [`exit`].

mod backend;
mod commands;
mod conversation_files;
mod conversations;
#[cfg(test)]
mod documented;
mod exit;
mod help;
mod list;
mod terminal;
mod unshown;

use std::{ffi::OsString, io::IsTerminal as _, path::PathBuf, process::ExitCode};

use clap::{ArgAction, Args, ColorChoice, Parser, Subcommand, error::ErrorKind};
use tokio::time::Instant;

use backend::{
    api,
    target::{self, DaemonTarget},
};
use commands::agent::mcp;
use commands::{
    agent::{
        agents, context, facts, forget, handoff, history, hook, items, lineage, notes, pins, project, push,
        recall, run, summary, update, versions, window,
    },
    check::{check_request, count, replay, selftest},
    database::{backup, copy, export, import, migrate, verify},
    operation::{
        age, alerts, audit, doctor, health, metrics, proxy, queue, runs, serve, status, support, token,
    },
    setup::{config_file, init, openapi, shell, topics, version},
};
use exit::CommandFailure;
use recapd_client::Credentials;
use recapd_config::{self as config, Config, Environment, Loader, LogLevel};
use recapd_telemetry::{self as telemetry, Logging, Surroundings};
use terminal::output;

/// Keeps LLM agents' context windows in budget, and a short, true, always-ready summary of everything that has left
/// them.
#[derive(Debug, Parser)]
#[command(name = "recapd", version, propagate_version = true, arg_required_else_help = true, max_term_width = help::COLUMNS, after_help = EXAMPLES)]
struct Cli {
    #[command(flatten)]
    options: GlobalOptions,
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  recapd replay examples/two-weeks.jsonl    a conversation through the pipeline: no key, no server
  recapd serve --demo                       a daemon with a conversation to look at: no key
  recapd serve                              the daemon on 127.0.0.1:7411, database in ~/.local/state/recapd
  recapd push my-agent < messages.jsonl     messages of any known format, into a window
  recapd summary my-agent                   what has left my-agent's window, in short
  recapd history my-agent                   which exchanges the model still sees
  recapd context my-agent --format openai   what to send to a model next
  recapd recall my-agent jwt auth           which exchanges contain these words, however old
  recapd verify                             check every invariant on the stored data
  recapd check-request --format openai r.json    what the provider would refuse in a request

Exit codes: 0 fine, 1 failed, 2 wrong usage, 3 not found, 4 not ready, 69 database or daemon unreachable,
75 not done yet, 78 configuration.

More: recapd help exit-codes, recapd help environment, recapd help hooks.";

#[derive(Clone, Debug, Args)]
struct GlobalOptions {
    /// Configuration file [default: /etc/recapd/config.toml, if it exists]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Set any configuration key, e.g. `--set window.low_water=1.0`; may be given several times
    #[arg(long, global = true, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Database: an SQLite file, or `postgres://USER@HOST/DATABASE`, with the password in PGPASSFILE or PGPASSWORD
    /// [default: database.url of the configuration, otherwise recapd.db in ~/.local/state/recapd]
    #[arg(long, global = true, value_name = "DATABASE")]
    db: Option<String>,
    /// Ask the daemon at this URL, e.g. `http://127.0.0.1:7411` or `unix:/run/recapd/recapd.sock`; commands that work
    /// directly on the database refuse this option [default: if no database is named, the daemon at `http.listen`, if
    /// one runs there and accepts the credentials; otherwise the database is opened]
    #[arg(long, global = true, value_name = "URL", conflicts_with = "db")]
    server: Option<DaemonTarget>,
    /// File with the token for that daemon, on one line [default: the variable `RECAPD_TOKEN`]
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Credentials from `token_file` or the environment
    #[arg(skip)]
    credentials: Credentials,
    /// When to print colours; the variables `NO_COLOR` and `CLICOLOR_FORCE` are respected
    #[arg(
        long,
        global = true,
        value_name = "auto|always|never",
        default_value = "auto",
        hide_possible_values = true
    )]
    color: ColorChoice,
    /// Print JSON for programs
    #[arg(long, global = true)]
    json: bool,
    /// Print only errors to stderr: no progress, no hints
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Log to stderr: once, what happens; twice, also why; three times, everything. Overrides `log.level`
    #[arg(short, long, global = true, action = ArgAction::Count)]
    verbose: u8,
    /// Never prompt: fail instead, and say which option answers the question
    #[arg(long, global = true)]
    no_input: bool,
}

impl GlobalOptions {
    /// Returns the log level of `--verbose`; `None` without it.
    fn log_level(&self) -> Option<LogLevel> {
        match self.verbose {
            0 => None,
            1 => Some(LogLevel::Info),
            2 => Some(LogLevel::Debug),
            _ => Some(LogLevel::Trace),
        }
    }

    /// Reads the credentials. Every daemon that is asked gets them.
    fn with_credentials(mut self, environment: &Environment) -> Result<Self, CommandFailure> {
        self.credentials = target::credentials(self.token_file.as_deref(), environment)?;
        let credentials = self.credentials.clone();
        self.server = self.server.map(|server| server.with_credentials(credentials));
        Ok(self)
    }

    /// Fails if the command works directly on the database and `--server` is given.
    fn fit_for(self, command: &Command) -> Result<Self, CommandFailure> {
        if self.server.is_some() && command.works_on_the_database() {
            let cure = "name the database with --db or --config";
            return Err(CommandFailure::usage(format!(
                "this command works directly on the database, not through --server: {cure}"
            )));
        }
        Ok(self)
    }

    /// Sets `server` to the daemon that runs on this machine, if the command can ask one and no option says where the
    /// data is.
    fn with_daemon(mut self, command: &Command, config: &Config) -> Result<Self, CommandFailure> {
        if command.asks_a_daemon() && !self.names_a_place() {
            self.server = api::find(&config.http, self.credentials.clone())?;
        }
        Ok(self)
    }

    /// True if an option says where the data is.
    fn names_a_place(&self) -> bool {
        let names_database = |setting: &String| setting.starts_with("database.url=");
        self.server.is_some() || self.db.is_some() || self.set.iter().any(names_database)
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the daemon: accept messages, keep windows in budget, update summaries
    Serve(serve::Serve),
    /// Forward agents' requests to their providers, and have the daemon store the conversations
    Proxy(proxy::ProxyCommand),
    /// Start an agent whose requests go through the proxy
    Run(run::RunCommand),
    /// Run recorded conversations through the whole pipeline and show the result
    Replay(replay::Replay),
    /// Store messages of an agent, from standard input or files
    Push(push::Push),
    /// List agents, show and change an agent's settings, pause and resume an agent
    Agents(agents::Agents),
    /// Let agents share a summary, and list projects
    Project(project::Project),
    /// Print the summary of an agent or a project
    #[command(visible_alias = "show")]
    Summary(summary::SummaryCommand),
    /// Print an agent's window: the messages that the model sees verbatim
    Window(window::WindowCommand),
    /// Request an update of an agent's summary now
    Update(update::Update),
    /// Age the summaries that have a line too old for its section
    Age(age::Age),
    /// List queued updates, retry, cancel, pause and resume them
    Queue(queue::Queue),
    /// List past updates and their outcomes
    Runs(runs::Runs),
    /// List the stored versions of an agent's summary, or print one
    Versions(versions::Versions),
    /// Print what changed between two versions of an agent's summary
    Diff(versions::Diff),
    /// Go back to an earlier version of an agent's summary
    Rollback(versions::Rollback),
    /// Discard an agent's summary and build it again from the archive
    Rebuild(versions::Rebuild),
    /// Show, pin and correct the items of an agent's summary
    Items(items::Items),
    /// Print how things stand for an agent: the facts that hold
    Facts(facts::Facts),
    /// Print the context to send to a model for an agent, as content of a provider's request
    Context(context::ContextCommand),
    /// Print one document with which another agent can continue: the summary, and the newest part word for word
    Handoff(handoff::Handoff),
    /// Set a mark in an agent's conversation, to return to later
    Mark(lineage::MarkCommand),
    /// Return to a mark: everything after the mark is set aside
    Rewind(lineage::Rewind),
    /// Empty an agent's window and begin a new session
    Clear(lineage::Clear),
    /// Create an agent that begins with the present state of another one
    Fork(lineage::Fork),
    /// Keep a message in view after its exchange has left the window
    Pin(pins::PinCommand),
    /// Remove a pin
    Unpin(pins::PinCommand),
    /// Print the messages that stay in view, pinned or important
    Pins(pins::Pins),
    /// List, read, write and search the notes that an agent keeps
    Notes(notes::NotesCommand),
    /// Print an agent's exchanges, with a rule between what the model sees and what it doesn't
    History(history::History),
    /// Search an agent's archive by words
    Recall(recall::Recall),
    /// Print the original exchanges that a line of the summary names
    Expand(recall::Expand),
    /// Forget exchanges, a message or an agent for good, with everything made from them
    Forget(forget::Forget),
    /// Write agents' full histories to a journal, as JSON lines
    Export(export::Export),
    /// Read journals back into a database
    Import(import::Import),
    /// Back up an SQLite database into one file, also while a daemon runs on it
    Backup(backup::Backup),
    /// Restore an SQLite database from a backup
    Restore(backup::Restore),
    /// Copy a database into another one, e.g. from SQLite to PostgreSQL, and check that both are the same
    Copy(copy::Copy),
    /// Show the version of the database's tables, and bring them up to date
    Migrate(migrate::Migrate),
    /// Serve summaries and the archive to agents' hosts by the Model Context Protocol, on standard input and output
    Mcp(mcp::Mcp),
    /// Create, list and revoke tokens for the daemon's HTTP interface
    Token(token::Token),
    /// Print who changed what over HTTP, who was refused, and who signed in
    Audit(audit::Audit),
    /// Print the names and meanings of the metrics
    Metrics(metrics::MetricsCommand),
    /// Print the Prometheus rules that recapd ships: which alerts there are, when they fire, what to do
    Alerts(alerts::Alerts),
    /// Print the state of the queue and of the updates
    Status(status::StatusCommand),
    /// Count the tokens of a request body, part by part
    Count(count::Count),
    /// Check everything that summary updates need, and say how to fix what is wrong
    Doctor(doctor::Doctor),
    /// Gather what somebody who helps you needs to know, without anything that was said
    Support(support::Support),
    /// Say by the exit code whether the daemon is ready
    Health(health::Health),
    /// Write a configuration file to start with
    Init(init::Init),
    /// Check the configuration, print the settings in force and where they come from
    Config(config_file::ConfigCommand),
    /// Print the description of the HTTP interface (OpenAPI 3.1), for generating clients
    Openapi(openapi::Openapi),
    /// Print a completion script for a shell
    Completions(shell::Completions),
    /// Print the manual page, or write all of them
    Man(shell::ManPages),
    /// Print the version of this recapd
    Version(version::VersionCommand),
    /// Check the invariants on the stored data; exits 1 if one is broken
    Verify(verify::Verify),
    /// Run inside the hooks of Claude Code and Codex, and install these hooks
    Hook(hook::Hook),
    /// Test recapd with your own conversations, by the program `recapd-selftest`
    Selftest(selftest::Selftest),
    /// Print what a provider would refuse in a request, in the provider's words; exits 1 if there is anything
    CheckRequest(check_request::CheckRequest),
    #[command(flatten)]
    Topic(topics::Topic),
}

impl Command {
    /// True if the command starts its own log.
    fn logs(&self) -> bool {
        matches!(self, Self::Serve(_) | Self::Mcp(_) | Self::Proxy(_))
    }

    /// True if the command asks a running daemon instead of opening the database.
    fn asks_a_daemon(&self) -> bool {
        matches!(
            self,
            Self::Push(_)
                | Self::Agents(_)
                | Self::Project(_)
                | Self::Summary(_)
                | Self::Window(_)
                | Self::Update(_)
                | Self::Age(_)
                | Self::Queue(_)
                | Self::Runs(_)
                | Self::Audit(_)
                | Self::Versions(_)
                | Self::Diff(_)
                | Self::Rollback(_)
                | Self::Rebuild(_)
                | Self::Items(_)
                | Self::Facts(_)
                | Self::Context(_)
                | Self::Handoff(_)
                | Self::Mark(_)
                | Self::Rewind(_)
                | Self::Clear(_)
                | Self::Fork(_)
                | Self::Pin(_)
                | Self::Unpin(_)
                | Self::Pins(_)
                | Self::Notes(_)
                | Self::History(_)
                | Self::Recall(_)
                | Self::Expand(_)
                | Self::Forget(_)
                | Self::Status(_)
        )
    }

    /// True if the command works directly on the database: no daemon can answer it.
    fn works_on_the_database(&self) -> bool {
        matches!(
            self,
            Self::Replay(_)
                | Self::Export(_)
                | Self::Import(_)
                | Self::Backup(_)
                | Self::Restore(_)
                | Self::Copy(_)
                | Self::Migrate(_)
                | Self::Token(_)
                | Self::Verify(_)
        )
    }
}

pub fn main() -> ExitCode {
    let began = Instant::now();
    let environment = config::from_process_environment();
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if let Some(call) = hook::host_call(&arguments) {
        return called_by_host(&call, &environment, began);
    }
    let cli =
        Cli::try_parse_from(&arguments).unwrap_or_else(|error| help::laid_out(error, &arguments).exit());
    output::adapt(&environment);
    let is_daemon = matches!(cli.command, Command::Serve(_));
    let log = is_daemon.then(|| sources(&cli.options, &cli.command, &environment));
    match (run(cli, &environment, began), log) {
        (Ok(code), _) => code,
        (Err(failure), None) => failure.report(),
        (Err(failure), Some(log)) => failure.report_in_log(log.log_format(), &environment),
    }
}

/// Runs a call from a host. Failures stay silent, so that they don't disturb the agent; `recapd hook test` shows them
/// to people.
fn called_by_host(call: &[OsString], environment: &Environment, began: Instant) -> ExitCode {
    hook::end_in_time(environment);
    match Cli::try_parse_from(call) {
        Ok(_) if crate::hook::is_off(environment) => {}
        Ok(cli) => {
            run(cli, environment, began).ok();
        }
        Err(error) if is_for_a_person(&error) => {
            help::laid_out(error, call).print().ok();
        }
        Err(_) => {}
    }
    ExitCode::SUCCESS
}

/// True if a person made the call: the call asks for help, or stdin is a terminal, where a host would send its input.
fn is_for_a_person(error: &clap::Error) -> bool {
    let is_asked_for = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    is_asked_for || std::io::stdin().is_terminal()
}

fn run(
    Cli { options, command }: Cli,
    environment: &Environment,
    began: Instant,
) -> Result<ExitCode, CommandFailure> {
    prepare_output(&options, environment);
    let options = options.with_credentials(environment)?.fit_for(&command)?;
    let sources = sources(&options, &command, environment);
    let loaded = match (sources.clone().load(), &command) {
        (Err(error), Command::Support(support)) => return support.run(Err(&error), &options, environment),
        (loaded, _) => loaded?,
    };
    let _logging = begin_log(&options, &command, &loaded.config, environment)?;
    let options = options.with_daemon(&command, &loaded.config)?;
    carry_out(command, sources, &loaded, &options, environment, began)
}

fn carry_out(
    command: Command,
    sources: Loader,
    loaded: &config::LoadedConfig,
    options: &GlobalOptions,
    environment: &Environment,
    began: Instant,
) -> Result<ExitCode, CommandFailure> {
    match command {
        Command::Serve(serve) => serve.run(sources, loaded, environment),
        Command::Proxy(proxy) => proxy.run(&loaded.config, options, environment),
        Command::Run(run) => run.run(&loaded.config, environment),
        Command::Replay(replay) => replay.run(loaded, options, environment),
        Command::Push(push) => push.run(&loaded.config, options),
        Command::Window(window) => window.run(&loaded.config, options),
        Command::Update(update) => update.run(loaded, options, environment),
        Command::Age(age) => age.run(&loaded.config, options),
        Command::Queue(queue) => queue.run(&loaded.config, options),
        Command::Runs(runs) => runs.run(&loaded.config, options),
        Command::Audit(audit) => audit.run(&loaded.config, options),
        Command::Agents(agents) => agents.run(&loaded.config, options),
        Command::Project(project) => project.run(&loaded.config, options),
        Command::Summary(summary) => summary.run(&loaded.config, options),
        Command::Versions(versions) => versions.run(&loaded.config, options),
        Command::Diff(diff) => diff.run(&loaded.config, options),
        Command::Rollback(rollback) => rollback.run(&loaded.config, options),
        Command::Rebuild(rebuild) => rebuild.run(&loaded.config, options),
        Command::Items(items) => items.run(&loaded.config, options),
        Command::Facts(facts) => facts.run(&loaded.config, options),
        Command::Context(context) => context.run(&loaded.config, options),
        Command::Handoff(handoff) => handoff.run(&loaded.config, options),
        Command::Mark(mark) => mark.run(&loaded.config, options),
        Command::Rewind(rewind) => rewind.run(&loaded.config, options),
        Command::Clear(clear) => clear.run(&loaded.config, options),
        Command::Fork(fork) => fork.run(&loaded.config, options),
        Command::Pin(arguments) => arguments.pin(&loaded.config, options),
        Command::Unpin(arguments) => arguments.unpin(&loaded.config, options),
        Command::Pins(pins) => pins.run(&loaded.config, options),
        Command::Notes(notes) => notes.run(&loaded.config, options),
        Command::History(history) => history.run(&loaded.config, options),
        Command::Recall(recall) => recall.run(&loaded.config, options),
        Command::Expand(expand) => expand.run(&loaded.config, options),
        Command::Forget(forget) => forget.run(&loaded.config, options, environment),
        Command::Export(export) => export.run(&loaded.config, options),
        Command::Import(import) => import.run(&loaded.config, options),
        Command::Backup(backup) => backup.run(&loaded.config, options),
        Command::Restore(restore) => restore.run(&loaded.config, options),
        Command::Copy(copy) => copy.run(&loaded.config, options),
        Command::Migrate(migrate) => migrate.run(&loaded.config, options),
        Command::Mcp(mcp) => mcp.run(&loaded.config, options, environment),
        Command::Token(token) => token.run(&loaded.config, options),
        Command::Metrics(metrics) => metrics.run(options),
        Command::Alerts(alerts) => alerts.run(options),
        Command::Status(status) => status.run(&loaded.config, options),
        Command::Count(count) => count.run(&loaded.config, options),
        Command::Doctor(doctor) => doctor.run(&loaded.config, options, environment),
        Command::Support(support) => support.run(Ok(loaded), options, environment),
        Command::Health(health) => health.run(&loaded.config, options),
        Command::Init(init) => init.run(options),
        Command::Completions(completions) => completions.run(),
        Command::Man(man) => man.run(options),
        Command::Version(version) => version.run(options),
        Command::Config(command) => command.run(loaded, options, environment),
        Command::Openapi(openapi) => openapi.run(),
        Command::Verify(verify) => verify.run(&loaded.config, options),
        Command::Hook(hook) => hook.run(&loaded.config, options, environment, began),
        Command::Selftest(selftest) => selftest.run(options),
        Command::CheckRequest(check) => check.run(options),
        Command::Topic(topic) => topic.run(),
    }
}

fn prepare_output(options: &GlobalOptions, environment: &Environment) {
    output::choose_colour(options.color, environment);
    output::be_quiet(options.quiet);
}

/// Starts the log that `--verbose` asks for, unless the command has its own log.
fn begin_log(
    options: &GlobalOptions,
    command: &Command,
    config: &Config,
    environment: &Environment,
) -> Result<Option<Logging>, CommandFailure> {
    if options.verbose == 0 || command.logs() {
        return Ok(None);
    }
    let logging = telemetry::init(&config.log, &Surroundings::of_standard_error(environment), None);
    logging.map(Some).map_err(|error| CommandFailure::new(exit::CONFIGURATION, error))
}

/// Collects the sources of the settings. Each overrides those before it: defaults, file, environment, `--db`, the command's
/// own options, `--verbose`, and last `--set`.
fn sources(options: &GlobalOptions, command: &Command, environment: &Environment) -> Loader {
    let mut loader = Loader::new()
        .file(options.config.as_deref())
        .environment(environment.pairs())
        .state_folder(environment.state_folder())
        .runtime_folders(environment.runtime_folders());
    if let Some(database) = &options.db {
        loader = loader.option("--db", format!("database.url={}", config::url_of(database)));
    }
    if let Command::Replay(replay) = command {
        loader = replay.settings().into_iter().fold(loader, Loader::set);
    }
    if let Command::Serve(serve) = command {
        loader = serve.configure(loader);
    }
    if let Command::Proxy(proxy) = command {
        loader = proxy.configure(loader);
    }
    if let Some(level) = options.log_level() {
        loader = loader.set(format!("log.level={}", level.name()));
    }
    options.set.iter().cloned().fold(loader, Loader::set)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn clap_accepts_the_definition() {
        super::Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_examples() {
        let command = super::Cli::command();
        let without: Vec<&str> = command
            .get_subcommands()
            .filter(|sub| {
                let help = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
                !help.contains("Example")
            })
            .map(clap::Command::get_name)
            .collect();
        assert!(without.is_empty(), "{without:?}");
    }
}
