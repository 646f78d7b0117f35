//! A store whose calls fail as planned: before they take effect, or after, when only the answer is lost.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
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
    FactRequest, FactRow, Failure, Forget, ForgetStep, Forgotten, ForkOutcome, ItemQuery, ItemRow,
    JournalledAnswer, KeptCalibration, Material, MaterialLimits, MessageRange, NoteQuery, Patch, Pins,
    Postponement, ProjectFigures, ProjectRow, ProjectStamp, Prune, RebuildRequest, Recount, RecountBatch,
    RecountOutcome, Resume, RevisionOutcome, RollbackRequest, RunRecord, SaidMessage, Sample, SearchHits,
    SessionEnded, Settle, Slot, SpendPause, Spending, Store, StoreError, StoreResult, StoredExchange,
    StoredMessage, SummaryRow, Version, VersionFigures, VersionQuery, verify::AgentReport,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// The call has no effect.
    Before,
    /// The call takes effect, but the answer is lost.
    After,
    /// The call has no effect, and panics.
    Panic,
}

pub(crate) struct FlakyStore {
    inner: Arc<dyn Store>,
    plan: Mutex<Plan>,
}

#[derive(Default)]
struct Plan {
    faults: Vec<(&'static str, usize, When)>,
    calls: HashMap<&'static str, usize>,
    met: usize,
}

impl FlakyStore {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner, plan: Mutex::default() }
    }

    /// Makes the `nth` call of `method` from now on fail.
    pub(crate) fn fail(&self, method: &'static str, nth: usize, when: When) {
        let mut plan = self.plan();
        let so_far = plan.calls.get(method).copied().unwrap_or_default();
        plan.faults.push((method, so_far + nth, when));
    }

    pub(crate) fn calls(&self, method: &'static str) -> usize {
        self.plan().calls.get(method).copied().unwrap_or_default()
    }

    /// Counts the planned faults that have happened.
    pub(crate) fn met(&self) -> usize {
        self.plan().met
    }

    /// Cancels the faults that are still to come.
    pub(crate) fn mend(&self) {
        self.plan().faults.clear();
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fault(&self, method: &'static str) -> Option<When> {
        let mut plan = self.plan();
        let calls = plan.calls.entry(method).or_default();
        *calls += 1;
        let call = *calls;
        let planned = plan.faults.iter().position(|(name, nth, _)| *name == method && *nth == call)?;
        plan.met += 1;
        Some(plan.faults.remove(planned).2)
    }

    pub(super) async fn pass<T>(
        &self,
        method: &'static str,
        call: impl Future<Output = StoreResult<T>> + Send,
    ) -> StoreResult<T> {
        let failed = || StoreError::Unavailable(format!("planned failure of {method}").into());
        match self.fault(method) {
            None => call.await,
            Some(When::Before) => Err(failed()),
            Some(When::Panic) => panic!("a planned panic in {method}"),
            Some(When::After) => {
                // The answer is lost, even a refusal.
                drop(call.await);
                Err(failed())
            }
        }
    }
}

macro_rules! pass {
    ($(fn $method:ident($($name:ident: $type:ty),*) -> $answer:ty;)+) => {
        #[async_trait]
        impl Store for FlakyStore {
            $(async fn $method(&self, $($name: $type),*) -> StoreResult<$answer> {
                self.pass(stringify!($method), self.inner.$method($($name),*)).await
            })+

            async fn scrub(&self) -> bool {
                self.inner.scrub().await
            }
        }
    };
}

