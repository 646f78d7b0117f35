//! Counts tokens again after a change of model. Exchanges in the window or pending, and the preamble, get the counts of the new
//! model's counter; covered exchanges keep their counts.
//!
//! The recount goes from the newest exchange to the oldest, some exchanges per transaction. If a step makes more running totals
//! outdated than one transaction should write, they are recalculated later ([`totals`]). So a crash between two steps leaves a
//! mixture of counts, and a record of what is left to do. The window's budget is enforced as soon as all totals are right.

use crate::sql::{Connection, query, sql};

use super::{
    super::{
        AgentRow, AppendRequest, AppendRules, NewCount, Recount, RecountBatch, RecountOutcome, StoreError,
        StoreResult, StoredMessage,
    },
    agent,
    append::{self, boundary, write},
    exchange, lineage,
    row::{self, exchange_columns},
    totals,
};
use recapd_core::domain::{
    agent::AgentId, exchange::Exchange, ledger::Ledger, number::i64_or_max, settings::AgentSettings,
    time::Timestamp,
};

/// Records that everything not covered needs a recount.
pub(super) async fn begin(tx: &mut Connection, agent: &AgentId) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/recount.begin\nUPDATE agents SET recount_before = last_exchange + 1 WHERE agent_id = $1"
    );
    let row_count = query(sql).bind(agent.as_str()).execute(tx).await?;
    if row_count == 0 {
        return Err(StoreError::UnknownAgent(agent.clone()));
    }
    Ok(())
}

/// Does the same as [`begin`], but only for an agent whose model has changed before.
pub(super) async fn begin_again(tx: &mut Connection, agent: &AgentId) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/recount.begin_again\nUPDATE agents SET recount_before = last_exchange + 1 WHERE agent_id = $1 \
               AND EXISTS (SELECT 1 FROM recounts r WHERE r.agent_id = $1)"
    );
    query(sql).bind(agent.as_str()).execute(tx).await?;
    Ok(())
}

pub(super) async fn due(connection: &mut Connection, limit: i64) -> StoreResult<Vec<AgentId>> {
    let sql = sql!(
        "-- sql/recount.due\nSELECT agent_id FROM agents WHERE recount_before IS NOT NULL \
               ORDER BY agent_id LIMIT $1"
    );
    let found = query(sql).bind(limit).fetch_all(connection).await?;
    found.iter().map(|found| row::agent_id(found, 0)).collect()
}

/// Returns the next exchanges to count: together up to `messages_max` messages, but at least one exchange.
pub(super) async fn batch(
    tx: &mut Connection,
    agent: &AgentId,
    messages_max: i64,
) -> StoreResult<Option<RecountBatch>> {
    let Some((row, before)) = load(tx, agent).await? else {
        return Ok(None);
    };
    let sql = sql!(
        "-- sql/recount.batch\nSELECT ",
        exchange_columns!("e"),
        " FROM exchange_log e WHERE e.agent_id = $1 AND e.exchange > $2 AND e.exchange < $3 ",
        "AND e.set_aside_at IS NULL AND e.role = 'exchange' ORDER BY e.exchange DESC LIMIT $4"
    );
    let found = query(sql)
        .bind(agent.as_str())
        .bind(row.ledger.summarized_through)
        .bind(before)
        .bind(messages_max.max(1))
        .fetch_all(&mut *tx)
        .await?;
    let (mut from, mut messages) = (before, Vec::new());
    let mut is_last = i64_or_max(found.len()) < messages_max;
    for found in &found {
        let found = row::exchange(found, 0)?;
        let more = found.last_seq - found.first_seq + 1;
        let read = i64_or_max(messages.len());
        if read > 0 && read + more > messages_max {
            is_last = false;
            break;
        }
        from = found.exchange;
        messages.extend(messages_of(tx, agent, &found).await?);
    }
    if let (Some(preamble), true) = (&row.ledger.preamble, is_last) {
        messages.extend(messages_of(tx, agent, preamble).await?);
    }
    Ok(Some(RecountBatch { settings: row.settings, from, before, is_last, messages }))
}

