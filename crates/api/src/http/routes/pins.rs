//! `POST /v1/agents/{id}/pin` and `unpin`, which clients can also append as messages, and `GET /v1/agents/{id}/pins`.

use axum::{
    Json,
    extract::{Request, State},
    http::Uri,
};
use serde::{Deserialize, Serialize};

use super::{agents::existing_agent, lineage};
use crate::{
    context::pins::{self, PinsReply},
    http::{
        SharedApp,
        openapi::{answers, parameters::AgentPath},
        request::extract::{Agent, Parameters},
        response::problem::Problem,
    },
};
use recapd_core::domain::{agent::AgentId, lineage::Step};

/// The body of a request to pin or unpin.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = PinBody)]
struct PinRequest {
    seq: i64,
}

/// The result of a pin or an unpin.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Pinned)]
pub(super) struct PinReply {
    seq: i64,
    pinned: bool,
    /// The first exchange of the window. Contexts hold copies of pinned messages from earlier exchanges.
    first_exchange: i64,
}

/// Keeps a message in view.
#[utoipa::path(
    post, path = "/v1/agents/{id}/pin", operation_id = "pin", tag = "lineage",
    params(AgentPath),
    request_body(content = PinRequest, example = json!({"seq": 12})),
    responses((status = 200, description = "The result.", body = PinReply),
        answers::OfAgent, answers::Conflicting, answers::WithBody),
)]
pub(super) async fn pin(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    request: Request,
) -> Result<Json<PinReply>, Problem> {
    let PinRequest { seq } = lineage::read(&app, request, r#"{"seq": 12}"#).await?;
    take_step(&app, agent, Step::Pin(seq), (seq, true)).await
}

/// Unpins a message.
#[utoipa::path(
    post, path = "/v1/agents/{id}/unpin", operation_id = "unpin", tag = "lineage",
    params(AgentPath),
    request_body(content = PinRequest, example = json!({"seq": 12})),
    responses((status = 200, description = "The result.", body = PinReply),
        answers::OfAgent, answers::Conflicting, answers::WithBody),
)]
pub(super) async fn unpin(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    request: Request,
) -> Result<Json<PinReply>, Problem> {
    let PinRequest { seq } = lineage::read(&app, request, r#"{"seq": 12}"#).await?;
    take_step(&app, agent, Step::Unpin(seq), (seq, false)).await
}

/// Lists pinned and important messages.
#[utoipa::path(
    get, path = "/v1/agents/{id}/pins", operation_id = "list_pins", tag = "lineage",
    params(AgentPath),
    responses((status = 200, description = "The messages that stay in view, even after their exchanges have left the window.", body = PinsReply),
        answers::OfAgent),
)]
pub(super) async fn list(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    uri: Uri,
) -> Result<Json<PinsReply>, Problem> {
    Parameters::read(&uri, &[])?;
    let row = existing_agent(&app, &agent).await?;
    let configured = &app.settings.configured;
    let in_force = row.settings.expanded(&configured.basis);
    let max_tokens = in_force.context_options(configured.context).copies_max_tokens();
    Ok(Json(pins::pins(app.parts.store.as_ref(), &row, max_tokens).await?))
}

async fn take_step(
    app: &SharedApp,
    agent: AgentId,
    step: Step,
    (seq, pinned): (i64, bool),
) -> Result<Json<PinReply>, Problem> {
    let ingestor = app.parts.ingestor.clone();
    let outcome = app.see_through(async move { ingestor.step(&agent, &step).await }).await?;
    Ok(Json(PinReply { seq, pinned, first_exchange: outcome.first_exchange }))
}