pass! {
    fn append(request: AppendRequest) -> AppendOutcome;
    fn known_payloads(agent: &AgentId, ids: &[&str]) -> HashMap<String, String>;
    fn rewind(request: AppendRequest) -> AppendOutcome;
    fn fork(parent: &AgentId, child: &AgentId, now: Timestamp) -> ForkOutcome;
    fn ancestors(agent: &AgentId) -> Vec<Ancestor>;
    fn pins(agent: &AgentId, limit: i64) -> Pins;
    fn notes(agent: &AgentId, query: &NoteQuery) -> Vec<Note>;
    fn end_session(agent: &AgentId, now: Timestamp) -> SessionEnded;
    fn change_settings(agent: &AgentId, patch: &SettingsPatch, now: Timestamp) -> AgentSettings;
    fn begin_recount(agent: &AgentId) -> ();
    fn recounts_due(limit: i64) -> Vec<AgentId>;
    fn recount_batch(agent: &AgentId, messages_max: i64) -> Option<RecountBatch>;
    fn recount(recount: Recount) -> Option<RecountOutcome>;
    fn calibrations() -> Vec<KeptCalibration>;
    fn keep_calibrations(kept: Vec<KeptCalibration>, now: Timestamp) -> ();
    fn agent(agent: &AgentId) -> Option<AgentRow>;
    fn agents(after: Option<&AgentId>, limit: i64) -> Vec<AgentRow>;
    fn exchanges(agent: &AgentId, query: ExchangeQuery) -> Vec<StoredExchange>;
    fn count_exchanges(agent: &AgentId, from: i64, through: i64) -> i64;
    fn landmarks(agent: &AgentId, places: &[i64]) -> Vec<CutPoint>;
    fn session_start(agent: &AgentId, session: i64) -> Option<i64>;
    fn has_evicted(agent: &AgentId) -> bool;
    fn last_said(agent: &AgentId, limit: i64) -> Vec<SaidMessage>;
    fn search(agent: &AgentId, search: &ArchiveSearch) -> Option<SearchHits>;
    fn expand(agent: &AgentId, exchange: i64, range: MessageRange) -> Option<ExpandedExchange>;
    fn request_of(agent: &AgentId, exchange: i64) -> Option<StoredMessage>;
    fn legs(agent: &AgentId, exchange: i64) -> Vec<Exchange>;
    fn index_messages(messages_max: i64) -> i64;
    fn seal_rows(rows_max: i64) -> i64;
    fn begin_forget(request: &Forget) -> Forgotten;
    fn forget_some(request: &Forget) -> ForgetStep;
    fn forgettings_due(limit: i64) -> Vec<AgentId>;
    fn forgettings_left(agent: &AgentId) -> i64;
    fn settle_totals(agent: &AgentId, rules: &AppendRules, now: Timestamp) -> Option<RecountOutcome>;
    fn totals_due(limit: i64) -> Vec<AgentId>;
    fn begin_delete(agent: &AgentId, now: Timestamp) -> ();
    fn delete_some(agent: &AgentId) -> DeleteStep;
    fn deletions_due(limit: i64) -> Vec<AgentId>;
    fn summary(agent: &AgentId) -> Option<SummaryRow>;
    fn summary_of_step(agent: &AgentId) -> Option<SummaryRow>;
    fn versions(agent: &AgentId, query: VersionQuery) -> Vec<VersionFigures>;
    fn version(agent: &AgentId, version: i64) -> Option<Version>;
    fn roll_back(request: RollbackRequest) -> RevisionOutcome;
    fn rebuild(request: RebuildRequest) -> RevisionOutcome;
    fn withdraw_some(agent: &AgentId) -> bool;
    fn withdrawals_due(limit: i64) -> Vec<AgentId>;
    fn items(agent: &AgentId, query: ItemQuery) -> Vec<ItemRow>;
    fn facts(agent: &AgentId, query: FactQuery) -> Vec<FactRow>;
    fn change_fact(request: FactRequest) -> FactEdited;
    fn edit_item(request: EditRequest) -> EditOutcome;
    fn set_project(agent: &AgentId, project: Option<&ProjectId>, now: Timestamp) -> ();
    fn projects(after: Option<&ProjectId>, limit: i64) -> Vec<ProjectFigures>;
    fn project_stamp(project: &ProjectId) -> Option<ProjectStamp>;
    fn project(project: &ProjectId) -> Option<(ProjectStamp, ProjectRow)>;
    fn enqueue(agent: &AgentId, reason: Reason, delay_ms: i64, now: Timestamp) -> EnqueueOutcome;
    fn next_due_ms(now: Timestamp) -> Option<i64>;
    fn claim(claim: ClaimRequest) -> Vec<Lease>;
    fn renew(leases: &[Lease], now: Timestamp, lease_ms: i64) -> Vec<i64>;
    fn material(lease: &Lease, limits: MaterialLimits) -> Material;
    fn journalled(agent: &AgentId, key: &str) -> Option<JournalledAnswer>;
    fn journalled_among(agent: &AgentId, keys: &[String]) -> Vec<String>;
    fn journal(agent: &AgentId, key: &str, answer: &JournalledAnswer, now: Timestamp) -> ();
    fn complete(lease: &Lease, patch: Patch) -> Completion;
    fn age_document(lease: &Lease, patch: Patch) -> bool;
    fn settle(lease: &Lease, settle: Settle) -> Completion;
    fn fail(lease: &Lease, failure: Failure) -> bool;
    fn release(leases: &[Lease], now: Timestamp) -> u64;
    fn postpone(lease: &Lease, postponement: Postponement) -> ();
    fn record_run(lease: &Lease, run: RunRecord) -> ();
    fn resume(whom: Resume, now: Timestamp) -> u64;
    fn spending(agent: &AgentId, since: Timestamp) -> Spending;
    fn paused(agent: &AgentId) -> Option<SpendPause>;
    fn enqueue_revisits(now: Timestamp, limit: i64) -> u64;
    fn disclaim(leases: &[Lease]) -> u64;
    fn reclaim(owner: &str, now: Timestamp) -> u64;
    fn set_back(ahead_ms: Option<i64>, now: Timestamp) -> u64;
    fn reconcile(pending_before: Timestamp, now: Timestamp) -> u64;
    fn probe_parked(parked_before: Timestamp, attempts_max: i64, now: Timestamp) -> u64;
    fn enqueue_ageing(now: Timestamp, limit: i64) -> u64;
    fn take_slot(name: &str, slot: Timestamp, now: Timestamp) -> Slot;
    fn finish_slot(name: &str, slot: Timestamp, now: Timestamp) -> ();
    fn prune(prune: Prune) -> u64;
    fn sample(now: Timestamp, window_ms: i64) -> Sample;
    fn verify(agent: &AgentId) -> AgentReport;
    fn verify_deep(agent: &AgentId) -> AgentReport;
    fn ping() -> ();
}
