//! Writes, closes, withdraws, restores and reads the facts of a summary.
//!
//! Invariant: the only change to a row is that it is closed. A changed text, or a fact that holds again, gets a new row with a
//! new number. So the rows show which facts each version had.

mod operator;
mod record;
mod withdraw;

use crate::sql::{Connection, Row, Value, append::write::runs, insert, query, sql};

use super::{
    super::{FactQuery, FactRow, StoreResult, seal},
    row,
};
use recapd_core::domain::{
    agent::AgentId,
    number::i64_or_max,
    summary::{
        fact::{Fact, FactKind},
        state::{FactClosure, FactUpdate},
    },
    transcript::Voice,
};

pub(super) use operator::change;
pub(super) use record::{records, restore};
pub(super) use withdraw::{about, as_of, beyond, remove_texts};

/// The columns of a [`Fact`], as [`fact`] reads them.
macro_rules! fact_columns {
    () => {
        "f.fact, f.kind, f.text, f.voice, f.speaker, f.since, f.exchange, f.pinned"
    };
}
use fact_columns;

/// Returns the facts that hold, in order of their numbers.
pub(super) async fn holding(tx: &mut Connection, agent: &AgentId) -> StoreResult<Vec<Fact>> {
    let sql = sql!(
        "-- sql/facts.holding\nSELECT ",
        fact_columns!(),
        " FROM summary_facts f WHERE f.agent_id = $1 AND f.closed_version IS NULL ORDER BY f.fact"
    );
    let found = query(sql).bind(agent.as_str()).fetch_all(tx).await?;
    found.iter().map(fact).collect()
}

/// Lists the facts with their history, in order of their numbers.
pub(super) async fn list(
    connection: &mut Connection,
    agent: &AgentId,
    wanted: FactQuery,
) -> StoreResult<Vec<FactRow>> {
    let sql = sql!(
        "-- sql/facts.list\nSELECT ",
        fact_columns!(),
        ", f.added_version, f.closed_version, f.closed_by_exchange, f.replaced_by FROM summary_facts f ",
        "WHERE f.agent_id = $1 AND f.fact > $2 AND ($3 OR f.closed_version IS NULL) ORDER BY f.fact LIMIT $4"
    );
    let found = query(sql)
        .bind(agent.as_str())
        .bind(wanted.after)
        .bind(wanted.all)
        .bind(wanted.limit)
        .fetch_all(connection)
        .await?;
    let read = |found: &Row| -> StoreResult<FactRow> {
        Ok(FactRow {
            fact: fact(found)?,
            added_version: found.try_get(8)?,
            closed_version: found.try_get(9)?,
            closed_by_exchange: found.try_get(10)?,
            replaced_by: found.try_get(11)?,
        })
    };
    found.iter().map(read).collect()
}

/// Writes a version's changes to the facts. A new fact that already has a number is a copy of that closed fact, which holds
/// again. Returns the number of the first new fact; the other new facts have the next numbers.
pub(super) async fn write(
    tx: &mut Connection,
    agent: &AgentId,
    version: i64,
    update: &FactUpdate,
) -> StoreResult<i64> {
    if update.is_empty() {
        return Ok(0);
    }
    let first = reserve(tx, agent, i64_or_max(update.added.len())).await?;
    let numbered: Vec<(i64, &Fact)> = (first..).zip(&update.added).collect();
    for run in runs(&numbered) {
        let rows = run.iter().map(|&(number, fact)| fact_row(agent, number, fact, version));
        let head = sql!(
            "-- sql/facts.write\nINSERT INTO summary_facts (agent_id, fact, added_version, kind, text, voice, speaker, \
                   since, exchange, pinned, digest)"
        );
        insert(head, rows.collect(), sql!("")).execute(&mut *tx).await?;
    }
    for (number, fact) in numbered.iter().filter(|(_, fact)| fact.fact > 0) {
        note_copy(tx, agent, fact.fact, *number).await?;
    }
    for closure in &update.closed {
        // The closure names the replacement by its index among the new facts.
        let replaced_by = closure.replaced_by.map(|index| first + i64_or_max(index));
        close(tx, agent, version, closure, replaced_by).await?;
    }
    Ok(first)
}

