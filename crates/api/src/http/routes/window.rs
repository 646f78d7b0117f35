//! `GET /v1/agents/{id}/window`: shows what the model sees verbatim.

use axum::{Json, extract::State, http::Uri};
use serde::Serialize;

use crate::{
    http::{
        SharedApp,
        openapi::{
            answers,
            parameters::{AgentPath, Paging},
        },
        request::{
            extract::{Agent, Parameters},
            page,
        },
        response::problem::Problem,
    },
    recall::window::{WindowReply, window},
};
use recapd_core::domain::cursor::{Cursor, PagedList};

/// A page of the window.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = WindowPage)]
pub(super) struct WindowPage {
    #[serde(flatten)]
    window: WindowReply,
    /// The cursor of the page with older exchanges; null on the last.
    next_cursor: Option<Cursor>,
}

/// Shows the window in whole exchanges, so that every tool result comes with its call.
#[utoipa::path(
    get, path = "/v1/agents/{id}/window", operation_id = "get_window", tag = "history",
    params(AgentPath, Paging),
    responses((status = 200, description = "The newest exchanges before the cursor, in order, with at most 8 MB of payloads. Of an exchange that is too big for any page, only the first messages are returned, with a pointer to the rest.", body = WindowPage),
        answers::OfAgent),
)]
pub(super) async fn read(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    uri: Uri,
) -> Result<Json<WindowPage>, Problem> {
    let parameters = Parameters::read(&uri, &["limit", "cursor"])?;
    let limit = page::limit(&parameters)?;
    let list = PagedList::Window(&agent);
    let before = page::cursor(&parameters, list)?;
    let found = window(app.parts.store.as_ref(), &agent, before, limit).await?;
    let window = found.ok_or_else(|| Problem::unknown_agent(&agent))?;
    Ok(Json(WindowPage { next_cursor: page::next(list, window.next_before), window }))
}
