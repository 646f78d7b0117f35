//! Adds and removes entries in a host's settings. Edits the text, so that everything else stays byte for byte as it is.
//!
//! Invariants: other entries are never changed, and removing what was added restores the original text. The file
//! never names an event that the host doesn't know: Claude Code would ignore the whole file, `permissions` included.

mod diff;
mod json;
mod program;
mod review;
mod version;

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use self::json::{Container, InvalidJson};
use super::{Event, Host};
use recapd_config::Environment;

pub use diff::diff;
pub use program::{HostProgram, find};
pub use review::{Review, review};
pub use version::{HostVersion, OLDEST_TESTED, Support, UnsupportedVersion, support};

/// Longer settings files aren't edited.
pub const SETTINGS_BYTES_MAX: u64 = 4 << 20;
/// The key of the hooks in both hosts' settings.
const HOOKS: &str = "hooks";
/// The host's timeout for a hook. Hooks end long before; Codex allows no more at a session's end.
const TIMEOUT_SECONDS: u32 = 3;
/// The indentation for a settings file that has none.
const INDENT: &str = "  ";

/// The commands that settings call at events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commands {
    pub host: Host,
    /// The program, as the host's shell finds it.
    pub program: String,
    pub options: Vec<String>,
    /// The events that get a hook. Hooks for other events are removed.
    pub events: Vec<Event>,
    pub scope: Scope,
}

/// Who reads a settings file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The user alone, on this machine.
    User,
    /// Everybody who works on the project, if the file is checked in. They may have other versions of the host, or no
    /// recapd.
    Project,
}

#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    #[error("the settings can't be edited: {0}; correct them, or add the hooks yourself")]
    Invalid(#[from] InvalidJson),
    /// A shell would interpret some character of the word.
    #[error("`{0}` can't be part of a hook's command; use only letters, digits and -_.:/{{}}=@+")]
    Unsafe(String),
    /// recapd recognises its hooks by the program's name, so the name must be `recapd`.
    #[error(
        "the program must be named `recapd`, because its hooks are recognised by that name, and `{0}` isn't; link it under that name"
    )]
    Name(String),
}

#[derive(Serialize)]
struct HandlerGroup {
    #[serde(skip_serializing_if = "Option::is_none")]
    matcher: Option<&'static str>,
    hooks: [Handler; 1],
}

#[derive(Serialize)]
struct Handler {
    r#type: &'static str,
    command: String,
    timeout: u32,
}

/// Returns the settings file of `host`: for the project in `folder`, or for the user.
pub fn settings_file(host: Host, folder: Option<&Path>, environment: &Environment) -> Option<PathBuf> {
    let (folder_name, name, variable) = match host {
        Host::ClaudeCode => (".claude", "settings.json", "CLAUDE_CONFIG_DIR"),
        Host::Codex => (".codex", "hooks.json", "CODEX_HOME"),
    };
    let folder = match folder {
        Some(folder) => folder.join(folder_name),
        None => match environment.get(variable) {
            Some(value) => PathBuf::from(value),
            None => Path::new(environment.get("HOME")?).join(folder_name),
        },
    };
    Some(folder.join(name))
}

/// Returns the settings with the hooks. Entries of recapd that are already right stay unchanged.
pub fn with_hooks(settings: &str, commands: &Commands) -> Result<String, InstallError> {
    let mut text = if settings.trim().is_empty() { "{}\n".to_owned() } else { settings.to_owned() };
    for event in Event::ALL {
        let is_wanted = commands.events.contains(&event);
        let group = is_wanted.then(|| commands.group(event)).transpose()?;
        text = with_event(&text, event, group.as_ref())?;
    }
    Ok(text)
}

pub fn without_hooks(settings: &str) -> Result<String, InstallError> {
    let mut text = settings.to_owned();
    if text.trim().is_empty() {
        return Ok(text);
    }
    for event in Event::ALL {
        text = with_event(&text, event, None)?;
    }
    Ok(text)
}