async fn reserve(tx: &mut Connection, agent: &AgentId, count: i64) -> StoreResult<i64> {
    let sql = sql!(
        "-- sql/facts.reserve\nUPDATE agents SET last_fact = last_fact + $2 WHERE agent_id = $1 \
               RETURNING last_fact - $2 + 1"
    );
    let row = query(sql).bind(agent.as_str()).bind(count).fetch_one(tx).await?;
    Ok(row.try_get(0)?)
}

fn fact_row<'r>(agent: &'r AgentId, number: i64, fact: &'r Fact, version: i64) -> Vec<Value<'r>> {
    vec![
        agent.as_str().into(),
        number.into(),
        version.into(),
        fact.kind.name().into(),
        fact.text.as_str().into(),
        fact.voice.map(Voice::name).into(),
        fact.speaker.as_str().into(),
        fact.since.into(),
        fact.exchange.into(),
        fact.pinned.into(),
        seal::of_fact(number, fact).into(),
    ]
}

/// Records that fact `from` holds again as fact `to`, and removes from `from`'s row what had ended it. A fork's copy of an
/// inherited fact also keeps the number that the fact had in the parent.
async fn note_copy(tx: &mut Connection, agent: &AgentId, from: i64, to: i64) -> StoreResult<()> {
    let source = sql!(
        "-- sql/facts.note_source\nUPDATE summary_facts SET source_agent_id = o.source_agent_id, \
               source_fact = coalesce(o.source_fact, o.fact) FROM summary_facts o \
               WHERE summary_facts.agent_id = $1 AND summary_facts.fact = $3 \
               AND o.agent_id = $1 AND o.fact = $2 AND o.source_agent_id IS NOT NULL"
    );
    let reopened = sql!(
        "-- sql/facts.note_reopened\nUPDATE summary_facts SET closed_by_exchange = NULL, replaced_by = $3 \
               WHERE agent_id = $1 AND fact = $2"
    );
    for sql in [source, reopened] {
        query(sql).bind(agent.as_str()).bind(from).bind(to).execute(&mut *tx).await?;
    }
    Ok(())
}

async fn close(
    tx: &mut Connection,
    agent: &AgentId,
    version: i64,
    closure: &FactClosure,
    replaced_by: Option<i64>,
) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/facts.close\nUPDATE summary_facts SET closed_version = $3, closed_by_exchange = $4, replaced_by = $5 \
               WHERE agent_id = $1 AND fact = $2 AND closed_version IS NULL"
    );
    let row_count = query(sql)
        .bind(agent.as_str())
        .bind(closure.fact)
        .bind(version)
        .bind(closure.exchange)
        .bind(replaced_by)
        .execute(tx)
        .await?;
    if row_count == 1 {
        return Ok(());
    }
    // The version fence holds, so no other transaction can have closed this fact: a miss is a bug.
    let fact = format!("fact {} of {agent}", closure.fact);
    Err(row::inconsistent("summary_facts", fact, "closed_version", "not open".to_owned()))
}

pub(super) fn fact(row: &Row) -> StoreResult<Fact> {
    let number: i64 = row.try_get(0)?;
    let kind: String = row.try_get(1)?;
    let voice: Option<String> = row.try_get(3)?;
    let wrong =
        |column, value: &str| row::inconsistent("summary_facts", format!("fact {number}"), column, value);
    let voice = voice.map(|name| Voice::from_name(&name).ok_or_else(|| wrong("voice", &name))).transpose()?;
    Ok(Fact {
        fact: number,
        kind: FactKind::from_name(&kind).ok_or_else(|| wrong("kind", &kind))?,
        text: row.try_get(2)?,
        voice,
        speaker: row.try_get(4)?,
        since: row.try_get(5)?,
        exchange: row.try_get(6)?,
        pinned: row.try_get(7)?,
    })
}
