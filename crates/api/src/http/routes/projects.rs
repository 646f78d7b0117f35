//! Projects: their agents, and the summary they share.

use std::sync::Arc;

use axum::{
    Extension, Json,
    body::Bytes,
    extract::{FromRequestParts, Path, State},
    http::{HeaderMap, Uri, request::Parts},
    response::Response,
};
use serde::Serialize;
use tokio::time::Instant;

use super::agents::known;
use crate::{
    access::Caller,
    http::{
        App, SharedApp,
        edge::{access::CallerExtension, observe},
        openapi::{
            answers,
            parameters::{Paging, ProjectPath},
        },
        request::{extract::Parameters, page},
        response::{
            document::{Document, Form, unavailable},
            problem::{INVALID_AGENT_ID, INVALID_PROJECT_ID, Problem, UNKNOWN_PROJECT},
        },
    },
};
use recapd_core::domain::{
    agent::AgentId,
    cursor::{Cursor, PagedList},
    project::ProjectId,
    time::Timestamp,
};
use recapd_engine::snapshot::{
    Lookup,
    project::{MemberFigures, ProjectSnapshot},
};
use recapd_store::{ProjectFigures, StoreResult};

pub(crate) struct Project(ProjectId);

impl<S: Send + Sync> FromRequestParts<S> for Project {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Path(id) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|rejection| Problem::new(INVALID_PROJECT_ID, rejection.body_text()))?;
        Ok(Self(project_id(&id)?))
    }
}

pub(super) struct Membership(ProjectId, AgentId);

impl<S: Send + Sync> FromRequestParts<S> for Membership {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Path((project, agent)) = Path::<(String, String)>::from_request_parts(parts, state)
            .await
            .map_err(|rejection| Problem::new(INVALID_PROJECT_ID, rejection.body_text()))?;
        let agent = agent.parse::<AgentId>();
        Ok(Self(
            project_id(&project)?,
            agent.map_err(|error| Problem::new(INVALID_AGENT_ID, error.to_string()))?,
        ))
    }
}

pub(crate) fn project_id(text: &str) -> Result<ProjectId, Problem> {
    text.parse::<ProjectId>().map_err(|error| {
        Problem::new(INVALID_PROJECT_ID, error.to_string()).hint("name the project by such an id")
    })
}

pub(crate) fn unknown(project: &ProjectId) -> Problem {
    Problem::new(
        UNKNOWN_PROJECT,
        format!("project `{project}` is unknown: no agent belongs to it"),
    )
    .hint("a project is made by its first agent: PUT /v1/projects/{id}/agents/{agent}")
}

/// A page of projects, ordered by name.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = ProjectPage)]
pub(super) struct ProjectsPage {
    projects: Vec<ProjectRow>,
    /// The cursor of the next page; null on the last.
    next_cursor: Option<Cursor>,
}

#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = ProjectFigures)]
struct ProjectRow {
    project_id: ProjectId,
    agents: i64,
    updated_at: Timestamp,
}

/// Lists projects.
#[utoipa::path(
    get, path = "/v1/projects", operation_id = "list_projects", tag = "projects",
    params(Paging),
    responses((status = 200, description = "A page of projects, ordered by name.", body = ProjectsPage),
        answers::Always),
)]
pub(super) async fn list(
    State(app): State<SharedApp>,
    Extension(caller): CallerExtension,
    uri: Uri,
) -> Result<Json<ProjectsPage>, Problem> {
    let parameters = Parameters::read(&uri, &["limit", "cursor"])?;
    let limit = page::limit(&parameters)?;
    let after = page::cursor(&parameters, PagedList::Projects)?;
    let found = figures(&app, &caller, after.as_ref(), limit + 1).await?;
    let (found, last) = page::cut(found, limit, |figures| figures.project.clone());
    let projects = found.into_iter().map(|figures| ProjectRow {
        project_id: figures.project,
        agents: figures.agents,
        updated_at: figures.updated_at,
    });
    Ok(Json(ProjectsPage {
        projects: projects.collect(),
        next_cursor: page::next(PagedList::Projects, last),
    }))
}

/// Reads the projects that `caller` may see, ordered by name, after `after`.
async fn figures(
    app: &App,
    caller: &Caller,
    after: Option<&ProjectId>,
    limit: i64,
) -> StoreResult<Vec<ProjectFigures>> {
    let store = &app.parts.store;
    let Some(seen) = app.parts.access.seen_projects(caller) else {
        return store.projects(after, limit).await;
    };
    let mut found = Vec::new();
    for project in seen.iter().filter(|project| Some(*project) > after) {
        if i64::try_from(found.len()).is_ok_and(|found| limit <= found) {
            break;
        }
        if let Some(stamp) = store.project_stamp(project).await? {
            found.push(ProjectFigures {
                project: project.clone(),
                agents: stamp.agents,
                updated_at: stamp.updated_at,
            });
        }
    }
    Ok(found)
}

/// The project of an agent.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Membership)]
pub(super) struct Belongs {
    agent_id: AgentId,
    project_id: Option<ProjectId>,
}

