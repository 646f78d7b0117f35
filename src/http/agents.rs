//! `GET /v1/agents`: all agents in figures, page by page.

use axum::{Json, extract::State, http::Uri};
use serde::Serialize;

use super::{
    SharedApp,
    extract::{Parameters, invalid},
    openapi::{answers, parameters::Paging},
    problem::Problem,
};
use crate::{
    domain::{agent::AgentId, time::Timestamp},
    store::AgentRow,
};

/// Agents on a page, and at most.
const LIMIT: i64 = 50;
const LIMIT_MAX: i64 = 200;

/// A page of agents, by id.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = AgentPage)]
pub(super) struct Page {
    agents: Vec<AgentFigures>,
    /// Where the next page begins; none on the last one.
    next_cursor: Option<AgentId>,
}

#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct AgentFigures {
    agent_id: AgentId,
    project_id: Option<String>,
    messages: i64,
    exchanges: i64,
    first_exchange: i64,
    covers_through: i64,
    pending_exchanges: i64,
    window_tokens: i64,
    budget_tokens: i64,
    version: i64,
    summary_tokens: i64,
    updated_at: Timestamp,
}

/// Lists agents.
#[utoipa::path(
    get, path = "/v1/agents", operation_id = "list_agents", tag = "agents",
    params(Paging),
    responses((status = 200, description = "A page of agents, by id.", body = Page),
        answers::Always),
)]
pub(super) async fn list(State(app): State<SharedApp>, uri: Uri) -> Result<Json<Page>, Problem> {
    let parameters = Parameters::read(&uri, &["limit", "cursor"])?;
    let limit = parameters.integer("limit", 1..=LIMIT_MAX)?.unwrap_or(LIMIT);
    let after = parameters.text("cursor").map(cursor).transpose()?;
    // One more than asked for tells whether there is a next page.
    let rows = app.parts.store.agents(after.as_ref(), limit + 1).await?;
    let shown = usize::try_from(limit).unwrap_or(usize::MAX);
    let has_more = rows.len() > shown;
    let agents: Vec<AgentFigures> = rows.into_iter().take(shown).map(AgentFigures::from).collect();
    let last = agents.last().map(|agent| agent.agent_id.clone());
    Ok(Json(Page {
        agents,
        next_cursor: last.filter(|_| has_more),
    }))
}

fn cursor(text: &str) -> Result<AgentId, Problem> {
    text.parse().map_err(|_| {
        invalid(
            "cursor",
            &format!("can't be `{text}`"),
            "give a `next_cursor` as it came",
        )
    })
}

impl From<AgentRow> for AgentFigures {
    fn from(row: AgentRow) -> Self {
        let ledger = &row.ledger;
        Self {
            messages: ledger.last_seq,
            exchanges: ledger.last_exchange,
            first_exchange: ledger.first_exchange,
            covers_through: ledger.summarized_through,
            pending_exchanges: ledger.pending_numbers(),
            window_tokens: ledger.window_tokens(),
            budget_tokens: row.budget_tokens,
            version: row.version,
            summary_tokens: row.summary_tokens,
            updated_at: row.updated_at,
            agent_id: row.agent,
            project_id: row.project,
        }
    }
}
