//! The ancestor line: an agent and its ancestors, with the part of their past that the agent shares.

use crate::sql::{Connection, query, sql};
use serde_json::json;

use super::super::{
    super::{ExchangePlace, PlacedExchange, StoreResult},
    agent,
    row::{self, evicted_at, exchange_columns},
};
use recapd_core::domain::{
    agent::AgentId, exchange::Exchange, ledger::Ledger, recall::block_of, time::Timestamp,
};

/// Limits how many generations of ancestors are read.
const GENERATIONS_MAX: usize = 1_000;

/// A block of an agent's messages in the index.
pub(super) type BlockKey = (String, i64);

/// An agent of the line, and how much of its past the line shares.
pub(super) struct Member {
    pub(super) agent: AgentId,
    /// The last shared message.
    pub(super) through_seq: i64,
    /// Exchanges set aside after this time were live when the line was forked.
    pub(super) until: Timestamp,
}

/// The agent, its parent, its parent's parent, and so on. Numbers of messages are unique within the line, because a child's own
/// numbers begin after its parent's last one.
pub(crate) struct AncestorLine {
    ledger: Ledger,
    members: Vec<Member>,
}

impl AncestorLine {
    pub(crate) async fn of(tx: &mut Connection, agent: &AgentId) -> StoreResult<Option<Self>> {
        let Some(found) = agent::load(tx, agent).await? else {
            return Ok(None);
        };
        let mut members =
            vec![Member { agent: agent.clone(), through_seq: i64::MAX, until: Timestamp(i64::MAX) }];
        while let Some(parent) = parent(tx, &members).await? {
            members.push(parent);
        }
        Ok(Some(Self { ledger: found.ledger, members }))
    }

    /// Returns the agent to which the message belongs: the oldest one that shares it.
    pub(super) fn owner(&self, seq: i64) -> Option<&AgentId> {
        let mut oldest_first = self.members.iter().rev();
        oldest_first.find(|member| seq <= member.through_seq).map(|member| &member.agent)
    }

    pub(super) fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.iter()
    }

    /// Returns `[[agent, last shared message, its block], …]` as JSON.
    pub(super) fn json(&self) -> String {
        let members = self.members.iter();
        let pairs: Vec<_> = members
            .map(|member| json!([member.agent, member.through_seq, block_of(member.through_seq)]))
            .collect();
        json!(pairs).to_string()
    }

    /// Returns the blocks of the line's messages. A member's own blocks begin after its parent's.
    pub(super) fn blocks(&self) -> Vec<BlockKey> {
        let parents = self.members.iter().skip(1);
        let firsts = parents.map(|parent| parent.through_seq + 1).chain([0]);
        self.members
            .iter()
            .zip(firsts)
            .flat_map(|(member, first)| {
                let last = member.through_seq.min(self.ledger.last_seq);
                let blocks = block_of(first)..=block_of(last);
                blocks.map(|block| (member.agent.to_string(), block))
            })
            .collect()
    }

    /// Finds an exchange, live or set aside, among those that the line shares.
    pub(crate) async fn find(
        &self,
        tx: &mut Connection,
        exchange: i64,
    ) -> StoreResult<Option<PlacedExchange>> {
        for (generation, member) in self.members.iter().enumerate() {
            let Some(found) = load(tx, &member.agent, exchange).await? else {
                continue;
            };
            if found.exchange.first_seq > member.through_seq {
                continue;
            }
            return Ok(Some(self.placed(found, member, generation == 0)));
        }
        Ok(None)
    }

    fn placed(&self, found: LineMatch, member: &Member, is_own: bool) -> PlacedExchange {
        let exchange =
            Exchange { last_seq: found.exchange.last_seq.min(member.through_seq), ..found.exchange };
        let set_aside = exchange.set_aside_at.is_some_and(|at| at < member.until);
        let place = match (found.is_preamble, set_aside) {
            (true, _) => ExchangePlace::Preamble,
            (_, true) => ExchangePlace::SetAside,
            // An exchange that has no row in the child was covered at the fork.
            _ if !is_own => ExchangePlace::Covered,
            _ => ExchangePlace::of(exchange.exchange, &self.ledger),
        };
        PlacedExchange {
            exchange,
            source: found.source,
            place,
            evicted_at: found.evicted_at.filter(|_| place != ExchangePlace::Window),
            summary_version: found.summary_version.filter(|_| is_own && place == ExchangePlace::Covered),
        }
    }

    /// Returns the exchange of a message of the line.
    pub(crate) async fn exchange_of(&self, tx: &mut Connection, seq: i64) -> StoreResult<Option<i64>> {
        let sql = sql!(
            "-- sql/recall.exchange_of\nSELECT exchange FROM message_log WHERE agent_id = $1 AND seq = $2"
        );
        for member in self.members.iter().filter(|member| seq <= member.through_seq) {
            let query = query(sql).bind(member.agent.as_str()).bind(seq);
            if let Some(row) = query.fetch_optional(&mut *tx).await? {
                return Ok(Some(row.try_get(0)?));
            }
        }
        Ok(None)
    }
}

