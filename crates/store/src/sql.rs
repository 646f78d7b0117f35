//! Implements the store in SQL. Each operation is written once for both databases. [`statement`], [`value`], [`super::sqlite`]
//! and [`super::postgres`] hold what differs between them.

mod access;
pub(super) mod agent;
mod append;
mod archive;
mod audit;
mod batch;
mod calibration;
mod complete;
pub(super) mod connection;
mod database;
mod database_totals;
pub(super) mod direct;
mod edit;
mod exchange;
mod facts;
mod fairness;
mod forget;
mod fork;
mod hold;
mod inbox;
mod lineage;
mod operate;
mod pending;
mod project;
mod prune;
pub(super) mod query;
pub(super) mod queue;
mod rebuild;
pub(super) mod recall;
mod recount;
mod revise;
mod revision_plan;
mod rollback;
mod row;
mod schedule;
mod seal;
mod session;
mod spending;
pub(super) mod statement;
mod summary;
mod totals;
pub(super) mod value;
mod verify;
mod version;
mod withdrawals;
use super::{
    AgentRow, Ancestor, AppendOutcome, AppendRequest, AppendRules, ClaimRequest, Completion, DeleteStep,
    EditOutcome, EditRequest, EnqueueOutcome, ExchangeQuery, ExpandedExchange, FactEdited, FactQuery,
    FactRequest, FactRow, Failure, Forget, ForgetStep, Forgotten, ForkOutcome, ItemQuery, ItemRow,
    JournalledAnswer, KeptCalibration, Material, MaterialLimits, MessageRange, NoteQuery, Patch, Pins,
    Postponement, ProjectFigures, ProjectRow, ProjectStamp, Prune, RebuildRequest, Recount, RecountBatch,
    RecountOutcome, Resume, RevisionOutcome, RollbackRequest, RunRecord, SaidMessage, Sample, SearchHits,
    SessionEnded, Settle, Slot, SpendPause, Spending, Store, StoreResult, StoredExchange, StoredMessage,
    SummaryRow, Version, VersionFigures, VersionQuery,
    sqlite::WriteSize,
    verify::{AgentReport, Depth},
};
use async_trait::async_trait;
pub(super) use connection::{Connection, DriverConnection};
pub(super) use database::Lock;
pub use database::{Connections, DatabaseSettings, SqlStore};
pub(super) use query::{insert, query, query_made};
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
use revision_plan::{RevisionRequest, revise};
pub(super) use statement::sql;
use std::collections::HashMap;
pub(super) use value::{Row, Value};

#[async_trait]
impl Store for SqlStore {
    async fn append(&self, request: AppendRequest) -> StoreResult<AppendOutcome> {
        let agent = request.agent.clone();
        self.write(Lock::Agent(agent), move |tx| Box::pin(append::append(tx, request, false))).await
    }

    async fn known_payloads(&self, agent: &AgentId, ids: &[&str]) -> StoreResult<HashMap<String, String>> {
        append::stored_payloads(&mut self.reader().await?, agent, ids).await
    }

    async fn rewind(&self, request: AppendRequest) -> StoreResult<AppendOutcome> {
        let agent = request.agent.clone();
        self.write_sized(Lock::Agent(agent), WriteSize::Unbounded, move |tx| {
            Box::pin(append::append(tx, request, true))
        })
        .await
    }

    async fn fork(&self, parent: &AgentId, child: &AgentId, now: Timestamp) -> StoreResult<ForkOutcome> {
        let (parent, child) = (parent.clone(), child.clone());
        self.write(Lock::Parent(parent.clone()), move |tx| Box::pin(fork::fork(tx, parent, child, now))).await
    }

    async fn ancestors(&self, agent: &AgentId) -> StoreResult<Vec<Ancestor>> {
        fork::ancestors(&mut self.snapshot().await?, agent).await
    }

    async fn pins(&self, agent: &AgentId, limit: i64) -> StoreResult<Pins> {
        lineage::pins::load(&mut self.snapshot().await?, agent, limit).await
    }

    async fn notes(&self, agent: &AgentId, query: &NoteQuery) -> StoreResult<Vec<Note>> {
        lineage::notes::list(&mut self.snapshot().await?, agent, query).await
    }

    async fn end_session(&self, agent: &AgentId, now: Timestamp) -> StoreResult<SessionEnded> {
        let agent = agent.clone();
        self.write(Lock::Agent(agent.clone()), move |tx| {
            Box::pin(async move { session::end_session(tx, &agent, now).await })
        })
        .await
    }

