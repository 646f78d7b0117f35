//! Plans rollbacks and rebuilds from a snapshot, so that the writer, for which all writes wait, only writes.
//!
//! A plan reads an amount that grows with the agent's history, but writes only the document's items, a version and the watermark.
//! Other removed items are marked in their rows later ([`withdrawals`]). A plan is applied only if the agent hasn't changed
//! since. Otherwise a new plan is made; after some tries it is made within the transaction.

use crate::sql::{Connection, Lock, SqlStore, query, sql};

use super::{
    super::{AgentRow, RebuildRequest, RevisionOutcome, RollbackRequest, StoreResult, sqlite::WriteSize},
    agent, hold, lineage, queue, rebuild, recount,
    revise::{self, ComposedVersion, Revision, RevisionDraft},
    rollback, row,
    withdrawals::{self, RemovedItems},
};
use recapd_core::domain::{
    agent::AgentId,
    journal::ItemRecord,
    summary::{compaction::SummaryPolicy, item::Item, state::FactUpdate, version::VersionKind},
    time::Timestamp,
    work::Reason,
};
use recapd_platform::threads;

/// After this many plans, the next plan is made within the transaction, where the agent can't change.
const PLANS_MAX: usize = 3;

#[derive(Clone, Debug)]
pub(super) enum RevisionRequest {
    Rollback(RollbackRequest),
    Rebuild(RebuildRequest),
}

/// The state of the agent from which a plan starts.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlanBasis {
    pub(super) row: AgentRow,
    /// The newest version. Readers may still get an earlier one.
    version: Option<i64>,
    forgotten_at: Option<Timestamp>,
    recount_before: Option<i64>,
    /// True if items removed by an earlier version aren't marked in their rows yet.
    has_withdrawals: bool,
}

impl PlanBasis {
    async fn read(tx: &mut Connection, agent: &AgentId) -> StoreResult<Self> {
        let row = agent::load_known(tx, agent).await?;
        let sql = sql!(
            "-- sql/revision_plan.basis\nSELECT s.version, a.forgotten_at, a.recount_before FROM agents a \
                   LEFT JOIN summaries s ON s.agent_id = a.agent_id WHERE a.agent_id = $1"
        );
        let found = query(sql).bind(agent.as_str()).fetch_one(&mut *tx).await?;
        Ok(Self {
            row,
            version: found.try_get(0)?,
            forgotten_at: row::time(&found, 1)?,
            recount_before: found.try_get(2)?,
            has_withdrawals: withdrawals::recorded(tx, agent).await?.is_some(),
        })
    }
}

#[derive(Clone, Debug)]
pub(super) struct RevisionPlan {
    pub(super) basis: PlanBasis,
    pub(super) kind: VersionKind,
    pub(super) policy: SummaryPolicy,
    pub(super) now: Timestamp,
    /// The last exchange that the version covers.
    pub(super) through: i64,
    pub(super) removed: RemovedItems,
    /// New items for the document.
    pub(super) added: Vec<Item>,
    /// True if digests that a model will condense are among `added`.
    pub(super) has_digests: bool,
    /// New items that cover their exchanges but don't appear in the document.
    pub(super) hidden: Vec<Item>,
    /// Records of a fork's inherited items. The first items of `added` are copies of these.
    pub(super) inherited: Vec<ItemRecord>,
    /// How many items are restored.
    pub(super) restored: i64,
    pub(super) facts: FactUpdate,
    /// How many exchanges the version covers that weren't covered before.
    pub(super) gained: i64,
    /// How many exchanges were covered before and won't be.
    pub(super) uncovered: i64,
}

/// See [`super::super::Store::roll_back`] and [`super::super::Store::rebuild`].
pub(super) async fn revise(store: &SqlStore, request: RevisionRequest) -> StoreResult<RevisionOutcome> {
    let lock = Lock::Agent(request.agent().clone());
    for _ in 0..PLANS_MAX {
        while withdrawals::write_some(store, request.agent()).await? {}
        let mut snapshot = store.snapshot().await?;
        let plan = request.plan(&mut snapshot).await?;
        let composed = plan.compose(snapshot).await?;
        let write = store.write_sized(lock.clone(), WriteSize::Unbounded, move |tx| {
            Box::pin(plan.apply_if_current(tx, composed))
        });
        if let Some(revised) = Box::pin(write).await? {
            return Ok(revised);
        }
    }
    store
        .write_sized(lock, WriteSize::Unbounded, move |tx| {
            Box::pin(async move {
                withdrawals::write_rest(tx, request.agent()).await?;
                request.plan(tx).await?.apply(tx, None).await
            })
        })
        .await
}

