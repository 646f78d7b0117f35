//! Ageing needs no model, so it waits for none: what has outgrown its section moves on while an update waits.

use tracing::{debug, info, warn};

use super::{
    Worker,
    compact::Draft,
    update::{Contents, count},
};
use crate::{
    domain::{summary::compaction::compose, time::Timestamp, work::Lease},
    store::{Material, RunRecord},
    telemetry::metrics::labels::ItemAction,
};

/// The time that an update of `material` ages items by.
pub(super) fn as_of(material: &Material, run: &RunRecord) -> Timestamp {
    material.as_of.unwrap_or(run.started_at)
}

/// Whether time has changed the document.
pub(super) fn is_due(material: &Material, run: &RunRecord) -> bool {
    material
        .next_ageing_at
        .is_some_and(|at| at <= as_of(material, run))
}

impl Worker {
    /// Writes what time has changed, if that is all there can be written for now: exchanges wait for a model, and readers
    /// are to find the others under the right heading however long that takes. The lease goes on; a failure is none of the
    /// update's.
    pub(super) async fn age_meanwhile(&self, lease: &Lease, material: Material, run: &RunRecord) {
        if !is_due(&material, run) {
            return;
        }
        let as_of = as_of(&material, run);
        let material = Material {
            hi: material.lo,
            exchanges: Vec::new(),
            revisited: Vec::new(),
            ..material
        };
        let draft = Draft::aged(&material);
        let counter = self.parts.counter.as_ref();
        let composed = compose(&draft.items, as_of, &self.policy(&material), counter);
        // The attempt has a record of its own, with what it cost.
        let run = RunRecord {
            started_at: run.started_at,
            finished_at: self.parts.clock.now(),
            ..RunRecord::default()
        };
        let contents = Contents {
            draft,
            composition: &composed,
            as_of,
        };
        let patch = self.patch(&material, contents, None, &run);
        let dropped = patch.dropped.len();
        match self.parts.store.age_document(lease, patch).await {
            Ok(true) => {
                info!(agent_id = %lease.agent, version = material.version + 1, dropped, "update.aged");
                self.parts.notices.agent_changed(&lease.agent);
                let documents = &self.parts.metrics.documents;
                documents.stored(composed.tokens);
                documents.items(ItemAction::Dropped, count(dropped));
            }
            Ok(false) => debug!(agent_id = %lease.agent, "update.aged_later"),
            Err(error) => warn!(agent_id = %lease.agent, %error, "update.not_aged"),
        }
    }
}
