//! A text in place of a conversation: `POST /v1/agents/{id}/compact` for hosts that compact, `GET /v1/agents/{id}/handoff` to go
//! on elsewhere.

use axum::{extract::State, http::Uri, response::Response};

use super::context::ContextSource;
use crate::{
    context::{CompactReply, ContextMaterial, HANDOFF_TOKENS, HANDOFF_TOKENS_MAX, HANDOFF_TOKENS_MIN},
    http::{
        SharedApp,
        openapi::{answers, parameters::AgentPath},
        request::extract::{Agent, Parameters},
        response::problem::Problem,
    },
};

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
    let source = ContextSource::of(&app, &agent, None).await?;
    source
        .answer("writing a compaction", ContextMaterial::compact)
        .await
}

/// Writes one document to go on with elsewhere.
///
/// It names the files that the window is about, and holds the summary, the newest part as it was said, and how to look things up.
#[utoipa::path(
    get, path = "/v1/agents/{id}/handoff", operation_id = "hand_off", tag = "summary",
    params(AgentPath,
        ("max_tokens" = Option<i64>, Query, minimum = 1_000, maximum = 1_000_000, description = "The most tokens, by default 20,000. The newest exchange, which is never left out, may take more.")),
    responses((status = 200, description = "The document, as Markdown in `text`.", body = CompactReply),
        answers::Always,
        answers::OfAgent,
        answers::Conflicting),
)]
pub(super) async fn hand_off(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    uri: Uri,
) -> Result<Response, Problem> {
    let parameters = Parameters::read(&uri, &["max_tokens"])?;
    let asked = parameters.integer("max_tokens", HANDOFF_TOKENS_MIN..=HANDOFF_TOKENS_MAX)?;
    let max_tokens = asked.unwrap_or(HANDOFF_TOKENS);
    let source = ContextSource::of(&app, &agent, None).await?;
    source
        .answer("writing a handoff", move |material, defaults, counter| {
            material.handoff(max_tokens, defaults, counter)
        })
        .await
}
