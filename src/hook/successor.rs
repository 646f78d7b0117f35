//! Finds the session that follows a cleared one. `recapd mcp` outlives the session for which Claude Code started it.
//!
//! At `SessionEnd`, a hook stores which session the host's process has cleared. At the next `SessionStart` in the same
//! process, a hook stores the new session as the successor of the cleared one.

use std::fs;

use recapd_config::Environment;

use super::{
    Event, Input, StateFolder,
    agent::PROJECT_VARIABLE,
    files::{read_text, replace},
};

/// Claude Code's variable for its process. Not all versions set it.
const PROCESS_VARIABLE: &str = "CLAUDE_PID";
/// Claude Code's variable for its session.
const SESSION_VARIABLE: &str = "CLAUDE_CODE_SESSION_ID";
const CLEAR: &str = "clear";
/// Follows at most this many sessions of one process.
const FOLLOWED_MAX: usize = 1_000;

/// Records that a session was cleared, or which session follows it. Without this record, the tools of `recapd mcp` would
/// go on with the cleared session.
pub(super) fn note(folder: &StateFolder, event: Event, input: &Input, environment: &Environment) {
    // If the host doesn't name its process, the project's folder stands for it: two sessions of one folder are hardly
    // cleared at the same moment.
    let process = environment.get(PROCESS_VARIABLE).or_else(|| environment.get(PROJECT_VARIABLE));
    let Some(process) = process else {
        return;
    };
    let cleared = folder.cleared_in(process);
    match event {
        Event::SessionEnd if input.reason.as_deref() == Some(CLEAR) => {
            replace(&cleared, input.session.as_bytes()).ok();
        }
        Event::SessionStart if input.source.as_deref() == Some(CLEAR) => {
            if let Some(before) = read_text(&cleared) {
                replace(&folder.successor(&before), input.session.as_bytes()).ok();
                fs::remove_file(cleared).ok();
            }
        }
        _ => {}
    }
}

/// Returns the current session of the host that started this process; `None` if the host names no session.
pub fn current_session(environment: &Environment) -> Option<String> {
    let first = environment.get(SESSION_VARIABLE)?.to_owned();
    let Some(folder) = StateFolder::of(environment) else {
        return Some(first);
    };
    let next = |session: &String| read_text(&folder.successor(session));
    std::iter::successors(Some(first), next).take(FOLLOWED_MAX).last()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        pairs.collect()
    }

    fn input(session: &str, why: &str) -> Input {
        Input::read(&format!(r#"{{"session_id":"{session}","source":"{why}","reason":"{why}"}}"#)).unwrap()
    }

    #[test]
    fn the_current_session_follows_the_cleared_ones_of_its_process() {
        let home = tempfile::tempdir().unwrap();
        let of = |process: &str| {
            let home = home.path().to_str().unwrap();
            let pairs = [("HOME", home), (PROCESS_VARIABLE, process), (SESSION_VARIABLE, "one")];
            environment(&pairs)
        };
        let folder = StateFolder::of(&of("7")).unwrap();
        let run = |process: &str, event, session: &str, why: &str| {
            note(&folder, event, &input(session, why), &of(process));
        };
        let current = || current_session(&of("7")).unwrap();
        assert_eq!(current(), "one");
        run("7", Event::SessionEnd, "one", "clear");
        // Another process starts a session meanwhile, and this one resumes one.
        run("8", Event::SessionStart, "other", "clear");
        run("7", Event::SessionStart, "resumed", "resume");
        assert_eq!(current(), "one");
        run("7", Event::SessionStart, "two", "clear");
        assert_eq!(current(), "two");
        run("7", Event::SessionEnd, "two", "clear");
        run("7", Event::SessionStart, "three", "clear");
        run("7", Event::SessionEnd, "three", "other");
        run("7", Event::SessionStart, "four", "clear");
        assert_eq!(current(), "three");
        assert_eq!(current_session(&environment(&[("HOME", "/x")])), None);
    }
}
