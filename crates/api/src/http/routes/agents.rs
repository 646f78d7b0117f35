//! `GET /v1/agents`: the figures of all agents, page by page.

use axum::{Extension, Json, extract::State, http::Uri};
use serde::{Deserialize, Serialize};

use crate::{
    access::Caller,
    http::{
        App, SharedApp,
        edge::access::CallerExtension,
        openapi::{answers, parameters::Paging},
        request::{extract::Parameters, page},
        response::problem::Problem,
    },
};
use recapd_core::domain::{
    agent::AgentId,
    cursor::{Cursor, PagedList},
    exchange::{Exchange, ExchangeState},
    time::Timestamp,
};
use recapd_store::{AgentRow, StoreResult};

/// A page of agents, ordered by id.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = AgentPage)]
pub(super) struct AgentsPage {
    agents: Vec<AgentFigures>,
    /// The cursor of the next page; null on the last.
    next_cursor: Option<Cursor>,
}

/// The figures of an agent. HTTP and the command line use the same fields.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
pub struct AgentFigures {
    pub agent_id: AgentId,
    pub project_id: Option<String>,
    pub messages: i64,
    pub exchanges: i64,
    pub first_exchange: i64,
    pub covers_through: i64,
    pub pending_exchanges: i64,
    /// Since when exchanges are pending; null if none is.
    #[serde(default)]
    pub pending_since: Option<Timestamp>,
    pub window_tokens: i64,
    pub budget_tokens: i64,
    pub version: i64,
    pub summary_tokens: i64,
    pub updated_at: Timestamp,
    /// The newest exchange or leg. Ones that a rewind set aside don't count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newest: Option<NewestExchange>,
}

/// The newest exchange of an agent, or its newest leg.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
pub struct NewestExchange {
    pub exchange: i64,
    /// If this is a later leg: the first leg of its exchange.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<i64>,
    /// `open` if more messages are expected in the exchange.
    pub state: ExchangeState,
}

impl From<&Exchange> for NewestExchange {
    fn from(row: &Exchange) -> Self {
        Self { exchange: row.exchange, continues: row.headline.continues, state: row.state }
    }
}

/// Lists agents.
#[utoipa::path(
    get, path = "/v1/agents", operation_id = "list_agents", tag = "agents",
    params(Paging),
    responses((status = 200, description = "A page of agents, ordered by id.", body = AgentsPage),
        answers::Always),
)]
pub(super) async fn list(
    State(app): State<SharedApp>,
    Extension(caller): CallerExtension,
    uri: Uri,
) -> Result<Json<AgentsPage>, Problem> {
    let parameters = Parameters::read(&uri, &["limit", "cursor"])?;
    let limit = page::limit(&parameters)?;
    let after = page::cursor(&parameters, PagedList::Agents)?;
    let found = rows(&app, &caller, after.as_ref(), limit + 1).await?;
    let (rows, last) = page::cut(found, limit, |row| row.agent.clone());
    Ok(Json(AgentsPage {
        agents: rows.into_iter().map(AgentFigures::from).collect(),
        next_cursor: page::next(PagedList::Agents, last),
    }))
}

/// Reads the agents that `caller` may see: those with ids after `after`, in order.
pub(crate) async fn rows(
    app: &App,
    caller: &Caller,
    after: Option<&AgentId>,
    limit: i64,
) -> StoreResult<Vec<AgentRow>> {
    let store = app.parts.store.as_ref();
    app.parts.access.visible_agent_rows(store, caller, after, limit).await
}

/// Reads the agent; fails if it doesn't exist.
pub(crate) async fn existing_agent(app: &App, agent: &AgentId) -> Result<AgentRow, Problem> {
    let row = app.parts.store.agent(agent).await?;
    row.ok_or_else(|| Problem::unknown_agent(agent))
}

impl From<AgentRow> for AgentFigures {
    fn from(row: AgentRow) -> Self {
        let ledger = &row.ledger;
        Self {
            messages: ledger.last_seq,
            exchanges: ledger.last_exchange,
            first_exchange: ledger.first_exchange,
            covers_through: ledger.summarized_through,
            pending_exchanges: row.pending_exchanges,
            pending_since: row.pending_since,
            window_tokens: ledger.window_tokens(),
            budget_tokens: row.budget_tokens,
            version: row.version,
            summary_tokens: row.summary_tokens,
            updated_at: row.updated_at,
            newest: ledger.newest.as_ref().map(NewestExchange::from),
            agent_id: row.agent,
            project_id: row.project,
        }
    }
}
