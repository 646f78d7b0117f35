//! Seals rows. New messages are sealed and chained when they are written; rows without a seal get one later ([`fill`]).

pub(super) mod fill;

use futures::TryStreamExt as _;

use super::{
    super::{
        Outage, OutageKind, StoreError, StoreResult,
        seal::{Chain, MessageRow, SALT_BYTES, Seal},
    },
    Connection, Lock, Row, SqlStore, query, row, sql,
};
use recapd_core::domain::{agent::AgentId, number::i64_or_max, text::hexadecimal, time::Timestamp};
use recapd_platform::randomness;

/// Limits the bytes of payloads that one transaction seals. The first message is sealed whatever its size.
const BYTES_MAX: usize = 1 << 20;

/// Seals the agent's next message and adds it to the chain. Returns `None` while earlier messages have no seal yet.
pub(super) fn seal_next(chain: &mut Chain, row: &MessageRow<'_>) -> StoreResult<Option<Seal>> {
    if !chain.is_next(row.seq) {
        return Ok(None);
    }
    let sealed = seal_message(row)?;
    chain.add(row, &sealed.seal);
    Ok(Some(sealed))
}

fn seal_message(row: &MessageRow<'_>) -> StoreResult<Seal> {
    let salt = randomness::bytes::<SALT_BYTES>()
        .map_err(|none| StoreError::Unavailable(Outage { kind: OutageKind::Io, reason: none.to_string() }))?;
    let salt = hexadecimal(&salt);
    Ok(Seal { seal: row.seal(&salt), salt })
}

/// A stored message, with the fields of its seal.
pub(super) struct StoredRow {
    pub(super) seq: i64,
    exchange: i64,
    pub(super) kind: String,
    pub(super) speaker: Option<String>,
    pub(super) format: String,
    pub(super) payload: String,
    pub(super) tokens: i64,
    pub(super) count_method: String,
    client_id: Option<String>,
    said_at: Timestamp,
    received_at: Timestamp,
    pub(super) is_forgotten: bool,
    pub(super) salt: Option<String>,
    pub(super) seal: Option<String>,
}

/// The columns of a [`StoredRow`], from `m`.
macro_rules! sealed_columns {
    () => {
        "m.seq, m.exchange, m.kind, m.speaker, m.format, m.payload, m.tokens, m.count_method, m.client_id, m.said_at, \
         m.received_at, m.forgotten_at IS NOT NULL, m.salt, m.seal"
    };
}
pub(super) use sealed_columns;

impl StoredRow {
    pub(super) fn read(row: &Row) -> StoreResult<Self> {
        Ok(Self {
            seq: row.try_get(0)?,
            exchange: row.try_get(1)?,
            kind: row.try_get(2)?,
            speaker: row.try_get(3)?,
            format: row.try_get(4)?,
            payload: row.try_get(5)?,
            tokens: row.try_get(6)?,
            count_method: row.try_get(7)?,
            client_id: row.try_get(8)?,
            said_at: row.try_get(9)?,
            received_at: row.try_get(10)?,
            is_forgotten: row.try_get(11)?,
            salt: row.try_get(12)?,
            seal: row.try_get(13)?,
        })
    }

    pub(super) fn of<'a>(&'a self, agent: &'a AgentId) -> MessageRow<'a> {
        MessageRow {
            agent,
            seq: self.seq,
            exchange: self.exchange,
            kind: &self.kind,
            speaker: self.speaker.as_deref(),
            format: &self.format,
            payload: &self.payload,
            tokens: self.tokens,
            count_method: &self.count_method,
            client_id: self.client_id.as_deref(),
            said_at: self.said_at,
            received_at: self.received_at,
        }
    }
}

/// Messages that get their seals late.
#[derive(Clone, Debug)]
struct UnsealedMessages {
    agent: AgentId,
    /// The last message that the chain includes so far.
    before: i64,
    /// The chain with these messages.
    chain: Chain,
    seals: Vec<(i64, Seal)>,
    /// The first and the last exchange of these messages.
    exchanges: (i64, i64),
}

