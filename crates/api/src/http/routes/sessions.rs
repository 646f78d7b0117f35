//! `POST /v1/agents/{id}/sessions/end`: ends a session. Its pending exchanges become urgent.

use axum::{Json, extract::State, http::Uri};
use serde::Serialize;

use crate::http::{
    SharedApp,
    openapi::{answers, parameters::AgentPath},
    request::extract::{Agent, Parameters},
    response::problem::Problem,
};

/// The result of ending a session.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = SessionEnded)]
pub(super) struct SessionEndReply {
    session: i64,
    /// True if exchanges were pending. They are summarised now.
    queued: bool,
}

/// Ends the running session.
#[utoipa::path(
    post, path = "/v1/agents/{id}/sessions/end", operation_id = "end_session", tag = "lineage",
    params(AgentPath),
    responses((status = 200, description = "The result.", body = SessionEndReply),
        answers::OfAgent),
)]
pub(super) async fn end(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    uri: Uri,
) -> Result<Json<SessionEndReply>, Problem> {
    Parameters::read(&uri, &[])?;
    let ingestor = app.parts.ingestor.clone();
    let ended = app.see_through(async move { ingestor.end_session(&agent).await }).await?;
    Ok(Json(SessionEndReply { session: ended.session, queued: ended.enqueued.is_some() }))
}
