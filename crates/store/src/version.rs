//! Versions of a summary and what operators do to them: requests and rows, without a word of SQL.

use serde::Serialize;

use recapd_core::domain::{
    agent::AgentId,
    summary::{compaction::SummaryPolicy, edit::ItemEdit, item::Item, version::VersionKind},
    time::Timestamp,
};

use super::EnqueueOutcome;

/// Which versions to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionQuery {
    /// Only versions before this one, if given.
    pub before: Option<i64>,
    /// The most versions, of which the newest are read.
    pub limit: i64,
}

/// A version of a document, but for its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct VersionFigures {
    /// Its number.
    pub version: i64,
    /// What wrote it.
    pub kind: VersionKind,
    /// How its document came to its size: `append`, `merge` or `full`.
    pub path: String,
    /// The last exchange that the summary covered before.
    pub covers_after: i64,
    /// The last exchange that it covers.
    pub covers_through: i64,
    /// How many exchanges it newly covers.
    pub exchanges: i64,
    /// Tokens of its document.
    pub tokens: i64,
    /// The time its items were aged by.
    pub as_of: Timestamp,
    /// When it was written.
    pub created_at: Timestamp,
    /// Since when its text is gone: it held what was forgotten.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purged_at: Option<Timestamp>,
}

/// A version of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    pub figures: VersionFigures,
    /// Its document as Markdown; empty if there is nothing in it.
    pub content: String,
}

/// A request to go back to an earlier version.
#[derive(Clone, Debug)]
pub struct RollbackRequest {
    /// The agent whose document it is.
    pub agent: AgentId,
    /// The version whose items are to be restored.
    pub version: i64,
    /// The limits and rules of the new document.
    pub policy: SummaryPolicy,
    /// The current time.
    pub now: Timestamp,
}

/// A request to throw the items away and have them made anew.
#[derive(Clone, Debug)]
pub struct RebuildRequest {
    /// The agent whose items are made anew.
    pub agent: AgentId,
    /// The limits and rules of the new documents.
    pub policy: SummaryPolicy,
    /// The current time.
    pub now: Timestamp,
}

/// What a rollback or a rebuild did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RevisionOutcome {
    /// The new version.
    pub version: i64,
    /// The last exchange it covers.
    pub covers_through: i64,
    /// How many exchanges that were covered are pending again.
    pub uncovered: i64,
    /// Items that are back.
    pub restored: i64,
    /// Items that are gone.
    pub removed: i64,
    /// Of these, those that an operator had edited or pinned.
    pub edited: i64,
    /// What it did to the queue, if anything is to be summarised.
    pub enqueued: Option<EnqueueOutcome>,
}

/// An item that covers exchanges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemRow {
    pub item: Item,
    /// The version that brought it.
    pub added_version: i64,
    /// Whether it is in the document; if not, it was too old or had no room.
    pub shown: bool,
}

/// Which items to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemQuery {
    /// Only those with larger numbers.
    pub after: i64,
    /// The most items, in the order of their numbers.
    pub limit: i64,
    /// Whether to read those, too, that aren't in the document.
    pub all: bool,
}

/// A change of one item by hand.
#[derive(Clone, Debug)]
pub struct EditRequest {
    /// The agent whose item it is.
    pub agent: AgentId,
    /// Its number.
    pub item: i64,
    /// The change.
    pub edit: ItemEdit,
    /// The limits and rules of the new document.
    pub policy: SummaryPolicy,
    /// The current time.
    pub now: Timestamp,
}

/// What an edit did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditOutcome {
    /// The new version.
    pub version: i64,
    /// The item as it is now; a new text gave it a new number.
    pub row: ItemRow,
}

/// The most items of one agent that may be pinned.
pub const ITEM_PINS_MAX: i64 = 100;
