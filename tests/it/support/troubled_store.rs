//! A store whose operations can be put into trouble.

use std::{
    collections::HashMap,
    future::pending,
    sync::{Arc, Mutex},
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
use tokio_util::sync::CancellationToken;

#[derive(Clone, Debug)]
pub(crate) enum Trouble {
    /// Fails as if the database didn't answer.
    Unavailable,
    /// Fails as if stored data made no sense.
    Inconsistent,
    Hang,
    Panic,
    /// Does its work once this is cancelled.
    Late(CancellationToken),
}

/// Stands for each operation that has no trouble of its own.
pub(crate) const EVERY_OPERATION: &str = "every operation";

pub(crate) struct TroubledStore {
    inner: Arc<dyn Store>,
    troubles: Mutex<HashMap<&'static str, Trouble>>,
}

impl TroubledStore {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner, troubles: Mutex::default() }
    }

    /// Puts `operation` into trouble from now on.
    pub(crate) fn trouble(&self, operation: &'static str, trouble: Trouble) {
        self.troubles.lock().unwrap().insert(operation, trouble);
    }

    pub(crate) fn recover(&self) {
        self.troubles.lock().unwrap().clear();
    }

    fn trouble_of(&self, operation: &'static str) -> Option<Trouble> {
        let troubles = self.troubles.lock().unwrap();
        troubles.get(operation).or_else(|| troubles.get(EVERY_OPERATION)).cloned()
    }

    async fn enter(&self, operation: &'static str) -> StoreResult<&dyn Store> {
        match self.trouble_of(operation) {
            None => {}
            Some(Trouble::Unavailable) => return Err(StoreError::Unavailable("disk I/O error".into())),
            Some(Trouble::Inconsistent) => {
                return Err(StoreError::Inconsistent {
                    table: "agents",
                    row: "a secret row".to_owned(),
                    column: "state",
                    value: "nonsense".to_owned(),
                });
            }
            Some(Trouble::Hang) => pending().await,
            Some(Trouble::Panic) => panic!("a planned panic in {operation}"),
            Some(Trouble::Late(until)) => until.cancelled().await,
        }
        Ok(self.inner.as_ref())
    }
}

#[async_trait]
impl Store for TroubledStore {
    async fn append(&self, request: AppendRequest) -> StoreResult<AppendOutcome> {
        self.enter("append").await?.append(request).await
    }

    async fn known_payloads(&self, agent: &AgentId, ids: &[&str]) -> StoreResult<HashMap<String, String>> {
        self.enter("known_payloads").await?.known_payloads(agent, ids).await
    }

    async fn rewind(&self, request: AppendRequest) -> StoreResult<AppendOutcome> {
        self.enter("rewind").await?.rewind(request).await
    }

    async fn fork(&self, parent: &AgentId, child: &AgentId, now: Timestamp) -> StoreResult<ForkOutcome> {
        self.enter("fork").await?.fork(parent, child, now).await
    }

    async fn ancestors(&self, agent: &AgentId) -> StoreResult<Vec<Ancestor>> {
        self.enter("ancestors").await?.ancestors(agent).await
    }

    async fn pins(&self, agent: &AgentId, limit: i64) -> StoreResult<Pins> {
        self.enter("pins").await?.pins(agent, limit).await
    }

    async fn notes(&self, agent: &AgentId, query: &NoteQuery) -> StoreResult<Vec<Note>> {
        self.enter("notes").await?.notes(agent, query).await
    }

    async fn begin_recount(&self, agent: &AgentId) -> StoreResult<()> {
        self.enter("begin_recount").await?.begin_recount(agent).await
    }

    async fn recounts_due(&self, limit: i64) -> StoreResult<Vec<AgentId>> {
        self.enter("recounts_due").await?.recounts_due(limit).await
    }

    async fn recount_batch(&self, agent: &AgentId, messages_max: i64) -> StoreResult<Option<RecountBatch>> {
        self.enter("recount_batch").await?.recount_batch(agent, messages_max).await
    }

    async fn recount(&self, recount: Recount) -> StoreResult<Option<RecountOutcome>> {
        self.enter("recount").await?.recount(recount).await
    }

    async fn calibrations(&self) -> StoreResult<Vec<KeptCalibration>> {
        self.enter("calibrations").await?.calibrations().await
    }

    async fn keep_calibrations(&self, kept: Vec<KeptCalibration>, now: Timestamp) -> StoreResult<()> {
        self.enter("keep_calibrations").await?.keep_calibrations(kept, now).await
    }

