//! The state that hooks left behind, for people to look at.

use serde::Serialize;

use super::{
    brief::SessionState,
    folder::{StateFolder, files, read_json},
    push::{GatherState, SendState},
    spool::Spool,
};
use recapd_config::Environment;
use recapd_core::domain::{agent::AgentId, time::Timestamp};

/// The state of one agent's hooks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AgentStatus {
    /// The agent.
    pub agent_id: AgentId,
    /// When the daemon last took messages.
    pub last_push_at: Option<Timestamp>,
    /// When the brief was last injected into a session.
    pub last_injection_at: Option<Timestamp>,
    /// How many segments wait for the daemon.
    pub spool_segments: usize,
    /// How many bytes wait for the daemon.
    pub spool_bytes: u64,
    /// How many messages the daemon has refused for ever.
    pub refused: u64,
    /// Why messages weren't taken the last time that this happened.
    pub last_error: Option<String>,
}

/// The states of all agents for which this user's hooks worked on this machine.
pub fn statuses(environment: &Environment) -> Vec<AgentStatus> {
    let agents = StateFolder::of(environment).map(|folder| folder.agents());
    let status = |folder: super::folder::AgentFolder| {
        let gathered: GatherState = read_json(&folder.gathered())?;
        let sent: SendState = read_json(&folder.sent()).unwrap_or_default();
        let (spool_segments, spool_bytes) = Spool::new(folder.spool()).figures();
        let sessions = files(&folder.sessions());
        let injections = sessions
            .iter()
            .filter_map(|file| read_json::<SessionState>(file)?.at);
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
    agents
        .unwrap_or_default()
        .into_iter()
        .filter_map(status)
        .collect()
}
