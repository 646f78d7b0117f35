//! In-memory tables: the database's data of each agent, and the operations of an update as plain functions on it. One
//! operation is one transaction: it changes a copy, which replaces the original on success.
//!
//! Written from the protocol and not from the SQL, but with the domain's own ledger, composition and digests, so that it is
//! an independent implementation.

#![expect(
    clippy::needless_pass_by_value,
    clippy::unnecessary_wraps,
    reason = "each operation takes and gives what the method of `Store` of its name does"
)]

mod append;
mod complete;
mod facts;
mod queue;
mod read;
mod revise;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

pub(super) use complete::{FENCES, Verdicts};
pub(super) use facts::KeptFact;
pub(super) use queue::Row;

use super::guard::Guard;
use recapd_core::domain::{
    agent::AgentId, exchange::Exchange, ledger::Ledger, lineage::Mark, settings::AgentSettings,
    summary::item::Item, time::Timestamp, tokens::TokenCounter, window::Budget,
};
use recapd_store::{JournalledAnswer, StoreError, StoreResult, StoredMessage};

/// An item, and whether a version dropped or removed it.
#[derive(Clone)]
pub(super) struct KeptItem {
    pub(super) item: Item,
    pub(super) is_dropped: bool,
    pub(super) is_removed: bool,
}

#[derive(Clone, Copy)]
pub(super) struct KeptVersion {
    pub(super) version: i64,
    pub(super) token: i64,
    pub(super) covers_after: i64,
    pub(super) covers_through: i64,
    /// True if a rewind wrote it, not an update.
    pub(super) is_rewind: bool,
}

#[derive(Clone)]
pub(super) struct AgentTables {
    pub(super) settings: AgentSettings,
    /// The budget of the last append.
    pub(super) budget: Budget,
    pub(super) ledger: Ledger,
    /// All exchanges, including set-aside ones, without preambles.
    pub(super) exchanges: BTreeMap<i64, Exchange>,
    /// In order of their numbers, from 1.
    pub(super) messages: Vec<Arc<StoredMessage>>,
    pub(super) client_ids: BTreeMap<String, String>,
    pub(super) marks: Vec<(Option<String>, Mark)>,
    /// A clear sent the exchanges before this one away: they never return to the window.
    pub(super) cleared_before: i64,
    pub(super) pending_since: Option<Timestamp>,
    pub(super) created_at: Timestamp,
    pub(super) version: i64,
    pub(super) content: String,
    pub(super) token_count: i64,
    pub(super) next_ageing_at: Option<Timestamp>,
    pub(super) items: Vec<KeptItem>,
    pub(super) facts: Vec<KeptFact>,
    pub(super) versions: Vec<KeptVersion>,
    pub(super) answers: BTreeMap<String, JournalledAnswer>,
    pub(super) row: Option<Row>,
}

pub(super) struct Tables {
    pub(super) agents: BTreeMap<AgentId, AgentTables>,
    /// The database's time if its clock counts; `None` if the daemons' clocks do.
    pub(super) clock: Option<Timestamp>,
    /// The agents that the current operation changed, in their former state.
    pub(super) changed: Vec<(AgentId, Option<AgentTables>)>,
    pub(super) verdicts: Option<Verdicts>,
    without: BTreeSet<Guard>,
    last_token: i64,
    counter: Arc<dyn TokenCounter>,
}

impl Tables {
    pub(super) fn new(without: BTreeSet<Guard>, counter: Arc<dyn TokenCounter>) -> Self {
        Self {
            agents: BTreeMap::new(),
            clock: None,
            changed: Vec::new(),
            verdicts: None,
            without,
            last_token: 0,
            counter,
        }
    }

    /// The time that counts when a daemon's clock shows `told`.
    fn time(&self, told: Timestamp) -> Timestamp {
        self.clock.unwrap_or(told)
    }

    fn has(&self, guard: Guard) -> bool {
        !self.without.contains(&guard)
    }

