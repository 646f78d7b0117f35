//! `POST /v1/agents/{id}/clear`, `mark`, `rewind` and `fork`. A client can also append a clear, a mark or a rewind as a
//! message, but only these routes answer with a clear error if the step is impossible.

use axum::{
    Extension, Json,
    extract::{Request, State},
    http::StatusCode,
};
use serde::{Deserialize, de::DeserializeOwned};

use crate::http::{
    App, SharedApp,
    edge::access::{self, CallerExtension},
    openapi::{answers, parameters::AgentPath},
    request::{
        body,
        extract::{Agent, Parameters},
        members,
    },
    response::problem::{INVALID_BODY, Problem},
};
use recapd_core::domain::{agent::AgentId, lineage::Step};
use recapd_engine::ingest::{ForkReply, StepReply};

/// The body of a request without parameters.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = EmptyBody)]
pub(super) struct EmptyBody {}

/// The body of a request to set a mark.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = MarkBody)]
struct MarkRequest {
    label: Option<String>,
}

/// The body of a request to rewind.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RewindBody)]
struct RewindRequest {
    to: Option<String>,
}

/// The body of a request to fork.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ForkBody)]
struct ForkRequest {
    child: AgentId,
}

/// Closes the session and empties the window.
#[utoipa::path(
    post, path = "/v1/agents/{id}/clear", operation_id = "clear", tag = "lineage",
    params(AgentPath),
    request_body(content = EmptyBody, example = json!({})),
    responses((status = 200, description = "The result.", body = StepReply),
        answers::OfAgent, answers::Conflicting, answers::WithBody),
)]
pub(super) async fn clear(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    request: Request,
) -> Result<Json<StepReply>, Problem> {
    let EmptyBody {} = read(&app, request, "{}").await?;
    take_step(&app, agent, Step::Clear).await
}

/// Sets a mark.
#[utoipa::path(
    post, path = "/v1/agents/{id}/mark", operation_id = "mark", tag = "lineage",
    params(AgentPath),
    request_body(content = MarkRequest, example = json!({"label": "before the refactoring"})),
    responses((status = 200, description = "The result.", body = StepReply),
        answers::OfAgent, answers::Conflicting, answers::WithBody),
)]
pub(super) async fn mark(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    request: Request,
) -> Result<Json<StepReply>, Problem> {
    let MarkRequest { label } = read(&app, request, r#"{"label": "before the refactoring"}"#).await?;
    take_step(&app, agent, Step::Mark(label)).await
}

/// Rewinds to a mark.
#[utoipa::path(
    post, path = "/v1/agents/{id}/rewind", operation_id = "rewind", tag = "lineage",
    params(AgentPath),
    request_body(content = RewindRequest, example = json!({"to": "before the refactoring"})),
    responses((status = 200, description = "The result.", body = StepReply),
        answers::OfAgent, answers::Conflicting, answers::WithBody),
)]
pub(super) async fn rewind(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    request: Request,
) -> Result<Json<StepReply>, Problem> {
    let RewindRequest { to } = read(&app, request, r#"{"to": "before the refactoring"}"#).await?;
    take_step(&app, agent, Step::Rewind(to)).await
}

/// Creates an agent that has this agent's history so far.
#[utoipa::path(
    post, path = "/v1/agents/{id}/fork", operation_id = "fork", tag = "lineage",
    params(AgentPath),
    request_body(content = ForkRequest, example = json!({"child": "a-new-agent"})),
    responses((status = 201, description = "The new agent.", body = ForkReply),
        answers::OfAgent, answers::Conflicting, answers::WithBody),
)]
pub(super) async fn fork(
    State(app): State<SharedApp>,
    Extension(caller): CallerExtension,
    Agent(parent): Agent,
    request: Request,
) -> Result<(StatusCode, Json<ForkReply>), Problem> {
    let ForkRequest { child } = read(&app, request, r#"{"child": "a-new-agent"}"#).await?;
    access::check_may_make(&caller, &child)?;
    let ingestor = app.parts.ingestor.clone();
    let (from, to) = (parent.clone(), child.clone());
    let forked = app.see_through(async move { ingestor.fork(&from, &to).await }).await?;
    Ok((StatusCode::CREATED, Json(ForkReply::new(parent, child, forked))))
}

/// Reads the body of `request`. An empty body counts as `{}`. If the body is invalid, the problem names `example`.
pub(super) async fn read<T: DeserializeOwned>(
    app: &App,
    request: Request,
    example: &str,
) -> Result<T, Problem> {
    Parameters::read(request.uri(), &[])?;
    let body = body::read_short(app, request).await?;
    let text: &[u8] = if body.bytes.is_empty() { b"{}" } else { &body.bytes };
    let invalid = |detail: String| Problem::new(INVALID_BODY, detail).hint(format!("send `{example}`"));
    // Serde would also read an array, with the members in an order that no client knows.
    if !text.trim_ascii_start().starts_with(b"{") {
        return Err(invalid("the body isn't a JSON object".to_owned()));
    }
    serde_json::from_slice(text).map_err(|error| members::with_unknown::<T>(invalid(error.to_string()), text))
}

async fn take_step(app: &SharedApp, agent: AgentId, step: Step) -> Result<Json<StepReply>, Problem> {
    let ingestor = app.parts.ingestor.clone();
    let outcome = app.see_through(async move { ingestor.step(&agent, &step).await }).await?;
    Ok(Json(outcome.into()))
}
