//! Writes the rows of an append: messages, exchanges, sessions, evictions and the ledger.

use crate::sql::{Connection, Value, insert, query, sql};

use super::{
    super::{
        super::{
            AppendRequest, PreparedMessage, StoreResult, StoredAt,
            seal::{self, Chain, MessageRow},
        },
        lineage,
        seal::seal_next,
        session,
    },
    AppendRows, NewSession,
};
use recapd_core::domain::{
    agent::AgentId,
    exchange::Exchange,
    ledger::{Eviction, Ledger},
    number::i64_or_max,
};

/// Limits the rows of one `INSERT`. At no more than sixteen values a row this stays well below SQLite's limit of 32,766 values.
const ROWS_MAX: usize = 64;

/// Writes messages, exchanges and sessions.
pub(super) async fn rows(
    tx: &mut Connection,
    request: &AppendRequest,
    rows: &AppendRows,
    (ledger, chain): (&Ledger, &mut Chain),
) -> StoreResult<()> {
    insert_messages(tx, request, rows, chain).await?;
    note_important(tx, request, rows).await?;
    let preamble: Vec<&Exchange> = rows.preamble.iter().collect();
    upsert_exchanges(tx, &request.agent, "preamble", &preamble).await?;
    let exchanges: Vec<&Exchange> = rows.exchanges.iter().chain(&ledger.newest).collect();
    upsert_exchanges(tx, &request.agent, "exchange", &exchanges).await?;
    open_sessions(tx, &request.agent, &rows.sessions).await
}

/// Writes the evictions and the ledger.
pub(super) async fn state(
    tx: &mut Connection,
    request: &AppendRequest,
    rows: &AppendRows,
    (ledger, chain): (&Ledger, &Chain),
) -> StoreResult<()> {
    write_evictions(tx, &request.agent, &rows.evictions).await?;
    update_agent(tx, request, (ledger, chain), rows).await
}

/// Splits `rows` into runs of 64, 32, 16 and so on. This takes few statements for any number of rows, and only seven different
/// ones to prepare.
pub(crate) fn runs<T>(mut rows: &[T]) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        let exponent = rows.len().min(ROWS_MAX).checked_ilog2()?;
        let (run, rest) = rows.split_at(1 << exponent);
        rows = rest;
        Some(run)
    })
}

async fn insert_messages(
    tx: &mut Connection,
    request: &AppendRequest,
    rows: &AppendRows,
    chain: &mut Chain,
) -> StoreResult<()> {
    for run in runs(&rows.messages) {
        let rows = run.iter().filter_map(|placed| message_row(request, placed, chain).transpose());
        let rows = rows.collect::<StoreResult<_>>()?;
        let head = sql!(
            "-- sql/append.messages\n{noting}INSERT INTO message_log (agent_id, seq, exchange, kind, speaker, format, \
                    payload, tokens, count_method, client_id, said_at, received_at, salt, seal)"
        );
        insert(head, rows, sql!("")).execute(&mut *tx).await?;
    }
    Ok(())
}

fn message_row<'r>(
    request: &'r AppendRequest,
    placed: &'r StoredAt,
    chain: &mut Chain,
) -> StoreResult<Option<Vec<Value<'r>>>> {
    let Some(PreparedMessage { message, entry }) = request.messages.get(placed.index) else {
        return Ok(None);
    };
    let client_id = placed.client_id(message);
    let sealed = seal_next(
        chain,
        &MessageRow {
            agent: &request.agent,
            seq: placed.seq,
            exchange: placed.exchange,
            kind: message.kind.name(),
            speaker: message.speaker.as_deref(),
            format: message.format.name(),
            payload: &message.payload,
            tokens: entry.tokens,
            count_method: &request.count_method,
            client_id: client_id.as_deref(),
            said_at: entry.at,
            received_at: request.now,
        },
    )?;
    let (salt, seal) = sealed.map(|sealed| (sealed.salt, sealed.seal)).unzip();
    Ok(Some(vec![
        request.agent.as_str().into(),
        placed.seq.into(),
        placed.exchange.into(),
        message.kind.name().into(),
        message.speaker.as_deref().into(),
        message.format.name().into(),
        message.payload.as_str().into(),
        entry.tokens.into(),
        request.count_method.as_str().into(),
        client_id.into(),
        entry.at.into(),
        request.now.into(),
        salt.into(),
        seal.into(),
    ]))
}

async fn note_important(tx: &mut Connection, request: &AppendRequest, rows: &AppendRows) -> StoreResult<()> {
    for placed in &rows.messages {
        let message = request.messages.get(placed.index).map(|prepared| &prepared.message);
        if message.is_some_and(|message| message.important && message.kind.is_conversation()) {
            let position = (placed.seq, placed.exchange, placed.session);
            lineage::pins::note_important(tx, &request.agent, position).await?;
        }
    }
    Ok(())
}

