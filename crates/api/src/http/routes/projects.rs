//! Projects: their agents, and the summary they share.

use std::sync::Arc;

use axum::{
    Extension, Json,
    body::Bytes,
    extract::{FromRequestParts, Path, State},
    http::{HeaderMap, HeaderName, Uri, request::Parts},
    response::Response,
};
use serde::Serialize;
use tokio::time::Instant;

use super::agents::existing_agent;
use crate::{
    access::Caller,
    http::{
        App, SharedApp,
        edge::{access::CallerExtension, observe},
        openapi::{
            answers,
            parameters::{Paging, ProjectPath},
            values::View,
        },
        request::{
            extract::{Parameters, agent_id, invalid, project_id},
            page,
        },
        response::{
            document::{Document, Form, unavailable},
            excerpt,
            problem::{INVALID_AGENT_ID, INVALID_PROJECT_ID, Problem, UNKNOWN_PROJECT},
        },
    },
};
use recapd_core::domain::{
    agent::AgentId,
    cursor::{Cursor, PagedList},
    exchange::Exchange,
    project::ProjectId,
    summary::{
        brief::{BriefOptions, Excerpt},
        project_brief::{AT_WORK_MS, AgentState, ProjectBrief, at_work},
    },
    time::Timestamp,
};
use recapd_engine::snapshot::{
    Lookup,
    project::{MemberFigures, ProjectSnapshot},
};
use recapd_platform::threads;
use recapd_store::{ProjectFigures, StoreResult};

/// Limits how many agents a brief shows.
const STATES_MAX: usize = 8;
const VERSION: HeaderName = HeaderName::from_static("recapd-version");

/// The path's project.
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

/// The project and the agent in a path.
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
    let found = visible_projects(&app, &caller, after.as_ref(), limit + 1).await?;
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

/// Reads the projects after `after` that `caller` may see, ordered by name.
async fn visible_projects(
    app: &App,
    caller: &Caller,
    after: Option<&ProjectId>,
    limit: i64,
) -> StoreResult<Vec<ProjectFigures>> {
    let store = &app.parts.store;
    let Some(visible) = app.parts.access.visible_projects(caller) else {
        return store.projects(after, limit).await;
    };
    let mut found = Vec::new();
    for project in visible.iter().filter(|project| Some(*project) > after) {
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
pub(super) struct MembershipReply {
    agent_id: AgentId,
    project_id: Option<ProjectId>,
}

/// Moves an agent into the project, out of any other project.
#[utoipa::path(
    put, path = "/v1/projects/{id}/agents/{agent}", operation_id = "join_project", tag = "projects",
    params(ProjectPath,
        ("agent" = AgentId, Path, description = "The agent.")),
    responses((status = 200, description = "The agent's project.", body = MembershipReply),
        answers::OfAgent),
)]
pub(super) async fn join(
    State(app): State<SharedApp>,
    Membership(project, agent): Membership,
    uri: Uri,
) -> Result<Json<MembershipReply>, Problem> {
    Parameters::read(&uri, &[])?;
    let (ingestor, joining) = (app.parts.ingestor.clone(), (agent.clone(), project.clone()));
    app.see_through(async move { ingestor.set_project(&joining.0, Some(&joining.1)).await }).await?;
    Ok(Json(MembershipReply { agent_id: agent, project_id: Some(project) }))
}

