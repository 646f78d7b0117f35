//! `recapd hook`: the command that hosts call, and its installation into hosts' settings.
//!
//! Invariant: when a host calls, the process ends in time, with exit code 0, and prints only what is meant for the
//! host. Any other exit code or output would disturb the agent.

mod host_call;
mod install;
mod status;

use std::{
    io::{self, Read as _},
    os::unix::process::CommandExt as _,
    process::{self, ExitCode, Stdio},
    time::Duration,
};

use clap::{Args, Subcommand};
use serde_json::json;
use tokio::time::Instant;

use crate::{
    cli::{GlobalOptions, backend::target, exit::CommandFailure, terminal::output},
    hook::{self, DrainCaller, Event, HookCall, HookEnd, Host, INPUT_BYTES_MAX, Input},
};
pub(crate) use host_call::host_call;
use install::Install;
use recapd_config::{Config, Environment};
use recapd_core::tokenizer;
use recapd_platform::clock::SystemClock;
use status::status;

#[derive(Debug, Args)]
#[command(after_help = "\
Hosts call `recapd hook EVENT` with what happened on stdin. It takes 300 ms at most, ends with 0 whatever happens, and
never starts the daemon; RECAPD_HOOK=off switches it off. If its time is too short, or the host writes the end of a turn
late, a `recapd hook drain` in the background sends the rest. Examples:
  recapd hook install claude-code --user       for all projects of this user
  recapd hook install codex --project --dry-run
  recapd hook test --event SessionStart < sample.json
  recapd hook status
  recapd hook drain                            sends what waits for the daemon")]
pub(crate) struct Hook {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Add the hooks to a host's settings; shows the change and asks for confirmation
    Install(Install),
    /// Remove the hooks, and nothing else
    Uninstall(Install),
    /// Print what a hook would do with the input on stdin, and what the session would receive
    Test(Test),
    /// Print what waits for the daemon, the last push and injection, and whether the settings fit the host
    Status,
    /// Send what waits for the daemon, with more time than a hook has
    Drain(Drain),
    /// Called by hosts: gives the session the brief, and pushes messages that earlier hooks left
    #[command(name = "SessionStart")]
    SessionStart(EventArguments),
    /// Called by hosts: pushes messages of an interrupted turn; announces a newer summary version, if hook.announce is
    /// on
    #[command(name = "UserPromptSubmit")]
    UserPromptSubmit(EventArguments),
    /// Called by hosts: pushes new messages of the transcript
    #[command(name = "Stop")]
    Stop(EventArguments),
    /// Called by hosts: pushes new messages of the transcript
    #[command(name = "SubagentStop")]
    SubagentStop(EventArguments),
    /// Called by hosts: pushes new messages, and marks the turn as interrupted
    #[command(name = "StopFailure")]
    StopFailure(EventArguments),
    /// Called by hosts: pushes new messages, and has everything summarised
    #[command(name = "PreCompact")]
    PreCompact(EventArguments),
    /// Called by hosts: pushes new messages of the transcript
    #[command(name = "PostCompact")]
    PostCompact(EventArguments),
    /// Called by hosts: pushes new messages, and has everything summarised
    #[command(name = "SessionEnd")]
    SessionEnd(EventArguments),
}

/// The arguments of a hook.
#[derive(Clone, Debug, Args)]
struct EventArguments {
    /// The calling host [default: detected from the input]
    #[arg(long, value_enum)]
    host: Option<Host>,
    /// The agent's id; {host}, {project} and {session} are replaced by their values [default: one for each session]
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
}

#[derive(Debug, Args)]
struct Drain {
    /// Called by a hook: wait this long, then drain; end if another process waits to drain already
    #[arg(long, hide = true, value_name = "MILLISECONDS")]
    after_hook_ms: Option<u64>,
}

#[derive(Debug, Args)]
struct Test {
    /// The event to test
    #[arg(long, value_name = "EVENT", value_parser = event_named, default_value = "SessionStart")]
    event: Event,
    #[command(flatten)]
    arguments: EventArguments,
}

fn event_named(name: &str) -> Result<Event, String> {
    Event::from_name(name).ok_or_else(|| {
        let names = Event::ALL.map(Event::name).join(", ");
        format!("this event is unknown; the events are {names}")
    })
}

/// Ends this process with exit code 0 when the hook's time is over, even if something hangs.
pub(crate) fn end_in_time(environment: &Environment) {
    let time = hook::TIME_MAX * hook::patience(environment);
    std::thread::spawn(move || {
        std::thread::sleep(time);
        process::exit(0);
    });
}

impl Hook {
    /// Returns the event for which a host calls; `None` if a person calls.
    fn event(&self) -> Option<(Event, &EventArguments)> {
        match &self.command {
            Command::SessionStart(arguments) => Some((Event::SessionStart, arguments)),
            Command::UserPromptSubmit(arguments) => Some((Event::UserPromptSubmit, arguments)),
            Command::Stop(arguments) => Some((Event::Stop, arguments)),
            Command::SubagentStop(arguments) => Some((Event::SubagentStop, arguments)),
            Command::StopFailure(arguments) => Some((Event::StopFailure, arguments)),
            Command::PreCompact(arguments) => Some((Event::PreCompact, arguments)),
            Command::PostCompact(arguments) => Some((Event::PostCompact, arguments)),
            Command::SessionEnd(arguments) => Some((Event::SessionEnd, arguments)),
            Command::Install(_)
            | Command::Uninstall(_)
            | Command::Test(_)
            | Command::Status
            | Command::Drain(_) => None,
        }
    }

