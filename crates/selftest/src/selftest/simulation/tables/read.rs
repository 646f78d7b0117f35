//! Reads.

use super::{AgentTables, Tables};
use recapd_core::domain::{
    agent::AgentId,
    exchange::Exchange,
    number::{i64_or_max, usize_or_max},
    settings::{AgentSettings, SettingsPatch},
    summary::calendar::AgentTime,
    summary::item::Item,
    time::Timestamp,
    work::Lease,
};
use recapd_store::{
    AgentRow, AppendRules, JournalledAnswer, Material, MaterialLimits, Recount, RecountBatch, RecountOutcome,
    RunRecord, Spending, StoreResult, StoredExchange, seal::Chain,
};

impl AgentTables {
    /// The oldest pending exchanges within the limits, and whether these are all.
    fn batch(&self, limits: MaterialLimits) -> (Vec<Exchange>, bool) {
        let pending: Vec<Exchange> = self.pending().cloned().collect();
        let mut tokens = 0;
        let within_tokens = pending.iter().take_while(|exchange| {
            tokens += exchange.tokens;
            tokens <= limits.tokens_max
        });
        let within_count = usize_or_max(limits.exchanges_max);
        let taken = within_tokens.count().max(1).min(within_count).min(pending.len());
        let takes_all = taken == pending.len();
        (pending.into_iter().take(taken).collect(), takes_all)
    }

    fn stored(&self, exchange: Exchange) -> StoredExchange {
        let of_exchange = self.messages.iter().filter(|stored| exchange.holds(stored.seq));
        StoredExchange {
            messages: of_exchange.map(|stored| stored.as_ref().clone()).collect(),
            exchange,
            evicted_at: None,
            summary_version: None,
            unread_bytes: None,
            request: None,
        }
    }

    fn material(&self, limits: MaterialLimits) -> Material {
        let (mut batch, takes_all) = self.batch(limits);
        let (lo, boundary) = (self.ledger.summarized_through, self.ledger.first_exchange);
        // Gaps at the end are included if the batch takes everything.
        let hi = match batch.last() {
            Some(last) if !takes_all => last.exchange,
            _ => boundary - 1,
        };
        let items = self.shown();
        let mut revisited: Vec<&Item> = Vec::new();
        if batch.is_empty() && hi == lo {
            let count = usize_or_max(limits.exchanges_max);
            revisited.extend(items.iter().filter(|item| item.provisional).take(count));
        }
        for range in revisited.iter().flat_map(|item| &item.ranges) {
            batch.extend(self.live(range.first, range.last).cloned());
        }
        batch.sort_by_key(|exchange| exchange.exchange);
        Material {
            version: self.version,
            lo,
            hi,
            exchanges: batch.into_iter().map(|exchange| self.stored(exchange)).collect(),
            takes_all,
            revisited: revisited.iter().map(|item| item.item).collect(),
            items,
            facts: self.holding(),
            fixed: Vec::new(),
            as_of: None,
            time: AgentTime::default(),
            pending_since: self.pending_since,
            next_ageing_at: self.next_ageing_at,
        }
    }
}

impl Tables {
    pub(crate) fn material(&self, lease: &Lease, limits: MaterialLimits) -> StoreResult<Material> {
        Ok(self.kept(&lease.agent)?.material(limits))
    }

    pub(crate) fn agent(&self, agent: &AgentId) -> StoreResult<Option<AgentRow>> {
        Ok(self.agents.get(agent).map(|kept| AgentRow {
            agent: agent.clone(),
            project: None,
            ledger: kept.ledger.clone(),
            pending_exchanges: i64_or_max(kept.pending().count()),
            pending_since: kept.pending_since,
            as_of: None,
            created_at: kept.created_at,
            updated_at: kept.created_at,
            budget_tokens: kept.budget.budget_tokens(),
            max_messages: kept.budget.max_messages(),
            chain: Chain::default(),
            settings: kept.settings.clone(),
            version: kept.version,
            summary_tokens: kept.token_count,
        }))
    }

    pub(crate) fn change_settings(
        &mut self,
        agent: &AgentId,
        patch: &SettingsPatch,
        now: Timestamp,
    ) -> StoreResult<AgentSettings> {
        let found = self.agents.get(agent).cloned();
        let mut kept = found.unwrap_or_else(|| AgentTables::new(self.time(now)));
        kept.settings = patch.apply(&kept.settings);
        let settings = kept.settings.clone();
        self.commit(agent, kept)?;
        Ok(settings)
    }

    /// Models don't change here.
    pub(crate) fn recount_batch(
        &self,
        agent: &AgentId,
        _messages_max: i64,
    ) -> StoreResult<Option<RecountBatch>> {
        self.kept(agent).map(|_| None)
    }

    pub(crate) fn recount(&self, recount: Recount) -> StoreResult<Option<RecountOutcome>> {
        self.kept(&recount.agent).map(|_| None)
    }

    pub(crate) fn settle_totals(
        &self,
        agent: &AgentId,
        _rules: &AppendRules,
        _now: Timestamp,
    ) -> StoreResult<Option<RecountOutcome>> {
        self.kept(agent).map(|_| None)
    }

    pub(crate) fn journalled(&self, agent: &AgentId, key: &str) -> StoreResult<Option<JournalledAnswer>> {
        Ok(self.kept(agent)?.answers.get(key).cloned())
    }

    pub(crate) fn journalled_among(&self, agent: &AgentId, keys: &[String]) -> StoreResult<Vec<String>> {
        let answers = &self.kept(agent)?.answers;
        let found = keys.iter().filter(|key| answers.contains_key(*key));
        Ok(found.cloned().collect())
    }

    pub(crate) fn journal(
        &mut self,
        agent: &AgentId,
        key: &str,
        answer: &JournalledAnswer,
        _now: Timestamp,
    ) -> StoreResult<()> {
        self.change(agent, |kept| {
            kept.answers.insert(key.to_owned(), answer.clone());
            Ok(())
        })
    }

    /// Models cost nothing here.
    pub(crate) fn spending(&self, agent: &AgentId, _since: Timestamp) -> StoreResult<Spending> {
        Ok(Spending { settings: self.kept(agent)?.settings.clone(), ..Spending::default() })
    }

    pub(crate) fn record_run(&self, lease: &Lease, _run: RunRecord) -> StoreResult<()> {
        self.kept(&lease.agent).map(drop)
    }
}
