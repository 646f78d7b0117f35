//! Applies operators' changes to a document: rolls it back, rebuilds it, edits an item.

use serde::Serialize;
use tracing::{info, warn};

use super::Ingestor;
use recapd_core::domain::{
    agent::AgentId,
    exchange::Exchange,
    summary::{edit::ItemEdit, item::Item, line},
    work::Reason,
};
use recapd_store::{
    EditOutcome, EditRequest, ItemRow, RebuildRequest, RevisionOutcome, RollbackRequest, Store, StoreResult,
};

/// The reply to a rollback or a rebuild, over HTTP and on the command line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = RevisionOutcome)]
pub struct RevisedReply {
    pub agent_id: AgentId,
    /// The document's new version.
    pub version: i64,
    /// The last exchange that the new items cover.
    pub covers_through: i64,
    /// How many covered exchanges have to be summarised again.
    pub uncovered_exchanges: i64,
    /// How many items came back.
    pub items_restored: i64,
    /// How many items were removed.
    pub items_removed: i64,
    /// How many of the removed items an operator had edited or pinned.
    pub items_edited_removed: i64,
}

impl RevisedReply {
    fn new(agent_id: AgentId, revised: RevisionOutcome) -> Self {
        Self {
            agent_id,
            version: revised.version,
            covers_through: revised.covers_through,
            uncovered_exchanges: revised.uncovered,
            items_restored: revised.restored,
            items_removed: revised.removed,
            items_edited_removed: revised.edited,
        }
    }
}

/// An item as operators see it, over HTTP and on the command line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = Item)]
pub struct ItemReply {
    #[serde(flatten)]
    pub item: Item,
    /// Its exchanges: `#12–#14, #20`.
    pub exchanges: String,
    /// The exchange whose legs these are, if all belong to one; only in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub legs_of: Option<i64>,
    /// The version that added it.
    pub added_version: i64,
    /// True if it is in the document; false if it was too old or found no room.
    pub shown: bool,
}

impl From<ItemRow> for ItemReply {
    fn from(row: ItemRow) -> Self {
        Self {
            exchanges: line::ranges(&row.item.ranges),
            legs_of: None,
            item: row.item,
            added_version: row.added_version,
            shown: row.shown,
        }
    }
}

/// Returns the items of `rows`, each with the exchange whose legs it covers. `rows` are in order, so the items of one exchange
/// are mostly neighbours, and its legs are read once.
///
/// # Errors
/// When the store fails.
pub async fn listed(store: &dyn Store, agent: &AgentId, rows: Vec<ItemRow>) -> StoreResult<Vec<ItemReply>> {
    let mut legs: Vec<Exchange> = Vec::new();
    let mut items = Vec::new();
    for row in rows {
        let span = row.item.ranges.first().zip(row.item.ranges.last());
        let mut legs_of = None;
        if let Some((first, last)) = span.map(|(first, last)| (first.first, last.last)) {
            if !legs.iter().any(|leg| leg.exchange == first) {
                legs = store.legs(agent, first).await?;
            }
            legs_of = legs_between(&legs, first, last);
        }
        items.push(ItemReply { legs_of, ..row.into() });
    }
    Ok(items)
}

/// Returns the exchange of `legs` if it has several legs and they include `first` to `last`.
fn legs_between(legs: &[Exchange], first: i64, last: i64) -> Option<i64> {
    let (begin, end) = legs.first().zip(legs.last())?;
    let is_within = begin.exchange <= first && last <= end.exchange;
    (is_within && begin.exchange < end.exchange).then(|| begin.first_leg())
}

/// The reply to an edit of an item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = EditedItem)]
pub struct EditedReply {
    /// The document's new version.
    pub version: i64,
    /// The item after the change. A new text gives it a new number.
    #[serde(flatten)]
    pub item: ItemReply,
}

impl From<EditOutcome> for EditedReply {
    fn from(edited: EditOutcome) -> Self {
        Self { version: edited.version, item: edited.row.into() }
    }
}

impl Ingestor {
    /// Writes a new version with the items of an earlier one. Exchanges that only later versions covered are summarised again.
    ///
    /// # Errors
    /// [`recapd_store::StoreError::UnknownAgent`], [`recapd_store::StoreError::UnknownVersion`], or another error of the store.
    pub async fn roll_back(&self, agent: &AgentId, version: i64) -> StoreResult<RevisedReply> {
        let request = RollbackRequest {
            agent: agent.clone(),
            version,
            policy: self.rules.policy,
            now: self.clock.now(),
        };
        let revised = self.store.roll_back(request).await?;
        info!(agent_id = %agent, to_version = version, ?revised, "summary.rolled_back");
        Ok(self.after_revision(agent, revised).await)
    }

    /// Removes all items and makes everything outside of the window pending. Readers get the old document until the new one
    /// covers as much.
    ///
    /// # Errors
    /// [`recapd_store::StoreError::UnknownAgent`], or another error of the store.
    pub async fn rebuild(&self, agent: &AgentId) -> StoreResult<RevisedReply> {
        let request =
            RebuildRequest { agent: agent.clone(), policy: self.rules.policy, now: self.clock.now() };
        let revised = self.store.rebuild(request).await?;
        info!(agent_id = %agent, ?revised, "summary.rebuilding");
        Ok(self.after_revision(agent, revised).await)
    }

    /// Edits an item for an operator. Secrets in the new texts are redacted.
    ///
    /// # Errors
    /// [`recapd_store::StoreError::UnknownAgent`], [`recapd_store::StoreError::UnknownItem`], [`recapd_store::StoreError::ItemPinsFull`],
    /// or another error of the store.
    pub async fn edit_item(&self, agent: &AgentId, item: i64, edit: ItemEdit) -> StoreResult<EditedReply> {
        let request = EditRequest {
            agent: agent.clone(),
            item,
            edit: edit.redacted(&self.redactor),
            policy: self.rules.policy,
            now: self.clock.now(),
        };
        let outcome = self.store.edit_item(request).await?;
        info!(agent_id = %agent, item, now_item = outcome.row.item.item, version = outcome.version, "summary.edited");
        self.after_document(agent);
        Ok(outcome.into())
    }

    /// Notifies readers and workers, and writes the remaining rows. The revision has taken effect already, so a failure is only
    /// logged, and the daemon writes the rows later.
    async fn after_revision(&self, agent: &AgentId, revised: RevisionOutcome) -> RevisedReply {
        if revised.uncovered > 0 {
            // Exchanges that the summary no longer covers may have counts of an earlier model.
            self.learning.work.notify_one();
        }
        self.report_wake(revised.enqueued, Reason::Manual);
        self.after_document(agent);
        if let Err(error) = self.withdraw(agent).await {
            warn!(agent_id = %agent, %error, "summary.withdrawal_left");
        }
        RevisedReply::new(agent.clone(), revised)
    }

    /// Writes the rows of items that a rollback or a rebuild removed, some at a time.
    pub(super) async fn withdraw(&self, agent: &AgentId) -> StoreResult<()> {
        while self.store.withdraw_some(agent).await? {}
        Ok(())
    }

    /// Notifies readers and workers. An update in progress has lost its lease, so its row can be claimed at once.
    pub(super) fn after_document(&self, agent: &AgentId) {
        self.notices.wake_queue();
        self.notices.agent_changed(agent);
    }
}
