//! Reads and restores the facts in the record of a fork's starting state.

use crate::sql::{Connection, query, sql};

use super::{
    super::{super::StoreResult, row},
    fact, fact_columns,
};
use recapd_core::domain::{agent::AgentId, journal::FactRecord, transcript::Voice};

/// Returns the facts that `agent` has right after the fork.
pub(crate) async fn records(tx: &mut Connection, agent: &AgentId) -> StoreResult<Vec<FactRecord>> {
    let sql = sql!(
        "-- sql/facts.records\nSELECT ",
        fact_columns!(),
        ", f.source_agent_id FROM summary_facts f WHERE f.agent_id = $1 AND f.closed_version IS NULL ORDER BY f.fact"
    );
    let found = query(sql).bind(agent.as_str()).fetch_all(tx).await?;
    let records = found.iter().map(|found| {
        let fact = fact(found)?;
        Ok(FactRecord {
            source: row::agent_id_of(found, 8, agent.as_str())?,
            fact: fact.fact,
            kind: fact.kind,
            text: fact.text,
            voice: fact.voice.map(|voice| voice.name().to_owned()),
            speaker: fact.speaker,
            since: fact.since,
            exchange: fact.exchange,
        })
    });
    records.collect()
}

/// Writes a fact of the record. Replaces a voice that this version of recapd doesn't know with the summariser's.
pub(crate) async fn restore(tx: &mut Connection, agent: &AgentId, record: &FactRecord) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/facts.restore\nINSERT INTO summary_facts (agent_id, fact, added_version, kind, text, voice, speaker, \
               since, exchange, source_agent_id) VALUES ($1, $2, 1, $3, $4, $5, $6, $7, $8, $9)"
    );
    let voice = record.voice.as_deref().and_then(Voice::from_name);
    query(sql)
        .bind(agent.as_str())
        .bind(record.fact)
        .bind(record.kind.name())
        .bind(record.text.as_str())
        .bind(voice.map(Voice::name))
        .bind(record.speaker.as_str())
        .bind(record.since)
        .bind(record.exchange)
        .bind(record.source.as_str())
        .execute(tx)
        .await?;
    Ok(())
}
