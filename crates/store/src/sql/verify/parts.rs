//! Checks rows against their digests, and the document against its items and facts.

use futures::TryStreamExt as _;

use super::super::{
    super::{
        StoreError, StoreResult,
        seal::{self, VersionRow},
        verify::{Invariant, Unseen, VerifyFindings},
    },
    Connection, Row, facts, query, row, sql,
    statement::Statement,
};
use recapd_core::domain::{agent::AgentId, ledger::Eviction};

/// A kind of row, and how to check one row.
struct VerifiedRows {
    invariant: Invariant,
    name: &'static str,
    /// What rows without a digest are called, in the plural.
    unseen: &'static str,
    sql: &'static Statement,
    /// Returns a row's number, its recalculated digest, and the column with the stored one.
    read: fn(&Row) -> StoreResult<(i64, String, usize)>,
}

/// Recalculated digests of the items and facts in the document.
#[derive(Default)]
struct DocumentDigests {
    items: Vec<String>,
    facts: Vec<String>,
}

pub(super) async fn check(
    tx: &mut Connection,
    agent: &AgentId,
    findings: &mut VerifyFindings,
) -> StoreResult<()> {
    each(tx, agent, &exchanges(), findings).await?;
    each(tx, agent, &evictions(), findings).await?;
    let digests = DocumentDigests {
        items: each(tx, agent, &items(), findings).await?,
        facts: each(tx, agent, &fact_rows(), findings).await?,
    };
    each(tx, agent, &forks(), findings).await?;
    each(tx, agent, &versions(), findings).await?;
    document(tx, agent, &digests, findings).await
}

/// Checks all rows of one kind. Returns the digests of the rows whose last column says that they are in the document.
async fn each(
    tx: &mut Connection,
    agent: &AgentId,
    part: &VerifiedRows,
    findings: &mut VerifyFindings,
) -> StoreResult<Vec<String>> {
    let (mut unsealed, mut digests) = (0, Vec::new());
    let mut found = query(part.sql).bind(agent.as_str()).fetch(tx)?;
    while let Some(row) = found.try_next().await? {
        let (number, digest, column) = match (part.read)(&row) {
            Err(StoreError::Inconsistent { .. }) => {
                findings.add(part.invariant, format!("one of the {}s can't be read", part.name));
                continue;
            }
            read => read?,
        };
        let stored: Option<String> = row.try_get(column)?;
        match stored {
            None => unsealed += 1,
            Some(stored) if stored == digest => {}
            Some(_) => findings.add(part.invariant, format!("{} {number} isn't what was stored", part.name)),
        }
        if row.try_get(column + 1)? {
            digests.push(digest);
        }
    }
    findings.add_unseen(Unseen { invariant: part.invariant, what: part.unseen, count: unsealed });
    Ok(digests)
}

fn exchanges() -> VerifiedRows {
    VerifiedRows {
        invariant: Invariant::NothingLost,
        name: "exchange",
        unseen: "exchanges without a digest, which `recapd serve` makes",
        sql: sql!(
            "-- sql/verify.exchange_digests\nSELECT ",
            row::exchange_columns!("e"),
            ", e.headline, e.digest, {false} FROM exchange_log e WHERE e.agent_id = $1 ORDER BY e.exchange"
        ),
        read: |found| {
            let exchange = row::exchange(found, 0)?;
            let headline: String = found.try_get(row::EXCHANGE_COLUMNS)?;
            let digest = seal::of_exchange(&exchange, &headline);
            Ok((exchange.exchange, digest, row::EXCHANGE_COLUMNS + 1))
        },
    }
}

fn evictions() -> VerifiedRows {
    VerifiedRows {
        invariant: Invariant::OneState,
        name: "eviction",
        unseen: "evictions without a digest, which `recapd serve` makes",
        sql: sql!(
            "-- sql/verify.eviction_digests\nSELECT eviction, from_exchange, through_exchange, tokens, evicted_at, digest, {false} \
                   FROM evictions WHERE agent_id = $1 ORDER BY eviction"
        ),
        read: |found| {
            let eviction = Eviction {
                from_exchange: found.try_get(1)?,
                through_exchange: found.try_get(2)?,
                tokens: found.try_get(3)?,
                at: found.try_get(4)?,
            };
            Ok((found.try_get(0)?, seal::of_eviction(&eviction), 5))
        },
    }
}

