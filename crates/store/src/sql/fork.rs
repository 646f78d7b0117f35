//! Fork: creates an agent that starts from another agent's present state.
//!
//! The child gets its own rows of the parent's state, but shares the parent's messages. It gets the exchanges after the parent's
//! watermark, both watermarks, the marks in these exchanges, the pins and notes, the items in the document, and the facts that
//! hold. Later changes to the parent don't affect these rows. Running totals begin at zero with the first copied exchange. A
//! copied item isn't provisional, because only the parent can condense its exchanges again.

pub(super) mod record;

use crate::sql::{Connection, query, sql};

use super::{
    super::{AgentRow, Ancestor, EnqueueOutcome, ForkOutcome, StoreError, StoreResult},
    agent, lineage, queue, row,
    seal::fill,
};
use recapd_core::domain::{agent::AgentId, number::i64_or_max, time::Timestamp, work::Reason};

/// Limits how many generations of ancestors are read.
const GENERATIONS_MAX: i64 = 1_000;

pub(super) async fn fork(
    tx: &mut Connection,
    parent: AgentId,
    child: AgentId,
    now: Timestamp,
) -> StoreResult<ForkOutcome> {
    let from = agent::load_known(tx, &parent).await?;
    if agent::load(tx, &child).await?.is_some() {
        return Err(StoreError::AgentExists(child));
    }
    let fork_exchange = (from.ledger.last_exchange > 0).then_some(from.ledger.last_exchange);
    let base = tokens_before(tx, &from).await?;
    copy_agent(tx, &from, &child, fork_exchange, base, now).await?;
    let exchanges = copy_exchanges(tx, &from, &child, base).await?;
    copy_recounts(tx, &parent, &child).await?;
    copy_marks(tx, &from, &child, base).await?;
    let newest = from.ledger.newest.as_ref();
    let session = newest.map_or(from.ledger.session, |newest| newest.session);
    let position = (from.ledger.summarized_through, session);
    lineage::pins::copy(tx, &parent, &child, position).await?;
    lineage::notes::copy(tx, &parent, &child).await?;
    copy_session(tx, &parent, &child).await?;
    let items = copy_document(tx, &from, &child, now).await?;
    record::write_new(tx, &child).await?;
    Ok(ForkOutcome { fork_exchange, exchanges, items, enqueued: wake(tx, &from, &child, now).await? })
}

/// Returns the tokens of the parent's live exchanges for which the child gets no rows.
async fn tokens_before(tx: &mut Connection, from: &AgentRow) -> StoreResult<i64> {
    let sql = sql!(
        "-- sql/fork.tokens_before\nSELECT tokens_before FROM exchange_log WHERE agent_id = $1 AND exchange > $2 \
               AND set_aside_at IS NULL AND role = 'exchange' ORDER BY exchange LIMIT 1"
    );
    let row =
        query(sql).bind(from.agent.as_str()).bind(from.ledger.summarized_through).fetch_optional(tx).await?;
    // Without such an exchange, all live exchanges are before the window.
    let first = row.map(|row| row.try_get(0)).transpose()?;
    Ok(first.unwrap_or(from.ledger.tokens_before_window))
}

async fn copy_agent(
    tx: &mut Connection,
    from: &AgentRow,
    child: &AgentId,
    fork_exchange: Option<i64>,
    base: i64,
    now: Timestamp,
) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/fork.agent\nINSERT INTO agents (agent_id, project_id, parent_agent_id, fork_exchange, settings, \
               created_at, updated_at, as_of, last_seq, fork_seq, last_exchange, newest_exchange, last_item, last_fact, session, \
               first_exchange, tokens_before_window, summarized_through, pending_since, budget_tokens, \
               max_messages, preamble_exchange, last_eviction, recount_before, chained_through, totals_from) SELECT $2, project_id, agent_id, $3, settings, $5, $5, as_of, \
               last_seq + CASE WHEN last_seq > 0 THEN 1 ELSE 0 END, last_seq + CASE WHEN last_seq > 0 THEN 1 ELSE 0 END, last_exchange, newest_exchange, last_item, last_fact, session, \
               first_exchange, tokens_before_window - $4, summarized_through, \
               CASE WHEN pending_since IS NOT NULL THEN $5 END, budget_tokens, max_messages, preamble_exchange, \
               last_eviction, recount_before, last_seq + CASE WHEN last_seq > 0 THEN 1 ELSE 0 END, CASE WHEN totals_from IS NOT NULL THEN {max}(totals_from, summarized_through + 1) END \
               FROM agents WHERE agent_id = $1 ON CONFLICT (agent_id) DO NOTHING"
    );
    let row_count = query(sql)
        .bind(from.agent.as_str())
        .bind(child.as_str())
        .bind(fork_exchange)
        .bind(base)
        .bind(now)
        .execute(tx)
        .await?;
    if row_count == 0 {
        return Err(StoreError::AgentExists(child.clone()));
    }
    Ok(())
}

