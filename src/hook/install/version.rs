//! Which versions of a host know which event.
//!
//! Claude Code: the npm package `@anthropic-ai/claude-code` lists the events that a version knows (read in 1.0.41 to
//! 2.1.332). What a version does with an event that it doesn't know was tested with 2.0.76, 2.1.50, 2.1.75 to 2.1.78,
//! 2.1.80, 2.1.110 and 2.1.332: `claude -p --debug` says whether the rules of `permissions.deny` apply. Versions up to
//! 2.1.80 silently ignore a whole settings file that names an unknown event; 2.1.110 and later ignore only the event.
//! No version between these two was tested.
//!
//! Codex: every version ignores only the unknown event, and keeps hooks in a file of their own, so the version doesn't
//! matter. Tested with `hooks/list` of `codex app-server` 0.130, 0.150 and 0.171; none of them knows `StopFailure`.

use std::{fmt, str::FromStr};

use super::{HostProgram, Scope};
use crate::hook::{Event, Host};

/// A version of a host: three numbers, without any suffix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostVersion([u32; 3]);

/// The oldest version of Claude Code with which the hooks were tested. An older one gets no hooks.
pub const OLDEST_TESTED: HostVersion = HostVersion([1, 0, 128]);

/// Each event with the first version of Claude Code that knows it. Events that are older than [`OLDEST_TESTED`] have that
/// version here: the newest of them, `SessionEnd`, came with 1.0.85.
const CLAUDE_CODE: [(Event, HostVersion); 8] = [
    (Event::SessionStart, OLDEST_TESTED),
    (Event::UserPromptSubmit, OLDEST_TESTED),
    (Event::Stop, OLDEST_TESTED),
    (Event::SubagentStop, OLDEST_TESTED),
    (Event::PreCompact, OLDEST_TESTED),
    (Event::SessionEnd, OLDEST_TESTED),
    (Event::PostCompact, HostVersion([2, 1, 76])),
    (Event::StopFailure, HostVersion([2, 1, 78])),
];

/// Returns the first version of `host` that knows `event`; `None` if no version does.
fn since(host: Host, event: Event) -> Option<HostVersion> {
    match host {
        Host::ClaudeCode => {
            CLAUDE_CODE.into_iter().find(|(listed_event, _)| *listed_event == event).map(|(_, since)| since)
        }
        Host::Codex => (event != Event::StopFailure).then_some(HostVersion([0, 0, 0])),
    }
}

/// The events that may be written for a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Support {
    /// Events that every possible reader of the file knows.
    pub events: Vec<Event>,
    /// Events that a newer version of the host knows, but perhaps not every reader of the file.
    pub left_out: Vec<Event>,
}

/// The host is older than every tested version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this is Claude Code {0}, and versions before {OLDEST_TESTED} weren't tested: a version that doesn't know one of the \
     hooks' events ignores the whole settings file, `permissions` included. Update it (`claude update`), then run this \
     command again"
)]
pub struct UnsupportedVersion(pub HostVersion);

/// Returns the events that may be written to a settings file of `host`. `scope` says who reads the file, and `program` is
/// the user's own installation of the host.
///
/// # Errors
/// If the host is older than every tested version.
pub fn support(host: Host, scope: Scope, program: &HostProgram) -> Result<Support, UnsupportedVersion> {
    let oldest_reader = match (host, program) {
        (Host::ClaudeCode, HostProgram::Found { version, .. }) if *version < OLDEST_TESTED => {
            return Err(UnsupportedVersion(*version));
        }
        (_, HostProgram::Found { version, .. }) if scope == Scope::User => *version,
        // Other people who read the file, or a program whose version is unknown, may have any tested version.
        _ => OLDEST_TESTED,
    };
    let events = Event::ALL.into_iter();
    let events = events.filter_map(|event| Some((event, since(host, event)?)));
    let (sure, unsure): (Vec<_>, Vec<_>) = events.partition(|(_, since)| *since <= oldest_reader);
    let names = |events: Vec<(Event, HostVersion)>| events.into_iter().map(|(event, _)| event).collect();
    Ok(Support { events: names(sure), left_out: names(unsure) })
}