impl RevisionRequest {
    fn agent(&self) -> &AgentId {
        match self {
            Self::Rollback(request) => &request.agent,
            Self::Rebuild(request) => &request.agent,
        }
    }

    async fn plan(&self, tx: &mut Connection) -> StoreResult<RevisionPlan> {
        let basis = PlanBasis::read(tx, self.agent()).await?;
        match self {
            Self::Rollback(request) => rollback::plan(tx, request, basis).await,
            Self::Rebuild(request) => rebuild::plan(tx, request, basis).await,
        }
    }
}

impl RevisionPlan {
    fn revision(&self) -> Revision {
        let (through, covered_through) = (self.through, self.basis.row.ledger.summarized_through);
        Revision {
            agent: self.basis.row.agent.clone(),
            kind: self.kind,
            through,
            gains: (through > covered_through).then_some((covered_through, self.gained)),
            removed: self.removed.shown.clone(),
            added: self.added.clone(),
            hidden: self.hidden.clone(),
            facts: self.facts.clone(),
            policy: self.policy,
            as_of: self.basis.row.as_of.unwrap_or(self.now),
            now: self.now,
        }
    }

    /// Composes the version from the plan's snapshot; `None` if the agent's row of `summaries` is missing.
    async fn compose(&self, mut snapshot: Connection) -> StoreResult<Option<ComposedVersion>> {
        if self.basis.version.is_none() {
            return Ok(None);
        }
        let draft = RevisionDraft::read(&mut snapshot, self.revision()).await?;
        drop(snapshot);
        Ok(Some(threads::computed("composing a version", || draft.compose()).await?))
    }

    /// Returns `None`, and changes nothing, if the agent has changed since.
    async fn apply_if_current(
        self,
        tx: &mut Connection,
        composed: Option<ComposedVersion>,
    ) -> StoreResult<Option<RevisionOutcome>> {
        if self.basis.has_withdrawals || PlanBasis::read(tx, &self.basis.row.agent).await? != self.basis {
            return Ok(None);
        }
        self.apply(tx, composed).await.map(Some)
    }

    async fn apply(
        self,
        tx: &mut Connection,
        composed: Option<ComposedVersion>,
    ) -> StoreResult<RevisionOutcome> {
        let (agent, now, through) = (self.basis.row.agent.clone(), self.now, self.through);
        let covered_through = self.basis.row.ledger.summarized_through;
        let is_rebuild = self.kind == VersionKind::Rebuild;
        if is_rebuild {
            rebuild::mend(tx, &agent, now).await?;
            hold::begin(tx, &agent).await?;
        } else {
            hold::release(tx, &agent, 0, true).await?;
        }
        let boundary = revise::move_watermark(tx, &agent, through, now).await?;
        let is_pending = boundary > through + 1;
        let new_version = revise::write(tx, self.revision(), composed.as_ref()).await?;
        withdrawals::note(tx, &agent, new_version.version, &self.removed.hidden, is_rebuild).await?;
        if is_rebuild {
            rebuild::note_sources(tx, &agent, &self.inherited, new_version).await?;
            rebuild::seal_removed(tx, &agent, new_version.version).await?;
            hold::release(tx, &agent, through, !is_pending).await?;
        }
        if through < covered_through {
            // Exchanges that are no longer covered may need a recount.
            recount::begin_again(tx, &agent).await?;
        }
        lineage::void_lease(tx, &agent, now).await?;
        let enqueued = if is_pending || self.has_digests {
            let wake = queue::Wake::at_once(Reason::Manual, now);
            Some(queue::enqueue(tx, &agent, wake).await?)
        } else {
            None
        };
        Ok(RevisionOutcome {
            version: new_version.version,
            covers_through: through,
            uncovered: self.uncovered,
            restored: self.restored,
            removed: self.removed.count,
            edited: self.removed.edited,
            enqueued,
        })
    }
}
