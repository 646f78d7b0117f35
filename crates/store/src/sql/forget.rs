//! Forgetting: the one exception to "nothing is lost".
//!
//! A forgotten message becomes a tombstone. Its number, kind and time stay, so that exchanges stay complete and a replay ends in
//! the same state. The same transaction removes everything derived from the message, in every agent that shares it: headlines,
//! counts, items, texts of documents, model answers, words of the index, forks' records. The database overwrites freed pages
//! (`secure_delete`), and the write-ahead log is emptied after the commits.
//!
//! Steps (clears, marks, rewinds, pins) stay, because they are the course of the conversation, not its content. Only their labels
//! are removed ([`labels`]).
//!
//! A request is recorded first ([`plan`]), and then a few exchanges are forgotten at a time: each transaction removes everything
//! about its exchanges and deletes their entries in the record. The new documents are composed before the transaction, from a
//! snapshot, because composing takes longer than all the rest, and everybody waits for the writer. Running totals follow
//! ([`super::totals`]).

pub(super) mod delete;
mod labels;
mod lighten;
mod notes;
pub(super) mod plan;
mod purge;
pub(super) mod run;

use std::collections::{BTreeMap, BTreeSet};

use crate::sql::{Connection, query, sql};

use super::{
    super::{Forget, ForgetStep, StoreResult},
    recall,
    revise::ComposedVersion,
    row, withdrawals,
};
use labels::LabelReplacement;
use plan::ForgettingRow;
use purge::Purge;
use recapd_core::domain::{
    agent::AgentId,
    message::{Kind, tombstone},
    recall::block_of,
};

/// Limits how many exchanges one transaction forgets.
const EXCHANGES_MAX: usize = 24;
/// Limits how many messages one transaction forgets. The first exchange is forgotten even if it has more.
const MESSAGES_MAX: usize = 256;

/// A message that will become a tombstone, with what is needed of its row.
#[derive(Clone, Debug)]
pub(super) struct Tombstone {
    source: AgentId,
    pub(super) seq: i64,
    kind: String,
    pub(super) tokens: i64,
}

/// An agent that shares messages to be forgotten.
#[derive(Clone, Default)]
struct TouchedAgent {
    /// The exchanges of these messages.
    exchanges: BTreeSet<i64>,
    /// The exchanges that a summary may be about: all except preambles.
    summarisable: BTreeSet<i64>,
}

/// What one transaction forgets.
#[derive(Default)]
struct NextExchanges {
    /// The entries of the record that are then done.
    entries: Vec<ForgettingRow>,
    /// Their messages.
    tombstones: Vec<Tombstone>,
    touched: BTreeMap<AgentId, TouchedAgent>,
    /// The labels to replace in each agent.
    labels: BTreeMap<AgentId, Vec<LabelReplacement>>,
}

impl NextExchanges {
    fn purges<'a>(
        &'a self,
        request: &'a Forget,
        composed: &'a [ComposedVersion],
    ) -> impl Iterator<Item = Purge<'a>> {
        self.touched.iter().map(move |(agent, touched)| Purge {
            request,
            agent,
            touched,
            tombstones: &self.tombstones,
            composed,
        })
    }
}

/// See [`crate::Store::forget_some`]. Uses the documents in `composed` if they still fit.
pub(super) async fn forget_some(
    tx: &mut Connection,
    request: &Forget,
    composed: &[ComposedVersion],
) -> StoreResult<ForgetStep> {
    let mut step = ForgetStep::default();
    let next = choose(tx, &request.agent).await?;
    for agent in next.touched.keys() {
        withdrawals::write_rest(tx, agent).await?;
    }
    notes::forget(tx, request, &next).await?;
    write_tombstones(tx, request, &next.tombstones).await?;
    // Inherited items take their texts from their exchanges' headlines at the source, so those come first.
    for purge in next.purges(request, composed) {
        purge.recalculate(tx).await?;
    }
    for purge in next.purges(request, composed) {
        let (items, versions) = purge.run(tx).await?;
        step.items += items;
        step.versions += versions;
    }
    for (agent, labels) in &next.labels {
        labels::replace(tx, agent, labels, request.now).await?;
    }
    plan::strike_off(tx, &request.agent, &next.entries).await?;
    step.remaining = plan::count_left(tx, &request.agent).await?;
    Ok(step)
}

