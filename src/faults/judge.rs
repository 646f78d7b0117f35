//! What is left after a run, held against the ledger of what was acknowledged.

use std::collections::HashMap;

use super::{
    findings::{FaultFindings, Promise},
    load,
};
use crate::{
    domain::agent::AgentId,
    store::{
        ExchangeQuery, Store, StoreError, StoreResult,
        verify::{Breach, Invariant},
    },
};

/// The most exchanges of an agent that are read.
const EXCHANGES_MAX: i64 = 10_000;

/// Checks one agent, of which so many turns were acknowledged.
pub(super) async fn judge(
    store: &dyn Store,
    agent: u64,
    turns: u64,
    ceiling_tokens: i64,
    found: &mut FaultFindings,
) {
    let name = load::name_of(agent);
    if let Err(error) = try_judge(store, agent, turns, ceiling_tokens, found).await {
        found.break_promise(Promise::Other, 1, format!("{name} can't be checked: {error}"));
    }
}

async fn try_judge(
    store: &dyn Store,
    agent: u64,
    turns: u64,
    ceiling_tokens: i64,
    found: &mut FaultFindings,
) -> StoreResult<()> {
    let name = load::name_of(agent);
    let id: AgentId = name
        .parse()
        .map_err(|_| StoreError::Unavailable(format!("`{name}` is no id").into()))?;
    found.turns += turns;
    if store.agent(&id).await?.is_none() {
        if turns > 0 {
            found.break_promise(
                Promise::Kept,
                turns,
                format!("{name} is unknown after {turns} turns"),
            );
        }
        return Ok(());
    }
    let report = store.verify(&id).await?;
    found.messages += u64::try_from(report.messages).unwrap_or_default();
    found.exchanges += u64::try_from(report.exchanges).unwrap_or_default();
    found.covered += u64::try_from(report.covered).unwrap_or_default();
    for breach in &report.breaches {
        found.break_promise(promise_of(breach), 1, format!("{name}: {}", breach.found));
    }
    if report.pending > 0 {
        let breach = format!("{name}: {} exchanges are still pending", report.pending);
        found.break_promise(Promise::Drained, 1, breach);
    }
    if let Some(summary) = store.summary(&id).await? {
        found.versions += u64::try_from(summary.version).unwrap_or_default();
        if summary.token_count > ceiling_tokens {
            let breach = format!(
                "{name}: a document of {} tokens, its ceiling is {ceiling_tokens}",
                summary.token_count
            );
            found.break_promise(Promise::Ceiling, 1, breach);
        }
    }
    judge_messages(store, &id, (agent, turns), found).await
}

fn promise_of(breach: &Breach) -> Promise {
    match breach.invariant {
        Invariant::NothingLost => Promise::Kept,
        Invariant::ExactlyOnce | Invariant::OneState => Promise::Once,
        Invariant::Ceiling => Promise::Ceiling,
        _ => Promise::Other,
    }
}

/// Each message that was acknowledged stands in the archive once, in order, word for word, and no other does.
async fn judge_messages(
    store: &dyn Store,
    id: &AgentId,
    (agent, turns): (u64, u64),
    found: &mut FaultFindings,
) -> StoreResult<()> {
    let query = ExchangeQuery {
        from: 1,
        through: i64::MAX,
        limit: EXCHANGES_MAX,
        bytes_max: i64::MAX,
    };
    let exchanges = store.exchanges(id, query).await?;
    let stored: Vec<&str> = exchanges
        .iter()
        .flat_map(|exchange| &exchange.messages)
        .map(|stored| stored.message.payload.as_str())
        .collect();
    let said: Vec<String> = (0..turns)
        .flat_map(|turn| load::turn_of(agent, turn))
        .map(|message| message.to_string())
        .collect();
    if stored == said {
        return Ok(());
    }
    let mut times: HashMap<&str, u64> = HashMap::new();
    for payload in &stored {
        *times.entry(payload).or_default() += 1;
    }
    let missing: Vec<&String> = said
        .iter()
        .filter(|said| !times.contains_key(said.as_str()))
        .collect();
    let again: Vec<&&str> = times
        .iter()
        .filter(|(_, times)| **times > 1)
        .map(|(said, _)| said)
        .collect();
    if let Some(first) = missing.first() {
        let breach = format!(
            "{id}: {} acknowledged messages are missing: {first} …",
            missing.len()
        );
        found.break_promise(Promise::Kept, missing.len() as u64, breach);
    }
    if let Some(first) = again.first() {
        let breach = format!("{id}: {} messages are stored twice: {first} …", again.len());
        found.break_promise(Promise::Once, again.len() as u64, breach);
    }
    if missing.is_empty() && again.is_empty() {
        let breach = format!(
            "{id}: {} messages, {} were acknowledged, in another order",
            stored.len(),
            said.len()
        );
        found.break_promise(Promise::Other, 1, breach);
    }
    Ok(())
}
