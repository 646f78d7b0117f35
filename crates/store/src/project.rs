//! Data of projects: which agents belong to one, and the parts of their shared document.

use super::PendingBefore;
use recapd_core::domain::{
    agent::AgentId, exchange::Exchange, project::ProjectId, summary::item::Item, time::Timestamp,
};

/// Limits how many agents a project's document shows. The most recently active ones are shown.
pub const PROJECT_AGENTS_MAX: i64 = 32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectFigures {
    pub project: ProjectId,
    /// How many agents belong to the project.
    pub agents: i64,
    /// When any of them was last active.
    pub updated_at: Timestamp,
}

/// A project's agents, with the data of those that its document shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectRow {
    pub agents: i64,
    /// The most recently active agents by id, at most [`PROJECT_AGENTS_MAX`].
    pub members: Vec<ProjectMember>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectMember {
    pub agent: AgentId,
    /// The version of the agent's own document; 0 if it has none yet.
    pub version: i64,
    /// The last exchange that its items cover.
    pub covers_through: i64,
    pub updated_at: Timestamp,
    /// The time for which its items are aged; `None` for the clock's time.
    pub as_of: Option<Timestamp>,
    pub items: Vec<Item>,
    /// Its newest pending exchanges, oldest first, at most [`super::PENDING_SHOWN_MAX`].
    pub pending: Vec<Exchange>,
    /// The pending exchanges before these.
    pub pending_before: PendingBefore,
}

/// Identifies a project's state: while it is the same, the document is the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProjectStamp {
    pub agents: i64,
    /// The sum of the versions of the agents' documents.
    pub versions: i64,
    /// The sum of the agents' boundaries.
    pub boundaries: i64,
    /// When any of them was last active.
    pub updated_at: Timestamp,
}
