//! Checks that numbers have no gaps, and that references lead to rows.

use std::collections::HashSet;

use super::super::{
    super::{
        StoreResult,
        verify::{Invariant, VerifyFindings},
    },
    Connection, fork, query, sql,
    statement::Statement,
};
use recapd_core::domain::{agent::AgentId, number::i64_or_max};

pub(super) async fn check(
    tx: &mut Connection,
    agent: &AgentId,
    findings: &mut VerifyFindings,
) -> StoreResult<()> {
    check_numbers(tx, agent, findings).await?;
    for (invariant, what, sql) in strays() {
        let numbers: Vec<i64> = query(sql).bind(agent.as_str()).fetch_column(&mut *tx).await?;
        for number in numbers {
            findings.add(invariant, what.replace('#', &format!("#{number}")));
        }
    }
    Ok(())
}

/// Checks the numbers of items, facts and evictions. A fork's numbers continue its parent's, and no number is ever deleted. The
/// first numbers may be missing if a rebuild replaced missing items.
async fn check_numbers(
    tx: &mut Connection,
    agent: &AgentId,
    findings: &mut VerifyFindings,
) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/verify.last_numbers\nSELECT last_item, last_fact, last_eviction, parent_agent_id IS NOT NULL FROM agents WHERE agent_id = $1"
    );
    let row = query(sql).bind(agent.as_str()).fetch_one(&mut *tx).await?;
    let is_fork: bool = row.try_get(3)?;
    let record = fork::record::load_if_recorded(tx, agent).await?;
    if is_fork && record.is_none() {
        // The fork is older than fork records, and nothing else shows how many numbers it inherited.
        return Ok(());
    }
    let (mut items, mut facts, mut evictions) = (items(), facts(), evictions());
    items.last = row.try_get(0)?;
    facts.last = row.try_get(1)?;
    evictions.last = row.try_get(2)?;
    if let Some(record) = record {
        items.base = record.last_item;
        items.inherited = record.items.iter().map(|item| item.item).collect();
        facts.base = record.last_fact;
        facts.inherited = record.facts.iter().map(|fact| fact.fact).collect();
        evictions.base = record.last_eviction;
    }
    for numbered in [items, facts, evictions] {
        numbered.check(tx, agent, findings).await?;
    }
    Ok(())
}

/// The numbers of one kind of row.
struct NumberSeries {
    invariant: Invariant,
    name: &'static str,
    /// Selects all numbers, and for copies their numbers in the parent.
    sql: &'static Statement,
    /// The last number that the parent had at the fork.
    base: i64,
    /// The last number that the agent has given out.
    last: i64,
    /// Numbers that came with the fork.
    inherited: Vec<i64>,
    /// True if the agent's own first number must exist.
    is_whole: bool,
}

impl NumberSeries {
    async fn check(
        self,
        tx: &mut Connection,
        agent: &AgentId,
        findings: &mut VerifyFindings,
    ) -> StoreResult<()> {
        let (mut own_numbers, mut all_numbers) = (Vec::new(), HashSet::new());
        for row in query(self.sql).bind(agent.as_str()).fetch_all(tx).await? {
            let number: i64 = row.try_get(0)?;
            all_numbers.extend([number, row.try_get(1)?]);
            if number > self.base {
                own_numbers.push(number);
            }
        }
        let first = match own_numbers.first() {
            _ if self.is_whole => self.base + 1,
            Some(first) => *first,
            None => self.last + 1,
        };
        let expected = self.last.saturating_sub(first).saturating_add(1);
        let newest = own_numbers.last().copied().unwrap_or(first - 1);
        if i64_or_max(own_numbers.len()) != expected || newest != self.last {
            let found = format!(
                "{} {} up to number {newest} exist, but {expected} up to {} were made",
                own_numbers.len(),
                self.name,
                self.last
            );
            findings.add(self.invariant, found);
        }
        let lost = self.inherited.iter().filter(|number| !all_numbers.contains(number)).count();
        if lost > 0 {
            let found = format!("{lost} {} that came with the fork are missing", self.name);
            findings.add(self.invariant, found);
        }
        Ok(())
    }
}

fn items() -> NumberSeries {
    NumberSeries {
        invariant: Invariant::ExactlyOnce,
        name: "items",
        sql: sql!(
            "-- sql/verify.item_numbers\nSELECT item, coalesce(source_item, item) FROM summary_items WHERE agent_id = $1 ORDER BY item"
        ),
        base: 0,
        last: 0,
        inherited: Vec::new(),
        is_whole: false,
    }
}

fn facts() -> NumberSeries {
    NumberSeries {
        invariant: Invariant::ExactlyOnce,
        name: "facts",
        sql: sql!(
            "-- sql/verify.fact_numbers\nSELECT fact, coalesce(source_fact, fact) FROM summary_facts WHERE agent_id = $1 ORDER BY fact"
        ),
        ..items()
    }
}

