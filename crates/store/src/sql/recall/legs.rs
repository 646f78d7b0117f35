//! Reads the legs of one exchange. Their numbers are neighbours, except for preambles of cleared sessions and set-aside exchanges
//! between them. So legs are read from the first one on, until a live exchange comes that doesn't continue this exchange.

use std::collections::{BTreeMap, btree_map::Entry};

use crate::sql::{Connection, query, sql};

use super::{
    super::{
        super::{LEGS_MAX, StoreResult},
        row::{self, exchange_columns},
    },
    line::Member,
    look_up,
};
use recapd_core::domain::{agent::AgentId, exchange::Exchange, number::i64_or_max};

/// How many rows the first page has. Most exchanges are one leg.
const FIRST_PAGE_ROWS: i64 = 4;
/// How many rows later pages have.
const PAGE_ROWS: i64 = 500;

pub(crate) async fn legs(tx: &mut Connection, agent: &AgentId, exchange: i64) -> StoreResult<Vec<Exchange>> {
    let Some((line, placed)) = look_up(tx, agent, exchange).await? else {
        return Ok(Vec::new());
    };
    let first_leg = placed.exchange.first_leg();
    let mut found: BTreeMap<i64, Option<Exchange>> = BTreeMap::new();
    for member in line.members() {
        read(tx, member, first_leg, &mut found).await?;
        if found.contains_key(&first_leg) {
            break;
        }
    }
    Ok(found.into_values().flatten().collect())
}

/// Adds the rows of the exchange that `member` has. A row that was set aside is added as `None`, so that it hides the ancestors'
/// row of the same number.
async fn read(
    tx: &mut Connection,
    member: &Member,
    first_leg: i64,
    found: &mut BTreeMap<i64, Option<Exchange>>,
) -> StoreResult<()> {
    let (mut from, mut limit) = (first_leg, FIRST_PAGE_ROWS);
    while i64_or_max(found.len()) < LEGS_MAX {
        let rows = page(tx, member, from, limit).await?;
        let is_last = i64_or_max(rows.len()) < limit;
        for row in rows {
            from = row.exchange + 1;
            let is_live = row.set_aside_at.is_none_or(|at| at >= member.until);
            let is_leg = row.first_leg() == first_leg;
            if is_live && !is_leg {
                return Ok(());
            }
            if let Entry::Vacant(slot) = found.entry(row.exchange) {
                slot.insert(Some(row).filter(|_| is_live));
            }
        }
        if is_last {
            break;
        }
        limit = PAGE_ROWS;
    }
    Ok(())
}

async fn page(tx: &mut Connection, member: &Member, from: i64, limit: i64) -> StoreResult<Vec<Exchange>> {
    let sql = sql!(
        "-- sql/recall.legs\nSELECT ",
        exchange_columns!("e"),
        " FROM exchange_log e WHERE e.agent_id = $1 AND e.exchange >= $2 AND e.role = 'exchange' ",
        "AND e.first_seq <= $3 ORDER BY e.exchange LIMIT $4"
    );
    let query = query(sql).bind(member.agent.as_str()).bind(from).bind(member.through_seq).bind(limit);
    let found = query.fetch_all(tx).await?;
    found.iter().map(|row| row::exchange(row, 0)).collect()
}
