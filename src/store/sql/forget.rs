//! Forgetting: the one exception to "nothing is lost".
//!
//! A forgotten message becomes a tombstone: its number, its kind and its time stay, so that exchanges stay whole and a
//! replay ends in the same state. Everything derived from it is removed in the same transaction, in every agent that
//! shares it: headlines, counts, items, texts of documents, model answers, words of the index, what a fork recorded.
//! Freed pages are overwritten (`secure_delete`), and the log is emptied after the commit.
//!
//! Steps (clears, marks, rewinds, pins) stay: they are the course of the conversation, not what was said.

pub(super) mod delete;
mod purge;

use std::collections::{BTreeMap, BTreeSet};

use crate::store::sql::{Connection, query, sql};

use super::{
    super::{
        FORGET_EXCHANGES_MAX, Forget, Forgettable, Forgotten, Place, PlacedExchange, StoreError, StoreResult,
    },
    recall::{self, Line},
    row,
};
use crate::domain::{
    agent::AgentId,
    message::{Kind, tombstone},
    number::i64_or_max,
};
use purge::Purge;

/// A message that becomes a tombstone.
#[derive(Clone, Debug)]
pub(super) struct Buried {
    source: AgentId,
    pub(super) seq: i64,
    kind: String,
    pub(super) tokens: i64,
}

/// What is to be forgotten of an exchange: one message, or all of them.
struct Target {
    placed: PlacedExchange,
    seq: Option<i64>,
}

/// What is touched of one agent.
#[derive(Default)]
struct Touched {
    /// The exchanges.
    exchanges: BTreeSet<i64>,
    /// Those that a summary may be about: all but preambles.
    told: BTreeSet<i64>,
}

/// See [`super::super::Store::forget`].
pub(super) async fn forget(tx: &mut Connection, request: Forget) -> StoreResult<Forgotten> {
    let line = Line::of(tx, &request.agent).await?;
    let line = line.ok_or_else(|| StoreError::UnknownAgent(request.agent.clone()))?;
    let mut forgotten = Forgotten::default();
    let mut touched: BTreeMap<AgentId, Touched> = BTreeMap::new();
    let mut buried: Vec<Buried> = Vec::new();
    let mut agents: BTreeSet<AgentId> = BTreeSet::new();
    for target in targets(tx, &line, &request.what).await? {
        let found = find(tx, &target).await?;
        let first_seq = found.iter().map(|message| message.seq).min();
        let first_seq = first_seq.or(target.seq);
        let first_seq = first_seq.unwrap_or(target.placed.exchange.first_seq);
        let sharing = sharers(tx, &target.placed.source, first_seq).await?;
        // Even if nothing is left to forget: a journal may not have been rewritten the last time.
        agents.extend(sharing.iter().cloned());
        if found.is_empty() {
            continue;
        }
        bury(tx, &request, &target, &found).await?;
        let number = target.placed.exchange.exchange;
        forgotten.exchanges.push(number);
        for agent in sharing {
            let touched = touched.entry(agent).or_default();
            touched.exchanges.insert(number);
            if target.placed.place != Place::Preamble {
                touched.told.insert(number);
            }
        }
        buried.extend(found);
    }
    for (source, seqs) in by_source(&buried) {
        recall::forget(tx, source, &seqs).await?;
    }
    let purges = touched.iter().map(|(agent, touched)| Purge {
        request: &request,
        agent,
        touched,
        buried: &buried,
    });
    // Inherited items take their texts from the headlines of their exchanges at the source: so those are first.
    for purge in purges.clone() {
        purge.sum_up(tx).await?;
    }
    for purge in purges {
        let (items, versions) = purge.run(tx).await?;
        forgotten.items += items;
        forgotten.versions += versions;
    }
    forgotten.agents = agents.into_iter().collect();
    forgotten.messages = i64_or_max(buried.len());
    Ok(forgotten)
}

