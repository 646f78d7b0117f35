//! Reads complete histories for a journal. [`restore`] writes them back.

pub(super) mod restore;

use crate::sql::{Connection, Lock, Row, query, sql};
use async_trait::async_trait;
use futures::TryStreamExt as _;
use serde_json::value::RawValue;

use super::{
    super::{
        StoreResult,
        archive::{Archive, ArchiveError, RecordRange, Restore, RestoreOutcome},
        sqlite::WriteSize,
    },
    SqlStore, agent, fork, row,
};
use recapd_core::domain::{
    agent::AgentId,
    journal::{EvictionRecord, ForkRecord, Head, JOURNAL_VERSION, MarkRecord, MessageRecord, SessionRecord},
    message::Format,
};

#[async_trait]
impl Archive for SqlStore {
    async fn head(&self, agent: &AgentId) -> Result<Option<Head>, ArchiveError> {
        let mut tx = self.snapshot().await?;
        let fork = fork::record::load(&mut tx, agent).await?;
        Ok(head(&mut tx, agent, fork).await?)
    }

    async fn records(&self, agent: &AgentId, range: RecordRange) -> StoreResult<Vec<MessageRecord>> {
        records(&mut self.reader().await?, agent, range).await
    }

    async fn restore(&self, request: Restore) -> Result<RestoreOutcome, ArchiveError> {
        let fork = request.origin.as_ref().and_then(|origin| origin.fork.as_ref());
        // A restored fork shares its parent's messages, which must not be forgotten or deleted meanwhile.
        let lock = match fork {
            Some(fork) => Lock::Family(fork.parent.clone()),
            None => Lock::Agent(request.agent.clone()),
        };
        // A rewind among the restored messages may set aside everything that an agent has.
        self.write_sized(lock, WriteSize::Unbounded, move |tx| Box::pin(restore::restore(tx, request)))
            .await?
    }
}

async fn head(
    tx: &mut Connection,
    agent: &AgentId,
    fork: Option<Box<ForkRecord>>,
) -> StoreResult<Option<Head>> {
    let Some(found) = agent::load(tx, agent).await? else {
        return Ok(None);
    };
    Ok(Some(Head {
        journal: JOURNAL_VERSION,
        agent_id: found.agent,
        project: found.project,
        settings: settings(tx, agent).await?,
        created_at: found.created_at,
        as_of: found.as_of,
        budget_tokens: found.budget_tokens,
        max_messages: found.max_messages,
        last_seq: found.ledger.last_seq,
        last_exchange: found.ledger.last_exchange,
        first_exchange: found.ledger.first_exchange,
        sessions: sessions(tx, agent).await?,
        evictions: evictions(tx, agent).await?,
        marks: marks(tx, agent).await?,
        fork,
    }))
}

async fn settings(tx: &mut Connection, agent: &AgentId) -> StoreResult<Box<RawValue>> {
    let sql = sql!("-- sql/archive.settings\nSELECT CAST(settings AS text) FROM agents WHERE agent_id = $1");
    let row = query(sql).bind(agent.as_str()).fetch_one(tx).await?;
    let settings: String = row.try_get(0)?;
    serde_json::from_str(&settings)
        .map_err(|_| row::inconsistent("agents", agent.to_string(), "settings", settings))
}

pub(super) async fn sessions(tx: &mut Connection, agent: &AgentId) -> StoreResult<Vec<SessionRecord>> {
    let sql = sql!(
        "-- sql/archive.sessions\nSELECT session, first_exchange, opened_at, ended_at, end_reason \
               FROM sessions WHERE agent_id = $1 ORDER BY session"
    );
    let found = query(sql).bind(agent.as_str()).fetch_all(tx).await?;
    found
        .iter()
        .map(|found| {
            Ok(SessionRecord {
                session: found.try_get(0)?,
                first_exchange: found.try_get(1)?,
                opened_at: found.try_get(2)?,
                ended_at: row::time(found, 3)?,
                end_reason: found.try_get(4)?,
            })
        })
        .collect()
}