    async fn change_settings(
        &self,
        agent: &AgentId,
        patch: &SettingsPatch,
        now: Timestamp,
    ) -> StoreResult<AgentSettings> {
        self.enter("change_settings").await?.change_settings(agent, patch, now).await
    }

    async fn end_session(&self, agent: &AgentId, now: Timestamp) -> StoreResult<SessionEnded> {
        self.enter("end_session").await?.end_session(agent, now).await
    }

    async fn agent(&self, agent: &AgentId) -> StoreResult<Option<AgentRow>> {
        self.enter("agent").await?.agent(agent).await
    }

    async fn agents(&self, after: Option<&AgentId>, limit: i64) -> StoreResult<Vec<AgentRow>> {
        self.enter("agents").await?.agents(after, limit).await
    }

    async fn exchanges(&self, agent: &AgentId, query: ExchangeQuery) -> StoreResult<Vec<StoredExchange>> {
        self.enter("exchanges").await?.exchanges(agent, query).await
    }

    async fn count_exchanges(&self, agent: &AgentId, from: i64, through: i64) -> StoreResult<i64> {
        let inner = self.enter("count_exchanges").await?;
        inner.count_exchanges(agent, from, through).await
    }

    async fn landmarks(&self, agent: &AgentId, places: &[i64]) -> StoreResult<Vec<CutPoint>> {
        let inner = self.enter("landmarks").await?;
        inner.landmarks(agent, places).await
    }

    async fn session_start(&self, agent: &AgentId, session: i64) -> StoreResult<Option<i64>> {
        self.enter("session_start").await?.session_start(agent, session).await
    }

    async fn has_evicted(&self, agent: &AgentId) -> StoreResult<bool> {
        self.enter("has_evicted").await?.has_evicted(agent).await
    }

    async fn last_said(&self, agent: &AgentId, limit: i64) -> StoreResult<Vec<SaidMessage>> {
        self.enter("last_said").await?.last_said(agent, limit).await
    }

    async fn search(&self, agent: &AgentId, search: &ArchiveSearch) -> StoreResult<Option<SearchHits>> {
        self.enter("search").await?.search(agent, search).await
    }

    async fn expand(
        &self,
        agent: &AgentId,
        exchange: i64,
        range: MessageRange,
    ) -> StoreResult<Option<ExpandedExchange>> {
        self.enter("expand").await?.expand(agent, exchange, range).await
    }

    async fn request_of(&self, agent: &AgentId, exchange: i64) -> StoreResult<Option<StoredMessage>> {
        self.enter("request_of").await?.request_of(agent, exchange).await
    }

    async fn legs(&self, agent: &AgentId, exchange: i64) -> StoreResult<Vec<Exchange>> {
        self.enter("legs").await?.legs(agent, exchange).await
    }

    async fn index_messages(&self, messages_max: i64) -> StoreResult<i64> {
        self.enter("index_messages").await?.index_messages(messages_max).await
    }

    async fn seal_rows(&self, rows_max: i64) -> StoreResult<i64> {
        self.enter("seal_rows").await?.seal_rows(rows_max).await
    }

    async fn begin_forget(&self, request: &Forget) -> StoreResult<Forgotten> {
        self.enter("begin_forget").await?.begin_forget(request).await
    }

    async fn forget_some(&self, request: &Forget) -> StoreResult<ForgetStep> {
        self.enter("forget_some").await?.forget_some(request).await
    }

    async fn forgettings_due(&self, limit: i64) -> StoreResult<Vec<AgentId>> {
        self.enter("forgettings_due").await?.forgettings_due(limit).await
    }

    async fn forgettings_left(&self, agent: &AgentId) -> StoreResult<i64> {
        self.enter("forgettings_left").await?.forgettings_left(agent).await
    }

    async fn settle_totals(
        &self,
        agent: &AgentId,
        rules: &AppendRules,
        now: Timestamp,
    ) -> StoreResult<Option<RecountOutcome>> {
        self.enter("settle_totals").await?.settle_totals(agent, rules, now).await
    }

    async fn totals_due(&self, limit: i64) -> StoreResult<Vec<AgentId>> {
        self.enter("totals_due").await?.totals_due(limit).await
    }

    async fn begin_delete(&self, agent: &AgentId, now: Timestamp) -> StoreResult<()> {
        self.enter("begin_delete").await?.begin_delete(agent, now).await
    }

    async fn delete_some(&self, agent: &AgentId) -> StoreResult<DeleteStep> {
        self.enter("delete_some").await?.delete_some(agent).await
    }