/// Writes exchanges that are new or have grown.
pub(crate) async fn upsert_exchanges(
    tx: &mut Connection,
    agent: &AgentId,
    role: &str,
    exchanges: &[&Exchange],
) -> StoreResult<()> {
    let row = |exchange: &&Exchange| -> Vec<Value<'_>> {
        let headline = serde_json::json!(exchange.headline).to_string();
        let digest = seal::of_exchange(exchange, &headline);
        vec![
            agent.as_str().into(),
            exchange.exchange.into(),
            role.into(),
            exchange.session.into(),
            agent.as_str().into(),
            exchange.first_seq.into(),
            exchange.last_seq.into(),
            exchange.messages.into(),
            exchange.tokens.into(),
            exchange.tokens_before.into(),
            exchange.state.name().into(),
            exchange.opened_at.into(),
            exchange.last_at.into(),
            headline.into(),
            digest.into(),
        ]
    };
    let head = sql!(
        "-- sql/append.exchanges\nINSERT INTO exchange_log (agent_id, exchange, role, session, source_agent_id, \
                first_seq, last_seq, messages, tokens, tokens_before, state, opened_at, last_at, headline, digest)"
    );
    let tail = sql!(
        "ON CONFLICT (agent_id, exchange) DO UPDATE SET last_seq = excluded.last_seq, \
                messages = excluded.messages, tokens = excluded.tokens, \
                state = excluded.state, opened_at = excluded.opened_at, last_at = excluded.last_at, \
                headline = excluded.headline, digest = excluded.digest"
    );
    for run in runs(exchanges) {
        insert(head, run.iter().map(row).collect(), tail).execute(&mut *tx).await?;
    }
    Ok(())
}

/// Writes new sessions, and ends the sessions before them.
pub(crate) async fn open_sessions(
    tx: &mut Connection,
    agent: &AgentId,
    sessions: &[NewSession],
) -> StoreResult<()> {
    for new in sessions {
        if let Some((ended_at, reason)) = new.previous_end {
            session::end(tx, agent, new.session - 1, ended_at, reason).await?;
        }
        session::open(tx, agent, new.session, new.first_exchange, new.opened_at).await?;
    }
    Ok(())
}

/// Writes the evictions with the summary's present version. The agent's row holds the number of evictions.
pub(crate) async fn write_evictions(
    tx: &mut Connection,
    agent: &AgentId,
    evictions: &[Eviction],
) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/append.eviction\nINSERT INTO evictions (agent_id, eviction, from_exchange, through_exchange, \
               tokens, evicted_at, digest, version) SELECT a.agent_id, a.last_eviction + $2, $3, $4, $5, $6, $7, s.version \
               FROM agents a JOIN summaries s ON s.agent_id = a.agent_id WHERE a.agent_id = $1"
    );
    for (number, eviction) in (1_i64..).zip(evictions) {
        query(sql)
            .bind(agent.as_str())
            .bind(number)
            .bind(eviction.from_exchange)
            .bind(eviction.through_exchange)
            .bind(eviction.tokens)
            .bind(eviction.at)
            .bind(seal::of_eviction(eviction))
            .execute(&mut *tx)
            .await?;
    }
    Ok(())
}

async fn update_agent(
    tx: &mut Connection,
    request: &AppendRequest,
    (ledger, chain): (&Ledger, &Chain),
    rows: &AppendRows,
) -> StoreResult<()> {
    let latest = rows.messages.iter().filter_map(|placed| request.messages.get(placed.index));
    let as_of = if request.replayed { latest.map(|prepared| prepared.entry.at).max() } else { None };
    let pending_since = (!rows.evictions.is_empty()).then_some(request.now);
    let sql = sql!(
        "-- sql/append.agent\nUPDATE agents SET updated_at = $2, \
               as_of = CASE WHEN $3 THEN {max}(coalesce(as_of, $4), $4) END, last_seq = $5, last_exchange = $6, \
               newest_exchange = $7, session = $8, first_exchange = $9, tokens_before_window = $10, \
               pending_since = CASE WHEN $9 > $14 + 1 THEN coalesce(pending_since, $11) END, \
               last_eviction = last_eviction + $12, budget_tokens = $13, summarized_through = $14, \
               preamble_exchange = $15, max_messages = $16, chain = $17, chained_through = $18 WHERE agent_id = $1"
    );
    query(sql)
        .bind(request.agent.as_str())
        .bind(request.now)
        .bind(as_of.is_some())
        .bind(as_of)
        .bind(ledger.last_seq)
        .bind(ledger.last_exchange)
        .bind(ledger.newest.as_ref().map(|newest| newest.exchange))
        .bind(ledger.session)
        .bind(ledger.first_exchange)
        .bind(ledger.tokens_before_window)
        .bind(pending_since)
        .bind(i64_or_max(rows.evictions.len()))
        .bind(request.rules.budget.budget_tokens())
        .bind(ledger.summarized_through)
        .bind(ledger.preamble.as_ref().map(|preamble| preamble.exchange))
        .bind(request.rules.budget.max_messages())
        .bind(chain.link.as_deref())
        .bind(chain.through)
        .execute(tx)
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_keep_every_row_in_order_and_have_few_sizes() {
        for count in [0, 1, 3, 63, 64, 65, 200] {
            let rows: Vec<usize> = (0..count).collect();
            let split: Vec<&[usize]> = runs(&rows).collect();
            assert_eq!(split.concat(), rows);
            assert!(split.iter().all(|run| run.len().is_power_of_two() && run.len() <= ROWS_MAX));
        }
        let sizes: Vec<usize> = runs(&[0; 200]).map(<[i32]>::len).collect();
        assert_eq!(sizes, [64, 64, 64, 8]);
    }
}
