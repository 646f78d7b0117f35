//! `GET /v1/queue` and its rows, and operators' actions on them.

use axum::{
    Extension, Json,
    extract::{Request, State},
    http::{HeaderValue, StatusCode, Uri, header::LOCATION},
    response::{IntoResponse, Response},
};
use serde::Serialize;

use super::lineage::{self, EmptyBody};
use crate::{
    access::Caller,
    http::{
        App, SharedApp,
        edge::access::CallerExtension,
        openapi::{
            answers,
            parameters::{AgentPath, Paging},
        },
        request::{
            extract::{Agent, Parameters, agent_id},
            page,
        },
        response::problem::{Problem, UNKNOWN_QUEUE_ROW},
    },
};
use recapd_core::domain::{
    agent::AgentId,
    cursor::{Cursor, PagedList},
    time::Timestamp,
};
use recapd_engine::ingest::Operator;
use recapd_store::{
    StoreResult,
    operate::{OperatorOutcome, QueueRow},
};

/// A page of the queue, ordered by agent.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = QueuePage)]
pub(super) struct QueuePage {
    /// When all updates were paused; null if they aren't paused.
    paused_since: Option<Timestamp>,
    rows: Vec<QueueRow>,
    /// The cursor of the next page; null on the last.
    next_cursor: Option<Cursor>,
}

/// The pause of all updates.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = QueuePause)]
pub(super) struct Pause {
    /// When all updates were paused; null if they aren't paused.
    paused_since: Option<Timestamp>,
}

/// Whether an operator has paused an agent's updates.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = AgentPause)]
pub(super) struct AgentPause {
    agent_id: AgentId,
    paused: bool,
}

/// Lists the queue.
#[utoipa::path(
    get, path = "/v1/queue", operation_id = "list_queue", tag = "updates",
    params(Paging),
    responses((status = 200, description = "A page of the queue, ordered by agent.", body = QueuePage), answers::Always),
)]
pub(super) async fn list(
    State(app): State<SharedApp>,
    Extension(caller): CallerExtension,
    uri: Uri,
) -> Result<Json<QueuePage>, Problem> {
    let (rows, last, paused_since) = queue_of(&app, &caller, &uri).await?;
    Ok(Json(QueuePage { paused_since, rows, next_cursor: page::next(PagedList::Queue, last) }))
}

/// Reads the requested page of the queue, as far as `caller` may see it. Returns its rows, the agent after which the next
/// page begins, and when all updates were paused.
async fn queue_of(
    app: &App,
    caller: &Caller,
    uri: &Uri,
) -> Result<(Vec<QueueRow>, Option<AgentId>, Option<Timestamp>), Problem> {
    let parameters = Parameters::read(uri, &["limit", "cursor"])?;
    let limit = page::limit(&parameters)?;
    let after = page::cursor(&parameters, PagedList::Queue)?;
    let operator = &app.parts.operator;
    let visible = app.parts.access.visible_agents(caller, after.as_ref(), limit).await?;
    let (rows, next) = if let Some(agents) = visible {
        rows_of(operator, agents, limit).await?
    } else {
        let found = operator.queue(after.as_ref(), limit + 1).await?;
        page::cut(found, limit, |row| row.agent_id.clone())
    };
    Ok((rows, next, operator.paused_since().await?))
}

/// Returns the rows of `agents`, and the agent after which the next page begins. Agents without a row make the page
/// shorter than `limit`.
pub(crate) async fn rows_of(
    operator: &Operator,
    agents: Vec<AgentId>,
    limit: i64,
) -> StoreResult<(Vec<QueueRow>, Option<AgentId>)> {
    let is_full = i64::try_from(agents.len()).is_ok_and(|found| found == limit);
    let mut rows = Vec::new();
    for agent in &agents {
        rows.extend(operator.row(agent).await?);
    }
    Ok((rows, agents.into_iter().last().filter(|_| is_full)))
}

/// Shows an agent's row in the queue.
#[utoipa::path(
    get, path = "/v1/queue/{id}", operation_id = "get_queue_row", tag = "updates",
    params(AgentPath),
    responses((status = 200, description = "The row.", body = QueueRow), answers::OfAgent),
)]
pub(super) async fn read(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    uri: Uri,
) -> Result<Json<QueueRow>, Problem> {
    Parameters::read(&uri, &[])?;
    read_row(&app, &agent).await
}

