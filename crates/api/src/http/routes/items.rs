//! `GET /v1/agents/{id}/items` and `PATCH /v1/agents/{id}/items/{item}`: lists and corrects the items of the document.

use axum::{
    Json,
    extract::{Request, State},
    http::Uri,
};
use serde::Serialize;
use serde_json::Value;

use super::agents::existing_agent;
use crate::http::{
    SharedApp,
    openapi::{
        answers,
        parameters::{AgentPath, Paging},
        values::{EditBody, Switch},
    },
    request::{
        body,
        extract::{Agent, AgentNumber, Parameters, suggestion},
        page,
    },
    response::problem::{Finding, INVALID_BODY, INVALID_EDIT, Problem, RequestPlace},
};
use recapd_core::domain::{
    cursor::{Cursor, PagedList},
    summary::edit::{EditError, FIELDS, ItemEdit},
};
use recapd_engine::ingest::{EditedReply, ItemReply, listed};
use recapd_store::ItemQuery;

const EXAMPLE: &str = r#"send an object such as {"text": "Chose RS256 for the tokens", "pinned": true}"#;

/// A page of items, ordered by number.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = ItemPage)]
pub(super) struct ItemsPage {
    items: Vec<ItemReply>,
    /// The cursor of the next page; null on the last.
    next_cursor: Option<Cursor>,
}

/// Lists the items of the document; with `all`, also items that are no longer in it.
#[utoipa::path(
    get, path = "/v1/agents/{id}/items", operation_id = "list_items", tag = "summary",
    params(AgentPath,
        Paging,
        ("all" = Option<Switch>, Query, description = "Also items that are no longer in the document.")),
    responses((status = 200, description = "Items, ordered by number.", body = ItemsPage),
        answers::OfAgent),
)]
pub(super) async fn list(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    uri: Uri,
) -> Result<Json<ItemsPage>, Problem> {
    let parameters = Parameters::read(&uri, &["limit", "cursor", "all"])?;
    let (limit, list) = (page::limit(&parameters)?, PagedList::Items(&agent));
    let query = ItemQuery {
        after: page::cursor(&parameters, list)?.unwrap_or(0),
        limit: limit + 1,
        all: parameters.flag("all")?,
    };
    existing_agent(&app, &agent).await?;
    let found = app.parts.store.items(&agent, query).await?;
    let (items, entry) = page::cut(found, limit, |item| item.item.item);
    Ok(Json(ItemsPage {
        items: listed(app.parts.store.as_ref(), &agent, items).await?,
        next_cursor: page::next(list, entry),
    }))
}

/// Changes an item.
#[utoipa::path(
    patch, path = "/v1/agents/{id}/items/{item}", operation_id = "change_item", tag = "summary",
    params(AgentPath,
        ("item" = i64, Path, description = "The item's number.", minimum = 1)),
    request_body(content = EditBody, example = json!({"text": "Chose RS256 for the tokens", "pinned": true})),
    responses((status = 200, description = "The changed item.", body = EditedReply),
        answers::OfAgent, answers::Conflicting, answers::WithBody),
)]
pub(super) async fn change(
    State(app): State<SharedApp>,
    AgentNumber(agent, item): AgentNumber,
    request: Request,
) -> Result<Json<EditedReply>, Problem> {
    Parameters::read(request.uri(), &[])?;
    let body = body::read_short(&app, request).await?;
    let change: Value = serde_json::from_slice(&body.bytes)
        .map_err(|error| Problem::new(INVALID_BODY, format!("the body isn't JSON: {error}")).hint(EXAMPLE))?;
    let edit = ItemEdit::parse(&change).map_err(|error| refusal(&error))?;
    let ingestor = app.parts.ingestor.clone();
    let edited = app.see_through(async move { ingestor.edit_item(&agent, item, edit).await }).await?;
    Ok(Json(edited))
}

fn refusal(error: &EditError) -> Problem {
    let problem = Problem::new(INVALID_EDIT, error.to_string());
    let (name, hint) = match error {
        EditError::Nothing => return problem.hint(EXAMPLE),
        EditError::Unknown(name) => (name.as_str(), suggestion(name, "fields", &FIELDS)),
        EditError::Invalid { name, expected } => (*name, format!("send {expected}")),
    };
    problem.hint(hint.clone()).findings(vec![Finding { place: RequestPlace::member(name), detail: hint }])
}
