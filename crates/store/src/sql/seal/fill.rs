//! Adds missing digests to rows. Such rows are older than digests, were copied by a statement, or lost their digest when
//! something was forgotten.

use super::super::{
    super::{
        StoreResult,
        seal::{self, VersionRow},
    },
    Connection, Row, facts, query, row, sql,
    statement::Statement,
};
use recapd_core::domain::{agent::AgentId, ledger::Eviction, number::i64_or_max};

/// A kind of row that has a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DigestRows {
    Evictions,
    Items,
    Facts,
    /// Comes after items and facts, because a version's digest is made from theirs.
    Versions,
    /// Forks' records, and all exchanges of forks.
    Forks,
}

impl DigestRows {
    const ALL: [Self; 5] = [Self::Evictions, Self::Items, Self::Facts, Self::Versions, Self::Forks];

    fn due(self) -> &'static Statement {
        match self {
            Self::Evictions => sql!(
                "-- sql/seal.evictions_due\nSELECT agent_id FROM evictions WHERE digest IS NULL ORDER BY agent_id LIMIT 1"
            ),
            Self::Items => sql!(
                "-- sql/seal.items_due\nSELECT agent_id FROM summary_items WHERE digest IS NULL ORDER BY agent_id LIMIT 1"
            ),
            Self::Facts => sql!(
                "-- sql/seal.facts_due\nSELECT agent_id FROM summary_facts WHERE digest IS NULL ORDER BY agent_id LIMIT 1"
            ),
            Self::Versions => sql!(
                "-- sql/seal.versions_due\nSELECT agent_id FROM summary_versions WHERE digest IS NULL ORDER BY agent_id LIMIT 1"
            ),
            Self::Forks => sql!(
                "-- sql/seal.forks_due\nSELECT agent_id FROM forks WHERE digest IS NULL ORDER BY agent_id LIMIT 1"
            ),
        }
    }

    /// Writes up to `rows_max` digests. Returns how many it wrote.
    pub(super) async fn fill(self, tx: &mut Connection, agent: &AgentId, rows_max: i64) -> StoreResult<i64> {
        match self {
            Self::Evictions => evictions(tx, agent, rows_max).await,
            Self::Items => items(tx, agent, rows_max).await,
            Self::Facts => facts(tx, agent, rows_max).await,
            Self::Versions => versions(tx, agent, rows_max).await,
            Self::Forks => fork(tx, agent).await,
        }
    }
}

/// Returns a kind of row without digests, and an agent that has such rows; `None` if no digest is missing.
pub(super) async fn due(connection: &mut Connection) -> StoreResult<Option<(DigestRows, AgentId)>> {
    for part in DigestRows::ALL {
        if let Some(found) = query(part.due()).fetch_optional(connection).await? {
            return Ok(Some((part, row::agent_id(&found, 0)?)));
        }
    }
    Ok(None)
}

/// Writes digests into the rows with these numbers. Returns how many it wrote.
async fn write(
    tx: &mut Connection,
    agent: &AgentId,
    sql: &'static Statement,
    digests: Vec<(i64, String)>,
) -> StoreResult<i64> {
    let count = i64_or_max(digests.len());
    for (number, digest) in digests {
        query(sql).bind(agent.as_str()).bind(number).bind(digest).execute(&mut *tx).await?;
    }
    Ok(count)
}

async fn rows_to_fill(
    tx: &mut Connection,
    agent: &AgentId,
    sql: &'static Statement,
    rows_max: i64,
) -> StoreResult<Vec<Row>> {
    Ok(query(sql).bind(agent.as_str()).bind(rows_max).fetch_all(tx).await?)
}

