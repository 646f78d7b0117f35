//! `GET /v1/agents`: all agents in figures, page by page.

use axum::{Extension, Json, extract::State, http::Uri};
use serde::Serialize;

use super::{
    App, SharedApp,
    access::Asking,
    extract::Parameters,
    openapi::{answers, parameters::Paging},
    page,
    problem::Problem,
};
use crate::{
    access::Caller,
    domain::{agent::AgentId, time::Timestamp},
    store::{AgentRow, StoreResult},
};

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
pub(super) async fn list(
    State(app): State<SharedApp>,
    Extension(caller): Asking,
    uri: Uri,
) -> Result<Json<Page>, Problem> {
    let parameters = Parameters::read(&uri, &["limit", "cursor"])?;
    let limit = page::limit(&parameters)?;
    let after = page::cursor(&parameters)?;
    let found = rows(&app, &caller, after.as_ref(), limit + 1).await?;
    let (rows, next_cursor) = page::cut(found, limit, |row| row.agent.clone());
    Ok(Json(Page {
        agents: rows.into_iter().map(AgentFigures::from).collect(),
        next_cursor,
    }))
}

/// Agents that `caller` may see.
pub(super) async fn rows(
    app: &App,
    caller: &Caller,
    after: Option<&AgentId>,
    limit: i64,
) -> StoreResult<Vec<AgentRow>> {
    let store = &app.parts.store;
    let Some(seen) = app.parts.access.seen(caller, after, limit).await? else {
        return store.agents(after, limit).await;
    };
    let mut rows = Vec::new();
    for agent in &seen {
        rows.extend(store.agent(agent).await?);
    }
    Ok(rows)
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