/// The numbers of the messages, by the agent that they belong to.
fn by_source(buried: &[Buried]) -> BTreeMap<&AgentId, Vec<i64>> {
    let mut seqs: BTreeMap<&AgentId, Vec<i64>> = BTreeMap::new();
    for message in buried {
        seqs.entry(&message.source).or_default().push(message.seq);
    }
    seqs
}

async fn targets(tx: &mut Connection, line: &Line, what: &Forgettable) -> StoreResult<Vec<Target>> {
    match what {
        Forgettable::Message(seq) => {
            let unknown = || StoreError::UnknownMessage(*seq);
            let exchange = line.exchange_of(tx, *seq).await?.ok_or_else(unknown)?;
            let placed = line.find(tx, exchange).await?;
            let placed = placed.filter(|placed| placed.exchange.holds(*seq));
            Ok(vec![Target {
                placed: placed.ok_or_else(unknown)?,
                seq: Some(*seq),
            }])
        }
        Forgettable::Exchanges(numbers) => {
            let numbers: BTreeSet<i64> = numbers.iter().copied().take(FORGET_EXCHANGES_MAX).collect();
            let mut targets = Vec::new();
            for number in numbers {
                let placed = line.find(tx, number).await?;
                targets.push(Target {
                    placed: placed.ok_or(StoreError::UnknownExchange(number))?,
                    seq: None,
                });
            }
            Ok(targets)
        }
    }
}

/// The messages of `target` that aren't forgotten yet.
async fn find(tx: &mut Connection, target: &Target) -> StoreResult<Vec<Buried>> {
    let sql = sql!(
        "-- sql/forget.find\nSELECT seq, kind, tokens FROM message_log WHERE agent_id = $1 \
               AND seq BETWEEN $2 AND $3 AND exchange = $4 AND forgotten_at IS NULL \
               AND kind NOT IN ('clear', 'mark', 'rewind', 'pin', 'unpin') ORDER BY seq"
    );
    let exchange = &target.placed.exchange;
    let found = query(sql)
        .bind(target.placed.source.as_str())
        .bind(target.seq.unwrap_or(exchange.first_seq))
        .bind(target.seq.unwrap_or(exchange.last_seq))
        .bind(exchange.exchange)
        .fetch_all(tx)
        .await?;
    let buried = found.iter().map(|row| {
        Ok(Buried {
            source: target.placed.source.clone(),
            seq: row.try_get(0)?,
            kind: row.try_get(1)?,
            tokens: row.try_get(2)?,
        })
    });
    buried.collect()
}

/// Makes tombstones of messages. Their client ids stay, so that the same messages sent again are known.
async fn bury(tx: &mut Connection, request: &Forget, target: &Target, found: &[Buried]) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/forget.bury\nUPDATE message_log SET payload = $3, format = 'native', tokens = 0, \
               speaker = NULL, forgotten_at = $4 WHERE agent_id = $1 AND seq = $2"
    );
    for message in found {
        query(sql)
            .bind(target.placed.source.as_str())
            .bind(message.seq)
            .bind(tombstone(&Kind::from_name(&message.kind)))
            .bind(request.now)
            .execute(&mut *tx)
            .await?;
    }
    Ok(())
}

/// The agents that share the messages of `source` from number `seq` on: itself and those forked since.
async fn sharers(tx: &mut Connection, source: &AgentId, seq: i64) -> StoreResult<Vec<AgentId>> {
    let sql = sql!(
        "-- sql/forget.sharers\nWITH RECURSIVE family (agent_id) AS (SELECT agent_id FROM agents WHERE agent_id = $1 \
               UNION SELECT a.agent_id FROM family f {join} agents a ON a.parent_agent_id = f.agent_id \
               WHERE a.fork_seq > $2) SELECT agent_id FROM family ORDER BY agent_id"
    );
    let found = query(sql).bind(source.as_str()).bind(seq).fetch_all(tx).await?;
    found.iter().map(|found| row::agent_id(found, 0)).collect()
}