async fn messages_of(
    tx: &mut Connection,
    agent: &AgentId,
    of: &Exchange,
) -> StoreResult<Vec<(i64, StoredMessage)>> {
    let found = exchange::messages(tx, agent, of).await?;
    Ok(found.into_iter().map(|message| (of.exchange, message)).collect())
}

/// Returns the agent's row, and the exchange before which the counts are old; `None` if no counts are old.
async fn load(tx: &mut Connection, agent: &AgentId) -> StoreResult<Option<(AgentRow, i64)>> {
    let row = agent::load_known(tx, agent).await?;
    let sql = sql!("-- sql/recount.load\nSELECT recount_before FROM agents WHERE agent_id = $1");
    let found = query(sql).bind(agent.as_str()).fetch_one(tx).await?;
    Ok(found.try_get::<Option<i64>>(0)?.map(|before| (row, before)))
}

/// See [`crate::Store::recount`].
pub(super) async fn recount(tx: &mut Connection, request: Recount) -> StoreResult<Option<RecountOutcome>> {
    let agent = &request.agent;
    let Some((row, before)) = load(tx, agent).await? else {
        return Ok(None);
    };
    if before != request.before || tokenizer_of(&row.settings) != tokenizer_of(&request.settings) {
        return Ok(None);
    }
    let covered_through = row.ledger.summarized_through;
    let from = request.from.max(covered_through + 1);
    let preamble = row.ledger.preamble.as_ref().map(|preamble| preamble.exchange);
    let preamble = preamble.filter(|_| request.is_last);
    let range = Range { from, before, preamble };
    write_counts(tx, &request, range).await?;
    sum_exchanges(tx, agent, range).await?;
    let is_settled = totals::handle_change(tx, agent, from).await?;
    if from < row.ledger.first_exchange {
        // An update in progress has read the old counts, and would write them into its items.
        lineage::void_lease(tx, agent, request.now).await?;
    }
    let recount_before = (!request.is_last).then_some(from);
    let sql = sql!(
        "-- sql/recount.step\nUPDATE agents SET recount_before = $2, updated_at = $3 WHERE agent_id = $1"
    );
    query(sql).bind(agent.as_str()).bind(recount_before).bind(request.now).execute(&mut *tx).await?;
    let budgeted = BudgetedAgent { agent, rules: &request.rules, now: request.now };
    Ok(Some(budgeted.fit_budget(tx, is_settled).await?))
}

fn tokenizer_of(settings: &AgentSettings) -> (Option<&str>, Option<&str>) {
    (settings.provider.as_deref(), settings.model.as_deref())
}

/// The exchanges that a step counts.
#[derive(Clone, Copy)]
struct Range {
    from: i64,
    before: i64,
    /// The preamble, if this is the last step.
    preamble: Option<i64>,
}

/// Stores the counts of messages that aren't forgotten and whose exchange is live and not covered.
async fn write_counts(tx: &mut Connection, request: &Recount, range: Range) -> StoreResult<()> {
    let counts = request.counts.iter();
    let counts: Vec<[i64; 3]> =
        counts.map(|&NewCount { exchange, seq, tokens }| [exchange, seq, tokens]).collect();
    let sql = sql!(
        "-- sql/recount.counts\nINSERT INTO recounts (agent_id, seq, tokens, count_method) \
               SELECT $1, CAST(c.value ->> 1 AS bigint), CAST(c.value ->> 2 AS bigint), $2 FROM {each}($3{::jsonb}) c \
               JOIN exchange_log e ON e.agent_id = $1 AND e.exchange = CAST(c.value ->> 0 AS bigint) \
               WHERE (e.role = 'exchange' AND e.set_aside_at IS NULL AND e.exchange >= $4 AND e.exchange < $5 \
               OR e.exchange = $6) AND NOT EXISTS (SELECT 1 FROM message_log m WHERE m.agent_id = e.source_agent_id \
               AND m.seq = CAST(c.value ->> 1 AS bigint) AND m.forgotten_at IS NOT NULL) \
               ON CONFLICT (agent_id, seq) DO UPDATE SET tokens = excluded.tokens, count_method = excluded.count_method"
    );
    query(sql)
        .bind(request.agent.as_str())
        .bind(request.count_method.as_str())
        .bind(serde_json::json!(counts).to_string())
        .bind(range.from)
        .bind(range.before)
        .bind(range.preamble)
        .execute(tx)
        .await?;
    Ok(())
}