    async fn change_settings(
        &self,
        agent: &AgentId,
        patch: &SettingsPatch,
        now: Timestamp,
    ) -> StoreResult<AgentSettings> {
        let (agent, patch) = (agent.clone(), patch.clone());
        self.write(Lock::Agent(agent.clone()), move |tx| {
            Box::pin(async move { agent::change_settings(tx, &agent, &patch, now).await })
        })
        .await
    }

    async fn begin_recount(&self, agent: &AgentId) -> StoreResult<()> {
        let agent = agent.clone();
        self.write(Lock::Agent(agent.clone()), move |tx| {
            Box::pin(async move { recount::begin(tx, &agent).await })
        })
        .await
    }

    async fn recounts_due(&self, limit: i64) -> StoreResult<Vec<AgentId>> {
        recount::due(&mut self.reader().await?, limit).await
    }

    async fn recount_batch(&self, agent: &AgentId, messages_max: i64) -> StoreResult<Option<RecountBatch>> {
        recount::batch(&mut self.snapshot().await?, agent, messages_max).await
    }

    async fn recount(&self, request: Recount) -> StoreResult<Option<RecountOutcome>> {
        let agent = request.agent.clone();
        self.write_sized(Lock::Agent(agent), WriteSize::Unbounded, move |tx| {
            Box::pin(recount::recount(tx, request))
        })
        .await
    }

    async fn calibrations(&self) -> StoreResult<Vec<KeptCalibration>> {
        calibration::load(&mut self.reader().await?).await
    }

    async fn keep_calibrations(&self, calibrations: Vec<KeptCalibration>, now: Timestamp) -> StoreResult<()> {
        self.write(Lock::Calibrations, move |tx| Box::pin(calibration::keep(tx, calibrations, now))).await
    }

    async fn agent(&self, agent: &AgentId) -> StoreResult<Option<AgentRow>> {
        agent::load_counted(&mut self.reader().await?, agent).await
    }

    async fn agents(&self, after: Option<&AgentId>, limit: i64) -> StoreResult<Vec<AgentRow>> {
        agent::list(&mut self.reader().await?, after, limit).await
    }

    async fn exchanges(&self, agent: &AgentId, query: ExchangeQuery) -> StoreResult<Vec<StoredExchange>> {
        exchange::load(&mut self.snapshot().await?, agent, query).await
    }

    async fn count_exchanges(&self, agent: &AgentId, from: i64, through: i64) -> StoreResult<i64> {
        exchange::count(&mut self.reader().await?, agent, from, through).await
    }

    async fn landmarks(&self, agent: &AgentId, token_offsets: &[i64]) -> StoreResult<Vec<CutPoint>> {
        exchange::landmarks(&mut self.reader().await?, agent, token_offsets).await
    }

    async fn session_start(&self, agent: &AgentId, session: i64) -> StoreResult<Option<i64>> {
        exchange::session_start(&mut self.reader().await?, agent, session).await
    }

    async fn has_evicted(&self, agent: &AgentId) -> StoreResult<bool> {
        exchange::has_evicted(&mut self.reader().await?, agent).await
    }

    async fn last_said(&self, agent: &AgentId, limit: i64) -> StoreResult<Vec<SaidMessage>> {
        exchange::last_said(&mut self.reader().await?, agent, limit).await
    }

    async fn search(&self, agent: &AgentId, search: &ArchiveSearch) -> StoreResult<Option<SearchHits>> {
        self.past_found(|mut tx| async move { recall::search(&mut tx, agent, search).await }).await
    }

    async fn expand(
        &self,
        agent: &AgentId,
        exchange: i64,
        range: MessageRange,
    ) -> StoreResult<Option<ExpandedExchange>> {
        if range.is_current {
            return recall::expand(&mut self.snapshot().await?, agent, exchange, range).await;
        }
        self.past_found(|mut tx| async move { recall::expand(&mut tx, agent, exchange, range).await }).await
    }

    async fn request_of(&self, agent: &AgentId, exchange: i64) -> StoreResult<Option<StoredMessage>> {
        recall::request_of(&mut self.snapshot().await?, agent, exchange).await
    }

    async fn legs(&self, agent: &AgentId, exchange: i64) -> StoreResult<Vec<Exchange>> {
        recall::legs(&mut self.snapshot().await?, agent, exchange).await
    }

