//! `GET /v1/agents/{id}/window`: what the model sees verbatim.

use axum::{Json, extract::State, http::Uri};

use super::{
    SharedApp,
    extract::{Agent, Parameters},
    openapi::{
        answers,
        parameters::{AgentPath, Paging},
    },
    page,
    problem::Problem,
};
use crate::recall::window::{WindowReply, window};

/// Shows the window: whole exchanges, so that no tool result is without its call.
#[utoipa::path(
    get, path = "/v1/agents/{id}/window", operation_id = "get_window", tag = "history",
    params(AgentPath, Paging),
    responses((status = 200, description = "The newest exchanges before the cursor, in order.", body = WindowReply),
        answers::Always, answers::OfAgent),
)]
pub(super) async fn read(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    uri: Uri,
) -> Result<Json<WindowReply>, Problem> {
    let parameters = Parameters::read(&uri, &["limit", "cursor"])?;
    let limit = page::limit(&parameters)?;
    let before = parameters.integer("cursor", 1..=i64::MAX)?;
    let found = window(app.parts.store.as_ref(), &agent, before, limit).await?;
    found.map(Json).ok_or_else(|| Problem::unknown_agent(&agent))
}