    async fn deletions_due(&self, limit: i64) -> StoreResult<Vec<AgentId>> {
        self.enter("deletions_due").await?.deletions_due(limit).await
    }

    async fn scrub(&self) -> bool {
        self.inner.scrub().await
    }

    async fn summary(&self, agent: &AgentId) -> StoreResult<Option<SummaryRow>> {
        self.enter("summary").await?.summary(agent).await
    }

    async fn set_project(
        &self,
        agent: &AgentId,
        project: Option<&ProjectId>,
        now: Timestamp,
    ) -> StoreResult<()> {
        self.enter("set_project").await?.set_project(agent, project, now).await
    }

    async fn projects(&self, after: Option<&ProjectId>, limit: i64) -> StoreResult<Vec<ProjectFigures>> {
        self.enter("projects").await?.projects(after, limit).await
    }

    async fn project_stamp(&self, project: &ProjectId) -> StoreResult<Option<ProjectStamp>> {
        self.enter("project_stamp").await?.project_stamp(project).await
    }

    async fn project(&self, project: &ProjectId) -> StoreResult<Option<(ProjectStamp, ProjectRow)>> {
        self.enter("project").await?.project(project).await
    }

    async fn summary_of_step(&self, agent: &AgentId) -> StoreResult<Option<SummaryRow>> {
        self.enter("summary_of_step").await?.summary_of_step(agent).await
    }

    async fn versions(&self, agent: &AgentId, query: VersionQuery) -> StoreResult<Vec<VersionFigures>> {
        self.enter("versions").await?.versions(agent, query).await
    }

    async fn version(&self, agent: &AgentId, version: i64) -> StoreResult<Option<Version>> {
        self.enter("version").await?.version(agent, version).await
    }

    async fn roll_back(&self, request: RollbackRequest) -> StoreResult<RevisionOutcome> {
        self.enter("roll_back").await?.roll_back(request).await
    }

    async fn rebuild(&self, request: RebuildRequest) -> StoreResult<RevisionOutcome> {
        self.enter("rebuild").await?.rebuild(request).await
    }

    async fn withdraw_some(&self, agent: &AgentId) -> StoreResult<bool> {
        self.enter("withdraw_some").await?.withdraw_some(agent).await
    }

    async fn withdrawals_due(&self, limit: i64) -> StoreResult<Vec<AgentId>> {
        self.enter("withdrawals_due").await?.withdrawals_due(limit).await
    }

    async fn items(&self, agent: &AgentId, query: ItemQuery) -> StoreResult<Vec<ItemRow>> {
        self.enter("items").await?.items(agent, query).await
    }

    async fn facts(&self, agent: &AgentId, query: FactQuery) -> StoreResult<Vec<FactRow>> {
        self.enter("facts").await?.facts(agent, query).await
    }

    async fn change_fact(&self, request: FactRequest) -> StoreResult<FactEdited> {
        self.enter("change_fact").await?.change_fact(request).await
    }

    async fn edit_item(&self, request: EditRequest) -> StoreResult<EditOutcome> {
        self.enter("edit_item").await?.edit_item(request).await
    }

    async fn enqueue(
        &self,
        agent: &AgentId,
        reason: Reason,
        delay_ms: i64,
        now: Timestamp,
    ) -> StoreResult<EnqueueOutcome> {
        let inner = self.enter("enqueue").await?;
        inner.enqueue(agent, reason, delay_ms, now).await
    }

    async fn claim(&self, claim: ClaimRequest) -> StoreResult<Vec<Lease>> {
        self.enter("claim").await?.claim(claim).await
    }

    async fn renew(&self, leases: &[Lease], now: Timestamp, lease_ms: i64) -> StoreResult<Vec<i64>> {
        self.enter("renew").await?.renew(leases, now, lease_ms).await
    }

    async fn material(&self, lease: &Lease, limits: MaterialLimits) -> StoreResult<Material> {
        self.enter("material").await?.material(lease, limits).await
    }

    async fn journalled(&self, agent: &AgentId, key: &str) -> StoreResult<Option<JournalledAnswer>> {
        self.enter("journalled").await?.journalled(agent, key).await
    }

    async fn journalled_among(&self, agent: &AgentId, keys: &[String]) -> StoreResult<Vec<String>> {
        self.enter("journalled_among").await?.journalled_among(agent, keys).await
    }

