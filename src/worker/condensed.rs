//! What was condensed of exchanges: their items, and what they change of the facts.

use super::{Worker, condense::rows};
use crate::{
    domain::{
        reply::Answer,
        summary::{
            coverage::{CoverageError, items_from},
            fact::FactChanges,
            item::{Item, Origin},
            state::{self, FactUpdate},
        },
    },
    store::{Material, StoredExchange},
};

/// What stands for exchanges in a new version.
#[derive(Clone, Debug, Default)]
pub(super) struct Condensed {
    /// Their items.
    pub(super) items: Vec<Item>,
    /// What they change of the facts, answer by answer.
    pub(super) facts: Vec<FactChanges>,
}

impl Condensed {
    /// What an answer about `exchanges` makes of them.
    pub(super) fn of(
        answer: Answer,
        exchanges: &[StoredExchange],
        origin: Origin,
    ) -> Result<Self, CoverageError> {
        let mut items = items_from(&answer.items, &rows(exchanges), origin)?;
        // What the model left out it would leave out again: the digests of these exchanges are final.
        for item in &mut items {
            item.provisional = false;
        }
        Ok(Self {
            items,
            facts: vec![answer.facts],
        })
    }

    /// Adds what was condensed of others.
    pub(super) fn add(&mut self, other: Self) {
        self.items.extend(other.items);
        self.facts.extend(other.facts);
    }
}

impl Worker {
    /// Which of the changes are believed, by what was said in the exchanges of `material`.
    pub(super) fn believed_facts(&self, material: &Material, changes: &[FactChanges]) -> FactUpdate {
        if changes.iter().all(FactChanges::is_empty) {
            return FactUpdate::default();
        }
        let zone = self.policy(material).ageing.zone();
        let transcripts = self.transcripts(&material.exchanges, zone);
        state::apply(&material.facts, changes, &transcripts)
    }
}