/// Copies the live exchanges after the watermark, and the running session's preamble. Returns how many exchanges it copied.
async fn copy_exchanges(
    tx: &mut Connection,
    from: &AgentRow,
    child: &AgentId,
    base: i64,
) -> StoreResult<i64> {
    let sql = sql!(
        "-- sql/fork.exchanges\nINSERT INTO exchange_log (agent_id, exchange, role, session, source_agent_id, \
               first_seq, last_seq, messages, tokens, tokens_before, state, opened_at, last_at, headline, digest) \
               SELECT $2, exchange, role, session, source_agent_id, first_seq, last_seq, messages, tokens, \
               CASE role WHEN 'exchange' THEN tokens_before - $5 ELSE 0 END, state, opened_at, last_at, headline, digest \
               FROM exchange_log WHERE agent_id = $1 AND set_aside_at IS NULL \
               AND (exchange > $3 AND role = 'exchange' OR exchange = $4)"
    );
    let preamble = from.ledger.preamble.as_ref().map(|preamble| preamble.exchange);
    let row_count = query(sql)
        .bind(from.agent.as_str())
        .bind(child.as_str())
        .bind(from.ledger.summarized_through)
        .bind(preamble)
        .bind(base)
        .execute(tx)
        .await?;
    let rows = i64_or_max(row_count);
    Ok(rows - i64::from(preamble.is_some()))
}

/// Copies the token counts of these exchanges' messages that were counted again after a change of the parent's model.
async fn copy_recounts(tx: &mut Connection, parent: &AgentId, child: &AgentId) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/fork.recounts\nINSERT INTO recounts (agent_id, seq, tokens, count_method) \
               SELECT DISTINCT $2, r.seq, r.tokens, r.count_method FROM exchange_log e JOIN recounts r ON r.agent_id = $1 \
               AND r.seq BETWEEN e.first_seq AND e.last_seq WHERE e.agent_id = $2"
    );
    query(sql).bind(parent.as_str()).bind(child.as_str()).execute(tx).await?;
    Ok(())
}

/// Copies the marks in exchanges that the child has. No copied mark moves the child's window to before the first of these
/// exchanges.
async fn copy_marks(tx: &mut Connection, from: &AgentRow, child: &AgentId, base: i64) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/fork.marks\nINSERT INTO marks (agent_id, mark, label, exchange, first_exchange, \
               tokens_before_window) SELECT $2, mark, label, exchange, {max}(first_exchange, $3 + 1), \
               {max}(tokens_before_window - $4, 0) FROM marks WHERE agent_id = $1 AND exchange > $3"
    );
    query(sql)
        .bind(from.agent.as_str())
        .bind(child.as_str())
        .bind(from.ledger.summarized_through)
        .bind(base)
        .execute(tx)
        .await?;
    Ok(())
}

/// Copies the running session, which continues in the child, and the last session that a clear closed. Without that session, a
/// raised budget could bring back exchanges from before the clear.
async fn copy_session(tx: &mut Connection, parent: &AgentId, child: &AgentId) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/fork.session\nINSERT INTO sessions (agent_id, session, first_exchange, opened_at, ended_at, \
               end_reason) SELECT $2, s.session, s.first_exchange, s.opened_at, s.ended_at, s.end_reason FROM sessions s \
               JOIN agents a ON a.agent_id = s.agent_id WHERE s.agent_id = $1 AND s.session >= \
               coalesce((SELECT max(c.session) FROM sessions c WHERE c.agent_id = $1 AND c.end_reason = 'clear'), a.session)"
    );
    query(sql).bind(parent.as_str()).bind(child.as_str()).execute(tx).await?;
    Ok(())
}