    async fn index_messages(&self, messages_max: i64) -> StoreResult<i64> {
        recall::index(self, messages_max).await
    }

    async fn seal_rows(&self, rows_max: i64) -> StoreResult<i64> {
        seal::seal_rows(self, rows_max).await
    }

    async fn begin_forget(&self, request: &Forget) -> StoreResult<Forgotten> {
        forget::run::begin_forget(self, request).await
    }

    async fn forget_some(&self, request: &Forget) -> StoreResult<ForgetStep> {
        forget::run::forget_some(self, request.clone()).await
    }

    async fn forgettings_due(&self, limit: i64) -> StoreResult<Vec<AgentId>> {
        forget::plan::due(&mut self.reader().await?, limit).await
    }

    async fn forgettings_left(&self, agent: &AgentId) -> StoreResult<i64> {
        forget::plan::count_left(&mut self.reader().await?, agent).await
    }

    async fn settle_totals(
        &self,
        agent: &AgentId,
        rules: &AppendRules,
        now: Timestamp,
    ) -> StoreResult<Option<RecountOutcome>> {
        forget::run::settle_totals(self, agent, rules, now).await
    }

    async fn totals_due(&self, limit: i64) -> StoreResult<Vec<AgentId>> {
        totals::due(&mut self.reader().await?, limit).await
    }

    async fn begin_delete(&self, agent: &AgentId, now: Timestamp) -> StoreResult<()> {
        forget::run::begin_delete(self, agent.clone(), now).await
    }

    async fn delete_some(&self, agent: &AgentId) -> StoreResult<DeleteStep> {
        forget::run::delete_some(self, agent.clone()).await
    }

    async fn deletions_due(&self, limit: i64) -> StoreResult<Vec<AgentId>> {
        forget::delete::due(&mut self.reader().await?, limit).await
    }

    async fn scrub(&self) -> bool {
        self.scrub_after().await
    }

    async fn summary(&self, agent: &AgentId) -> StoreResult<Option<SummaryRow>> {
        summary::read(&mut self.snapshot().await?, agent).await
    }

    async fn summary_of_step(&self, agent: &AgentId) -> StoreResult<Option<SummaryRow>> {
        summary::of_step(&mut self.snapshot().await?, agent).await
    }

    async fn versions(&self, agent: &AgentId, query: VersionQuery) -> StoreResult<Vec<VersionFigures>> {
        self.past(|mut tx| async move { version::list(&mut tx, agent, query).await }).await
    }

    async fn version(&self, agent: &AgentId, version: i64) -> StoreResult<Option<Version>> {
        self.past_found(|mut tx| async move { version::load(&mut tx, agent, version).await }).await
    }

    async fn roll_back(&self, request: RollbackRequest) -> StoreResult<RevisionOutcome> {
        revise(self, RevisionRequest::Rollback(request)).await
    }

    async fn rebuild(&self, request: RebuildRequest) -> StoreResult<RevisionOutcome> {
        revise(self, RevisionRequest::Rebuild(request)).await
    }

    async fn withdraw_some(&self, agent: &AgentId) -> StoreResult<bool> {
        withdrawals::write_some(self, agent).await
    }

    async fn withdrawals_due(&self, limit: i64) -> StoreResult<Vec<AgentId>> {
        withdrawals::due(&mut self.reader().await?, limit).await
    }

    async fn items(&self, agent: &AgentId, query: ItemQuery) -> StoreResult<Vec<ItemRow>> {
        edit::list(&mut self.reader().await?, agent, query).await
    }

    async fn facts(&self, agent: &AgentId, query: FactQuery) -> StoreResult<Vec<FactRow>> {
        facts::list(&mut self.reader().await?, agent, query).await
    }

    async fn change_fact(&self, request: FactRequest) -> StoreResult<FactEdited> {
        let agent = request.agent.clone();
        self.write(Lock::Agent(agent), move |tx| Box::pin(facts::change(tx, request))).await
    }

    async fn edit_item(&self, request: EditRequest) -> StoreResult<EditOutcome> {
        let agent = request.agent.clone();
        self.write(Lock::Agent(agent), move |tx| Box::pin(edit::edit(tx, request))).await
    }

    async fn set_project(
        &self,
        agent: &AgentId,
        project: Option<&ProjectId>,
        now: Timestamp,
    ) -> StoreResult<()> {
        let (agent, project) = (agent.clone(), project.cloned());
        self.write(Lock::Agent(agent.clone()), move |tx| {
            Box::pin(async move { project::set(tx, &agent, project, now).await })
        })
        .await
    }