impl Commands {
    fn group(&self, event: Event) -> Result<HandlerGroup, InstallError> {
        let name = Path::new(&self.program).file_name();
        if name.is_none_or(|name| name != "recapd") {
            return Err(InstallError::Name(self.program.clone()));
        }
        let is_safe = |c: char| c.is_ascii_alphanumeric() || "-_.:/{}=@+".contains(c);
        let words = std::iter::once(&self.program).chain(&self.options);
        if let Some(word) = words.into_iter().find(|word| word.is_empty() || !word.chars().all(is_safe)) {
            return Err(InstallError::Unsafe(word.clone()));
        }
        let call = [self.program.as_str(), "hook", event.name(), "--host", self.host.name()];
        let words = call.into_iter().map(str::to_owned);
        let words = words.chain(self.options.iter().map(String::as_str).map(quote));
        let command = self.guard(&words.collect::<Vec<String>>().join(" "));
        Ok(HandlerGroup {
            matcher: (event == Event::SessionStart).then(|| session_starts(self.host)),
            hooks: [Handler { r#type: "command", command, timeout: TIMEOUT_SECONDS }],
        })
    }
}

/// In shared settings, a check that begins with this precedes the call of recapd, so that a missing recapd isn't an error
/// of the hook. All shells that hosts use understand the check, even fish.
const GUARD: &str = "command -v ";

impl Commands {
    /// Returns the command that the settings contain for a call of recapd. In shared settings, the command does nothing if
    /// recapd isn't installed.
    fn guard(&self, call: &str) -> String {
        match self.scope {
            Scope::User => call.to_owned(),
            Scope::Project => format!("{GUARD}{} >/dev/null 2>&1 && {call} || true", self.program),
        }
    }
}

/// Removes from a command what [`Commands::guard`] adds.
fn call_in(command: &str) -> &str {
    let rest = command.strip_prefix(GUARD);
    let call = rest.and_then(|command| command.split_once(" && "));
    call.map_or(command, |(_, call)| call)
}

/// Returns the matcher for [`Event::SessionStart`]: the ways in which a session of `host` starts and then gets a brief.
fn session_starts(host: Host) -> &'static str {
    match host {
        Host::ClaudeCode => "startup|resume|clear|compact|fork",
        Host::Codex => "startup|resume|clear|compact",
    }
}

/// Quotes the word if it contains braces, which a shell would expand.
fn quote(word: &str) -> String {
    if word.contains(['{', '}']) { format!("'{word}'") } else { word.to_owned() }
}

/// Makes `group` the only entry of recapd for `event`.
fn with_event(text: &str, event: Event, group: Option<&HandlerGroup>) -> Result<String, InstallError> {
    let is_installed = group.map(|group| is_installed(text, event, group)).transpose()?.unwrap_or(false);
    if is_installed {
        return Ok(text.to_owned());
    }
    let text = without_recapd(text, event)?;
    match group {
        None => Ok(text),
        Some(group) => Ok(with_group(&text, event, group)?),
    }
}

/// True if recapd's entries for `event` are exactly this group.
fn is_installed(text: &str, event: Event, group: &HandlerGroup) -> Result<bool, InvalidJson> {
    let root: Value = serde_json::from_str(text).map_err(|error| InvalidJson::new(&error))?;
    let groups = root.get(HOOKS).and_then(|hooks| hooks.get(event.name())?.as_array());
    let recapd_groups: Vec<&Value> =
        groups.into_iter().flatten().filter(|group| has_recapd_handler(group)).collect();
    Ok(recapd_groups == [&serde_json::to_value(group).unwrap_or_default()])
}

fn has_recapd_handler(group: &Value) -> bool {
    let handlers = group.get(HOOKS).and_then(Value::as_array);
    handlers.into_iter().flatten().any(is_recapd_handler)
}

/// True if a handler is recapd's: it calls a program named `recapd` with the command `hook`.
fn is_recapd_handler(handler: &Value) -> bool {
    let command = handler.get("command").and_then(Value::as_str).unwrap_or_default();
    let mut words = call_in(command).split_whitespace();
    let program = words.next().unwrap_or_default().trim_matches(['"', '\'']);
    let is_recapd = Path::new(program).file_name().is_some_and(|name| name == "recapd");
    let second = words.next();
    let event = words.next().and_then(Event::from_name);
    is_recapd && second == Some("hook") && event.is_some()
}

/// Removes recapd's handlers from `event`, and every container that becomes empty: the group, the event, all of `hooks`.
fn without_recapd(text: &str, event: Event) -> Result<String, InvalidJson> {
    let mut text = text.to_owned();
    while let Some(shorter) = without_one(&text, event)? {
        text = shorter;
    }
    Ok(text)
}

/// Removes one handler of recapd; `None` if there is none.
fn without_one(text: &str, event: Event) -> Result<Option<String>, InvalidJson> {
    let root = Container::root(text)?;
    let Some(hooks) = root.member(HOOKS)? else {
        return Ok(None);
    };
    let Some(groups) = hooks.member(event.name())? else {
        return Ok(None);
    };
    for (index, group) in groups.elements()?.into_iter().enumerate() {
        let Some(handlers) = group.member(HOOKS)? else {
            continue;
        };
        let elements = handlers.elements()?;
        let Some(handler_index) = elements.iter().position(|handler| is_recapd_handler(&handler.value()))
        else {
            continue;
        };
        return Ok(Some(match (elements.len(), groups.elements()?.len(), hooks.keys()?.len()) {
            (2.., _, _) => handlers.without_element(handler_index)?,
            (_, 2.., _) => groups.without_element(index)?,
            (_, _, 2..) => hooks.without_member(event.name())?,
            _ => root.without_member(HOOKS)?,
        }));
    }
    Ok(None)
}

fn with_group(text: &str, event: Event, group: &HandlerGroup) -> Result<String, InvalidJson> {
    let indent = indent(text);
    let root = Container::root(text)?;
    let Some(hooks) = root.member(HOOKS)? else {
        let text = root.with_member(HOOKS, "{}", &indent, 1)?;
        return with_group(&text, event, group);
    };
    let Some(groups) = hooks.member(event.name())? else {
        let text = hooks.with_member(event.name(), "[]", &indent, 2)?;
        return with_group(&text, event, group);
    };
    groups.with_element(&json::pretty(group, &indent, 3), &indent, 3)
}

/// Returns the indentation of the first indented line.
fn indent(text: &str) -> String {
    let blank = |line: &str| -> String { line.chars().take_while(|c| *c == ' ' || *c == '\t').collect() };
    text.lines().map(blank).find(|blank| !blank.is_empty()).unwrap_or_else(|| INDENT.to_owned())
}

#[cfg(test)]
mod tests;
