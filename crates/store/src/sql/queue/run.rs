//! Records an attempt: its row in the table of runs, and its cost.

use crate::{
    AttemptError, ERROR_CHARS_MAX, RunRecord, StoreResult,
    sql::{Connection, batch, query, sql},
};
use recapd_core::domain::{text::cut, work::Lease};

/// The result of an attempt, which the table of runs stores in addition to the [`RunRecord`].
#[derive(Default)]
pub(crate) struct RunOutcome<'a> {
    pub(crate) path: Option<&'static str>,
    pub(crate) version: Option<i64>,
    /// The watermark before and after the update.
    pub(crate) covers: Option<(i64, i64)>,
    pub(crate) exchanges: i64,
    pub(crate) items_added: i64,
    pub(crate) items_dropped: i64,
    pub(crate) document_tokens: Option<i64>,
    pub(crate) error: Option<&'a AttemptError>,
}

/// Records an attempt. Accounts for the cost of a batch's answer once, even if no update used the answer.
pub(crate) async fn record_run(
    tx: &mut Connection,
    lease: &Lease,
    outcome: &str,
    run: &RunRecord,
    details: RunOutcome<'_>,
) -> StoreResult<()> {
    insert_run(tx, lease, outcome, run, details).await?;
    batch::account(tx, &lease.agent, run).await?;
    batch::account_unused(tx, &lease.agent, run.finished_at).await
}

/// Writes only the row of the attempt.
pub(crate) async fn insert_run(
    tx: &mut Connection,
    lease: &Lease,
    outcome: &str,
    run: &RunRecord,
    details: RunOutcome<'_>,
) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/queue.record_run\nINSERT INTO update_runs (agent_id, lease_token, attempt, trigger_reason, \
               outcome, path, version, covers_after, covers_through, exchanges, items_added, items_dropped, \
               document_tokens, truncated, provider, model, model_calls, input_tokens, output_tokens, error_class, \
               error, started_at, finished_at, cost_microusd, batched) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, \
               $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25)"
    );
    query(sql)
        .bind(lease.agent.as_str())
        .bind(lease.token)
        .bind(lease.attempt)
        .bind(lease.trigger())
        .bind(outcome)
        .bind(details.path)
        .bind(details.version)
        .bind(details.covers.map(|(after, _)| after))
        .bind(details.covers.map(|(_, through)| through))
        .bind(details.exchanges)
        .bind(details.items_added)
        .bind(details.items_dropped)
        .bind(details.document_tokens)
        .bind(run.truncated)
        .bind(run.provider.as_deref())
        .bind(run.model.as_deref())
        .bind(run.model_calls)
        .bind(run.input_tokens)
        .bind(run.output_tokens)
        .bind(details.error.map(|error| error.class.as_str()))
        .bind(details.error.map(|error| cut(&error.message, ERROR_CHARS_MAX)))
        .bind(run.started_at)
        .bind(run.finished_at)
        .bind(run.cost_microusd)
        .bind(run.batched.is_some())
        .execute(&mut *tx)
        .await?;
    Ok(())
}
