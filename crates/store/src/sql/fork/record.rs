//! The record of a fork's starting state. A fork writes it, a journal contains it, and an import restores the fork from it.

use crate::sql::{Connection, query, sql};

use super::super::{
    super::{StoreError, StoreResult, archive::ArchiveError, seal},
    archive, facts, lineage, queue,
    row::{self, exchange_columns},
    seal::fill,
};
use recapd_core::domain::{
    agent::AgentId,
    exchange::Exchange,
    journal::{CountRecord, DocumentRecord, ForkRecord, ItemRecord, JournalError, PinRecord, SharedExchange},
    time::Timestamp,
};

/// Records the state of `agent` right after the fork.
pub(super) async fn write_new(tx: &mut Connection, agent: &AgentId) -> StoreResult<()> {
    let record = read_state(tx, agent).await?;
    write(tx, agent, &record).await
}

async fn write(tx: &mut Connection, agent: &AgentId, record: &ForkRecord) -> StoreResult<()> {
    let sql = sql!("-- sql/fork.keep\nINSERT INTO forks (agent_id, record, digest) VALUES ($1, $2, $3)");
    let json = serde_json::json!(record).to_string();
    let digest = seal::of_fork(&json);
    let query = query(sql).bind(agent.as_str()).bind(json).bind(digest);
    query.execute(tx).await?;
    Ok(())
}

pub(crate) async fn replace(tx: &mut Connection, agent: &AgentId, record: &ForkRecord) -> StoreResult<()> {
    let sql = sql!("-- sql/fork.replace\nUPDATE forks SET record = $2, digest = $3 WHERE agent_id = $1");
    let json = serde_json::json!(record).to_string();
    let digest = seal::of_fork(&json);
    query(sql).bind(agent.as_str()).bind(json).bind(digest).execute(tx).await?;
    Ok(())
}

/// Does the same as [`load`], but returns `None` also for a fork without a record.
pub(crate) async fn load_if_recorded(
    tx: &mut Connection,
    agent: &AgentId,
) -> StoreResult<Option<Box<ForkRecord>>> {
    match load(tx, agent).await {
        Ok(record) => Ok(record),
        Err(ArchiveError::Store(error)) => Err(error),
        Err(_) => Ok(None),
    }
}

/// Returns the record of `agent`; `None` if it isn't a fork.
///
/// # Errors
/// [`ArchiveError::Forked`] for a fork without a record.
pub(crate) async fn load(
    tx: &mut Connection,
    agent: &AgentId,
) -> Result<Option<Box<ForkRecord>>, ArchiveError> {
    let sql = sql!(
        "-- sql/fork.kept\nSELECT f.record FROM agents a LEFT JOIN forks f ON f.agent_id = a.agent_id \
               WHERE a.agent_id = $1 AND a.parent_agent_id IS NOT NULL"
    );
    let found = query(sql).bind(agent.as_str()).fetch_optional(tx).await;
    let Some(row) = found.map_err(StoreError::from)? else {
        return Ok(None);
    };
    let record: Option<String> = row.try_get(0).map_err(StoreError::from)?;
    let record = record.ok_or_else(|| ArchiveError::Forked(agent.clone()))?;
    let read = serde_json::from_str(&record)
        .map_err(|_| row::inconsistent("forks", agent.to_string(), "record", record));
    Ok(Some(read?))
}

