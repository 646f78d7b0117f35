//! Runs the transactions of a forgetting.

use super::{
    super::{
        super::{
            AppendRules, DeleteStep, Forget, ForgetStep, Forgotten, RecountOutcome, StoreResult,
            sqlite::WriteSize,
        },
        Lock, SqlStore, recount, totals,
    },
    NextExchanges, choose, delete,
    lighten::lighten,
    plan,
};
use crate::sql::revise::{ComposedVersion, RevisionDraft};
use recapd_core::domain::{agent::AgentId, time::Timestamp};
use recapd_platform::threads;

/// See [`super::super::super::Store::begin_forget`]. Reads what the request names before the write begins.
pub(crate) async fn begin_forget(store: &SqlStore, request: &Forget) -> StoreResult<Forgotten> {
    let (forgotten, entries) = plan::plan(&mut store.snapshot().await?, request).await?;
    if entries.is_empty() {
        return Ok(forgotten);
    }
    let (agent, now) = (request.agent.clone(), request.now);
    store
        .write(Lock::Agent(agent.clone()), move |tx| {
            Box::pin(async move { plan::note(tx, &agent, &entries, now).await })
        })
        .await?;
    Ok(forgotten)
}

/// See [`super::super::super::Store::forget_some`].
pub(crate) async fn forget_some(store: &SqlStore, request: Forget) -> StoreResult<ForgetStep> {
    let lock = Lock::Family(request.agent.clone());
    let mut snapshot = store.snapshot().await?;
    let next = choose(&mut snapshot, &request.agent).await?;
    drop(snapshot);
    let (touched, now) = (next.touched.clone(), request.now);
    let outcome = store
        .write(lock.clone(), move |tx| Box::pin(async move { lighten(tx, &touched, now).await }))
        .await?;
    if !outcome.is_light {
        return Ok(ForgetStep {
            versions: outcome.versions,
            remaining: plan::count_left(&mut store.reader().await?, &request.agent).await?,
            ..ForgetStep::default()
        });
    }
    let composed = compose_next(store, &request, &next).await?;
    let step = store
        .write_sized(lock, WriteSize::Unbounded, move |tx| {
            Box::pin(async move { super::forget_some(tx, &request, &composed).await })
        })
        .await?;
    Ok(ForgetStep { versions: outcome.versions + step.versions, ..step })
}

/// Composes the documents that forgetting these exchanges will write, if nothing changes until then.
async fn compose_next(
    store: &SqlStore,
    request: &Forget,
    next: &NextExchanges,
) -> StoreResult<Vec<ComposedVersion>> {
    let (mut snapshot, mut drafts) = (store.snapshot().await?, Vec::new());
    for purge in next.purges(request, &[]) {
        drafts.extend(purge.draft(&mut snapshot).await?);
    }
    drop(snapshot);
    let compose = || drafts.into_iter().map(RevisionDraft::compose).collect();
    Ok(threads::computed("composing documents", compose).await?)
}

pub(crate) async fn settle_totals(
    store: &SqlStore,
    agent: &AgentId,
    rules: &AppendRules,
    now: Timestamp,
) -> StoreResult<Option<RecountOutcome>> {
    if totals::outdated_after(&mut store.reader().await?, agent).await?.is_none() {
        return Ok(None);
    }
    let (agent, rules) = (agent.clone(), *rules);
    store
        .write(Lock::Agent(agent.clone()), move |tx| {
            Box::pin(async move { recount::settle_totals(tx, &agent, &rules, now).await })
        })
        .await
}

pub(crate) async fn begin_delete(store: &SqlStore, agent: AgentId, now: Timestamp) -> StoreResult<()> {
    store
        .write(Lock::Agent(agent.clone()), move |tx| {
            Box::pin(async move { delete::begin(tx, &agent, now).await })
        })
        .await
}

pub(crate) async fn delete_some(store: &SqlStore, agent: AgentId) -> StoreResult<DeleteStep> {
    store
        .write_sized(Lock::Agent(agent.clone()), WriteSize::Unbounded, move |tx| {
            Box::pin(async move { delete::delete_some(tx, &agent).await })
        })
        .await
}
