//! `recapd hook`: what hosts call, and putting it into their settings.
//!
//! Invariant: called by a host it ends in time, with 0, and prints nothing but what is meant for the host: any other
//! exit code or output would disturb the agent.

mod called;

use std::{
    fs,
    io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, Subcommand};
use serde_json::json;
use tokio::time::Instant;

use crate::{
    cli::{Shared, exit::Failed, terminal::output},
    clock::SystemClock,
    config::{Config, Environment},
    hook::{self, Call, Event, Host, INPUT_BYTES_MAX, Input, install},
    tokenizer,
};
pub(in crate::cli) use called::called;

#[derive(Debug, Args)]
#[command(after_help = "\
Hosts call `recapd hook EVENT` with what happened on stdin. It takes 300 ms at most, ends with 0 whatever happens, and
never starts the daemon; RECAPD_HOOK=off switches it off. Examples:
  recapd hook install claude-code --user       for all projects of this user
  recapd hook install codex --project --dry-run
  recapd hook test --event SessionStart < sample.json
  recapd hook status
  recapd hook drain                            what a hook had no time for")]
pub(in crate::cli) struct Hook {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Put the hooks into a host's settings; shows what changes and asks
    Install(Install),
    /// Take them out again, and nothing else
    Uninstall(Install),
    /// Print what a hook would do with the input on stdin, and what a session would be given
    Test(Test),
    /// Print what waits for the daemon, and when something was last pushed and injected
    Status,
    /// Send what waits for the daemon, with more time than a hook has
    Drain,
    /// Called by hosts: gives a session the brief
    #[command(name = "SessionStart")]
    SessionStart(Fire),
    /// Called by hosts: tells of a newer version, if hook.announce is on
    #[command(name = "UserPromptSubmit")]
    UserPromptSubmit(Fire),
    /// Called by hosts: pushes what is new in the transcript
    #[command(name = "Stop")]
    Stop(Fire),
    /// Called by hosts: pushes what is new in the transcript
    #[command(name = "SubagentStop")]
    SubagentStop(Fire),
    /// Called by hosts: pushes, and marks the turn as interrupted
    #[command(name = "StopFailure")]
    StopFailure(Fire),
    /// Called by hosts: pushes, and has everything summarised
    #[command(name = "PreCompact")]
    PreCompact(Fire),
    /// Called by hosts: pushes what is new in the transcript
    #[command(name = "PostCompact")]
    PostCompact(Fire),
    /// Called by hosts: pushes, and has everything summarised
    #[command(name = "SessionEnd")]
    SessionEnd(Fire),
}

#[derive(Clone, Debug, Args)]
struct Fire {
    /// Who calls [default: found out from the input]
    #[arg(long, value_enum)]
    host: Option<Host>,
    /// The agent's id; {host}, {project} and {session} stand for what they say [default: {host}:{project}]
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
}

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
struct Install {
    /// Whose settings
    #[arg(value_enum)]
    host: Host,
    /// Those of the project in the working directory
    #[arg(long, conflicts_with = "user")]
    project: bool,
    /// Those of the user, for all projects [default]
    #[arg(long)]
    user: bool,
    /// Only show what would change
    #[arg(long)]
    dry_run: bool,
    /// Don't ask
    #[arg(long)]
    yes: bool,
    /// The agent's id, as with EVENT: {host}, {project} and {session} stand for what they say
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// The program that hosts call
    #[arg(long, value_name = "PROGRAM", default_value = "recapd")]
    program: String,
}

#[derive(Debug, Args)]
struct Test {
    /// What happens
    #[arg(long, value_name = "EVENT", value_parser = named_event, default_value = "SessionStart")]
    event: Event,
    #[command(flatten)]
    fire: Fire,
}

fn named_event(name: &str) -> Result<Event, String> {
    Event::from_name(name).ok_or_else(|| {
        let names = Event::ALL.map(Event::name).join(", ");
        format!("there is no such event; give one of {names}")
    })
}

/// Ends this process, with 0, when a hook's time is up, whatever hangs.
pub(in crate::cli) fn end_in_time(environment: &Environment) {
    let time = hook::TIME_MAX * hook::patience(environment);
    std::thread::spawn(move || {
        std::thread::sleep(time);
        std::process::exit(0);
    });
}

