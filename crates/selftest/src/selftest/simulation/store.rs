//! The tables behind the `Store` trait, as one daemon sees them: the real ingestor, worker and schedule use them
//! unknowingly.

use std::{collections::HashMap, sync::Arc};

use async_trait::async_trait;

use super::{
    tables::Tables,
    world::{Inner, StoreCall, World},
};
use recapd_core::domain::{
    agent::AgentId,
    exchange::Exchange,
    ledger::CutPoint,
    note::Note,
    project::ProjectId,
    recall::ArchiveSearch,
    settings::{AgentSettings, SettingsPatch},
    time::Timestamp,
    work::{Lease, Reason},
};
use recapd_store::{
    AgentRow, Ancestor, AppendOutcome, AppendRequest, AppendRules, ClaimRequest, Completion, DeleteStep,
    EditOutcome, EditRequest, EnqueueOutcome, ExchangeQuery, ExpandedExchange, FactEdited, FactQuery,
    FactRequest, FactRow, Failure, Fence, Forget, ForgetStep, Forgotten, ForkOutcome, ItemQuery, ItemRow,
    JournalledAnswer, KeptCalibration, Material, MaterialLimits, MessageRange, NoteQuery, Patch, Pins,
    Postponement, ProjectFigures, ProjectRow, ProjectStamp, Prune, RebuildRequest, Recount, RecountBatch,
    RecountOutcome, Resume, RevisionOutcome, RollbackRequest, RunRecord, SaidMessage, Sample, SearchHits,
    SessionEnded, Settle, Slot, SpendPause, Spending, Store, StoreError, StoreResult, StoredExchange,
    StoredMessage, SummaryRow, Version, VersionFigures, VersionQuery, verify::AgentReport,
};

pub(super) struct SimulatedStore {
    pub(super) world: Arc<World>,
    pub(super) daemon: usize,
}

/// Operations that also inform the judge.
impl Inner {
    fn claim(&mut self, claim: ClaimRequest) -> StoreResult<Vec<Lease>> {
        let leases = self.tables.claim(claim)?;
        self.counts.claims += leases.len() as u64;
        for lease in &leases {
            if let Some(kept) = self.tables.agents.get(&lease.agent) {
                self.judge.saw_claim(lease, kept);
            }
        }
        Ok(leases)
    }

    fn material(&mut self, lease: &Lease, limits: MaterialLimits) -> StoreResult<Material> {
        let material = self.tables.material(lease, limits)?;
        self.judge.saw_material(lease, &material);
        Ok(material)
    }

    #[expect(clippy::needless_pass_by_value, reason = "it takes what the method of `Store` takes")]
    fn complete(&mut self, lease: &Lease, patch: Patch) -> StoreResult<Completion> {
        let before = self.tables.agents.get(&lease.agent).cloned();
        let before = before.ok_or_else(|| StoreError::UnknownAgent(lease.agent.clone()))?;
        let completed = self.tables.complete(lease, patch.clone());
        if let Some(verdicts) = self.tables.verdicts.take() {
            self.judge.judge_verdicts(lease, &patch, &before, verdicts);
        }
        self.counts.hear(&completed);
        let completed = completed?;
        self.judge.judge_update(lease, &patch, &before);
        if let Some(after) = self.tables.agents.get(&lease.agent) {
            self.judge.judge_end(lease, completed, &before, after);
        }
        Ok(completed)
    }

    #[expect(clippy::needless_pass_by_value, reason = "it takes what the method of `Store` takes")]
    fn age_document(&mut self, lease: &Lease, patch: Patch) -> StoreResult<bool> {
        let before = self.tables.agents.get(&lease.agent).cloned();
        let before = before.ok_or_else(|| StoreError::UnknownAgent(lease.agent.clone()))?;
        let is_aged = self.tables.age_document(lease, patch.clone())?;
        self.judge.judge_update(lease, &patch, &before);
        Ok(is_aged)
    }

    fn settle_lease(&mut self, lease: &Lease, settle: Settle) -> StoreResult<Completion> {
        let before = self.tables.agents.get(&lease.agent).cloned();
        let completed = self.tables.settle(lease, settle)?;
        if let (Some(before), Some(after)) = (before, self.tables.agents.get(&lease.agent)) {
            self.judge.judge_end(lease, completed, &before, after);
        }
        Ok(completed)
    }
}