async fn evictions(tx: &mut Connection, agent: &AgentId) -> StoreResult<Vec<EvictionRecord>> {
    let sql = sql!(
        "-- sql/archive.evictions\nSELECT from_exchange, through_exchange, tokens, evicted_at \
               FROM evictions WHERE agent_id = $1 ORDER BY eviction"
    );
    let found = query(sql).bind(agent.as_str()).fetch_all(tx).await?;
    found
        .iter()
        .map(|found| {
            Ok(EvictionRecord {
                from_exchange: found.try_get(0)?,
                through_exchange: found.try_get(1)?,
                tokens: found.try_get(2)?,
                evicted_at: found.try_get(3)?,
            })
        })
        .collect()
}

pub(super) async fn marks(tx: &mut Connection, agent: &AgentId) -> StoreResult<Vec<MarkRecord>> {
    let sql = sql!(
        "-- sql/archive.marks\nSELECT mark, label, exchange, first_exchange, tokens_before_window \
               FROM marks WHERE agent_id = $1 ORDER BY mark"
    );
    let found = query(sql).bind(agent.as_str()).fetch_all(tx).await?;
    found
        .iter()
        .map(|found| {
            Ok(MarkRecord {
                mark: found.try_get(0)?,
                label: found.try_get(1)?,
                exchange: found.try_get(2)?,
                first_exchange: found.try_get(3)?,
                tokens_before_window: found.try_get(4)?,
            })
        })
        .collect()
}

async fn records(
    connection: &mut Connection,
    agent: &AgentId,
    range: RecordRange,
) -> StoreResult<Vec<MessageRecord>> {
    let sql = sql!(
        "-- sql/archive.records\nSELECT m.seq, m.exchange, coalesce(e.session, 1), m.kind, m.format, \
               coalesce(r.tokens, m.tokens), coalesce(r.count_method, m.count_method), m.client_id, m.said_at, \
               m.received_at, m.payload, CASE WHEN m.seq = e.first_seq THEN e.headline END FROM message_log m \
               LEFT JOIN exchange_log e ON e.agent_id = m.agent_id AND e.exchange = m.exchange \
               LEFT JOIN recounts r ON r.agent_id = m.agent_id AND r.seq = m.seq \
               WHERE m.agent_id = $1 AND m.seq > $2 AND m.seq <= $3 ORDER BY m.seq LIMIT $4"
    );
    let mut rows = query(sql)
        .bind(agent.as_str())
        .bind(range.after_seq)
        .bind(range.through_seq)
        .bind(range.messages_max)
        .fetch(connection)?;
    let (mut records, mut bytes) = (Vec::new(), 0);
    while bytes < range.bytes_max {
        let Some(row) = rows.try_next().await? else { break };
        let record = record(agent, &row)?;
        bytes += record.payload.len();
        records.push(record);
    }
    Ok(records)
}

fn record(agent: &AgentId, row: &Row) -> StoreResult<MessageRecord> {
    let (seq, format): (i64, String) = (row.try_get(0)?, row.try_get(4)?);
    let exchange: i64 = row.try_get(1)?;
    // Set only for the first message of an exchange.
    let headline: Option<String> = row.try_get(11)?;
    let headline = headline.map(|headline| row::headline(exchange, &headline)).transpose()?;
    Ok(MessageRecord {
        agent_id: agent.clone(),
        seq,
        exchange,
        session: row.try_get(2)?,
        begins_leg: headline.is_some_and(|headline| headline.leg_from == Some(exchange)),
        kind: row.try_get(3)?,
        format: Format::from_name(&format)
            .ok_or_else(|| row::inconsistent("message_log", format!("seq {seq}"), "format", format))?,
        tokens: row.try_get(5)?,
        count_method: row.try_get(6)?,
        client_id: row.try_get(7)?,
        said_at: row.try_get(8)?,
        received_at: row.try_get(9)?,
        payload: row.try_get(10)?,
    })
}