/// Shows the row in the queue of an agent named `pause`.
///
/// This agent needs a route of its own, because `POST` to the same path pauses the queue. Works like `GET
/// /v1/queue/{id}`.
#[utoipa::path(
    get, path = "/v1/queue/pause", operation_id = "get_queue_row_of_pause", tag = "updates",
    responses((status = 200, description = "The row.", body = QueueRow), answers::OfAgent),
)]
pub(super) async fn read_pause(State(app): State<SharedApp>, uri: Uri) -> Result<Json<QueueRow>, Problem> {
    read_namesake(&app, &uri).await
}

/// Shows the row in the queue of an agent named `resume`.
///
/// Works like `GET /v1/queue/{id}`, for the same reason as `GET /v1/queue/pause`.
#[utoipa::path(
    get, path = "/v1/queue/resume", operation_id = "get_queue_row_of_resume", tag = "updates",
    responses((status = 200, description = "The row.", body = QueueRow), answers::OfAgent),
)]
pub(super) async fn read_resume(State(app): State<SharedApp>, uri: Uri) -> Result<Json<QueueRow>, Problem> {
    read_namesake(&app, &uri).await
}

/// Like [`read`], but for the agent that is named like the last part of the path.
async fn read_namesake(app: &SharedApp, uri: &Uri) -> Result<Json<QueueRow>, Problem> {
    Parameters::read(uri, &[])?;
    let (_, name) = uri.path().rsplit_once('/').unwrap_or_default();
    read_row(app, &agent_id(name)?).await
}

async fn read_row(app: &SharedApp, agent: &AgentId) -> Result<Json<QueueRow>, Problem> {
    let row = app.parts.operator.row(agent).await?;
    row.map(Json).ok_or_else(|| not_queued(agent))
}

pub(crate) fn not_queued(agent: &AgentId) -> Problem {
    Problem::new(UNKNOWN_QUEUE_ROW, format!("agent `{agent}` isn't in the queue"))
        .hint("the agent needs no update; POST /v1/agents/{id}/refresh requests one")
}

/// Updates an agent's summary now.
///
/// The update no longer waits for more exchanges, a failed attempt's backoff, or a batch's answer.
#[utoipa::path(
    post, path = "/v1/agents/{id}/refresh", operation_id = "refresh_summary", tag = "updates",
    params(AgentPath),
    request_body(content = EmptyBody, example = json!({})),
    responses((status = 202, description = "The update is queued.", body = QueueRow,
            headers(("location" = String, description = "The URL of the row."))),
        answers::OfAgent, answers::WithBody),
)]
pub(super) async fn refresh(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    request: Request,
) -> Result<Response, Problem> {
    let EmptyBody {} = lineage::read(&app, request, "{}").await?;
    let (operator, requested_agent) = (app.parts.operator.clone(), agent.clone());
    let row = app.see_through(async move { operator.refresh(&requested_agent).await }).await?;
    let location = HeaderValue::try_from(format!("/v1/queue/{agent}"));
    let mut response = (StatusCode::ACCEPTED, Json(row)).into_response();
    if let Ok(location) = location {
        response.headers_mut().insert(LOCATION, location);
    }
    Ok(response)
}

/// Makes a waiting, parked or paused row due now.
///
/// The row gets a new series of attempts. If a worker is working on it, it stays unchanged.
#[utoipa::path(
    post, path = "/v1/queue/{id}/retry", operation_id = "retry_update", tag = "updates",
    params(AgentPath),
    request_body(content = EmptyBody, example = json!({})),
    responses((status = 200, description = "The row after the action.", body = QueueRow),
        answers::OfAgent, answers::WithBody),
)]
pub(super) async fn retry(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    request: Request,
) -> Result<Json<QueueRow>, Problem> {
    act_on_row(&app, agent, request, async |operator, agent| operator.retry(&agent).await).await
}

/// Parks a row, and stops its update if one is in progress.
///
/// Nothing is lost: exchanges stay pending, and digests represent them. A retry makes the row due again; so does the
/// next eviction, if it comes at least ten minutes later.
#[utoipa::path(
    post, path = "/v1/queue/{id}/cancel", operation_id = "cancel_update", tag = "updates",
    params(AgentPath),
    request_body(content = EmptyBody, example = json!({})),
    responses((status = 200, description = "The row after the action.", body = QueueRow),
        answers::OfAgent, answers::WithBody),
)]
pub(super) async fn cancel(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    request: Request,
) -> Result<Json<QueueRow>, Problem> {
    act_on_row(&app, agent, request, async |operator, agent| operator.cancel(&agent).await).await
}