    async fn projects(&self, after: Option<&ProjectId>, limit: i64) -> StoreResult<Vec<ProjectFigures>> {
        self.past(|mut tx| async move { project::list(&mut tx, after.cloned(), limit).await }).await
    }

    async fn project_stamp(&self, project: &ProjectId) -> StoreResult<Option<ProjectStamp>> {
        project::stamp(&mut self.reader().await?, project).await
    }

    async fn project(&self, project: &ProjectId) -> StoreResult<Option<(ProjectStamp, ProjectRow)>> {
        project::load(&mut self.snapshot().await?, project).await
    }

    async fn enqueue(
        &self,
        agent: &AgentId,
        reason: Reason,
        delay_ms: i64,
        now: Timestamp,
    ) -> StoreResult<EnqueueOutcome> {
        let agent = agent.clone();
        self.write(Lock::Nothing, move |tx| {
            let wake = queue::Wake { reason, delay_ms, revive_after_ms: 0, now };
            Box::pin(async move { queue::enqueue(tx, &agent, wake).await })
        })
        .await
    }

    async fn claim(&self, claim: ClaimRequest) -> StoreResult<Vec<Lease>> {
        if let Some(postgres) = self.postgres() {
            return postgres.claim(&claim).await;
        }
        // An idle daemon polls: this read avoids a write transaction while nothing is due.
        if !queue::is_any_due(&mut self.reader().await?, claim.now).await? {
            return Ok(Vec::new());
        }
        self.write(Lock::Nothing, move |tx| Box::pin(queue::claim(tx, claim))).await
    }

    async fn next_due_ms(&self, now: Timestamp) -> StoreResult<Option<i64>> {
        queue::next_due_ms(&mut self.reader().await?, now).await
    }

    async fn renew(&self, leases: &[Lease], now: Timestamp, lease_ms: i64) -> StoreResult<Vec<i64>> {
        let leases = leases.to_vec();
        self.write(Lock::Nothing, move |tx| Box::pin(queue::renew(tx, leases, now, lease_ms))).await
    }

    async fn material(&self, lease: &Lease, limits: MaterialLimits) -> StoreResult<Material> {
        summary::material(&mut self.snapshot().await?, &lease.agent, limits).await
    }

    async fn journalled(&self, agent: &AgentId, key: &str) -> StoreResult<Option<JournalledAnswer>> {
        summary::load_journalled(&mut self.reader().await?, agent, key).await
    }

    async fn journalled_among(&self, agent: &AgentId, keys: &[String]) -> StoreResult<Vec<String>> {
        summary::journalled_among(&mut self.reader().await?, agent, keys).await
    }

    async fn journal(
        &self,
        agent: &AgentId,
        key: &str,
        answer: &JournalledAnswer,
        now: Timestamp,
    ) -> StoreResult<()> {
        let (agent, key, answer) = (agent.clone(), key.to_owned(), answer.clone());
        self.write(Lock::Agent(agent.clone()), move |tx| {
            Box::pin(summary::journal(tx, agent, key, answer, now))
        })
        .await
    }

    async fn complete(&self, lease: &Lease, patch: Patch) -> StoreResult<Completion> {
        let lease = lease.clone();
        self.write(Lock::Agent(lease.agent.clone()), move |tx| Box::pin(complete::complete(tx, lease, patch)))
            .await
    }

    async fn age_document(&self, lease: &Lease, patch: Patch) -> StoreResult<bool> {
        let lease = lease.clone();
        self.write(Lock::Agent(lease.agent.clone()), move |tx| {
            Box::pin(complete::age_document(tx, lease, patch))
        })
        .await
    }

    async fn settle(&self, lease: &Lease, settle: Settle) -> StoreResult<Completion> {
        if let Some(postgres) = self.postgres()
            && let Some(completed) =
                complete::settle_at_once(&mut postgres.reader().await?, lease, &settle).await?
        {
            return Ok(completed);
        }
        let lease = lease.clone();
        self.write(Lock::Agent(lease.agent.clone()), move |tx| Box::pin(complete::settle(tx, lease, settle)))
            .await
    }

    async fn fail(&self, lease: &Lease, failure: Failure) -> StoreResult<bool> {
        let lease = lease.clone();
        self.write(Lock::Agent(lease.agent.clone()), move |tx| Box::pin(queue::fail(tx, lease, failure)))
            .await
    }

