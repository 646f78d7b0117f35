//! Requests and rows for versions of a summary, and for operators' changes to it. Contains no SQL.

use serde::Serialize;

use recapd_core::domain::{
    agent::AgentId,
    summary::{compaction::SummaryPolicy, edit::ItemEdit, item::Item, version::VersionKind},
    time::Timestamp,
};

use super::EnqueueOutcome;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionQuery {
    /// Reads only versions before this one.
    pub before: Option<i64>,
    /// Limits the number of versions; the newest are read.
    pub limit: i64,
}

/// A version of a document, without its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct VersionFigures {
    pub version: i64,
    /// What wrote it.
    pub kind: VersionKind,
    /// How its document was composed: `append`, `merge` or `full`.
    pub path: String,
    /// The last exchange that the summary covered before.
    pub covers_after: i64,
    /// The last exchange that it covers.
    pub covers_through: i64,
    /// How many exchanges it newly covers.
    pub exchanges: i64,
    /// Tokens of its document.
    pub tokens: i64,
    /// The time that its items were aged by.
    pub as_of: Timestamp,
    /// When it was written.
    pub created_at: Timestamp,
    /// Since when its text is gone, because it held something that was forgotten.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purged_at: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    pub figures: VersionFigures,
    /// As Markdown; may be empty.
    pub content: String,
}

#[derive(Clone, Debug)]
pub struct RollbackRequest {
    pub agent: AgentId,
    /// The version whose items are to be restored.
    pub version: i64,
    pub policy: SummaryPolicy,
    pub now: Timestamp,
}

/// A request to discard all items and make them again.
#[derive(Clone, Debug)]
pub struct RebuildRequest {
    pub agent: AgentId,
    pub policy: SummaryPolicy,
    pub now: Timestamp,
}

/// The effect of a rollback or a rebuild.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RevisionOutcome {
    pub version: i64,
    /// The last exchange that it covers.
    pub covers_through: i64,
    /// How many covered exchanges are pending again.
    pub uncovered: i64,
    /// The number of items that came back.
    pub restored: i64,
    /// The number of items that were removed.
    pub removed: i64,
    /// The number of removed items that an operator had edited or pinned.
    pub edited: i64,
    /// Set if exchanges are pending.
    pub enqueued: Option<EnqueueOutcome>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemRow {
    pub item: Item,
    /// The version that added it.
    pub added_version: i64,
    /// False if the item is too old for the document or had no room in it.
    pub shown: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemQuery {
    /// Returns only items with a higher number.
    pub after: i64,
    /// Limits the number of items; the first by number are returned.
    pub limit: i64,
    /// If true, includes items that aren't in the document.
    pub all: bool,
}

/// An operator's change to one item.
#[derive(Clone, Debug)]
pub struct EditRequest {
    pub agent: AgentId,
    pub item: i64,
    pub edit: ItemEdit,
    pub policy: SummaryPolicy,
    pub now: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditOutcome {
    pub version: i64,
    /// The item after the edit. With a new text it has a new number.
    pub row: ItemRow,
}

/// Limits how many items of one agent may be pinned.
pub const ITEM_PINS_MAX: i64 = 100;