    async fn journal(
        &self,
        agent: &AgentId,
        key: &str,
        answer: &JournalledAnswer,
        now: Timestamp,
    ) -> StoreResult<()> {
        self.enter("journal").await?.journal(agent, key, answer, now).await
    }

    async fn complete(&self, lease: &Lease, patch: Patch) -> StoreResult<Completion> {
        self.enter("complete").await?.complete(lease, patch).await
    }

    async fn age_document(&self, lease: &Lease, patch: Patch) -> StoreResult<bool> {
        let inner = self.enter("age_document").await?;
        inner.age_document(lease, patch).await
    }

    async fn settle(&self, lease: &Lease, settle: Settle) -> StoreResult<Completion> {
        self.enter("settle").await?.settle(lease, settle).await
    }

    async fn fail(&self, lease: &Lease, failure: Failure) -> StoreResult<bool> {
        self.enter("fail").await?.fail(lease, failure).await
    }

    async fn release(&self, leases: &[Lease], now: Timestamp) -> StoreResult<u64> {
        self.enter("release").await?.release(leases, now).await
    }

    async fn postpone(&self, lease: &Lease, postponement: Postponement) -> StoreResult<()> {
        self.enter("postpone").await?.postpone(lease, postponement).await
    }

    async fn record_run(&self, lease: &Lease, run: RunRecord) -> StoreResult<()> {
        self.enter("record_run").await?.record_run(lease, run).await
    }

    async fn resume(&self, whom: Resume, now: Timestamp) -> StoreResult<u64> {
        self.enter("resume").await?.resume(whom, now).await
    }

    async fn spending(&self, agent: &AgentId, since: Timestamp) -> StoreResult<Spending> {
        self.enter("spending").await?.spending(agent, since).await
    }

    async fn paused(&self, agent: &AgentId) -> StoreResult<Option<SpendPause>> {
        self.enter("paused").await?.paused(agent).await
    }

    async fn enqueue_revisits(&self, now: Timestamp, limit: i64) -> StoreResult<u64> {
        self.enter("enqueue_revisits").await?.enqueue_revisits(now, limit).await
    }

    async fn next_due_ms(&self, now: Timestamp) -> StoreResult<Option<i64>> {
        self.enter("next_due_ms").await?.next_due_ms(now).await
    }

    async fn disclaim(&self, leases: &[Lease]) -> StoreResult<u64> {
        self.enter("disclaim").await?.disclaim(leases).await
    }

    async fn reclaim(&self, owner: &str, now: Timestamp) -> StoreResult<u64> {
        self.enter("reclaim").await?.reclaim(owner, now).await
    }

    async fn set_back(&self, ahead_ms: Option<i64>, now: Timestamp) -> StoreResult<u64> {
        self.enter("set_back").await?.set_back(ahead_ms, now).await
    }

    async fn reconcile(&self, pending_before: Timestamp, now: Timestamp) -> StoreResult<u64> {
        self.enter("reconcile").await?.reconcile(pending_before, now).await
    }

    async fn probe_parked(
        &self,
        parked_before: Timestamp,
        attempts_max: i64,
        now: Timestamp,
    ) -> StoreResult<u64> {
        self.enter("probe_parked").await?.probe_parked(parked_before, attempts_max, now).await
    }

    async fn enqueue_ageing(&self, now: Timestamp, limit: i64) -> StoreResult<u64> {
        self.enter("enqueue_ageing").await?.enqueue_ageing(now, limit).await
    }

    async fn take_slot(&self, name: &str, slot: Timestamp, now: Timestamp) -> StoreResult<Slot> {
        self.enter("take_slot").await?.take_slot(name, slot, now).await
    }

    async fn finish_slot(&self, name: &str, slot: Timestamp, now: Timestamp) -> StoreResult<()> {
        self.enter("finish_slot").await?.finish_slot(name, slot, now).await
    }

    async fn prune(&self, prune: Prune) -> StoreResult<u64> {
        self.enter("prune").await?.prune(prune).await
    }

    async fn sample(&self, now: Timestamp, window_ms: i64) -> StoreResult<Sample> {
        self.enter("sample").await?.sample(now, window_ms).await
    }

    async fn verify(&self, agent: &AgentId) -> StoreResult<AgentReport> {
        self.enter("verify").await?.verify(agent).await
    }

    async fn verify_deep(&self, agent: &AgentId) -> StoreResult<AgentReport> {
        self.enter("verify_deep").await?.verify_deep(agent).await
    }

    async fn ping(&self) -> StoreResult<()> {
        self.enter("ping").await?.ping().await
    }
}