    async fn release(&self, leases: &[Lease], now: Timestamp) -> StoreResult<u64> {
        let leases = leases.to_vec();
        self.write(Lock::Nothing, move |tx| Box::pin(queue::release(tx, leases, now))).await
    }

    async fn postpone(&self, lease: &Lease, postponement: Postponement) -> StoreResult<()> {
        let lease = lease.clone();
        self.write(Lock::Agent(lease.agent.clone()), move |tx| {
            Box::pin(spending::postpone(tx, lease, postponement))
        })
        .await
    }

    async fn record_run(&self, lease: &Lease, run: RunRecord) -> StoreResult<()> {
        let lease = lease.clone();
        self.write(Lock::Agent(lease.agent.clone()), move |tx| Box::pin(spending::record_run(tx, lease, run)))
            .await
    }

    async fn resume(&self, kind: Resume, now: Timestamp) -> StoreResult<u64> {
        self.write(Lock::Nothing, move |tx| Box::pin(spending::resume(tx, kind, now))).await
    }

    async fn spending(&self, agent: &AgentId, since: Timestamp) -> StoreResult<Spending> {
        spending::spending(&mut self.snapshot().await?, agent, since).await
    }

    async fn paused(&self, agent: &AgentId) -> StoreResult<Option<SpendPause>> {
        spending::paused_agent(&mut self.reader().await?, agent).await
    }

    async fn enqueue_revisits(&self, now: Timestamp, limit: i64) -> StoreResult<u64> {
        self.write(Lock::Nothing, move |tx| Box::pin(spending::enqueue_revisits(tx, now, limit))).await
    }

    async fn disclaim(&self, leases: &[Lease]) -> StoreResult<u64> {
        let leases = leases.to_vec();
        self.write(Lock::Nothing, move |tx| Box::pin(queue::disclaim(tx, leases))).await
    }

    async fn reclaim(&self, owner: &str, now: Timestamp) -> StoreResult<u64> {
        let owner = owner.to_owned();
        self.write(Lock::Nothing, move |tx| Box::pin(queue::reclaim(tx, owner, now))).await
    }

    async fn set_back(&self, ahead_ms: Option<i64>, now: Timestamp) -> StoreResult<u64> {
        self.write(Lock::Nothing, move |tx| Box::pin(queue::set_back(tx, ahead_ms, now))).await
    }

    async fn reconcile(&self, pending_before: Timestamp, now: Timestamp) -> StoreResult<u64> {
        queue::reconcile(self, pending_before, now).await
    }

    async fn probe_parked(
        &self,
        parked_before: Timestamp,
        attempts_max: i64,
        now: Timestamp,
    ) -> StoreResult<u64> {
        self.write(Lock::Nothing, move |tx| {
            Box::pin(queue::probe_parked(tx, parked_before, attempts_max, now))
        })
        .await
    }

    async fn enqueue_ageing(&self, now: Timestamp, limit: i64) -> StoreResult<u64> {
        self.write(Lock::Nothing, move |tx| Box::pin(schedule::enqueue_ageing(tx, now, limit))).await
    }

    async fn take_slot(&self, name: &str, slot: Timestamp, now: Timestamp) -> StoreResult<Slot> {
        let name = name.to_owned();
        self.write(Lock::Nothing, move |tx| Box::pin(schedule::take_slot(tx, name, slot, now))).await
    }

    async fn finish_slot(&self, name: &str, slot: Timestamp, now: Timestamp) -> StoreResult<()> {
        let name = name.to_owned();
        self.write(Lock::Nothing, move |tx| Box::pin(schedule::finish_slot(tx, name, slot, now))).await
    }

    async fn prune(&self, prune: Prune) -> StoreResult<u64> {
        prune::prune(self, prune).await
    }

    async fn sample(&self, now: Timestamp, window_ms: i64) -> StoreResult<Sample> {
        self.past(|mut tx| async move { schedule::sample(&mut tx, now, window_ms).await }).await
    }

    async fn verify(&self, agent: &AgentId) -> StoreResult<AgentReport> {
        verify::verify(&mut self.snapshot().await?, agent, Depth::Plain).await
    }

    async fn verify_deep(&self, agent: &AgentId) -> StoreResult<AgentReport> {
        verify::verify(&mut self.snapshot().await?, agent, Depth::Deep).await
    }

    async fn ping(&self) -> StoreResult<()> {
        self.check_writable()?;
        database::ping(&mut self.reader().await?).await
    }
}
