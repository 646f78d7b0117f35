//! Reads the data that [`super::super::verify`] checks.

mod archive;
mod numbers;
mod parts;
mod tokens;

use crate::sql::{Connection, query, sql};

use futures::TryStreamExt as _;

use super::{
    super::{
        StoreResult,
        verify::{
            AgentData, AgentReport, Depth, ExchangeData, FactData, ItemData, VerifyFindings, VersionData,
            check,
        },
    },
    agent, fork, row, totals,
    withdrawals::in_force,
};
use recapd_core::{
    domain::{agent::AgentId, summary::item::ExchangeRange, tokens::TokenCounter},
    tokenizer,
};

/// Reads everything about one agent in one transaction, and checks it.
pub(super) async fn verify(tx: &mut Connection, agent: &AgentId, depth: Depth) -> StoreResult<AgentReport> {
    let row = agent::load_known(tx, agent).await?;
    let counter = tokenizer::ceiling_counter();
    let mut findings = VerifyFindings::default();
    let mut recount = tokens::Recount::new(depth);
    archive::check(tx, agent, &row.chain, &mut recount, &mut findings).await?;
    recount.report_skipped(&mut findings);
    parts::check(tx, agent, &mut findings).await?;
    numbers::check(tx, agent, &mut findings).await?;
    let (messages, last_seq, fork_seq) = count_messages(tx, agent).await?;
    let (version, document_tokens, document_counted) = document(tx, agent, counter.as_ref()).await?;
    let data = AgentData {
        messages,
        last_seq,
        fork_seq,
        strays: count_strays(tx, agent).await?,
        pins_astray: count_pins_astray(tx, agent).await?,
        notes_astray: count_notes_astray(tx, agent).await?,
        exchanges: exchanges(tx, agent).await?,
        items: items(tx, agent).await?,
        versions: versions(tx, agent, counter.as_ref()).await?,
        facts: load_facts(tx, agent).await?,
        version,
        document_tokens,
        document_counted,
        totals_from: totals::outdated_after(tx, agent).await?,
        row,
    };
    Ok(check(&data, findings))
}

async fn count_messages(tx: &mut Connection, agent: &AgentId) -> StoreResult<(i64, i64, i64)> {
    let sql = sql!(
        "-- sql/verify.count_messages\nSELECT count(m.seq), coalesce(max(m.seq), max(a.fork_seq)), max(a.fork_seq) \
               FROM agents a LEFT JOIN message_log m ON m.agent_id = a.agent_id WHERE a.agent_id = $1"
    );
    let row = query(sql).bind(agent.as_str()).fetch_one(tx).await?;
    Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?))
}

/// Counts messages that are outside of the range of the exchange that they name.
async fn count_strays(tx: &mut Connection, agent: &AgentId) -> StoreResult<i64> {
    let sql = sql!(
        "-- sql/verify.count_strays\nSELECT count(*) FROM message_log m LEFT JOIN exchange_log e \
               ON e.agent_id = m.agent_id AND e.exchange = m.exchange \
               WHERE m.agent_id = $1 AND (e.exchange IS NULL OR m.seq NOT BETWEEN e.first_seq AND e.last_seq)"
    );
    Ok(query(sql).bind(agent.as_str()).fetch_one(tx).await?.try_get(0)?)
}

/// Counts pins of messages that don't exist or were set aside.
async fn count_pins_astray(tx: &mut Connection, agent: &AgentId) -> StoreResult<i64> {
    let sql = sql!(
        "-- sql/verify.pins_astray\nSELECT count(*) FROM pins p LEFT JOIN message_log m \
               ON m.agent_id = p.source_agent_id AND m.seq = p.seq AND m.exchange = p.exchange \
               LEFT JOIN exchange_log e ON e.agent_id = p.agent_id AND e.exchange = p.exchange \
               WHERE p.agent_id = $1 AND (m.seq IS NULL OR e.set_aside_at IS NOT NULL)"
    );
    let row = query(sql).bind(agent.as_str()).fetch_one(tx).await?;
    Ok(row.try_get(0)?)
}

/// Counts versions of notes whose messages don't exist, were forgotten or set aside, or write no note.
async fn count_notes_astray(tx: &mut Connection, agent: &AgentId) -> StoreResult<i64> {
    let sql = sql!(
        "-- sql/verify.notes_astray\nSELECT count(*) FROM notes n LEFT JOIN message_log m \
               ON m.agent_id = n.source_agent_id AND m.seq = n.seq AND m.exchange = n.exchange \
               LEFT JOIN exchange_log e ON e.agent_id = n.agent_id AND e.exchange = n.exchange \
               WHERE n.agent_id = $1 AND (m.seq IS NULL OR m.kind <> 'note' OR m.forgotten_at IS NOT NULL \
               OR e.set_aside_at IS NOT NULL)"
    );
    let row = query(sql).bind(agent.as_str()).fetch_one(tx).await?;
    Ok(row.try_get(0)?)
}