pub(crate) async fn items(tx: &mut Connection, agent: &AgentId, rows_max: i64) -> StoreResult<i64> {
    let undigested = sql!(
        "-- sql/seal.items\nSELECT i.item, i.importance, i.origin, i.provisional, i.started_at, \
               i.ended_at, i.source_tokens, i.text, i.brief, i.gist, \
               (SELECT coalesce(CAST({array_of}({array}(r.first_exchange, r.last_exchange)) AS text), '[]') FROM summary_item_ranges r \
                WHERE r.agent_id = i.agent_id AND r.item = i.item), i.pinned \
               FROM summary_items i WHERE i.agent_id = $1 AND i.digest IS NULL ORDER BY i.item LIMIT $2"
    );
    let found = rows_to_fill(tx, agent, undigested, rows_max).await?;
    let digests = found.iter().map(|found| {
        let item = row::item(found)?;
        Ok((item.item, seal::of_item(item.item, &item)))
    });
    let digests = digests.collect::<StoreResult<_>>()?;
    let sql =
        sql!("-- sql/seal.item\nUPDATE summary_items SET digest = $3 WHERE agent_id = $1 AND item = $2");
    write(tx, agent, sql, digests).await
}

pub(crate) async fn facts(tx: &mut Connection, agent: &AgentId, rows_max: i64) -> StoreResult<i64> {
    let undigested = sql!(
        "-- sql/seal.facts\nSELECT f.fact, f.kind, f.text, f.voice, f.speaker, f.since, f.exchange, f.pinned \
               FROM summary_facts f WHERE f.agent_id = $1 AND f.digest IS NULL ORDER BY f.fact LIMIT $2"
    );
    let found = rows_to_fill(tx, agent, undigested, rows_max).await?;
    let digests = found.iter().map(|found| {
        let fact = facts::fact(found)?;
        Ok((fact.fact, seal::of_fact(fact.fact, &fact)))
    });
    let digests = digests.collect::<StoreResult<_>>()?;
    let sql =
        sql!("-- sql/seal.fact\nUPDATE summary_facts SET digest = $3 WHERE agent_id = $1 AND fact = $2");
    write(tx, agent, sql, digests).await
}

async fn evictions(tx: &mut Connection, agent: &AgentId, rows_max: i64) -> StoreResult<i64> {
    let undigested = sql!(
        "-- sql/seal.evictions\nSELECT eviction, from_exchange, through_exchange, tokens, evicted_at FROM evictions \
               WHERE agent_id = $1 AND digest IS NULL ORDER BY eviction LIMIT $2"
    );
    let found = rows_to_fill(tx, agent, undigested, rows_max).await?;
    let digests = found.iter().map(|found| {
        let eviction = Eviction {
            from_exchange: found.try_get(1)?,
            through_exchange: found.try_get(2)?,
            tokens: found.try_get(3)?,
            at: found.try_get(4)?,
        };
        Ok((found.try_get(0)?, seal::of_eviction(&eviction)))
    });
    let digests = digests.collect::<StoreResult<_>>()?;
    let sql =
        sql!("-- sql/seal.eviction\nUPDATE evictions SET digest = $3 WHERE agent_id = $1 AND eviction = $2");
    write(tx, agent, sql, digests).await
}

/// Writes digests of the agent's versions, and returns how many. Only the newest version's items and facts are known, so only its
/// digest includes theirs.
pub(crate) async fn versions(tx: &mut Connection, agent: &AgentId, rows_max: i64) -> StoreResult<i64> {
    let undigested = sql!(
        "-- sql/seal.versions\nSELECT v.version, v.kind, v.covers_after, v.covers_through, v.exchanges, v.path, v.content, \
               v.as_of, v.created_at, v.purged_at IS NOT NULL, v.version = s.version FROM summary_versions v \
               LEFT JOIN summaries s ON s.agent_id = v.agent_id \
               WHERE v.agent_id = $1 AND v.digest IS NULL ORDER BY v.version LIMIT $2"
    );
    let sql = sql!(
        "-- sql/seal.version\nUPDATE summary_versions SET digest = $3, made_of = $4 WHERE agent_id = $1 AND version = $2"
    );
    let found = rows_to_fill(tx, agent, undigested, rows_max).await?;
    for found in &found {
        let is_newest = found.try_get::<Option<bool>>(10)?.unwrap_or(false);
        let made_of = if is_newest { document_digest(tx, agent).await? } else { String::new() };
        let (kind, path): (String, String) = (found.try_get(1)?, found.try_get(5)?);
        let content: String = found.try_get(6)?;
        let row = VersionRow {
            version: found.try_get(0)?,
            kind: &kind,
            covers_after: found.try_get(2)?,
            covers_through: found.try_get(3)?,
            exchanges: found.try_get(4)?,
            path: &path,
            content: &content,
            as_of: found.try_get(7)?,
            created_at: found.try_get(8)?,
            made_of: &made_of,
        };
        let is_purged: bool = found.try_get(9)?;
        let digest = if is_purged { String::new() } else { row.digest() };
        query(sql)
            .bind(agent.as_str())
            .bind(row.version)
            .bind(digest)
            .bind(made_of.as_str())
            .execute(&mut *tx)
            .await?;
    }
    Ok(i64_or_max(found.len()))
}