/// Removes an agent from the project.
#[utoipa::path(
    delete, path = "/v1/projects/{id}/agents/{agent}", operation_id = "leave_project", tag = "projects",
    params(ProjectPath,
        ("agent" = AgentId, Path, description = "The agent.")),
    responses((status = 200, description = "The agent's project.", body = MembershipReply),
        answers::OfAgent),
)]
pub(super) async fn leave(
    State(app): State<SharedApp>,
    Membership(project, agent): Membership,
    uri: Uri,
) -> Result<Json<MembershipReply>, Problem> {
    Parameters::read(&uri, &[])?;
    let row = existing_agent(&app, &agent).await?;
    if row.project.as_deref() != Some(project.as_str()) {
        let detail = format!("agent `{agent}` doesn't belong to project `{project}`; nothing was changed");
        return Err(
            Problem::new(UNKNOWN_PROJECT, detail).hint("GET /v1/agents/{id} names an agent's project")
        );
    }
    let (ingestor, leaving) = (app.parts.ingestor.clone(), agent.clone());
    app.see_through(async move { ingestor.set_project(&leaving, None).await }).await?;
    Ok(Json(MembershipReply { agent_id: agent, project_id: None }))
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
        ("view" = Option<View>, Query, description = "`brief`: the sessions at work, the facts that hold, and the newest lines; at most 9,000 characters and 2,300 tokens."),
        ("max_tokens" = Option<i64>, Query, minimum = 1, maximum = 1_000_000, description = "With `view=brief`: at most this many tokens."),
        ("max_chars" = Option<i64>, Query, minimum = 1, maximum = 10_000_000, description = "With `view=brief`: at most this many characters."),
        ("reader" = Option<AgentId>, Query, description = "With `view=brief`: the agent that reads it. The brief doesn't list this agent as at work."),
        ("without" = Option<AgentId>, Query, description = "With `view=brief`: leaves out this agent's lines."),
        ("if-none-match" = Option<String>, Header, description = "The `etag` of the copy that the client has.")),
    responses((status = 200, description = "The document.", content((ProjectSummaryView<'static> = "application/json"), (String = "text/markdown")), headers(("etag" = String, description = "Changes whenever the document changes. What a brief adds to the document doesn't change it."), ("recapd-version" = i64, description = "The sum of the agents' versions."), ("recapd-stale" = String, description = "While the database is unavailable or slow: the age of this copy, such as `41s`."))),
        (status = 304, description = "The client's copy is current."),
        (status = 503, description = "There is no copy, and the database doesn't answer within two seconds.", content((crate::http::response::problem::Wire<'static> = "application/problem+json"), (String = "text/markdown"))),
        answers::OfAgentInOutage),
)]
pub(super) async fn summary(
    State(app): State<SharedApp>,
    Project(project): Project,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let began = Instant::now();
    let query = BriefQuery::read(&uri)?;
    let form = Form::preferred_by(&headers);
    let (result, answer) = match app.parts.projects.get(&project).await {
        Ok(None) => return Err(Problem::unknown_project(&project)),
        Ok(Some(reading)) => {
            let excerpt = match query {
                Some(query) => Some(query.excerpt(&app, &project, &reading.snapshot).await?),
                None => None,
            };
            document(&project, &reading, excerpt.as_ref()).answer(form, &headers, app.parts.clock.now())
        }
        Err(error) => unavailable(error, form),
    };
    observe::observe_read(&app.parts.metrics, result, Some(began.elapsed()));
    Ok(answer)
}

fn document<'a>(
    project: &'a ProjectId,
    reading: &'a Lookup<ProjectSnapshot>,
    excerpt: Option<&'a Excerpt>,
) -> Document<ProjectSummaryView<'a>> {
    let snapshot = &reading.snapshot;
    let version: i64 = snapshot.members.iter().map(|member| member.version).sum();
    Document {
        etag: snapshot.etag.clone(),
        bytes: match excerpt {
            Some(excerpt) => Bytes::copy_from_slice(excerpt.text.as_bytes()),
            None => Bytes::from_owner(Markdown(Arc::clone(snapshot))),
        },
        json: ProjectSummaryView {
            project_id: project,
            content: excerpt.map_or(&snapshot.markdown, |excerpt| &excerpt.text),
            tokens: excerpt.map_or(snapshot.tokens, |excerpt| excerpt.tokens),
            updated_at: snapshot.updated_at,
            agents: snapshot.agents,
            members: &snapshot.members,
            stale_since: reading.stale_since,
        },
        stale_since: reading.stale_since,
        headers: HeaderMap::from_iter([(VERSION, version.into())]),
    }
}

/// A request for a project's brief.
struct BriefQuery {
    options: BriefOptions,
    reader: Option<AgentId>,
    without: Option<AgentId>,
}

impl BriefQuery {
    /// Reads the query; `None` if it asks for the whole document.
    fn read(uri: &Uri) -> Result<Option<Self>, Problem> {
        let names = [excerpt::VIEW, excerpt::MAX_TOKENS, excerpt::MAX_CHARS, "reader", "without"];
        let parameters = Parameters::read(uri, &names)?;
        let agent = |name| parameters.text(name).map(agent_id).transpose();
        let (reader, without) = (agent("reader")?, agent("without")?);
        let options = excerpt::read_options(&parameters)?.filter(|options| options.is_brief());
        if options.is_none()
            && names.iter().any(|name| *name != excerpt::VIEW && parameters.text(name).is_some())
        {
            return Err(invalid(excerpt::VIEW, "is missing", "send view=brief for a shorter document"));
        }
        Ok(options.map(|options| Self { options, reader, without }))
    }

    async fn excerpt(
        self,
        app: &SharedApp,
        project: &ProjectId,
        snapshot: &ProjectSnapshot,
    ) -> Result<Excerpt, Problem> {
        let mut recent: Vec<&MemberFigures> = snapshot.members.iter().collect();
        recent.sort_by_key(|member| std::cmp::Reverse(member.updated_at));
        recent.truncate(STATES_MAX);
        let (mut states, mut working) = (Vec::new(), Vec::new());
        for member in recent {
            let agent = &member.agent_id;
            if let Some(reading) = app.parts.snapshots.get(agent).await? {
                let document = reading.snapshot.markdown.clone();
                states.push(AgentState { agent: agent.clone(), document });
            }
            working.extend(self.at_work(app, member).await?);
        }
        let brief = ProjectBrief {
            project: project.clone(),
            document: snapshot.markdown.clone(),
            states,
            at_work: working,
            // The agent whose own lines the brief leaves out.
            reader: self.without,
        };
        let (counter, options) = (Arc::clone(app.parts.snapshots.counter()), self.options);
        let cut = move || brief.excerpt(options, counter.as_ref());
        Ok(threads::computed("cutting an excerpt", cut).await?)
    }

    /// Returns the line about an agent that is at work: one that has changed lately, has an exchange, and isn't the reader.
    async fn at_work(&self, app: &SharedApp, member: &MemberFigures) -> StoreResult<Option<String>> {
        let agent = &member.agent_id;
        let now = app.parts.clock.now();
        if self.reader.as_ref() == Some(agent) || now.since_ms(member.updated_at) > AT_WORK_MS {
            return Ok(None);
        }
        let Some(row) = app.parts.store.agent(agent).await? else {
            return Ok(None);
        };
        let newest = row.ledger.newest.as_ref();
        let redacted = newest.map(|newest| Exchange {
            headline: newest.headline.clone().redacted(app.parts.snapshots.redactor()),
            ..newest.clone()
        });
        Ok(redacted.map(|newest| at_work(agent, &newest, newest.opened_at)))
    }
}
