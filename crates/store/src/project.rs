//! What the store keeps of projects: which agents belong to one, and what their common document is made of.

use super::PendingBefore;
use recapd_core::domain::{
    agent::AgentId, exchange::Exchange, project::ProjectId, summary::item::Item, time::Timestamp,
};

/// The most agents that a project's document is made of: those that were active last.
pub const PROJECT_AGENTS_MAX: i64 = 32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectFigures {
    /// Its name.
    pub project: ProjectId,
    /// How many agents belong to it.
    pub agents: i64,
    /// When one of them was active last.
    pub updated_at: Timestamp,
}

/// The members of a project, as far as its document is made of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectRow {
    /// How many agents belong to it.
    pub agents: i64,
    /// The last active ones, at most [`PROJECT_AGENTS_MAX`], by id.
    pub members: Vec<ProjectMember>,
}

/// An agent of a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectMember {
    /// The agent's name.
    pub agent: AgentId,
    /// The version of its own document; 0 before the first.
    pub version: i64,
    /// The last exchange that its items cover.
    pub covers_through: i64,
    /// When it was active last.
    pub updated_at: Timestamp,
    /// The time its items are aged by, where that isn't the clock.
    pub as_of: Option<Timestamp>,
    /// The items in its document.
    pub items: Vec<Item>,
    /// Its newest pending exchanges, oldest first, at most [`super::PENDING_SHOWN_MAX`].
    pub pending: Vec<Exchange>,
    /// Pending exchanges that are not among them.
    pub pending_before: PendingBefore,
}

/// A project's state in short: if it hasn't changed, the document hasn't either.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProjectStamp {
    /// How many agents belong to it.
    pub agents: i64,
    /// The sum of their documents' versions.
    pub versions: i64,
    /// The sum of their windows' first exchanges.
    pub boundaries: i64,
    /// When one of them was active last.
    pub updated_at: Timestamp,
}