async fn read_state(tx: &mut Connection, agent: &AgentId) -> StoreResult<ForkRecord> {
    let sql = sql!(
        "-- sql/fork.read\nSELECT parent_agent_id, fork_exchange, created_at, last_seq, last_exchange, \
               newest_exchange, preamble_exchange, session, first_exchange, tokens_before_window, summarized_through, \
               last_item, last_eviction, last_fact FROM agents WHERE agent_id = $1"
    );
    let found = query(sql).bind(agent.as_str()).fetch_one(&mut *tx).await?;
    Ok(ForkRecord {
        parent: row::agent_id_of(&found, 0, agent.as_str())?,
        fork_exchange: found.try_get(1)?,
        forked_at: found.try_get(2)?,
        last_seq: found.try_get(3)?,
        last_exchange: found.try_get(4)?,
        newest_exchange: found.try_get(5)?,
        preamble_exchange: found.try_get(6)?,
        session: found.try_get(7)?,
        first_exchange: found.try_get(8)?,
        tokens_before_window: found.try_get(9)?,
        summarized_through: found.try_get(10)?,
        last_item: found.try_get(11)?,
        last_eviction: found.try_get(12)?,
        counts: counts(tx, agent).await?,
        exchanges: exchanges(tx, agent).await?,
        sessions: archive::sessions(tx, agent).await?,
        marks: archive::marks(tx, agent).await?,
        pins: pins(tx, agent).await?,
        notes: lineage::notes::records(tx, agent).await?,
        document: document(tx, agent).await?,
        items: items(tx, agent).await?,
        last_fact: found.try_get(13)?,
        facts: facts::records(tx, agent).await?,
    })
}

async fn exchanges(tx: &mut Connection, agent: &AgentId) -> StoreResult<Vec<SharedExchange>> {
    let sql = sql!(
        "-- sql/fork.read_exchanges\nSELECT e.source_agent_id, e.role, ",
        exchange_columns!("e"),
        " FROM exchange_log e WHERE e.agent_id = $1 ORDER BY e.exchange"
    );
    let found = query(sql).bind(agent.as_str()).fetch_all(tx).await?;
    let shared = found.iter().map(|found| {
        let read = row::exchange(found, 2)?;
        Ok(SharedExchange {
            source: row::agent_id_of(found, 0, agent.as_str())?,
            exchange: read.exchange,
            role: found.try_get(1)?,
            session: read.session,
            first_seq: read.first_seq,
            last_seq: read.last_seq,
            tokens: read.tokens,
            tokens_before: read.tokens_before,
            state: read.state,
            opened_at: read.opened_at,
            last_at: read.last_at,
            headline: read.headline,
        })
    });
    shared.collect()
}

async fn pins(tx: &mut Connection, agent: &AgentId) -> StoreResult<Vec<PinRecord>> {
    let sql = sql!(
        "-- sql/fork.read_pins\nSELECT source_agent_id, seq, exchange, session, pinned, important FROM pins \
               WHERE agent_id = $1 ORDER BY seq"
    );
    let found = query(sql).bind(agent.as_str()).fetch_all(tx).await?;
    let pins = found.iter().map(|found| {
        Ok(PinRecord {
            source: row::agent_id_of(found, 0, agent.as_str())?,
            seq: found.try_get(1)?,
            exchange: found.try_get(2)?,
            session: found.try_get(3)?,
            pinned: found.try_get(4)?,
            important: found.try_get(5)?,
        })
    });
    pins.collect()
}

async fn counts(tx: &mut Connection, agent: &AgentId) -> StoreResult<Vec<CountRecord>> {
    let sql = sql!(
        "-- sql/fork.read_counts\nSELECT m.seq, coalesce(r.tokens, m.tokens), \
               coalesce(r.count_method, m.count_method) FROM exchange_log e JOIN message_log m \
               ON m.agent_id = e.source_agent_id AND m.seq BETWEEN e.first_seq AND e.last_seq \
               LEFT JOIN recounts r ON r.agent_id = e.agent_id AND r.seq = m.seq WHERE e.agent_id = $1 ORDER BY m.seq"
    );
    let found = query(sql).bind(agent.as_str()).fetch_all(tx).await?;
    let counts = found.iter().map(|found| {
        Ok(CountRecord { seq: found.try_get(0)?, tokens: found.try_get(1)?, method: found.try_get(2)? })
    });
    counts.collect()
}

