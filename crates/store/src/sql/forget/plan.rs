//! Finds what a request wants forgotten, records it, and deletes each entry of the record when it is done.

use std::collections::BTreeSet;

use crate::sql::{Connection, Value, insert, query, sql};

use super::{
    super::{
        super::{
            ExchangePlace, FORGET_EXCHANGES_MAX, Forget, Forgettable, Forgotten, PlacedExchange, StoreError,
            StoreResult,
        },
        agent,
        append::write::runs,
        recall::AncestorLine,
        row,
    },
    agents_sharing, find, labels,
};
use recapd_core::domain::{agent::AgentId, number::i64_or_max, time::Timestamp};

/// Messages of one exchange that will be forgotten: a row of `forgettings`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ForgettingRow {
    pub(super) exchange: i64,
    pub(super) first_seq: i64,
    pub(super) last_seq: i64,
    /// The agent that owns the messages.
    pub(super) source: AgentId,
    /// True if a summary may be about the exchange.
    pub(super) is_summarisable: bool,
}

impl ForgettingRow {
    /// Selects a whole exchange, or one message of it.
    fn of(placed: PlacedExchange, seq: Option<i64>) -> Self {
        Self {
            exchange: placed.exchange.exchange,
            first_seq: seq.unwrap_or(placed.exchange.first_seq),
            last_seq: seq.unwrap_or(placed.exchange.last_seq),
            source: placed.source,
            is_summarisable: placed.place != ExchangePlace::Preamble,
        }
    }

    fn row<'r>(&'r self, agent: &'r AgentId, now: Timestamp) -> Vec<Value<'r>> {
        vec![
            agent.as_str().into(),
            self.exchange.into(),
            self.first_seq.into(),
            self.last_seq.into(),
            self.source.as_str().into(),
            self.is_summarisable.into(),
            now.into(),
        ]
    }
}

/// Finds what a request names. Returns the request's result, and the entries to record.
pub(crate) async fn plan(
    tx: &mut Connection,
    request: &Forget,
) -> StoreResult<(Forgotten, Vec<ForgettingRow>)> {
    let entries = find_named(tx, request).await?;
    let mut forgotten = Forgotten::default();
    let (mut unfinished, mut agents) = (Vec::new(), BTreeSet::new());
    for entry in entries {
        let found = find(tx, &entry).await?;
        let first_seq = match &request.what {
            // Messages forgotten before an interruption may have been shared by more agents, so all sharers are named.
            Forgettable::Begun => 0,
            _ => found.first().map_or(entry.first_seq, |first| first.seq),
        };
        // The agents are named even if nothing is left to forget: an interruption may have prevented the rewriting of their
        // journals.
        agents.extend(agents_sharing(tx, &entry.source, first_seq).await?);
        if found.is_empty() {
            // An older recapd, which didn't replace labels of marks, may have forgotten the exchange.
            if !labels::find(tx, &entry).await?.is_empty() {
                unfinished.push(entry);
            }
        } else {
            forgotten.messages += i64_or_max(found.len());
            forgotten.exchanges.push(entry.exchange);
            unfinished.push(entry);
        }
    }
    forgotten.exchanges.sort_unstable();
    forgotten.agents = agents.into_iter().collect();
    if request.what == Forgettable::Begun {
        unfinished.clear();
    }
    Ok((forgotten, unfinished))
}