fn items() -> VerifiedRows {
    VerifiedRows {
        invariant: Invariant::ClockAges,
        name: "item",
        unseen: "items without a digest, which `recapd serve` makes",
        sql: sql!(
            "-- sql/verify.item_digests\nSELECT i.item, i.importance, i.origin, i.provisional, i.started_at, \
                   i.ended_at, i.source_tokens, i.text, i.brief, i.gist, \
                   (SELECT coalesce(CAST({array_of}({array}(r.first_exchange, r.last_exchange)) AS text), '[]') FROM summary_item_ranges r \
                    WHERE r.agent_id = i.agent_id AND r.item = i.item), i.pinned, i.digest, \
                   i.removed_version IS NULL AND i.dropped_version IS NULL \
                   FROM summary_items i WHERE i.agent_id = $1 ORDER BY i.item"
        ),
        read: |found| {
            let item = row::item(found)?;
            Ok((item.item, seal::of_item(item.item, &item), 12))
        },
    }
}

fn fact_rows() -> VerifiedRows {
    VerifiedRows {
        invariant: Invariant::ClockAges,
        name: "fact",
        unseen: "facts without a digest, which `recapd serve` makes",
        sql: sql!(
            "-- sql/verify.fact_digests\nSELECT f.fact, f.kind, f.text, f.voice, f.speaker, f.since, f.exchange, f.pinned, f.digest, \
                   f.closed_version IS NULL FROM summary_facts f WHERE f.agent_id = $1 ORDER BY f.fact"
        ),
        read: |found| {
            let fact = facts::fact(found)?;
            Ok((fact.fact, seal::of_fact(fact.fact, &fact), 8))
        },
    }
}

fn forks() -> VerifiedRows {
    VerifiedRows {
        invariant: Invariant::NothingLost,
        name: "fork's record",
        unseen: "forks' records without a digest, which `recapd serve` makes",
        sql: sql!(
            "-- sql/verify.fork_digest\nSELECT CAST(1 AS bigint), record, digest, {false} FROM forks WHERE agent_id = $1"
        ),
        read: |found| Ok((found.try_get(0)?, seal::of_fork(&found.try_get::<String>(1)?), 2)),
    }
}

fn versions() -> VerifiedRows {
    VerifiedRows {
        invariant: Invariant::ExactlyOnce,
        name: "version",
        unseen: "versions without a digest, which `recapd serve` makes",
        sql: sql!(
            "-- sql/verify.version_digests\nSELECT version, kind, covers_after, covers_through, exchanges, path, content, as_of, \
                   created_at, coalesce(made_of, ''), purged_at IS NOT NULL, digest, {false} FROM summary_versions \
                   WHERE agent_id = $1 ORDER BY version"
        ),
        read: |found| {
            let (kind, path): (String, String) = (found.try_get(1)?, found.try_get(5)?);
            let (content, made_of): (String, String) = (found.try_get(6)?, found.try_get(9)?);
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
            // A version whose text was removed has an empty digest. If it has a text nevertheless, the digest is wrong.
            let is_purged: bool = found.try_get(10)?;
            let digest = if is_purged && content.is_empty() { String::new() } else { row.digest() };
            Ok((row.version, digest, 11))
        },
    }
}

/// Checks that the document is that of the readers' version, and that the newest version has the digest of the present items and
/// facts.
async fn document(
    tx: &mut Connection,
    agent: &AgentId,
    digests: &DocumentDigests,
    findings: &mut VerifyFindings,
) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/verify.composed\nSELECT s.version, coalesce(s.held_version, s.version), s.content, h.content, n.made_of FROM summaries s \
               LEFT JOIN summary_versions h ON h.agent_id = s.agent_id AND h.version = coalesce(s.held_version, s.version) \
               LEFT JOIN summary_versions n ON n.agent_id = s.agent_id AND n.version = s.version WHERE s.agent_id = $1"
    );
    let found = query(sql).bind(agent.as_str()).fetch_optional(tx).await?;
    let Some(found) = found else {
        findings.add(Invariant::ExactlyOnce, "there is no document".to_owned());
        return Ok(());
    };
    let (version, read): (i64, i64) = (found.try_get(0)?, found.try_get(1)?);
    let content: String = found.try_get(2)?;
    let written: Option<String> = found.try_get(3)?;
    let is_empty = version == 0 && written.is_none();
    let expected = if is_empty { Some(String::new()) } else { written };
    if expected.is_some_and(|expected| expected != content) {
        findings.add(Invariant::ExactlyOnce, format!("the document isn't that of version {read}"));
    }
    let made_of: Option<String> = found.try_get(4)?;
    let made_of = made_of.filter(|made_of| !made_of.is_empty());
    if made_of.is_some_and(|made_of| made_of != seal::made_of(&digests.items, &digests.facts)) {
        findings.add(
            Invariant::ExactlyOnce,
            format!("version {version} wasn't composed of the present items and facts"),
        );
    }
    Ok(())
}