async fn document(tx: &mut Connection, agent: &AgentId) -> StoreResult<Option<DocumentRecord>> {
    let sql = sql!(
        "-- sql/fork.read_document\nSELECT v.content, v.token_count, v.path, v.as_of, s.updated_at, \
               s.next_ageing_at FROM summary_versions v JOIN summaries s ON s.agent_id = v.agent_id \
               WHERE v.agent_id = $1 AND v.version = 1"
    );
    let found = query(sql).bind(agent.as_str()).fetch_optional(tx).await?;
    let Some(found) = found else { return Ok(None) };
    Ok(Some(DocumentRecord {
        content: found.try_get(0)?,
        tokens: found.try_get(1)?,
        path: found.try_get(2)?,
        as_of: found.try_get(3)?,
        updated_at: found.try_get(4)?,
        next_ageing_at: row::time(&found, 5)?,
    }))
}

async fn items(tx: &mut Connection, agent: &AgentId) -> StoreResult<Vec<ItemRecord>> {
    let sql = sql!(
        "-- sql/fork.read_items\nSELECT i.item, i.importance, i.origin, i.provisional, i.started_at, i.ended_at, \
               i.source_tokens, i.text, i.brief, i.gist, (SELECT coalesce(CAST({array_of}({array}(r.first_exchange, r.last_exchange)) AS text), '[]') FROM summary_item_ranges r WHERE r.agent_id = i.agent_id AND r.item = i.item), \
               i.pinned, i.source_agent_id FROM summary_items i WHERE i.agent_id = $1 ORDER BY i.item"
    );
    let found = query(sql).bind(agent.as_str()).fetch_all(tx).await?;
    let items = found.iter().map(|found| {
        let item = row::item(found)?;
        Ok(ItemRecord {
            source: row::agent_id_of(found, 12, agent.as_str())?,
            item: item.item,
            ranges: item.ranges,
            started_at: item.started_at,
            ended_at: item.ended_at,
            source_tokens: item.source_tokens,
            importance: item.importance,
            origin: item.origin,
            text: item.text,
            brief: item.brief,
            gist: item.gist,
        })
    });
    items.collect()
}

/// Restores `agent` to its state right after the fork.
///
/// # Errors
/// [`JournalError::NoParent`] if messages that `agent` shares with an ancestor don't exist.
pub(crate) async fn restore(
    tx: &mut Connection,
    agent: &AgentId,
    record: &ForkRecord,
    now: Timestamp,
) -> Result<(), ArchiveError> {
    let exchanges = record.exchanges.iter();
    let shared = exchanges.map(|shared| (&shared.source, shared.first_seq, shared.last_seq));
    let pinned = record.pins.iter().map(|pin| (&pin.source, pin.seq, pin.seq));
    let noted = record.notes.iter().map(|note| (&note.source, note.seq, note.seq));
    for (source, first_seq, last_seq) in shared.chain(pinned).chain(noted) {
        if !have_messages(tx, source, (first_seq, last_seq)).await? {
            let from = source.clone();
            return Err(JournalError::NoParent { from }.into());
        }
    }
    write_agent(tx, agent, record, now).await?;
    write(tx, agent, record).await?;
    for shared in &record.exchanges {
        write_exchange(tx, agent, shared).await?;
    }
    for pin in &record.pins {
        write_pin(tx, agent, pin).await?;
    }
    for note in &record.notes {
        lineage::notes::restore(tx, agent, note).await?;
    }
    for count in &record.counts {
        write_count(tx, agent, count).await?;
    }
    archive::restore::write_sessions(tx, agent, &record.sessions).await?;
    archive::restore::write_marks(tx, agent, &record.marks).await?;
    write_document(tx, agent, record, now).await?;
    for item in &record.items {
        write_item(tx, agent, item).await?;
    }
    for fact in &record.facts {
        facts::restore(tx, agent, fact).await?;
    }
    fill::items(tx, agent, i64::MAX).await?;
    fill::facts(tx, agent, i64::MAX).await?;
    Ok(fill::versions(tx, agent, i64::MAX).await.map(drop)?)
}