/// Returns the combined digest of the items and facts in the document. Writes missing digests first.
pub(crate) async fn document_digest(tx: &mut Connection, agent: &AgentId) -> StoreResult<String> {
    if let Some([items, facts]) = shown_digests(tx, agent).await? {
        return Ok(seal::made_of(&items, &facts));
    }
    items(tx, agent, i64::MAX).await?;
    facts(tx, agent, i64::MAX).await?;
    let [items, facts] = shown_digests(tx, agent).await?.unwrap_or_default();
    Ok(seal::made_of(&items, &facts))
}

/// Returns the digests of the items and of the facts in the document; `None` if any digest is missing.
async fn shown_digests(tx: &mut Connection, agent: &AgentId) -> StoreResult<Option<[Vec<String>; 2]>> {
    let sql = sql!(
        "-- sql/seal.made_of\nSELECT CAST(0 AS bigint) AS place, item, digest FROM summary_items \
               WHERE agent_id = $1 AND removed_version IS NULL AND dropped_version IS NULL UNION ALL \
               SELECT CAST(1 AS bigint), fact, digest FROM summary_facts WHERE agent_id = $1 AND closed_version IS NULL \
               ORDER BY 1, 2"
    );
    let [mut items, mut facts] = [Vec::new(), Vec::new()];
    for found in query(sql).bind(agent.as_str()).fetch_all(tx).await? {
        let Some(digest) = found.try_get::<Option<String>>(2)? else {
            return Ok(None);
        };
        if found.try_get::<i64>(0)? == 0 {
            items.push(digest);
        } else {
            facts.push(digest);
        }
    }
    Ok(Some([items, facts]))
}

async fn fork(tx: &mut Connection, agent: &AgentId) -> StoreResult<i64> {
    let record = sql!("-- sql/seal.record\nSELECT record FROM forks WHERE agent_id = $1");
    let found = query(record).bind(agent.as_str()).fetch_optional(&mut *tx).await?;
    let Some(found) = found else { return Ok(0) };
    exchanges(tx, agent, (0, i64::MAX)).await?;
    let sql = sql!("-- sql/seal.fork\nUPDATE forks SET digest = $2 WHERE agent_id = $1");
    let digest = seal::of_fork(&found.try_get::<String>(0)?);
    query(sql).bind(agent.as_str()).bind(digest).execute(tx).await?;
    Ok(1)
}

/// Writes digests of the agent's exchanges in that range.
pub(super) async fn exchanges(
    tx: &mut Connection,
    agent: &AgentId,
    (from, through): (i64, i64),
) -> StoreResult<()> {
    let undigested = sql!(
        "-- sql/seal.exchanges\nSELECT ",
        row::exchange_columns!("e"),
        ", e.headline FROM exchange_log e WHERE e.agent_id = $1 AND e.exchange BETWEEN $2 AND $3 AND e.digest IS NULL"
    );
    let query = query(undigested).bind(agent.as_str()).bind(from).bind(through);
    let found = query.fetch_all(&mut *tx).await?;
    let digests = found.iter().map(|found| {
        let exchange = row::exchange(found, 0)?;
        let headline: String = found.try_get(row::EXCHANGE_COLUMNS)?;
        Ok((exchange.exchange, seal::of_exchange(&exchange, &headline)))
    });
    let digests = digests.collect::<StoreResult<_>>()?;
    let sql = sql!(
        "-- sql/seal.exchange\nUPDATE exchange_log SET digest = $3 WHERE agent_id = $1 AND exchange = $2"
    );
    write(tx, agent, sql, digests).await.map(drop)
}
