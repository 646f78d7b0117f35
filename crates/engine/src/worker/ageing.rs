//! Ages documents without waiting for a model: items move to their sections while an update waits. Also keeps exchanges that are
//! too old for the document away from models.

use tracing::{debug, info, warn};

use super::{
    Worker,
    compact::{Contents, Draft},
    material::{as_of, is_due},
};
use recapd_core::domain::{
    number::i64_or_max,
    summary::{compaction::compose_with, section::Section},
    time::Timestamp,
    work::Lease,
};
use recapd_store::{Material, RunRecord, StoredExchange};
use recapd_telemetry::metrics::labels::ItemAction;

impl Worker {
    /// Writes a version in which only ageing has moved items, while the pending exchanges wait for a model, so that readers find
    /// each item under the right heading. The lease continues. A failure here doesn't fail the update.
    pub(super) async fn age_meanwhile(&self, lease: &Lease, material: Material, run: &RunRecord) {
        if !is_due(&material, run) {
            return;
        }
        let as_of = as_of(&material, run);
        let material = Material { hi: material.lo, exchanges: Vec::new(), revisited: Vec::new(), ..material };
        let draft = Draft::aged(&material);
        let counter = self.parts.counter.as_ref();
        let composed = compose_with(&material.facts, &draft.items, as_of, &self.policy(&material), counter);
        // The attempt has its own run record, with its cost.
        let run = RunRecord {
            started_at: run.started_at,
            finished_at: self.parts.clock.now(),
            ..RunRecord::default()
        };
        let contents = Contents { draft, composition: &composed, as_of };
        let patch = self.patch(&material, contents, None, &run);
        let dropped = patch.dropped.len();
        match self.parts.store.age_document(lease, patch).await {
            Ok(true) => {
                info!(agent_id = %lease.agent, version = material.version + 1, dropped, "update.aged");
                self.parts.notices.agent_changed(&lease.agent);
                let documents = &self.parts.metrics.documents;
                documents.stored(composed.tokens);
                documents.items(ItemAction::Dropped, i64_or_max(dropped));
            }
            Ok(false) => debug!(agent_id = %lease.agent, "update.aged_later"),
            Err(error) => {
                self.parts.metrics.service.db_failed(error.class());
                warn!(agent_id = %lease.agent, %error, "update.not_aged");
            }
        }
    }

    /// Returns how many of the first exchanges belong to the same section. An item belongs to the section of its last exchange,
    /// so an item over several sections would keep old exchanges among new ones. The built-in summariser gets all exchanges: it
    /// costs nothing, compares them with each other, and joins few, none across long pauses.
    pub(super) fn in_one_section(
        &self,
        material: &Material,
        exchanges: &[StoredExchange],
        as_of: Timestamp,
    ) -> usize {
        if self.is_offline() {
            return exchanges.len();
        }
        let ageing = self.policy(material).ageing;
        // Uses the newest time so far, so that clients' clocks that jump back and forth make no extra sections.
        let newest = exchanges.iter().scan(Timestamp(i64::MIN), |newest, stored| {
            *newest = stored.exchange.last_at.max(*newest);
            Some(*newest)
        });
        let sections: Vec<Option<Section>> = newest.map(|at| ageing.section_at(at, as_of)).collect();
        sections.partition_point(|section| Some(section) == sections.first())
    }

    /// Returns true if all exchanges are too old for the document: their items would leave the document at once.
    pub(super) fn are_past(
        &self,
        material: &Material,
        exchanges: &[StoredExchange],
        as_of: Timestamp,
    ) -> bool {
        let ageing = self.policy(material).ageing;
        let mut ends = exchanges.iter().map(|stored| stored.exchange.last_at);
        ends.all(|ended_at| ageing.section_at(ended_at, as_of).is_none())
    }
}