async fn have_messages(
    tx: &mut Connection,
    source: &AgentId,
    (first_seq, last_seq): (i64, i64),
) -> StoreResult<bool> {
    let sql = sql!(
        "-- sql/fork.are_there\nSELECT count(*) FROM message_log WHERE agent_id = $1 AND seq BETWEEN $2 AND $3"
    );
    let row = query(sql).bind(source.as_str()).bind(first_seq).bind(last_seq).fetch_one(tx).await?;
    Ok(row.try_get::<i64>(0)? == last_seq - first_seq + 1)
}

/// Writes the agent's row without a budget, so that the import of messages evicts nothing. The journal's end or the next append
/// sets a budget.
async fn write_agent(
    tx: &mut Connection,
    agent: &AgentId,
    record: &ForkRecord,
    now: Timestamp,
) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/fork.write_agent\nINSERT INTO agents (agent_id, parent_agent_id, fork_exchange, created_at, \
               updated_at, last_seq, fork_seq, chained_through, last_exchange, newest_exchange, preamble_exchange, last_item, session, \
               first_exchange, tokens_before_window, summarized_through, pending_since, last_eviction, last_fact) \
               VALUES ($1, $2, $3, $4, $5, $6, $6, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)"
    );
    let is_pending = record.first_exchange - 1 > record.summarized_through;
    query(sql)
        .bind(agent.as_str())
        .bind(record.parent.as_str())
        .bind(record.fork_exchange)
        .bind(record.forked_at)
        .bind(now)
        .bind(record.last_seq)
        .bind(record.last_exchange)
        .bind(record.newest_exchange)
        .bind(record.preamble_exchange)
        .bind(record.last_item)
        .bind(record.session)
        .bind(record.first_exchange)
        .bind(record.tokens_before_window)
        .bind(record.summarized_through)
        .bind(is_pending.then_some(now))
        .bind(record.last_eviction)
        .bind(record.last_fact)
        .execute(tx)
        .await?;
    Ok(())
}

async fn write_exchange(tx: &mut Connection, agent: &AgentId, shared: &SharedExchange) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/fork.write_exchange\nINSERT INTO exchange_log (agent_id, exchange, role, session, \
               source_agent_id, first_seq, last_seq, tokens, tokens_before, state, opened_at, last_at, headline, digest, messages) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, (SELECT count(*) FROM message_log m \
               WHERE m.agent_id = $5 AND m.seq BETWEEN $6 AND $7 AND m.exchange = $2 \
               AND m.kind IN ('system', 'user', 'assistant', 'tool_call', 'tool_result')))"
    );
    let headline = serde_json::json!(shared.headline).to_string();
    let exchange = Exchange {
        exchange: shared.exchange,
        session: shared.session,
        first_seq: shared.first_seq,
        last_seq: shared.last_seq,
        messages: 0,
        tokens: shared.tokens,
        tokens_before: shared.tokens_before,
        state: shared.state,
        opened_at: shared.opened_at,
        last_at: shared.last_at,
        headline: shared.headline.clone(),
        set_aside_at: None,
    };
    query(sql)
        .bind(agent.as_str())
        .bind(shared.exchange)
        .bind(shared.role.as_str())
        .bind(shared.session)
        .bind(shared.source.as_str())
        .bind(shared.first_seq)
        .bind(shared.last_seq)
        .bind(shared.tokens)
        .bind(shared.tokens_before)
        .bind(shared.state.name())
        .bind(shared.opened_at)
        .bind(shared.last_at)
        .bind(headline.as_str())
        .bind(seal::of_exchange(&exchange, &headline))
        .execute(tx)
        .await?;
    Ok(())
}

async fn write_pin(tx: &mut Connection, agent: &AgentId, pin: &PinRecord) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/fork.write_pin\nINSERT INTO pins (agent_id, seq, source_agent_id, exchange, session, pinned, \
               important) VALUES ($1, $2, $3, $4, $5, $6, $7)"
    );
    query(sql)
        .bind(agent.as_str())
        .bind(pin.seq)
        .bind(pin.source.as_str())
        .bind(pin.exchange)
        .bind(pin.session)
        .bind(pin.pinned)
        .bind(pin.important)
        .execute(tx)
        .await?;
    Ok(())
}

