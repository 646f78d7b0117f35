//! `POST /v1/agents/{id}/compact`: a text in place of a conversation, for hosts that compact.

use axum::{
    Json,
    extract::State,
    http::Uri,
    response::{IntoResponse as _, Response},
};

use super::context::ContextSource;
use crate::{
    context::CompactReply,
    http::{
        SharedApp,
        openapi::{answers, parameters::AgentPath},
        request::extract::{Agent, Parameters},
        response::problem::Problem,
    },
};
use recapd_platform::threads;

/// Writes a text that stands for the whole conversation, from memory and the window, without a model.
#[utoipa::path(
    post, path = "/v1/agents/{id}/compact", operation_id = "compact", tag = "messages",
    params(AgentPath),
    responses((status = 200, description = "The text.", body = CompactReply),
        answers::Always,
        answers::OfAgent,
        answers::Conflicting),
)]
pub(super) async fn compact(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    uri: Uri,
) -> Result<Response, Problem> {
    Parameters::read(&uri, &[])?;
    let ContextSource {
        material,
        defaults,
        counter,
        share,
    } = ContextSource::of(&app, &agent, None).await?;
    let write = move || (material.compact(defaults, counter.as_ref()), share);
    let (reply, share) = threads::computed("writing a compaction", write).await?;
    Ok(share.until_sent(Json(reply).into_response()).await)
}
