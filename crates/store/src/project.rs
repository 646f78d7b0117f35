//! Projects in the store: which agents belong to one, and the material of their shared document.

use super::PendingBefore;
use recapd_core::domain::{
    agent::AgentId, exchange::Exchange, project::ProjectId, summary::item::Item, time::Timestamp,
};

/// The most agents whose items a project's document shows: those that were active last.
pub const PROJECT_AGENTS_MAX: i64 = 32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectFigures {
    pub project: ProjectId,
    /// How many agents belong to it.
    pub agents: i64,
    /// When any of them was last active.
    pub updated_at: Timestamp,
}

/// A project's members, as far as its document shows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectRow {
    pub agents: i64,
    /// The last active ones, at most [`PROJECT_AGENTS_MAX`], by id.
    pub members: Vec<ProjectMember>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectMember {
    pub agent: AgentId,
    /// The version of its own document; 0 before the first.
    pub version: i64,
    /// The last exchange that its items cover.
    pub covers_through: i64,
    pub updated_at: Timestamp,
    /// The time that its items are aged by; `None` for the clock.
    pub as_of: Option<Timestamp>,
    pub items: Vec<Item>,
    /// Its newest pending exchanges, oldest first, at most [`super::PENDING_SHOWN_MAX`].
    pub pending: Vec<Exchange>,
    /// The pending exchanges before these.
    pub pending_before: PendingBefore,
}

/// A stamp of a project's state: while it stays the same, so does the document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProjectStamp {
    pub agents: i64,
    /// The sum of their documents' versions.
    pub versions: i64,
    /// The sum of their boundaries.
    pub boundaries: i64,
    /// When any of them was last active.
    pub updated_at: Timestamp,
}