fn evictions() -> NumberSeries {
    NumberSeries {
        invariant: Invariant::OneState,
        name: "evictions",
        sql: sql!(
            "-- sql/verify.eviction_numbers\nSELECT eviction, eviction FROM evictions WHERE agent_id = $1 ORDER BY eviction"
        ),
        is_whole: true,
        ..items()
    }
}

/// Returns statements that find rows with broken references. Each comes with its invariant and the text of its finding, in which
/// `#` stands for the row's number.
fn strays() -> [(Invariant, &'static str, &'static Statement); 6] {
    [
        (
            Invariant::OneState,
            "exchange # left the window without an eviction",
            sql!(
                "-- sql/verify.unevicted\nSELECT e.exchange FROM exchange_log e JOIN agents a ON a.agent_id = e.agent_id \
                       WHERE e.agent_id = $1 AND e.set_aside_at IS NULL AND e.role = 'exchange' AND e.source_agent_id = $1 \
                       AND e.exchange < a.first_exchange AND NOT EXISTS (SELECT 1 FROM evictions v \
                       WHERE v.agent_id = $1 AND e.exchange BETWEEN v.from_exchange AND v.through_exchange) ORDER BY e.exchange LIMIT 100"
            ),
        ),
        (
            Invariant::NothingLost,
            "session # is missing, or doesn't begin after the previous one",
            sql!(
                "-- sql/verify.sessions\nSELECT n.session FROM (SELECT s.session, s.first_exchange, lag(s.session) OVER (ORDER BY s.session) AS before, \
                       lag(s.first_exchange) OVER (ORDER BY s.session) AS first_before FROM sessions s WHERE s.agent_id = $1) n \
                       WHERE n.session <> n.before + 1 OR n.first_exchange < n.first_before \
                       UNION ALL SELECT min(s.session) - 1 FROM sessions s JOIN agents a ON a.agent_id = s.agent_id \
                       WHERE s.agent_id = $1 AND a.parent_agent_id IS NULL HAVING min(s.session) > 1 \
                       UNION ALL SELECT a.session FROM agents a WHERE a.agent_id = $1 AND a.last_seq > 0 \
                       AND a.session <> coalesce((SELECT max(s.session) FROM sessions s WHERE s.agent_id = $1), 0) LIMIT 100"
            ),
        ),
        (
            Invariant::ExactlyOnce,
            "version # has no run that wrote it",
            sql!(
                "-- sql/verify.runs\nSELECT v.version FROM summary_versions v WHERE v.agent_id = $1 AND v.kind = 'update' \
                       AND v.exchanges > 0 AND v.created_at >= coalesce((SELECT p.before_at FROM prunings p \
                       WHERE p.table_name = 'update_runs'), v.created_at) AND NOT EXISTS (SELECT 1 FROM update_runs r \
                       WHERE r.agent_id = $1 AND r.version = v.version AND r.lease_token = v.lease_token) ORDER BY v.version LIMIT 100"
            ),
        ),
        (
            Invariant::ExactlyOnce,
            "the run of version # contradicts the version",
            sql!(
                "-- sql/verify.run_figures\nSELECT v.version FROM summary_versions v JOIN update_runs r ON r.agent_id = v.agent_id \
                       AND r.version = v.version AND r.lease_token = v.lease_token WHERE v.agent_id = $1 AND v.purged_at IS NULL \
                       AND (r.covers_after <> v.covers_after OR r.covers_through <> v.covers_through OR r.exchanges <> v.exchanges \
                       OR r.path <> v.path OR r.document_tokens <> v.token_count) ORDER BY v.version LIMIT 100"
            ),
        ),
        (
            Invariant::OneState,
            "item # names a version that never existed",
            sql!(
                "-- sql/verify.item_versions\nSELECT i.item FROM summary_items i JOIN summaries s ON s.agent_id = i.agent_id \
                       WHERE i.agent_id = $1 AND i.removed_version IS NULL AND (i.added_version NOT BETWEEN 1 AND s.version \
                       OR i.dropped_version NOT BETWEEN i.added_version AND s.version) ORDER BY i.item LIMIT 100"
            ),
        ),
        (
            Invariant::ExchangesAtomic,
            "exchange # is the newest live exchange, but the agent's row names another one",
            sql!(
                "-- sql/verify.newest\nSELECT max(e.exchange) FROM exchange_log e JOIN agents a ON a.agent_id = e.agent_id \
                       WHERE e.agent_id = $1 AND e.set_aside_at IS NULL AND e.role = 'exchange' AND a.newest_exchange IS NOT NULL \
                       HAVING max(e.exchange) <> max(a.newest_exchange)"
            ),
        ),
    ]
}
