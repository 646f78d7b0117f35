//! Facts: written with a version, reverted by a rewind.

use super::AgentTables;
use recapd_core::domain::summary::{
    fact::Fact,
    state::{FactClosure, FactUpdate},
};

#[derive(Clone)]
pub(crate) struct KeptFact {
    pub(crate) fact: Fact,
    pub(crate) is_closed: bool,
    /// The exchange that ended it, until that is set aside.
    pub(crate) ended_by: Option<i64>,
}

impl AgentTables {
    pub(crate) fn holding(&self) -> Vec<Fact> {
        let open = self.facts.iter().filter(|kept| !kept.is_closed);
        open.map(|kept| kept.fact.clone()).collect()
    }

    /// Writes a version's changes. A new fact that already has a number is reopened.
    pub(super) fn write_facts(&mut self, update: FactUpdate) {
        for closure in update.closed {
            for kept in self.facts.iter_mut().filter(|kept| kept.fact.fact == closure.fact) {
                kept.is_closed = true;
                kept.ended_by = closure.exchange;
            }
        }
        for fact in update.added {
            for kept in self.facts.iter_mut().filter(|kept| kept.fact.fact == fact.fact) {
                kept.ended_by = None;
            }
            let next = self.facts.last().map_or(1, |last| last.fact.fact + 1);
            self.facts.push(KeptFact { fact: Fact { fact: next, ..fact }, is_closed: false, ended_by: None });
        }
    }

    /// Reverts the changes by exchanges after `through`: their new facts, and the closing of others.
    pub(super) fn facts_taken_back(&self, through: i64) -> FactUpdate {
        let is_beyond = |fact: &Fact| fact.exchange > through;
        let is_open_again = |kept: &&KeptFact| {
            let ended_beyond = kept.ended_by.is_some_and(|exchange| exchange > through);
            kept.is_closed && ended_beyond && !is_beyond(&kept.fact)
        };
        let (gone, left): (Vec<Fact>, Vec<Fact>) = self.holding().into_iter().partition(is_beyond);
        let says = |one: &Fact, other: &Fact| one.kind == other.kind && one.text == other.text;
        let back = self.facts.iter().filter(is_open_again).map(|kept| &kept.fact);
        let back = back.filter(|fact| !left.iter().any(|other| says(other, fact)));
        FactUpdate {
            added: back.cloned().collect(),
            closed: gone
                .iter()
                .map(|fact| FactClosure { fact: fact.fact, exchange: None, replaced_by: None })
                .collect(),
            refused: Vec::new(),
        }
    }
}