async fn exchanges(tx: &mut Connection, agent: &AgentId) -> StoreResult<Vec<ExchangeData>> {
    // The first exchanges of a fork hold messages of its parent.
    let sql = sql!(
        "-- sql/verify.exchanges\nSELECT e.exchange, e.tokens, e.tokens_before, e.set_aside_at IS NOT NULL, \
               e.opened_at, e.last_at, e.last_seq - e.first_seq + 1, coalesce(m.messages, 0), coalesce(m.tokens, 0), \
               e.role = 'preamble', e.messages, coalesce(m.sent, 0), e.headline, \
               (SELECT f.kind IN ('assistant', 'tool_call') FROM message_log f \
               WHERE f.agent_id = e.source_agent_id AND f.seq = e.first_seq) FROM exchange_log e \
               LEFT JOIN (SELECT l.exchange, count(*) AS messages, CAST(sum(coalesce(r.tokens, l.tokens)) AS bigint) AS tokens, \
               count(*) FILTER (WHERE l.kind IN ('system', 'user', 'assistant', 'tool_call', 'tool_result')) AS sent \
               FROM message_log l LEFT JOIN recounts r ON r.agent_id = l.agent_id AND r.seq = l.seq \
               WHERE l.agent_id = $1 GROUP BY l.exchange \
               UNION ALL SELECT i.exchange, count(*), CAST(sum(coalesce(c.tokens, o.tokens)) AS bigint), \
               count(*) FILTER (WHERE o.kind IN ('system', 'user', 'assistant', 'tool_call', 'tool_result')) FROM exchange_log i \
               JOIN message_log o ON o.agent_id = i.source_agent_id AND o.seq BETWEEN i.first_seq AND i.last_seq \
               AND o.exchange = i.exchange LEFT JOIN recounts c ON c.agent_id = i.agent_id AND c.seq = o.seq \
               WHERE i.agent_id = $1 AND i.source_agent_id <> $1 GROUP BY i.exchange) m \
               ON m.exchange = e.exchange WHERE e.agent_id = $1 ORDER BY e.exchange"
    );
    let found = query(sql).bind(agent.as_str()).fetch_all(tx).await?;
    let exchanges = found.iter().map(|row| -> StoreResult<ExchangeData> {
        let (exchange, headline): (i64, String) = (row.try_get(0)?, row.try_get(12)?);
        // The check of digests reports a headline that can't be read.
        let headline = row::headline(exchange, &headline).unwrap_or_default();
        Ok(ExchangeData {
            exchange,
            continues: headline.continues,
            leg_from: headline.leg_from,
            is_begun_by_model: row.try_get::<Option<bool>>(13)?.unwrap_or(false),
            tokens: row.try_get(1)?,
            tokens_before: row.try_get(2)?,
            set_aside: row.try_get(3)?,
            opened_at: row.try_get(4)?,
            last_at: row.try_get(5)?,
            messages_expected: row.try_get(6)?,
            messages: row.try_get(7)?,
            message_tokens: row.try_get(8)?,
            is_preamble: row.try_get(9)?,
            sent: row.try_get(10)?,
            messages_sent: row.try_get(11)?,
        })
    });
    exchanges.collect()
}

