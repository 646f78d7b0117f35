//! Applies operators' changes to facts.

use crate::sql::{Connection, query, sql};

use super::{
    super::{
        super::{FactChange, FactEdited, FactFault, FactQuery, FactRequest, StoreResult},
        agent, lineage,
        revise::{self, Revision},
    },
    holding, list,
};
use recapd_core::domain::{
    agent::AgentId,
    summary::{
        fact::{
            FACTS_MAX, Fact,
            edit::{FactEdit, NewFact},
        },
        state::{FactClosure, FactUpdate},
        version::VersionKind,
    },
    time::Timestamp,
};

pub(crate) async fn change(tx: &mut Connection, request: FactRequest) -> StoreResult<FactEdited> {
    let FactRequest { agent, hand, policy, now } = request;
    let row = agent::load_known(tx, &agent).await?;
    let facts = holding(tx, &agent).await?;
    let (number, update) = match &hand {
        FactChange::Add(new) => (None, add_fact(new, &facts, now)?),
        FactChange::Edit { fact, edit } => {
            let found = facts.iter().find(|existing| existing.fact == *fact);
            let found = found.ok_or(FactFault::Unknown(*fact))?;
            if let Some(pinned) = edit.pinned.filter(|_| edit.text.is_none()) {
                pin(tx, &agent, *fact, pinned).await?;
            }
            (Some(*fact), edit_fact(found, edit, &facts)?)
        }
    };
    let is_new = !update.added.is_empty();
    let new_version = revise::write(
        tx,
        Revision {
            agent: agent.clone(),
            kind: VersionKind::Edit,
            through: row.ledger.summarized_through,
            gains: None,
            removed: Vec::new(),
            added: Vec::new(),
            hidden: Vec::new(),
            facts: update,
            policy,
            as_of: row.as_of.unwrap_or(now),
            now,
        },
        None,
    )
    .await?;
    lineage::void_lease(tx, &agent, now).await?;
    let number = number.filter(|_| !is_new).unwrap_or(new_version.first_fact);
    let query = FactQuery { after: number - 1, limit: 1, all: true };
    let row = list(tx, &agent, query).await?.pop();
    Ok(FactEdited { version: new_version.version, row: row.ok_or(FactFault::Unknown(number))? })
}

fn add_fact(new: &NewFact, facts: &[Fact], now: Timestamp) -> Result<FactUpdate, FactFault> {
    let fact = Fact {
        fact: 0,
        kind: new.kind,
        text: new.text.clone(),
        voice: None,
        speaker: String::new(),
        since: now,
        exchange: 0,
        pinned: false,
    };
    if facts.len() >= FACTS_MAX {
        return Err(FactFault::Full);
    }
    check_is_new(facts, &fact)?;
    Ok(FactUpdate { added: vec![fact], ..FactUpdate::default() })
}

/// Edits a fact. A new text replaces the fact with a new one in the operator's words.
fn edit_fact(found: &Fact, edit: &FactEdit, facts: &[Fact]) -> Result<FactUpdate, FactFault> {
    let added = edit.text.as_ref().map(|text| Fact {
        fact: 0,
        text: text.clone(),
        voice: None,
        speaker: String::new(),
        pinned: edit.pinned.unwrap_or(found.pinned),
        ..found.clone()
    });
    if let Some(fact) = &added {
        check_is_new(facts, fact)?;
    }
    let closure = FactClosure { fact: found.fact, exchange: None, replaced_by: added.as_ref().map(|_| 0) };
    let is_closed = edit.is_closed || added.is_some();
    Ok(FactUpdate {
        added: added.into_iter().collect(),
        closed: is_closed.then_some(closure).into_iter().collect(),
        refused: Vec::new(),
    })
}

fn check_is_new(facts: &[Fact], fact: &Fact) -> Result<(), FactFault> {
    let same = facts.iter().find(|existing| existing.kind == fact.kind && existing.text == fact.text);
    same.map_or(Ok(()), |same| Err(FactFault::Duplicate(same.fact)))
}

async fn pin(tx: &mut Connection, agent: &AgentId, fact: i64, pinned: bool) -> StoreResult<()> {
    let sql =
        sql!("-- sql/facts.pin\nUPDATE summary_facts SET pinned = $3 WHERE agent_id = $1 AND fact = $2");
    query(sql).bind(agent.as_str()).bind(fact).bind(pinned).execute(tx).await?;
    Ok(())
}
