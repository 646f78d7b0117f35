//! `GET /v1/agents/{id}/summary/versions` and `/{version}`, `POST /v1/agents/{id}/rollback` and `rebuild`.

use axum::{
    Json,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Uri, header::VARY},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};

use super::{
    agents::existing_agent,
    lineage::{self, EmptyBody},
};
use crate::http::{
    SharedApp,
    openapi::{
        answers,
        parameters::{AgentPath, Paging},
    },
    request::{
        extract::{Agent, AgentNumber, Parameters},
        page,
    },
    response::{negotiate::preferred, problem::Problem},
};
use recapd_core::domain::{
    agent::AgentId,
    cursor::{Cursor, PagedList},
};
use recapd_engine::ingest::RevisedReply;
use recapd_store::{Store, StoreError, StoreResult, Version, VersionFigures, VersionQuery};

const JSON: &str = "application/json";
const MARKDOWN: &str = "text/markdown";

/// A page of versions, newest first.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = VersionPage)]
pub(super) struct VersionsPage {
    versions: Vec<VersionFigures>,
    /// The cursor of the next page; null on the last.
    next_cursor: Option<Cursor>,
}

/// A version with its text.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Version)]
struct VersionView {
    #[serde(flatten)]
    figures: VersionFigures,
    content: String,
}

/// The body of a request to roll back.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RollbackBody)]
struct RollbackRequest {
    version: i64,
}

/// Lists the versions of the summary that are stored.
#[utoipa::path(
    get, path = "/v1/agents/{id}/summary/versions", operation_id = "list_versions", tag = "summary",
    params(AgentPath,
        Paging),
    responses((status = 200, description = "The stored versions, newest first.", body = VersionsPage),
        answers::OfAgent),
)]
pub(super) async fn list(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    uri: Uri,
) -> Result<Json<VersionsPage>, Problem> {
    let parameters = Parameters::read(&uri, &["limit", "cursor"])?;
    let (limit, list) = (page::limit(&parameters)?, PagedList::Versions(&agent));
    let before = page::cursor(&parameters, list)?;
    existing_agent(&app, &agent).await?;
    let query = VersionQuery { before, limit: limit + 1 };
    let found = app.parts.store.versions(&agent, query).await?;
    let (versions, entry) = page::cut(found, limit, |figures| figures.version);
    Ok(Json(VersionsPage { versions, next_cursor: page::next(list, entry) }))
}

/// Reads one version: its document, or only its figures if the text has been purged.
#[utoipa::path(
    get, path = "/v1/agents/{id}/summary/versions/{version}", operation_id = "get_version", tag = "summary",
    params(AgentPath,
        ("version" = i64, Path, description = "The version.", minimum = 1)),
    responses((status = 200, description = "The version.", content((VersionView = "application/json"), (String = "text/markdown"))),
        answers::OfAgent),
)]
pub(super) async fn read(
    State(app): State<SharedApp>,
    AgentNumber(agent, number): AgentNumber,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    Parameters::read(&uri, &[])?;
    existing_agent(&app, &agent).await?;
    let Version { figures, content } = existing_version(app.parts.store.as_ref(), &agent, number).await?;
    let vary = [(VARY, HeaderValue::from_static("accept"))];
    Ok(if preferred(&headers, &[JSON, MARKDOWN]) == MARKDOWN {
        let kind = [("content-type", "text/markdown; charset=utf-8")];
        (vary, kind, content).into_response()
    } else {
        (vary, Json(VersionView { figures, content })).into_response()
    })
}

/// Rolls back to a version: it becomes the newest one again.
#[utoipa::path(
    post, path = "/v1/agents/{id}/rollback", operation_id = "roll_back", tag = "summary",
    params(AgentPath),
    request_body(content = RollbackRequest, example = json!({"version": 12})),
    responses((status = 200, description = "The result.", body = RevisedReply),
        answers::OfAgent, answers::WithBody),
)]
pub(super) async fn roll_back(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    request: Request,
) -> Result<Json<RevisedReply>, Problem> {
    let RollbackRequest { version } = lineage::read(&app, request, r#"{"version": 12}"#).await?;
    let ingestor = app.parts.ingestor.clone();
    let done = app.see_through(async move { ingestor.roll_back(&agent, version).await });
    Ok(Json(done.await?))
}

/// Summarises everything again.
#[utoipa::path(
    post, path = "/v1/agents/{id}/rebuild", operation_id = "rebuild", tag = "summary",
    params(AgentPath),
    request_body(content = EmptyBody, example = json!({})),
    responses((status = 200, description = "The result.", body = RevisedReply),
        answers::OfAgent, answers::WithBody),
)]
pub(super) async fn rebuild(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    request: Request,
) -> Result<Json<RevisedReply>, Problem> {
    let EmptyBody {} = lineage::read(&app, request, "{}").await?;
    let ingestor = app.parts.ingestor.clone();
    let done = app.see_through(async move { ingestor.rebuild(&agent).await });
    Ok(Json(done.await?))
}

/// Reads a version. If it doesn't exist, the error names the oldest and the newest of the last [`page::LIMIT_MAX`] stored
/// versions.
pub(crate) async fn existing_version(
    store: &dyn Store,
    agent: &AgentId,
    version: i64,
) -> StoreResult<Version> {
    if let Some(found) = store.version(agent, version).await? {
        return Ok(found);
    }
    let query = VersionQuery { before: None, limit: page::LIMIT_MAX };
    let versions = store.versions(agent, query).await?;
    let ends = versions.last().zip(versions.first());
    let range = ends.map(|(oldest, newest)| (oldest.version, newest.version));
    Err(StoreError::UnknownVersion { version, kept: range })
}
