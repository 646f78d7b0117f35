//! The state of hooks, which `recapd hook status` prints.

use serde::Serialize;

use super::{
    brief::SessionState,
    files::{files, read_json},
    folder::{AgentFolder, StateFolder},
    push::{GatherState, SendState},
    spool::Spool,
};
use recapd_config::Environment;
use recapd_core::domain::{agent::AgentId, time::Timestamp};

/// What hooks have done for an agent, and what they haven't sent yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AgentStatus {
    pub agent_id: AgentId,
    pub last_push_at: Option<Timestamp>,
    pub last_injection_at: Option<Timestamp>,
    pub spool_segments: usize,
    pub spool_bytes: u64,
    /// Messages that the daemon has refused for good.
    pub refused: u64,
    pub last_error: Option<String>,
}

/// Returns the states of all agents whose sessions this user's hooks have served on this machine.
pub fn statuses(environment: &Environment) -> Vec<AgentStatus> {
    let agents = StateFolder::of(environment).map(|folder| folder.agents());
    let status = |folder: AgentFolder| {
        let gathered: GatherState = read_json(&folder.gathered_file())?;
        let sent: SendState = read_json(&folder.sent()).unwrap_or_default();
        let (spool_segments, spool_bytes) = Spool::new(folder.spool()).counts();
        let sessions = files(&folder.sessions());
        let injections = sessions.iter().filter_map(|file| read_json::<SessionState>(file)?.at);
        Some(AgentStatus {
            agent_id: gathered.agent,
            last_push_at: sent.last_push_at,
            last_injection_at: injections.max(),
            spool_segments,
            spool_bytes,
            refused: sent.refused,
            last_error: sent.last_error,
        })
    };
    agents.unwrap_or_default().into_iter().filter_map(status).collect()
}