async fn find_named(tx: &mut Connection, request: &Forget) -> StoreResult<Vec<ForgettingRow>> {
    let line = AncestorLine::of(tx, &request.agent).await?;
    let line = line.ok_or_else(|| StoreError::UnknownAgent(request.agent.clone()))?;
    match &request.what {
        Forgettable::Begun => next(tx, &request.agent, usize::MAX).await,
        Forgettable::Message(seq) => {
            let unknown = || StoreError::UnknownMessage(*seq);
            let exchange = line.exchange_of(tx, *seq).await?.ok_or_else(unknown)?;
            let placed = line.find(tx, exchange).await?;
            let placed = placed.filter(|placed| placed.exchange.holds(*seq));
            Ok(vec![ForgettingRow::of(placed.ok_or_else(unknown)?, Some(*seq))])
        }
        Forgettable::Exchanges(numbers) => {
            let numbers: BTreeSet<i64> = numbers.iter().copied().take(FORGET_EXCHANGES_MAX).collect();
            let mut entries = Vec::with_capacity(numbers.len());
            for number in numbers {
                let placed = line.find(tx, number).await?;
                entries.push(ForgettingRow::of(placed.ok_or(StoreError::UnknownExchange(number))?, None));
            }
            Ok(entries)
        }
    }
}

/// Records what is to be forgotten.
pub(crate) async fn note(
    tx: &mut Connection,
    agent: &AgentId,
    entries: &[ForgettingRow],
    now: Timestamp,
) -> StoreResult<()> {
    agent::load_known(tx, agent).await?;
    let head = sql!(
        "-- sql/forget.note_wanted\nINSERT INTO forgettings (agent_id, exchange, first_seq, last_seq, source_agent_id, told, asked_at)"
    );
    let tail = sql!("ON CONFLICT (agent_id, exchange, first_seq, last_seq) DO NOTHING");
    for run in runs(entries) {
        let rows = run.iter().map(|entry| entry.row(agent, now)).collect();
        insert(head, rows, tail).execute(&mut *tx).await?;
    }
    Ok(())
}

/// Returns the first `limit` entries of the agent's record, those of the newest exchanges first.
pub(super) async fn next(
    tx: &mut Connection,
    agent: &AgentId,
    limit: usize,
) -> StoreResult<Vec<ForgettingRow>> {
    let sql = sql!(
        "-- sql/forget.next\nSELECT exchange, first_seq, last_seq, source_agent_id, told FROM forgettings \
               WHERE agent_id = $1 ORDER BY exchange DESC, first_seq, last_seq LIMIT $2"
    );
    let query = query(sql).bind(agent.as_str()).bind(i64_or_max(limit));
    let found = query.fetch_all(tx).await?;
    let entries = found.iter().map(|found| {
        Ok(ForgettingRow {
            exchange: found.try_get(0)?,
            first_seq: found.try_get(1)?,
            last_seq: found.try_get(2)?,
            source: row::agent_id(found, 3)?,
            is_summarisable: found.try_get(4)?,
        })
    });
    entries.collect()
}

/// Deletes entries that are done from the record.
pub(super) async fn strike_off(
    tx: &mut Connection,
    agent: &AgentId,
    entries: &[ForgettingRow],
) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/forget.strike_off\nDELETE FROM forgettings WHERE agent_id = $1 AND exchange = $2 \
               AND first_seq = $3 AND last_seq = $4"
    );
    for entry in entries {
        query(sql)
            .bind(agent.as_str())
            .bind(entry.exchange)
            .bind(entry.first_seq)
            .bind(entry.last_seq)
            .execute(&mut *tx)
            .await?;
    }
    Ok(())
}

pub(crate) async fn count_left(connection: &mut Connection, agent: &AgentId) -> StoreResult<i64> {
    let sql = sql!("-- sql/forget.left\nSELECT count(*) FROM forgettings WHERE agent_id = $1");
    let query = query(sql).bind(agent.as_str());
    Ok(query.fetch_one(connection).await?.try_get(0)?)
}

pub(crate) async fn due(connection: &mut Connection, limit: i64) -> StoreResult<Vec<AgentId>> {
    let sql = sql!(
        "-- sql/forget.due\nSELECT f.agent_id FROM forgettings f JOIN agents a ON a.agent_id = f.agent_id \
               WHERE a.deleted_at IS NULL GROUP BY f.agent_id ORDER BY f.agent_id LIMIT $1"
    );
    let found = query(sql).bind(limit).fetch_all(connection).await?;
    found.iter().map(|found| row::agent_id(found, 0)).collect()
}