/// Moves an agent to the project, from any project that it was in.
#[utoipa::path(
    put, path = "/v1/projects/{id}/agents/{agent}", operation_id = "join_project", tag = "projects",
    params(ProjectPath,
        ("agent" = AgentId, Path, description = "The agent.")),
    responses((status = 200, description = "The agent's project.", body = Belongs),
        answers::Always,
        answers::OfAgent),
)]
pub(super) async fn join(
    State(app): State<SharedApp>,
    Membership(project, agent): Membership,
    uri: Uri,
) -> Result<Json<Belongs>, Problem> {
    Parameters::read(&uri, &[])?;
    let (ingestor, joining) = (app.parts.ingestor.clone(), (agent.clone(), project.clone()));
    app.see_through(async move { ingestor.set_project(&joining.0, Some(&joining.1)).await })
        .await?;
    Ok(Json(Belongs {
        agent_id: agent,
        project_id: Some(project),
    }))
}

/// Removes an agent from the project.
#[utoipa::path(
    delete, path = "/v1/projects/{id}/agents/{agent}", operation_id = "leave_project", tag = "projects",
    params(ProjectPath,
        ("agent" = AgentId, Path, description = "The agent.")),
    responses((status = 200, description = "The agent's project.", body = Belongs),
        answers::Always,
        answers::OfAgent),
)]
pub(super) async fn leave(
    State(app): State<SharedApp>,
    Membership(project, agent): Membership,
    uri: Uri,
) -> Result<Json<Belongs>, Problem> {
    Parameters::read(&uri, &[])?;
    let row = known(&app, &agent).await?;
    if row.project.as_deref() != Some(project.as_str()) {
        let detail = format!("agent `{agent}` doesn't belong to project `{project}`; nothing was changed");
        return Err(
            Problem::new(UNKNOWN_PROJECT, detail).hint("GET /v1/agents/{id} tells what an agent belongs to")
        );
    }
    let (ingestor, leaving) = (app.parts.ingestor.clone(), agent.clone());
    app.see_through(async move { ingestor.set_project(&leaving, None).await })
        .await?;
    Ok(Json(Belongs {
        agent_id: agent,
        project_id: None,
    }))
}

/// A project's summary as JSON.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = ProjectSummary)]
struct ProjectSummaryView<'a> {
    project_id: &'a ProjectId,
    content: &'a str,
    tokens: i64,
    updated_at: Timestamp,
    agents: i64,
    members: &'a [MemberFigures],
    stale_since: Option<Timestamp>,
}

/// The bytes of a document, shared with its snapshot.
struct Markdown(Arc<ProjectSnapshot>);

impl AsRef<[u8]> for Markdown {
    fn as_ref(&self) -> &[u8] {
        self.0.markdown.as_bytes()
    }
}

/// Reads the summary that the agents of a project share.
#[utoipa::path(
    get, path = "/v1/projects/{id}/summary", operation_id = "get_project_summary", tag = "projects",
    params(ProjectPath,
        ("if-none-match" = Option<String>, Header, description = "The `etag` of the copy that the client has.")),
    responses((status = 200, description = "The document.", content((ProjectSummaryView<'static> = "application/json"), (String = "text/markdown")), headers(("etag" = String, description = "Changes whenever the document does."), ("recapd-stale" = String, description = "While the database is away or slow: the age of this copy, such as `41s`."))),
        (status = 304, description = "The client's copy is current."),
        (status = 503, description = "There is no copy, and the database doesn't answer within two seconds.", content((crate::http::response::problem::Wire<'static> = "application/problem+json"), (String = "text/markdown"))),
        answers::Faults,
        answers::OfAgent),
)]
pub(super) async fn summary(
    State(app): State<SharedApp>,
    Project(project): Project,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let began = Instant::now();
    Parameters::read(&uri, &[])?;
    let form = Form::wanted(&headers);
    let (result, answer) = match app.parts.projects.get(&project).await {
        Ok(None) => return Err(unknown(&project)),
        Ok(Some(reading)) => document(&project, &reading).answer(form, &headers, app.parts.clock.now()),
        Err(error) => unavailable(error, form),
    };
    observe::observe_read(&app.parts.metrics, result, Some(began.elapsed()));
    Ok(answer)
}

fn document<'a>(
    project: &'a ProjectId,
    reading: &'a Lookup<ProjectSnapshot>,
) -> Document<ProjectSummaryView<'a>> {
    let snapshot = &reading.snapshot;
    Document {
        etag: snapshot.etag.clone(),
        bytes: Bytes::from_owner(Markdown(Arc::clone(snapshot))),
        json: ProjectSummaryView {
            project_id: project,
            content: &snapshot.markdown,
            tokens: snapshot.tokens,
            updated_at: snapshot.updated_at,
            agents: snapshot.agents,
            members: &snapshot.members,
            stale_since: reading.stale_since,
        },
        stale_since: reading.stale_since,
        headers: HeaderMap::new(),
    }
}