/// See [`super::super::Store::seal_rows`].
pub(super) async fn seal_rows(store: &SqlStore, rows_max: i64) -> StoreResult<i64> {
    if let Some(agent) = agent_to_seal(&mut store.reader().await?).await? {
        // Reads and hashes here, so that the writer only writes.
        let late = load_unsealed(&mut store.snapshot().await?, agent, rows_max).await?;
        let lock = Lock::Agent(late.agent.clone());
        return store.write(lock, move |tx| Box::pin(async move { write_late(tx, late).await })).await;
    }
    let Some((part, agent)) = fill::due(&mut store.reader().await?).await? else {
        return Ok(0);
    };
    store
        .write(Lock::Agent(agent.clone()), move |tx| {
            Box::pin(async move { part.fill(tx, &agent, rows_max).await })
        })
        .await
}

/// Returns an agent with messages after the end of its chain. Ignores messages that lost their seal.
async fn agent_to_seal(connection: &mut Connection) -> StoreResult<Option<AgentId>> {
    let sql = sql!(
        "-- sql/seal.unchained\nSELECT m.agent_id FROM message_log m {join} agents a ON a.agent_id = m.agent_id \
               WHERE m.seal IS NULL AND m.seq > a.chained_through ORDER BY m.agent_id, m.seq LIMIT 1"
    );
    let found = query(sql).fetch_optional(connection).await?;
    found.map(|found| row::agent_id(&found, 0)).transpose()
}

async fn load_unsealed(tx: &mut Connection, agent: AgentId, rows_max: i64) -> StoreResult<UnsealedMessages> {
    let sql = sql!("-- sql/seal.chain\nSELECT chain, chained_through FROM agents WHERE agent_id = $1");
    let found = query(sql).bind(agent.as_str()).fetch_optional(&mut *tx).await?;
    let found = found.ok_or_else(|| StoreError::UnknownAgent(agent.clone()))?;
    let mut chain = Chain { link: found.try_get(0)?, through: found.try_get(1)? };
    let before = chain.through;
    let sql = sql!(
        "-- sql/seal.late\nSELECT ",
        sealed_columns!(),
        " FROM message_log m WHERE m.agent_id = $1 AND m.seq > $2 ORDER BY m.seq LIMIT $3"
    );
    let query = query(sql).bind(agent.as_str()).bind(before).bind(rows_max);
    let mut found = query.fetch(tx)?;
    let (mut seals, mut bytes) = (Vec::new(), 0);
    let (mut first, mut last) = (i64::MAX, i64::MIN);
    while bytes < BYTES_MAX {
        let Some(found) = found.try_next().await? else {
            break;
        };
        let stored = StoredRow::read(&found)?;
        bytes += stored.payload.len();
        let sealed = seal_message(&stored.of(&agent))?;
        chain.add(&stored.of(&agent), &sealed.seal);
        seals.push((stored.seq, sealed));
        (first, last) = (first.min(stored.exchange), last.max(stored.exchange));
    }
    drop(found);
    Ok(UnsealedMessages { agent, before, chain, seals, exchanges: (first, last) })
}

/// Writes the seals, unless another caller has extended the chain meanwhile. A message that was forgotten meanwhile gets no salt.
/// Returns how many seals it wrote.
async fn write_late(tx: &mut Connection, late: UnsealedMessages) -> StoreResult<i64> {
    let moved = sql!(
        "-- sql/seal.move_chain\nUPDATE agents SET chain = $3, chained_through = $4 WHERE agent_id = $1 AND chained_through = $2"
    );
    let moved = query(moved)
        .bind(late.agent.as_str())
        .bind(late.before)
        .bind(late.chain.link.as_deref())
        .bind(late.chain.through);
    if moved.execute(&mut *tx).await? == 0 {
        return Ok(0);
    }
    let sql = sql!(
        "-- sql/seal.seal\nUPDATE message_log SET seal = $3, salt = CASE WHEN forgotten_at IS NULL THEN $4 END \
               WHERE agent_id = $1 AND seq = $2"
    );
    for (seq, sealed) in &late.seals {
        query(sql)
            .bind(late.agent.as_str())
            .bind(*seq)
            .bind(sealed.seal.as_str())
            .bind(sealed.salt.as_str())
            .execute(&mut *tx)
            .await?;
    }
    fill::exchanges(tx, &late.agent, late.exchanges).await?;
    Ok(i64_or_max(late.seals.len()))
}
