use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use serde::Serialize;
use serde_json::json;

use crate::{
    cli::{GlobalOptions, exit::CommandFailure, terminal::output},
    hook::{
        self, AgentStatus, Host,
        install::{self, Review, Scope},
    },
};
use recapd_config::Environment;
use recapd_core::domain::{
    number::{count, i64_or_max},
    time::Timestamp,
};

/// This many of the last active agents are always shown. There may be many agents, because each session has its own.
const ALWAYS_SHOWN: usize = 10;

/// Prints what the hooks have spooled and sent, and whether the settings that call them fit the hosts.
pub(super) fn status(options: &GlobalOptions, environment: &Environment) -> Result<ExitCode, CommandFailure> {
    let statuses = hook::statuses(environment);
    let settings = settings(environment);
    if options.json {
        output::json(&json!({ "agents": statuses, "settings": settings }))?;
        return Ok(ExitCode::SUCCESS);
    }
    if statuses.is_empty() {
        output::text(
            "no hook has run for this user yet; install hooks with `recapd hook install claude-code` or codex",
        )?;
    }
    let (active, quiet) = active(statuses);
    for status in active {
        let time = |at: Option<Timestamp>| at.map_or_else(|| "never".to_owned(), |at| at.to_string());
        let mut text = format!(
            "{}  pushed {}, injected {}, {} waiting ({} bytes)",
            status.agent_id,
            time(status.last_push_at),
            time(status.last_injection_at),
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
    if quiet > 0 {
        output::text(&format!("({} more with nothing to send)", count(quiet, "agent")))?;
    }
    for file in &settings {
        output::text(&file.text())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the agents that were active last, and all agents with something to send or an error. Also returns the number of
/// the other agents.
fn active(mut statuses: Vec<AgentStatus>) -> (Vec<AgentStatus>, i64) {
    statuses.sort_by_key(|status| std::cmp::Reverse(status.last_push_at));
    let mut index = 0;
    let total = statuses.len();
    statuses.retain(|status| {
        index += 1;
        index <= ALWAYS_SHOWN
            || status.spool_segments > 0
            || status.refused > 0
            || status.last_error.is_some()
    });
    let quiet = i64_or_max(total - statuses.len());
    (statuses, quiet)
}

/// A settings file with recapd's hooks.
#[derive(Serialize)]
struct SettingsStatus {
    host: &'static str,
    file: String,
    events: Vec<&'static str>,
    /// What is wrong with the file, and how to correct it.
    problem: Option<String>,
    /// What could be better, and how.
    hint: Option<String>,
}

impl SettingsStatus {
    fn text(&self) -> String {
        let mut text = format!("{}  hooks of {} at {}", self.file, self.host, self.events.join(", "));
        if let Some(problem) = &self.problem {
            text.extend(["\n  problem: ", problem]);
        }
        if let Some(hint) = &self.hint {
            text.extend(["\n  hint: ", hint]);
        }
        text
    }
}

/// Returns the settings files with hooks: the user's, and those of the project in the working directory.
fn settings(environment: &Environment) -> Vec<SettingsStatus> {
    let mut files: Vec<PathBuf> = Vec::new();
    let mut found = Vec::new();
    for host in [Host::ClaudeCode, Host::Codex] {
        for scope in [Scope::User, Scope::Project] {
            let folder = (scope == Scope::Project).then(|| Path::new("."));
            let Some(file) = install::settings_file(host, folder, environment) else {
                continue;
            };
            // If the working directory is the home folder, both scopes have the same file.
            let real = file.canonicalize().unwrap_or_else(|_| file.clone());
            if !files.contains(&real) {
                found.extend(review_file(&file, host, scope, environment));
                files.push(real);
            }
        }
    }
    found
}

fn review_file(file: &Path, host: Host, scope: Scope, environment: &Environment) -> Option<SettingsStatus> {
    let result = super::install::read(file).and_then(|text| {
        let review = install::review(&text, host, scope, || install::find(host, environment));
        review.map_err(|error| error.to_string())
    });
    let review = match result {
        Ok(review) => review?,
        Err(error) => Review { events: Vec::new(), problem: Some(error), hint: None },
    };
    Some(SettingsStatus {
        host: host.name(),
        file: file.display().to_string(),
        events: review.events.into_iter().map(hook::Event::name).collect(),
        problem: review.problem,
        hint: review.hint,
    })
}