    fn next_token(&mut self) -> i64 {
        self.last_token += 1;
        self.last_token
    }

    fn kept(&self, agent: &AgentId) -> StoreResult<&AgentTables> {
        let found = self.agents.get(agent);
        found.ok_or_else(|| StoreError::UnknownAgent(agent.clone()))
    }

    fn commit(&mut self, agent: &AgentId, kept: AgentTables) -> StoreResult<()> {
        kept.check()?;
        let before = self.agents.insert(agent.clone(), kept);
        self.changed.push((agent.clone(), before));
        Ok(())
    }

    /// Runs one transaction on an existing agent.
    fn change<T>(
        &mut self,
        agent: &AgentId,
        change: impl FnOnce(&mut AgentTables) -> StoreResult<T>,
    ) -> StoreResult<T> {
        let mut kept = self.kept(agent)?.clone();
        let answer = change(&mut kept)?;
        self.commit(agent, kept)?;
        Ok(answer)
    }
}

impl AgentTables {
    fn new(now: Timestamp) -> Self {
        Self {
            settings: AgentSettings::default(),
            budget: Budget::unlimited(),
            ledger: Ledger::default(),
            exchanges: BTreeMap::new(),
            messages: Vec::new(),
            client_ids: BTreeMap::new(),
            marks: Vec::new(),
            cleared_before: 0,
            pending_since: None,
            created_at: now,
            version: 0,
            content: String::new(),
            token_count: 0,
            next_ageing_at: None,
            items: Vec::new(),
            facts: Vec::new(),
            versions: Vec::new(),
            answers: BTreeMap::new(),
            row: None,
        }
    }

    /// Checks the constraints of a database schema.
    fn check(&self) -> StoreResult<()> {
        let ledger = &self.ledger;
        if ledger.summarized_through >= ledger.first_exchange {
            let what = "an exchange would be covered and in the window";
            return Err(StoreError::Refused(what.to_owned()));
        }
        let [.., earlier, last] = self.versions.as_slice() else {
            return Ok(());
        };
        if earlier.token == last.token || earlier.version >= last.version {
            let what = "a version or its token would be there twice";
            return Err(StoreError::Refused(what.to_owned()));
        }
        Ok(())
    }

    /// The live exchanges from `from` through `through`.
    pub(super) fn live(&self, from: i64, through: i64) -> impl Iterator<Item = &Exchange> {
        // A range that ends before it begins is empty.
        let range = (from <= through).then_some(from..=through);
        let within = range.into_iter().flat_map(|range| self.exchanges.range(range));
        let exchanges = within.map(|(_, exchange)| exchange);
        exchanges.filter(|exchange| exchange.set_aside_at.is_none())
    }

    /// The live exchanges between summary and window.
    pub(super) fn pending(&self) -> impl Iterator<Item = &Exchange> {
        self.live(self.ledger.summarized_through + 1, self.ledger.first_exchange - 1)
    }

    /// Returns true if the pending exchanges after `through` have at least `tokens_min` tokens.
    pub(super) fn has_tokens(&self, through: i64, tokens_min: i64) -> bool {
        let first = self.exchanges.range(through + 1..).next();
        let tokens = first.map(|(_, first)| self.ledger.tokens_before_window - first.tokens_before);
        tokens_min == 0 || tokens.is_some_and(|tokens| tokens >= tokens_min)
    }

    /// The items in the document.
    pub(super) fn shown(&self) -> Vec<Item> {
        let shown = self.items.iter();
        let shown = shown.filter(|kept| !kept.is_dropped && !kept.is_removed);
        shown.map(|kept| kept.item.clone()).collect()
    }

    /// Sets when exchanges began to be pending.
    fn note_pending(&mut self, now: Timestamp) {
        let is_pending = self.ledger.pending_numbers() > 0;
        self.pending_since = is_pending.then(|| self.pending_since.unwrap_or(now));
    }
}