impl Hook {
    fn fired(&self) -> Option<(Event, &Fire)> {
        match &self.command {
            Command::SessionStart(fire) => Some((Event::SessionStart, fire)),
            Command::UserPromptSubmit(fire) => Some((Event::UserPromptSubmit, fire)),
            Command::Stop(fire) => Some((Event::Stop, fire)),
            Command::SubagentStop(fire) => Some((Event::SubagentStop, fire)),
            Command::StopFailure(fire) => Some((Event::StopFailure, fire)),
            Command::PreCompact(fire) => Some((Event::PreCompact, fire)),
            Command::PostCompact(fire) => Some((Event::PostCompact, fire)),
            Command::SessionEnd(fire) => Some((Event::SessionEnd, fire)),
            Command::Install(_)
            | Command::Uninstall(_)
            | Command::Test(_)
            | Command::Status
            | Command::Drain => None,
        }
    }

    pub(in crate::cli) fn run(
        self,
        config: &Config,
        shared: &Shared,
        environment: &Environment,
        began: Instant,
    ) -> Result<ExitCode, Failed> {
        if let Some((event, fire)) = self.fired() {
            if let Some(input) = input()? {
                let call = fire.call(event, config, shared, environment, began);
                call.run(&input, print);
            }
            return Ok(ExitCode::SUCCESS);
        }
        match self.command {
            Command::Install(install) => install.change(config, shared, environment, true),
            Command::Uninstall(install) => install.change(config, shared, environment, false),
            Command::Test(test) => test.run(config, shared, environment),
            Command::Drain => {
                let server = daemon(config, shared);
                hook::drain(environment, &server, shared.token.clone(), &SystemClock);
                status(shared, environment)
            }
            _ => status(shared, environment),
        }
    }
}

impl Fire {
    fn call<'a>(
        &'a self,
        event: Event,
        config: &'a Config,
        shared: &Shared,
        environment: &'a Environment,
        began: Instant,
    ) -> Call<'a> {
        Call {
            event,
            host: self.host,
            agent: self.agent.as_deref(),
            server: daemon(config, shared),
            token: shared.token.clone(),
            config,
            environment,
            clock: &SystemClock,
            began,
        }
    }
}

/// Where the daemon answers.
fn daemon(config: &Config, shared: &Shared) -> String {
    let server = shared.server.as_ref().map(|server| server.base.clone());
    server.unwrap_or_else(|| config.http.listen.base())
}

/// What the host says, none if it says nothing that makes sense.
fn input() -> io::Result<Option<Input>> {
    let mut text = String::new();
    io::stdin()
        .lock()
        .take(INPUT_BYTES_MAX)
        .read_to_string(&mut text)?;
    Ok(Input::read(&text))
}

/// What can't be printed can't be told to anybody.
fn print(text: &str) {
    output::text(text).ok();
}

impl Test {
    fn run(&self, config: &Config, shared: &Shared, environment: &Environment) -> Result<ExitCode, Failed> {
        let input = input()?.ok_or_else(|| {
            Failed::usage("stdin holds no hook's input; give a JSON object with a session_id".to_owned())
        })?;
        let call = self
            .fire
            .call(self.event, config, shared, environment, Instant::now());
        let (host, agent) = (call.host(&input), call.agent(&input));
        let injection = (self.event == Event::SessionStart)
            .then(|| call.preview(&input))
            .flatten();
        let text = injection.map(|injection| injection.text).unwrap_or_default();
        let (chars, tokens) = (text.chars().count(), tokenizer::ceiling_counter().count(&text));
        if shared.json {
            output::json(&json!({
                "host": host.name(), "agent_id": agent, "event": self.event.name(), "text": text, "chars": chars,
                "tokens": tokens,
            }))?;
            return Ok(ExitCode::SUCCESS);
        }
        if !text.is_empty() {
            output::text(&text)?;
        }
        let told = match self.event {
            Event::SessionStart if text.is_empty() => "nothing would be injected".to_owned(),
            Event::SessionStart => format!("{chars} characters, {tokens} tokens would be injected"),
            event => format!("{} injects nothing", event.name()),
        };
        output::note(&format!("{}, agent {agent}: {told}", host.name()));
        Ok(ExitCode::SUCCESS)
    }
}