/// Returns the first version of `host` that knows all of its events.
pub(super) fn first_complete(host: Host) -> Option<HostVersion> {
    let events = Event::ALL.into_iter();
    events.filter_map(|event| since(host, event)).max()
}

impl fmt::Display for HostVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.0;
        write!(f, "{major}.{minor}.{patch}")
    }
}

impl FromStr for HostVersion {
    type Err = ();

    /// Parses `2.1.50`, followed by anything but a digit.
    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.splitn(3, '.');
        let mut number = || {
            let part = parts.next().ok_or(())?;
            let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            part.get(..end).unwrap_or_default().parse().map_err(|_| ())
        };
        Ok(Self([number()?, number()?, number()?]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of events that may be written, and the names of those left out.
    fn names(host: Host, scope: Scope, program: &HostProgram) -> (usize, Vec<&'static str>) {
        let support = support(host, scope, program).unwrap();
        let left_out = support.left_out.into_iter().map(Event::name).collect();
        (support.events.len(), left_out)
    }

    #[test]
    fn a_version_gets_the_events_that_it_knows() {
        for (version, left_out) in [
            ("1.0.128", &["StopFailure", "PostCompact"][..]),
            ("2.0.76", &["StopFailure", "PostCompact"]),
            ("2.1.50", &["StopFailure", "PostCompact"]),
            ("2.1.75", &["StopFailure", "PostCompact"]),
            ("2.1.76", &["StopFailure"]),
            ("2.1.77", &["StopFailure"]),
            ("2.1.78", &[]),
            ("2.1.332", &[]),
            ("3.0.0", &[]),
        ] {
            let (count, names) = names(Host::ClaudeCode, Scope::User, &HostProgram::claude(version));
            assert_eq!(names, left_out, "{version}");
            assert_eq!(count + left_out.len(), Event::ALL.len(), "{version}");
        }
    }

    #[test]
    fn an_unknown_version_gets_only_the_events_that_all_tested_versions_know() {
        let unsure = ["StopFailure", "PostCompact"];
        for (scope, program) in [
            (Scope::Project, HostProgram::claude("2.1.332")),
            (Scope::User, HostProgram::Missing),
            (Scope::User, HostProgram::Silent("no answer".to_owned())),
        ] {
            assert_eq!(names(Host::ClaudeCode, scope, &program).1, unsure, "{program:?}");
        }
        for scope in [Scope::User, Scope::Project] {
            let (count, left_out) = names(Host::Codex, scope, &HostProgram::Missing);
            assert_eq!((count, left_out.len()), (Event::ALL.len() - 1, 0));
        }
    }

    #[test]
    fn an_untested_version_is_refused_with_a_hint() {
        for scope in [Scope::User, Scope::Project] {
            let error = support(Host::ClaudeCode, scope, &HostProgram::claude("1.0.127")).unwrap_err();
            let text = error.to_string();
            assert!(text.contains("1.0.127") && text.contains("claude update"), "{text}");
        }
    }

    #[test]
    fn versions_are_compared_by_their_numbers() {
        let version = |text: &str| text.parse::<HostVersion>();
        for (text, shown) in [("2.1.50", "2.1.50"), ("2.1.50-beta.1", "2.1.50"), ("10.0.1 (x)", "10.0.1")] {
            assert_eq!(version(text).unwrap().to_string(), shown);
        }
        for text in ["", "2", "2.1", "2.1.", "a.b.c", "99999999999.1.1"] {
            assert_eq!(version(text), Err(()), "{text}");
        }
        assert!(version("2.1.9").unwrap() < version("2.1.10").unwrap());
    }
}