/// Sums the tokens of exchanges from their messages, including messages that arrived since.
async fn sum_exchanges(tx: &mut Connection, agent: &AgentId, range: Range) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/recount.exchanges\nUPDATE exchange_log SET tokens = \
               (SELECT coalesce(CAST(sum(coalesce(r.tokens, m.tokens)) AS bigint), 0) FROM message_log m \
               LEFT JOIN recounts r ON r.agent_id = $1 AND r.seq = m.seq WHERE m.agent_id = exchange_log.source_agent_id \
               AND m.seq BETWEEN exchange_log.first_seq AND exchange_log.last_seq \
               AND m.exchange = exchange_log.exchange) \
               WHERE agent_id = $1 AND (role = 'exchange' AND set_aside_at IS NULL AND exchange >= $2 AND exchange < $3 \
               OR exchange = $4)"
    );
    query(sql)
        .bind(agent.as_str())
        .bind(range.from)
        .bind(range.before)
        .bind(range.preamble)
        .execute(tx)
        .await?;
    Ok(())
}

pub(super) async fn settle_totals(
    tx: &mut Connection,
    agent: &AgentId,
    rules: &AppendRules,
    now: Timestamp,
) -> StoreResult<Option<RecountOutcome>> {
    match totals::settle_some(tx, agent).await? {
        None => Ok(None),
        Some(is_settled) => {
            let budgeted = BudgetedAgent { agent, rules, now };
            Ok(Some(budgeted.fit_budget(tx, is_settled).await?))
        }
    }
}

/// An agent whose window has to fit its budget.
struct BudgetedAgent<'a> {
    agent: &'a AgentId,
    rules: &'a AppendRules,
    now: Timestamp,
}

impl BudgetedAgent<'_> {
    /// Moves the boundary if the new counts exceed the budget. Does nothing until all totals are right.
    async fn fit_budget(self, tx: &mut Connection, is_settled: bool) -> StoreResult<RecountOutcome> {
        let row = agent::load_known(tx, self.agent).await?;
        let previous_budget = row.kept_budget();
        let mut ledger = row.ledger;
        let in_force = row.settings.expanded(&self.rules.basis);
        // A raised budget takes effect with the next append, which then brings exchanges back. The ceiling in messages isn't
        // checked, because a recount doesn't change the number of messages.
        let budget = in_force.budget(self.rules.budget).at_most(previous_budget);
        let mut evictions = Vec::new();
        if let Some(overflow) = ledger.overflow(budget).filter(|_| is_settled) {
            let at = ledger.newest.as_ref().map_or(self.now, |newest| newest.last_at);
            let cut = boundary::find_cut(tx, self.agent, overflow, &[]).await?;
            evictions.extend(ledger.evict_to(cut, at));
        }
        write::write_evictions(tx, self.agent, &evictions).await?;
        if !evictions.is_empty() {
            move_window(tx, self.agent, &ledger, self.now).await?;
        }
        let append = AppendRequest {
            agent: self.agent.clone(),
            messages: Vec::new(),
            key: None,
            count_method: String::new(),
            rules: *self.rules,
            replayed: false,
            now: self.now,
        };
        Ok(RecountOutcome {
            window_tokens: ledger.window_tokens(),
            enqueued: append::wake(tx, &append, &ledger, (&evictions, &[]), false).await?,
            evictions,
        })
    }
}

async fn move_window(
    tx: &mut Connection,
    agent: &AgentId,
    ledger: &Ledger,
    now: Timestamp,
) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/recount.evict\nUPDATE agents SET first_exchange = $2, tokens_before_window = $3, \
               pending_since = coalesce(pending_since, $4), last_eviction = last_eviction + 1 WHERE agent_id = $1"
    );
    query(sql)
        .bind(agent.as_str())
        .bind(ledger.first_exchange)
        .bind(ledger.tokens_before_window)
        .bind(now)
        .execute(tx)
        .await?;
    Ok(())
}
