//! The result of condensing exchanges: items, and changes to the facts.

use super::{
    Worker,
    material::{rows, worth_asking},
};
use recapd_core::domain::{
    reply::Answer,
    summary::{
        coverage::{CoverageError, items_from},
        fact::FactChanges,
        item::{Item, Origin},
        state::{self, FactUpdate},
    },
};
use recapd_store::{Material, StoredExchange};

/// How final the digests are that replace the exchanges which an answer left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gaps {
    /// The digests are provisional: a later update asks about their exchanges once more.
    AskedLater,
    /// The digests are final.
    Lasting,
}

impl Gaps {
    /// Returns the gaps of an answer about `material`. Revisited exchanges that are left out again would always be left out, so
    /// their digests are final.
    pub(super) fn of(material: &Material) -> Self {
        if material.revisited.is_empty() { Self::AskedLater } else { Self::Lasting }
    }
}

/// What replaces exchanges in a new version.
#[derive(Clone, Debug, Default)]
pub(super) struct Condensation {
    pub(super) items: Vec<Item>,
    /// The changes to the facts, answer by answer.
    pub(super) facts: Vec<FactChanges>,
}

impl Condensation {
    /// Makes items of an answer about `exchanges`. Digests replace the exchanges that the answer leaves out.
    pub(super) fn of(
        answer: Answer,
        exchanges: &[StoredExchange],
        origin: Origin,
        gaps: Gaps,
    ) -> Result<Self, CoverageError> {
        let mut items = items_from(&answer.items, &rows(exchanges), origin)?;
        let numbers = worth_asking(exchanges);
        let is_asked_later = origin == Origin::Model && gaps == Gaps::AskedLater;
        for item in &mut items {
            let is_gap =
                item.origin == Origin::Digest && numbers.iter().any(|exchange| item.covers(*exchange));
            item.provisional = is_gap && is_asked_later;
        }
        Ok(Self { items, facts: vec![answer.facts] })
    }

    pub(super) fn add(&mut self, other: Self) {
        self.items.extend(other.items);
        self.facts.extend(other.facts);
    }
}

impl Worker {
    /// Applies those changes that the messages in the exchanges of `material` support.
    pub(super) fn supported_facts(&self, material: &Material, changes: &[FactChanges]) -> FactUpdate {
        if changes.iter().all(FactChanges::is_empty) {
            return FactUpdate::default();
        }
        let zone = self.policy(material).ageing.zone();
        let transcripts = self.transcripts(&material.exchanges, zone);
        state::apply(&material.facts, changes, &transcripts)
    }
}
