//! Reads the exchange that an agent works on, for briefs.

use recapd_core::domain::{
    agent::AgentId, exchange::ExchangeState, legs::RunningExchange, redaction::Redactor,
    summary::section::Ageing, zone::Zone,
};
use recapd_store::{AgentRow, Store, StoreResult};

/// Returns the agent's newest exchange if it is still open, with times as its summary shows them.
///
/// # Errors
/// When the store fails.
pub async fn running(
    store: &dyn Store,
    agent: &AgentId,
    ageing: Ageing,
    redactor: &Redactor,
) -> StoreResult<Option<RunningExchange>> {
    let Some(row) = store.agent(agent).await? else {
        return Ok(None);
    };
    let newest = row.ledger.newest.as_ref();
    let Some(open) = newest.filter(|newest| newest.state == ExchangeState::Open) else {
        return Ok(None);
    };
    let rows = store.legs(agent, open.exchange).await?;
    Ok(RunningExchange::of(&rows, zone(&row, ageing), redactor))
}

fn zone(row: &AgentRow, ageing: Ageing) -> Zone {
    let agent_zone = row.settings.time_zone.as_deref().and_then(Zone::parse);
    match ageing {
        Ageing::Calendar(calendar) => agent_zone.unwrap_or(calendar.zone),
        Ageing::Age { .. } | Ageing::Off => Zone::UTC,
    }
}
