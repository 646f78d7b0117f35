//! Computes the changes to facts that a rewind, a rollback, a rebuild or a forgetting needs.

use std::collections::BTreeSet;

use crate::sql::{Connection, Row, query, sql};

use super::{super::super::StoreResult, fact, fact_columns, holding};
use recapd_core::domain::{
    agent::AgentId,
    summary::{
        fact::Fact,
        state::{FactClosure, FactUpdate},
    },
};

/// Returns the change that withdraws the facts from exchanges after `through`, and lets the facts that such exchanges closed hold
/// again.
pub(crate) async fn beyond(tx: &mut Connection, agent: &AgentId, through: i64) -> StoreResult<FactUpdate> {
    let facts = holding(tx, agent).await?;
    let sql = sql!(
        "-- sql/facts.reopened\nSELECT ",
        fact_columns!(),
        " FROM summary_facts f WHERE f.agent_id = $1 AND f.closed_by_exchange > $2 AND f.exchange <= $2 ",
        "AND f.closed_version IS NOT NULL AND f.text <> '' ORDER BY f.fact"
    );
    let found = query(sql).bind(agent.as_str()).bind(through).fetch_all(tx).await?;
    let (remaining, ended): (Vec<Fact>, Vec<Fact>) =
        facts.into_iter().partition(|fact| fact.exchange <= through);
    Ok(FactUpdate {
        added: without_same_text(found.iter().map(fact).collect::<StoreResult<_>>()?, &remaining),
        closed: close_facts(&ended),
        refused: Vec::new(),
    })
}

/// Returns the change that restores the facts that held as of `version`. Leaves out facts from exchanges after `through`, from
/// exchanges set aside since, and forgotten facts.
pub(crate) async fn as_of(
    tx: &mut Connection,
    agent: &AgentId,
    version: i64,
    through: i64,
) -> StoreResult<FactUpdate> {
    let facts = holding(tx, agent).await?;
    let sql = sql!(
        "-- sql/facts.former\nSELECT ",
        fact_columns!(),
        ", f.closed_version IS NULL FROM summary_facts f WHERE f.agent_id = $1 AND f.added_version <= $2 ",
        "AND (f.closed_version IS NULL OR f.closed_version > $2) AND f.exchange <= $3 AND f.text <> '' ",
        "AND NOT EXISTS (SELECT 1 FROM exchange_log e WHERE e.agent_id = f.agent_id AND e.exchange = f.exchange ",
        "AND e.set_aside_at IS NOT NULL) ORDER BY f.fact"
    );
    let found = query(sql).bind(agent.as_str()).bind(version).bind(through).fetch_all(tx).await?;
    let read = |found: &Row| -> StoreResult<(Fact, bool)> { Ok((fact(found)?, found.try_get(8)?)) };
    let former: Vec<(Fact, bool)> = found.iter().map(read).collect::<StoreResult<_>>()?;
    let stands = |fact: &Fact| former.iter().any(|(former, _)| former.fact == fact.fact);
    let (remaining, ended): (Vec<Fact>, Vec<Fact>) = facts.into_iter().partition(stands);
    let back = former.into_iter().filter(|(_, stands)| !stands);
    Ok(FactUpdate {
        added: without_same_text(back.map(|(fact, _)| fact).collect(), &remaining),
        closed: close_facts(&ended),
        refused: Vec::new(),
    })
}

/// Returns the change that withdraws the facts from these exchanges.
pub(crate) async fn about(
    tx: &mut Connection,
    agent: &AgentId,
    exchanges: &BTreeSet<i64>,
) -> StoreResult<FactUpdate> {
    let mut ended = holding(tx, agent).await?;
    ended.retain(|fact| exchanges.contains(&fact.exchange));
    Ok(FactUpdate { closed: close_facts(&ended), ..FactUpdate::default() })
}

/// Deletes the texts of all closed facts from these exchanges.
pub(crate) async fn remove_texts(
    tx: &mut Connection,
    agent: &AgentId,
    exchanges: &BTreeSet<i64>,
) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/facts.blank\nUPDATE summary_facts SET text = '', speaker = '', digest = NULL WHERE agent_id = $1 \
               AND closed_version IS NOT NULL \
               AND exchange IN (SELECT CAST(value AS bigint) FROM {each}($2{::jsonb}))"
    );
    query(sql).bind(agent.as_str()).bind(serde_json::json!(exchanges).to_string()).execute(tx).await?;
    Ok(())
}

/// Returns those `facts` whose kind and text no fact in `remaining` has.
fn without_same_text(mut facts: Vec<Fact>, remaining: &[Fact]) -> Vec<Fact> {
    facts.retain(|fact| {
        !remaining
            .iter()
            .any(|fact_in_force| fact_in_force.kind == fact.kind && fact_in_force.text == fact.text)
    });
    facts
}

fn close_facts(facts: &[Fact]) -> Vec<FactClosure> {
    let closure = |fact: &Fact| FactClosure { fact: fact.fact, exchange: None, replaced_by: None };
    facts.iter().map(closure).collect()
}
