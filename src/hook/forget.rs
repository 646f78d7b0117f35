//! Removes what the user's hooks still store of a forgotten agent.

use std::{fs, io, path::Path};

use tokio::time::Instant;

use super::{
    files::read_json,
    folder::{SEND_LOCK, StateFolder},
    push::GatherState,
    spool::Spool,
};
use recapd_config::Environment;
use recapd_core::domain::agent::AgentId;

/// The part of an agent that was forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForgetScope {
    /// Some of its messages. The spool has none of them: only messages in the database can be forgotten.
    Messages,
    /// The whole agent. Spooled messages would create it again.
    Agent,
}

/// Removes the cached briefs of `agent` and its project. If the whole agent was forgotten, also removes its spooled
/// messages. Waits until `deadline` for a hook that is sending. Does nothing if the hooks store nothing of the agent,
/// or the environment names no home.
///
/// # Errors
/// If a file can't be removed, or a hook is still sending at `deadline`.
pub fn forget(
    environment: &Environment,
    agent: &AgentId,
    scope: ForgetScope,
    deadline: Instant,
) -> io::Result<()> {
    let Some(state) = StateFolder::of(environment) else {
        return Ok(());
    };
    remove(&state.cache(agent))?;
    let folder = state.agent(agent);
    let gathered: Option<GatherState> = read_json(&folder.gathered_file());
    if let Some(project) = gathered.and_then(|gathered| gathered.project) {
        remove(&state.project_cache(&project.id))?;
    }
    if scope == ForgetScope::Messages || !folder.spool().exists() {
        return Ok(());
    }
    let Some(_lock) = folder.lock(SEND_LOCK, deadline)? else {
        let busy = "a hook is still sending spooled messages";
        return Err(io::Error::new(io::ErrorKind::WouldBlock, busy));
    };
    Spool::new(folder.spool()).clear()
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