/// Writes the document of the present items as the child's first version, and copies these items and the facts. Returns how many
/// items it copied. During a rebuild this document differs from the one that the parent's readers get.
async fn copy_document(
    tx: &mut Connection,
    from: &AgentRow,
    child: &AgentId,
    now: Timestamp,
) -> StoreResult<i64> {
    let document = sql!(
        "-- sql/fork.document\nINSERT INTO summaries (agent_id, version, content, token_count, updated_at, \
                    next_ageing_at) SELECT $2, {min}(s.version, 1), coalesce(v.content, s.content), \
                    coalesce(v.token_count, s.token_count), s.updated_at, s.next_ageing_at FROM summaries s \
                    LEFT JOIN summary_versions v ON v.agent_id = s.agent_id AND v.version = s.version \
                    WHERE s.agent_id = $1"
    );
    let version = sql!(
        "-- sql/fork.version\nINSERT INTO summary_versions (agent_id, version, lease_token, covers_after, \
                   covers_through, exchanges, path, content, token_count, as_of, created_at) \
                   SELECT $2, 1, $3, 0, $4, 0, v.path, v.content, v.token_count, v.as_of, $5 FROM summary_versions v \
                   JOIN summaries s ON s.agent_id = v.agent_id AND s.version = v.version WHERE v.agent_id = $1"
    );
    let items = sql!(
        "-- sql/fork.items\nINSERT INTO summary_items (agent_id, item, added_version, importance, origin, \
                 provisional, started_at, ended_at, source_tokens, text, brief, gist, pinned, digest, source_agent_id, source_item) \
                 SELECT $2, item, 1, importance, origin, {false}, started_at, ended_at, source_tokens, text, brief, gist, \
                 pinned, digest, coalesce(source_agent_id, agent_id), source_item FROM summary_items \
                 WHERE agent_id = $1 AND removed_version IS NULL AND dropped_version IS NULL"
    );
    let ranges = sql!(
        "-- sql/fork.ranges\nINSERT INTO summary_item_ranges (agent_id, item, first_exchange, last_exchange) \
                  SELECT $2, r.item, r.first_exchange, r.last_exchange FROM summary_item_ranges r JOIN summary_items i \
                  ON i.agent_id = $2 AND i.item = r.item WHERE r.agent_id = $1"
    );
    let facts = sql!(
        "-- sql/fork.facts\nINSERT INTO summary_facts (agent_id, fact, added_version, kind, text, voice, speaker, since, \
                 exchange, pinned, digest, source_agent_id, source_fact) \
                 SELECT $2, fact, 1, kind, text, voice, speaker, since, exchange, pinned, digest, \
                 coalesce(source_agent_id, agent_id), source_fact FROM summary_facts \
                 WHERE agent_id = $1 AND closed_version IS NULL"
    );
    let parent = from.agent.as_str();
    let copy = |sql| query(sql).bind(parent).bind(child.as_str());
    copy(document).execute(&mut *tx).await?;
    if from.version > 0 {
        let token = queue::next_token(tx).await?;
        let covered = from.ledger.summarized_through;
        copy(version).bind(token).bind(covered).bind(now).execute(&mut *tx).await?;
    }
    let copied = copy(items).execute(&mut *tx).await?;
    copy(ranges).execute(&mut *tx).await?;
    copy(facts).execute(&mut *tx).await?;
    fill::versions(tx, child, i64::MAX).await?;
    Ok(i64_or_max(copied))
}

/// Wakes the queue for the child if exchanges were pending at the fork.
async fn wake(
    tx: &mut Connection,
    from: &AgentRow,
    child: &AgentId,
    now: Timestamp,
) -> StoreResult<Option<EnqueueOutcome>> {
    if from.ledger.pending_numbers() == 0 {
        return Ok(None);
    }
    let wake = queue::Wake::at_once(Reason::Eviction, now);
    Ok(Some(queue::enqueue(tx, child, wake).await?))
}

/// Returns the ancestors of `agent`, nearest first. Stops at a repeated ancestor, which only damaged data can have.
pub(super) async fn ancestors(connection: &mut Connection, agent: &AgentId) -> StoreResult<Vec<Ancestor>> {
    let sql =
        sql!("-- sql/fork.parent\nSELECT parent_agent_id, fork_exchange FROM agents WHERE agent_id = $1");
    let mut line: Vec<Ancestor> = Vec::new();
    let mut next = agent.clone();
    for _ in 0..GENERATIONS_MAX {
        let found = query(sql).bind(next.as_str()).fetch_optional(&mut *connection).await?;
        let Some(row) = found else { break };
        let Some(parent) = row.try_get::<Option<String>>(0)? else {
            break;
        };
        let parent: AgentId = parent
            .parse()
            .map_err(|_| row::inconsistent("agents", next.to_string(), "parent_agent_id", parent))?;
        if parent == *agent || line.iter().any(|member| member.agent == parent) {
            break;
        }
        line.push(Ancestor { agent: parent.clone(), fork_exchange: row.try_get(1)? });
        next = parent;
    }
    Ok(line)
}