/// Chooses what to forget next: the newest exchanges first, because changing them moves the fewest totals.
async fn choose(tx: &mut Connection, agent: &AgentId) -> StoreResult<NextExchanges> {
    let mut next = NextExchanges::default();
    for entry in plan::next(tx, agent, EXCHANGES_MAX).await? {
        let found = find(tx, &entry).await?;
        let is_too_many = next.tombstones.len() + found.len() > MESSAGES_MAX;
        // The recall index is rewritten block by block. To rewrite only one, all messages must be in the same block.
        let is_elsewhere = |first: &ForgettingRow| block_of(first.first_seq) != block_of(entry.first_seq);
        if next.entries.first().is_some_and(|first| is_too_many || is_elsewhere(first)) {
            break;
        }
        if let Some(first) = found.first() {
            for agent in agents_sharing(tx, &entry.source, first.seq).await? {
                let touched = next.touched.entry(agent).or_default();
                touched.exchanges.insert(entry.exchange);
                if entry.is_summarisable {
                    touched.summarisable.insert(entry.exchange);
                }
            }
        }
        let labels = labels::find(tx, &entry).await?;
        if !labels.is_empty() {
            for agent in agents_sharing(tx, &entry.source, entry.first_seq).await? {
                next.labels.entry(agent).or_default().extend(labels.iter().cloned());
            }
        }
        next.tombstones.extend(found);
        next.entries.push(entry);
    }
    Ok(next)
}

/// Returns those messages of an entry that aren't forgotten yet, in order.
async fn find(tx: &mut Connection, entry: &ForgettingRow) -> StoreResult<Vec<Tombstone>> {
    let sql = sql!(
        "-- sql/forget.find\nSELECT seq, kind, tokens FROM message_log WHERE agent_id = $1 \
               AND seq BETWEEN $2 AND $3 AND exchange = $4 AND forgotten_at IS NULL \
               AND kind NOT IN ('clear', 'mark', 'rewind', 'pin', 'unpin') ORDER BY seq"
    );
    let found = query(sql)
        .bind(entry.source.as_str())
        .bind(entry.first_seq)
        .bind(entry.last_seq)
        .bind(entry.exchange)
        .fetch_all(tx)
        .await?;
    let tombstones = found.iter().map(|row| {
        Ok(Tombstone {
            source: entry.source.clone(),
            seq: row.try_get(0)?,
            kind: row.try_get(1)?,
            tokens: row.try_get(2)?,
        })
    });
    tombstones.collect()
}

/// Turns messages into tombstones, and removes their words from the index. Keeps their client ids, so that the same messages are
/// recognised as duplicates when they are sent again.
async fn write_tombstones(
    tx: &mut Connection,
    request: &Forget,
    tombstones: &[Tombstone],
) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/forget.bury\nUPDATE message_log SET payload = $3, format = 'native', tokens = 0, \
               speaker = NULL, salt = NULL, forgotten_at = $4 WHERE agent_id = $1 \
               AND seq IN (SELECT CAST(value AS bigint) FROM {each}($2{::jsonb}))"
    );
    let (mut seqs_by_kind, mut seqs_by_source): (BTreeMap<_, Vec<i64>>, BTreeMap<_, Vec<i64>>) =
        Default::default();
    for message in tombstones {
        let kind = (&message.source, message.kind.as_str());
        seqs_by_kind.entry(kind).or_default().push(message.seq);
        seqs_by_source.entry(&message.source).or_default().push(message.seq);
    }
    for ((source, kind), seqs) in seqs_by_kind {
        query(sql)
            .bind(source.as_str())
            .bind(serde_json::json!(seqs).to_string())
            .bind(tombstone(&Kind::from_name(kind)))
            .bind(request.now)
            .execute(&mut *tx)
            .await?;
    }
    for (source, seqs) in seqs_by_source {
        recall::forget(tx, source, &seqs).await?;
        recall::forget_vectors(tx, source, &seqs).await?;
    }
    Ok(())
}

/// Returns the agents that share the messages of `source` from number `seq` on: `source` itself and the agents forked since.
async fn agents_sharing(tx: &mut Connection, source: &AgentId, seq: i64) -> StoreResult<Vec<AgentId>> {
    let sql = sql!(
        "-- sql/forget.sharers\nWITH RECURSIVE family (agent_id) AS (SELECT agent_id FROM agents WHERE agent_id = $1 \
               UNION SELECT a.agent_id FROM family f {join} agents a ON a.parent_agent_id = f.agent_id \
               WHERE a.fork_seq > $2) SELECT agent_id FROM family ORDER BY agent_id"
    );
    let found = query(sql).bind(source.as_str()).bind(seq).fetch_all(tx).await?;
    found.iter().map(|found| row::agent_id(found, 0)).collect()
}
