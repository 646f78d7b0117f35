//! Checks the archive against its seals: each message against its own seal, and all messages against the agent's chain.

use futures::TryStreamExt as _;

use super::{
    super::{
        super::{
            StoreResult,
            seal::Chain,
            verify::{Invariant, Unseen, VerifyFindings},
        },
        Connection, query,
        seal::{StoredRow, sealed_columns},
        sql,
    },
    tokens::Recount,
};
use recapd_core::domain::{agent::AgentId, message::is_tombstone};

/// Checks the agent's own messages, whose chain ends at `end`, and the messages that it shares.
pub(super) async fn check(
    tx: &mut Connection,
    agent: &AgentId,
    end: &Chain,
    recount: &mut Recount,
    findings: &mut VerifyFindings,
) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/verify.sealed\nSELECT ",
        sealed_columns!(),
        " FROM message_log m WHERE m.agent_id = $1 ORDER BY m.seq"
    );
    let before = findings.count();
    let (mut chain, mut unsealed) = (Chain::default(), 0);
    let mut found = query(sql).bind(agent.as_str()).fetch(tx)?;
    while let Some(row) = found.try_next().await? {
        let stored = StoredRow::read(&row)?;
        recount.check(&stored, findings);
        let seal = stored.seal.as_deref();
        if stored.seq > end.through {
            unsealed += i64::from(seal.is_none());
            if seal.is_some() {
                findings.add(
                    Invariant::NothingLost,
                    format!("message {} comes after the end of the chain", stored.seq),
                );
            }
            continue;
        }
        if let Some(fault) = fault(agent, &stored) {
            findings.add(Invariant::NothingLost, format!("message {} {fault}", stored.seq));
        }
        chain.add(&stored.of(agent), seal.unwrap_or_default());
    }
    drop(found);
    if chain.link != end.link && findings.count() == before {
        findings.add(
            Invariant::NothingLost,
            format!(
                "each message fits its seal, but the chain up to {} does not: rows were inserted, removed or replaced",
                end.through
            ),
        );
    }
    findings.add_unseen(Unseen {
        invariant: Invariant::NothingLost,
        what: "messages without a seal, which `recapd serve` makes",
        count: unsealed,
    });
    check_shared(tx, agent, findings).await
}

/// Returns how a message differs from what was stored; `None` if it doesn't.
fn fault(agent: &AgentId, stored: &StoredRow) -> Option<&'static str> {
    let Some(seal) = &stored.seal else {
        return Some("has lost its seal");
    };
    if stored.is_forgotten {
        return (!is_tombstone(&stored.payload)).then_some("is forgotten but isn't a tombstone");
    }
    match &stored.salt {
        None => Some("has lost its salt but isn't forgotten"),
        Some(salt) => (stored.of(agent).seal(salt) != *seal).then_some("isn't what was stored"),
    }
}

/// Checks the messages of other agents that a fork shares. Only their seals are checked.
async fn check_shared(
    tx: &mut Connection,
    agent: &AgentId,
    findings: &mut VerifyFindings,
) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/verify.shared\nSELECT ",
        sealed_columns!(),
        ", m.agent_id FROM exchange_log e {join} message_log m ON m.agent_id = e.source_agent_id ",
        "AND m.seq BETWEEN e.first_seq AND e.last_seq AND m.exchange = e.exchange ",
        "WHERE e.agent_id = $1 AND e.source_agent_id <> $1 AND m.seal IS NOT NULL ORDER BY m.seq"
    );
    let mut found = query(sql).bind(agent.as_str()).fetch(tx)?;
    while let Some(row) = found.try_next().await? {
        let stored = StoredRow::read(&row)?;
        let source = super::super::row::agent_id(&row, 14)?;
        if let Some(fault) = fault(&source, &stored) {
            let found = format!("message {} of `{source}` {fault}", stored.seq);
            findings.add(Invariant::NothingLost, found);
        }
    }
    Ok(())
}
