//! `recapd hook install` and `uninstall`.

use std::{
    fs,
    io::{self, BufRead as _, IsTerminal as _, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use serde_json::json;

use crate::{
    cli::{GlobalOptions, exit::CommandFailure, terminal::output},
    hook::{
        Event, Host,
        install::{self, HostProgram, InstallError, Scope, Support},
    },
};
use recapd_config::Environment;

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(super) struct Install {
    /// The host whose settings to change
    #[arg(value_enum)]
    host: Host,
    /// Change the settings of the project in the working directory
    #[arg(long, conflicts_with = "user")]
    project: bool,
    /// Change the user's settings, for all projects [default]
    #[arg(long)]
    user: bool,
    /// Only show the change
    #[arg(long)]
    dry_run: bool,
    /// Don't ask for confirmation
    #[arg(long)]
    yes: bool,
    /// The agent's id; {host}, {project} and {session} are replaced by their values
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// The program that hosts call
    #[arg(long, value_name = "PROGRAM", default_value = "recapd")]
    program: String,
}

/// The text of a settings file before and after the change.
struct SettingsChange {
    file: PathBuf,
    before: String,
    after: String,
}

impl Install {
    pub(super) fn install(
        &self,
        options: &GlobalOptions,
        environment: &Environment,
    ) -> Result<ExitCode, CommandFailure> {
        let file = self.file(environment)?;
        let before = read(&file).map_err(CommandFailure::usage)?;
        let program = install::find(self.host, environment);
        let support = install::support(self.host, self.scope(), &program)
            .map_err(|error| CommandFailure::usage(format!("nothing was changed: {error}")))?;
        let commands = self.commands(options, &support.events);
        let after = install::with_hooks(&before, &commands).map_err(|error| in_file(&file, &error))?;
        if let Some(note) = left_out(&support, self.scope(), &program) {
            output::note(&note);
        }
        self.change(&SettingsChange { file, before, after }, options, &left_out_names(&support))?;
        Ok(ExitCode::SUCCESS)
    }

    pub(super) fn uninstall(
        &self,
        options: &GlobalOptions,
        environment: &Environment,
    ) -> Result<ExitCode, CommandFailure> {
        let file = self.file(environment)?;
        let before = read(&file).map_err(CommandFailure::usage)?;
        let after = install::without_hooks(&before).map_err(|error| in_file(&file, &error))?;
        self.change(&SettingsChange { file, before, after }, options, &[])?;
        Ok(ExitCode::SUCCESS)
    }

    fn file(&self, environment: &Environment) -> Result<PathBuf, CommandFailure> {
        let folder = self.project.then(|| Path::new("."));
        install::settings_file(self.host, folder, environment)
            .ok_or_else(|| CommandFailure::usage("HOME isn't set; set it, or use --project".to_owned()))
    }

    fn scope(&self) -> Scope {
        if self.project { Scope::Project } else { Scope::User }
    }

    /// Shows the change, asks for confirmation, and writes it.
    fn change(
        &self,
        change: &SettingsChange,
        options: &GlobalOptions,
        left_out: &[&str],
    ) -> Result<(), CommandFailure> {
        let SettingsChange { file, before, after } = change;
        let diff = (after != before).then(|| install::diff(before, after));
        if let Some(diff) = &diff {
            self.show(&format!("{}\n{diff}", file.display()), options)?;
        }
        let is_written = diff.is_some() && !self.dry_run;
        if is_written {
            if !self.yes && !confirm(!options.no_input)? {
                return Err(CommandFailure::usage("nothing was changed".to_owned()));
            }
            write(file, after)?;
        }
        if options.json {
            let file = file.display().to_string();
            output::json(
                &json!({ "file": file, "diff": diff, "written": is_written, "left_out": left_out }),
            )?;
        } else if diff.is_none() {
            output::text(&format!("{}: nothing to change", file.display()))?;
        } else if is_written {
            let has_hooks = install::review(after, self.host, self.scope(), || HostProgram::Missing)
                .is_ok_and(|review| review.is_some());
            output::text(if has_hooks && self.host == Host::Codex {
                "written; Codex asks you to trust the hooks: /hooks"
            } else {
                "written"
            })?;
        }
        Ok(())
    }

    /// Shows the change. With `--json` it goes to stderr, and only if the user is asked to confirm it.
    fn show(&self, change: &str, options: &GlobalOptions) -> io::Result<()> {
        if !options.json {
            return output::text(change);
        }
        if !self.yes && !self.dry_run {
            output::error(change);
        }
        Ok(())
    }

    /// Returns the commands for the settings. They repeat the options of this command line that each hook needs.
    fn commands(&self, options: &GlobalOptions, events: &[Event]) -> install::Commands {
        let mut hook_options = Vec::new();
        // Hooks run in other folders, so paths must be absolute.
        let absolute_path = |path: &PathBuf| {
            let absolute = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            absolute.display().to_string()
        };
        let file = options.config.as_ref().map(absolute_path);
        let token_file = options.token_file.as_ref().map(absolute_path);
        let server = options.server.as_ref().map(|server| server.base.clone());
        for (name, value) in [
            ("--agent", &self.agent),
            ("--server", &server),
            ("--token-file", &token_file),
            ("--config", &file),
        ] {
            if let Some(value) = value {
                hook_options.extend([name.to_owned(), value.clone()]);
            }
        }
        install::Commands {
            host: self.host,
            program: self.program.clone(),
            options: hook_options,
            events: events.to_vec(),
            scope: self.scope(),
        }
    }
}

fn in_file(file: &Path, error: &InstallError) -> CommandFailure {
    CommandFailure::usage(format!("{}: {error}", file.display()))
}

fn left_out_names(support: &Support) -> Vec<&'static str> {
    support.left_out.iter().map(|event| event.name()).collect()
}

/// Returns a note about the events that get no hook, and why; `None` if all events get one.
fn left_out(support: &Support, scope: Scope, program: &HostProgram) -> Option<String> {
    if support.left_out.is_empty() {
        return None;
    }
    let names = left_out_names(support).join(" and ");
    let why = match (scope, program) {
        (Scope::Project, _) => {
            "other people who use this file may have a Claude Code that doesn't know these events".to_owned()
        }
        (_, HostProgram::Found { version, program }) => {
            format!(
                "Claude Code {version} ({}) doesn't know these events; run this again after updating it",
                program.display()
            )
        }
        (_, HostProgram::Missing) => {
            "`claude` isn't in the PATH, so its version is unknown; run this again once it is".to_owned()
        }
        (_, HostProgram::Silent(why)) => format!("{why}, so the version of Claude Code is unknown"),
    };
    Some(format!(
        "{names} get no hooks: {why}, and Claude Code ignores the whole file if it doesn't know an event in it"
    ))
}

/// Returns the text of a settings file; empty if the file doesn't exist.
///
/// # Errors
/// A message with the file's name and the reason why it can't be read.
pub(super) fn read(file: &Path) -> Result<String, String> {
    let failed = |why: &dyn std::fmt::Display| format!("{}: {why}", file.display());
    match fs::metadata(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(failed(&error)),
        Ok(metadata) if metadata.len() > install::SETTINGS_BYTES_MAX => {
            Err(failed(&"it is too long for settings"))
        }
        Ok(_) => fs::read_to_string(file).map_err(|error| failed(&error)),
    }
}

fn confirm(may_ask: bool) -> Result<bool, CommandFailure> {
    if !may_ask || !io::stdin().is_terminal() {
        let why = if may_ask { "there is no terminal for the question" } else { "this needs a confirmation" };
        return Err(CommandFailure::usage(format!("{why}; add --yes or --dry-run")));
    }
    let mut stderr = io::stderr().lock();
    stderr.write_all(b"Write this? [y/N] ")?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Writes settings atomically. Follows a link to its target, and keeps the file's permissions.
fn write(file: &Path, text: &str) -> Result<(), CommandFailure> {
    let file: PathBuf = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let folder = file.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut written = tempfile::NamedTempFile::new_in(folder)?;
    written.write_all(text.as_bytes())?;
    if let Ok(metadata) = fs::metadata(&file) {
        fs::set_permissions(written.path(), metadata.permissions())?;
    }
    written.persist(&file).map_err(|error| CommandFailure::from(error.error))?;
    Ok(())
}