/// Returns the parent of the last of `members`; `None` if it has no parent, or was forked before the first message.
async fn parent(tx: &mut Connection, members: &[Member]) -> StoreResult<Option<Member>> {
    let Some(child) = members.last().filter(|_| members.len() < GENERATIONS_MAX) else {
        return Ok(None);
    };
    let sql = sql!(
        "-- sql/recall.parent\nSELECT parent_agent_id, fork_seq, created_at FROM agents \
               WHERE agent_id = $1 AND parent_agent_id IS NOT NULL AND fork_seq > 0"
    );
    let query = query(sql).bind(child.agent.as_str());
    let Some(row) = query.fetch_optional(tx).await? else {
        return Ok(None);
    };
    let agent = row::agent_id_of(&row, 0, child.agent.as_str())?;
    if members.iter().any(|member| member.agent == agent) {
        return Ok(None);
    }
    Ok(Some(Member {
        agent,
        through_seq: child.through_seq.min(row.try_get::<i64>(1)? - 1),
        until: child.until.min(row.try_get(2)?),
    }))
}

/// An agent's row of an exchange.
struct LineMatch {
    exchange: Exchange,
    source: AgentId,
    is_preamble: bool,
    evicted_at: Option<Timestamp>,
    summary_version: Option<i64>,
}

async fn load(tx: &mut Connection, agent: &AgentId, exchange: i64) -> StoreResult<Option<LineMatch>> {
    let sql = sql!(
        "-- sql/recall.exchange\nSELECT ",
        exchange_columns!("e"),
        ", e.source_agent_id, e.role = 'preamble', ",
        evicted_at!(),
        ", (SELECT w.version FROM summary_versions w WHERE w.agent_id = e.agent_id ",
        "AND w.covers_after < e.exchange AND e.exchange <= w.covers_through AND NOT EXISTS ",
        "(SELECT 1 FROM summary_versions r WHERE r.agent_id = w.agent_id AND r.version > w.version ",
        // The kind is checked last, as in `exchange.load`, which gives the reason.
        "AND r.covers_through < e.exchange AND r.kind <> 'update') ORDER BY w.version LIMIT 1) ",
        "FROM exchange_log e WHERE e.agent_id = $1 AND e.exchange = $2"
    );
    let found = query(sql).bind(agent.as_str()).bind(exchange).fetch_optional(tx).await?;
    let Some(row) = found else { return Ok(None) };
    Ok(Some(LineMatch {
        exchange: row::exchange(&row, 0)?,
        source: row::agent_id_of(&row, 12, agent.as_str())?,
        is_preamble: row.try_get(13)?,
        evicted_at: row::time(&row, 14)?,
        summary_version: row.try_get(15)?,
    }))
}
