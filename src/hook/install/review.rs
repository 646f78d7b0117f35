//! Checks whether settings still fit the host that reads them.

use serde_json::Value;

use super::{
    HOOKS, HostProgram, InstallError, Scope, has_recapd_handler, json::InvalidJson, support, version,
};
use crate::hook::{Event, Host};

/// The result of reviewing settings with recapd's hooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Review {
    /// The events for which the settings have a hook of recapd.
    pub events: Vec<Event>,
    /// What is wrong, and how to fix it.
    pub problem: Option<String>,
    /// What could be better, and how.
    pub hint: Option<String>,
}

/// Reviews the settings of `host`; `None` if they have no hook of recapd. `program` is only called if they have one,
/// because it starts the host.
///
/// # Errors
/// If the text can't be parsed.
pub fn review(
    settings: &str,
    host: Host,
    scope: Scope,
    program: impl FnOnce() -> HostProgram,
) -> Result<Option<Review>, InstallError> {
    let events = recapd_events(settings)?;
    if events.is_empty() {
        return Ok(None);
    }
    let program = program();
    let install_command = match scope {
        Scope::User => format!("recapd hook install {} --user", host.name()),
        Scope::Project => format!("recapd hook install {} --project", host.name()),
    };
    let (problem, hint) = match support(host, scope, &program) {
        Err(unsupported) => (Some(unsupported.to_string()), None),
        Ok(support) => {
            let unknown = names_in_both(&events, &support.left_out);
            let problem = (!unknown.is_empty()).then(|| warning(&unknown, scope, &program, &install_command));
            (problem, missing(&events, &support.events, &install_command))
        }
    };
    Ok(Some(Review { events, problem, hint }))
}

/// Returns the events for which the settings have an entry of recapd.
fn recapd_events(settings: &str) -> Result<Vec<Event>, InvalidJson> {
    if settings.trim().is_empty() {
        return Ok(Vec::new());
    }
    let root: Value = serde_json::from_str(settings).map_err(|error| InvalidJson::new(&error))?;
    let has_entry = |event: &Event| {
        let groups = root.get(HOOKS).and_then(|hooks| hooks.get(event.name())?.as_array());
        groups.into_iter().flatten().any(has_recapd_handler)
    };
    Ok(Event::ALL.into_iter().filter(has_entry).collect())
}

fn names_in_both(events: &[Event], other_events: &[Event]) -> Vec<&'static str> {
    let shared_events = events.iter().filter(|event| other_events.contains(event));
    shared_events.map(|event| event.name()).collect()
}

fn warning(unknown: &[&str], scope: Scope, program: &HostProgram, install_command: &str) -> String {
    let unknown = unknown.join(" and ");
    let effect = "ignores the whole file, `permissions` included";
    if let (Scope::User, HostProgram::Found { version, .. }) = (scope, program) {
        return format!(
            "Claude Code {version} doesn't know {unknown} and {effect}: run `{install_command}` now, or update Claude Code"
        );
    }
    let complete = version::first_complete(Host::ClaudeCode).unwrap_or(super::OLDEST_TESTED);
    format!("Claude Code before {complete} may not know {unknown} and then {effect}: run `{install_command}`")
}

/// Returns a hint that lists the events that the host knows and that have no hook yet.
fn missing(events: &[Event], known_events: &[Event], install_command: &str) -> Option<String> {
    let missing = known_events.iter().filter(|event| !events.contains(event));
    let names: Vec<&str> = missing.map(|event| event.name()).collect();
    (!names.is_empty())
        .then(|| format!("the host also knows {}: run `{install_command}`", names.join(" and ")))
}

#[cfg(test)]
mod tests {
    use super::{super::*, *};

    fn settings_for(host: Host, scope: Scope, version: &str) -> String {
        let support = support(host, scope, &HostProgram::claude(version)).unwrap();
        let commands = Commands {
            host,
            program: "recapd".to_owned(),
            options: Vec::new(),
            events: support.events,
            scope,
        };
        with_hooks("", &commands).unwrap()
    }

    fn reviewed(settings: &str, scope: Scope, program: HostProgram) -> Review {
        review(settings, Host::ClaudeCode, scope, || program).unwrap().unwrap()
    }

    #[test]
    fn a_review_reports_that_the_hosts_version_has_changed() {
        let new = settings_for(Host::ClaudeCode, Scope::User, "2.1.332");
        let old = settings_for(Host::ClaudeCode, Scope::User, "2.1.50");
        let fits = reviewed(&new, Scope::User, HostProgram::claude("2.1.78"));
        assert_eq!((fits.problem, fits.hint), (None, None));
        let down = reviewed(&new, Scope::User, HostProgram::claude("2.1.50")).problem.unwrap();
        assert!(down.contains("2.1.50 doesn't know StopFailure and PostCompact"), "{down}");
        assert!(down.contains("recapd hook install claude-code --user"), "{down}");
        let up = reviewed(&old, Scope::User, HostProgram::claude("2.1.90"));
        assert_eq!(up.problem, None);
        assert!(up.hint.unwrap().contains("also knows StopFailure and PostCompact"));
        let unknown = reviewed(&new, Scope::User, HostProgram::Missing).problem.unwrap();
        assert!(unknown.contains("before 2.1.78 may not know"), "{unknown}");
        let untested = reviewed(&old, Scope::User, HostProgram::claude("1.0.80")).problem.unwrap();
        assert!(untested.contains("1.0.80") && untested.contains("claude update"), "{untested}");
        let shared = reviewed(&new, Scope::Project, HostProgram::claude("2.1.332")).problem.unwrap();
        assert!(shared.contains("--project"), "{shared}");
    }

    #[test]
    fn settings_without_hooks_are_reviewed_without_starting_the_host() {
        for settings in ["", "{}", r#"{"hooks":{"StopFailure":[{"hooks":[{"command":"say"}]}]}}"#] {
            let review = review(settings, Host::ClaudeCode, Scope::User, || panic!("asked"));
            assert_eq!(review.unwrap(), None, "{settings}");
        }
        let broken = review("{", Host::ClaudeCode, Scope::User, || panic!("asked"));
        assert!(broken.is_err());
    }

    #[test]
    fn hooks_for_codex_fit_any_version() {
        let settings = settings_for(Host::Codex, Scope::Project, "2.1.332");
        let found = review(&settings, Host::Codex, Scope::Project, || HostProgram::Missing);
        let found = found.unwrap().unwrap();
        assert_eq!((found.problem, found.hint, found.events.len()), (None, None, 7));
    }
}
