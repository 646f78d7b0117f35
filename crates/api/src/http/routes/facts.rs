//! `/v1/agents/{id}/facts`: lists and corrects an agent's facts.

use axum::{
    Json,
    extract::{Request, State},
    http::{StatusCode, Uri},
};
use serde::Serialize;
use serde_json::Value;

use super::agents::existing_agent;
use crate::http::{
    SharedApp,
    openapi::{
        answers,
        parameters::{AgentPath, Paging},
        values::{FactBody, FactEditBody, Switch},
    },
    request::{
        body,
        extract::{Agent, AgentNumber, Parameters, suggestion},
        page,
    },
    response::problem::{Finding, INVALID_BODY, INVALID_FACT, Problem, RequestPlace},
};
use recapd_core::domain::{
    cursor::{Cursor, PagedList},
    summary::fact::edit::{FIELDS, FactEdit, FactEditError, NEW_FIELDS, NewFact},
};
use recapd_engine::ingest::{FactEditedReply, FactReply};
use recapd_store::FactQuery;

const EXAMPLE: &str = r#"send an object such as {"kind": "demand", "text": "use pnpm, not npm"}"#;
const EDIT_EXAMPLE: &str = r#"send an object such as {"text": "use bun"} or {"closed": true}"#;

/// A page of facts, ordered by number.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = FactPage)]
pub(super) struct FactsPage {
    facts: Vec<FactReply>,
    /// The cursor of the next page; null on the last.
    next_cursor: Option<Cursor>,
}

/// Lists the facts that hold; with `all`, also facts that no longer hold.
#[utoipa::path(
    get, path = "/v1/agents/{id}/facts", operation_id = "list_facts", tag = "summary",
    params(AgentPath,
        Paging,
        ("all" = Option<Switch>, Query, description = "Also facts that no longer hold.")),
    responses((status = 200, description = "Facts, ordered by number.", body = FactsPage),
        answers::OfAgent),
)]
pub(super) async fn list(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    uri: Uri,
) -> Result<Json<FactsPage>, Problem> {
    let parameters = Parameters::read(&uri, &["limit", "cursor", "all"])?;
    let (limit, list) = (page::limit(&parameters)?, PagedList::Facts(&agent));
    let query = FactQuery {
        after: page::cursor(&parameters, list)?.unwrap_or(0),
        limit: limit + 1,
        all: parameters.flag("all")?,
    };
    existing_agent(&app, &agent).await?;
    let found = app.parts.store.facts(&agent, query).await?;
    let (facts, entry) = page::cut(found, limit, |row| row.fact.fact);
    Ok(Json(FactsPage {
        facts: facts.into_iter().map(Into::into).collect(),
        next_cursor: page::next(list, entry),
    }))
}

/// Adds a fact.
#[utoipa::path(
    post, path = "/v1/agents/{id}/facts", operation_id = "add_fact", tag = "summary",
    params(AgentPath),
    request_body(content = FactBody, example = json!({"kind": "demand", "text": "use pnpm, not npm"})),
    responses((status = 201, description = "The fact.", body = FactEditedReply),
        answers::OfAgent, answers::Conflicting, answers::WithBody),
)]
pub(super) async fn add(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    request: Request,
) -> Result<(StatusCode, Json<FactEditedReply>), Problem> {
    let fact = read(&app, request, EXAMPLE).await?;
    let fact = NewFact::parse(&fact).map_err(|error| refusal(&error, EXAMPLE, &NEW_FIELDS))?;
    let ingestor = app.parts.ingestor.clone();
    let added = app.see_through(async move { ingestor.add_fact(&agent, fact).await });
    Ok((StatusCode::CREATED, Json(added.await?)))
}

/// Changes a fact that holds: its text, its pin, or closes it.
#[utoipa::path(
    patch, path = "/v1/agents/{id}/facts/{fact}", operation_id = "change_fact", tag = "summary",
    params(AgentPath,
        ("fact" = i64, Path, description = "The fact's number.", minimum = 1)),
    request_body(content = FactEditBody, example = json!({"text": "use bun"})),
    responses((status = 200, description = "The changed fact.", body = FactEditedReply),
        answers::OfAgent, answers::Conflicting, answers::WithBody),
)]
pub(super) async fn change(
    State(app): State<SharedApp>,
    AgentNumber(agent, fact): AgentNumber,
    request: Request,
) -> Result<Json<FactEditedReply>, Problem> {
    let change = read(&app, request, EDIT_EXAMPLE).await?;
    let edit = FactEdit::parse(&change).map_err(|error| refusal(&error, EDIT_EXAMPLE, &FIELDS))?;
    let ingestor = app.parts.ingestor.clone();
    let edited = app.see_through(async move { ingestor.edit_fact(&agent, fact, edit).await }).await?;
    Ok(Json(edited))
}

async fn read(app: &SharedApp, request: Request, example: &str) -> Result<Value, Problem> {
    Parameters::read(request.uri(), &[])?;
    let body = body::read_short(app, request).await?;
    serde_json::from_slice(&body.bytes)
        .map_err(|error| Problem::new(INVALID_BODY, format!("the body isn't JSON: {error}")).hint(example))
}

fn refusal(error: &FactEditError, example: &'static str, fields: &[&'static str]) -> Problem {
    let problem = Problem::new(INVALID_FACT, error.to_string());
    let (name, hint) = match error {
        FactEditError::Nothing => return problem.hint(example),
        FactEditError::Unknown(name) => (name.as_str(), suggestion(name, "fields", fields)),
        FactEditError::Invalid { name, expected } => (*name, format!("send {expected}")),
    };
    problem.hint(hint.clone()).findings(vec![Finding { place: RequestPlace::member(name), detail: hint }])
}