/// Carries out an action on an agent's row, even if the client disconnects. Returns the row as the action left it; a
/// worker may change the row at once.
async fn act_on_row<Act, Done>(
    app: &SharedApp,
    agent: AgentId,
    request: Request,
    act: Act,
) -> Result<Json<QueueRow>, Problem>
where
    Act: FnOnce(Operator, AgentId) -> Done,
    Done: Future<Output = StoreResult<OperatorOutcome>> + Send + 'static,
{
    let EmptyBody {} = lineage::read(app, request, "{}").await?;
    let act = act(app.parts.operator.clone(), agent.clone());
    let handled = app.see_through(act).await?;
    match handled {
        OperatorOutcome::Done(row) | OperatorOutcome::Running(row) => Ok(Json(*row)),
        OperatorOutcome::NoRow => Err(not_queued(&agent)),
    }
}

/// Pauses all updates.
///
/// This affects all daemons on the database, and outlasts restarts. Updates in progress are completed.
#[utoipa::path(
    post, path = "/v1/queue/pause", operation_id = "pause_queue", tag = "updates",
    request_body(content = EmptyBody, example = json!({})),
    responses((status = 200, description = "Updates are paused.", body = Pause), answers::Always, answers::WithBody),
)]
pub(super) async fn pause(State(app): State<SharedApp>, request: Request) -> Result<Json<Pause>, Problem> {
    set_paused(&app, request, true).await
}

/// Resumes updates.
#[utoipa::path(
    post, path = "/v1/queue/resume", operation_id = "resume_queue", tag = "updates",
    request_body(content = EmptyBody, example = json!({})),
    responses((status = 200, description = "Updates are resumed.", body = Pause), answers::Always, answers::WithBody),
)]
pub(super) async fn resume(State(app): State<SharedApp>, request: Request) -> Result<Json<Pause>, Problem> {
    set_paused(&app, request, false).await
}

async fn set_paused(app: &App, request: Request, paused: bool) -> Result<Json<Pause>, Problem> {
    let EmptyBody {} = lineage::read(app, request, "{}").await?;
    let operator = app.parts.operator.clone();
    let paused_since = app.see_through(async move { operator.set_paused(paused).await }).await?;
    Ok(Json(Pause { paused_since }))
}

/// Pauses an agent's updates.
///
/// The pause lasts until the updates are resumed. An update in progress is stopped. Eviction continues, and digests
/// represent evicted exchanges.
#[utoipa::path(
    post, path = "/v1/agents/{id}/pause", operation_id = "pause_agent", tag = "updates",
    params(AgentPath),
    request_body(content = EmptyBody, example = json!({})),
    responses((status = 200, description = "Updates are paused.", body = AgentPause),
        answers::OfAgent, answers::WithBody),
)]
pub(super) async fn pause_agent(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    request: Request,
) -> Result<Json<AgentPause>, Problem> {
    set_agent_paused(&app, agent, request, true).await
}

/// Resumes an agent's updates.
#[utoipa::path(
    post, path = "/v1/agents/{id}/resume", operation_id = "resume_agent", tag = "updates",
    params(AgentPath),
    request_body(content = EmptyBody, example = json!({})),
    responses((status = 200, description = "Updates are resumed.", body = AgentPause),
        answers::OfAgent, answers::WithBody),
)]
pub(super) async fn resume_agent(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    request: Request,
) -> Result<Json<AgentPause>, Problem> {
    set_agent_paused(&app, agent, request, false).await
}

async fn set_agent_paused(
    app: &App,
    agent: AgentId,
    request: Request,
    paused: bool,
) -> Result<Json<AgentPause>, Problem> {
    let EmptyBody {} = lineage::read(app, request, "{}").await?;
    let (operator, requested_agent) = (app.parts.operator.clone(), agent.clone());
    app.see_through(async move { operator.set_agent_paused(&requested_agent, paused).await }).await?;
    Ok(Json(AgentPause { agent_id: agent, paused }))
}