async fn items(tx: &mut Connection, agent: &AgentId) -> StoreResult<Vec<ItemData>> {
    let sql = sql!(
        "-- sql/verify.items\nSELECT i.item, i.started_at, i.ended_at, i.source_tokens, r.first_exchange, \
               r.last_exchange, i.source_agent_id IS NOT NULL, coalesce(i.source_item, i.item), coalesce(s.started_at = i.started_at \
               AND s.ended_at = i.ended_at AND s.source_tokens = i.source_tokens, {false}) FROM summary_items i \
               LEFT JOIN summary_items s ON s.agent_id = i.source_agent_id AND s.item = coalesce(i.source_item, i.item) LEFT JOIN summary_item_ranges r \
               ON r.agent_id = i.agent_id AND r.item = i.item \
               WHERE i.agent_id = $1 AND ",
        in_force!(),
        " ORDER BY i.item, r.first_exchange"
    );
    let mut items: Vec<ItemData> = Vec::new();
    for row in query(sql).bind(agent.as_str()).fetch_all(&mut *tx).await? {
        let item: i64 = row.try_get(0)?;
        if items.last().is_none_or(|last| last.item != item) {
            items.push(ItemData {
                item,
                started_at: row.try_get(1)?,
                ended_at: row.try_get(2)?,
                source_tokens: row.try_get(3)?,
                original: row.try_get(7)?,
                equals_original: row.try_get::<bool>(6)?.then_some(row.try_get(8)?),
                ranges: Vec::new(),
            });
        }
        let range: (Option<i64>, Option<i64>) = (row.try_get(4)?, row.try_get(5)?);
        if let ((Some(first), Some(last)), Some(last_item)) = (range, items.last_mut()) {
            last_item.ranges.push(ExchangeRange { first, last });
        }
    }
    confirm_copies(tx, agent, &mut items).await?;
    Ok(items)
}

/// Accepts an inherited item also if it equals the record made at the fork. If the fork and its parent were restored from
/// journals, the parent's items were made again, and the original is gone.
async fn confirm_copies(tx: &mut Connection, agent: &AgentId, items: &mut [ItemData]) -> StoreResult<()> {
    let Some(record) = fork::record::load_if_recorded(tx, agent).await? else {
        return Ok(());
    };
    for item in items.iter_mut().filter(|item| item.equals_original == Some(false)) {
        let is_as_recorded = record.items.iter().any(|recorded| {
            (recorded.item == item.item || recorded.item == item.original)
                && (recorded.started_at, recorded.ended_at, recorded.source_tokens)
                    == (item.started_at, item.ended_at, item.source_tokens)
        });
        item.equals_original = Some(is_as_recorded);
    }
    Ok(())
}

async fn versions(
    tx: &mut Connection,
    agent: &AgentId,
    counter: &dyn TokenCounter,
) -> StoreResult<Vec<VersionData>> {
    let sql = sql!(
        "-- sql/verify.versions\nSELECT version, covers_after, covers_through, token_count, content, \
               kind IN ('rewind', 'rollback', 'rebuild') FROM summary_versions WHERE agent_id = $1 ORDER BY version"
    );
    let mut found = query(sql).bind(agent.as_str()).fetch(tx)?;
    let mut versions = Vec::new();
    while let Some(row) = found.try_next().await? {
        versions.push(VersionData {
            version: row.try_get(0)?,
            covers_after: row.try_get(1)?,
            covers_through: row.try_get(2)?,
            tokens: row.try_get(3)?,
            counted: counter.count(&row.try_get::<String>(4)?),
            goes_back: row.try_get(5)?,
        });
    }
    Ok(versions)
}

async fn load_facts(tx: &mut Connection, agent: &AgentId) -> StoreResult<Vec<FactData>> {
    let sql = sql!(
        "-- sql/verify.facts\nSELECT f.fact, f.exchange, e.set_aside_at IS NOT NULL, f.added_version, f.closed_version, \
               f.closed_by_exchange IS NOT NULL OR f.replaced_by IS NOT NULL, a.last_fact FROM summary_facts f \
               JOIN agents a ON a.agent_id = f.agent_id \
               LEFT JOIN exchange_log e ON e.agent_id = f.agent_id AND e.exchange = f.exchange \
               WHERE f.agent_id = $1 ORDER BY f.fact"
    );
    let found = query(sql).bind(agent.as_str()).fetch_all(tx).await?;
    let facts = found.iter().map(|row| -> StoreResult<FactData> {
        Ok(FactData {
            fact: row.try_get(0)?,
            exchange: row.try_get(1)?,
            is_set_aside: row.try_get(2)?,
            added_version: row.try_get(3)?,
            closed_version: row.try_get(4)?,
            is_ended: row.try_get(5)?,
            last_fact: row.try_get(6)?,
        })
    });
    facts.collect()
}

async fn document(
    tx: &mut Connection,
    agent: &AgentId,
    counter: &dyn TokenCounter,
) -> StoreResult<(i64, i64, i64)> {
    let sql = sql!(
        "-- sql/verify.document\nSELECT version, token_count, content FROM summaries WHERE agent_id = $1"
    );
    // Another check reports a missing document.
    let Some(row) = query(sql).bind(agent.as_str()).fetch_optional(tx).await? else {
        return Ok((0, 0, 0));
    };
    Ok((row.try_get(0)?, row.try_get(1)?, counter.count(&row.try_get::<String>(2)?)))
}