/// The methods of the trait: those of the world, those of the tables, and those that no update needs.
macro_rules! seam {
    (
        $(world fn $w:ident = $of_world:ident($($wn:ident: $wt:ty),*) -> $wa:ty;)+
        $(tables fn $t:ident($($tn:ident: $tt:ty),*) -> $ta:ty;)+
        $(absent fn $a:ident($($an:ident: $at:ty),*) -> $aa:ty;)+
    ) => {
        #[async_trait]
        impl Store for SimulatedStore {
            $(async fn $w(&self, $($wn: $wt),*) -> StoreResult<$wa> {
                let call = StoreCall { daemon: self.daemon, method: stringify!($w) };
                self.world.call(call, move |inner: &mut Inner| inner.$of_world($($wn),*)).await
            })+
            $(async fn $t(&self, $($tn: $tt),*) -> StoreResult<$ta> {
                let call = StoreCall { daemon: self.daemon, method: stringify!($t) };
                self.world.call(call, move |inner: &mut Inner| {
                    let tables: &mut Tables = &mut inner.tables;
                    tables.$t($($tn),*)
                }).await
            })+
            $(async fn $a(&self, $(_: $at),*) -> StoreResult<$aa> {
                Err(StoreError::Refused(concat!(stringify!($a), " isn't simulated").to_owned()))
            })+

            async fn scrub(&self) -> bool {
                false
            }
        }
    };
}