impl Install {
    fn change(
        &self,
        config: &Config,
        shared: &Shared,
        environment: &Environment,
        is_install: bool,
    ) -> Result<ExitCode, Failed> {
        let folder = self.project.then(|| Path::new("."));
        let file = install::settings_file(self.host, folder, environment)
            .ok_or_else(|| Failed::usage("HOME isn't set; set it, or use --project".to_owned()))?;
        let before = read(&file)?;
        let after = if is_install {
            install::installed(&before, &self.commands(config, shared))
        } else {
            install::uninstalled(&before)
        };
        let after = after.map_err(|error| Failed::usage(format!("{}: {error}", file.display())))?;
        let diff = (after != before).then(|| install::diff(&before, &after));
        if let Some(diff) = &diff {
            self.show(&format!("{}\n{diff}", file.display()), shared)?;
        }
        let is_written = diff.is_some() && !self.dry_run;
        if is_written {
            if !self.yes && !confirmed(!shared.no_input)? {
                return Err(Failed::usage("nothing was changed".to_owned()));
            }
            write(&file, &after)?;
        }
        if shared.json {
            let file = file.display().to_string();
            output::json(&json!({ "file": file, "diff": diff, "written": is_written }))?;
        } else if diff.is_none() {
            output::text(&format!("{}: nothing to change", file.display()))?;
        } else if is_written {
            output::text(if is_install && self.host == Host::Codex {
                "written; Codex asks you to trust the hooks: /hooks"
            } else {
                "written"
            })?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Shows what changes. Where programs read the output, only somebody who is asked about it is shown.
    fn show(&self, change: &str, shared: &Shared) -> io::Result<()> {
        if !shared.json {
            return output::text(change);
        }
        if !self.yes && !self.dry_run {
            output::error(change);
        }
        Ok(())
    }

    /// The options of this call that each hook needs as well.
    fn commands(&self, config: &Config, shared: &Shared) -> install::Commands {
        let mut options = Vec::new();
        // Hooks run in other folders.
        let shown = |path: &PathBuf| {
            let absolute = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            absolute.display().to_string()
        };
        let file = shared.config.as_ref().map(shown);
        let token_file = shared.token_file.as_ref().map(shown);
        let server = shared.server.as_ref().map(|server| server.base.clone());
        for (name, value) in [
            ("--agent", &self.agent),
            ("--server", &server),
            ("--token-file", &token_file),
            ("--config", &file),
        ] {
            if let Some(value) = value {
                options.extend([name.to_owned(), value.clone()]);
            }
        }
        install::Commands {
            host: self.host,
            program: self.program.clone(),
            options,
            announces: config.hook.announce,
        }
    }
}

fn read(file: &Path) -> Result<String, Failed> {
    match fs::metadata(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(Failed::usage(format!("{}: {error}", file.display()))),
        Ok(of) if of.len() > install::SETTINGS_BYTES_MAX => Err(Failed::usage(format!(
            "{} is too long for settings",
            file.display()
        ))),
        Ok(_) => {
            fs::read_to_string(file).map_err(|error| Failed::usage(format!("{}: {error}", file.display())))
        }
    }
}

fn confirmed(may_ask: bool) -> Result<bool, Failed> {
    if !may_ask || !io::stdin().is_terminal() {
        let why = if may_ask {
            "this isn't a terminal to ask on"
        } else {
            "this would be asked about"
        };
        return Err(Failed::usage(format!("{why}; say --yes or --dry-run")));
    }
    let mut stderr = io::stderr().lock();
    stderr.write_all(b"Write this? [y/N] ")?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Writes settings whole or not at all, where a link leads to, with the permissions that they have.
fn write(file: &Path, text: &str) -> Result<(), Failed> {
    let file: PathBuf = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let folder = file.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut written = tempfile::NamedTempFile::new_in(folder)?;
    written.write_all(text.as_bytes())?;
    if let Ok(of) = fs::metadata(&file) {
        fs::set_permissions(written.path(), of.permissions())?;
    }
    written
        .persist(&file)
        .map_err(|error| Failed::from(error.error))?;
    Ok(())
}

fn status(shared: &Shared, environment: &Environment) -> Result<ExitCode, Failed> {
    let statuses = hook::statuses(environment);
    if shared.json {
        output::json(&statuses)?;
        return Ok(ExitCode::SUCCESS);
    }
    if statuses.is_empty() {
        output::text(
            "no hook has run here yet; put them in with `recapd hook install claude-code` or codex",
        )?;
    }
    for status in statuses {
        let at = |at: Option<crate::domain::time::Timestamp>| {
            at.map_or_else(|| "never".to_owned(), |at| at.to_string())
        };
        let mut text = format!(
            "{}  pushed {}, injected {}, {} waiting ({} bytes)",
            status.agent_id,
            at(status.last_push_at),
            at(status.last_injection_at),
            status.spool_segments,
            status.spool_bytes
        );
        if status.refused > 0 {
            text.extend([", ", &status.refused.to_string(), " refused"]);
        }
        if let Some(error) = &status.last_error {
            text.extend(["\n  last error: ", error]);
        }
        output::text(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}