    pub(crate) fn run(
        self,
        config: &Config,
        options: &GlobalOptions,
        environment: &Environment,
        began: Instant,
    ) -> Result<ExitCode, CommandFailure> {
        if let Some((event, arguments)) = self.event() {
            if let Some(input) = input()? {
                let call = arguments.call(event, config, options, environment, began);
                if let HookEnd::Drain { pause } = call.run(&input, print) {
                    // If it can't be started, the next hook sends the rest.
                    drain_in_background(options, &call.server, pause).ok();
                }
            }
            return Ok(ExitCode::SUCCESS);
        }
        match self.command {
            Command::Install(install) => install.install(options, environment),
            Command::Uninstall(install) => install.uninstall(options, environment),
            Command::Test(test) => test.run(config, options, environment),
            Command::Drain(Drain { after_hook_ms }) => {
                let (server, credentials) = (daemon(config, options), options.credentials.clone());
                let caller = match after_hook_ms {
                    Some(pause_ms) => {
                        std::thread::sleep(Duration::from_millis(pause_ms));
                        DrainCaller::Hook
                    }
                    None => DrainCaller::Person,
                };
                hook::drain(environment, &server, credentials, &SystemClock, caller);
                status(options, environment)
            }
            _ => status(options, environment),
        }
    }
}

impl EventArguments {
    fn call<'a>(
        &'a self,
        event: Event,
        config: &'a Config,
        options: &GlobalOptions,
        environment: &'a Environment,
        began: Instant,
    ) -> HookCall<'a> {
        HookCall {
            event,
            host: self.host,
            agent: self.agent.as_deref(),
            server: daemon(config, options),
            credentials: options.credentials.clone(),
            config,
            environment,
            clock: &SystemClock,
            began,
        }
    }
}

fn daemon(config: &Config, options: &GlobalOptions) -> String {
    let server = options.server.as_ref().map(|server| server.base.clone());
    server.unwrap_or_else(|| target::base(&config.http))
}

/// Starts `recapd hook drain` in a process that outlives this one. The new process has none of the host's pipes, because
/// the host would wait until they are closed, and its own process group, which the host's signals don't reach.
fn drain_in_background(options: &GlobalOptions, server: &str, pause: Duration) -> io::Result<()> {
    let mut drain = process::Command::new(std::env::current_exe()?);
    let pause_ms = pause.as_millis().to_string();
    drain.args(["hook", "drain", "--after-hook-ms", &pause_ms, "--server", server]);
    for (option, file) in [("--config", &options.config), ("--token-file", &options.token_file)] {
        if let Some(file) = file {
            drain.arg(option).arg(file);
        }
    }
    drain.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn().map(drop)
}

/// Reads the host's input; `None` if it can't be parsed.
fn input() -> io::Result<Option<Input>> {
    let mut text = String::new();
    io::stdin().lock().take(INPUT_BYTES_MAX).read_to_string(&mut text)?;
    Ok(Input::read(&text))
}

/// Prints the text. A failure to print can't be reported anywhere.
fn print(text: &str) {
    output::text(text).ok();
}

impl Test {
    fn run(
        &self,
        config: &Config,
        options: &GlobalOptions,
        environment: &Environment,
    ) -> Result<ExitCode, CommandFailure> {
        let input = input()?.ok_or_else(|| {
            CommandFailure::usage(
                "stdin doesn't hold a hook's input; send a JSON object with a session_id".to_owned(),
            )
        })?;
        let call = self.arguments.call(self.event, config, options, environment, Instant::now());
        let (host, owner) = (call.host(&input), call.owner(&input));
        let agent = owner.agent;
        let project = owner.project.map(|project| project.id);
        let injection = (self.event == Event::SessionStart).then(|| call.preview(&input)).flatten();
        let text = injection.map(|injection| injection.text).unwrap_or_default();
        let (chars, tokens) = (text.chars().count(), tokenizer::ceiling_counter().count(&text));
        if options.json {
            output::json(&json!({
                "host": host.name(), "agent_id": agent, "project_id": project, "event": self.event.name(), "text": text, "chars": chars,
                "tokens": tokens,
            }))?;
            return Ok(ExitCode::SUCCESS);
        }
        if !text.is_empty() {
            output::text(&text)?;
        }
        let result = match self.event {
            Event::SessionStart if text.is_empty() => "nothing would be injected".to_owned(),
            Event::SessionStart => format!("{chars} characters, {tokens} tokens would be injected"),
            event => format!("{} injects nothing", event.name()),
        };
        output::note(&format!("{}, agent {agent}: {result}", host.name()));
        Ok(ExitCode::SUCCESS)
    }
}