/// Stores a message's token count if it differs from the count in the parent's message.
async fn write_count(tx: &mut Connection, agent: &AgentId, count: &CountRecord) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/fork.write_count\nINSERT INTO recounts (agent_id, seq, tokens, count_method) \
               SELECT e.agent_id, m.seq, $3, $4 FROM exchange_log e JOIN message_log m ON m.agent_id = e.source_agent_id \
               AND m.seq = $2 WHERE e.agent_id = $1 AND m.seq BETWEEN e.first_seq AND e.last_seq AND m.tokens <> $3"
    );
    query(sql)
        .bind(agent.as_str())
        .bind(count.seq)
        .bind(count.tokens)
        .bind(count.method.as_str())
        .execute(tx)
        .await?;
    Ok(())
}

async fn write_document(
    tx: &mut Connection,
    agent: &AgentId,
    record: &ForkRecord,
    now: Timestamp,
) -> StoreResult<()> {
    let summary = sql!(
        "-- sql/fork.write_summary\nINSERT INTO summaries (agent_id, version, content, token_count, \
                   updated_at, next_ageing_at) VALUES ($1, $2, $3, $4, $5, $6)"
    );
    let document = record.document.as_ref();
    let updated_at = document.map_or(now, |document| document.updated_at);
    query(summary)
        .bind(agent.as_str())
        .bind(i64::from(document.is_some()))
        .bind(document.map_or("", |document| document.content.as_str()))
        .bind(document.map_or(0, |document| document.tokens))
        .bind(updated_at)
        .bind(document.and_then(|document| document.next_ageing_at))
        .execute(&mut *tx)
        .await?;
    let Some(document) = document else { return Ok(()) };
    let version = sql!(
        "-- sql/fork.write_version\nINSERT INTO summary_versions (agent_id, version, lease_token, \
                   covers_after, covers_through, exchanges, path, content, token_count, as_of, created_at) \
                   VALUES ($1, 1, $2, 0, $3, 0, $4, $5, $6, $7, $8)"
    );
    let token = queue::next_token(tx).await?;
    query(version)
        .bind(agent.as_str())
        .bind(token)
        .bind(record.summarized_through)
        .bind(document.path.as_str())
        .bind(document.content.as_str())
        .bind(document.tokens)
        .bind(document.as_of)
        .bind(record.forked_at)
        .execute(tx)
        .await?;
    Ok(())
}

async fn write_item(tx: &mut Connection, agent: &AgentId, item: &ItemRecord) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/fork.write_item\nINSERT INTO summary_items (agent_id, item, added_version, importance, origin, \
               provisional, started_at, ended_at, source_tokens, text, brief, gist, source_agent_id) \
               VALUES ($1, $2, 1, $3, $4, {false}, $5, $6, $7, $8, $9, $10, $11)"
    );
    query(sql)
        .bind(agent.as_str())
        .bind(item.item)
        .bind(item.importance.name())
        .bind(item.origin.name())
        .bind(item.started_at)
        .bind(item.ended_at)
        .bind(item.source_tokens)
        .bind(item.text.as_str())
        .bind(item.brief.as_str())
        .bind(item.gist.as_str())
        .bind(item.source.as_str())
        .execute(&mut *tx)
        .await?;
    let range = sql!(
        "-- sql/fork.write_range\nINSERT INTO summary_item_ranges (agent_id, item, first_exchange, \
                 last_exchange) VALUES ($1, $2, $3, $4)"
    );
    for span in &item.ranges {
        query(range)
            .bind(agent.as_str())
            .bind(item.item)
            .bind(span.first)
            .bind(span.last)
            .execute(&mut *tx)
            .await?;
    }
    Ok(())
}