seam! {
    world fn claim = claim(claim: ClaimRequest) -> Vec<Lease>;
    world fn material = material(lease: &Lease, limits: MaterialLimits) -> Material;
    world fn complete = complete(lease: &Lease, patch: Patch) -> Completion;
    world fn age_document = age_document(lease: &Lease, patch: Patch) -> bool;
    world fn settle = settle_lease(lease: &Lease, settle: Settle) -> Completion;
    tables fn append(request: AppendRequest) -> AppendOutcome;
    tables fn rewind(request: AppendRequest) -> AppendOutcome;
    tables fn end_session(agent: &AgentId, now: Timestamp) -> SessionEnded;
    tables fn change_settings(agent: &AgentId, patch: &SettingsPatch, now: Timestamp) -> AgentSettings;
    tables fn recount_batch(agent: &AgentId, messages_max: i64) -> Option<RecountBatch>;
    tables fn recount(recount: Recount) -> Option<RecountOutcome>;
    tables fn settle_totals(agent: &AgentId, rules: &AppendRules, now: Timestamp) -> Option<RecountOutcome>;
    tables fn agent(agent: &AgentId) -> Option<AgentRow>;
    tables fn enqueue(agent: &AgentId, reason: Reason, delay_ms: i64, now: Timestamp) -> EnqueueOutcome;
    tables fn renew(leases: &[Lease], now: Timestamp, lease_ms: i64) -> Vec<i64>;
    tables fn journalled(agent: &AgentId, key: &str) -> Option<JournalledAnswer>;
    tables fn journalled_among(agent: &AgentId, keys: &[String]) -> Vec<String>;
    tables fn journal(agent: &AgentId, key: &str, answer: &JournalledAnswer, now: Timestamp) -> ();
    tables fn fail(lease: &Lease, failure: Failure) -> bool;
    tables fn release(leases: &[Lease], now: Timestamp) -> u64;
    tables fn postpone(lease: &Lease, postponement: Postponement) -> ();
    tables fn record_run(lease: &Lease, run: RunRecord) -> ();
    tables fn spending(agent: &AgentId, since: Timestamp) -> Spending;
    tables fn enqueue_revisits(now: Timestamp, limit: i64) -> u64;
    tables fn disclaim(leases: &[Lease]) -> u64;
    tables fn reclaim(owner: &str, now: Timestamp) -> u64;
    tables fn reconcile(pending_before: Timestamp, now: Timestamp) -> u64;
    tables fn probe_parked(parked_before: Timestamp, attempts_max: i64, now: Timestamp) -> u64;
    tables fn enqueue_ageing(now: Timestamp, limit: i64) -> u64;
    absent fn next_due_ms(now: Timestamp) -> Option<i64>;
    absent fn set_back(ahead_ms: Option<i64>, now: Timestamp) -> u64;
    absent fn known_payloads(agent: &AgentId, ids: &[&str]) -> HashMap<String, String>;
    absent fn fork(parent: &AgentId, child: &AgentId, now: Timestamp) -> ForkOutcome;
    absent fn ancestors(agent: &AgentId) -> Vec<Ancestor>;
    absent fn pins(agent: &AgentId, limit: i64) -> Pins;
    absent fn notes(agent: &AgentId, query: &NoteQuery) -> Vec<Note>;
    absent fn begin_recount(agent: &AgentId) -> ();
    absent fn recounts_due(limit: i64) -> Vec<AgentId>;
    absent fn calibrations() -> Vec<KeptCalibration>;
    absent fn keep_calibrations(kept: Vec<KeptCalibration>, now: Timestamp) -> ();
    absent fn agents(after: Option<&AgentId>, limit: i64) -> Vec<AgentRow>;
    absent fn exchanges(agent: &AgentId, query: ExchangeQuery) -> Vec<StoredExchange>;
    absent fn count_exchanges(agent: &AgentId, from: i64, through: i64) -> i64;
    absent fn landmarks(agent: &AgentId, places: &[i64]) -> Vec<CutPoint>;
    absent fn session_start(agent: &AgentId, session: i64) -> Option<i64>;
    absent fn has_evicted(agent: &AgentId) -> bool;
    absent fn last_said(agent: &AgentId, limit: i64) -> Vec<SaidMessage>;
    absent fn search(agent: &AgentId, search: &ArchiveSearch) -> Option<SearchHits>;
    absent fn expand(agent: &AgentId, exchange: i64, range: MessageRange) -> Option<ExpandedExchange>;
    absent fn request_of(agent: &AgentId, exchange: i64) -> Option<StoredMessage>;
    absent fn legs(agent: &AgentId, exchange: i64) -> Vec<Exchange>;
    absent fn index_messages(messages_max: i64) -> i64;
    absent fn seal_rows(rows_max: i64) -> i64;
    absent fn begin_forget(request: &Forget) -> Forgotten;
    absent fn forget_some(request: &Forget) -> ForgetStep;
    absent fn forgettings_due(limit: i64) -> Vec<AgentId>;
    absent fn forgettings_left(agent: &AgentId) -> i64;
    absent fn totals_due(limit: i64) -> Vec<AgentId>;
    absent fn begin_delete(agent: &AgentId, now: Timestamp) -> ();
    absent fn delete_some(agent: &AgentId) -> DeleteStep;
    absent fn deletions_due(limit: i64) -> Vec<AgentId>;
    absent fn summary(agent: &AgentId) -> Option<SummaryRow>;
    absent fn summary_of_step(agent: &AgentId) -> Option<SummaryRow>;
    absent fn versions(agent: &AgentId, query: VersionQuery) -> Vec<VersionFigures>;
    absent fn version(agent: &AgentId, version: i64) -> Option<Version>;
    absent fn roll_back(request: RollbackRequest) -> RevisionOutcome;
    absent fn rebuild(request: RebuildRequest) -> RevisionOutcome;
    absent fn withdraw_some(agent: &AgentId) -> bool;
    absent fn withdrawals_due(limit: i64) -> Vec<AgentId>;
    absent fn items(agent: &AgentId, query: ItemQuery) -> Vec<ItemRow>;
    absent fn facts(agent: &AgentId, query: FactQuery) -> Vec<FactRow>;
    absent fn change_fact(request: FactRequest) -> FactEdited;
    absent fn edit_item(request: EditRequest) -> EditOutcome;
    absent fn set_project(agent: &AgentId, project: Option<&ProjectId>, now: Timestamp) -> ();
    absent fn projects(after: Option<&ProjectId>, limit: i64) -> Vec<ProjectFigures>;
    absent fn project_stamp(project: &ProjectId) -> Option<ProjectStamp>;
    absent fn project(project: &ProjectId) -> Option<(ProjectStamp, ProjectRow)>;
    absent fn resume(whom: Resume, now: Timestamp) -> u64;
    absent fn paused(agent: &AgentId) -> Option<SpendPause>;
    absent fn take_slot(name: &str, slot: Timestamp, now: Timestamp) -> Slot;
    absent fn finish_slot(name: &str, slot: Timestamp, now: Timestamp) -> ();
    absent fn prune(prune: Prune) -> u64;
    absent fn sample(now: Timestamp, window_ms: i64) -> Sample;
    absent fn verify(agent: &AgentId) -> AgentReport;
    absent fn verify_deep(agent: &AgentId) -> AgentReport;
    absent fn ping() -> ();
}

impl super::findings::Counts {
    fn hear(&mut self, completed: &StoreResult<Completion>) {
        match completed {
            Ok(_) => self.updates += 1,
            Err(StoreError::Fenced(Fence::Lease)) => self.fenced_by_lease += 1,
            Err(StoreError::Fenced(_)) => self.fenced_by_state += 1,
            Err(_) => self.refused += 1,
        }
    }
}
